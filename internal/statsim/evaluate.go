// Package statsim evaluates iotax's method by simulation. It simulates setups with known problems (Models), runs
// studies on them with the rules of iotax and of other tools (Policies), and counts how often the interval contains the
// true ratio.
//
// The same options give exactly the same result on any number of CPUs.
package statsim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"iotax/stat"
)

// Options contains the settings of Run, Replay and Restarts.
type Options struct {
	Studies  int      // number of studies per model and policy; a quarter of that for latency percentiles
	Flagged  int      // number of studies simulated second by second for the checks, at most Studies; default: a tenth of Studies, but at least 200
	Models   []string // name prefixes; default: all
	Policies []string // name prefixes or IDs; default: all
	Seed     uint64
	Workers  int // default: number of CPUs; does not affect the result
}

// Gate is the minimum lower bound of the coverage in models for which the method promises 95 %. FlagGate is the minimum
// share of studies that the checks must flag in other models whose coverage is too low (see Row.Unflagged).
const (
	Gate     = 0.945
	FlagGate = 0.80
)

// rhos contains the true ratios. Study i uses rhos[i mod 6].
var rhos = [...]float64{.5, .62, .9, .952, 1, 1.05}

// A Row is the result of a policy under a model.
type Row struct {
	Model         string  `json:"model"`
	Policy        string  `json:"policy"`
	Quantile      float64 `json:"quantile,omitempty"` // the latency quantile that is the metric; 0 for rates
	Coverage      float64 `json:"coverage"`           // share of intervals that contain the true ratio
	Lo            float64 `json:"lo"`                 // 95 % Wilson interval of Coverage
	Hi            float64 `json:"hi"`
	DeviceSeconds float64 `json:"device_seconds"` // mean per study, including unmeasured time
	Studies       int     `json:"studies"`        // number of ranked studies

	Promised       bool     `json:"promised"`         // the method promises 95 % coverage, so Gate applies
	HalfWidth      float64  `json:"half_width"`       // root mean square, as a ratio: 0.05 means ± 5 %
	EqualSeconds   float64  `json:"equal_seconds"`    // device-seconds needed for ± 5 %: DeviceSeconds × (half width/5 %)²
	Reached        float64  `json:"reached"`          // share of studies that reached ± 5 %
	Rounds         float64  `json:"rounds"`           // mean number of rounds; for policies without rounds, of trials of the larger arm
	Oracle         int      `json:"oracle,omitempty"` // rounds needed if the noise were known
	Regret         float64  `json:"regret,omitempty"` // Rounds/Oracle, for policies with rounds
	MissedBelow    float64  `json:"missed_below"`     // share of intervals below the true ratio
	MissedAbove    float64  `json:"missed_above"`
	FalseDifferent float64  `json:"false_different"` // share of studies with the verdict "worse" or "better" if the true ratio is 1
	FalseEqual     float64  `json:"false_equal"`     // share of studies with a verdict inside the margin if the true ratio is 1/(1+margin)
	Unranked       float64  `json:"unranked"`        // share of studies that are not ranked, because of a check or too few I/Os beyond the quantile
	Discards       float64  `json:"discards"`        // mean number of discarded rounds
	Looks          []Look   `json:"looks,omitempty"`
	Flags          *Flagged `json:"flags,omitempty"` // results of the checks, or nil
}

// A Look contains the results of the studies that ended after the same number of rounds.
type Look struct {
	Rounds   int     `json:"rounds"`
	Share    float64 `json:"share"`
	Coverage float64 `json:"coverage"`
}

// Met reports whether the coverage of the row reaches Gate.
func (r *Row) Met() bool { return r.Lo >= Gate }

// A Result is the result of an evaluation.
type Result struct {
	Seed        uint64       `json:"seed"`
	Studies     int          `json:"studies"`
	Rows        []*Row       `json:"rows"`
	Corruptions []Corruption `json:"corruptions,omitempty"`
	FalseAlarms []Alarm      `json:"false_alarms,omitempty"` // rules that fire on sound trials
}

// Row returns the row with this model and policy, or nil.
func (r *Result) Row(model, policy string) *Row {
	for _, x := range r.Rows {
		if x.Model == model && x.Policy == policy {
			return x
		}
	}
	return nil
}

// chunk is the number of studies per job of a worker.
const chunk = 250

// A tally counts the outcomes of studies.
type tally struct {
	studies, hit, below, above, reached int
	different, equal                    int
	unranked, discards                  int
	flagged, flaggedMisses              int // only if the checks run
	rounds, seconds, half2              float64
	looks                               [most + 1]struct{ n, hit int }
	rules                               counter // number of studies in which each rule warns
}

func (t *tally) add(u *tally) {
	for _, n := range [][2]*int{
		{&t.studies, &u.studies}, {&t.hit, &u.hit}, {&t.below, &u.below}, {&t.above, &u.above}, {&t.reached, &u.reached},
		{&t.different, &u.different}, {&t.equal, &u.equal}, {&t.unranked, &u.unranked}, {&t.discards, &u.discards},
		{&t.flagged, &u.flagged}, {&t.flaggedMisses, &u.flaggedMisses},
	} {
		*n[0] += *n[1]
	}
	t.rounds, t.seconds, t.half2 = t.rounds+u.rounds, t.seconds+u.seconds, t.half2+u.half2
	for i := range t.looks {
		t.looks[i].n += u.looks[i].n
		t.looks[i].hit += u.looks[i].hit
	}
	for id, n := range u.rules {
		t.rules[id] += n
	}
}

// score counts a study with the true log ratio truth. It reports whether the study is ranked and its interval contains
// truth.
func (t *tally) score(o outcome, truth float64) (hit bool) {
	t.discards += o.discards
	t.seconds += o.seconds
	t.rounds += float64(o.rounds)
	if o.unranked {
		t.unranked++
		return false
	}
	t.studies++
	switch hit = o.lo <= truth && truth <= o.hi; {
	case hit:
		t.hit++
	case o.hi < truth:
		t.below++
	case o.lo > truth:
		t.above++
	}
	half := (o.hi - o.lo) / 2
	if !math.IsNaN(half) {
		t.half2 += half * half
	}
	if half <= edge*(1+1e-12) {
		t.reached++
	}
	if o.look > 0 {
		t.looks[o.look].n++
		if hit {
			t.looks[o.look].hit++
		}
	}
	return hit
}

// edge is the logarithm of 1 + margin, which equals the logarithm of 1 + precision.
var edge = math.Log1p(margin)

// Run simulates the studies that o selects. It returns an error if o is invalid or ctx is done.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Studies < 1 {
		return nil, fmt.Errorf("%d studies: at least one is needed", o.Studies)
	}
	if o.Flagged == 0 {
		o.Flagged = max(200, o.Studies/10)
	}
	o.Flagged = min(o.Flagged, o.Studies)
	models, err := find("models", Models(), o.Models, func(m *Model, w string) bool { return strings.HasPrefix(m.Name, w) })
	if err != nil {
		return nil, err
	}
	policies, err := find("policies", Policies(), o.Policies, (*Policy).named)
	if err != nil {
		return nil, err
	}

	res := &Result{Seed: o.Seed, Studies: o.Studies}
	var jobs []func(*work)
	var done []func()
	// study adds jobs for n studies, in chunks that the workers share. After the jobs, sum receives the tally of all
	// n studies.
	study := func(n int, run func(w *work, from, to int) tally, sum func(*tally)) {
		parts := make([]tally, (n+chunk-1)/chunk)
		for c := range parts {
			jobs = append(jobs, func(w *work) { parts[c] = run(w, c*chunk, min((c+1)*chunk, n)) })
		}
		done = append(done, func() {
			all := tally{rules: counter{}}
			for i := range parts {
				all.add(&parts[i])
			}
			sum(&all)
		})
	}
	for _, m := range models {
		oracle := 0
		if m.Latency == nil {
			jobs = append(jobs, func(w *work) { oracle = w.oracle(m, o.Seed) })
		}
		for _, p := range policies {
			if (p.quantile > 0) != (m.Latency != nil) || p.only != nil && !p.only(m) {
				continue
			}
			row := &Row{Model: m.Name, Policy: p.Name, Quantile: p.quantile, Promised: m.Gate && (p.quantile > 0 || p.Name == Ours)}
			res.Rows = append(res.Rows, row)
			n := o.Studies
			if p.quantile > 0 {
				n = latencyStudies(n)
			}
			study(n, func(w *work, from, to int) tally { return w.simulate(m, p, o.Seed, from, to) },
				func(t *tally) { row.fill(t, p.rounds && p.quantile == 0, oracle) })
			if p.protocol != nil && !p.protocol.known && m.Corrupt == 0 && m.Latency == nil {
				study(o.Flagged, func(w *work, from, to int) tally { return w.flag(m, p, o.Seed, from, to) },
					func(t *tally) { row.Flags = flags(t) })
			}
		}
	}

	var next atomic.Int64
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			w := newWork()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return
				}
				jobs[i](w)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, f := range done {
		f()
	}
	res.Corruptions, res.FalseAlarms = CheckTrials(o.Studies, o.Seed)
	return res, nil
}

// latencyStudies returns the number of studies for latency percentiles: a quarter of studies, because drawing
// histograms is slow.
func latencyStudies(studies int) int { return (studies + 3) / 4 }

// Ours is the name of iotax's own policy.
const Ours = "iotax"

// find returns the elements that a word in words names, or all elements if words is empty. It returns an error if a
// word names no element.
func find[T any](what string, all []T, words []string, named func(T, string) bool) ([]T, error) {
	if len(words) == 0 {
		return all, nil
	}
	for _, w := range words {
		if w == "" || !slices.ContainsFunc(all, func(x T) bool { return named(x, w) }) {
			return nil, fmt.Errorf("%s: %q names none", what, w)
		}
	}
	var out []T
	for _, x := range all {
		if slices.ContainsFunc(words, func(w string) bool { return named(x, w) }) {
			out = append(out, x)
		}
	}
	return out, nil
}

// seedOf returns the seed of a model's studies. It does not depend on the policy, so that all policies get the same
// noise.
func seedOf(seed uint64, m *Model) uint64 {
	h := fnv.New64a()
	h.Write([]byte(m.Name)) // never fails
	return seed ^ h.Sum64()
}

// simulate runs the studies with the numbers from `from` to `to`−1.
func (w *work) simulate(m *Model, p *Policy, seed uint64, from, to int) tally {
	var t tally
	study := func(i int, lnRho float64) outcome {
		w.begin(m, seedOf(seed, m), i, lnRho)
		return p.run(w)
	}
	judge := func(n *int, lo, hi float64, is ...stat.Verdict) {
		if slices.Contains(is, stat.Judge(stat.Interval{Estimate: 1, Lo: math.Exp(lo), Hi: math.Exp(hi)}, margin)) {
			*n++
		}
	}
	for i := from; i < to; i++ {
		lnRho := math.Log(rhos[i%len(rhos)])
		o := study(i, lnRho)
		truth := m.truth(lnRho, p.quantile)
		if t.score(o, truth); o.unranked {
			continue
		}
		// Noise is multiplicative, so the interval for a true ratio of 1 is this interval shifted.
		same, apart := outcome{lo: o.lo - truth, hi: o.hi - truth}, outcome{lo: o.lo - truth - edge, hi: o.hi - truth - edge}
		if p.effect {
			same, apart = study(i, -m.bias()), study(i, -m.bias()-edge)
		}
		judge(&t.different, same.lo, same.hi, stat.Worse, stat.Better)
		judge(&t.equal, apart.lo, apart.hi, stat.Equivalent, stat.BelowMargin)
	}
	return t
}

// begin prepares w for study number i of model m.
func (w *work) begin(m *Model, seed uint64, i int, lnRho float64) {
	w.reset(m, seed, uint64(i), lnRho)
	w.order = w.r.Uint64()
	if m.Latency != nil {
		w.octave = w.r.Float64()
	}
}

func (r *Row) fill(t *tally, rounds bool, oracle int) {
	share := func(k, n int) float64 {
		if n == 0 {
			return 0
		}
		return float64(k) / float64(n)
	}
	all := float64(t.studies + t.unranked)
	r.Studies, r.Hi = t.studies, 1
	if c := stat.Wilson(t.hit, t.studies, alpha); c.Bounded() {
		r.Coverage, r.Lo, r.Hi = c.Estimate, c.Lo, c.Hi
		half := math.Sqrt(t.half2 / float64(t.studies))
		r.HalfWidth = math.Expm1(half)
		scale := half / math.Log1p(precision)
		r.EqualSeconds = t.seconds / all * scale * scale
	}
	r.DeviceSeconds, r.Rounds = t.seconds/all, t.rounds/all
	r.Unranked, r.Discards = float64(t.unranked)/all, float64(t.discards)/all
	r.Reached = share(t.reached, t.studies)
	r.MissedBelow, r.MissedAbove = share(t.below, t.studies), share(t.above, t.studies)
	r.FalseDifferent, r.FalseEqual = share(t.different, t.studies), share(t.equal, t.studies)
	for n, l := range t.looks {
		if l.n > 0 {
			r.Looks = append(r.Looks, Look{n, share(l.n, t.studies), share(l.hit, l.n)})
		}
	}
	if rounds {
		r.Oracle, r.Regret = oracle, r.Rounds/float64(oracle)
	}
}

// oracle returns the smallest number of rounds, at most 700, that reaches the precision if the standard deviation of
// the log ratios is known.
func (w *work) oracle(m *Model, seed uint64) int {
	const studies = 2000
	w.quantile = 0
	sound := *m
	sound.Corrupt = 0
	var ss float64
	n := 0
	for i := range studies {
		w.begin(&sound, seedOf(seed, m)^1, i, 0)
		for b := range least {
			if d, _, ok := w.pair(b, ours, false); ok {
				ss += (d - m.bias()) * (d - m.bias())
				n++
			}
		}
	}
	sd := math.Sqrt(ss / float64(n))
	table := tTable()
	for n := 2; n < len(table); n++ {
		if table[n]*sd/math.Sqrt(float64(n)) <= math.Log1p(precision) {
			return n
		}
	}
	return len(table)
}
