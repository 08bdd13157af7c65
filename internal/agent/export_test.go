package agent

import "io/fs"

// SetPrograms makes l take its agents from dir instead of the embedded files.
func (l *Link) SetPrograms(dir fs.FS) {
	l.programs = func() ([]program, error) { return programsOf(dir) }
}
