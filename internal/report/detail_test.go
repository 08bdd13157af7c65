package report

import (
	"math"
	"testing"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

// The quantile curve agrees with stat.Quantile within 5 %. At least 100 observations lie beyond its end, or 99 because
// of rounding.
func TestDistributions(t *testing.T) {
	r := New(reporttest.Detailed())
	trials := r.Counting()
	ds := r.Sections[0].Distributions(r)
	if len(ds) != 1 || len(ds[0].Cells) != 5 {
		t.Fatalf("%d distributions", len(ds))
	}
	for _, c := range ds[0].Cells {
		var h iotax.Histogram
		for _, tr := range trials[Cell{c.Target, r.Sections[0].Workload}] {
			for _, x := range tr.Histograms {
				h = stat.Add(h, x)
			}
		}
		for i, q := range c.Quantiles {
			if i > 0 && (q.Q < c.Quantiles[i-1].Q || q.Value < c.Quantiles[i-1].Value) {
				t.Fatalf("%s: not ascending at %d: %v", c.Target, i, c.Quantiles)
			}
		}
		for _, q := range []float64{.25, .5, .9, .99} {
			want, ok := stat.Quantile(h, q)
			if got := c.At(q); ok && math.Abs(got/want-1) > .05 {
				t.Errorf("%s: q%g is %g, want %g", c.Target, q, got, want)
			}
		}
		last := c.Quantiles[len(c.Quantiles)-1]
		if n := stat.Beyond(h, last.Q); n < 99 {
			t.Errorf("%s: the curve goes to %g, with %d observations beyond", c.Target, last.Q, n)
		}
	}
	few := iotax.Histogram{Bins: []iotax.Bin{{Value: 1, Count: 60}, {Value: 2, Count: 30}}}
	if qs := quantileCurve(few); qs != nil {
		t.Errorf("90 observations have the curve %v", qs)
	}
}

// Timelines omit discarded rounds and failed trials. A trial with a step is not steady.
func TestTimeline(t *testing.T) {
	r := New(reporttest.Detailed())
	timelines, err := r.Timelines(r.Counting())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Sections {
		if !s.First {
			continue
		}
		tl := timelines[s.Workload]
		if tl == nil {
			t.Fatalf("%s: none", s.Workload)
		}
		for i := range tl.Cells {
			c := tl.Cells[i]
			for _, x := range c.Trials {
				if s.Workload == "4k random read" && x.Round == 3 {
					t.Errorf("%s: round 3 is discarded and drawn", c.Target)
				}
				if want := x.Round%3 != 2; x.Steady.Reached != want {
					t.Errorf("%s round %d: steady %v", c.Target, x.Round, x.Steady.Reached)
				}
			}
			if c.Target == reporttest.VirtioFS && s.Workload == "4k random write" && len(c.Trials) != 4 {
				t.Errorf("%d trials of the cell with two failures", len(c.Trials))
			}
		}
	}
}

func TestCost(t *testing.T) {
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	if New(run, trials).Sections[0].Cost(New(run, trials).Counting()) != nil {
		t.Error("a cost where nothing is known")
	}
	for _, tr := range trials {
		tr.Values = append(tr.Values, iotax.Value{Name: "read.iops", Value: 1000, Unit: iotax.PerSecond}, iotax.Value{Name: iotax.ValueCPUHostUsed, Value: 2, Unit: iotax.RatioUnit})
		metric.Derive(tr)
		if tr.Target != run.Baseline { // no process serves a directory of this host
			tr.Values = append(tr.Values, iotax.Value{Name: "memory.serving", Value: 300 << 20, Unit: iotax.Bytes})
		}
	}
	r := New(run, trials)
	c := r.Sections[0].Cost(r.Counting())
	if c == nil || len(c.Cells) != 2 {
		t.Fatalf("%+v", c)
	}
	// Two CPUs at a thousand I/Os per second are 2 ms of CPU time per I/O.
	for i, memory := range []float64{math.NaN(), 300 << 20} {
		got := c.Cells[i]
		if known := !math.IsNaN(memory); math.Abs(got.CPU.Estimate-.002) > 1e-12 || known == math.IsNaN(got.Memory.Estimate) || known && got.Memory.Estimate != memory {
			t.Errorf("%s: CPU %g, memory %g, want %g", got.Target, got.CPU.Estimate, got.Memory.Estimate, memory)
		}
	}
}
