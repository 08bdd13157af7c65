// Package suite contains the plans that are embedded in the binary.
package suite

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names returns the names of the suites in alphabetical order.
func Names() []string {
	entries, _ := fs.ReadDir(files, ".") // reading an embedded directory cannot fail
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Source returns the plan file of a suite. The bool is false if the suite does not exist.
func Source(name string) ([]byte, bool) {
	src, err := files.ReadFile(name + ".yaml")
	return src, err == nil
}

// Doc returns the first comment line of a suite, which describes what the suite measures.
func Doc(name string) string {
	src, _ := Source(name)
	line, _, _ := strings.Cut(string(src), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "#"))
}
