package fiojob

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
)

// Targets on one file system share its free space and leave its reserve, including targets whose image is on that file
// system.
func TestJobsShareTheSpace(t *testing.T) {
	tiny := small(t)
	image := filepath.Join(tiny, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 12<<20); err != nil {
		t.Fatal(err)
	}
	dirs := func(name string) *iotax.Target {
		d := filepath.Join(tiny, name)
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		return worktest.Target(host.Local(), d)
	}
	guest := worktest.Target(&worktest.Elsewhere{Machine: host.Local(), Name: "guest"}, worktest.OnDisk(t))
	guest.Place.Backing, guest.Place.Facts = image, map[string]string{"disk.size": "12582912"}
	for _, c := range []struct {
		name, size string
		a, b       *iotax.Target
		want       string
	}{
		{"two that fit", "7MiB", dirs("a"), dirs("b"), ""},
		{"two that do not", "8MiB", dirs("c"), dirs("d"), "16MiB needed in " + tiny + "/d and by other targets on its file system, 16MiB available, of which 819KiB stay in reserve"},
		{"one in a sparse image", "8MiB", dirs("e"), guest, "16MiB needed in " + tiny + " and by other targets"},
	} {
		w := open(t, "size", c.size)
		w.env.Host = host.Local()
		if err := w.Check(worktest.CtxFor(t), c.a); err != nil {
			t.Fatal(err)
		}
		err := w.Check(worktest.CtxFor(t), c.b)
		var e *iotax.Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, "a smaller size")) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		for _, tg := range []*iotax.Target{c.a, c.b} {
			if err := w.Cleanup(worktest.CtxFor(t), tg); err != nil {
				t.Error(err)
			}
		}
	}
}

// If a workload is skipped on a target, other workloads can use the space that the skipped one would need.
func TestLeftOutTakesNoSpace(t *testing.T) {
	tiny := small(t)
	in := func(name string) *iotax.Target {
		d := filepath.Join(tiny, name)
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		return worktest.Target(host.Local(), d)
	}
	refused, other := open(t, "size", "10MiB", "rwmixread", "200"), open(t, "size", "10MiB")
	a, b, c := in("a"), in("b"), in("c")
	for w, tg := range map[*fioJob]*iotax.Target{refused: a, other: b} { // as in a run, settle all workloads before the first Check
		if _, err := w.Settle(worktest.CtxFor(t), []*iotax.Target{tg}); err != nil {
			t.Fatal(err)
		}
	}
	if err := refused.Check(worktest.CtxFor(t), a); err == nil || !strings.Contains(err.Error(), "rwmixread") {
		t.Errorf("got %v", err)
	}
	both := &iotax.Target{Name: "both", Together: []*iotax.Target{b, c}}
	if err := other.Check(worktest.CtxFor(t), both); err == nil || !strings.Contains(err.Error(), "20MiB needed") {
		t.Errorf("got %v", err)
	}
	if err := other.Check(worktest.CtxFor(t), c); err != nil {
		t.Error(err)
	}
	if err := other.Check(worktest.CtxFor(t), both); err == nil || !strings.Contains(err.Error(), "20MiB needed") {
		t.Errorf("got %v", err)
	}
	if err := other.Check(worktest.CtxFor(t), b); err == nil || !strings.Contains(err.Error(), "20MiB needed") { // c's claim stays
		t.Errorf("got %v", err)
	}
	if err := other.Cleanup(worktest.CtxFor(t), c); err != nil {
		t.Error(err)
	}
}

// filling is this host, where another process writes 8 MiB to the file right before fio writes test files.
type filling struct {
	iotax.Machine
	*agent.Link
	file string
}

func (filling) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (f filling) Run(ctx context.Context, c *iotax.Cmd) error {
	if slices.Contains(c.Args, "--name=fill0") {
		if err := os.WriteFile(f.file, make([]byte, 8<<20), 0o600); err != nil {
			return err
		}
	}
	return f.Machine.Run(ctx, c)
}

// If the file system fills up after the last check of its free space, Prepare returns an error and removes its files.
func TestPlaceFillsUpUnderFio(t *testing.T) {
	tiny := small(t)
	w := open(t, "size", "10MiB")
	tg := worktest.Target(filling{host.Local(), &agent.Link{Start: agent.InProcess}, filepath.Join(tiny, "other")}, tiny)
	if err := w.Check(worktest.CtxFor(t), tg); err != nil {
		t.Fatal(err)
	}
	err := w.Prepare(worktest.CtxFor(t), tg)
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "No space left on device") || !strings.Contains(e.Hint, "now 10MiB in all") {
		t.Errorf("got %v", err)
	}
	if err := w.Cleanup(worktest.CtxFor(t), tg); err != nil {
		t.Error(err)
	}
	if got := names(t, tiny); !slices.Equal(got, []string{"other"}) {
		t.Errorf("left behind: %v", got)
	}
}

// Files that fio leaves in its working directory do not end up in the user's directory.
func TestJobsLeaveNothingWhereTheyRun(t *testing.T) {
	t.Chdir(t.TempDir())
	w := open(t, "rw", "write", "size", "1MiB", "verify", "crc32c", "do_verify", "0")
	tg := worktest.Target(host.Local(), worktest.OnDisk(t))
	prepared(t, w, tg)
	if err := w.Run(worktest.CtxFor(t), tg, trial(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got := names(t, "."); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

// A check that hangs ends after support.GlanceTime.
func TestEveryLookEnds(t *testing.T) {
	before := support.GlanceTime
	support.GlanceTime = 300 * time.Millisecond
	t.Cleanup(func() { support.GlanceTime = before })
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "fio"), []byte("#!/bin/sh\ntrap '' TERM\nsleep 20\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := &worktest.Elsewhere{Machine: host.Local(), Name: "hangs", Env: []string{"PATH=" + bin + ":" + os.Getenv("PATH")}}
	if _, err := agent.System(worktest.CtxFor(t), m); err != nil { // copies the agent there
		t.Fatal(err)
	}
	begun := time.Now()
	_, err := support.Survey(worktest.CtxFor(t), m)
	if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "no end within 300ms") || took > 10*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}
