package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/tune"
)

// A search refuses the flags that it ignores, reports that it does not check expectations, and keeps rounds that the
// plan sets, also if they are the default.
func TestSearchPlan(t *testing.T) {
	const text = "targets: {a: {dir: /a}}\nworkloads: {w: {fio: {rw: read}, expect: read.iops > 5}}\n"
	own := func(measure string) string {
		name := filepath.Join(t.TempDir(), "own.yaml")
		if err := os.WriteFile(name, []byte(text+measure), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		args, rounds, err string
	}{
		{own(""), "6..300", ""},
		{own("measure: {rounds: 6..30}\n"), "6..30", ""},
		{own("measure: {rounds: 7..30}\n"), "7..30", ""},
		{own("") + " --rounds 6..30", "6..30", ""},
		{own("") + " --precision 1%", "", "--precision: a search has a stop rule of its own"},
		{own("") + " --to-precision", "", "--to-precision: a search"},
		{own("") + " --expect read.iops>5", "", "--expect: a search"},
	} {
		var pf planFlags
		var notes bytes.Buffer
		command := &cobra.Command{}
		pf.add(command)
		if err := command.ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		p, err := (&app{err: &notes}).loadSearch(&pf, command.Flags().Args(), tuneRounds)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)), c.err == "" && err != nil:
			t.Errorf("%s: error %v, want %q", c.args, err, c.err)
		case err == nil && (p.Measure.Rounds.String() != c.rounds || p.Measure.Budget != 0 || !strings.Contains(notes.String(), "does not check the expectations of own")):
			t.Errorf("%s: rounds %s, budget %s, notes %q", c.args, p.Measure.Rounds, p.Measure.Budget, &notes)
		}
	}
}

// The plan that a step of a search saves can be read again.
func TestTuneStepPlan(t *testing.T) {
	for _, measure := range []string{"protocol: fixed:6x5s", "restarts: 6", "drop: worst"} {
		p, err := plan.Parse("p.yaml", []byte("targets: {a: {dir: {path: [/a, /b]}}}\nworkloads: {w: {fio: {rw: read}}}\nmeasure: {"+measure+"}\n"), kinds.All())
		if err != nil {
			t.Fatal(err)
		}
		m, err := matrixOf(p)
		if err != nil {
			t.Fatal(err)
		}
		step := (&tuning{p: p, matrix: m}).plan([]tune.Combo{{0}, {1}}, 2)
		text, err := step.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := plan.Parse("p.yaml", text, kinds.All()); err != nil || again.Measure.Rounds != (plan.Rounds{Min: 2, Max: 2}) {
			t.Errorf("%s: %v, from\n%s", measure, err, text)
		}
	}
}
