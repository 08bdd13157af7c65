package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"iotax"
	"iotax/internal/bisect"
	"iotax/internal/testenv/long"
)

// repository makes a git repository of n commits. The tool in a commit prints a time of 100 ms with 2 % noise that
// depends on the seed and on the commit. From index `planted` on, the time is 8 % longer. Commits whose index is in
// `broken` do not build.
func (s *stage) repository(n, planted int, broken ...int) (commits []string) {
	s.t.Helper()
	repo := s.mkdir("repo")
	git := func(args ...string) string {
		s.t.Helper()
		c := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			s.t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	for i := range n {
		base := 100.0
		if i >= planted {
			base = 108
		}
		s.write("repo/tool.in", fmt.Sprintf(`#!/bin/sh
# %d
seed=$(($(echo "$1 %d" | cksum | cut -d' ' -f1) %% 1000003))
exec awk -v seed="$seed" 'BEGIN { srand(seed); rand(); n = sqrt(-2*log(1-rand()))*cos(6.2831853*rand()); printf "took %%.4f ms\n", %g*exp(0.02*n) }'
`, i, i, base))
		build := "cp tool.in tool && chmod +x tool\n"
		if slices.Contains(broken, i) {
			build = "echo no compiler today >&2; exit 1\n"
		}
		s.write("repo/build.sh", build)
		git("add", ".")
		git("commit", "-q", "-m", fmt.Sprintf("change %d", i), "--date", fmt.Sprintf("2025-03-01T00:%02d:00Z", i))
		commits = append(commits, git("rev-parse", "HEAD"))
	}
	return commits
}

var bisected = []string{"bisect", "--repo", "repo", "-q", "--json", "--metric", "took"}

// bisect finds the commit that made the tool slower, with real builds and runs. It skips and lists a commit that does
// not build.
func TestBisect(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	commits := s.repository(64, 37, 31, 32) // bisect tests 31 or 32 first, because both halve the list
	s.write("tool.yaml", `
targets: {here: {dir: a}}
workloads: {tool: {command: {run: "{build}/tool {seed}", values: {took: 'took (?<ms>[0-9.]+)'}}}}
measure: {cold: false, ramp: 0s}
`)
	args := append(append(bisected, "tool.yaml", "--good", commits[0], "--bad", "master"), "--", "sh", "build.sh")
	var last struct {
		First    string
		Suspects []string
		Rounds   int
		Steps    []bisect.Step
	}
	r := s.iotax(args...)
	r.works(t, exitOK)
	if err := json.Unmarshal([]byte(r.stdout), &last); err != nil {
		t.Fatal(err)
	}
	if last.First != commits[37] || len(last.Suspects) > 0 {
		t.Errorf("found %s of %s: %s", last.First, commits[37], r.stdout)
	}
	failed := ""
	for _, step := range last.Steps {
		if step.Answer == bisect.Failed {
			failed += step.Version + ": " + step.Why
		}
	}
	if !strings.Contains(failed, commits[31]) && !strings.Contains(failed, commits[32]) || !strings.Contains(failed, "no compiler today") {
		t.Errorf("skipped: %q", failed)
	}
	if dirs, _ := filepath.Glob(s.path("repo/.git/iotax-bisect/builds/*")); len(dirs) > 0 {
		t.Errorf("left: %v", dirs)
	}
	t.Logf("%d rounds", last.Rounds)

	// The same command succeeds again. bisect refuses to continue with a different build script.
	again := s.iotax(args...)
	again.works(t, exitOK)
	args[len(args)-1] = "other.sh"
	s.iotax(args...).works(t, exitError, "another build script", "--reset")
}

// Without a slowdown, bisect reports no first slow commit. With --step it exits as git bisect run expects.
func TestBisectStep(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	commits := s.repository(8, 5, 2)
	s.write("tool.yaml", `
targets: {here: {dir: a}}
workloads: {tool: {command: {run: "{build}/tool {seed}", values: {took: 'took (?<ms>[0-9.]+)'}}}}
measure: {cold: false, ramp: 0s}
`)
	search := func(good, bad int, more ...string) []string {
		args := append(append([]string{}, bisected...), "tool.yaml", "--good", commits[good], "--bad", commits[bad])
		return append(append(args, more...), "--", "sh", "build.sh")
	}
	s.iotax(search(0, 4, "--state", s.path("none"))...).works(t, exitOK, `"none": true`)
	for at, status := range map[int]int{4: gitGood, 6: gitBad, 2: gitSkip} {
		if out, err := exec.Command("git", "-C", s.path("repo"), "checkout", "-q", "--detach", commits[at]).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.iotax(search(0, 7, "--step")...).works(t, status)
	}
	s.iotax(search(7, 0, "--step")...).works(t, gitAbort, "the good version contains the bad one")
}

// The budget limits the whole search. With a larger budget, the search continues at the step at which it stopped.
func TestBisectBudget(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	commits := s.repository(3, 1)
	s.write("tool.yaml", `
targets: {here: {dir: a}}
workloads: {tool: {command: {run: "{build}/tool {seed}", values: {took: 'took (?<ms>[0-9.]+)'}}}}
measure: {cold: false, ramp: 0s, trial: 1ms}
`)
	search := func(more ...string) []string {
		args := append(append([]string{}, bisected...), "tool.yaml", "--good", commits[0], "--bad", commits[2])
		return append(append(args, more...), "--", "sh", "build.sh")
	}
	s.iotax(search("--budget", "1ms")...).works(t, exitError, "the budget is spent", "a larger --budget continues")
	s.iotax(search("--budget", "1h")...).works(t, exitOK, `"first": "`+commits[1]+`"`)
}

// bisect refuses a second search in the same state directory while the first one runs. The first build already has a
// label, by which iotax clean finds its processes.
func TestBisectTwice(t *testing.T) {
	s := newStage(t)
	commits := s.repository(3, 1)
	pipe := s.path("building")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"bisect", "--repo", "repo", "--good", commits[0], "-w", "command:{build}/tool {seed}", "--", "sh", "-c", "echo $IOTAX_RUN >" + iotax.Quote(pipe) + "; sleep 1000"}
	first := s.start(nil, args...)
	if label, err := os.ReadFile(pipe); err != nil || string(label) != "bisect\n" { // blocks until the build has begun
		t.Fatalf("label %q, %v", label, err)
	}
	s.iotax(args...).works(t, exitError, "another iotax bisect works there", "--state DIR")
	first.send(os.Interrupt)
	first.wait().works(t, exitInterrupted)
}

// bisect refuses arguments that cannot work.
func TestBisectRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	commits := s.repository(3, 1)
	with := func(more ...string) []string { return append([]string{"bisect", "--repo", "repo"}, more...) }
	for want, args := range map[string][]string{
		"no build command is given":                        with("--good", commits[0], "-w", "command:{build}/tool {dir}"),
		"no good version is given":                         with("-w", "command:{build}/tool {dir}", "--", "make"),
		"the workload and its target do not use the build": with("--good", commits[0], "-w", "command:sleep 1", "--", "sh"),
		"bisect compares one":                              with("--good", commits[0], "-w", "command:{build}/a", "-w", "randread-4k", "--", "sh"),
		"the good version contains the bad one":            with("--good", commits[2], "--bad", commits[0], "-w", "command:{build}/tool", "--", "sh"),
		"it is not in the list":                            with("--versions", "1,2,3", "--good", "4", "-w", "command:{build}/tool", "--", "sh"),
		"differ at most in upper and lower case":           with("--versions", "rc1,v2,RC1", "--good", "rc1", "-w", "command:{build}/tool", "--", "sh"),
		"no good version is listed before it":              with("--versions", "1,2,3", "--good", "3", "--bad", "2", "-w", "command:{build}/tool", "--", "sh"),
		"find build command no-such-compiler-21":           with("--good", commits[0], "-w", "command:{build}/tool", "--", "no-such-compiler-21"),
	} {
		s.iotax(args...).works(t, exitUsage, want)
	}
}
