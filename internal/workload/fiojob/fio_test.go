package fiojob

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// open makes a fio workload from options, given as key, value, key, value…
func open(t testing.TB, options ...string) *fioJob {
	t.Helper()
	spec := newFio().(*Fio)
	for i := 0; i < len(options); i += 2 {
		if err := spec.SetOption(options[i], options[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	w, err := Kind.New(plan.Workload{Name: "test", Kind: "fio", Spec: spec}, support.Env{CacheDir: worktest.Cache, Shared: worktest.Shared, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return w.(*fioJob)
}

// small mounts a separate file system of 16 MiB and returns its directory.
func small(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	d := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", d).CombinedOutput(); err != nil {
		t.Skipf("needs mount: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", d).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return d
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func prepared(t testing.TB, w *fioJob, tg *iotax.Target) {
	t.Helper()
	ctx := worktest.CtxFor(t)
	if err := w.Check(ctx, tg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Cleanup(context.Background(), tg); err != nil {
			t.Error(err)
		}
	})
	if err := w.Prepare(ctx, tg); err != nil {
		t.Fatal(err)
	}
}

func trial(length time.Duration) *iotax.Trial {
	return &iotax.Trial{Length: length, Seed: 7, Cold: true}
}

func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, where := range []string{"/var/tmp", "/dev/shm"} {
		t.Run(where, func(t *testing.T) {
			w := open(t, "rw", "randrw", "size", "8MiB", "iodepth", "4", "numjobs", "2")
			tg := worktest.Target(host.Local(), worktest.TempIn(t, where))
			prepared(t, w, tg)
			if got := names(t, tg.Place.Path); !slices.Equal(got, []string{"iotax-8MiB.0.0.dat", "iotax-8MiB.1.0.dat"}) {
				t.Error(got)
			}
			out := trial(1500 * time.Millisecond)
			out.Ramp = 100 * time.Millisecond
			if err := w.Run(worktest.CtxFor(t), tg, out); err != nil {
				t.Fatal(err)
			}
			for _, name := range append(w.Metrics(), "read.bandwidth", "write.bandwidth", "mixed.iops", "read.latency.mean", "read.latency.p50", "write.latency.p99", "read.latency.submission.mean", "cpu.client") {
				if v, ok := out.Value(name); !ok || v.Value <= 0 {
					t.Errorf("%s: %v, %v", name, v, ok)
				}
			}
			if v, _ := out.Value("duration"); v.Value < 1.4 || v.Value > 1.8 {
				t.Errorf("the window was %v s", v.Value)
			}
			r, err := fio.Parse(out.Raw)
			if err != nil || len(r.Jobs) != 1 || !json.Valid(out.Raw) {
				t.Errorf("raw output: %v", err)
			}
			var series []string
			for _, s := range out.Series {
				series = append(series, s.Name)
				// Allow a factor of two, because this is one sample on a machine that other processes use too.
				if v, _ := out.Value(s.Name); len(s.V) == 0 || s.V[0] < v.Value/2 || s.V[0] > v.Value*2 {
					t.Errorf("%s: %v, the whole %v", s.Name, s.V, v.Value)
				}
			}
			if got := strings.Join(series, " "); got != "read.iops write.iops read.bandwidth write.bandwidth" {
				t.Error(got)
			}
			if len(out.Histograms) != 3 || out.Histograms[0].Name != "read.latency" {
				t.Error(len(out.Histograms))
			}
			for key, want := range map[string]string{"bs": "4k", "iodepth": "4", "numjobs": "2", "ramp": "100ms", "rw": "randrw", "latency": "total", "ioengine": w.states[tg].engine, "fio": tg.Facts["fio"]} {
				if out.Facts[key] != want || want == "" {
					t.Errorf("fact %s: got %q, want %q", key, out.Facts[key], want)
				}
			}
			left, _ := filepath.Glob(os.TempDir() + "/iotax-log-*")
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// The displayed command works in a shell, and uses the same seed.
func TestCommandCanBePasted(t *testing.T) {
	w := open(t, "size", "4MiB")
	tg := worktest.Target(host.Local(), worktest.OnDisk(t))
	prepared(t, w, tg)
	out := trial(300 * time.Millisecond)
	if err := w.Run(worktest.CtxFor(t), tg, out); err != nil {
		t.Fatal(err)
	}
	raw, err := exec.Command("sh", "-c", out.Facts["command"]).Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := fio.Parse(raw)
	if err != nil || r.Jobs[0].Read.IOs == 0 || r.Jobs[0].Options["randseed"] != "7" {
		t.Errorf("%v", err)
	}
}

// The same seed gives the same offsets, and another seed gives different ones. The highest bit of a seed is ignored,
// because fio reads a signed number.
func TestSeed(t *testing.T) {
	w := open(t, "size", "64MiB", "ioengine", "null", "number_ios", "16")
	tg := worktest.Target(host.Local(), t.TempDir())
	prepared(t, w, tg)
	log := filepath.Join(t.TempDir(), "iolog")
	offsets := func(seed uint64) string {
		_ = os.Remove(log) // fio appends
		out := trial(time.Millisecond)
		out.Seed = seed
		if err := w.Run(worktest.CtxFor(t), tg, out); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.Command("sh", "-c", out.Facts["command"]+" --write_iolog="+iotax.Quote(log)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		var out2 []string
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) >= 4 && slices.Contains(f, "read") {
				out2 = append(out2, f[len(f)-2])
			}
		}
		if len(out2) < 16 {
			t.Fatalf("%d offsets in\n%s", len(out2), text)
		}
		return strings.Join(out2[:16], " ")
	}
	a, b, c := offsets(1<<63+5), offsets(5), offsets(6)
	if a != b || a == c {
		t.Errorf("%s\n%s\n%s", a, b, c)
	}
}

// The test file is complete, random, written once and shared. It is gone after its last user's cleanup.
func TestFiles(t *testing.T) {
	ctx := worktest.CtxFor(t)
	dir := worktest.OnDisk(t)
	tg := worktest.Target(host.Local(), dir)
	read, write := open(t, "size", "4MiB"), open(t, "rw", "randwrite", "size", "4MiB")
	special := open(t, "rw", "randwrite", "size", "4MiB", "zero_buffers", "1")
	for _, w := range []*fioJob{read, write, special} {
		if err := w.Check(ctx, tg); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("Check left %v", got)
	}
	if err := read.Prepare(ctx, tg); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "iotax-4MiB.0.0.dat")
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	zw := gzip.NewWriter(&z)
	_, _ = zw.Write(text)
	_ = zw.Close()
	// fio's random data is slightly compressible, because three bits of each word are always 0.
	if len(text) != 4<<20 || z.Len() < len(text)*95/100 {
		t.Errorf("%d bytes, compressed %d", len(text), z.Len())
	}
	for _, w := range []*fioJob{write, special} {
		if err := w.Prepare(ctx, tg); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := os.Stat(file); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Error("the file was written twice", err)
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("zeroes go to a file of their own: %v", got)
	}
	if err := errors.Join(read.Cleanup(ctx, tg), special.Cleanup(ctx, tg)); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"iotax-4MiB.0.0.dat"}) {
		t.Errorf("one still uses the file: %v", got)
	}
	if err := errors.Join(write.Cleanup(ctx, tg), write.Cleanup(ctx, tg)); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	// A file with the right name and another size is incomplete.
	if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	prepared(t, read, tg)
	if st, err := os.Stat(file); err != nil || st.Size() != 4<<20 {
		t.Error(st, err)
	}
}

func TestManyFiles(t *testing.T) {
	w := open(t, "size", "20MiB", "nrfiles", "10", "bs", "64k", "rw", "read")
	tg := worktest.Target(host.Local(), worktest.OnDisk(t))
	prepared(t, w, tg)
	if got := names(t, tg.Place.Path); len(got) != 10 || got[3] != "iotax-2MiB.0.3.dat" {
		t.Error(got)
	}
	if err := w.Run(worktest.CtxFor(t), tg, trial(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got := names(t, tg.Place.Path); len(got) != 10 {
		t.Errorf("fio made files of its own: %v", got)
	}
}

// Check refuses a job that cannot run at its place, and leaves nothing behind.
func TestCheckRefuses(t *testing.T) {
	tiny := small(t)
	ro := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", ro).CombinedOutput(); err != nil {
		t.Skipf("needs mount: %s", out)
	}
	defer exec.Command("umount", ro).Run()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		place      iotax.Place
		options    []string
		want, hint string
	}{
		{"missing directory", iotax.Place{Kind: iotax.PlaceDir, Path: "/no/such/dir"}, nil, "/no/such/dir: file does not exist", "make the directory"},
		{"no directory", iotax.Place{Kind: iotax.PlaceDir, Path: file}, nil, "is not a directory", "name a directory"},
		{"full", iotax.Place{Kind: iotax.PlaceDir, Path: tiny}, []string{"size", "64MiB"}, "64MiB needed in " + tiny + ", 16MiB available", "a smaller size (now 64MiB in all)"},
		{"full for all jobs", iotax.Place{Kind: iotax.PlaceDir, Path: tiny}, []string{"size", "10MiB", "numjobs", "2"}, "20MiB needed", ""},
		{"mounted read-only", iotax.Place{Kind: iotax.PlaceDir, Path: ro}, []string{"size", "4KiB"}, "cannot be written", "mounted rw"},
		{"declared read-only, writes", iotax.Place{Kind: iotax.PlaceDir, Path: tiny, ReadOnly: true}, []string{"rw", "randwrite", "size", "1MiB"}, "is read-only, and the job writes", "randread"},
		{"declared read-only, no file", iotax.Place{Kind: iotax.PlaceDir, Path: tiny, ReadOnly: true}, []string{"size", "1MiB"}, "does not hold the test file iotax-1MiB.0.0.dat", ""},
		{"device, writes", iotax.Place{Kind: iotax.PlaceDevice, Path: "/dev/null", ReadOnly: true}, []string{"rw", "write", "size", "1MiB"}, "block devices are only read", "a directory"},
		{"URL", iotax.Place{Kind: iotax.PlaceURL, Path: "http://x"}, nil, "not at the url http://x", ""},
		{"value fio refuses", iotax.Place{Kind: iotax.PlaceDir, Path: tiny}, []string{"size", "1MiB", "rwmixread", "200"}, "failed parsing rwmixread=200", "correct the option"},
		{"too many files", iotax.Place{Kind: iotax.PlaceDir, Path: tiny}, []string{"size", "1MiB", "numjobs", "2000"}, "1000 are the most", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t, c.options...)
			tg := &iotax.Target{Name: "here", Machine: host.Local(), Place: c.place}
			err := w.Check(worktest.CtxFor(t), tg)
			var e *iotax.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
			if got := names(t, tiny); len(got) > 0 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

func TestPlaceFillsUpMeanwhile(t *testing.T) {
	tiny := small(t)
	w := open(t, "size", "10MiB")
	tg := worktest.Target(host.Local(), tiny)
	ctx := worktest.CtxFor(t)
	if err := w.Check(ctx, tg); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tiny, "other"), make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	err := w.Prepare(ctx, tg)
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "10MiB needed in "+tiny+", 8MiB available, of which ") || !strings.Contains(e.Hint, "now 10MiB in all") {
		t.Errorf("got %v", err)
	}
	if err := w.Cleanup(ctx, tg); err != nil {
		t.Error(err)
	}
	if got := names(t, tiny); !slices.Equal(got, []string{"other"}) {
		t.Errorf("left behind: %v", got)
	}
}

// A read-only place works if it contains the file.
func TestReadOnlyPlace(t *testing.T) {
	dir := worktest.OnDisk(t)
	tg := worktest.Target(host.Local(), dir)
	prepared(t, open(t, "size", "4MiB"), tg)
	ro := worktest.Target(host.Local(), dir)
	ro.Place.ReadOnly = true
	w := open(t, "size", "4MiB")
	prepared(t, w, ro)
	if _, err := w.Settle(worktest.CtxFor(t), []*iotax.Target{ro}); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(worktest.CtxFor(t), ro, trial(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	// The file belongs to the read-only place, so Cleanup does not remove it.
	alone := worktest.Target(host.Local(), worktest.OnDisk(t))
	alone.Place.ReadOnly = true
	if err := os.WriteFile(filepath.Join(alone.Place.Path, "iotax-4MiB.0.0.dat"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	last := open(t, "size", "4MiB")
	if err := last.Prepare(worktest.CtxFor(t), alone); err != nil {
		t.Fatal(err)
	}
	if err := last.Cleanup(worktest.CtxFor(t), alone); err != nil {
		t.Error(err)
	}
	if got := names(t, alone.Place.Path); len(got) != 1 {
		t.Errorf("after Cleanup there is %v", got)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Error(got)
	}
}

// If another directory has replaced the place, neither Prepare nor a trial writes to that directory. This includes
// trials that only read, because fio creates missing files even to read them.
func TestPlaceIsAnother(t *testing.T) {
	another := errors.New("it is another")
	for _, rw := range []string{"randread", "randwrite"} {
		var now error
		tg := worktest.Target(host.Local(), worktest.OnDisk(t))
		tg.Place.Guard = func(context.Context) error { return now }
		w := open(t, "size", "1MiB", "rw", rw)
		now = another
		if err := w.Prepare(worktest.CtxFor(t), tg); !errors.Is(err, another) || len(names(t, tg.Place.Path)) > 0 {
			t.Errorf("%s: before it is filled: %v, %v", rw, err, names(t, tg.Place.Path))
		}
		now = nil
		w = open(t, "size", "1MiB", "rw", rw)
		prepared(t, w, tg)
		if err := w.Run(worktest.CtxFor(t), tg, trial(100*time.Millisecond)); err != nil {
			t.Error(err)
		}
		now = another
		if err := w.Run(worktest.CtxFor(t), tg, trial(100*time.Millisecond)); !errors.Is(err, another) {
			t.Errorf("%s: before a trial: %v", rw, err)
		}
	}
}

func TestDevice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to attach a loop device")
	}
	img := filepath.Join(worktest.OnDisk(t), "img")
	if err := os.WriteFile(img, bytes.Repeat([]byte("data"), 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	dev, err := exec.Command("losetup", "--find", "--show", "--read-only", img).CombinedOutput()
	if err != nil {
		t.Skipf("needs loop devices: %s", dev)
	}
	path := strings.TrimSpace(string(dev))
	defer exec.Command("losetup", "--detach", path).Run()
	w := open(t, "size", "16MiB", "iodepth", "4")
	tg := &iotax.Target{Name: "loop", Machine: host.Local(), Place: iotax.Place{Kind: iotax.PlaceDevice, Path: path}}
	prepared(t, w, tg)
	out := trial(200 * time.Millisecond)
	if err := w.Run(worktest.CtxFor(t), tg, out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.Facts["command"], "--readonly") {
		t.Error(out.Facts["command"])
	}
}

// The hint for --destroy names the device as the plan does, with its machine.
func TestDeviceIsOnlyRead(t *testing.T) {
	w := open(t, "rw", "randwrite", "size", "1MiB")
	for device, want := range map[string]string{"": "iotax run --destroy /dev/null", "guest:/dev/by-id/x": "iotax run --destroy guest:/dev/by-id/x", "a b:/dev/x": "iotax run --destroy 'a b:/dev/x'"} {
		err := w.Check(worktest.CtxFor(t), &iotax.Target{Name: "there", Machine: host.Local(), Device: device, Place: iotax.Place{Kind: iotax.PlaceDevice, Path: "/dev/null", ReadOnly: true}})
		var e *iotax.Error
		if !errors.As(err, &e) || !strings.HasSuffix(e.Hint, want) {
			t.Errorf("%q: %v, want the hint %q", device, err, want)
		}
	}
}

// The hint about a blocked io_uring names the key that allows io_uring on this kind of machine.
func TestUnavailable(t *testing.T) {
	const docker, pod = "security: [seccomp=unconfined]", "seccomp: Unconfined"
	for _, c := range []struct {
		engine, runs, profile string
		err                   error
		why, hint             string
	}{
		{"io_uring", "docker", "default", errors.New("fio: no"), "io_uring on there is blocked by the container's seccomp profile (default), which fio cannot distinguish from a kernel without it: fio: no", docker},
		{"io_uring", "podman", "a profile of its own", errors.New("fio: no"), "is blocked by", docker},
		{"io_uring", "kubernetes", "RuntimeDefault", errors.New("fio: no"), "is blocked by the container's seccomp profile (RuntimeDefault)", pod},
		{"io_uring", "kubernetes", "the node's default", errors.New("fio: no"), "may be blocked by the container's seccomp profile (the node's default)", pod},
		{"io_uring", "kubernetes", "unconfined", errors.New("fio: no"), "io_uring on there: fio: no", ""},
		{"io_uring", "", "", errors.New("fio: no"), "io_uring on there: fio: no", ""},
		{"libaio", "docker", "default", errors.New("fio: no"), "libaio on there: fio: no", ""},
	} {
		why, hint := unavailable(c.engine, &iotax.Target{Name: "there", Facts: map[string]string{"engine": c.runs, "seccomp": c.profile}}, c.err)
		if !strings.Contains(why, c.why) || (hint == "") != (c.hint == "") || !strings.Contains(hint, c.hint) || c.hint == pod && strings.Contains(hint, "security:") {
			t.Errorf("%s, %s: %s; %s", c.runs, c.profile, why, hint)
		}
	}
}

// The error of a failed trial contains fio's message, and the trial keeps its command.
func TestRunFails(t *testing.T) {
	dir := worktest.OnDisk(t)
	w := open(t, "size", "4MiB")
	tg := worktest.Target(host.Local(), dir)
	prepared(t, w, tg)
	if err := os.Remove(filepath.Join(dir, "iotax-4MiB.0.0.dat")); err != nil {
		t.Fatal(err)
	}
	out := trial(100 * time.Millisecond)
	err := w.Run(worktest.CtxFor(t), tg, out)
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "refusing extend of file") || !strings.Contains(err.Error(), "No such file") {
		t.Errorf("got %v", err)
	}
	if out.Facts["command"] == "" {
		t.Error("no command")
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("fio made a file: %v", got)
	}
}

// Output of more than outputLimit bytes fails the trial. Only a limited part of it is kept.
func TestOutputLimit(t *testing.T) {
	defer func(limit int) { outputLimit = limit }(outputLimit)
	outputLimit = 1000
	w, tg := open(t, "size", "1MiB", "direct", "0"), worktest.Target(host.Local(), small(t))
	prepared(t, w, tg)
	out := trial(200 * time.Millisecond)
	err := w.Run(worktest.CtxFor(t), tg, out)
	var over *iotax.LimitError
	if !errors.As(err, &over) || !strings.Contains(err.Error(), "fio's output with its logs: it is larger than 1000 bytes") {
		t.Errorf("got %v", err)
	}
	if len(out.Raw) == 0 || len(out.Raw) > 1000 {
		t.Errorf("%d bytes of output were kept", len(out.Raw))
	}
}

// The interval between the lines of fio's logs grows if the logs would otherwise be too large.
func TestLogStep(t *testing.T) {
	step := func(trial time.Duration, bySize bool, options ...string) int {
		j := open(t, append(options, "ioengine", "null")...)
		job, err := j.resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		l := line{job: job, runtime: trial.Milliseconds()}
		if bySize {
			l.runtime = 0
		}
		return l.logStep()
	}
	for _, c := range []struct {
		got, want int
	}{
		{step(10*time.Second, false), 1},
		{step(24*time.Hour, false), 1},
		{step(10*time.Minute, false, "numjobs", "256", "rw", "randrw"), 1},
		{step(80*time.Minute, false, "numjobs", "256"), 2},
		{step(11*time.Hour, false, "numjobs", "16", "rw", "randrw"), 3},
		{step(11*time.Hour, false, "numjobs", "16", "rw", "trimwrite"), 3},
		{step(0, true), 1},
		{step(0, true, "numjobs", "1000"), 6},
	} {
		if c.got != c.want {
			t.Errorf("a step of %d s in place of %d s", c.got, c.want)
		}
	}

	defer func(limit int) { logLimit = limit }(logLimit)
	logLimit = 100
	w, tg := open(t, "size", "1MiB", "direct", "0", "rate_iops", "100"), worktest.Target(host.Local(), small(t))
	prepared(t, w, tg)
	out := trial(2200 * time.Millisecond)
	if err := w.Run(worktest.CtxFor(t), tg, out); err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Series {
		if len(s.T) != 1 || s.T[0] != 2 {
			t.Errorf("%s has values at %v", s.Name, s.T)
		}
		if s.Name == "read.iops" && (s.V[0] < 80 || s.V[0] > 120) {
			t.Errorf("100/s are %v", s.V)
		}
	}
	if len(out.Series) == 0 {
		t.Error("no series")
	}
}

// The name of a workload has no effect on fio, even if the name has a special meaning in fio.
func TestJobNames(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("data", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data", "global"} {
		w := open(t, "size", "1MiB")
		w.name = name
		tg := worktest.Target(host.Local(), worktest.OnDisk(t))
		prepared(t, w, tg)
		if err := w.Run(worktest.CtxFor(t), tg, trial(100*time.Millisecond)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	w := open(t, "size", "4MiB", "numjobs", "2")
	w.name = "iotax-cancelled-" + strconv.Itoa(os.Getpid())
	tg := worktest.Target(host.Local(), worktest.OnDisk(t))
	prepared(t, w, tg)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(700*time.Millisecond, cancel)
	start := time.Now()
	if err := w.Run(ctx, tg, trial(time.Minute)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, l := range lines {
		if text, _ := os.ReadFile(l); bytes.Contains(text, []byte("--name="+jobName(w.name))) {
			t.Errorf("still runs: %q", text)
		}
	}
	if left, _ := filepath.Glob(os.TempDir() + "/iotax-log-*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// All targets use the best engine that works on all of them, and a finding reports this choice.
func TestSettle(t *testing.T) {
	ctx := worktest.CtxFor(t)
	here := worktest.Target(host.Local(), worktest.OnDisk(t))
	here.Name = "host"
	guest := worktest.Target(&worktest.Elsewhere{Machine: host.Local(), Name: "guest", Without: []string{"io_uring"}}, worktest.OnDisk(t))
	guest.Name = "guest"
	broken := worktest.Target(host.Local(), "/no/such/place")
	w := open(t, "size", "1MiB")

	alone := open(t, "size", "1MiB")
	if found, err := alone.Settle(ctx, []*iotax.Target{here}); err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	if e := alone.states[here].engine; e != "io_uring" && e != "libaio" {
		t.Errorf("engine %q", e)
	}
	found, err := w.Settle(ctx, []*iotax.Target{here, guest, broken})
	if err != nil {
		t.Fatal(err)
	}
	if w.states[here].engine != "libaio" || w.states[guest].engine != "libaio" {
		t.Errorf("host %s, guest %s", w.states[here].engine, w.states[guest].engine)
	}
	if len(found) != 1 || found[0].Rule != "engine-common" || !strings.Contains(found[0].Evidence, "io_uring on guest: Function not implemented") {
		t.Errorf("%+v", found)
	}
	if err := w.Check(ctx, broken); err == nil {
		t.Error("the missing place passed")
	}
	prepared(t, w, guest)
	if err := w.Run(ctx, guest, trial(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}

	// Without a common engine, each target uses its own, and a finding reports the difference.
	odd := worktest.Target(&worktest.Elsewhere{Machine: host.Local(), Name: "odd", Without: []string{"io_uring", "posixaio", "psync"}}, worktest.OnDisk(t))
	other := worktest.Target(&worktest.Elsewhere{Machine: host.Local(), Name: "other", Without: []string{"libaio", "posixaio", "psync"}}, worktest.OnDisk(t))
	odd.Name, other.Name = "odd", "other"
	w = open(t, "size", "1MiB")
	found, err = w.Settle(ctx, []*iotax.Target{odd, other})
	if err != nil || len(found) != 1 || found[0].Rule != "engine-differs" || !strings.Contains(found[0].Evidence, "libaio on odd, io_uring on other") {
		t.Errorf("%+v, %v", found, err)
	}
	// If no engine works, Check returns an error with the reasons.
	none := worktest.Target(&worktest.Elsewhere{Machine: host.Local(), Name: "none", Without: candidates("linux")}, worktest.OnDisk(t))
	w = open(t, "size", "1MiB")
	if _, err := w.Settle(ctx, []*iotax.Target{none}); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(ctx, none); err == nil || !strings.Contains(err.Error(), "io_uring: Function not implemented") {
		t.Errorf("got %v", err)
	}
	if got := append(names(t, none.Place.Path), names(t, odd.Place.Path)...); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

// iotax caches the successful probe of an engine on this host.
func TestProbeIsRemembered(t *testing.T) {
	cache := t.TempDir()
	for i := range 2 {
		tg := worktest.Target(host.Local(), worktest.OnDisk(t))
		w := open(t, "size", "1MiB")
		w.env.CacheDir = cache
		if _, err := w.Settle(worktest.CtxFor(t), []*iotax.Target{tg}); err != nil {
			t.Fatal(err)
		}
		marks, _ := filepath.Glob(filepath.Join(cache, "engines", "*"))
		if len(marks) != 1 {
			t.Fatalf("run %d: %v", i, marks)
		}
		if i == 0 { // a cached result is used, and not written again
			if err := os.WriteFile(marks[0], []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if text, _ := os.ReadFile(marks[0]); string(text) != "kept" {
			t.Error("it was probed again")
		}
	}
}

func TestPush(t *testing.T) {
	m := worktest.Bare(t, "bare", "tar", "gzip")
	tg := worktest.Target(m, worktest.OnDisk(t))
	w := open(t, "size", "4MiB")
	start := time.Now()
	prepared(t, w, tg)
	t.Logf("pushed and prepared in %v", time.Since(start))
	if err := w.Run(worktest.CtxFor(t), tg, trial(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	home := strings.TrimPrefix(m.Env[1], "XDG_CACHE_HOME=") + "/iotax"
	if !strings.HasPrefix(tg.Facts["fio.pushed"], home+"/fio-") || !strings.HasPrefix(tg.Facts["fio"], "fio-") {
		t.Errorf("%v", tg.Facts)
	}
	if got := names(t, home); len(got) != 2 || !strings.HasPrefix(got[0], "fio-") || !strings.HasPrefix(got[1], "iotax-") {
		t.Errorf("in the cache over there: %v", got)
	}
	// A later run finds the copy on the machine.
	again := &worktest.Elsewhere{Machine: host.Local(), Name: "bare", Env: m.Env}
	w = open(t, "size", "4MiB")
	w.env.Log = func(format string, args ...any) {
		if strings.HasPrefix(format, "copying") {
			t.Errorf("copied twice: "+format, args...)
		}
	}
	if err := w.Check(worktest.CtxFor(t), worktest.Target(again, tg.Place.Path)); err != nil {
		t.Fatal(err)
	}
}

func TestPushFails(t *testing.T) {
	m := worktest.Bare(t, "arm")
	s, err := support.Survey(worktest.CtxFor(t), m)
	if err != nil || s.Fio != "" {
		t.Fatal(s, err)
	}
	s.Arch = "mips"
	_, err = support.Provide(worktest.CtxFor(t), m, s, false, support.Env{Shared: &support.Shared{}})
	var e *iotax.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "can't be used on mips") || !strings.Contains(e.Hint, "apt install fio") {
		t.Errorf("got %v", err)
	}
	if _, err := support.MakeBundle("no-such-program"); !errors.As(err, &e) || !strings.Contains(e.Hint, "fio") {
		t.Errorf("got %v", err)
	}
	// If this host has no fio, the error has a hint.
	if _, err := support.Provide(worktest.CtxFor(t), host.Local(), task.Survey{OS: "linux"}, false, support.Env{Shared: &support.Shared{}}); !errors.As(err, &e) || !strings.Contains(e.Hint, "apt install fio") || !errors.Is(err, support.ErrNoFio) {
		t.Errorf("got %v", err)
	}
}

// The plan may allow iotax to use the package manager. The test's package manager installs fio by creating a link.
func TestInstall(t *testing.T) {
	fioPath, err := exec.LookPath("fio")
	if err != nil {
		t.Fatal(err)
	}
	m := worktest.Bare(t, "installs")
	bin := strings.TrimPrefix(m.Env[0], "PATH=")
	link, err := exec.LookPath("ln")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = update ]; then exit 0; fi\n%s -s %s %s/fio\n", link, fioPath, bin)
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "sudo"), []byte("#!/bin/sh\nshift\nexec \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := open(t, "size", "1MiB")
	w.spec.Install, w.spec.Binary = true, fioPath
	if err := w.Check(worktest.CtxFor(t), worktest.Target(m, worktest.OnDisk(t))); err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("a binary that would be installed: %v", err)
	}
	w.spec.Binary = ""
	tg := worktest.Target(m, worktest.OnDisk(t))
	if err := w.Check(worktest.CtxFor(t), tg); err != nil {
		t.Fatal(err)
	}
	if tg.Facts["fio.pushed"] != "" || w.states[tg].tool.Argv[0] != filepath.Join(bin, "fio") {
		t.Errorf("%v %v", tg.Facts, w.states[tg].tool)
	}
	// If the package manager fails and no other way to provide fio works, the error contains the package manager's
	// message.
	m = worktest.Bare(t, "fails")
	bin = strings.TrimPrefix(m.Env[0], "PATH=")
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte("#!/bin/sh\necho 'E: Unable to locate package fio' >&2\nexit 100\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = support.Provide(worktest.CtxFor(t), m, task.Survey{OS: "linux", Arch: "mips"}, true, support.Env{Shared: &support.Shared{}})
	if err == nil || !strings.Contains(err.Error(), "E: Unable to locate package fio") {
		t.Errorf("got %v", err)
	}
}

func TestFioMessage(t *testing.T) {
	for in, want := range map[string]string{
		"fio: failed parsing iodepth=abc\n": "failed parsing iodepth=abc",
		"fio: io_u error on file /x: No space left on device: write offset=1, buflen=2\nfio: io_u error on file /x: No space left on device: write offset=3, buflen=2\nfio: pid=9, err=28/file:io_u.c:1876, func=io_u error, error=No space left on device\n": "io_u error on file /x: No space left on device: write offset=1, buflen=2",
		"fio: pid=9, err=38/file:x, func=y, error=Function not implemented\n":                                     "Function not implemented",
		"b: you need to specify size=\nfio: pid=0, err=22/file:z, func=total_file_size, error=Invalid argument\n": "b: you need to specify size=; Invalid argument",
		"": "",
	} {
		if got := fioMessage(in); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
