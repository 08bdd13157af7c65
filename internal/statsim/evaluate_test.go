package statsim

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"iotax/internal/testenv/long"
	"iotax/stat"
)

// smoke runs a small part of the evaluation.
func smoke(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Coverage reaches the promised level, and the simulation detects policies that are known to be wrong.
func TestCoverage(t *testing.T) {
	r := smoke(t, Options{Studies: 4000, Seed: 2, Flagged: 250,
		Models:   []string{"M0 σ=2%", "M0 σ=5%", "M1 φ=0.7", "M2 τ=30s σ=15%", "M3 φ=0.6", "M4-shared", "M5-one-arm p=0.2", "M6"},
		Policies: []string{Ours, "P0", "P1", "P2", "P4", "P5", "P6"}})
	for _, x := range r.Rows {
		if x.Promised && x.Hi < .95 {
			t.Errorf("%s: coverage %v [%v, %v]", x.Model, x.Coverage, x.Lo, x.Hi)
		}
		if x.Promised && (x.FalseDifferent > .05 || x.FalseEqual > .05) {
			t.Errorf("%s: false verdicts %v, %v", x.Model, x.FalseDifferent, x.FalseEqual)
		}
		if s := x.Coverage + x.MissedBelow + x.MissedAbove; math.Abs(s-1) > 1e-9 {
			t.Errorf("%s, %s: shares add up to %v", x.Model, x.Policy, s)
		}
	}
	for _, c := range []struct {
		model, policy string
		from, to      float64
	}{
		{"M0 σ=5%", "peeking", .88, .935},
		{"M0 σ=5%", "any-stop", .975, 1},
		{"M0 σ=5%", "stein", .94, .96},
		{"M0 σ=5%", "interleaved", .94, .965},
		{"M3 φ=0.6", Ours, .7, .85},
		{"M5-one-arm p=0.2", Ours, .85, .92},
		{"M6-shared-step", "back-to-back", .4, .8},
		{"M6-shared-step", "interleaved", .98, 1},
		{"M6-bucket", "back-to-back", 0, .05},
	} {
		x := r.Row(c.model, c.policy)
		if x.Coverage < c.from || x.Coverage > c.to {
			t.Errorf("%s, %s: coverage %v, expected %v … %v", c.model, c.policy, x.Coverage, c.from, c.to)
		}
	}
	ours := r.Row("M0 σ=5%", Ours)
	share := 0.0
	for _, l := range ours.Looks {
		share += l.Share
		if !slices.Contains(stat.Looks(6, 30), l.Rounds) {
			t.Errorf("a look after %d rounds", l.Rounds)
		}
	}
	if math.Abs(share-1) > 1e-9 || ours.Oracle < 10 || ours.Oracle > 12 || ours.Regret < 1 || ours.Flags == nil {
		t.Errorf("looks %+v, oracle %d, regret %v, flags %v", ours.Looks, ours.Oracle, ours.Regret, ours.Flags)
	}
	if f := r.Row("M5-one-arm p=0.2", Ours).Flags; f.Any < .5 || !slices.ContainsFunc(f.Rules, func(a Alarm) bool { return a.Rule == "two-levels" }) {
		t.Errorf("two modes are flagged in %v: %v", f.Any, f.Rules)
	}
	if f := r.Row("M0 σ=2%", Ours).Flags; f.Any > .08 {
		t.Errorf("sound studies are flagged in %v: %v", f.Any, f.Rules)
	}
}

// The result does not depend on the number of workers, but it does depend on the seed.
func TestRepeatable(t *testing.T) {
	long.Test(t)
	o := Options{Studies: 700, Seed: 9, Flagged: 300, Models: []string{"M2 τ=30s σ=5%", "M5-both p=0.2", "M7 stalls", "M9", "L3 heavy tail"}}
	var first []byte
	for _, workers := range []int{1, 3} {
		o.Workers = workers
		b, err := json.Marshal(smoke(t, o))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		} else if string(first) != string(b) {
			t.Fatalf("%d workers make another result", workers)
		}
	}
	o.Seed++
	if b, _ := json.Marshal(smoke(t, o)); string(b) == string(first) {
		t.Error("another seed makes the same result")
	}
}

// The methods `trial` and `seconds` agree: the log ratios of rounds have the same mean, variance and correlation
// between neighbours.
func TestSecondsAgree(t *testing.T) {
	const studies, rounds = 1500, 8
	for _, m := range Models() {
		if m.Corrupt > 0 {
			continue
		}
		moments := func(detailed bool) (mean, sd, lag float64) {
			w := newWork()
			var n, s, ss, sl float64
			for i := range studies {
				w.reset(m, 3, uint64(i), 0)
				w.order = w.r.Uint64()
				before := math.NaN()
				for b := range rounds {
					w.written = true
					var v [2]float64
					for k := range 2 {
						a := (k + b) % 2 // mirrored
						if detailed {
							v[a], w.series = w.seconds(a, ours, 0, w.series)
						} else {
							v[a] = w.trial(a, ours)
						}
					}
					d := v[1] - v[0]
					if math.IsInf(d, 0) || math.IsNaN(d) {
						continue
					}
					n, s, ss = n+1, s+d, ss+d*d
					if !math.IsNaN(before) {
						sl += d * before
					}
					before = d
				}
			}
			mean = s / n
			v := ss/n - mean*mean
			return mean, math.Sqrt(v), (sl/n*rounds/(rounds-1) - mean*mean) / v
		}
		m1, s1, l1 := moments(false)
		m2, s2, l2 := moments(true)
		if math.Abs(m1-m2) > 4*s1/math.Sqrt(studies) || math.Abs(s1/s2-1) > .06 || math.Abs(l1-l2) > .06 {
			t.Errorf("%s: mean %.4f and %.4f, deviation %.4f and %.4f, correlation %.3f and %.3f", m.Name, m1, m2, s1, s2, l1, l2)
		}
	}
}

// In mirrored rounds, noise that both arms share causes a correlation of at most about 0.2 between neighbours (see
// internal/testenv/alphatable).
func TestMirroredCorrelation(t *testing.T) {
	const pairs = 40000
	worst := 0.0
	for _, tau := range []float64{5, 10, 18, 30, 60, 200} {
		w := newWork()
		m := &Model{Name: "shared", SharedTau: tau, SharedSigma: .1}
		var v, c float64
		for i := range pairs {
			w.reset(m, 8, uint64(i), 0)
			w.order = w.r.Uint64()
			x, _, _ := w.pair(0, ours, false)
			y, _, _ := w.pair(1, ours, false)
			v += x*x + y*y
			c += 2 * x * y
		}
		worst = max(worst, c/v)
	}
	if worst > .21 || worst < .18 {
		t.Errorf("the largest correlation is %.3f, not about 0.2", worst)
	}
}

// The verdict at a different ratio can be computed by shifting the interval.
func TestShift(t *testing.T) {
	m := Models()[2]
	p := Policies()[slices.IndexFunc(Policies(), func(p *Policy) bool { return p.Name == Ours })]
	w := newWork()
	for i := range 300 {
		at := func(lnRho float64) outcome {
			w.reset(m, 1, uint64(i), lnRho)
			w.order = w.r.Uint64()
			return p.run(w)
		}
		a, b := at(0), at(math.Log(.62))
		if math.Abs(a.lo+math.Log(.62)-b.lo) > 1e-9 || math.Abs(a.hi+math.Log(.62)-b.hi) > 1e-9 || a.rounds != b.rounds {
			t.Fatalf("study %d: %+v, shifted %+v", i, a, b)
		}
	}
}

func TestCheckTrials(t *testing.T) {
	corrupt, alarms := CheckTrials(500, 1)
	for _, c := range corrupt {
		if len(c.Rules) > 0 && c.Seen < .99 {
			t.Errorf("%s is seen in %v", c.Name, c.Seen)
		}
		if discarded := strings.HasPrefix(c.Name, "no I/O") || strings.HasPrefix(c.Name, "clock 2 %"); discarded != (c.Discarded > .5) {
			t.Errorf("%s: discarded in %v", c.Name, c.Discarded)
		}
	}
	for _, a := range alarms {
		if a.Share > .01 && a.Rule != chatty {
			t.Errorf("sound trials: %s", a)
		}
	}
}

func TestWords(t *testing.T) {
	for _, bad := range []Options{{Studies: 1, Models: []string{"M0", "Q"}}, {Studies: 1, Policies: []string{"nobody"}}, {Studies: 1, Models: []string{""}}, {Studies: 0}} {
		if _, err := Run(t.Context(), bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	ps, err := find("policies", Policies(), []string{"P7", "iot"}, (*Policy).named)
	if err != nil || len(ps) != 3 {
		t.Errorf("%d policies, %v", len(ps), err)
	}
	names := map[string]bool{}
	for _, m := range Models() {
		if names[m.Name] || m.Text == "" {
			t.Errorf("%q: a second time, or without a text", m.Name)
		}
		names[m.Name] = true
	}
	for i := range 10 {
		if !slices.ContainsFunc(Models(), func(m *Model) bool { return m.Family() == "M"+strconv.Itoa(i) }) {
			t.Errorf("no model of M%d", i)
		}
	}
}

// The sentences report a result whose coverage is too low.
func TestSentences(t *testing.T) {
	row := func(model string, promised bool, coverage, lo float64) *Row {
		return &Row{Model: model, Policy: Ours, Promised: promised, Coverage: coverage, Lo: lo, Hi: coverage + (coverage - lo), Studies: 10000,
			Flags: &Flagged{Studies: 1000, Any: .2, Missed: 50, OfMissed: .1}}
	}
	good := &Result{Studies: 10000, Rows: []*Row{row("M0 σ=2%", true, .96, .956), row("M3 φ=0.6", false, .76, .75), row("M7 t3", false, .97, .965)}}
	text := strings.Join(good.Sentences(), "\n")
	for _, want := range []string{"The promise is kept: under each of the 1 ", "M3 φ=0.6: 76.0 % of intervals hold", "flag only 20 %", "is missed under M3 φ=0.6: ", "nevertheless, under M7 t3."} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	bad := &Result{Rows: []*Row{row("M0 σ=2%", true, .93, .925)}}
	if text := strings.Join(bad.Sentences(), "\n"); !strings.Contains(text, "not kept") || !strings.Contains(text, "only under 0 of the 1") {
		t.Errorf("a broken promise reads:\n%s", text)
	}
	for _, width := range []int{80, 120} {
		for line := range strings.Lines(good.Text(width)) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
	}
}

func BenchmarkStudies(b *testing.B) {
	for _, m := range []int{1, 2, 9} { // M0 2 %, M0 5 %, M2
		for _, p := range Policies() {
			if p.only != nil {
				continue
			}
			b.Run(Models()[m].Name+"/"+p.Name, func(b *testing.B) {
				w := newWork()
				b.ReportAllocs()
				for b.Loop() {
					w.simulate(Models()[m], p, 1, 0, 100)
				}
				b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "studies/s")
			})
		}
	}
}
