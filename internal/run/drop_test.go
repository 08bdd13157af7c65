package run

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"iotax"
	"iotax/internal/plan"
	"iotax/stat"
)

// levels maps each target of dropPlan to its true ratio to the baseline.
var levels = map[string]float64{"host": 1, "a": 1.2, "b": 1.15, "c": 0.9, "d": 0.7, "e": 0.5}

func dropPlan() *plan.Plan {
	p := guestPlan("w")
	p.Targets = p.Targets[:1]
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		p.Targets = append(p.Targets, plan.Target{Name: name, On: "host", Kind: "dir", Spec: &none{}})
	}
	p.Measure.Budget, p.Measure.Drop = 0, plan.DropWorst
	return p
}

// noisy returns a function for world.value. The value of a target is proportional to its level, with noise that
// depends only on the study, the round and the target.
func noisy(study uint64, sd float64) func(t *iotax.Trial) (float64, error) {
	return func(t *iotax.Trial) (float64, error) {
		r := rand.New(rand.NewPCG(study, uint64(t.Round)<<8+uint64(t.Target[0])))
		return 1000 * levels[t.Target] * math.Exp(sd*r.NormFloat64()), nil
	}
}

func trialsOf(trials []*iotax.Trial) map[string]int {
	n := map[string]int{}
	for _, t := range trials {
		n[t.Target]++
	}
	return n
}

// The run drops targets that are shown not to be the best, but neither the best target nor the baseline. A run that is
// interrupted and resumed drops targets after the same number of trials. Neither a plan with a fixed number of rounds
// nor a divided run can drop targets.
func TestDropWorst(t *testing.T) {
	measure := func(stopAt int) ([]*iotax.Trial, *iotax.Run) {
		w := newWorld()
		w.value = noisy(3, 0.1)
		ctx, cancel := context.WithCancel(context.Background())
		w.onTrial = func(n int) {
			if n == stopAt {
				cancel()
			}
		}
		p := dropPlan()
		r, err := Run(ctx, p, w.deps(), Options{ID: "r"})
		if stopAt > 0 {
			w.onTrial = nil
			r, err = Run(context.Background(), p, w.deps(), Options{Resume: r, Trials: slices.Clone(w.saved)})
		}
		if err != nil {
			t.Fatal(err)
		}
		return w.saved, r
	}
	whole, r := measure(0)
	n := trialsOf(whole)
	if !(n["e"] < n["a"] && n["d"] < n["a"] && n["host"] == n["a"] && n["e"] >= 6) {
		t.Errorf("trials: %v", n)
	}
	dropped := map[string]bool{}
	for _, f := range r.Findings {
		if f.Rule == "target-dropped" {
			dropped[f.Subject.Target] = true
		}
	}
	if !dropped["e"] || !dropped["d"] || dropped["a"] || dropped["host"] {
		t.Errorf("dropped: %v", dropped)
	}
	for _, at := range []int{20, 38, 60, len(whole) - 1} {
		if again, _ := measure(at); fmt.Sprint(trialsOf(again)["e"], trialsOf(again)["d"]) != fmt.Sprint(n["e"], n["d"]) {
			t.Errorf("interrupted at trial %d: %v, want %v", at, trialsOf(again), n)
		}
	}
	p := dropPlan()
	p.Measure.Rounds = plan.Rounds{Min: 6, Max: 6}
	if p.Measure.Check() == nil {
		t.Error("a fixed number of rounds drops nothing, and is taken")
	}
	if _, err := (Shard{0, 2}).Of(dropPlan()); err == nil {
		t.Error("a divided run drops nothing, and is taken")
	}
}

// Within the sampling error, the intervals of all targets, including dropped ones, contain the true ratio in at least
// 95 % of studies, and the best target is dropped in at most 5 % of studies. Dropping reduces the number of trials.
func TestDropWorstSimulated(t *testing.T) {
	studies := 60
	if !testing.Short() {
		studies = 1000
	}
	for _, sd := range []float64{0.03, 0.1, 0.2} {
		held, of, bestDropped, trials, all := map[string]int{}, 0, 0, 0, 0
		for study := range studies {
			for _, drop := range []string{plan.DropWorst, ""} {
				w := newWorld()
				w.value = noisy(uint64(study), sd)
				p := dropPlan()
				p.Measure.Drop, p.Measure.Seed = drop, uint64(study+1)
				r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
				if err != nil {
					t.Fatal(err)
				}
				if drop == "" {
					all += len(w.saved)
					continue
				}
				trials += len(w.saved)
				of++
				pairing := stat.Pairing{Metric: "read.iops", SetAside: true}
				for _, tr := range w.saved {
					pairing.Add(tr)
				}
				for name, level := range levels {
					if i, _, err := pairing.Interval("host", name, stat.Options{Alpha: r.Alpha}); name != "host" && err == nil && i.Contains(level) {
						held[name]++
					}
				}
				if slices.ContainsFunc(r.Findings, func(f iotax.Finding) bool { return f.Rule == "target-dropped" && f.Subject.Target == "a" }) {
					bestDropped++
				}
			}
		}
		limit := 2.6 * math.Sqrt(0.05*0.95/float64(of)) // sampling error of the simulation
		for name, n := range held {
			if share := float64(n) / float64(of); share < stat.Confidence-limit {
				t.Errorf("noise %g: the interval of %s holds its ratio in %.1f %%", sd, name, 100*share)
			}
		}
		if share := float64(bestDropped) / float64(of); share > 0.05+limit {
			t.Errorf("noise %g: the best is dropped in %.1f %%", sd, 100*share)
		}
		if trials >= all {
			t.Errorf("noise %g: %d trials, %d without dropping", sd, trials, all)
		}
		least := of
		for _, n := range held {
			least = min(least, n)
		}
		t.Logf("noise %2.0f %%: coverage of the worst covered target %.1f %%, the best dropped %.1f %%, %d trials of %d", 100*sd, 100*float64(least)/float64(of), 100*float64(bestDropped)/float64(of), trials/of, all/of)
	}
}
