package fiojob

import (
	"errors"
	"io"
	"math"
	"net"
	"os/exec"
	"testing"
	"time"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/worktest"
)

// paused serves 16 MiB of memory over NBD. A byte p at the control socket pauses it, once the requests under way are done, and r lets
// it go on.
func paused(t *testing.T) (target *iotax.Target, control string) {
	t.Helper()
	dir := t.TempDir()
	socket, pid, control := dir+"/s", dir+"/pid", dir+"/control"
	return worktest.Serves(t, exec.Command("nbdkit", "--foreground", "--unix="+socket, "--pidfile="+pid, "--filter=pause", "memory", "16M", "pause-control="+control), socket, pid), control
}

// lateness returns a function that ends the watch and returns by how much the machine let a timer of 5 ms wait at most.
func lateness() (end func() time.Duration) {
	quit, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		const step = 5 * time.Millisecond
		late := time.Duration(0)
		for last := time.Now(); ; {
			select {
			case <-quit:
				worst <- late
				return
			case now := <-time.After(step):
				late, last = max(late, now.Sub(last)-step), now
			}
		}
	}()
	return func() time.Duration { close(quit); return <-worst }
}

// A server that stalls for 300 ms every 7 s is found, with its period and the length of the stalls. If the machine of the test itself
// stalls, the test measures again.
func TestPeriodicStalls(t *testing.T) {
	long.Test(t)
	const period, length = 7 * time.Second, 300 * time.Millisecond
	const window = 5*period + period/2
	for range 5 {
		tg, control := paused(t)
		w, out := open(t, "size", "16MiB", "rate_iops", "500"), trial(window)
		prepared(t, w, tg)
		c, err := net.Dial("unix", control)
		if err != nil {
			t.Fatal(err)
		}
		order := func(b byte) error {
			answer := []byte{b}
			if _, err := c.Write(answer); err != nil {
				return err
			}
			_, err := io.ReadFull(c, answer)
			return err
		}
		end, stalls, late := make(chan struct{}), make(chan error), lateness()
		go func() {
			tick := time.NewTicker(period)
			defer tick.Stop()
			var err error
			for err == nil {
				select {
				case <-end:
					stalls <- c.Close()
					return
				case <-tick.C:
				}
				err = order('p')
				time.Sleep(length) // this long is what the server stalls
				err = errors.Join(err, order('r'))
			}
			<-end
			stalls <- errors.Join(err, c.Close())
		}()
		err = w.Run(worktest.CtxFor(t), tg, out)
		close(end)
		if err := errors.Join(err, <-stalls); err != nil {
			t.Fatal(err)
		}
		if late := late(); late > length/12 {
			t.Logf("the machine stalled for %v: again", late)
			continue
		}
		metric.Derive(out)
		for name, want := range map[string]time.Duration{"read.stall.period": period, "read.stall.longest": length} {
			if got, _ := out.Value(name); math.Abs(got.Value/want.Seconds()-1) > 0.1 {
				t.Errorf("%s is %v s, want %v", name, got.Value, want)
			}
		}
		if share, _ := out.Value("read.stall.above-100ms"); share.Value < 0.1 {
			t.Errorf("the share above 100 ms is %v", share.Value)
		}
		return
	}
	t.Error("the machine stalled each time")
}
