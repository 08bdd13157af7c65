package wired_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/rules"
	"iotax/internal/run/progress"
	"iotax/internal/run/wired"
	"iotax/internal/store"
)

// A run that is active on this host when a trial ends leads to a finding, even if it ends before the trial's own run. A
// run that has ended, other shards of the same run, earlier steps of this process, and doctor lead to none.
func TestAnotherRun(t *testing.T) {
	if os.Getenv("IOTAX_TEST_OTHER") != "" { // the process of another run
		fmt.Println(leftover.Self())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(leftover.RunVariable, "")
	t.Setenv(leftover.RunnerVariable, "")
	if _, err := leftover.Begin("mine"); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "iotax.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := &iotax.Run{ID: "mine", Status: iotax.Running, Start: time.Now(), Baseline: "a", Targets: []iotax.TargetInfo{{Name: "a"}}, Workloads: []iotax.WorkloadInfo{{Name: "w"}}}
	if err := db.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	self := leftover.Self()
	child := exec.Command(os.Args[0], "-test.run=^TestAnotherRun$")
	child.Env = append(os.Environ(), "IOTAX_TEST_OTHER=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err := errors.Join(err, child.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(in.Close(), child.Wait()); err != nil {
			t.Error(err)
		}
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	other, err := leftover.ParseRunner(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		label leftover.Label
		want  bool
	}{
		{leftover.Label{Run: "other", Runner: other}, true},
		{leftover.Label{Run: "other", Runner: self}, false}, // an earlier step of this process
		{leftover.Label{Run: "mine", Runner: other}, false},
		{leftover.Label{Run: "doctor", Runner: other}, false},
		{leftover.Label{Run: "other", Runner: leftover.Runner{PID: self.PID, Start: self.Start + 1000, Boot: self.Boot, Host: self.Host}}, false},
	} {
		d := wired.Deps(db, t.TempDir(), nil, progress.New(io.Discard, progress.Quiet, false, 80), false)
		dir := filepath.Join(os.TempDir(), "iotax-1")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, leftover.Marker), []byte(c.label.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		trial := &iotax.Trial{Run: "mine", Target: "a", Workload: "w", Seq: i}
		if err := d.Save(t.Context(), trial); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range d.Review(r, []*iotax.Trial{trial}) {
			found = found || f.Rule == rules.AnotherRun.ID && strings.Contains(f.Evidence, "run "+c.label.Run+" (process ")
		}
		if found != c.want {
			t.Errorf("%v: a finding: %v, want %v", c.label, found, c.want)
		}
	}
}
