package qemu

import (
	"sync"
	"time"
)

func rdtsc() uint64

// TSCKHz returns the measured rate of this host's time stamp counter in kHz. An emulated guest reads the same counter,
// but calibrates it with an emulated timer, which can be badly wrong on a busy host. So the guest gets the rate in
// tsc_early_khz. The MHz value in /proc/cpuinfo follows the frequency governor and cannot be used.
var TSCKHz = sync.OnceValue(func() int64 { return measureTSC(5 * time.Millisecond) })

func measureTSC(window time.Duration) int64 {
	// The shortest of three windows has the least disturbance.
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
