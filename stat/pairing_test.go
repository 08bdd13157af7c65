package stat

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"iotax"
)

// After each added trial, a Pairing returns the same pairs as the combination of SetAside and naivePairs, for any order
// and outcome of the trials.
func TestPairingIsPairsOfTrialsSetAside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets := []string{"b", "t", "u"}
		var trials []*iotax.Trial
		for round := range rapid.IntRange(1, 20).Draw(t, "rounds") {
			for _, target := range targets {
				x := &iotax.Trial{Target: target, Workload: "w", Round: round}
				if rapid.IntRange(0, 9).Draw(t, "has") > 0 {
					x.Values = []iotax.Value{{Name: "m", Value: float64(len(trials) + 1), Better: iotax.Down}}
				}
				for _, fate := range rapid.SliceOfN(rapid.IntRange(0, 40), 2, 2).Draw(t, "fates") {
					switch fate {
					case 0:
						x.Err = "it failed"
					case 1:
						x.Discarded = "it is discarded"
					case 2, 3, 4:
						x.Findings = []iotax.Finding{{Rule: "steal", Severity: iotax.Warning}, {Rule: "cache-served", Severity: iotax.Invalid}}
					}
				}
				trials = append(trials, x)
			}
		}
		p := Pairing{Metric: "m", SetAside: true}
		trials = rapid.Permutation(trials).Draw(t, "order")
		for i, x := range trials {
			p.Add(x)
			for _, target := range targets { // includes the baseline with itself
				b, o, better := p.Pairs("b", target)
				b2, o2, better2 := naivePairs(SetAside(trials[:i+1]), "b", target)
				if fmt.Sprint(b, o, better) != fmt.Sprint(b2, o2, better2) {
					t.Fatalf("after %d trials, %s: %v %v %q, want %v %v %q", i+1, target, b, o, better, b2, o2, better2)
				}
			}
		}
	})
}

// naivePairs implements the definition of Pairs directly.
func naivePairs(trials []*iotax.Trial, baseline, target string) (base, other []float64, better iotax.Better) {
	for round := range len(trials) + 100 {
		var b, o []float64
		discarded := false
		for _, x := range trials {
			if x.Round != round {
				continue
			}
			discarded = discarded || x.Discarded != ""
			if v, ok := x.Value("m"); ok && x.Err == "" {
				if x.Target == baseline {
					b = append(b, v.Value)
				}
				if x.Target == target {
					o, better = append(o, v.Value), v.Better
				}
			}
		}
		if len(b) > 0 && len(o) > 0 && !discarded {
			base, other = append(base, b...), append(other, o...)
		}
	}
	return base, other, better
}

// Thousands of rounds do not fill the shared caches, and a Pairing uses at most 40 bytes per trial.
func TestManyRoundsKeepLittle(t *testing.T) {
	const rounds = 3000
	p := Pairing{Metric: "m", SetAside: true}
	d := make([]float64, rounds)
	for i := range rounds {
		for _, target := range []string{"b", "t"} {
			p.Add(&iotax.Trial{Target: target, Workload: "w", Round: i, Raw: make([]byte, 100), Values: []iotax.Value{{Name: "m", Value: float64(i + 1)}}})
		}
		d[i] = float64(i % 7)
	}
	for n := 1; n <= rounds; n++ {
		if _, err := Hull(d[:n], Options{Alpha: 0.0123}); err != nil {
			t.Fatal(err)
		}
	}
	for name, n := range map[string]int{"quantiles of t": len(*tQuantiles.read.Load()), "rank depths": len(*rankDepths.read.Load())} {
		if n > 1000 {
			t.Errorf("%d %s are kept", n, name)
		}
	}
	bytes := cap(p.kept) * int(reflect.TypeFor[kept]().Size())
	if each := bytes / (2 * rounds); each > 40 {
		t.Errorf("%d bytes are kept of each trial", each)
	}
}

// A value that is named like a quantile of 100 % or more is not from the bins of a histogram, so its interval is not
// wider.
func TestPairingOfNoQuantile(t *testing.T) {
	for metric, half := range map[string]float64{"m.p99": 2 * HistogramError, "m.p100": 0, "m.p500": 0} {
		p := Pairing{Metric: metric}
		for i := range 12 {
			p.Add(&iotax.Trial{Target: []string{"b", "t"}[i%2], Round: i / 2, Values: []iotax.Value{{Name: metric, Value: 3, Better: iotax.Down}}})
		}
		if got, _, err := p.Interval("b", "t", Options{}); err != nil || math.Abs(math.Log(got.Hi)-half) > 1e-12 || math.Abs(math.Log(got.Lo)+half) > 1e-12 {
			t.Errorf("%s: %+v, %v", metric, got, err)
		}
	}
}
