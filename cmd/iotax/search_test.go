package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/bisect"
	"iotax/internal/kinds"
	"iotax/internal/leftover"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/store"
	"iotax/internal/tune"
)

// A search refuses the flags in notInSearch, reports that it does not check expectations, and keeps rounds that the plan
// sets, even if they equal the default.
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
		{own("measure: {restarts: 6}\n"), "", "6 starts of 30 rounds: a search takes rounds as independent"},
		{own("") + " --restarts 6 --rounds 6..30", "", "--rounds 6..30 --restarts 30 gives each round its own start"},
		{own("measure: {restarts: 6}\n") + " --rounds 6..30 --restarts 30", "6..30", ""},
		{own("") + " --restarts 1", "6..300", ""},
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

// tenRounds returns a store with the run "s": ten rounds of the workload "w" at the targets "a" and "b".
func tenRounds(t *testing.T, trial func(target string, round int) (iops float64, found []iotax.Finding)) *store.Store {
	_, db := storeOf(t, nil, leftover.Runner{})
	r := &iotax.Run{ID: "s", Status: iotax.Done, Baseline: "a", Plan: []byte("x"), Start: time.Now(),
		Targets: []iotax.TargetInfo{{Name: "a"}, {Name: "b"}}, Workloads: []iotax.WorkloadInfo{{Name: "w", Metrics: []string{"read.iops"}}}}
	if err := db.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		for i, target := range []string{"a", "b"} {
			x := &iotax.Trial{Run: "s", Target: target, Workload: "w", Round: round, Seq: 2*round + i, Start: time.Now()}
			iops, found := trial(target, round)
			x.Values, x.Findings = []iotax.Value{{Name: "read.iops", Value: iops, Unit: iotax.PerSecond, Better: iotax.Up}}, found
			if err := db.Append(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
	}
	return db
}

// A run that was killed while it opened its targets does not end the search.
func TestTuneKilledRun(t *testing.T) {
	db := tenRounds(t, func(string, int) (float64, []iotax.Finding) { return 100, nil })
	for i, id := range []string{"opening", "opened"} {
		r := &iotax.Run{ID: id, Status: iotax.Interrupted, Baseline: "a", Plan: []byte("x"), Start: time.Now(), Targets: []iotax.TargetInfo{{Name: "a"}, {Name: "b"}}[:2*i]}
		if err := db.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	combos := []tune.Combo{{0}, {1}}
	m := &matrix{targets: map[string]plan.Target{fmt.Sprint(combos[0]): {Name: "a"}, fmt.Sprint(combos[1]): {Name: "b", On: "host", Kind: "dir", Spec: &plan.Plain{}}}}
	runs := []string{"opened", "s", "opening", "gone"}
	tuned := &tuning{matrix: m, metric: "read.iops", db: db, state: tuneState{Steps: []tuneStep{{Combos: combos, Runs: runs}}}, step: 1}
	if rows, err := tuned.rows(t.Context(), combos, runs); err != nil || len(rows[1].D) != 10 || rows[1].Wrong != "" {
		t.Errorf("%+v, %v", rows, err)
	}
	if lines, err := tuned.lines(t.Context(), combos[1]); err != nil || len(lines) > 0 {
		t.Errorf("%q, %v", lines, err)
	}
}

// full is standard output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// tune removes its state only after it has printed the answer.
func TestTunePrintsFirst(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("TMPDIR", dir)
	file, state := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "tune")
	text := "targets: {a: {dir: " + dir + ", labels: {x: [1, 2]}}}\nworkloads: {w: {command: sleep .1}}\nmeasure: {cold: false, ramp: 0s}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"tune", file, "--for", "duration", "--rounds", "6..6", "--margin", "90%", "--state", state, "--store", filepath.Join(dir, "db"), "-q"}
	var out, errs bytes.Buffer
	if code := Main(t.Context(), args, nil, full{}, &errs); code != exitError || !strings.Contains(errs.String(), "the disk is full") {
		t.Fatalf("exit status %d: %s", code, &errs)
	}
	if _, err := os.Stat(filepath.Join(state, "state.json")); err != nil {
		t.Fatal(err)
	}
	if code := Main(t.Context(), args, nil, &out, &errs); code != exitOK || !strings.Contains(out.String(), "Keep the present options") {
		t.Errorf("exit status %d: %s%s", code, &out, &errs)
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state is left: %v", err)
	}
}

// tune leaves single invalid trials out. It refuses a combination with too many of them.
func TestTuneInvalid(t *testing.T) {
	cached := iotax.Finding{Rule: rules.CacheServed.ID, Severity: iotax.Invalid, Evidence: "too fast"}
	for _, c := range []struct {
		found []iotax.Finding
		bad   int
		wrong tune.Wrong
		why   string
	}{
		{[]iotax.Finding{cached}, 2, "", ""},
		{[]iotax.Finding{cached}, 3, tune.Cached, "a cache answered, not the device: too fast"},
		{[]iotax.Finding{{Rule: "data-lost", Severity: iotax.Invalid, Evidence: "gone"}}, 3, tune.Failed, "its trials are invalid: data-lost: gone"},
		{[]iotax.Finding{{Rule: "x", Severity: iotax.Warning}}, 10, "", ""},
	} {
		db := tenRounds(t, func(target string, round int) (float64, []iotax.Finding) {
			if target == "b" && round < c.bad {
				return 100, c.found
			}
			return 100, nil
		})
		combos := []tune.Combo{{0}, {1}}
		m := &matrix{targets: map[string]plan.Target{fmt.Sprint(combos[0]): {Name: "a"}, fmt.Sprint(combos[1]): {Name: "b"}}}
		tuned := &tuning{matrix: m, metric: "read.iops", db: db, state: tuneState{Steps: []tuneStep{{Runs: []string{"gone", "s"}}}}, step: 1}
		rows, err := tuned.rows(t.Context(), combos, []string{"gone", "s"})
		if err != nil {
			t.Fatal(err)
		}
		out := 0
		for _, x := range rows[1].D {
			if math.IsNaN(x) {
				out++
			}
		}
		want := 0
		if c.found[0].Severity == iotax.Invalid {
			want = c.bad
		}
		if rows[0].Wrong != "" || rows[1].Wrong != c.wrong || rows[1].Why != c.why || out != want {
			t.Errorf("%d of %v: %q %q, %d left out", c.bad, c.found, rows[1].Wrong, rows[1].Why, out)
		}
	}
}

// bisect leaves single invalid trials out. It uses no round of a run with too many of them.
func TestBisectInvalid(t *testing.T) {
	for bad, want := range map[int]string{0: "10 ", 2: "8 ", 3: "0 more than 20 % of the trials of b are invalid: cache-served: too fast"} {
		db := tenRounds(t, func(target string, round int) (float64, []iotax.Finding) {
			if target == "b" && round < bad {
				return 1000, []iotax.Finding{{Rule: rules.CacheServed.ID, Severity: iotax.Invalid, Evidence: "too fast"}}
			}
			return 100, nil
		})
		d, invalid, err := bisectRatios(t.Context(), db, "s")
		if got := fmt.Sprint(len(d), " ", invalid); err != nil || got != want {
			t.Errorf("%d: %s, %v, want %s", bad, got, err, want)
		}
	}
}

// bisect prints a slowdown as the report of the same run does: as a share of the rate.
func TestBisectPrints(t *testing.T) {
	db := tenRounds(t, func(target string, round int) (float64, []iotax.Finding) {
		noise := 1 + float64(round%3)/1000
		if target == "b" {
			return 86 * noise, nil
		}
		return 100, nil
	})
	var out bytes.Buffer
	s := &bisect.Search{State: &bisect.State{Good: "1", Bad: "2", Steps: []bisect.Step{{Version: "2", Answer: bisect.Bad, Runs: []string{"gone", "s"}, Rounds: 10}}}}
	s.Save = func(*bisect.State) error { return nil }
	s.Ratios = func(ctx context.Context, id string) ([]float64, error) {
		d, _, err := bisectRatios(ctx, db, id)
		return d, err
	}
	same := func(_ context.Context, version string) string { return version }
	if err := (&app{out: &out}).printBisection(t.Context(), db, s, bisect.Result{First: "2"}, same); err != nil || !strings.Contains(out.String(), "Slow versions, against 1: 14 % slower") {
		t.Errorf("%v, %s", err, &out)
	}
}
