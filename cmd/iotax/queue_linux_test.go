package main

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/testenv/long"
)

// urgent is what is put before a command so that it runs before whatever else this machine has to do; nothing
// where that may not be had.
func urgent() []string {
	if exec.Command("chrt", "-f", "20", "true").Run() != nil {
		return nil
	}
	return []string{"chrt", "-f", "20"}
}

// serverOfOne serves a block device over NBD that takes the same time for every read, one after the other, and
// returns its URL.
func serverOfOne(t *testing.T, service time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	args := slices.Concat(urgent(), []string{"nbdkit", "-f", "-i", "127.0.0.1", "-p", port, "--filter=noparallel", "--filter=delay",
		"memory", "32M", "serialize=all-requests", fmt.Sprintf("rdelay=%dms", service.Milliseconds())})
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
			return "nbd://127.0.0.1:" + port + "/"
		}
		if time.Now().After(end) {
			t.Fatalf("nbdkit does not serve: %v: %s", err, said.String())
		}
	}
}

// moments are the mean of a trial's read latency and the mean of its square.
func moments(t *testing.T, trial *iotax.Trial) (mean, square float64) {
	t.Helper()
	n := 0.0
	for _, h := range trial.Histograms {
		if h.Name != "read.latency" {
			continue
		}
		for _, b := range h.Bins {
			n += float64(b.Count)
			mean += float64(b.Count) * b.Value
			square += float64(b.Count) * b.Value * b.Value
		}
	}
	if n == 0 {
		t.Fatalf("%s has no latencies: %s", trial.Cell(), trial.Err)
	}
	return mean / n, square / n
}

// Queueing theory knows what an open loop must measure before a server that takes I/Os one by one: by
// Pollaczek and Khinchine, the mean latency is E[S] + λE[S²]/(2(1−ρ)), with S the time of service, which a closed loop of
// depth 1 measures, λ the rate of arrivals and ρ = λE[S]. For a constant S that is the queue M/D/1. A
// closed loop at the same rate would show E[S], 30 % less at ρ = 0.6; arrivals that come in bunches, more.
func TestOpenLoopObeysQueueingTheory(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	url := serverOfOne(t, 2*time.Millisecond)
	plan := s.write("queue.yaml", fmt.Sprintf(`
targets: {queue: {nbd: "%s"}}
workloads:
  alone: {fio: {rw: randread, bs: 4k, iodepth: 1, size: 16MiB}}
  open:  {fio: {rw: randread, bs: 4k, size: 16MiB, numjobs: 64, load: [40%%, 60%%]}}
measure: {trial: 4s, ramp: 300ms, rounds: 5, cold: false}
`, url))
	var told []string
	for range 8 { // a machine whose CPUs are taken away for a moment serves nobody, whatever its priorities are
		s.start(urgent(), "run", "--calibrate=no", plan).wait().works(t, 0)
		_, trials := s.trials()
		service := map[int]*iotax.Trial{}
		for _, x := range trials {
			if x.Workload == "alone" {
				service[x.Round] = x
			}
		}
		ratios := map[string][]float64{}
		told = nil
		for _, x := range trials {
			if x.Workload == "alone" {
				continue
			}
			mean, square := moments(t, service[x.Round])
			rate, ok := x.Value("read.iops")
			got, _ := moments(t, x)
			rho := rate.Value * mean
			if !ok {
				t.Fatalf("%s has no rate", x.Cell())
			}
			want := mean + rate.Value*square/(2*(1-rho))
			if rho >= 1 { // the server alone was slowed down by other work; no queue is stable there
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
