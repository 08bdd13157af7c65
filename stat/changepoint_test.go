package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// levels returns n logarithms with the given noise. Their level changes by the ratio steps[i] at index i.
func levels(r *rand.Rand, n int, noise func(*rand.Rand) float64, steps map[int]float64) []float64 {
	out := make([]float64, n)
	level := 10.0
	for i := range out {
		if s, ok := steps[i]; ok {
			level += math.Log(s)
		}
		out[i] = level + noise(r)
	}
	return out
}

func normalNoise(sd float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return sd * r.NormFloat64() }
}

// heavy returns noise in which about one in ten values has ten times the standard deviation of the others.
func heavy(r *rand.Rand) float64 {
	if r.IntN(10) == 0 {
		return .2 * r.NormFloat64()
	}
	return .02 * r.NormFloat64()
}

func skewed(r *rand.Rand) float64 { return .05 * r.ExpFloat64() }

// Without a change, at most 1 % of sequences have a change point, for normal, heavy-tailed and skewed noise. At a true
// rate of 1 %, a case would fail with a probability below 1 in 100,000.
func TestChangePointsFalseAlarms(t *testing.T) {
	for name, noise := range map[string]func(*rand.Rand) float64{"normal": normalNoise(.03), "heavy": heavy, "skewed": skewed} {
		for _, n := range []int{10, 25, 60} {
			r := rand.New(rand.NewPCG(uint64(n), 3))
			alarms, studies := 0, 400
			for range studies {
				if len(ChangePoints(levels(r, n, noise, nil), 0)) > 0 {
					alarms++
				}
			}
			if alarms > 15 {
				t.Errorf("%s, %d values: %d false alarms in %d sequences", name, n, alarms, studies)
			}
		}
	}
}

func TestChangePointsFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		noise func(*rand.Rand) float64
		steps map[int]float64
		least float64 // minimum share of sequences in which exactly these changes are found, each within one run of its index
	}{
		{"a loss of 10 %", 30, normalNoise(.02), map[int]float64{18: .9}, .93},
		{"the same with outliers", 40, heavy, map[int]float64{20: .9}, .85},
		{"four runs after it", 16, normalNoise(.02), map[int]float64{12: .85}, .9},
		{"there and back", 45, normalNoise(.02), map[int]float64{15: .85, 30: 1 / .85}, .9},
		{"three steps down", 60, normalNoise(.02), map[int]float64{15: .9, 30: .9, 45: .9}, .85},
	} {
		r := rand.New(rand.NewPCG(5, 5))
		good, studies := 0, 60
		for range studies {
			found := ChangePoints(levels(r, c.n, c.noise, c.steps), 0)
			ok := len(found) == len(c.steps)
			for _, p := range found {
				near := false
				for at, ratio := range c.steps {
					if d := p.Index - at; d >= -1 && d <= 1 {
						near = true
						if math.Abs(math.Log(p.Change.Estimate/ratio)) > .08 {
							t.Errorf("%s: a step of %.2f is told as %.2f", c.name, ratio, p.Change.Estimate)
						}
					}
				}
				ok = ok && near
				if p.P > DiagnosticAlpha {
					t.Errorf("%s: p is %v", c.name, p.P)
				}
			}
			if ok {
				good++
			}
		}
		if share := float64(good) / float64(studies); share < c.least {
			t.Errorf("%s: found in %.0f %% of the sequences, want %.0f %%", c.name, 100*share, 100*c.least)
		}
	}
}

func TestChangePointsEdges(t *testing.T) {
	step := []float64{1, 1.001, .999, 1, 1, 1.002, 2, 2.001, 1.999, 2, 2, 2.003}
	if got := ChangePoints(step, 0); len(got) != 1 || got[0].Index != 6 {
		t.Errorf("a step in twelve values: %+v", got)
	}
	for name, xs := range map[string][]float64{
		"none": nil, "one": {1}, "nine": step[3:], "constant": make([]float64, 40),
		"not a number": append([]float64{math.NaN()}, step...), "infinite": append([]float64{math.Inf(1)}, step...),
	} {
		if got := ChangePoints(xs, 0); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A single deviating run is not a change.
	odd := levels(rand.New(rand.NewPCG(1, 1)), 30, normalNoise(.01), nil)
	odd[12] -= 1
	if got := ChangePoints(odd, 0); len(got) > 0 {
		t.Errorf("an outlier: %+v", got)
	}
	// ChangePoints examines only the end of a long sequence.
	long := levels(rand.New(rand.NewPCG(1, 2)), MostPoints+100, normalNoise(.01), map[int]float64{50: .5, MostPoints: .5})
	if got := ChangePoints(long, 0); len(got) != 1 || got[0].Index != MostPoints {
		t.Errorf("a long sequence: %+v", got)
	}
}

// The indices do not depend on the unit or on which direction is better.
func TestChangePointsScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(0, 1), 10, 30).Draw(t, "xs")
		if rapid.Bool().Draw(t, "step") {
			for i := len(xs) / 2; i < len(xs); i++ {
				xs[i] += 3
			}
		}
		shifted, mirrored := make([]float64, len(xs)), make([]float64, len(xs))
		for i, x := range xs {
			shifted[i], mirrored[i] = 4*x+8, -x
		}
		places := func(xs []float64) (out []int) {
			for _, p := range ChangePoints(xs, 0) {
				out = append(out, p.Index)
			}
			return out
		}
		want := places(xs)
		if got := places(shifted); !slices.Equal(got, want) {
			t.Fatalf("%v, in another unit %v", want, got)
		}
		if got := places(mirrored); !slices.Equal(got, want) {
			t.Fatalf("%v, mirrored %v", want, got)
		}
	})
}

func BenchmarkChangePoints(b *testing.B) {
	for _, n := range []int{100, 500} {
		xs := levels(rand.New(rand.NewPCG(1, 1)), n, normalNoise(.02), map[int]float64{n / 2: .9})
		b.Run(map[int]string{100: "100", 500: "500"}[n], func(b *testing.B) {
			for b.Loop() {
				ChangePoints(xs, 0)
			}
		})
	}
}
