// Package far starts programs through a POSIX sh, on a channel that may change the words of a command line, such as an
// SSH session or limactl shell.
package far

import (
	"strings"

	"iotax"
)

// Bootstrap is the command line for the login shell. It reads one line from standard input and evaluates it. fish and
// csh also accept it. The program's arguments come over standard input, so only the kernel's limit on arguments
// applies.
const Bootstrap = `exec sh -c '` + Script + `'`

// Script is the script in Bootstrap, for channels that take an argument vector.
const Script = `IFS= read -r iotax_s && eval "$iotax_s"`

// newline is shell code that sets the variable for newlines (see quote).
const newline = `iotax_n=$(printf "\nx"); iotax_n=${iotax_n%x}; `

// Exec returns the line for Bootstrap that replaces the shell with args. The line ends with a newline.
func Exec(args []string) string {
	line := newline + "exec"
	for _, a := range args {
		line += " " + quote(a)
	}
	return line + "\n"
}

// quote quotes s for sh on one line. It replaces each newline with a variable.
func quote(s string) string {
	parts := strings.Split(s, "\n")
	for i, p := range parts {
		parts[i] = iotax.Quote(p)
	}
	return strings.Join(parts, `"$iotax_n"`)
}
