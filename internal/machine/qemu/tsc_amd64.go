package qemu

import (
	"sync"
	"time"
)

func rdtsc() uint64

// TSCKHz measures how fast this host's time stamp counter runs, in kHz. Under emulation a guest reads that
// very counter, but finds its rate out by comparison with an emulated timer, which can go
// badly wrong on a busy host; so it is told (tsc_early_khz).
//
// /proc/cpuinfo will not do: its MHz follow the governor.
var TSCKHz = sync.OnceValue(func() int64 { return measureTSC(5 * time.Millisecond) })

func measureTSC(window time.Duration) int64 {
	// The shortest of a few windows was disturbed least at its ends.
	best, rate := time.Duration(1<<62), 0.0
	for range 3 {
		t0, c0 := time.Now(), rdtsc()
		time.Sleep(window)
		c1, d := rdtsc(), time.Since(t0)
		if d < best {
			best, rate = d, float64(c1-c0)/d.Seconds()
		}
	}
	return int64(rate/1000 + 0.5)
}
