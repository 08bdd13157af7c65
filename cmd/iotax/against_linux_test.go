package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/store"
	"iotax/internal/testenv/long"
)

// A machine that became slower between two runs makes a better configuration look worse. With --against, one run
// measures both configurations in the same rounds, and the report shows the gain.
func TestAgainst(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := newStage(t)
	drift := s.write("drift", "1")
	tool := s.write("tool", fmt.Sprintf(`#!/bin/sh
exec awk -v seed="$1" -v speed="$2" -v drift="$(cat %s)" 'BEGIN { srand(seed); printf "took %%.4f ms\n", 100*drift/speed*(1 + 0.02*(rand()-0.5)) }'
`, drift))
	if err := os.Chmod(tool, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, speed string) string {
		return s.write(name, fmt.Sprintf(`
targets:
  host: {dir: a, labels: {speed: "2"}}
  app: {dir: b, labels: {speed: "%s"}}
workloads: {tool: {command: {run: "%s {seed} {speed}", values: {took: 'took (?<ms>[0-9.]+)'}}}}
measure: {cold: false, ramp: 0s, rounds: {min: 6, max: 6}}
`, speed, tool))
	}
	s.mkdir("b")
	write("old.yaml", "1")
	write("new.yaml", "1.25")
	s.iotax("run", "old.yaml", "--calibrate=no", "-q", "--id", "old").works(t, exitOK)
	s.iotax("run", "old.yaml", "--against", "latest").works(t, exitUsage, "no target is configured otherwise", "iotax compare")
	s.iotax("run", "new.yaml", "--against", "latest", "--resume").works(t, exitUsage, "--against cannot be combined with --resume: a resumed run keeps its plan")
	s.iotax("run", "new.yaml", "--against", "latest", "--shard", "0/2", "--id", "divided").works(t, exitUsage, "all shards must name the same earlier run", "--against old")
	s.write("drift", "1.5")
	gains := func(r result) {
		t.Helper()
		var rep struct {
			Cells []struct {
				Target, Metric string
				Ratio          *struct{ Estimate, Lo, Hi float64 }
			}
		}
		s.parse(r, &rep)
		found := false
		for _, c := range rep.Cells {
			if c.Target == "app" && c.Metric == "took" {
				found = true
				if c.Ratio == nil || c.Ratio.Lo < 1.24 || c.Ratio.Hi > 1.26 {
					t.Errorf("app is compared with host, or with the drift: %+v, want 1.25", c.Ratio)
				}
			}
		}
		if !found {
			t.Errorf("no figure of app: %s", r.stdout)
		}
	}
	r := s.iotax("run", "new.yaml", "--against", "latest", "--calibrate=no", "--json", "--id", "new")
	r.works(t, exitOK, "is measured as in run old")
	gains(r)
	for _, shard := range []string{"0/2", "1/2"} { // each shard pairs the targets itself
		r = s.iotax("run", "new.yaml", "--against", "old", "--calibrate=no", "--json", "--id", "divided", "--shard", shard)
		r.works(t, exitOK, "app of old is measured as in run old")
	}
	gains(r)
	// The earlier run may be divided, too, and its plan may be in another directory.
	s.mkdir("other")
	s.write("other/next.yaml", strings.ReplaceAll(strings.ReplaceAll(s.read("new.yaml"), "1.25", "1.5625"), "dir: ", "dir: ../"))
	r = s.iotax("run", "other/next.yaml", "--against", "divided", "--calibrate=no", "--json")
	r.works(t, exitOK, "app of divided is measured as in run divided")
	gains(r)
	// Without pairing, the drift dominates the result. compare marks the result as unpaired.
	r = s.iotax("compare", "old", "new", "--fail-on", "worse")
	r.works(t, exitGate, "Unpaired", "0.833× [0.833, 0.833]  worse")
}

// An earlier run in a store to which other users can write is measured again only by its id, because its plan contains
// commands.
func TestAgainstOfOtherUsers(t *testing.T) {
	url := filepath.Join(t.TempDir(), "runs.db")
	db, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	text := "targets: {one: {dir: /data}, two: {dir: /other}}\nworkloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}\n"
	r := &iotax.Run{ID: store.NewID(time.Now()), Status: iotax.Done, Plan: []byte(text)}
	p, err := kinds.Saved(r)
	if err := errors.Join(err, db.Create(t.Context(), r), os.Chmod(url, 0o660)); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{"latest": "other users can write to the store", r.ID[:len(r.ID)-1]: "--against " + r.ID, r.ID: "no target is configured otherwise"} {
		if _, _, err := against(t.Context(), db, p, ref, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
}
