package main

import (
	"fmt"
	"os"
	"testing"

	"iotax/internal/testenv/long"
)

// With the setting "drop: worst", a real run stops measuring a target once another target is significantly better. It
// keeps the baseline in any case. It reports the dropped targets, and measures the others to the end.
func TestDropWorst(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	tool := s.write("tool", `#!/bin/sh
seed=$(($(echo "$*" | cksum | cut -d' ' -f1) % 1000003))
exec awk -v seed="$seed" -v ms="$2" 'BEGIN { srand(seed); rand(); printf "took %.4f ms\n", ms * (1 + 0.1 * rand()) }'
`)
	if err := os.Chmod(tool, 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("drop.yaml", fmt.Sprintf(`
targets:
  base: {dir: a, labels: {ms: "100"}}
  app: {dir: a, labels: {ms: [80, 80.01, 150, 200]}}
workloads:
  tool: {command: {run: "%s {seed} {ms}", values: {took: 'took (?<ms>[0-9.]+)'}}, metric: took}
measure: {cold: false, ramp: 0s, rounds: 6..12, precision: 0.5%%, drop: worst}
`, tool))
	s.iotax("run", "drop.yaml", "-q", "--calibrate=no").works(t, exitOK)
	run, trials := s.trials()
	n, dropped := map[string]int{}, map[string]bool{}
	for _, trial := range trials {
		n[trial.Labels["ms"]]++
	}
	for _, f := range run.Findings {
		if f.Rule == "target-dropped" {
			dropped[f.Subject.Target] = true
		}
	}
	if n["150"] >= n["80"] || n["200"] >= n["80"] || n["150"] < 6 || n["100"] != n["80"] || n["80.01"] != n["80"] {
		t.Errorf("trials: %v", n)
	}
	if len(dropped) != 2 || !dropped["app ms=150"] || !dropped["app ms=200"] {
		t.Errorf("dropped: %v", dropped)
	}
}
