package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/testenv/long"
)

// urgent returns a command-line prefix that gives a command real-time priority, or nil if this host does not allow
// that.
func urgent() []string {
	if exec.Command("chrt", "-f", "20", "true").Run() != nil {
		return nil
	}
	return []string{"chrt", "-f", "20"}
}

// serverOfOne starts an NBD server that processes one read at a time. Each read takes the time `service`. log is the
// path of a log with the start and the end of each read.
func serverOfOne(t *testing.T, service time.Duration) (url, log string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	log = filepath.Join(t.TempDir(), "log")
	args := slices.Concat(urgent(), []string{"nbdkit", "-f", "-i", "127.0.0.1", "-p", port, "--filter=noparallel", "--filter=log", "--filter=delay",
		"memory", "32M", "serialize=all-requests", "logfile=" + log, fmt.Sprintf("rdelay=%dms", service.Milliseconds())})
	server := exec.Command(args[0], args[1:]...)
	var said strings.Builder
	server.Stderr = &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
			return "nbd://127.0.0.1:" + port + "/", log
		}
		if time.Now().After(end) {
			t.Fatalf("nbdkit does not serve: %v: %s", err, said.String())
		}
	}
}

// services returns the durations, in s, of the reads in nbdkit's log that began between from and to.
func services(t *testing.T, log string, from, to time.Time) (service []float64) {
	t.Helper()
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var begin time.Time
	for line := range strings.Lines(string(raw)) {
		read, end := strings.Contains(line, " Read id="), strings.Contains(line, "...Read id=")
		if !read && !end {
			continue
		}
		const form = "2006-01-02 15:04:05.000000"
		at, err := time.ParseInLocation(form, line[:len(form)], time.Local)
		if err != nil {
			t.Fatal(err)
		}
		if read {
			begin = at
		} else if begin.After(from) && begin.Before(to) {
			service = append(service, at.Sub(begin).Seconds())
		}
	}
	return service
}

// latency returns the mean read latency of a trial, in s.
func latency(t *testing.T, trial *iotax.Trial) float64 {
	t.Helper()
	n, sum := 0.0, 0.0
	for _, h := range trial.Histograms {
		if h.Name != "read.latency" {
			continue
		}
		for _, b := range h.Bins {
			n += float64(b.Count)
			sum += float64(b.Count) * b.Value
		}
	}
	if n == 0 {
		t.Fatalf("%s has no latencies: %s", trial.Cell(), trial.Err)
	}
	return sum / n
}

// Queueing theory predicts the mean latency of an open loop at a server that serves I/Os one by one
// (Pollaczek–Khinchine): E[S] + λE[S²]/(2(1−ρ)). S is the service time, which the server logs, λ the arrival rate, and
// ρ = λE[S]. For a constant S the queue is M/D/1. A closed loop with one I/O in flight would measure only E[S].
func TestOpenLoopObeysQueueingTheory(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	url, log := serverOfOne(t, 2*time.Millisecond)
	plan := s.write("queue.yaml", fmt.Sprintf(`
targets: {queue: {nbd: "%s"}}
workloads: {open: {fio: {rw: randread, bs: 4k, size: 16MiB, numjobs: 64, load: [40%%, 60%%]}}}
measure: {trial: 2s, ramp: 300ms, rounds: 5, cold: false}
`, url))
	var told []string
	for range 4 { // a machine without free CPUs delays arrivals, which then come in bursts
		s.start(urgent(), "run", "--calibrate=no", plan).wait().works(t, 0)
		_, trials := s.trials()
		ratios := map[string][]float64{}
		told = nil
		for _, x := range trials {
			rate, ok := x.Value("read.iops")
			if !ok {
				t.Fatalf("%s has no rate", x.Cell())
			}
			service := services(t, log, x.Start, x.Start.Add(x.Took))
			if n := float64(len(service)); n < rate.Value*2 {
				t.Fatalf("%s: the server logged %g reads, of %g per second", x.Cell(), n, rate.Value)
			}
			mean, square := 0.0, 0.0
			for _, v := range service {
				mean += v / float64(len(service))
				square += v * v / float64(len(service))
			}
			got, rho := latency(t, x), rate.Value*mean
			want := mean + rate.Value*square/(2*(1-rho))
			if rho >= 1 { // the queue is not stable
				want = 0
			}
			ratios[x.Workload] = append(ratios[x.Workload], got/want)
			told = append(told, fmt.Sprintf("%s: E[S] %.2f ms, ρ %.2f: %.2f ms, theory %.2f ms, ratio %.3f", x.Workload, 1e3*mean, rho, 1e3*got, 1e3*want, got/want))
		}
		near := len(ratios) == 2
		for _, r := range ratios {
			slices.Sort(r)
			near = near && r[len(r)/2] > .87 && r[len(r)/2] < 1.2
		}
		if near {
			t.Log(strings.Join(told, "\n"))
			return
		}
	}
	t.Errorf("the latencies are not those of M/D/1:\n%s", strings.Join(told, "\n"))
}
