package probe

import (
	"bytes"
	"context"
	"strings"

	"iotax"
)

// prologue defines what the scripts of this package print: sections, each under a line that begins
// with the ASCII record separator, which no file they read contains. The scripts ask no more of a
// machine than a POSIX shell and what busybox has.
const prologue = `LC_ALL=C; export LC_ALL
s() { printf '\036%s\n' "$1"; }
f() { if [ -r "$2" ] && [ ! -d "$2" ]; then s "$1"; cat "$2" 2>/dev/null; fi; }
`

// A section is what a script printed under one name.
type section struct{ name, text string }

// sections splits the output of a script. What stands before the first separator is not its own (a
// login banner) and is left out.
func sections(out []byte) []section {
	var list []section
	parts := bytes.Split(out, []byte{0o36})
	for _, p := range parts[1:] {
		name, text, _ := strings.Cut(string(p), "\n")
		list = append(list, section{name, text})
	}
	return list
}

// gathered is the sections by name; of several with one name, the last.
func gathered(list []section) map[string]string {
	m := make(map[string]string, len(list))
	for _, s := range list {
		m[s.name] = s.text
	}
	return m
}

// gather runs script on m with args as $1, $2…
func gather(ctx context.Context, m iotax.Machine, script string, args ...string) ([]section, error) {
	out, err := iotax.Output(ctx, m, append([]string{"sh", "-c", prologue + script, "sh"}, args...)...)
	if err != nil {
		return nil, err
	}
	return sections(out), nil
}

// oneLine is the text with its white space squeezed: facts are shown in tables.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// set stores a fact that is known.
func set(facts map[string]string, name, value string) {
	if value = oneLine(value); value != "" {
		facts[name] = value
	}
}
