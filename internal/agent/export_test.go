package agent

import "io/fs"

// SetPrograms makes l take its agents from dir in place of the embedded ones.
func (l *Link) SetPrograms(dir fs.FS) {
	l.programs = func() ([]program, error) { return programsOf(dir) }
}
