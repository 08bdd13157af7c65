package probe

import (
	"context"
	"math"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// answerTime is how long a machine may take to answer what is only asked beside a trial.
const answerTime = 5 * time.Second

// bootClock is the time since a machine booted.
var bootClock = agent.New("read the clock", func(context.Context, struct{}) (time.Duration, error) { return sinceBoot() })

// A reading bounds the offset of a machine's clock against this host's, both counted from
// somewhere: machine = host + offset.
type reading struct {
	ok     bool
	at     time.Time // of the host, monotonic; middle of the reading
	base   time.Time // what host times are counted from
	lo, hi float64   // s, bounds of the offset
}

// readClock asks m for its time until the offset is known well. A machine that has no such clock,
// or is gone, yields a reading that is not ok.
func readClock(ctx context.Context, m iotax.Machine) reading {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return readClockOf(func() (time.Duration, error) { return bootClock.On(ctx, m, struct{}{}) })
}

// readClockOf reads the clock that ask reads. Each answer u was true at some moment between question s and answer r, so that
// the offset lies in [u − r, u − s] (the bracketing of NTP, RFC 5905). The bounds of several answers intersect.
func readClockOf(ask func() (time.Duration, error)) reading {
	if _, err := ask(); err != nil { // the agent may have to start: this answer is not used
		return reading{}
	}
	base := time.Now()
	var end time.Duration // of the last answer
	read := reading{base: base, lo: math.Inf(-1), hi: math.Inf(1)}
	const enough = 60 * time.Millisecond // some round trips over a slow line
	for n := 0; ; n++ {
		s := time.Since(base)
		if n >= 3 && (n >= 10 || s > enough || read.hi-read.lo < 0.2e-3) {
			break
		}
		u, err := ask()
		if err != nil {
			break
		}
		r := time.Since(base)
		read.lo = max(read.lo, (u - r).Seconds())
		read.hi = min(read.hi, (u - s).Seconds())
		read.ok, end = true, r
	}
	// Bounds that cross say that the clock did not run steadily meanwhile.
	if read.lo > read.hi {
		read.lo, read.hi = read.hi, read.lo
	}
	read.at = base.Add(end / 2)
	return read
}

// compare returns clock.ratio and clock.error between two readings: the ratio is 1 + the change of
// the offset over the time that passed, and its error the bounds' part of that.
func (a reading) compare(b reading) []iotax.Value {
	passed := b.at.Sub(a.at).Seconds()
	if !a.ok || !b.ok || passed <= 0 {
		return nil
	}
	// Both offsets are brought to the same start of counting.
	shift := b.base.Sub(a.base).Seconds()
	lo, hi := b.lo-shift-a.hi, b.hi-shift-a.lo
	return []iotax.Value{
		{Name: iotax.ValueClockRatio, Value: 1 + (lo+hi)/2/passed, Unit: iotax.RatioUnit},
		{Name: iotax.ValueClockError, Value: (hi - lo) / 2 / passed, Unit: iotax.RatioUnit},
	}
}
