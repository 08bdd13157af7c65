package report

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"iotax"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

func TestWaterfall(t *testing.T) {
	r := New(reporttest.Layered())
	if len(r.Waterfalls) != 3 {
		t.Fatalf("%d waterfalls", len(r.Waterfalls))
	}
	w := r.Waterfalls[0]
	if len(w.Hops) != 3 || w.Rounds != 8 || w.Missing != nil || !w.Hops[1].Ratio.Contains(19.0/48.5) || w.Hops[1].Verdict != stat.Worse ||
		w.Hops[2].Verdict != stat.Equivalent || !w.Total.Ratio.Contains(.378) || w.Hops[1].Share < .9 || w.Total.Share != 1 {
		t.Errorf("%+v", w)
	}
	if lat := r.Waterfalls[1]; lat.Metric != "read.latency.mean" || !lat.Hops[1].Ratio.Contains(.62/1.6) {
		t.Errorf("a latency: %+v", lat)
	}
	if big := r.Waterfalls[2]; fmt.Sprint(big.Missing) != "[file system container in the guest]" || len(big.Hops) != 1 || big.Hops[0].Verdict != stat.Better {
		t.Errorf("gaps: %+v", big)
	}
}

// A target that is invalid or has another durability affects only the hops that start or end at this target.
func TestWaterfallVerdicts(t *testing.T) {
	run, trials := reporttest.Layered()
	for _, x := range trials {
		if x.Target == "file system" {
			x.Findings = []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 %"}}
		}
	}
	run.Targets[3].Durability = iotax.Volatile
	w := New(run, trials).Waterfalls[0]
	var got []stat.Verdict
	for _, h := range append(w.Hops, w.Total) {
		got = append(got, h.Verdict)
	}
	if want := []stat.Verdict{stat.NotComparable, stat.NotComparable, stat.NotRanked, stat.NotRanked}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A hop that starts or ends at a target with too many discarded trials has no verdict either.
func TestWaterfallOfDiscarded(t *testing.T) {
	run, trials := reporttest.Layered()
	for _, x := range trials {
		if x.Target == "file system" && x.Round < 3 {
			x.Discarded = "clock-insane: 3 %"
		}
	}
	for _, h := range New(run, trials).Waterfalls[0].Hops[:2] {
		if h.Verdict != stat.NotComparable {
			t.Errorf("%s: %q", h.To, h.Verdict)
		}
	}
}

// The product of the hops equals the total for any values, failures and discarded or repeated rounds, in either
// direction, and for percentiles of histograms. The shares of the hops add up to 1.
func TestWaterfallMultiplies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		better := rapid.SampledFrom([]iotax.Better{iotax.Up, iotax.Down}).Draw(t, "better")
		run := &iotax.Run{Baseline: "t0", Margin: .05, Presentation: &iotax.Presentation{}}
		metric := rapid.SampledFrom([]string{"m", "read.latency.p50"}).Draw(t, "metric")
		if metric != "m" {
			better = iotax.Down
		}
		run.Workloads = []iotax.WorkloadInfo{{Name: "w", Metrics: []string{metric}}}
		var trials []*iotax.Trial
		var chain []string
		n := rapid.IntRange(2, 6).Draw(t, "layers")
		for i := range n {
			name := fmt.Sprintf("t%d", i)
			chain = append(chain, name)
			run.Targets = append(run.Targets, iotax.TargetInfo{Name: name})
			for round := range rapid.IntRange(1, 9).Draw(t, "rounds") {
				x := &iotax.Trial{Target: name, Workload: "w", Round: max(0, round-rapid.IntRange(0, 1).Draw(t, "repeated")), Seq: len(trials)}
				switch rapid.SampledFrom([]string{"good", "good", "good", "failed", "discarded"}).Draw(t, "trial") {
				case "failed":
					x.Err = "exit status 1"
				case "discarded":
					x.Discarded = "clock-insane: 2 %"
					fallthrough
				default:
					v := rapid.Float64Range(1e-6, 1e9).Draw(t, "value")
					ios := rapid.SampledFrom([]uint64{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 50}).Draw(t, "ios")
					if metric != "m" {
						x.Histograms = []iotax.Histogram{{Name: "read.latency", Bins: []iotax.Bin{{Value: v, Count: ios / 2}, {Value: 1.01 * v, Count: ios / 2}}}}
					}
					if metric == "m" || ios > 2*stat.MinBeyond {
						x.Values = []iotax.Value{{Name: metric, Value: v, Unit: iotax.PerSecond, Better: better}}
					}
				}
				trials = append(trials, x)
			}
		}
		run.Presentation.Layers = [][]string{chain}
		for _, w := range New(run, trials).Waterfalls {
			product, shares := 1.0, 0.0
			for i, h := range w.Hops {
				product *= h.Ratio.Estimate
				shares += float64(h.Share)
				if h.From != w.Chain[i] || h.To != w.Chain[i+1] || h.Ratio.N != w.Rounds {
					t.Fatalf("hop %d: %+v", i, h)
				}
			}
			if math.Abs(math.Log(product)-math.Log(w.Total.Ratio.Estimate)) > 1e-9 {
				t.Fatalf("hops %v, total %v", product, w.Total.Ratio.Estimate)
			}
			if !math.IsNaN(float64(w.Total.Share)) && math.Abs(shares-1) > 1e-6 {
				t.Fatalf("shares add up to %v", shares)
			}
			if len(w.Chain)+len(w.Missing) != n {
				t.Fatalf("%v and %v of %v", w.Chain, w.Missing, chain)
			}
		}
	})
}

// If all trials of each target have a percentile in one bin, the interval of the hop is at least as wide as the error of
// the bins, with and without histograms. The interval equals that of the ratio in the table.
func TestWaterfallOfBins(t *testing.T) {
	p50 := map[string]float64{"disk": 1.001e-3, "a": 1.009e-3}
	for _, histograms := range []bool{true, false} {
		run, trials := reporttest.RunOf(8, nil, reporttest.CellSpec{Target: "disk", Workload: "w", Values: map[string]float64{"read.latency.p50": 1}},
			reporttest.CellSpec{Target: "a", Workload: "w", Values: map[string]float64{"read.latency.p50": 1}})
		run.Presentation = &iotax.Presentation{Layers: [][]string{{"disk", "a"}}}
		for _, x := range trials {
			x.Values[0].Value, x.Values[0].Better, x.Values[0].Unit = p50[x.Target], iotax.Down, iotax.Seconds
			if histograms {
				x.Histograms = []iotax.Histogram{{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{{Value: p50[x.Target], Count: 50_000}}}}
			}
		}
		r := New(run, trials)
		if len(r.Waterfalls) != 1 {
			t.Fatalf("%d waterfalls", len(r.Waterfalls))
		}
		hop, table := r.Waterfalls[0].Hops[0].Ratio, r.Sections[0].Rows[1].Ratio.Interval
		if hop.HalfWidth() < stat.HistogramError || hop != table {
			t.Errorf("histograms %v: hop %+v, table %+v", histograms, hop, table)
		}
	}
}
