package agent

import "io/fs"

// SetPrograms has the agents come from a directory, as those that are embedded do.
func (l *Link) SetPrograms(dir fs.FS) {
	l.programs = func() ([]program, error) { return programsOf(dir) }
}
