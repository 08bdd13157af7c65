package plan

import (
	"testing"
	"time"
)

// A hint asks for more than the plan does, and names the budget that this needs.
func TestWorkable(t *testing.T) {
	measure := func(trial, budget time.Duration, blocks Blocks, protocol string) *Plan {
		m := Defaults()
		m.Trial, m.Budget, m.Blocks, m.Protocol, m.Ramp = Duration(trial), Duration(budget), blocks, protocol, 0
		return samplePlan(4, 3, m) // a round is 12 trials
	}
	few := Blocks{Min: 6, Max: 6}
	for _, c := range []struct {
		plan       *Plan
		hint, want string
	}{
		{measure(time.Second, 3*time.Minute, few, ""), "trials (`--trial 10s`)", "trials (`--trial 10s --budget 18m`)"},
		{measure(time.Second, 20*time.Minute, few, ""), "trials (`--trial 10s`)", "trials (`--trial 10s`)"},
		{measure(time.Second, 0, few, ""), "trials (`--trial 10s`)", "trials (`--trial 10s`)"},
		{measure(10*time.Second, 0, few, ""), "trials (`--trial 10s`)", "trials (`--trial 20s`)"},
		{measure(time.Second, 3*time.Minute, few, ""), "`--blocks 12..60` or `--trial 30s`", "`--blocks 12..60 --budget 4m` or `--trial 30s --budget 54m`"},
		{measure(time.Second, 0, Blocks{Min: 12, Max: 60}, ""), "`--blocks 12..60`", "`--blocks 24..120`"},
		{measure(time.Second, 0, Blocks{Min: 6, Max: 100}, ""), "`--blocks 12..60`", "`--blocks 12..200`"},
		{measure(time.Second, 0, Blocks{Min: 6, Max: 30}, ""), "`--blocks 12..60`", "`--blocks 12..60`"},
		{measure(time.Second, 0, Blocks{Min: 20, Max: 30}, ""), "`--blocks 12..60`", "`--blocks 40..60`"},
		{measure(time.Second, 0, Blocks{Min: 3, Max: 3}, ""), "`--blocks 6`", "`--blocks 6`"},
		{measure(time.Second, 0, few, ""), "`--blocks 6`", "`--blocks 12`"},
		{measure(time.Minute, 0, few, "fixed:5x60s"), "`--blocks 12..60`", "`--blocks 12..60 --protocol adaptive`"},
		{measure(time.Second, time.Minute, few, ""), "see `iotax show`, `--trial` and --trial 10s", "see `iotax show`, `--trial` and --trial 10s"},
	} {
		if got := c.plan.Workable(c.hint); got != c.want {
			t.Errorf("%q: %q, want %q", c.hint, got, c.want)
		}
	}
}
