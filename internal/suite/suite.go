// Package suite holds the plans that ship inside the binary.
package suite

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names lists the suites in alphabetical order.
func Names() []string {
	entries, _ := fs.ReadDir(files, ".") // an embedded directory cannot fail to be read
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Source returns the plan file of a suite, and whether there is one of that name.
func Source(name string) ([]byte, bool) {
	src, err := files.ReadFile(name + ".yaml")
	return src, err == nil
}

// Doc returns the first comment line of a suite: what it answers.
func Doc(name string) string {
	src, _ := Source(name)
	line, _, _ := strings.Cut(string(src), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "#"))
}
