package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// A world simulates the measurement of combinations.
type world struct {
	factors []Factor
	gain    func(Combo) float64 // log of the ratio to the present combination
	wrong   func(Combo) Wrong
	noise   func() float64 // error of the logarithm of one trial's result
}

// factors returns n options with the values off and on.
func factors(n int) (out []Factor) {
	for i := range n {
		out = append(out, Factor{string(rune('a' + i)), []string{"off", "on"}})
	}
	return out
}

func (w *world) search() *Search {
	return &Search{Factors: w.factors, Margin: 0.05, Least: 6, Most: 300, Note: func(string, ...any) {},
		Measure: func(_ context.Context, combos []Combo, rounds int) ([]Row, error) {
			rows := make([]Row, len(combos))
			for range rounds {
				base := w.noise()
				for i, c := range combos {
					x := 0.0
					if i > 0 {
						x = w.gain(c) + w.noise() - base
					}
					rows[i].D = append(rows[i].D, x)
				}
			}
			for i, c := range combos {
				if w.wrong != nil {
					rows[i].Wrong, rows[i].Why = w.wrong(c), "planted"
				}
			}
			return rows, nil
		}}
}

// truth returns the largest gain of a combination that may be recommended.
func (w *world) truth() float64 {
	best := math.Inf(-1)
	for _, c := range whole(w.factors).all(func(int) bool { return true }) {
		if w.wrong == nil || w.wrong(c) == "" {
			best = math.Max(best, w.gain(c))
		}
	}
	return best
}

func whole(factors []Factor) (s space) {
	for _, f := range factors {
		levels := make([]int, len(f.Levels))
		for i := range levels {
			levels[i] = i
		}
		s = append(s, levels)
	}
	return s
}

// A score counts the outcomes of studies.
type score struct {
	studies, within, sure, covered, named int
	exact                                 int // studies that recommended exactly the planted changes
	trials                                float64
}

func (s *score) add(w *world, r Result, want Combo) {
	s.studies++
	true_ := w.gain(r.Best)
	if true_ >= w.truth()-math.Log1p(0.05)-1e-9 && (w.wrong == nil || w.wrong(r.Best) == "") {
		s.within++
	}
	if r.Sure {
		s.sure++
	}
	if r.Best.changed() == 0 || r.Gain.Contains(math.Exp(true_)) {
		s.covered++
	}
	if r.Best.changed() > 0 {
		s.named++
	}
	if slices.Equal(r.Best, want) {
		s.exact++
	}
	s.trials += float64(r.Trials)
}

func (s score) String() string {
	n := float64(s.studies)
	return fmt.Sprintf("within the margin %5.1f %%  exact %5.1f %%  names one %5.1f %%  gain covered %5.1f %%  decided %5.1f %%  %5.0f trials", 100*float64(s.within)/n, 100*float64(s.exact)/n, 100*float64(s.named)/n, 100*float64(s.covered)/n, 100*float64(s.sure)/n, s.trials/n)
}

// additive returns a gain function. `single` contains the gains of options, and `pairs` contains the additional gains
// of pairs of options, all as fractions. The gains multiply.
func additive(single map[int]float64, pairs map[[2]int]float64) func(Combo) float64 {
	return func(c Combo) (sum float64) {
		for f, gain := range single {
			if c[f] > 0 {
				sum += math.Log1p(gain)
			}
		}
		for p, gain := range pairs {
			if c[p[0]] > 0 && c[p[1]] > 0 {
				sum += math.Log1p(gain)
			}
		}
		return sum
	}
}

func normal(random *rand.Rand, sd float64) func() float64 {
	return func() float64 { return sd * random.NormFloat64() }
}

// onlyCache makes option g an invalid improvement: g doubles every result, and Measure reports that a cache served the
// I/O.
func onlyCache(gain func(Combo) float64) (func(Combo) float64, func(Combo) Wrong) {
	return func(c Combo) float64 {
			if c[6] > 0 {
				return gain(c) + math.Ln2
			}
			return gain(c)
		}, func(c Combo) Wrong {
			if c[6] > 0 {
				return Cached
			}
			return ""
		}
}

// In 95 % of the studies of a case, the recommended combination is within the margin of the best one. If each of seven
// options gains 3 %, 85 % suffice. In 95 % of the studies, the recommended combination is also exactly the expected
// one, if the case has one. The search refuses an option that only adds a cache.
func TestSimulated(t *testing.T) {
	studies := 40
	if !testing.Short() {
		studies = 1000
	}
	random := rand.New(rand.NewPCG(21, 3))
	two := map[int]float64{1: 0.2, 4: 0.12}
	for _, c := range []struct {
		what    string
		factors []Factor
		gain    func(Combo) float64
		cache   bool
		noise   func() float64
		want    Combo
		least   float64 // required share of studies within the margin
	}{
		{"b 20 %, e 12 %, together 10 % more, g a cache", factors(7), additive(two, map[[2]int]float64{{1, 4}: 0.1}), true, normal(random, 0.1), Combo{0, 1, 0, 0, 1, 0, 0}, 0.95},
		{"the same without an interaction", factors(7), additive(two, nil), true, normal(random, 0.1), Combo{0, 1, 0, 0, 1, 0, 0}, 0.95},
		{"b 20 %, e 20 %, together no more than one", factors(7), additive(map[int]float64{1: 0.2, 4: 0.2}, map[[2]int]float64{{1, 4}: 1/1.2 - 1}), false, normal(random, 0.1), nil, 0.95},
		{"b 20 %, e 20 %, together −20 %", factors(7), additive(map[int]float64{1: 0.2, 4: 0.2}, map[[2]int]float64{{1, 4}: 0.8/1.44 - 1}), false, normal(random, 0.1), nil, 0.95},
		{"b and e only together: 30 %", factors(7), additive(nil, map[[2]int]float64{{1, 4}: 0.3}), false, normal(random, 0.1), Combo{0, 1, 0, 0, 1, 0, 0}, 0.95},
		{"nothing", factors(7), additive(nil, nil), false, normal(random, 0.1), make(Combo, 7), 0.95},
		{"nothing but a cache", factors(7), additive(nil, nil), true, normal(random, 0.1), make(Combo, 7), 0.95},
		{"all seven 3 %", factors(7), additive(map[int]float64{0: .03, 1: .03, 2: .03, 3: .03, 4: .03, 5: .03, 6: .03}, nil), false, normal(random, 0.1), nil, 0.85},
		{"all seven −10 %", factors(7), additive(map[int]float64{0: -.1, 1: -.1, 2: -.1, 3: -.1, 4: -.1, 5: -.1, 6: -.1}, nil), false, normal(random, 0.1), make(Combo, 7), 0.95},
		{"b 20 %, e 12 %, noise 3 %", factors(7), additive(two, nil), false, normal(random, 0.03), Combo{0, 1, 0, 0, 1, 0, 0}, 0.95},
		{"nothing, noise 3 %", factors(7), additive(nil, nil), false, normal(random, 0.03), make(Combo, 7), 0.95},
		{"b 20 %, e 12 %, noise t3 of 10 %", factors(7), additive(two, nil), false, func() float64 { return 0.10 / math.Sqrt(3) * distuv.StudentsT{Sigma: 1, Nu: 3, Src: random}.Rand() }, Combo{0, 1, 0, 0, 1, 0, 0}, 0.95},
		{"nothing, one trial in ten 30 % slower", factors(7), additive(nil, nil), false, func() float64 {
			x := 0.03 * random.NormFloat64()
			if random.Float64() < 0.1 {
				x -= 0.3
			}
			return x
		}, make(Combo, 7), 0.95},
		{"3, 4, 2 and 2 values: one of 3 30 %, one of 4 15 %", []Factor{{"a", []string{"0", "1", "2"}}, {"b", []string{"0", "1", "2", "3"}}, {"c", []string{"0", "1"}}, {"d", []string{"0", "1"}}}, func(c Combo) (sum float64) {
			if c[0] == 2 {
				sum += math.Log(1.3)
			}
			if c[1] == 3 {
				sum += math.Log(1.15)
			}
			return sum
		}, false, normal(random, 0.1), Combo{2, 3, 0, 0}, 0.95},
		{"two options, the second 10 %", factors(2), additive(map[int]float64{1: 0.1}, nil), false, normal(random, 0.1), Combo{0, 1}, 0.95},
	} {
		w := &world{factors: c.factors, gain: c.gain, noise: c.noise}
		if c.cache {
			w.gain, w.wrong = onlyCache(c.gain)
		}
		var s score
		for range studies {
			r, err := w.search().Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.cache && !slices.ContainsFunc(r.Refused, func(x Refusal) bool { return slices.Equal(x.Combo, Combo{0, 0, 0, 0, 0, 0, 1}) && x.Wrong == Cached }) {
				t.Errorf("%s: the cache is not refused: %+v", c.what, r.Refused)
			}
			s.add(w, r, c.want)
		}
		t.Logf("%-52s %s", c.what, s)
		slack := 2.6 * math.Sqrt(0.05*0.95/float64(studies)) // sampling error of the simulation
		if float64(s.within)/float64(studies) < c.least-slack || c.want != nil && float64(s.exact)/float64(studies) < c.least-slack {
			t.Errorf("%s: %s", c.what, s)
		}
	}
}

// The search needs at most a quarter of the trials of the full factorial, which measures all 128 combinations in each
// round. The full factorial uses the same stopping rule and error rate, and stops after 96 rounds at the latest.
func TestAgainstFullFactorial(t *testing.T) {
	studies := 1
	if !testing.Short() {
		studies = 5
	}
	random := rand.New(rand.NewPCG(21, 4))
	for _, c := range []struct {
		what string
		gain func(Combo) float64
		want Combo
	}{
		{"b 20 %, e 12 %, together 10 % more", additive(map[int]float64{1: 0.2, 4: 0.12}, map[[2]int]float64{{1, 4}: 0.1}), Combo{0, 1, 0, 0, 1, 0, 0}},
		{"nothing", additive(nil, nil), make(Combo, 7)},
	} {
		var ours, full score
		for range studies {
			w := &world{factors: factors(7), gain: c.gain, noise: normal(random, 0.1)}
			s := w.search()
			r, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ours.add(w, r, c.want)
			s.result, s.Most = Result{}, 96
			if err := s.final(t.Context(), whole(w.factors).all(func(int) bool { return true }), false); err != nil {
				t.Fatal(err)
			}
			full.add(w, s.result, c.want)
		}
		t.Logf("%-36s %-24s %s", c.what, "screening, then a final", ours)
		t.Logf("%-36s %-24s %s", c.what, "full factorial", full)
		if ours.trials > full.trials/4 {
			t.Errorf("%s: %.0f trials, the full factorial %.0f", c.what, ours.trials, full.trials)
		}
	}
}

// A search that stops during screening returns the effects so far. A search that stops during the final also returns
// the finalists.
func TestStopped(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 5))
	w := &world{factors: factors(7), gain: additive(map[int]float64{1: 0.2, 4: 0.06}, nil), noise: normal(random, 0.1)}
	spent := errors.New("spent")
	for after, want := range []struct{ effects, finalists bool }{{false, false}, {true, false}, {true, false}, {true, true}, {true, true}} {
		s := w.search()
		measure := s.Measure
		steps := 0
		s.Measure = func(ctx context.Context, combos []Combo, rounds int) ([]Row, error) {
			if steps++; steps > after {
				return nil, spent
			}
			return measure(ctx, combos, rounds)
		}
		r, err := s.Run(t.Context())
		if !errors.Is(err, spent) || len(r.Effects) > 0 != want.effects || len(r.Finalists) > 0 != want.finalists || r.Sure {
			t.Errorf("after %d steps: %v, %+v", after, err, r)
		}
		if after < 4 && r.Best.changed() > 0 || after == 4 && !(r.Finalists[1].Gain.Hi > 1) {
			t.Errorf("after %d steps: %+v", after, r)
		}
		for _, e := range r.Effects {
			if !(e.Gain.Lo < e.Gain.Estimate && e.Gain.Estimate < e.Gain.Hi) {
				t.Errorf("after %d steps: the effect %+v", after, e)
			}
		}
	}
}
