// Package pause notices when this process did not run: its host was suspended, or it was stopped (by a signal, in a
// container that was frozen, on a virtual machine that got no CPU).
package pause

import (
	"fmt"
	"sync"
	"time"
)

const (
	// tick is how often a Watcher looks; what it says of lengths is right to half of it.
	tick = 100 * time.Millisecond

	// Least is the length from which on a pause is told; how it was chosen is in docs/dev/method.md.
	Least = time.Second
)

// A Pause is a time in which this process did not run.
type Pause struct {
	At        time.Time // about when it began
	Length    time.Duration
	Suspended bool // the host slept, which its clocks tell; else the process was stopped
}

func (p Pause) String() string {
	what := "iotax did not run"
	if p.Suspended {
		what = "this host was suspended"
	}
	length := p.Length.Round(tick)
	if length >= time.Minute {
		length = length.Round(time.Second)
	}
	return fmt.Sprintf("%s for %s, from %s UTC on", what, length, p.At.UTC().Format("15:04:05"))
}

// A reading is what the clocks say at one moment.
type reading struct {
	ran   time.Duration // since some moment, without the time in which the host slept
	slept time.Duration // since some moment, in which the host slept
	waits waits
}

// Waits are how long the threads of this process were ready to run and had no CPU: the one that ticks, and the others by
// their ids. They are empty where that is not known.
type waits struct {
	own    time.Duration
	others map[int]time.Duration
}

// A clock is that of this host; tests have their own.
type clock interface {
	// begin is called once, in the goroutine that ticks.
	begin()
	end()
	sleep(d time.Duration)
	times() (ran, slept time.Duration) // from any goroutine
	waits() waits
}

// A Watcher notices pauses from its beginning on. Its methods may be called from any goroutine.
type Watcher struct {
	clock clock

	mu     sync.Mutex
	ticked *sync.Cond // after each tick
	last   reading
	pauses []Pause
	closed bool
}

// Watch begins to look out for pauses until Close is called.
func Watch() *Watcher { return watch(newClock()) }

func watch(c clock) *Watcher {
	w := &Watcher{clock: c}
	w.ticked = sync.NewCond(&w.mu)
	begun := make(chan struct{})
	go func() {
		c.begin()
		defer c.end()
		w.last = w.read()
		close(begun)
		for {
			c.sleep(tick)
			now := w.read()
			w.mu.Lock()
			if p, ok := between(w.last, now); ok {
				p.At = time.Now().Add(-p.Length)
				w.pauses = append(w.pauses, p)
			}
			w.last = now
			closed := w.closed
			w.mu.Unlock()
			w.ticked.Broadcast()
			if closed {
				return
			}
		}
	}()
	<-begun
	return w
}

func (w *Watcher) read() reading {
	ran, slept := w.clock.times()
	return reading{ran, slept, w.clock.waits()}
}

// between is what lies between two ticks, if it is a pause. A process that only waits for a CPU is late as well, for
// seconds where it is nice and others are not; that is none. The thread that ticks then waits itself, or for one that does: Go's
// scheduler has no more places than there are CPUs, and a thread that waits for a CPU keeps its place.
func between(a, b reading) (p Pause, ok bool) {
	slept := b.slept - a.slept
	// Of the tick a part had passed when the process was stopped: half of it, for all that is known.
	stopped := max(0, b.ran-a.ran-(b.waits.own-a.waits.own)-tick/2)
	var held time.Duration
	for id, w := range b.waits.others {
		held = max(held, w-a.waits.others[id])
	}
	switch {
	case slept >= Least: // processes are stopped some time before the host sleeps, and go on some time after
		return Pause{Length: slept + stopped, Suspended: true}, true
	case stopped-held >= Least:
		return Pause{Length: stopped}, true
	}
	return Pause{}, false
}

// Take returns the pauses that ended since it was last called. One that has just ended is among them: where the tick that is
// to tell of it is late, Take waits for it.
func (w *Watcher) Take() []Pause {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && w.late() {
		w.ticked.Wait()
	}
	taken := w.pauses
	w.pauses = nil
	return taken
}

func (w *Watcher) late() bool {
	ran, slept := w.clock.times()
	return ran-w.last.ran >= Least/2 || slept-w.last.slept >= Least/2
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.ticked.Broadcast()
}
