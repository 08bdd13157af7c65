package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A version that is slower by exactly the margin is called fast in at most the share alpha of studies, although it is
// tested after every second round.
func TestSlowedAtTheMargin(t *testing.T) {
	const studies, rounds, margin, alpha = 5000, 30, .05, .05
	r := rand.New(rand.NewPCG(51, 1))
	size, fast := math.Log1p(margin), 0
	for range studies {
		var candidate Sample
		for n := 1; n <= rounds; n++ {
			candidate = candidate.Plus(SampleOf([]float64{-size + 2*size*r.NormFloat64()}))
			if n < LeastTrials || n%2 > 0 {
				continue
			}
			s, err := Slowed(candidate, Sample{}, Sample{}, margin)
			if err != nil {
				t.Fatal(err)
			}
			if s.Most <= math.Log(alpha) {
				fast++
				break
			}
		}
	}
	if w := Wilson(fast, studies, .05); w.Hi > alpha {
		t.Errorf("%.2f %% [%.2f, %.2f] of studies call it fast", 100*w.Estimate, 100*w.Lo, 100*w.Hi)
	}
}
