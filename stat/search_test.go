package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"iotax"
)

// A knee is a simulated target. It meets the condition up to approximately its limit.
type knee struct {
	limit  float64
	soft   float64 // standard deviation of the logarithm of the limit between trials
	stalls float64 // share of the trials that miss the condition at any load
}

func (k knee) meets(r *rand.Rand, load float64) bool {
	return r.Float64() >= k.stalls && math.Log(load) < math.Log(k.limit)+k.soft*r.NormFloat64()
}

func (k knee) search(r *rand.Rand, pilot float64, seed uint64) float64 {
	s := NewSearch(pilot/32, 2*pilot, seed)
	for range SearchSteps {
		x := s.Next()
		s.Tried(x, k.meets(r, x))
	}
	limit, _, _ := s.Limit()
	return limit
}

// In at least 94 % of 1,000 studies with eight rounds and two targets, the interval of each limit contains the limit,
// and the interval of the ratio contains the true ratio. Unless the knee is very soft, a search takes at most a third
// of the steps of a sweep with the same resolution.
func TestSearchFindsTheKnee(t *testing.T) {
	const studies, rounds = 1000, 8
	for name, k := range map[string]knee{"sharp": {soft: .002}, "soft": {soft: .08}, "stalls": {soft: .03, stalls: .02}, "very soft": {soft: .25}} {
		r := rand.New(rand.NewPCG(1, 2))
		var limits [2]int
		var ratios, bounded int
		var width, far float64
		for study := range studies {
			a, b := k, k
			a.limit = 500 * math.Exp(r.Float64()*5)
			ratio := math.Exp(2*r.Float64() - 1)
			b.limit = a.limit * ratio
			pilots := [2]float64{a.limit * (.7 + 5*r.Float64()), b.limit * (.7 + 5*r.Float64())}
			var as, bs []float64
			for round := range uint64(rounds) {
				drift := math.Exp(.03 * r.NormFloat64()) // drift of the machine, which affects both targets
				for i, x := range []knee{a, b} {
					x.limit *= drift * math.Exp(.01*r.NormFloat64())
					got := x.search(r, pilots[i], uint64(study)*rounds+round)
					if i == 0 {
						as = append(as, got)
					} else {
						bs = append(bs, got)
					}
				}
			}
			for i, xs := range [][]float64{as, bs} {
				if m := Median(xs); m.Contains([]float64{a.limit, b.limit}[i]) {
					limits[i]++
				} else if i == 0 {
					far = max(far, math.Abs(math.Log(m.Estimate/a.limit)))
				}
			}
			d, err := Pair(as, bs, iotax.Up)
			if err != nil {
				t.Fatal(err)
			}
			h, err := Hull(d, Options{Alpha: .05})
			if err != nil {
				t.Fatal(err)
			}
			if h.Bounded() {
				bounded++
				width += math.Log(h.Hi/h.Lo) / 2
			}
			if h.Contains(ratio) {
				ratios++
			}
		}
		// sweep is the number of steps, each half as wide as the interval, in a sweep over a factor of 32.
		width /= float64(bounded)
		sweep := math.Log(32) / width
		t.Logf("%s: limit in its interval %.1f %% and %.1f %%, ratio %.1f %%, ± %.1f %%, worst estimate %.1f %% off, a sweep has %.0f steps", name,
			float64(limits[0])/studies*100, float64(limits[1])/studies*100, float64(ratios)/studies*100, 100*width, 100*far, sweep)
		if limits[0] < 940 || limits[1] < 940 || ratios < 940 {
			t.Errorf("%s: limits in %d and %d of %d intervals, ratio in %d", name, limits[0], limits[1], studies, ratios)
		}
		if k.soft < .1 && SearchSteps > sweep/3 { // a softer knee cannot be located that precisely
			t.Errorf("%s: a search has %d steps, a sweep %.0f", name, SearchSteps, sweep)
		}
	}
}

// If all loads met the condition or all missed it, Limit reports that.
func TestSearchWithoutALimit(t *testing.T) {
	for _, always := range []bool{false, true} {
		s, least, most := NewSearch(10, 640, 1), math.Inf(1), 0.
		for range SearchSteps {
			x := s.Next()
			s.Tried(x, always)
			least, most = min(least, x), max(most, x)
		}
		limit, noneMet, noneMissed := s.Limit()
		if noneMet == always || noneMissed != always || always && (limit != most || most < 400) || !always && (limit != least || least > 16) {
			t.Errorf("always %v: %v, %v, %v", always, limit, noneMet, noneMissed)
		}
	}
}
