package report

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/metric"
	"iotax/stat"
)

// tails returns a run with a target and a baseline that have the same median latency. The target's p99 is longer by
// the factor `longer`. Each trial has the given number of I/Os.
func tails(rounds int, ios uint64, longer float64) (*iotax.Run, []*iotax.Trial) {
	run := &iotax.Run{ID: "r", Baseline: "a", Precision: .05, Margin: .05, Alpha: stat.AlphaFixed, Targets: []iotax.TargetInfo{{Name: "a"}, {Name: "b"}},
		Workloads: []iotax.WorkloadInfo{{Name: "w", Kind: "fio", Metrics: []string{"read.iops"}}, {Name: "v", Kind: "fio", Metrics: []string{"write.iops"}}}}
	r := rand.New(rand.NewPCG(1, 2))
	var trials []*iotax.Trial
	for round := range rounds {
		for i, target := range []string{"a", "b"} {
			t := &iotax.Trial{Run: "r", Target: target, Workload: "w", Round: round, Seq: 3*round + i, Length: 10 * time.Second,
				Values: []iotax.Value{{Name: "read.iops", Value: float64(ios) / 10, Unit: iotax.PerSecond, Better: iotax.Up}}}
			h := iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds}
			tail := 1.0
			if target == "b" {
				tail = longer
			}
			z := math.Exp(.01 * r.NormFloat64())
			for k := range 64 {
				h.Bins = append(h.Bins, iotax.Bin{Value: 1e-3 * z * (1 + float64(k)/128), Count: ios * 97 / 6400})
			}
			for k := range 64 {
				h.Bins = append(h.Bins, iotax.Bin{Value: 1e-2 * z * tail * (1 + float64(k)/128), Count: max(1, ios*3/6400)})
			}
			t.Histograms = []iotax.Histogram{h}
			metric.Derive(t)
			trials = append(trials, t)
		}
		trials = append(trials, &iotax.Trial{Run: "r", Target: "a", Workload: "v", Round: round, Seq: 3*round + 2,
			Values: []iotax.Value{{Name: "write.iops", Value: 1000, Unit: iotax.PerSecond, Better: iotax.Up}}})
	}
	return run, trials
}

func TestChosenMetrics(t *testing.T) {
	run, trials := tails(6, 20000, 3)
	r, err := From(run, Held(trials), "latency.p50", "latency.p99")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Sections) != 2 { // the other workload has no latencies
		t.Fatalf("%d sections", len(r.Sections))
	}
	for i, want := range []struct {
		metric  string
		verdict stat.Verdict
		ratio   float64
	}{{"read.latency.p50", stat.Equivalent, 1}, {"read.latency.p99", stat.Worse, 1. / 3}} {
		s := r.Sections[i]
		row := s.Rows[1]
		if s.Metric != want.metric || !s.Decides || s.Unit != iotax.Seconds || s.Better != iotax.Down || row.Verdict != want.verdict ||
			math.Abs(row.Ratio.Estimate/want.ratio-1) > .03 || row.Holm == nil || len(row.Dots) != 6 {
			t.Errorf("%s: %q, %+v", s.Metric, row.Verdict, row.Ratio)
		}
	}
	if run.Workloads[0].Metrics[0] != "read.iops" {
		t.Error("the run was changed")
	}
	_, err = From(run, Held(trials), "read.latency.p98", "read.iops")
	if !errors.Is(err, iotax.ErrUsage) || !strings.Contains(err.Error(), "read.latency.p98") || !strings.Contains(err.Error(), "read.latency.{") {
		t.Errorf("an unknown metric: %v", err)
	}
}

// If single trials are too short for a quantile, rounds are pooled. If all trials together are too short, the quantile
// has no ratio.
func TestPooledQuantile(t *testing.T) {
	run, trials := tails(30, 4000, 3)
	r, err := From(run, Held(trials), "read.latency.p99")
	if err != nil {
		t.Fatal(err)
	}
	row := r.Sections[0].Rows[1]
	if row.Verdict != stat.Worse || row.Ratio.N >= 30 || row.Ratio.N < stat.LeastTrials || row.Dots != nil || row.Value.N != 30 || math.Abs(row.Value.Estimate/.035-1) > .15 {
		t.Errorf("%q, %+v, value %+v", row.Verdict, row.Ratio, row.Value)
	}
	run, trials = tails(6, 4000, 3)
	if r, err = From(run, Held(trials), "read.latency.p99.9"); err != nil {
		t.Fatal(err)
	}
	row = r.Sections[0].Rows[1]
	if row.Verdict != stat.TooFew || row.Ratio != nil || row.Few == nil || row.Few.Need != stat.MinBeyond {
		t.Errorf("%q, %+v, %v", row.Verdict, row.Ratio, row.Few)
	}
	if ids := ruleIDs(r, row); len(ids) == 0 || !strings.Contains(r.Notes[row.Notes[0]-1].Hint, "--trial") {
		t.Errorf("notes %v", ids)
	}
	run, trials = tails(30, 4000, 3)
	for _, x := range trials {
		x.StartIndex = stat.StartOf(x.Round, 30, 3)
	}
	if r, err = From(run, Held(trials), "read.latency.p99"); err != nil {
		t.Fatal(err)
	}
	row = r.Sections[0].Rows[1]
	if row.Verdict != stat.TooFew || row.FewStarts() != 3 || r.Lacks() != "start" || !strings.Contains(r.Notes[row.Notes[0]-1].Hint, "--restarts") ||
		!strings.Contains(r.Notes[row.Notes[0]-1].Items[0].Evidence, "3 starts; a verdict needs 6 starts") {
		t.Errorf("three starts: %q, %+v, notes %+v", row.Verdict, row.Ratio, r.Notes)
	}
}
