package main

import (
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
	"iotax/stat"
)

const metricsPlan = `
targets: {a: {dir: a}, b: {dir: b}}
workloads:
  reads:
    fio: {rw: randread, bs: 4k, size: 16MiB, iodepth: 4}
    metrics: [read.iops, read.latency.p50, read.latency.p99, cpu.per-io]
  commits:
    fio: {rw: write, bs: 4k, size: 4MiB, ioengine: psync, fdatasync: 1}
    metric: sync.latency.p50
measure: {trial: 1s, ramp: 0s, rounds: 6, precision: 10%}
`

// Every metric of a plan has a ratio with an interval and a verdict. Every possible metric has a value, except for
// those that `absent` accepts.
func TestMetricsOfFio(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	file := s.write("p.yaml", metricsPlan)
	r := s.iotax("run", file, "--json", "--calibrate", "no")
	var rep struct {
		Cells []struct {
			Target, Workload, Metric, Unit string
			Verdict                        stat.Verdict
			Ratio                          *stat.Interval
		}
	}
	if s.parse(r, &rep); r.code != exitOK {
		t.Fatal(r)
	}
	var got []string
	for _, c := range rep.Cells {
		if c.Target == "b" {
			got = append(got, c.Workload+" "+c.Metric)
			if c.Ratio == nil || !(c.Ratio.Lo > 0) || !(c.Ratio.Hi >= c.Ratio.Lo) || c.Verdict == stat.NotRanked || c.Verdict == stat.TooFew {
				t.Errorf("%s %s: %q, %+v", c.Workload, c.Metric, c.Verdict, c.Ratio)
			}
		}
	}
	if want := []string{"reads read.iops", "reads read.latency.p50", "reads read.latency.p99", "reads cpu.per-io", "commits sync.latency.p50"}; !slices.Equal(got, want) {
		t.Errorf("compared by %v, want %v", got, want)
	}
	run, trials := s.trials()
	if len(trials) != 24 || !run.Workloads[0].Chosen || !run.Workloads[1].Chosen {
		t.Errorf("%d trials, %+v", len(trials), run.Workloads)
	}
	p, err := plan.Parse(file, []byte(metricsPlan), kinds.All())
	if err != nil {
		t.Fatal(err)
	}
	absent := func(name string) bool { // metrics that these workloads do not have, or quantiles that need more I/Os
		_, q, quantile := iotax.Quantile(name)
		return strings.HasPrefix(name, "fairness.") || strings.Contains(name, "serving") || strings.HasPrefix(name, "memory.") || strings.HasPrefix(name, "boot.") || strings.HasSuffix(name, ".stall.period") || name == iotax.ValueCPUHost || quantile && q > .5
	}
	for _, x := range trials {
		i := slices.IndexFunc(p.Workloads, func(w plan.Workload) bool { return w.Name == x.Workload })
		for _, m := range p.Workloads[i].Possible() {
			v, ok := x.Value(m.Name)
			if !ok && !absent(m.Name) {
				t.Errorf("%s has no %s", x.Cell(), m.Name)
			}
			if ok && (v.Unit != m.Unit || v.Better != m.Better) {
				t.Errorf("%s is in %s, better %q, and listed in %s, better %q", m.Name, v.Unit, v.Better, m.Unit, m.Better)
			}
		}
		if !slices.ContainsFunc(x.Histograms, func(h iotax.Histogram) bool { return h.Name == "sync.latency" }) && x.Workload == "commits" {
			t.Errorf("%s has no histogram of its flushes", x.Cell())
		}
	}
	s.iotax("report", "--metric", "latency.p90,io.per-core").works(t, exitOK, "reads read latency", "p90", "reads I/Os per core")
	s.iotax("report", "--metric", "latency.p98").works(t, exitUsage, "latency.p98", "read.latency.{")
	s.iotax("compare", "latest", "latest", "--metric", "sync.latency.mean", "--fail-on", "worse").works(t, exitOK, "sync latency mean")
}

// Before measuring, iotax refuses a metric that the workload does not have or that it cannot judge.
func TestMetricsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	words := []string{"run", s.path("a"), s.path("b"), "--trial", "1s", "--calibrate", "no", "--metric"}
	s.iotax(append(words, "sync.latency.p99")...).refuses(t, exitUsage, `no metric "sync.latency.p99"`, "read.latency.{mean")
	s.iotax(append(words, "read.latency.p99.9", "--rounds", "6", "--", "fio", "--name=slow", "--rw=randread", "--rate_iops=50", "--size=4m")...).works(t, exitError,
		"judge read.latency.p99.9 of", "6 rounds of 1s have about 0 I/Os beyond it, and an interval needs 100", "--trial")
	if list := s.iotax("list"); strings.Contains(list.stdout, "done") {
		t.Error(list)
	}
}
