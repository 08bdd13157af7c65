package main

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"iotax/internal/rules"
	"iotax/internal/testenv/long"
)

// If a user follows the hint of a warning literally, the warning no longer appears.
func TestFollowedHints(t *testing.T) {
	long.Test(t)
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
		{rule: "runner-died", hint: "--shard I/N --id RUN", before: run + "--trial 300ms --rounds 4 --shard 0/2 --id r", after: run + "--trial 300ms --rounds 4 --shard 0/2 --id r", kill: true},
	} {
		t.Run(c.rule+" "+c.hint, func(t *testing.T) {
			t.Parallel()
			if r, _ := rules.Explain(c.rule); !strings.Contains(r.Hint, "`"+c.hint+"`") {
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
			for range 5 { // on a busy machine, a resumed run may exhaust its budget, too
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
	// One plan breaks two rules. The hint of the second rule contains a computed rate.
	t.Run("plan", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.write("jobs.fio", "[one]\nrw=read\nsize=1m\n[two]\nrw=randread\nsize=1m\n")
		report := func(jobs, rate string) string {
			s.write("plan.yaml", "targets: {a: {dir: a}}\nworkloads:\n  jobs: {fio: {file: jobs.fio"+jobs+"}}\n  offered: {fio: {rw: randread, bs: 4k, size: 8MiB, "+rate+"}}\n"+
				"measure: {trial: 300ms, ramp: 0s, rounds: {min: 1, max: 1}}\n")
			s.iotax("run", "plan.yaml")
			return s.iotax("report", "--json").stdout
		}
		before := report("", "rate: 1000000/s")
		offer := regexp.MustCompile("offer less \\(`(rate: \\d+/s)`\\)")
		hint := offer.FindStringSubmatch(before)
		if hint == nil || !strings.Contains(before, `"jobs-run-alone"`) {
			t.Fatalf("no hint for the load, or for the jobs: %s", before)
		}
		after := ""
		for range 5 { // a busy machine may not reach the load that it reached before
			after = report(", jointly: true", hint[1])
			if hint = offer.FindStringSubmatch(after); hint == nil {
				break
			}
		}
		if hint != nil || strings.Contains(after, `"jobs-run-alone"`) {
			t.Errorf("with jointly: true and less load still: %s", after)
		}
	})
	// iotax sets time_based itself, so only an imported result of fio can break this rule.
	t.Run("short-window", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		report := func(options ...string) string {
			out, err := exec.Command("fio", append([]string{"--name=x", "--filename=" + s.path("x.dat"), "--rw=read", "--size=1m", "--runtime=1", "--output-format=json"}, options...)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			s.write("x.json", string(out))
			s.iotax("import", "x.json")
			return s.iotax("report", "--json").stdout
		}
		const rule = `"rule": "short-window"`
		if r := report(); !strings.Contains(r, rule) {
			t.Errorf("no short-window: %s", r)
		}
		if r := report("--time_based=1"); strings.Contains(r, rule) {
			t.Errorf("with time_based=1 still: %s", r)
		}
	})
	// Every rule about trials, runs or reports whose hint contains a setting must be in `tried` or in `unfollowed`.
	tried := []string{"short-trial", "few-trials", "stopped-early", "runner-died", "jobs-run-alone", "load-not-reached", "short-window"}
	for _, r := range rules.All() {
		settings := rules.Settings(r.Hint)
		if r.In&(rules.JobFile|rules.Plan) != 0 || r.In&rules.DuringRun == 0 || len(settings) == 0 || slices.Contains(tried, r.ID) {
			continue // TestFollowedHints of internal/rules/lint follows the hints about jobs and plans
		}
		if unfollowed[r.ID] == "" {
			t.Errorf("the hint of %s contains %v: follow it, or write why not", r.ID, settings)
		}
	}
}

// unfollowed lists the rules whose hints contain settings that TestFollowedHints does not follow. The value is the
// reason, or the test that follows the hint instead.
var unfollowed = map[string]string{
	"cache-served":          "needs a cache below direct I/O: TestFindsTheHostsCache has cache: none as its clean twin",
	"write-absorbed":        "the same",
	"device-did-less":       "the same",
	"host-cache":            "the same",
	"guest-beats-host":      "needs a guest that is faster than the host",
	"durability-differs":    "needs a guest: TestFindsTheHostsCache",
	"line-rate-exceeded":    "needs a network file system",
	"foreign-io":            "iotop is a program",
	"host-paused":           "caffeinate is a program",
	"drain-counted":         "needs a disk that is slow for the depth",
	"warm-up":               "needs a disk that warms up for longer than a short run: TestFindsThrottledDisk",
	"generator-bound":       "TestFindsGeneratorBound has its clean twin",
	"blocking-submit":       "TestFindsBlockingSubmit has its clean twin",
	"noisy-baseline":        "needs noise of a known size: TestPlantedRuns",
	"rounds-correlated":     "the same",
	"two-levels":            "the same",
	"precision-not-reached": "the same: the intervals that more rounds give are in internal/statsim",
	"caches-not-dropped":    "needs a user without root",
	"target-dropped":        "needs at least 18 trials: TestDropWorst of internal/run",
	"shards-differ":         "needs a shard that fails on one host: TestMerge of internal/run",
	"arrivals-late":         "needs sources that are busy for a known share: TestLoadIsJudged",
	"start-dominates":       "needs a slow connection: TestStartDominates",
	"cpu-bound":             "needs a calibration: TestCPUBound",
	"aa-not-one":            "a full calibration takes four minutes",
	"baseline-changed":      "TestCompareFixture of internal/report/compare compares by loss",
	"environment-differs":   "comparing by loss does not make the environments equal: the hint is then left out",
	"left-behind":           "the clean tests remove leftovers",
}
