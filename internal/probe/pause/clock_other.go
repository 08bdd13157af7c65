//go:build !linux

package pause

import "time"

// hostClock is Go's own monotonic clock and what the system has beside it.
type hostClock struct{ begun time.Time }

func newClock() clock { return &hostClock{time.Now()} }

func (c *hostClock) begin()                {}
func (c *hostClock) end()                  {}
func (c *hostClock) sleep(d time.Duration) { time.Sleep(d) }
func (c *hostClock) waits() waits          { return waits{} } // no such account

func (c *hostClock) times() (ran, asleep time.Duration) {
	ran = time.Since(c.begun)
	return ran, slept(ran)
}
