package agent

import "time"

// SetPatience sets how long a machine may be silent while an agent starts there.
func (l *Link) SetPatience(d time.Duration) { l.patience = d }
