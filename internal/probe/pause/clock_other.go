//go:build !linux

package pause

import "time"

// hostClock reads Go's monotonic clock, and the time that the host slept, if the system records it.
type hostClock struct{ begun time.Time }

func newClock() clock { return &hostClock{time.Now()} }

func (c *hostClock) begin()                {}
func (c *hostClock) end()                  {}
func (c *hostClock) sleep(d time.Duration) { time.Sleep(d) }
func (c *hostClock) waits() waits          { return waits{} } // not recorded

func (c *hostClock) times() (ran, asleep time.Duration) {
	ran = time.Since(c.begun)
	return ran, slept(ran)
}
