package stat

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"iotax"
)

func TestPairs(t *testing.T) {
	trial := func(round int, target string, v float64) *iotax.Trial {
		return &iotax.Trial{Workload: "w", Round: round, Target: target,
			Values: []iotax.Value{{Name: "read.iops", Value: v, Better: iotax.Up}}}
	}
	discarded := trial(1, "c", 7)
	discarded.Discarded = "clock"
	failed := trial(2, "t", 7)
	failed.Err = "fio died"
	trials := []*iotax.Trial{
		trial(3, "b", 30), trial(3, "t", 31), // out of order
		trial(0, "t", 1), trial(0, "b", 2),
		trial(1, "b", 10), trial(1, "t", 11), discarded, // a discarded trial of a third target discards the round
		trial(2, "b", 20), failed,
		trial(4, "b", 40), // the target has no trial in this round
		{Workload: "w", Round: 5, Target: "t"}, trial(5, "b", 50),
		{Workload: "other", Round: 6, Target: "t", Values: trial(0, "t", 9).Values},
	}
	b, o, better := Pairs(trials, "w", "read.iops", "b", "t")
	if !slices.Equal(b, []float64{2, 30}) || !slices.Equal(o, []float64{1, 31}) || better != iotax.Up {
		t.Errorf("Pairs = %v, %v, %q", b, o, better)
	}
}

// The result does not depend on the order of the trials.
func TestPairsOrderInsideRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets := []string{"b", "t", "u", "v"}
		var trials []*iotax.Trial
		for round := range rapid.IntRange(1, 8).Draw(t, "rounds") {
			for _, target := range targets {
				x := &iotax.Trial{Workload: "w", Round: round, Target: target,
					Values: []iotax.Value{{Name: "m", Value: rapid.Float64Range(1, 9).Draw(t, "value"), Better: iotax.Down}}}
				switch rapid.IntRange(0, 9).Draw(t, "fate") {
				case 0:
					x.Err = "it failed"
				case 1:
					x.Discarded = "it is discarded"
				}
				trials = append(trials, x)
			}
		}
		b, x, better := Pairs(trials, "w", "m", "b", "t")
		b2, x2, better2 := Pairs(rapid.Permutation(trials).Draw(t, "order"), "w", "m", "b", "t")
		if fmt.Sprint(b, x, better) != fmt.Sprint(b2, x2, better2) {
			t.Fatalf("%v %v %q, in another order %v %v %q", b, x, better, b2, x2, better2)
		}
	})
}
