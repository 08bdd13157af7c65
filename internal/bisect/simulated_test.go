package bisect

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax/stat"
)

// versions returns 64 versions: v00 is the good one and v63 the bad one.
func versions() (all []string) {
	for i := range 64 {
		all = append(all, fmt.Sprintf("v%02d", i))
	}
	return all
}

// A world simulates measurements. The version with the index `planted` and all later ones have the slowdown, and each
// trial has noise.
type world struct {
	versions []string
	planted  int
	slowdown float64
	noise    func() float64 // noise of one trial, added to the logarithm of its speed

	pairs map[string][]float64
	saved State
	spent int // number of trials
}

func (w *world) level(version string) float64 {
	if slices.Index(w.versions, version) >= w.planted {
		return -math.Log1p(w.slowdown)
	}
	return 0
}

func (w *world) deps() Deps {
	w.pairs = map[string][]float64{}
	return Deps{
		Left:  List(w.versions),
		Build: func(context.Context, string) error { return nil },
		Measure: func(_ context.Context, version, id string, enough func([]float64) string) error {
			for len(w.pairs[id]) == 0 || enough(w.pairs[id]) == "" {
				w.pairs[id] = append(w.pairs[id], w.level(version)+w.noise()-w.noise())
				w.spent += 2
			}
			return nil
		},
		Ratios: func(_ context.Context, id string) ([]float64, error) { return w.pairs[id], nil },
		NewID:  func() string { return fmt.Sprintf("run%d", len(w.pairs)) },
		Save:   func(s *State) error { w.saved = *s; return nil },
		Note:   func(string, ...any) {},
	}
}

func (w *world) search() *Search {
	return &Search{Deps: w.deps(), State: &State{Good: w.versions[0], Bad: w.versions[len(w.versions)-1]}, Margin: 0.05, Least: 6, Most: 300}
}

// score counts the studies with a right, a wrong and an undecided result. trials is the total number of trials.
type score struct {
	right, wrong, unsure int
	trials               float64
}

func (s score) String() string {
	n := float64(s.right + s.wrong + s.unsure)
	return fmt.Sprintf("right %5.1f %%  wrong %4.1f %%  undecided %4.1f %%  %5.0f trials", 100*float64(s.right)/n, 100*float64(s.wrong)/n, 100*float64(s.unsure)/n, s.trials/n)
}

func (s *score) add(w *world, r Result) {
	truth := r.None && w.slowdown == 0 || w.slowdown > 0 && r.First == w.versions[w.planted]
	switch {
	case truth && len(r.Suspects) == 0:
		s.right++
	case r.Unsure || slices.Contains(r.Suspects, w.versions[w.planted]) || truth:
		s.unsure++
	default:
		s.wrong++
	}
	s.trials += float64(w.spent)
}

// naive measures each of the two builds n times in each step, without pairs. It calls a version slow if a one-sided
// t-test finds a slowdown at the 5 % level.
func naive(w *world, n int) Result {
	slow := func(i int) bool {
		var x [2]stat.Sample
		for range n {
			x[0] = x[0].Plus(stat.SampleOf([]float64{w.noise()}))
			x[1] = x[1].Plus(stat.SampleOf([]float64{w.level(w.versions[i]) + w.noise()}))
		}
		w.spent += 2 * n
		mean, variance := [2]float64{}, 0.0
		for k, s := range x {
			mean[k] = s.Sum / float64(n)
			variance += (s.Squares - s.Sum*mean[k]) / float64(n-1) / float64(n)
		}
		return (mean[1]-mean[0])/math.Sqrt(variance) < distuv.StudentsT{Sigma: 1, Nu: float64(2*n - 2)}.Quantile(0.05)
	}
	if !slow(63) {
		return Result{None: true}
	}
	lo, hi := 0, 63
	for hi-lo > 1 {
		if m := (lo + hi) / 2; slow(m) {
			hi = m
		} else {
			lo = m
		}
	}
	return Result{First: w.versions[hi]}
}

// Up to the sampling error, bisect is right in at least 95 % of the studies without a slowdown or with a slowdown of at
// least 8 %. In each case it is wrong in at most 5 % of the studies.
func TestSimulated(t *testing.T) {
	studies := 20
	if !testing.Short() {
		studies = 1000
	}
	random := rand.New(rand.NewPCG(21, 5))
	normal := func(sd float64) func() float64 { return func() float64 { return sd * random.NormFloat64() } }
	for _, c := range []struct {
		what     string
		slowdown float64
		noise    func() float64
		least    float64 // minimum share of right results
	}{
		{"8 %, noise 10 %", 0.08, normal(0.10), 0.95},
		{"none, noise 10 %", 0, normal(0.10), 0.95},
		{"8 %, noise 5 %", 0.08, normal(0.05), 0.95},
		{"20 %, noise 10 %", 0.20, normal(0.10), 0.95},
		{"100 %, noise 10 %", 1, normal(0.10), 0.95},
		{"5 %, noise 10 %", 0.05, normal(0.10), 0},
		{"8 %, noise t3 of 10 %", 0.08, func() float64 { return 0.10 / math.Sqrt(3) * distuv.StudentsT{Sigma: 1, Nu: 3, Src: random}.Rand() }, 0.95},
		{"none, noise t3 of 10 %", 0, func() float64 { return 0.10 / math.Sqrt(3) * distuv.StudentsT{Sigma: 1, Nu: 3, Src: random}.Rand() }, 0.95},
		{"8 %, one trial in ten 30 % slower", 0.08, func() float64 {
			x := 0.03 * random.NormFloat64()
			if random.Float64() < 0.1 {
				x -= 0.3
			}
			return x
		}, 0.95},
	} {
		var ours score
		var fixed [2]score // with 30 and 82 repetitions
		for i := range studies {
			at := 37
			if i%2 == 1 {
				at = 1 + random.IntN(63)
			}
			w := &world{versions: versions(), planted: at, slowdown: c.slowdown, noise: c.noise}
			r, err := w.search().Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ours.add(w, r)
			for k, n := range []int{30, 82} {
				w.spent = 0
				fixed[k].add(w, naive(w, n))
			}
		}
		t.Logf("%-34s %s", c.what, ours)
		t.Logf("%34s %s", "30 repetitions, t test", fixed[0])
		t.Logf("%34s %s", "82 repetitions, t test", fixed[1])
		n := float64(studies)
		margin := 2.6 * math.Sqrt(0.05*0.95/n) // sampling error of the simulation
		if float64(ours.wrong)/n > Alpha+margin || float64(ours.right)/n < c.least-margin {
			t.Errorf("%s: %s", c.what, ours)
		}
	}
}
