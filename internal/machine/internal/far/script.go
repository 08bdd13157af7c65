// Package far starts programs through a POSIX sh on a channel that carries standard streams, where the words of a command line may
// change: an SSH session, limactl shell.
package far

import (
	"strings"

	"iotax"
)

// Bootstrap is what the login shell is asked to run, the same for every program: it reads one line
// from standard input and evaluates it. It is so written that fish and csh take it too, for any
// login shell may be there; "exec" keeps that shell from staying in between. The program's words
// come over standard input, where their length has no limit but that of its arguments.
const Bootstrap = `exec sh -c '` + Script + `'`

// Script is Bootstrap's script alone, for channels that take an argument vector.
const Script = `IFS= read -r iotax_s && eval "$iotax_s"`

// newline sets the variable that quote uses.
const newline = `iotax_n=$(printf "\nx"); iotax_n=${iotax_n%x}; `

// Exec is a line for Bootstrap that replaces the shell by args, with its newline.
func Exec(args []string) string {
	line := newline + "exec"
	for _, a := range args {
		line += " " + quote(a)
	}
	return line + "\n"
}

// quote quotes s for sh on one line: newlines come from a variable.
func quote(s string) string {
	parts := strings.Split(s, "\n")
	for i, p := range parts {
		parts[i] = iotax.Quote(p)
	}
	return strings.Join(parts, `"$iotax_n"`)
}
