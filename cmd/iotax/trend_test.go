package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
)

// nights makes a store with n nightly runs, and returns its path. From night 14 on, the guest's p99 latency is twice as
// long, but its rate does not change.
func nights(t *testing.T, n int) (path string) {
	t.Helper()
	path, db := storeOf(t, nil, leftover.Self())
	r := rand.New(rand.NewPCG(4, 5))
	for night := range n {
		run := &iotax.Run{ID: fmt.Sprintf("night-%02d", night), Name: "nightly", Status: iotax.Done, Start: time.Date(2026, 3, 1+night, 2, 0, 0, 0, time.UTC),
			End: time.Date(2026, 3, 1+night, 3, 0, 0, 0, time.UTC), Baseline: "disk", Precision: .05, Margin: .05, Alpha: .05,
			Targets: []iotax.TargetInfo{{Name: "disk"}, {Name: "guest"}}, Workloads: []iotax.WorkloadInfo{{Name: "4k random read", Kind: "fio", Metrics: []string{"read.iops"}}}}
		if err := db.Create(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			x := &iotax.Trial{Run: run.ID, Target: run.Targets[i%2].Name, Workload: "4k random read", Round: i / 2, Seq: i, Length: 10 * time.Second, Start: run.Start,
				Facts: map[string]string{iotax.FactJob: `{"kind":"fio","rw":"randread"}`}}
			p99 := .004 * math.Exp(.03*r.NormFloat64())
			if x.Target == "guest" && night >= 14 {
				p99 *= 2
			}
			x.Values = []iotax.Value{{Name: "read.iops", Value: 1000 * math.Exp(.02*r.NormFloat64()), Unit: iotax.PerSecond, Better: iotax.Up},
				{Name: "read.latency.p99", Value: p99, Unit: iotax.Seconds, Better: iotax.Down}}
			if err := db.Append(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
	}
	return path
}

// trend finds a p99 that got worse although the rate did not change. With --fail-on, it fails if the change is recent.
func TestTrendFails(t *testing.T) {
	path := nights(t, 20)
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"nightly --fail-on change", exitOK, []string{"0 of 2 numbers changed.", "no change in 20 runs"}},
		{"nightly --metric latency.p99 --fail-on change", exitGate, []string{"1 of 2 numbers changed.", "got worse: 2", "since the run of 15 March 2026"}},
		{"--metric read.latency.p99 --fail-on worse --target guest", exitGate, []string{"guest got worse", "night"}},
		{"--metric read.latency.p99 --by value --fail-on worse --target guest --json", exitGate, []string{`"by": "value"`, `"verdict": "worse"`, `"run": "night-14"`}},
		{"--metric read.latency.p99 --fail-on change --within 5", exitOK, []string{"got worse"}},
		{"--metric read.latency.p99", exitOK, []string{"got worse"}},
	} {
		code, out, errs := cli(t, append([]string{"trend", "--store", path}, strings.Fields(c.args)...)...)
		if code != c.code {
			t.Errorf("%s: exit status %d, want %d\n%s%s", c.args, code, c.code, out, errs)
		}
		for _, w := range c.want {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), w) {
				t.Errorf("%s: no %q in\n%s%s", c.args, w, out, errs)
			}
		}
	}
	for args, want := range map[string]string{"--metric read.latency.p98": "there are read.{iops}", "--target x": "it has no number", "--within 0": "number of runs", "--fail-on better": "not one of"} {
		want = strings.ReplaceAll(want, "{iops}", "iops")
		if code, out, errs := cli(t, append([]string{"trend", "--store", path}, strings.Fields(args)...)...); code == exitOK || !strings.Contains(errs, want) {
			t.Errorf("%s: exit status %d, no %q in\n%s%s", args, code, want, out, errs)
		}
	}
}

// Saved runs can be reported and compared by any metric of their trials.
func TestMetricOfSavedRuns(t *testing.T) {
	path := nights(t, 16)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"report night-15 --metric latency.p99", exitOK, "4k random read latency p99 on guest is 1.9× slower than on disk."},
		{"report night-15", exitOK, "No difference found"},
		{"compare night-00 night-15 --metric latency.p99 --fail-on worse", exitGate, "slower"},
		{"compare night-00 night-15 --fail-on worse --margin 10%", exitOK, ""},
		{"report night-15 --metric read.latency.p98", exitUsage, ""},
	} {
		code, out, errs := cli(t, append(strings.Fields(c.args), "--store", path)...)
		if code != c.code || !strings.Contains(strings.Join(strings.Fields(out), " "), c.want) {
			t.Errorf("%s: exit status %d, want %d and %q in\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
}
