package workload

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/support"
)

// ran makes a workload, runs one trial of it on target, and cleans up.
func ran(t *testing.T, kind string, spec plan.Spec, target *iotax.Target) (*iotax.Trial, error) {
	t.Helper()
	w, err := New(plan.Workload{Name: "test", Kind: kind, Spec: spec}, support.Env{Lodge: worktest.Lodge})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context(), target); err != nil {
		return nil, err
	}
	defer func() {
		if err := w.Cleanup(t.Context(), target); err != nil {
			t.Error(err)
		}
	}()
	if err := w.Prepare(t.Context(), target); err != nil {
		return nil, err
	}
	out := &iotax.Trial{Facts: map[string]string{}}
	err = w.Run(t.Context(), target, out)
	for _, m := range w.Metrics() {
		if v, ok := out.Value(m); err == nil && (!ok || !(v.Value > 0)) {
			t.Errorf("%s is %v", m, v.Value)
		}
	}
	return out, err
}

// scratches returns the raw images that workloads have left in /var/tmp.
func scratches(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("/var/tmp/iotax-??????/source.raw")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func found(out *iotax.Trial, rule string) bool {
	for _, f := range out.Findings {
		if f.Rule == rule {
			return true
		}
	}
	return false
}

func TestImage(t *testing.T) {
	target, data := aStore(t)
	spec := newImage().(*Image)
	spec.Size, spec.Data = 64<<20, .5
	before := len(scratches(t))
	out, err := ran(t, "image", spec, target)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := out.Value("first.duration")
	second, _ := out.Value("second.duration")
	for _, step := range []string{"import", "first"} {
		took, _ := out.Value(step + ".duration")
		rate, _ := out.Value(step + ".bandwidth")
		if moved := took.Value * rate.Value; moved < 32<<20 || moved > 33<<20 {
			t.Errorf("%s moved %.0f B at %v in %v, want the 32 MiB that are written", step, moved, rate, took)
		}
	}
	if found(out, "clone-not-fast") != (second.Value*fastClone > first.Value) {
		t.Errorf("first %v, second %v, findings %v", first, second, out.Findings)
	}
	if left, _ := filepath.Glob(data + "/iotax-test/*"); len(left) > 0 || len(scratches(t)) > before {
		t.Errorf("left behind: %v, %v", left, scratches(t))
	}

	// VM managers of the plan: one makes the second volume quickly, and one takes as long as for the first volume.
	store := t.TempDir()
	manager := func(second string) *Image {
		s := *spec
		s.Import = "sleep 0.2; cp $SOURCE " + store + "/$NAME"
		s.First = "sleep 0.5; cp " + store + "/$NAME " + store + "/$NAME-1"
		s.Second, s.Remove = second, "rm -f "+store+"/$NAME*"
		return &s
	}
	for second, slow := range map[string]bool{"ln -s " + store + "/$NAME " + store + "/$NAME-2": false, "sleep 0.5": true} {
		out, err := ran(t, "image", manager(second), &iotax.Target{Name: "here", Machine: host.Local()})
		if err != nil {
			t.Fatal(err)
		}
		first, _ := out.Value("first.duration")
		clone, _ := out.Value("second.duration")
		// On a busy machine, making the link may take more than a tenth of the time of the first volume. The finding
		// must then report this.
		if got := found(out, "clone-not-fast"); got != (clone.Value*fastClone > first.Value) || slow && !got {
			t.Errorf("%s: first %v s, second %v s, finding %v", second, first.Value, clone.Value, got)
		}
		if left, _ := filepath.Glob(store + "/*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	if _, err := ran(t, "image", manager("echo it broke >&2; exit 3"), &iotax.Target{Name: "here", Machine: host.Local()}); err == nil || !strings.Contains(err.Error(), "it broke") {
		t.Errorf("a command that fails: %v", err)
	}
	half := *spec
	half.Import = "x"
	if err := half.Validate(); err == nil || !strings.Contains(err.Error(), "all of import") {
		t.Errorf("half a VM manager: %v", err)
	}
}

// A hostile store returns an image of the same length with a backing file. qemu-img does not read that file.
func TestImageOfHostileStore(t *testing.T) {
	target, _ := aStore(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	evil := secret + ".qcow2"
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", secret, evil).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	header, err := os.ReadFile(evil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(target.Place.Path)
	if err != nil {
		t.Fatal(err)
	}
	store := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: u.Host})
	store.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodGet && strings.HasSuffix(r.Request.URL.Path, "/image.qcow2") {
			_, _ = io.CopyN(io.Discard, r.Body, int64(len(header)))
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(header), r.Body), r.Body}
		}
		return nil
	}
	front := httptest.NewServer(store)
	defer front.Close()
	target.Place.Path = strings.Replace(target.Place.Path, u.Host, strings.TrimPrefix(front.URL, "http://"), 1)
	spec := newImage().(*Image)
	spec.Size, spec.Data = 16<<20, 1
	_, err = ran(t, "image", spec, target)
	for _, part := range []string{"another image", "it uses the file \"" + secret, "hint: check that no other client"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no %q: %v", part, err)
		}
	}
}

// mute returns an export of 16 MiB that does not answer reads. Each client needs its own server: nbdkit 1.32 may fail
// an assertion (connections.c: sock >= 0) if a client is killed while it waits for answers.
func mute(t *testing.T) *iotax.Target {
	t.Helper()
	socket, pid := t.TempDir()+"/s", t.TempDir()+"/pid"
	server := exec.Command("nbdkit", "--foreground", "--unix="+socket, "--pidfile="+pid, "--filter=delay", "pattern", "16M", "rdelay=600")
	return worktest.Serves(t, server, socket, pid)
}

func TestMaterialise(t *testing.T) {
	long.Test(t)
	target, server := worktest.AnExport(t)
	path := t.TempDir()
	spec := func(tool string, lazy bool, path string) *Materialise {
		s := newMaterialise().(*Materialise)
		s.Tool, s.Lazy, s.Path = tool, lazy, path
		return s
	}
	for _, spec := range []*Materialise{spec("nbdcopy", false, path), spec("qemu-img", false, path), spec("nbdcopy", true, path)} {
		out, err := ran(t, "materialise", spec, target)
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		first, _ := out.Value("first.io")
		whole, _ := out.Value("duration")
		if steady, ok := out.Value("steady.read.bandwidth"); !ok || !(steady.Value > 0) || out.Facts["lazy"] != map[bool]string{true: "yes", false: "no"}[spec.Lazy] {
			t.Errorf("%+v: steady reads of %v, %v", spec, steady, out.Facts)
		}
		if spec.Lazy == (first.Value > whole.Value) || out.Facts["size"] != "16777216" || len(out.Raw) == 0 {
			t.Errorf("%+v: first I/O after %v s, whole after %v s, %v", spec, first.Value, whole.Value, out.Facts)
		}
		if left, _ := os.ReadDir(path); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	// A node without enough space causes an error.
	if os.Geteuid() == 0 {
		small := t.TempDir()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small).CombinedOutput(); err == nil {
			_, err := ran(t, "materialise", spec("nbdcopy", false, small), target)
			if err == nil || !strings.Contains(err.Error(), "the test needs 16 MiB") || !strings.Contains(err.Error(), "hint: free some space") {
				t.Errorf("a node out of space: %v", err)
			}
			left, _ := os.ReadDir(small)
			if out, err := exec.Command("umount", small).CombinedOutput(); err != nil || len(left) > 0 {
				t.Errorf("%v: %s; left: %v", err, out, left)
			}
		} else {
			t.Logf("no tmpfs can be mounted: %s", out)
		}
	}
	// The root directory, even through a link, and a home directory are rejected.
	root := t.TempDir() + "/link"
	if err := os.Symlink("/", root); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	for path, why := range map[string]string{root: "which is never used", home: "is a home directory"} {
		if _, err := ran(t, "materialise", spec("nbdcopy", false, path), target); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := spec("nbdcopy", false, "/tmp/..").Validate(); err == nil || !strings.Contains(err.Error(), "/ itself is never used") {
		t.Errorf("got %v", err)
	}
	if err := spec("qemu-img", true, path).Validate(); err == nil || !strings.Contains(err.Error(), "tool") {
		t.Errorf("a tool for a lazy copy: %v", err)
	}
	// If an export does not answer reads, iotax aborts the copy and ends the server of the overlay.
	for _, lazy := range []bool{false, true} {
		spec := spec("nbdcopy", lazy, path)
		spec.Stall = plan.Duration(2 * time.Second)
		if _, err := ran(t, "materialise", spec, mute(t)); err == nil || !strings.Contains(err.Error(), "nothing came for 2s") || !strings.Contains(err.Error(), "hint: see that the export serves") {
			t.Errorf("an export that hangs, lazily %v: %v", lazy, err)
		}
		if out, err := exec.Command("pgrep", "-af", "qemu-nbd.*"+path).Output(); err == nil {
			t.Errorf("still runs: %s", out)
		}
		if left, _ := os.ReadDir(path); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	if _, err := ran(t, "materialise", spec("nbdcopy", false, path), target); err == nil || !strings.Contains(err.Error(), "hint: see that the export serves") {
		t.Errorf("an export that is gone: %v", err)
	}
	if left, _ := os.ReadDir(path); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := ran(t, "materialise", newMaterialise(), &iotax.Target{Name: "dir", Machine: host.Local(), Place: iotax.Place{Kind: iotax.PlaceDir, Path: path}}); err == nil || !strings.Contains(err.Error(), "at:") {
		t.Errorf("a directory: %v", err)
	}
}
