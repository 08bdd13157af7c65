package fiojob

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/worktest"
)

// allBytes returns the bytes that a file name may contain, each once.
func allBytes() []byte {
	var b []byte
	for c := 1; c < 256; c++ {
		if c != '/' {
			b = append(b, byte(c))
		}
	}
	return b
}

// contents returns the contents of the files below dir, by path.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(p)
			out[p] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// decoys creates files with the names that fio would use if it misread a part of the path below root.
func decoys(t *testing.T, root, dir string) {
	t.Helper()
	for p := dir; p != root; p = filepath.Dir(p) {
		name := filepath.Base(p)
		for i, c := range []byte(name) {
			for _, decoy := range []string{name[:i], name[i+1:], strings.TrimSpace(name)} {
				if strings.IndexByte("#;:, \t\n$%\\", c) < 0 || strings.Trim(decoy, ".") == "" {
					continue
				}
				if decoy = filepath.Join(filepath.Dir(p), decoy); decoy != p {
					_ = os.WriteFile(decoy, []byte("of others"), 0o600)
				}
			}
		}
	}
}

// fio writes only in the target's directory, whatever bytes its path contains.
func TestFioInAnyDirectory(t *testing.T) {
	t.Parallel()
	up := allBytes()
	down := slices.Clone(up)
	slices.Reverse(down)
	for name, c := range map[string]struct {
		names   []string
		options []string
	}{
		"file of each job":  {[]string{" data#1;x ", string(up), string(down)}, []string{"numjobs", "2"}},
		"file of all":       {[]string{"data#1"}, []string{"offset_increment", "16k", "verify", "crc32c", "verify_dump", "1"}},
		"several at a time": {[]string{" a#1:b", "c;d\\:e$ncpus${HOME} "}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := worktest.OnDisk(t)
			dir := filepath.Join(append([]string{root}, c.names...)...)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			decoys(t, root, dir)
			before := contents(t, root)
			w := open(t, append(c.options, "rw", "randwrite", "size", "64k", "direct", "0", "ioengine", "psync")...)
			tg := worktest.Target(host.Local(), dir)
			at := tg
			if name == "several at a time" {
				at = &iotax.Target{Name: "both", Machine: host.Local(), Together: []*iotax.Target{tg, worktest.Target(host.Local(), worktest.OnDisk(t))}}
			}
			prepared(t, w, at)
			out := trial(50 * time.Millisecond)
			if err := w.Run(worktest.CtxFor(t), at, out); err != nil {
				t.Fatal(err)
			}
			after := contents(t, root)
			for _, n := range w.states[tg].job.layout.names() {
				p := filepath.Join(dir, n)
				if _, there := after[p]; !there {
					t.Errorf("%q is not there", p)
				}
				delete(after, p)
			}
			if !maps.Equal(after, before) {
				t.Errorf("other files changed: from %q to %q", slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
			}
			if name == "file of all" {
				if c, err := fio.ParseCommand(out.Facts["command"]); err != nil || c.Jobs()[0].Name != "iotax.test" {
					t.Errorf("the command is not one for a shell: %v", err)
				}
			}
		})
	}
}

// Either iotax refuses a device's path, or fio opens the file with exactly this name. This applies to fio's command
// line and to the job file for several targets.
func TestExactPaths(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("fio")
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, "rw", "write", "bs", "4k", "size", "4k", "direct", "0", "thread", "1")
	job, err := w.resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var jobs []fio.JobSpec
	refused := 0
	for _, c := range allBytes() {
		b := string([]byte{c})
		for _, name := range []string{b + "m", "m" + b + "m", "m" + b} {
			if checkExact(iotax.Place{Kind: iotax.PlaceDevice, Path: name}) != nil {
				refused++
				continue
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
				jobs = append(jobs, line{job: job, place: name, device: true, engine: "psync", seed: 1}.jobs()...)
			}
		}
	}
	if len(names) < 3*62 || refused < 3*(128+33) {
		t.Errorf("%d names are taken and %d refused", len(names), refused)
	}
	for form, args := range map[string][]string{"command line": fio.Args(jobs), "job file": {"../jobs"}} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			root := worktest.OnDisk(t)
			dir := filepath.Join(root, "d")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "jobs"), []byte(jobFile(jobs)), 0o600); err != nil {
				t.Fatal(err)
			}
			zeros := string(make([]byte, 4096))
			for _, n := range names {
				if err := os.WriteFile(filepath.Join(dir, n), []byte(zeros), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(worktest.CtxFor(t), program, append([]string{"--minimal"}, args...)...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, bytes.TrimSpace(out[max(0, len(out)-500):]))
			}
			after := contents(t, dir)
			for _, n := range names {
				if after[filepath.Join(dir, n)] == zeros {
					t.Errorf("fio did not write to %q", n)
				}
			}
			if len(after) != len(names) {
				t.Errorf("there are %d files, and were %d", len(after), len(names))
			}
		})
	}
	for _, u := range []struct {
		url string
		ok  bool
	}{{"nbd://[::1]:10809/a-b", true}, {"nbd+unix:///?socket=%2Frun%2Fa%20b", true}, {"nbd:///x;y", false}, {"nbd:///x#y", false}, {"nbd:///$ncpus", false}, {" nbd:///x", false}, {"nbd:///x\nfilename=/y", false}} {
		if err := checkExact(iotax.Place{Kind: iotax.PlaceURL, Path: u.url}); (err == nil) != u.ok {
			t.Errorf("%q: %v", u.url, err)
		}
	}
}

// iotax refuses a device whose path it cannot pass to fio.
func TestInexactDevice(t *testing.T) {
	t.Parallel()
	w := open(t)
	tg := worktest.Target(host.Local(), "/dev/x#1")
	tg.Place.Kind = iotax.PlaceDevice
	var e *iotax.Error
	if err := w.Check(t.Context(), tg); !errors.As(err, &e) || !strings.Contains(err.Error(), "/dev/x#1") || e.Hint == "" {
		t.Error(err)
	}
}

// A value that contains a comment character or a line break is refused.
func TestCommentInValue(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"psync#x", "psync;x", "exec\nfilename=/x"} {
		if err := newFio().(*Fio).SetOption("ioengine", v); err == nil {
			t.Errorf("%q is taken", v)
		}
		if err := newFio().(*Fio).SetOption("cpus_allowed", v); err == nil {
			t.Errorf("cpus_allowed %q is taken", v)
		}
	}
}
