package generate

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// flush makes the data of a file durable (fdatasync).
func flush(f *os.File) error { return again(func() error { return unix.Fdatasync(int(f.Fd())) }) }

func preallocate(f *os.File, size int64) error {
	err := again(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(size)
	}
	return err
}

// cpuTime returns the CPU time of this thread. The goroutine must be locked to it.
func cpuTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(t.Nano())
}
