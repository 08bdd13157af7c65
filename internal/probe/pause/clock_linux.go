package pause

import (
	"bytes"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// hostClock reads CLOCK_BOOTTIME, which runs while the host sleeps, and CLOCK_MONOTONIC, which stops
// (clock_gettime(2)). It reads the waits of threads from schedstat (Documentation/scheduler/sched-stats.rst), which
// takes about 40 µs for 20 threads.
type hostClock struct{}

func newClock() clock { return hostClock{} }

// begin locks the goroutine to its thread. The thread sleeps in the kernel, where only a wait for a CPU delays it. The
// kernel records that wait.
func (hostClock) begin() { runtime.LockOSThread() }
func (hostClock) end()   { runtime.UnlockOSThread() }

func (hostClock) sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // if a signal ends the sleep early, the next tick is early
}

func (hostClock) times() (ran, slept time.Duration) {
	const quick = 10 * time.Millisecond
	for range 100 { // repeat if the thread did not run between the readings of the clocks
		ran = now(unix.CLOCK_MONOTONIC)
		slept = now(unix.CLOCK_BOOTTIME) - ran
		if now(unix.CLOCK_MONOTONIC)-ran < quick {
			break
		}
	}
	return ran, slept
}

func now(clock int32) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

func (hostClock) waits() waits {
	w := waits{others: map[int]time.Duration{}}
	dir, err := unix.Open("/proc/self/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return w
	}
	defer unix.Close(dir)
	own := unix.Gettid()
	entries := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(dir, entries)
		if err != nil || n <= 0 {
			return w
		}
		_, _, names := unix.ParseDirent(entries[:n], -1, nil)
		for _, name := range names {
			id, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			if d := waitOf(dir, name); id == own {
				w.own = d
			} else {
				w.others[id] = d
			}
		}
	}
}

// waitOf returns the time that a thread has waited for a CPU: the second number of its schedstat.
func waitOf(tasks int, thread string) time.Duration {
	f, err := unix.Openat(tasks, thread+"/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0 // the thread has ended, or the kernel does not record it
	}
	defer unix.Close(f)
	var text [128]byte
	n, err := unix.Read(f, text[:])
	if err != nil {
		return 0
	}
	if figures := bytes.Fields(text[:n]); len(figures) > 1 {
		if ns, err := strconv.ParseInt(string(figures[1]), 10, 64); err == nil {
			return time.Duration(ns)
		}
	}
	return 0
}
