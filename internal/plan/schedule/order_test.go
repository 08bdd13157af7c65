package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"iotax/internal/plan"
	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		n := rapid.IntRange(0, 40).Draw(t, "n")
		round := rapid.IntRange(0, 1<<40).Draw(t, "round")
		order := Order(seed, n, round)
		if !slices.Equal(order, Order(seed, n, round)) {
			t.Fatal("another order for the same arguments")
		}
		sorted := slices.Sorted(slices.Values(order))
		for i, v := range sorted {
			if i != v {
				t.Fatalf("%v is no permutation of %d", order, n)
			}
		}
		if len(order) != n {
			t.Fatalf("%d of %d", len(order), n)
		}
		mirror := Order(seed, n, round^1)
		slices.Reverse(mirror)
		if !slices.Equal(order, mirror) {
			t.Fatalf("round %d is %v and its pair reversed %v", round, order, mirror)
		}
	})
}

// The orders must not change between versions, because a resumed run must use the same orders.
func TestOrderStays(t *testing.T) {
	got := fmt.Sprint(Order(1, 4, 0), Order(1, 4, 1), Order(1, 4, 2), Order(2, 4, 0), RoundSeed(1, "4k", 0), RoundSeed(1, "4k", 1))
	const want = "[1 2 0 3] [3 0 2 1] [1 2 3 0] [1 0 2 3] 3771040614390754 7026190997630644"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if Order(1, 0, 0) != nil || Order(1, -3, -1) != nil || len(Order(1, 2, -5)) != 2 {
		t.Error("no order of nothing")
	}
}

// All permutations of three targets are about equally frequent over pairs of rounds.
func TestOrderIsEven(t *testing.T) {
	const pairs = 6000
	count := map[string]int{}
	for p := range pairs {
		count[fmt.Sprint(Order(42, 3, 2*p))]++
	}
	if len(count) != 6 {
		t.Fatalf("%v", count)
	}
	chi := 0.0
	for _, n := range count {
		chi += math.Pow(float64(n)-pairs/6, 2) / (pairs / 6)
	}
	if chi > 20.5 { // the 0.999 quantile of χ² with 5 degrees of freedom
		t.Errorf("χ² = %.1f: %v", chi, count)
	}
}

func TestRoundSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, round := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1<<40).Draw(t, "round")
		w := rapid.String().Draw(t, "workload")
		s := RoundSeed(seed, w, round)
		if s != RoundSeed(seed, w, round) || s < 1 || s > 1<<53-1 {
			t.Fatalf("%d", s)
		}
		if s == RoundSeed(seed, w, round+1) || s == RoundSeed(seed+1, w, round) || s == RoundSeed(seed, w+"x", round) {
			t.Fatalf("%d comes twice", s)
		}
	})
}

func samplePlan(targets, workloads int, m plan.Measure) *plan.Plan {
	p := &plan.Plan{Measure: m}
	for i := range targets {
		p.Targets = append(p.Targets, plan.Target{Name: fmt.Sprint("t", i)})
	}
	for i := range workloads {
		p.Workloads = append(p.Workloads, plan.Workload{Name: fmt.Sprint("w", i)})
	}
	return p
}

type lasting float64

func (l lasting) Validate() error { return nil }

func (l lasting) Traits() bind.Traits { return bind.Traits{Lasts: float64(l)} }

func TestEstimate(t *testing.T) {
	m := plan.Defaults() // 12 s per trial
	m.Settle = syntax.Duration(time.Second)
	m.Budget = 0
	for _, c := range []struct {
		name        string
		p           *plan.Plan
		least, most time.Duration
	}{
		{"no budget", samplePlan(4, 3, m), 6 * 4 * 3 * 13 * time.Second, 30 * 4 * 3 * 13 * time.Second},
		{"budget", func() *plan.Plan {
			p := samplePlan(4, 3, m)
			p.Measure.Budget = syntax.Duration(20 * time.Minute)
			return p
		}(), 936 * time.Second, 23 * 52 * time.Second},
		{"one target", samplePlan(1, 3, m), 6 * 3 * 13 * time.Second, 6 * 3 * 13 * time.Second},
		{"nothing", samplePlan(0, 3, m), 0, 0},
		{"work that ends by itself, at two targets, and a window of its own", func() *plan.Plan {
			p := samplePlan(4, 3, m)
			p.Workloads[0].Assumed, p.Workloads[0].At = 5*time.Second, []string{"t0", "t1"}
			p.Workloads[1].Spec = lasting(2) // 20 s
			return p
		}(), 6 * (2*6 + 4*23 + 4*13) * time.Second, 30 * (2*6 + 4*23 + 4*13) * time.Second},
		{"restarts", func() *plan.Plan { // opening takes 100 s
			p := samplePlan(2, 1, m)
			p.Measure.Restarts = 3
			if err := p.Measure.Check(); err != nil {
				t.Fatal(err)
			}
			return p
		}(), 30*2*13*time.Second + 3*100*time.Second, 30*2*13*time.Second + 3*100*time.Second},
		{"restarts that the budget ends after the second", func() *plan.Plan {
			p := samplePlan(2, 1, m)
			p.Measure.Restarts, p.Measure.Budget = 3, syntax.Duration(20*2*13*time.Second+299*time.Second)
			if err := p.Measure.Check(); err != nil {
				t.Fatal(err)
			}
			return p
		}(), 20*2*13*time.Second + 200*time.Second, 20*2*13*time.Second + 200*time.Second},
		{"huge", func() *plan.Plan {
			p := samplePlan(1000, 1000, m)
			p.Measure.Rounds.Max, p.Measure.Trial = plan.MaxRounds, plan.MaxTime
			return p
		}(), math.MaxInt64, math.MaxInt64},
	} {
		costs := Costs{}
		if c.p.Measure.Restarts > 1 {
			costs.Open = 100 * time.Second
		}
		if least, most, _ := Estimate(c.p, costs); least != c.least || most != c.most {
			t.Errorf("%s: %s to %s, want %s to %s", c.name, least, most, c.least, c.most)
		}
	}
	// In each round, three workloads at four targets take 156 s of trials and 3 × (4 + 10) s around them. With a budget
	// of 20 min, a sixth round of one workload fits after five rounds of all.
	for budget, want := range map[time.Duration]struct {
		rounds      int
		least, most float64 // in seconds
	}{0: {30, 1288, 6040}, 20 * time.Minute: {5, 1156, 1156}, 3 * time.Minute: {1, 298, 298}} {
		p := samplePlan(4, 3, m)
		p.Measure.Budget = syntax.Duration(budget)
		c := Costs{Open: 100 * time.Second, Around: map[Cell]time.Duration{}}
		for _, w := range p.Workloads {
			c.Around[Cell{w.Name, "t0"}], c.Around[Cell{w.Name, "t3"}] = 4*time.Second, 10*time.Second
		}
		least, most, rounds := Estimate(p, c)
		if rounds != want.rounds || most.Seconds() != want.most || least.Seconds() != want.least {
			t.Errorf("budget %v: %s to %s, %d rounds, want %+v", budget, least, most, rounds, want)
		}
	}
	// A workload that ends by itself also has overhead.
	p := samplePlan(2, 1, m)
	p.Workloads[0].Assumed = 5 * time.Second
	if least, _, _ := Estimate(p, Costs{Around: map[Cell]time.Duration{{"w0", "t1"}: 2 * time.Second}}); least != 6*(6+8)*time.Second {
		t.Errorf("work that ends by itself: %s", least)
	}
}

func TestSchedule(t *testing.T) {
	m := plan.Defaults()
	m.Seed = 7
	p := samplePlan(3, 2, m)
	s := Slots(p, 4)
	if len(s) != 8 || len(Slots(p, -1)) != 0 {
		t.Fatalf("%d slots", len(s))
	}
	for i, slot := range s {
		if slot.Round != i/2 || slot.Workload != fmt.Sprint("w", i%2) || slot.Seed != RoundSeed(7, slot.Workload, slot.Round) {
			t.Errorf("slot %d is %+v", i, slot)
		}
		if i >= 2 && slot.Round%2 == 1 {
			mirror := slices.Clone(s[i-2].Targets)
			slices.Reverse(mirror)
			if !slices.Equal(mirror, slot.Targets) {
				t.Errorf("slot %d is %v after %v", i, slot.Targets, s[i-2].Targets)
			}
		}
	}
}

func TestTooManyTrials(t *testing.T) {
	p := samplePlan(100, 10, plan.Defaults())
	p.File = "plan.yaml"
	for rounds, want := range map[int]string{1000: "", 1001: "plan.yaml: 1001 rounds of 1000 trials are more than 1000000 trials"} {
		p.Measure.Rounds.Min = rounds
		if err := CheckTrials(p); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d rounds: %v", rounds, err)
		}
	}
}
