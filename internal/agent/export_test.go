package agent

import (
	"io/fs"
	"time"
)

// SetPatience sets how long a machine may be silent while an agent starts there.
func (l *Link) SetPatience(d time.Duration) { l.patience = d }

// SetPrograms has the agents come from a directory, as those that are embedded do.
func (l *Link) SetPrograms(dir fs.FS) {
	l.programs = func() ([]program, error) { return programsOf(dir) }
}
