package probe

import (
	"context"
	"math"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// answerTime limits the time for reading clocks, counters or facts.
const answerTime = 5 * time.Second

// bootClock returns the time since a machine booted.
var bootClock = agent.New("read the clock", func(context.Context, struct{}) (time.Duration, error) { return sinceBoot() })

// A reading bounds the offset of a machine's clock from this host's clock (machine = host + offset). Both clocks have
// arbitrary origins.
type reading struct {
	ok     bool
	at     time.Time // host time at the middle of the reading, monotonic
	base   time.Time // origin of host times
	lo, hi float64   // s, bounds of the offset
}

// readClock reads m's boot clock several times, until the offset is precise enough or a limit is reached. The reading
// is not ok if m has no boot clock or does not answer.
func readClock(ctx context.Context, m iotax.Machine) reading {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return readClockOf(func() (time.Duration, error) { return bootClock.On(ctx, m, struct{}{}) })
}

// readClockOf reads a clock by calling `ask`. If a request is sent at host time s, and its answer u arrives at host
// time r, the clock showed u between s and r, so the offset is in [u − r, u − s] (as in NTP, RFC 5905). The bounds are
// the intersection over several answers.
func readClockOf(ask func() (time.Duration, error)) reading {
	if _, err := ask(); err != nil { // ignore the first answer, because the agent may have to start
		return reading{}
	}
	base := time.Now()
	var end time.Duration // time of the last answer
	read := reading{base: base, lo: math.Inf(-1), hi: math.Inf(1)}
	const enough = 60 * time.Millisecond // a few round trips over a slow network
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
	// The bounds cross if the clock did not run steadily: swap them.
	if read.lo > read.hi {
		read.lo, read.hi = read.hi, read.lo
	}
	read.at = base.Add(end / 2)
	return read
}

// compare returns clock.ratio (1 plus the change of the offset per elapsed time) and clock.error, its uncertainty. It
// returns nil unless both readings are ok and b is the later one.
func (a reading) compare(b reading) []iotax.Value {
	passed := b.at.Sub(a.at).Seconds()
	if !a.ok || !b.ok || passed <= 0 {
		return nil
	}
	// Convert both offsets to the same origin.
	shift := b.base.Sub(a.base).Seconds()
	lo, hi := b.lo-shift-a.hi, b.hi-shift-a.lo
	return []iotax.Value{
		{Name: iotax.ValueClockRatio, Value: 1 + (lo+hi)/2/passed, Unit: iotax.RatioUnit},
		{Name: iotax.ValueClockError, Value: (hi - lo) / 2 / passed, Unit: iotax.RatioUnit},
	}
}
