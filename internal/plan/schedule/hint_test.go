package schedule

import (
	"testing"
	"time"

	"iotax/internal/plan"
	"iotax/internal/plan/syntax"
)

// The flags in a hint exceed the plan's own values. Workable adds the budget that they need.
func TestWorkable(t *testing.T) {
	measure := func(trial, budget time.Duration, rounds plan.Rounds, protocol string) *plan.Plan {
		m := plan.Defaults()
		m.Trial, m.Budget, m.Rounds, m.Protocol, m.Ramp = syntax.Duration(trial), syntax.Duration(budget), rounds, protocol, 0
		return samplePlan(4, 3, m) // a round is 12 trials
	}
	few := plan.Rounds{Min: 6, Max: 6}
	for _, c := range []struct {
		plan       *plan.Plan
		hint, want string
	}{
		{measure(time.Second, 3*time.Minute, few, ""), "trials (`--trial 10s`)", "trials (`--trial 10s --budget 18m`)"},
		{measure(time.Second, 20*time.Minute, few, ""), "trials (`--trial 10s`)", "trials (`--trial 10s`)"},
		{measure(time.Second, 0, few, ""), "trials (`--trial 10s`)", "trials (`--trial 10s`)"},
		{measure(10*time.Second, 0, few, ""), "trials (`--trial 10s`)", "trials (`--trial 20s`)"},
		{measure(time.Second, 3*time.Minute, few, ""), "`--rounds 12..60` or `--trial 30s`", "`--rounds 12..60 --budget 4m` or `--trial 30s --budget 54m`"},
		{measure(time.Second, 0, plan.Rounds{Min: 12, Max: 60}, ""), "`--rounds 12..60`", "`--rounds 24..120`"},
		{measure(time.Second, 0, plan.Rounds{Min: 6, Max: 100}, ""), "`--rounds 12..60`", "`--rounds 12..200`"},
		{measure(time.Second, 0, plan.Rounds{Min: 6, Max: 30}, ""), "`--rounds 12..60`", "`--rounds 12..60`"},
		{measure(time.Second, 0, plan.Rounds{Min: 20, Max: 30}, ""), "`--rounds 12..60`", "`--rounds 40..60`"},
		{measure(time.Second, 0, plan.Rounds{Min: 3, Max: 3}, ""), "`--rounds 6`", "`--rounds 6`"},
		{measure(time.Second, 0, few, ""), "`--rounds 6`", "`--rounds 12`"},
		{measure(time.Minute, 0, few, "fixed:5x60s"), "`--rounds 12..60`", "`--rounds 12..60 --protocol adaptive`"},
		{measure(time.Second, time.Minute, few, ""), "see `iotax show`, `--trial` and --trial 10s", "see `iotax show`, `--trial` and --trial 10s"},
	} {
		if got := Workable(c.plan, c.hint); got != c.want {
			t.Errorf("%q: %q, want %q", c.hint, got, c.want)
		}
	}
}
