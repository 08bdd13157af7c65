package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Serial and FindLevels raise a false alarm in about 1 % of sound studies. Serial detects φ = 0.6 over 30 rounds in at
// least half of the studies.
func TestBetweenRounds(t *testing.T) {
	const studies = 4000
	r := rand.New(rand.NewPCG(11, 4))
	for _, n := range []int{6, 8, 9, 12, 18, 25, 30, 45} {
		serial, levels := 0, 0
		for range studies {
			d := make([]float64, n)
			for i := range d {
				d[i] = .1 * r.NormFloat64()
			}
			if Serial(d).Found() {
				serial++
			}
			if FindLevels(d).Found {
				levels++
			}
		}
		for name, k := range map[string]int{"serial": serial, "levels": levels} {
			if w := Wilson(k, studies, .001); w.Hi < .002 || w.Lo > .018 {
				t.Errorf("n %d: %s speaks in %.2f %% of sound studies", n, name, 100*w.Estimate)
			}
		}
	}
	found := 0
	for range studies {
		d := make([]float64, 30)
		u := r.NormFloat64()
		for i := range d {
			d[i] = u
			u = .6*u + .8*r.NormFloat64()
		}
		if Serial(d).Found() {
			found++
		}
	}
	if found < studies/2 {
		t.Errorf("φ = 0.6 over 30 rounds is found in %d of %d", found, studies)
	}
}

func TestFindLevels(t *testing.T) {
	two := []float64{.01, 0, -.3, .005, -.29, -.005, .002, -.31}
	l := FindLevels(two)
	if !l.Found || !near(l.Low, -.3, 1e-12) || !near(l.High, .0024, 1e-12) || l.Share != 3.0/8 {
		t.Errorf("two levels: %+v", l)
	}
	near2 := make([]float64, len(two)) // equally distinct, but only 3 % apart
	for i, x := range two {
		near2[i] = x / 10
	}
	if l := FindLevels(near2); l.Found || !near(l.Within, FindLevels(two).Within, 1e-12) {
		t.Errorf("two near levels: %+v", l)
	}
	for name, xs := range map[string][]float64{
		"five":   two[:5],
		"equal":  {1, 1, 1, 1, 1, 1},
		"spread": {.1, .2, .3, .4, .5, .6, .7},
		"NaN":    {0, 0, 0, -.3, -.3, math.NaN()},
	} {
		if l := FindLevels(xs); l.Found {
			t.Errorf("%s: %+v", name, l)
		}
	}
	if !FindLevels([]float64{0, .004, -.003, .001, .002, -.004, .003, -.25}).Found {
		t.Error("one outlier is not found")
	}
}

func TestSerialSmall(t *testing.T) {
	for _, d := range [][]float64{nil, {1}, {1, 2, 3, 4}, {2, 2, 2, 2, 2, 2}, {1, 2, 3, math.NaN(), 5, 6}} {
		if s := Serial(d); s.Found() {
			t.Errorf("%v: %+v", d, s)
		}
	}
	if s := Serial([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); !s.Found() {
		t.Errorf("a slope: %+v", s)
	}
}

// The autocorrelation of Serial and the field Within of FindLevels do not depend on the unit or the orientation of the
// values. Within does not depend on their order either.
func TestBetweenProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d []float64
		for _, v := range rapid.SliceOfN(rapid.IntRange(-1000, 1000), 6, 30).Draw(t, "d") {
			d = append(d, float64(v)/1000)
		}
		up, down := slices.Clone(d), slices.Clone(d)
		for i := range d {
			up[i] += 3
			down[i] = -down[i]
		}
		s, l := Serial(d), FindLevels(d)
		if a := Serial(up); !near(a.Lag1, s.Lag1, 1e-6) {
			t.Fatalf("another unit: %+v, %+v", s, a)
		}
		if a := Serial(down); !near(a.Lag1, s.Lag1, 1e-9) || !near(a.P, s.P, 1e-9) {
			t.Fatalf("target and baseline swapped: %+v, %+v", s, a)
		}
		if a := FindLevels(down); !near(a.Within, l.Within, 1e-6) {
			t.Fatalf("target and baseline swapped: %+v, %+v", l, a)
		}
		slices.Reverse(up)
		if a := FindLevels(up); !near(a.Within, l.Within, 1e-6) {
			t.Fatalf("another order and unit: %+v, %+v", l, a)
		}
	})
}
