package statsim

import (
	"math"
	"slices"
	"testing"

	"iotax"
	"iotax/stat"
)

func modelNamed(t *testing.T, name string) *Model {
	t.Helper()
	ms := Models()
	i := slices.IndexFunc(ms, func(m *Model) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no model %s", name)
	}
	return ms[i]
}

// The drawn histograms have the specified shape: the number of I/Os, and the share beyond each quantile.
func TestDraw(t *testing.T) {
	for _, m := range Models() {
		if m.Latency == nil {
			continue
		}
		w := newWork()
		w.quantile, w.ios = .99, 50_000
		const trials = 40
		for a := range 2 {
			w.begin(m, 1, 0, math.Log(.8))
			w.histograms[a] = w.histograms[a][:0]
			v := math.Log(.8)
			slower, ios := 0.0, w.ios*math.Exp(v)
			if a == 1 && m.SlowOnly {
				slower, ios = -v, w.ios
			}
			for range trials {
				w.draw(a, v)
			}
			at := w.level() - v
			if slower != 0 {
				at = w.level()
			}
			for _, q := range []float64{0, .97, .99, .999} {
				limit := 0.0
				if q > 0 {
					limit = math.Exp(at+m.shape(a).quantile(q, slower)) * 1e-9
				}
				var n, near float64
				for _, h := range w.histograms[a] {
					for _, b := range h.Bins {
						if b.Value > limit {
							n += float64(b.Count)
						}
						if math.Abs(math.Log(b.Value/limit)) <= 1./64 {
							near += float64(b.Count) // I/Os in a bin at the limit may be on either side
						}
					}
				}
				want := trials * ios * (1 - q)
				if m.shape(a).stalls > 0 && q > 0 {
					continue // the share of stalled I/Os is random
				}
				if q == 0 {
					near = 0
				}
				if math.Abs(n-want) > 5*math.Sqrt(want)+near {
					t.Errorf("%s, arm %d: %v I/Os beyond %v, want %v", m.Name, a, n, q, want)
				}
			}
		}
	}
}

// Latency percentiles have the promised coverage. Without a promise, their coverage is at least 85 %.
func TestLatencyCoverage(t *testing.T) {
	r := smoke(t, Options{Studies: 800, Seed: 3, Models: []string{"L0", "L1 narrow 0.003", "L1 peak", "L2 slow", "L3", "L4 stalls, frequent", "L5 modes of the"},
		Policies: []string{"p50", "p99 pooled", "p99.9 few"}})
	for _, x := range r.Rows {
		if x.Promised && x.Hi < .95 || x.Coverage < .85 {
			t.Errorf("%s: coverage %v [%v, %v]", x.Name(), x.Coverage, x.Lo, x.Hi)
		}
		if x.Promised && (x.FalseDifferent > .05 || x.FalseEqual > .05) {
			t.Errorf("%s: false verdicts %v, %v", x.Name(), x.FalseDifferent, x.FalseEqual)
		}
		if x.Studies+int(math.Round(x.Unranked*200)) != 200 {
			t.Errorf("%s: %d studies, %v refused", x.Name(), x.Studies, x.Unranked)
		}
	}
	if x := r.Row("L5 modes of the target", "p50"); x.Promised || x.Coverage > .96 {
		t.Errorf("modes of the target alone are covered in %v", x.Coverage)
	}
	if x, y := r.Row("L3 heavy tail", "p50"), r.Row("L3 heavy tail", "p99.9 few"); !(y.HalfWidth > 2*x.HalfWidth) {
		t.Errorf("ten I/Os beyond the quantile are as good as thousands: ± %v and %v", y.HalfWidth, x.HalfWidth)
	}
}

// A study whose trials are too short for the percentile has no interval.
func TestLatencyRefused(t *testing.T) {
	ps := Policies()
	p := ps[slices.IndexFunc(ps, func(p *Policy) bool { return p.Name == "p99.9 few" })]
	p.ios = 2000 // 60 I/Os beyond the percentile in 30 rounds
	w := newWork()
	if got := w.simulate(modelNamed(t, "L0 lognormal"), p, 1, 0, 12); got.unranked != 12 || got.studies != 0 {
		t.Errorf("%d of 12 studies are refused, %d have an interval", got.unranked, got.studies)
	}
}

// The simulation detects a wrong method that uses the values of bins as quantiles.
func TestBinsMatter(t *testing.T) {
	m := modelNamed(t, "L1 narrow 0.003")
	w := newWork()
	naive, ours := 0, 0
	const studies, lnRho = 300, .004 // lnRho is at most about half the width of a bin
	for i := range studies {
		w.begin(m, 5, i, lnRho)
		w.quantile, w.ios = .5, 3000
		w.histograms[0], w.histograms[1] = w.histograms[0][:0], w.histograms[1][:0]
		for b := range 8 {
			w.pair(b, Timing{Length: 10}, false)
		}
		var v [2][]float64
		for a := range v {
			for _, h := range w.histograms[a] {
				x, _ := stat.Quantile(h, .5)
				v[a] = append(v[a], x)
			}
		}
		n, err := stat.Ratio(v[0], v[1], iotax.Down, .05)
		if err != nil {
			t.Fatal(err)
		}
		var opts stat.Options
		d, err := stat.PairTails([2][]stat.Tail{stat.Tails(w.histograms[0], .5), stat.Tails(w.histograms[1], .5)}, .5, &opts)
		if err != nil {
			t.Fatal(err)
		}
		o, err := stat.Hull(d, opts)
		if err != nil {
			t.Fatal(err)
		}
		truth := math.Exp(lnRho)
		naive, ours = naive+count(n.Contains(truth)), ours+count(o.Contains(truth))
	}
	if naive > studies*80/100 || ours < studies*95/100 {
		t.Errorf("of %d studies, %d intervals from values of bins hold the ratio, and %d of PairTails", studies, naive, ours)
	}
}
