package main

import (
	"fmt"
	"testing"

	"iotax"
)

// A run that made a report succeeded, unless there is nothing to compare. --strict asks for all of the plan.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mkdir("c")
	for _, c := range []struct {
		name, targets, fails string // fails is where the work does
		code, strict         int
		want                 []string
	}{
		{"all is well", "one: {dir: a}, two: {dir: b}", "none", 0, 0, nil},
		{"one of three targets fails", "one: {dir: a}, two: {dir: b}, three: {dir: c}", "c", 0, 4, []string{"trial-failed", "iotax run --resume"}},
		{"a target cannot be opened", "one: {dir: a}, two: {dir: b}, three: {dir: /proc/nothing}", "none", 0, 4, []string{"target-not-opened"}},
		{"the baseline fails", "one: {dir: a}, two: {dir: b}", "a", 1, 1, []string{"trial-failed", "no trial succeeded on both sides of a comparison", "hint: ", "iotax run --resume="}},
		{"all that is held against it fails", "one: {dir: a}, two: {dir: b}", "b", 1, 1, []string{"no trial succeeded on both sides of a comparison"}},
		{"the only target fails", "one: {dir: a}", "a", 1, 1, []string{"trial-failed", "every trial failed"}},
	} {
		s.write("plan.yaml", fmt.Sprintf(`
targets: {%s}
workloads: {work: {command: {shell: true, run: 'case $PWD in %s/*) exit 7; esac'}}}
measure: {blocks: 2, keep_going: true}
`, c.targets, s.path(c.fails)))
		for flag, code := range map[string]int{"--calibrate=no": c.code, "--strict": c.strict} {
			if r := s.iotax("run", "plan.yaml", "--details", flag); r.code != code || r.stdout == "" {
				t.Errorf("%s, %s: exit status %d, want %d: %s", c.name, flag, r.code, code, r)
			} else {
				r.works(t, code, c.want...)
			}
		}
	}
}

// A run that stops at its budget tells how to finish it, and that command does.
func TestBudgetIsFinished(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", `
targets: {one: {dir: a}, two: {dir: b}}
workloads: {work: {command: {shell: true, run: sleep 1}}}
measure: {trial: 1s, ramp: 0s, blocks: 2, budget: 3s}
`)
	r := s.iotax("run", "plan.yaml", "--strict", "--details")
	run, trials := s.trials()
	r.works(t, exitIncomplete, "stopped-early: work: the budget of 3s was spent after 1 of 2 blocks", "`iotax run --resume="+run.ID+"` ")
	if run.Status != iotax.Incomplete || len(trials) != 2 {
		t.Errorf("the run is %s after %d trials", run.Status, len(trials))
	}
	s.iotax("run", "--resume="+run.ID, "--strict").works(t, exitOK)
	if run, trials := s.trials(); run.Status != iotax.Done || len(trials) != 4 {
		t.Errorf("resumed, it is %s after %d trials", run.Status, len(trials))
	}
}
