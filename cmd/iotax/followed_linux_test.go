package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"iotax/internal/rules"
)

// A user who follows a hint word by word no longer gets its warning.
func TestFollowedHints(t *testing.T) {
	t.Parallel()
	run := "run dir:a dir:b --calibrate=no --size 8MiB --ramp 0s -w randread-4k "
	for _, c := range []struct {
		rule, hint    string // the hint contains these words
		before, after string // arguments of iotax
		kill          bool   // kill the first run
	}{
		{rule: "short-trial", hint: "--trial 10s", before: run + "--rounds 1 --trial 1s", after: run + "--rounds 1 --trial 10s"},
		{rule: "few-trials", hint: "--rounds 6", before: run + "--trial 300ms --rounds 2", after: run + "--trial 300ms --rounds 6"},
		{rule: "stopped-early", hint: "iotax run --resume=RUN", before: run + "--trial 500ms --rounds 12 --budget 10s", after: "run --resume=latest"},
		{rule: "runner-died", hint: "iotax run --resume=RUN", before: run + "--trial 1s --rounds 6", after: "run --resume=latest", kill: true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(rules.All(), func(r rules.Rule) bool { return r.ID == c.rule })
			if i < 0 || !strings.Contains(rules.All()[i].Hint, "`"+c.hint+"`") {
				t.Fatalf("no rule whose hint contains `%s`", c.hint)
			}
			s := newStage(t)
			warned := func() bool {
				return strings.Contains(s.iotax("report", "--json").stdout, `"rule": "`+c.rule+`"`)
			}
			first := s.start(nil, strings.Fields(c.before)...)
			if c.kill {
				first.said("round 1/")
				first.send(syscall.SIGKILL)
			}
			first.wait()
			if !warned() {
				t.Fatalf("%s: no %s", c.before, c.rule)
			}
			for range 5 { // on a busy machine, the budget of the first run that continues may end as well
				if s.iotax(strings.Fields(c.after)...); !warned() {
					break
				}
			}
			if warned() {
				t.Errorf("%s: still %s", c.after, c.rule)
			}
			s.iotax("clean", "--yes")
		})
	}
}
