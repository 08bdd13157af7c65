package workload

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
)

// The archive has the requested shape, and its bytes are the same each time.
func TestArchiveTree(t *testing.T) {
	for _, tt := range []struct {
		files, dirs int
		size        int64
	}{{4294, 213, 43e6}, {1, 1, 1}, {10, 3, 1000}} {
		var first, second bytes.Buffer
		if err := writeTree(&first, tt.files, tt.dirs, tt.size); err != nil {
			t.Fatal(err)
		}
		c, err := describeTar(t.Context(), func(w io.Writer) error {
			return writeTree(w, tt.files, tt.dirs, tt.size)
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.files != tt.files || c.dirs != tt.dirs || c.bytes != tt.size || c.packed != int64(first.Len()) {
			t.Errorf("%+v of %+v, %d bytes", c, tt, first.Len())
		}
		if err := c.write(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("it differs the second time (%v)", err)
		}
	}
}

// An archive with more bytes or entries than the limits allow is rejected.
func TestArchiveBomb(t *testing.T) {
	defer func(n int64, entries int) { maxUnpacked, maxEntries = n, entries }(maxUnpacked, maxEntries)
	maxUnpacked, maxEntries = 1<<20, 1000
	packed := func(files int, size int64) error {
		_, err := describeTar(t.Context(), func(w io.Writer) error {
			z := gzip.NewWriter(w)
			tw := tar.NewWriter(z)
			for i := range files {
				if err := tw.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Mode: 0o600, Size: size}); err != nil {
					return err
				}
				if _, err := tw.Write(make([]byte, size)); err != nil {
					return err
				}
			}
			return errors.Join(tw.Close(), z.Close())
		})
		return err
	}
	for _, c := range []struct {
		files int
		size  int64
		want  string
	}{{1, 2 << 20, "what it holds: it is larger than 1 MiB"}, {5, 300 << 10, "what it holds: it is larger than 1 MiB"}, {1001, 1, "more than 1000 files"}} {
		if err := packed(c.files, c.size); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d files of %d bytes: %v", c.files, c.size, err)
		}
	}
	if err := packed(4, 256<<10); err != nil {
		t.Errorf("an archive of exactly the limit: %v", err)
	}
}

func smallArchive(do string) *Archive {
	s := newArchive().(*Archive)
	s.Scale(0.02)
	s.Do = do
	return s
}

func TestArchive(t *testing.T) {
	for _, do := range []string{"extract", "create"} {
		dir := t.TempDir()
		w := made(t, "archive", smallArchive(do))
		here := worktest.Target(host.Local(), dir)
		ctx := worktest.CtxFor(t)
		if err := w.Check(ctx, here); err != nil {
			t.Fatal(err)
		}
		if err := w.Prepare(ctx, here); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			out, err := worktest.Again(t, w, here)
			if err != nil {
				t.Fatal(err)
			}
			d, _ := out.Value("duration")
			worktest.Want(t, out, "operations", 85, 85)
			worktest.Want(t, out, "archive.files", 84.9/d.Value, 85.1/d.Value)
			worktest.Want(t, out, "archive.bandwidth", 0.86e6/d.Value*0.99, 0.86e6/d.Value*1.01)
			s, _ := out.Value("sync.duration")
			worktest.Want(t, out, "synced.duration", (d.Value+s.Value)*0.99, (d.Value+s.Value)*1.01)
		}
		if err := w.Cleanup(ctx, here); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s left %v behind", do, left)
		}
	}
}

// Two workloads that use the same archive share one copy, and the last one removes it.
func TestArchiveIsShared(t *testing.T) {
	dir := t.TempDir()
	here, ctx := worktest.Target(host.Local(), dir), worktest.CtxFor(t)
	x, c := made(t, "archive", smallArchive("extract")), made(t, "archive", smallArchive("create"))
	for _, w := range []iotax.Workload{x, c} {
		if err := w.Check(ctx, here); err != nil {
			t.Fatal(err)
		}
		if err := w.Prepare(ctx, here); err != nil {
			t.Fatal(err)
		}
	}
	tars, _ := filepath.Glob(filepath.Join(dir, "*.tar"))
	if len(tars) != 1 {
		t.Errorf("archives %v", tars)
	}
	for i, w := range []iotax.Workload{x, c} {
		if err := w.Cleanup(ctx, here); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(tars[0]); (err == nil) != (i == 0) {
			t.Errorf("after %d clean-ups: %v", i+1, err)
		}
	}
}

// Archives of the same files with different compression are different archives. The files of a workload that creates an
// archive remain when other workloads prepare or extract their archives in the same place.
func TestArchivesOfSameFiles(t *testing.T) {
	tars, dir := t.TempDir(), t.TempDir()
	here, ctx := worktest.Target(host.Local(), dir), worktest.CtxFor(t)
	var plain bytes.Buffer
	if err := writeTree(&plain, 20, 3, 2000); err != nil {
		t.Fatal(err)
	}
	workload := func(name string, level int) iotax.Workload {
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, level)
		if err != nil {
			t.Fatal(err)
		}
		_, err = z.Write(plain.Bytes())
		s := newArchive().(*Archive)
		s.File = filepath.Join(tars, name)
		if err := errors.Join(err, z.Close(), os.WriteFile(s.File, packed.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		return made(t, "archive", s)
	}
	create, fast, small, generated := made(t, "archive", smallArchive("create")), workload("fast.tar.gz", 1), workload("small.tar.gz", 9), made(t, "archive", smallArchive("extract"))
	all := []iotax.Workload{create, generated, fast, small}
	for _, w := range all {
		if err := w.Prepare(ctx, here); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range all {
		if _, err := worktest.Again(t, w, here); err != nil {
			t.Error(err)
		}
	}
	if _, err := worktest.Again(t, create, here); err != nil {
		t.Error(err)
	}
	if copies, _ := filepath.Glob(filepath.Join(dir, "iotax-*.tar")); len(copies) != 4 { // three archives to extract, and one that create made
		t.Errorf("archives %v", copies)
	}
	for _, w := range all {
		if err := w.Cleanup(ctx, here); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// losing runs commands on this host. After each tar command, it runs `script` in the same directory.
type losing struct {
	iotax.Machine
	*agent.Link
	script string
}

func (losing) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (l losing) Run(ctx context.Context, c *iotax.Cmd) error {
	err := l.Machine.Run(ctx, c)
	if err == nil && c.Args[0] == "tar" {
		_, err = iotax.Output(ctx, l.Machine, "sh", "-c", "cd "+iotax.Quote(c.Dir)+" && "+l.script)
	}
	return err
}

// A missing file, an additional directory and a changed byte are detected. A complete tree is accepted.
func TestArchiveThatLosesData(t *testing.T) {
	for script, why := range map[string]string{
		"true": "",
		"rm $(find iotax-tree -type f | head -n 1)":                            "84 files in place of 85",
		"mkdir iotax-tree/more":                                                "6 directories in place of 5",
		"printf x | dd conv=notrunc of=$(find iotax-tree -type f | head -n 1)": "not what is in the archive",
	} {
		w := made(t, "archive", smallArchive("extract"))
		here, ctx := worktest.Target(losing{host.Local(), &agent.Link{Start: agent.InProcess}, script}, t.TempDir()), worktest.CtxFor(t)
		if err := w.Check(ctx, here); err != nil {
			t.Fatal(err)
		}
		if err := w.Prepare(ctx, here); err != nil {
			t.Fatal(err)
		}
		out := &iotax.Trial{Facts: map[string]string{}}
		s := w.Caps()
		if err := s.Stage(ctx, here, out); err != nil {
			t.Fatal(err)
		}
		if err := w.Run(ctx, here, out); err != nil {
			t.Fatal(err)
		}
		switch err := s.Unstage(ctx, here, out); {
		case why == "" && err != nil:
			t.Errorf("a whole tree: %v", err)
		case why != "" && (err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "hint:")):
			t.Errorf("%s: %v", script, err)
		}
	}
}

// The spec can name an archive, compressed or not. A file that is missing or is not an archive is rejected.
func TestArchiveOfAFile(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "a.tar")
	var packed bytes.Buffer
	f, err := os.Create(plain)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&packed)
	for _, to := range []io.Writer{f, z} {
		w := tar.NewWriter(to)
		for i := range 20 {
			body := strings.Repeat("x", 100*i)
			name := fmt.Sprintf("top/d%d/file %d", i%3, i) // the archive has no entries for the directories
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(body)), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		for _, h := range []tar.Header{{Typeflag: tar.TypeSymlink, Name: "top/link", Linkname: "d0"}, {Typeflag: tar.TypeLink, Name: "top/hard", Linkname: "top/d1/file 1"}} {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string]bool{plain: true, plain + ".gz": true}
	if err := os.WriteFile(plain+".gz", packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"xz", "zstd"} {
		if _, err := exec.LookPath(tool); err == nil {
			if out, err := exec.Command(tool, "-kq", plain).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			matches, _ := filepath.Glob(plain + ".[xz]*")
			for _, m := range matches {
				files[m] = true
			}
		}
	}
	for file := range files {
		for _, do := range []string{"extract", "create"} {
			s := newArchive().(*Archive)
			s.File, s.Do = file, do
			out, err := worktest.Attempt(t, made(t, "archive", s), worktest.Target(host.Local(), t.TempDir()))
			if err != nil {
				t.Errorf("%s %s: %v", do, file, err)
				continue
			}
			worktest.Want(t, out, "operations", 21, 21)
		}
	}
	for file, why := range map[string]string{plain + ".none": "no such file", "/proc/version": "a tar archive"} {
		s := newArchive().(*Archive)
		s.File = file
		w := made(t, "archive", s)
		if err := w.Caps().Look(worktest.CtxFor(t), host.Local()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// busyboxed is this host with only the programs of busybox.
type busyboxed struct {
	iotax.Machine
	env []string
}

func (busyboxed) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (b busyboxed) Run(ctx context.Context, c *iotax.Cmd) error {
	x := *c
	x.Args = append(slices.Clone(b.env), c.Args...)
	return b.Machine.Run(ctx, &x)
}

func TestArchiveWithBusybox(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("busybox", "--install", "-s", bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, do := range []string{"extract", "create"} {
		if _, err := worktest.Attempt(t, made(t, "archive", smallArchive(do)), worktest.Target(busyboxed{host.Local(), []string{"busybox", "env", "PATH=" + bin, "XDG_CACHE_HOME=" + worktest.Cache}}, t.TempDir())); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	_, err := worktest.Attempt(t, made(t, "archive", smallArchive("extract")), worktest.Target(host.Local(), t.TempDir()))
	if err == nil || !strings.Contains(err.Error(), "it has no tar") {
		t.Errorf("without tar: %v", err)
	}
}

func TestArchiveSpec(t *testing.T) {
	for _, bad := range []Archive{{Files: 0, Directories: 1, Size: 1, Timeout: 1}, {Files: 2, Directories: 1, Size: 1, Timeout: 1},
		{Files: 1, Directories: 0, Size: 1, Timeout: 1}, {Files: 1, Directories: 1, Size: 1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	for what, change := range map[string]func(*Archive){
		"":            func(a *Archive) { a.Scale(0.1) },
		"files":       func(a *Archive) { a.Files = 5000 },
		"directories": func(a *Archive) { a.Directories = 100 },
		"size":        func(a *Archive) { a.Size = 1 << 30 },
	} {
		a := newArchive().(*Archive)
		a.File = "a.tar"
		change(a)
		var f *plan.FieldError
		if err := a.Validate(); (what == "") != (err == nil) || err != nil && (!errors.As(err, &f) || f.Field != "file") {
			t.Errorf("%q with a file: %v", what, err)
		}
	}
	s := newArchive().(*Archive)
	if s.SetScalar("create") != nil || s.Do != "create" || s.SetScalar("a.tar") != nil || s.File != "a.tar" || s.SetScalar("extrakt") == nil {
		t.Errorf("%+v", s)
	}
}
