//go:build unix

package object

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the CPU time that this process has used, or 0 if it is unknown.
func CPUTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(unix.TimevalToNsec(r.Utime) + unix.TimevalToNsec(r.Stime))
}
