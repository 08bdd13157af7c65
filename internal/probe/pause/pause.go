// Package pause detects periods in which this process did not run: its host was suspended, or the process was stopped
// (by a signal, in a frozen container, or on a virtual machine without CPU time).
package pause

import (
	"fmt"
	"sync"
	"time"
)

const (
	// tick is the interval of a Watcher. The length of a pause is accurate to half a tick.
	tick = 100 * time.Millisecond

	// Least is the length of the shortest reported pause. docs/dev/method.md explains the choice.
	Least = time.Second
)

// A Pause is a period in which this process did not run.
type Pause struct {
	At        time.Time // approximate start
	Length    time.Duration
	Suspended bool // the clocks show that the host slept; otherwise the process was stopped
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

// A reading is the state of the clocks at one moment.
type reading struct {
	ran   time.Duration // since an arbitrary moment, without the time that the host slept
	slept time.Duration // time that the host has slept since an arbitrary moment
	waits waits
}

// waits contains the times that threads of this process have waited for a CPU: `own` is the time of the thread that
// ticks, and `others` are the times of the other threads by thread id. It is empty if the times are unknown.
type waits struct {
	own    time.Duration
	others map[int]time.Duration
}

// A clock reads the clocks of this host. Tests replace it.
type clock interface {
	// begin is called once, in the goroutine that ticks.
	begin()
	end()
	sleep(d time.Duration)
	times() (ran, slept time.Duration) // called from any goroutine
	waits() waits
}

// A Watcher detects pauses. Its methods are safe for concurrent use.
type Watcher struct {
	clock clock

	mu     sync.Mutex
	ticked *sync.Cond // signaled after each tick
	last   reading
	pauses []Pause
	closed bool
}

// Watch starts a Watcher, which detects pauses until Close is called.
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

// between returns the pause between two ticks, if there was one. A process that waits for a CPU also ticks late. That
// is not a pause, so `between` subtracts the time in which the ticking thread waited for a CPU. Go's scheduler may also
// have made that thread wait for another thread that waited for a CPU. So a late tick counts as a stop only if at least
// Least remains after the longest wait of another thread is subtracted.
func between(a, b reading) (p Pause, ok bool) {
	slept := b.slept - a.slept
	// When the process stopped, a part of the tick had already passed: half of it on average.
	stopped := max(0, b.ran-a.ran-(b.waits.own-a.waits.own)-tick/2)
	var held time.Duration
	for id, w := range b.waits.others {
		held = max(held, w-a.waits.others[id])
	}
	switch {
	case slept >= Least: // add stopped, because the kernel stops processes before the host sleeps, and continues them after it wakes
		return Pause{Length: slept + stopped, Suspended: true}, true
	case stopped-held >= Least:
		return Pause{Length: stopped}, true
	}
	return Pause{}, false
}

// Take returns the pauses that ended since the last call. If the next tick is late, it may detect a pause that has just
// ended, so Take waits for this tick.
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

// Close stops the Watcher.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.ticked.Broadcast()
}
