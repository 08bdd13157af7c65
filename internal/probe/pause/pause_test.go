package pause

import (
	"sync"
	"testing"
	"time"
)

const second = time.Second

func TestBetweenTicks(t *testing.T) {
	was := reading{ran: 1000 * second, slept: 50 * second, waits: waits{3 * second, map[int]time.Duration{7: second, 8: second}}}
	for name, c := range map[string]struct {
		change func(r *reading)
		want   Pause
	}{
		"nothing":               {func(r *reading) { r.ran += tick }, Pause{}},
		"a late tick":           {func(r *reading) { r.ran += 900 * time.Millisecond }, Pause{}},
		"stopped":               {func(r *reading) { r.ran += 2*second + tick/2 }, Pause{Length: 2 * second}},
		"no CPU for the thread": {func(r *reading) { r.ran += 5 * second; r.waits.own += 49 * second / 10 }, Pause{}},
		"no CPU for another": {func(r *reading) {
			r.ran += 5 * second
			r.waits.others = map[int]time.Duration{7: second, 8: 6 * second}
		}, Pause{}},
		"no CPU for one that is new":     {func(r *reading) { r.ran += 5 * second; r.waits.others = map[int]time.Duration{9: 5 * second} }, Pause{}},
		"stopped, then no CPU":           {func(r *reading) { r.ran += 3*second + tick/2; r.waits.own += second }, Pause{Length: 2 * second}},
		"suspended":                      {func(r *reading) { r.ran += tick; r.slept += 3600 * second }, Pause{Length: 3600*second + tick/2, Suspended: true}},
		"suspended, stopped before that": {func(r *reading) { r.ran += 2*second + tick/2; r.slept += 10 * second }, Pause{Length: 12 * second, Suspended: true}},
		"a clock that was read late":     {func(r *reading) { r.ran += tick; r.slept += 10 * time.Millisecond }, Pause{}},
	} {
		is := was
		c.change(&is)
		if got, ok := between(was, is); got != c.want || ok != (c.want.Length > 0) {
			t.Errorf("%s: %+v, %t; want %+v", name, got, ok, c.want)
		}
	}
}

// fakeClock advances only when `pass` is called. Each value sent to `step` causes a tick.
type fakeClock struct {
	mu         sync.Mutex
	ran, slept time.Duration
	step, done chan struct{}
}

func (c *fakeClock) begin()              {}
func (c *fakeClock) end()                { close(c.done) }
func (c *fakeClock) sleep(time.Duration) { <-c.step }
func (c *fakeClock) waits() waits        { return waits{} }
func (c *fakeClock) times() (time.Duration, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran, c.slept
}

func (c *fakeClock) pass(ran, slept time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran, c.slept = c.ran+ran, c.slept+slept
}

// If the tick that detects a pause is late, Take waits for the tick and returns the pause.
func TestTakeWaitsForALateTick(t *testing.T) {
	c := &fakeClock{step: make(chan struct{}), done: make(chan struct{})}
	w := watch(c)
	c.pass(tick, 0)
	if got := w.Take(); len(got) != 0 {
		t.Errorf("nothing happened: %v", got)
	}
	for _, length := range []struct{ stopped, slept time.Duration }{{2*second + tick/2, 0}, {tick, 60 * second}} {
		c.pass(length.stopped, length.slept)
		answer := make(chan []Pause)
		go func() { answer <- w.Take() }()
		select {
		case got := <-answer:
			t.Fatalf("answered before the tick: %v", got)
		case <-time.After(50 * time.Millisecond):
		}
		c.step <- struct{}{}
		if got := <-answer; len(got) != 1 || got[0].Suspended != (length.slept > 0) || got[0].At.After(time.Now().Add(-got[0].Length)) {
			t.Errorf("after %v: %v", length, got)
		}
		if got := w.Take(); len(got) != 0 {
			t.Errorf("told twice: %v", got)
		}
	}
	w.Close()
	c.pass(time.Hour, 0)
	c.step <- struct{}{}
	<-c.done
	w.Take() // must not block
}

func TestString(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		p    Pause
		want string
	}{
		{Pause{At: at, Length: 2049 * time.Millisecond}, "iotax did not run for 2s, from 03:04:05 UTC on"},
		{Pause{At: at, Length: 3725*second + 300*time.Millisecond, Suspended: true}, "this host was suspended for 1h2m5s, from 03:04:05 UTC on"},
	} {
		if got := c.p.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
