package probe

import (
	"bufio"
	"context"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// tick is the resolution of /proc/uptime, in seconds.
const tick = 0.01

// answerTime is how long a machine may take to answer what is only asked beside a trial.
const answerTime = 5 * time.Second

// clockScript answers every line with the time since boot. It runs on one kept command, so that a
// reading costs one round trip and no new process.
const clockScript = `while read -r _; do read -r t _ </proc/uptime || exit 1; echo "$t"; done`

// A reading bounds the offset of a machine's clock against this host's, both counted from
// somewhere: machine = host + offset.
type reading struct {
	ok     bool
	at     time.Time // of the host, monotonic; middle of the reading
	base   time.Time // what host times are counted from
	lo, hi float64   // s, bounds of the offset
}

// readClock asks m for its time until the offset is known well. A machine that has no /proc/uptime,
// or is gone, yields a reading that is not ok.
//
// Each answer u was true at some moment between question s and answer r, and the clock shows full
// ticks only, so that the offset lies in [u − r, u + tick − s] (the bracketing of NTP, RFC 5905, with
// a coarse clock). The bounds of many answers intersect; once they cross the edge of a tick they
// are a round trip apart.
func readClock(ctx context.Context, m iotax.Machine) reading {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	questions, ask := io.Pipe()
	answer, answers := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Its error does not matter: what the answers do not say is not known.
		_ = m.Run(ctx, &iotax.Cmd{Args: []string{"sh", "-c", clockScript}, Stdin: questions, Stdout: answers})
		answers.Close()
		questions.Close()
	}()
	defer func() {
		ask.Close()
		answer.Close()
		cancel() // the loop over there ends with its input; this is for a machine that hangs
		<-done
	}()
	base := time.Now()
	read := reading{base: base, lo: math.Inf(-1), hi: math.Inf(1)}
	in := bufio.NewReader(io.LimitReader(answer, 1<<20)) // a thousand times what the answers are
	const enough = 60 * time.Millisecond                 // some ticks, or some round trips over a slow line
	for n := 0; ; n++ {
		s := time.Since(base)
		if n >= 4 && (s > enough || read.hi-read.lo < 0.2e-3) {
			break
		}
		if _, err := io.WriteString(ask, "\n"); err != nil {
			break
		}
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		r := time.Since(base)
		u, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			break
		}
		if n == 0 {
			continue // this one waited for the shell to start
		}
		read.lo = max(read.lo, u-r.Seconds())
		read.hi = min(read.hi, u+tick-s.Seconds())
		read.ok = true
	}
	// Bounds that cross say that the clock did not run steadily meanwhile.
	if read.lo > read.hi {
		read.lo, read.hi = read.hi, read.lo
	}
	read.at = base.Add(time.Since(base) / 2)
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
		{Name: "clock.ratio", Value: 1 + (lo+hi)/2/passed, Unit: iotax.RatioUnit},
		{Name: "clock.error", Value: (hi - lo) / 2 / passed, Unit: iotax.RatioUnit},
	}
}
