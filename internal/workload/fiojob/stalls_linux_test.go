package fiojob

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/metric"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
)

// paused serves 16 MiB of memory over NBD. The byte p on the control socket pauses the server after the requests in
// flight, and r resumes it.
func paused(t *testing.T) (target *iotax.Target, control string) {
	t.Helper()
	dir := t.TempDir()
	socket, pid, control := dir+"/s", dir+"/pid", dir+"/control"
	return worktest.Serves(t, exec.Command("nbdkit", "--foreground", "--unix="+socket, "--pidfile="+pid, "--filter=pause", "memory", "16M", "pause-control="+control), socket, pid), control
}

// lateness starts measuring how late a 5 ms timer fires. The returned function stops the measurement and returns the
// longest delay.
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

// The values read.stall.* show that the server stalls for 300 ms every 7 s. If they are wrong, the test measures again:
// up to four times if this process stalled too, otherwise once.
func TestPeriodicStalls(t *testing.T) {
	long.Test(t)
	t.Parallel()
	const period, length = 7 * time.Second, 300 * time.Millisecond
	const window = 5*period + period/2
	again := false
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
				time.Sleep(length) // length of the server's stall
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
		metric.Derive(out)
		var wrong []string
		for name, want := range map[string]time.Duration{"read.stall.period": period, "read.stall.longest": length} {
			if got, _ := out.Value(name); !(math.Abs(got.Value/want.Seconds()-1) <= 0.1) {
				wrong = append(wrong, fmt.Sprintf("%s is %v s, want %v", name, got.Value, want))
			}
		}
		if share, _ := out.Value("read.stall.above-100ms"); share.Value < 0.1 {
			wrong = append(wrong, fmt.Sprintf("the share above 100 ms is %v", share.Value))
		}
		worst := late()
		t.Logf("%v; the machine stalled for %v", wrong, worst)
		switch {
		case wrong == nil:
			return
		case worst > length/12:
		case !again: // not every stall of a shared machine delays this process
			again = true
		default:
			t.Fatal(wrong)
		}
	}
	t.Error("the machine stalled each time")
}

// With an old fio, a process that ends can abort because a report waits for an I/O of another process. The trial's
// error contains this reason, and the next trial runs without reports.
func TestBlockedReport(t *testing.T) {
	long.Test(t)
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/j.fio", []byte("[global]\nsize=1m\ndirect=1\n[reader]\nrw=randread\nrate_iops=200\n[writer]\nrw=randwrite\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse(dir+"/p.yaml", []byte("targets: {a: {dir: /tmp}}\nworkloads:\n  w: {fio: {file: j.fio, jointly: true}}\n"), allKinds())
	if err != nil {
		t.Fatal(err)
	}
	made, err := Kind.New(p.Workloads[0], support.Env{CacheDir: worktest.Cache, Shared: worktest.Shared, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	w, socket, pid := made.(*fioJob), dir+"/s", dir+"/pid"
	tg := worktest.Serves(t, exec.Command("nbdkit", "--foreground", "--unix="+socket, "--pidfile="+pid, "--filter=delay", "memory", "16M", "wdelay=9"), socket, pid)
	prepared(t, w, tg)
	out := trial(2 * time.Second)
	err = w.Run(worktest.CtxFor(t), tg, out)
	if fio.ReportCanBlock(w.states[tg].tool.Version, 2) {
		if err == nil || !strings.Contains(err.Error(), "a report of fio waited more than 5 s") {
			t.Errorf("a report that blocks: %v", err)
		}
		out = trial(2 * time.Second)
		if err = w.Run(worktest.CtxFor(t), tg, out); len(out.Intervals) > 0 {
			t.Error("the next trial has reports")
		}
	}
	if v, ok := out.Value("read.iops"); err != nil || !ok || v.Value <= 0 {
		t.Errorf("%v, %v", v, err)
	}
}
