package main

import (
	"fmt"
	"strings"
	"testing"

	"iotax"
)

// A run whose standard output and standard error are closed pipes, as in `iotax run 2>&1 | head`, measures to its end,
// writes the files of -o, and removes what it made. stage.clean looks for leftovers.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", `
targets: {one: {dir: a}, two: {dir: b}}
workloads: {work: {command: {shell: true, run: sleep 0.2}}}
measure: {rounds: 3}
`)
	closed := []string{"bash", "-o", "pipefail", "-c", `"$0" "$@" 2>&1 | head -n 1`}
	s.start(closed, "run", "plan.yaml", "--calibrate=no", "-v", "-o", "report.json").wait().works(t, exitError)
	if run, trials := s.trials(); run.Status != iotax.Done || len(trials) != 6 {
		t.Errorf("the run is %s after %d trials", run.Status, len(trials))
	}
	if !strings.Contains(s.read("report.json"), `"one"`) {
		t.Error("report.json is not complete")
	}
}

// Without expectations, a run exits with 0 if a comparison, or the only target, has valid trials, otherwise with 1.
// With --strict, it exits with 0 only if it measured the full plan.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mkdir("c")
	for _, c := range []struct {
		name, targets, fails string // fails is the directory in which the workload fails
		code, strict         int
		want                 []string
	}{
		{"all is well", "one: {dir: a}, two: {dir: b}", "none", 0, 0, nil},
		{"one of three targets fails", "one: {dir: a}, two: {dir: b}, three: {dir: c}", "c", 0, 4, []string{"trial-failed", "iotax run --resume"}},
		{"a target cannot be opened", "one: {dir: a}, two: {dir: b}, three: {dir: /proc/nothing}", "none", 0, 4, []string{"target-not-opened"}},
		{"the baseline fails", "one: {dir: a}, two: {dir: b}", "a", 1, 1, []string{"trial-failed", "no valid trial on both sides of a comparison", "hint: ", "iotax run --resume="}},
		{"all that is compared with it fails", "one: {dir: a}, two: {dir: b}", "b", 1, 1, []string{"no valid trial on both sides of a comparison"}},
		{"the only target fails", "one: {dir: a}", "a", 1, 1, []string{"trial-failed", "every trial failed"}},
	} {
		s.write("plan.yaml", fmt.Sprintf(`
targets: {%s}
workloads: {work: {command: {shell: true, run: 'case $PWD in %s/*) exit 7; esac'}}}
measure: {rounds: 2, keep_going: true}
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

// A run that stops at its budget prints a command that completes the run, and that command works.
func TestBudgetIsFinished(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.write("plan.yaml", `
targets: {one: {dir: a}, two: {dir: b}}
workloads: {work: {command: {shell: true, run: sleep 1}}}
measure: {trial: 1s, ramp: 0s, rounds: 2, budget: 3s}
`)
	r := s.iotax("run", "plan.yaml", "--strict", "--details")
	run, trials := s.trials()
	r.works(t, exitIncomplete, "stopped-early: work: the budget of 3s was spent after 1 of 2 rounds", "`iotax run --resume="+run.ID+"` ")
	if run.Status != iotax.Incomplete || len(trials) != 2 {
		t.Errorf("the run is %s after %d trials", run.Status, len(trials))
	}
	s.iotax("run", "--resume="+run.ID, "--strict").works(t, exitOK)
	if run, trials := s.trials(); run.Status != iotax.Done || len(trials) != 4 {
		t.Errorf("resumed, it is %s after %d trials", run.Status, len(trials))
	}
}

// A run with a missed expectation exits with status 3. An undecided one causes status 3 only with --strict. Before
// measuring, iotax refuses an expectation that is invalid or cannot be decided.
func TestExpectations(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	// The commands print fixed times, so that the results do not depend on this machine. The times of `mixed` alternate
	// between 400 ms and 0, so that the interval of the median contains 200 ms.
	s.write("plan.yaml", fmt.Sprintf(`
targets: {one: {dir: a}, two: {dir: b}}
workloads:
  quick: {command: {shell: true, run: 'case $PWD in %s/*) echo took 300 ms;; *) echo took 3 ms; esac', values: {took: 'took (?<ms>[0-9]+) ms'}}}
  mixed: {at: one, command: {shell: true, run: 'echo >> %[2]s; echo took $(($(wc -l < %[2]s) %% 2 * 400)) ms', values: {took: 'took (?<ms>[0-9]+) ms'}}}
measure: {rounds: 8}
`, s.path("b"), s.path("count")))
	run := func(args ...string) result {
		return s.iotax(append([]string{"run", "plan.yaml", "--calibrate=no"}, args...)...)
	}
	run("--expect", "quick: took < 10s", "--expect", "quick: took > 110% of baseline", "--strict").works(t, exitOK, "All 3 expectations are met.")
	s.iotax("report", "--fail-on", "undecided").works(t, exitOK, "All 3 expectations are met.")
	run("--expect", "quick: took < 250ms", "-o", s.path("junit.xml")).works(t, exitGate, "Of 2 expectations, 1 is missed.", "took < 250ms", "missed")
	s.iotax("report", "--fail-on", "missed").works(t, exitGate, "Of 2 expectations, 1 is missed.")
	if text := s.read("junit.xml"); !strings.Contains(text, `tests="2" failures="1" errors="0" skipped="0"`) || !strings.Contains(text, `name="took &lt; 250ms at two"`) {
		t.Errorf("the test cases are\n%s", text)
	}
	run("--expect", "mixed: took < 200ms").works(t, exitOK, "The expectation is undecided.")
	s.iotax("report", "--fail-on", "missed").works(t, exitOK, "The expectation is undecided.")
	s.iotax("report", "--fail-on", "undecided").works(t, exitGate, "The expectation is undecided.")
	run("--expect", "mixed: took < 200ms", "--strict").works(t, exitGate, "The expectation is undecided.")
	out := run("--expect", "mixed: took < 200ms", "--expect", "quick: took < 1us at two", "--format", "github", "-q")
	if want := "::error title=Missed%3A quick%3A took < 1us at two::measured "; out.code != exitGate || !strings.HasPrefix(out.stdout, want) || !strings.Contains(out.stdout, "\n::warning title=Undecided%3A mixed%3A") {
		t.Errorf("status %d, annotations\n%s", out.code, out.stdout)
	}
	_, before := s.trials()
	for text, want := range map[string]string{
		"duratoin < 1s": `has no metric "duratoin"`, "took < 5MiB": `unknown unit "MiB"`, "took": "is not an expectation",
		"quick: took > 110% of baseline at one": "nothing is compared", "took < 1s at three": `no target "three"`,
	} {
		run("--expect", text).refuses(t, exitUsage, want, "hint: ")
	}
	run("--expect", "took < 1s", "--expect", "quick: took > 2s at two").refuses(t, exitUsage, "contradicts")
	run("--expect", "took < 1s", "--rounds", "5").refuses(t, exitUsage, "would stay undecided")
	run("--format", "junit").refuses(t, exitUsage, "the run has none")
	if _, after := s.trials(); len(after) != len(before) {
		t.Errorf("%d trials of what is refused", len(after)-len(before))
	}
}
