package run

import (
	"context"
	"math"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// Events report the number of valid rounds, the half-width, and the time left, which is known before the first trial
// and falls to zero.
func TestEventsCount(t *testing.T) {
	w := newWorld()
	w.value = func(t *iotax.Trial) (float64, error) {
		x := 1000 * (1 + .02*math.Sin(float64(7*t.Round+3)))
		if t.Target == "disk" {
			x *= 1 + .05*math.Cos(float64(5*t.Round))
		}
		if t.Round == 2 && t.Target == "host" {
			x = math.NaN()
		}
		return x, nil
	}
	p := guestPlan("w")
	p.Measure.Rounds, p.Measure.Ramp, p.Measure.Trial = plan.Rounds{Min: 6, Max: 8}, plan.Duration(time.Second), plan.Duration(9*time.Second)
	p.Measure.Precision = .0001 // cannot be reached
	var events []Event
	d := w.deps()
	d.Progress = func(e Event) { events = append(events, e) }
	if _, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	var rounds []int
	var halves []float64
	left := time.Duration(math.MaxInt64)
	for _, e := range events {
		switch e.Kind {
		case Starting:
			if len(rounds) == 0 && left == math.MaxInt64 && e.Left != 8*3*10*time.Second {
				t.Errorf("before the first trial %v are left, the plan says 240 s", e.Left)
			}
		case RoundDone:
			rounds, halves = append(rounds, e.Round), append(halves, e.HalfWidth)
			if e.Trial == nil || e.Precision != .0001 || e.Rounds != 8 {
				t.Errorf("round done: %+v", e)
			}
		default:
			continue
		}
		if e.Left > left && e.Round != 2 { // the time left grows only after the discarded round, which is run again
			t.Errorf("round %d: %v left, were %v", e.Round, e.Left, left)
		}
		left = e.Left
	}
	if len(rounds) != 9 || rounds[1] != 2 || rounds[2] != 2 || rounds[8] != 8 {
		t.Errorf("rounds %v: nine were run, the third is discarded", rounds)
	}
	if left != 0 {
		t.Errorf("%v left at the end", left)
	}
	if halves[5] != 0 || !(halves[6] > 0) || !(halves[8] > 0) || !(halves[8] < halves[6]) { // an interval needs six valid rounds
		t.Errorf("half widths %v", halves)
	}
}
