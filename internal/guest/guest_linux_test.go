package guest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/u-root/u-root/pkg/cpio"
	"github.com/ulikunitz/xz"
	"pgregory.net/rapid"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/testenv/guesttest"
)

func TestIsInit(t *testing.T) {
	if IsInit() {
		t.Error("this test is taken for the init of a guest")
	}
	if !isMarked("console=ttyS0 iotax.guest=1 quiet\n") || isMarked("xiotax.guest=1") || isMarked("iotax.guest=10") || isMarked("") {
		t.Error("the mark on the kernel's command line is not told apart")
	}
}

func TestBootCommandLine(t *testing.T) {
	want := Boot{Modules: []string{"9p", "nvme"}, NoTools: true, OnDisk: true, Name: "again",
		Root: &iotax.Root{Type: "nfs4", Source: "10.0.2.2:/iotax", Options: "vers=4.2,addr=10.0.2.2", Path: "iotax-1/root", Run: []string{"/bin/app", "8000", "two words"}, Port: 8000}}
	line := "quiet " + strings.Join(want.CommandLine(), " ") + "\n"
	if !isMarked(line) {
		t.Errorf("no mark on %s", line)
	}
	got, err := parseBoot(line)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as %+v", line, got)
	}
	for _, bad := range []string{"iotax.root=%", "iotax.root=AAAA"} {
		if _, err := parseBoot(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Mark{
			Name:   rapid.StringMatching(`[a-z]{1,10}`).Draw(t, "name"),
			At:     time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "ms")) * time.Millisecond,
			Detail: rapid.StringMatching(`([!-~]+( [!-~]+)*)?`).Draw(t, "detail"),
		}
		got, ok := ParseMark("[    0.123456] noise " + m.String() + "\r")
		d := got.At - m.At
		if got.At = m.At; !ok || got != m || d.Abs() > time.Microsecond {
			t.Errorf("%v is read as %v, %v", m, got, ok)
		}
	})
	for _, bad := range []string{"", "iotax-boot:", "iotax-boot: ready", "iotax-boot: ready soon", "ready 1.0"} {
		if m, ok := ParseMark(bad); ok {
			t.Errorf("%q is read as %v", bad, m)
		}
	}
}

// pvhKernel returns a minimal ELF file with an ELF note whose type is kind. QEMU searches for type 18.
func pvhKernel(kind uint32) []byte {
	b := make([]byte, 64+56)
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2)  // executable
	le.PutUint16(b[18:], 62) // x86-64
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], 64) // program headers
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	ph := b[64:]
	le.PutUint32(ph, 4) // PT_NOTE
	le.PutUint64(ph[8:], uint64(len(b)))
	var note []byte
	note = le.AppendUint32(note, 4)
	note = le.AppendUint32(note, 4)
	note = le.AppendUint32(note, kind)
	note = append(note, "Xen\x00\x00\x00\x10\x00"...)
	le.PutUint64(ph[32:], uint64(len(note)))
	return append(b, note...)
}

// bzImage puts a compressed kernel into a bzImage. size is the kernel's uncompressed size in bytes.
func bzImage(packed []byte, size int) []byte {
	b := make([]byte, 1024)
	b[0x1f1] = 1
	copy(b[0x202:], "HdrS")
	le := binary.LittleEndian
	le.PutUint16(b[0x20e:], 0x100)
	copy(b[0x300:], "6.1.0-9-test (builder) #1\x00")
	le.PutUint32(b[0x248:], 0)
	packed = le.AppendUint32(slices.Clone(packed), uint32(size))
	le.PutUint32(b[0x24c:], uint32(len(packed)))
	return append(append(b, packed...), "what follows"...)
}

func TestExtractVmlinux(t *testing.T) {
	kernel := append(pvhKernel(18), bytes.Repeat([]byte("kernel"), 20000)...)
	pack := func(new func(io.Writer) (io.WriteCloser, error)) []byte {
		var b bytes.Buffer
		w, err := new(&b)
		if err == nil {
			_, err = w.Write(kernel)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	packed := map[string][]byte{
		"gzip": pack(func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }),
		"xz":   pack(func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) }),
		"zstd": pack(func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }),
		"lz4": pack(func(w io.Writer) (io.WriteCloser, error) {
			l := lz4.NewWriter(w)
			return l, l.Apply(lz4.LegacyOption(true))
		}),
	}
	for name, p := range packed {
		got, err := extractVmlinux(bzImage(p, len(kernel)))
		if err != nil || !bytes.Equal(got, kernel) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if _, err := extractVmlinux(bzImage(p[:len(p)/2], len(kernel))); err == nil {
			t.Errorf("%s: half a kernel is accepted", name)
		}
	}
	if r, err := bzRelease(bzImage(nil, 0)); err != nil || r != "6.1.0-9-test" {
		t.Errorf("release %q, %v", r, err)
	}
	if _, err := extractVmlinux(bzImage(append([]byte("\x00\x01"), make([]byte, 100)...), 100)); err == nil {
		t.Error("an unknown compression is accepted")
	}
	plain := pvhKernel(17)
	if _, err := extractVmlinux(bzImage(plain, len(plain)+4)); !errors.Is(err, errNoPVH) {
		t.Errorf("a kernel without the entry yields %v", err)
	}
	r, size, err := loaded(bytes.NewReader(append(pvhKernel(18), "symbols"...)))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := io.ReadAll(io.NewSectionReader(r, 0, int64(size))); err != nil || !hasPVH(s) || bytes.Contains(s, []byte("symbols")) {
		t.Errorf("stripped to %q, %v", s, err)
	}
}

func FuzzExtractVmlinux(f *testing.F) {
	k := pvhKernel(18)
	f.Add(bzImage(k, len(k)+4))
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, err := extractVmlinux(b); err == nil && !hasPVH(out) {
			t.Error("a kernel that cannot be entered is accepted")
		}
	})
}

func TestReleases(t *testing.T) {
	order := []string{"vmlinuz-5.10.0-30-amd64", "vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-56-amd64", "vmlinuz-6.12.3", "vmlinuz-6.12.3-1"}
	for i, a := range order {
		for j, b := range order {
			if c := compareRelease(a, b); (c < 0) != (i < j) || (c == 0) != (i == j) {
				t.Errorf("%s and %s compare as %d", a, b, c)
			}
		}
	}
	if got := imageRelease("linux-image-generic\n  Depends: linux-firmware\n  Depends: linux-image-6.8.0-50-generic\n |Depends: x\n"); got != "6.8.0-50-generic" {
		t.Errorf("release %q", got)
	}
	if got := imageRelease("linux-image-amd64\n  Depends: linux-base\n"); got != "" {
		t.Errorf("release %q", got)
	}
	for name, want := range map[string]bool{
		"boot/vmlinuz-6.1": true, "boot/System.map-6.1": false, "usr/lib/modules/6.1/modules.builtin": true,
		"lib/modules/6.1/kernel/fs/9p/9p.ko.zst": true, "lib/modules/6.1/kernel/drivers/char/virtio_console.ko": true,
		"lib/modules/6.1/kernel/drivers/gpu/x.ko": false, "usr/share/doc/x": false,
	} {
		if keep(name) != want {
			t.Errorf("keep(%s) is %v", name, !want)
		}
	}
}

func kernel(t *testing.T) *Kernel {
	t.Helper()
	k, err := HaveKernel(t.Context(), guesttest.CacheDir(t), "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// OpenKernel accepts a real kernel, and returns the same result if it is called again.
func TestKernel(t *testing.T) {
	k := kernel(t)
	if k.Image == k.Source && runtime.GOARCH == "amd64" {
		t.Errorf("%s is booted compressed", k.Source)
	}
	again, err := OpenKernel(guesttest.CacheDir(t), k.Source, "")
	if err != nil || *again != *k {
		t.Errorf("got %+v, %v; not %+v", again, err, k)
	}
	if filepath.Base(k.Modules) != k.Release {
		t.Errorf("modules of %s in %s", k.Release, k.Modules)
	}
	// OpenKernel rejects a kernel without a module tree.
	if _, err := OpenKernel(t.TempDir(), k.Source, t.TempDir()); err == nil {
		t.Error("a kernel without modules is accepted")
	}
	bad := filepath.Join(t.TempDir(), "vmlinuz-1.0")
	if err := os.WriteFile(bad, []byte("no kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKernel(t.TempDir(), bad, ""); err == nil {
		t.Error("any file is accepted")
	}
}

// A release must be a file name, because it becomes a part of paths in the cache and in the guest.
func TestKernelReleaseIsAName(t *testing.T) {
	for _, release := range []string{"../../../x", "a/b", ".."} {
		image := bzImage(nil, 0)
		copy(image[0x300:], release+" (builder)\x00")
		file := filepath.Join(t.TempDir(), "vmlinuz")
		if err := os.WriteFile(file, image, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKernel(t.TempDir(), file, ""); err == nil || !strings.Contains(err.Error(), "is not a file name") {
			t.Errorf("%s: %v", release, err)
		}
	}
}

func TestFetchKernelWithoutApt(t *testing.T) {
	t.Setenv("PATH", "/nonexistent")
	_, err := FetchKernel(t.Context(), t.TempDir(), nil)
	var ie *iotax.Error
	if !errors.As(err, &ie) || ie.Hint == "" {
		t.Errorf("got %v", err)
	}
}

func TestModules(t *testing.T) {
	k := kernel(t)
	tree, err := openModules(k.Modules)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(bootModules, lazyModules)
	list, missing, err := tree.closure(all)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d modules, missing %v", len(list), missing)
	seen := map[string]bool{}
	for _, m := range list {
		for _, d := range m.deps {
			if !seen[d] {
				t.Errorf("%s comes before %s, which it needs", m.name, d)
			}
		}
		seen[m.name] = true
		if !strings.HasSuffix(m.path, ".ko") || !strings.HasPrefix(string(m.image), "\x7fELF") {
			t.Errorf("%s is %s", m.name, m.path)
		}
	}
	for _, n := range needed {
		if !seen[n] && !tree.builtin[n] {
			t.Errorf("no %s", n)
		}
	}
	if !strings.Contains(aliasFile(list), "alias fs-9p 9p\n") || strings.Contains(aliasFile(list), "*") {
		t.Errorf("aliases are\n%s", aliasFile(list))
	}
	if !strings.Contains(depFile(list), "virtio_blk.ko:") {
		t.Errorf("dependencies are\n%s", depFile(list))
	}

	// Test the same modules in the compression formats of other distributions.
	packed := t.TempDir()
	for i, m := range list {
		var b bytes.Buffer
		var w io.WriteCloser
		ext := []string{".xz", ".zst", ".gz", ""}[i%4]
		if len(m.image) > 200<<10 {
			ext = "" // compressing large modules takes too long for a test
		}
		switch ext {
		case ".xz":
			w, err = xz.NewWriter(&b)
		case ".zst":
			w, err = zstd.NewWriter(&b)
		case ".gz":
			w = gzip.NewWriter(&b)
		default:
			w = nopCloser{&b}
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(m.image); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := writeFile(filepath.Join(packed, m.path+ext), &b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(packed, "modules.builtin"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tree2, err := openModules(packed)
	if err != nil {
		t.Fatal(err)
	}
	tree2.builtin = tree.builtin
	list2, _, err := tree2.closure(all)
	if err != nil {
		t.Fatal(err)
	}
	if len(list2) != len(list) {
		t.Fatalf("%d modules, not %d", len(list2), len(list))
	}
	for i := range list {
		if list[i].path != list2[i].path || !bytes.Equal(list[i].image, list2[i].image) {
			t.Errorf("%s differs when packed (%s)", list[i].path, list2[i].path)
		}
	}
	if _, missing, err := tree.closure([]string{"no_such_module"}); err != nil || len(missing) != 1 {
		t.Errorf("a module that is not there: %v, %v", missing, err)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestInitramfs(t *testing.T) {
	k := kernel(t)
	cache := t.TempDir()
	init := guesttest.Init(t)
	path, err := Initramfs(t.Context(), cache, k, init)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	archive, err := cpio.ArchiveFromReader(cpio.Newc.Reader(f))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"dev/console", "etc/passwd", "sbin/modprobe", "lib/modules/" + k.Release + "/modules.dep", "lib/modules/" + k.Release + "/modules.builtin"} {
		if _, ok := archive.Get(n); !ok {
			t.Errorf("no %s", n)
		}
	}
	r, ok := archive.Get("init")
	if !ok {
		t.Fatal("no init")
	}
	got, err := io.ReadAll(io.NewSectionReader(r, 0, int64(r.FileSize)))
	if err != nil {
		t.Fatal(err)
	}
	// The archive contains only the program's segments, and the ELF header has no section table.
	program, err := os.Open(init)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	part, size, err := loaded(program)
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(io.NewSectionReader(part, 0, int64(size)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("init has %d bytes, what is loaded of the program %d", len(got), len(want))
	}
	st, _ := os.Stat(path)
	again, err := Initramfs(t.Context(), cache, k, init)
	if err != nil || again != path {
		t.Errorf("the second time: %s, %v", again, err)
	}
	if st2, _ := os.Stat(again); !os.SameFile(st, st2) {
		t.Error("it was made anew")
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 1 {
		t.Errorf("%d files in the cache", len(left))
	}

	for _, bad := range []string{"/bin/sh", "/etc/passwd", "/nonexistent"} {
		_, err := Initramfs(t.Context(), cache, k, bad)
		var ie *iotax.Error
		if !errors.As(err, &ie) {
			t.Errorf("%s as init: %v", bad, err)
		}
	}
}

func TestTools(t *testing.T) {
	cache := guesttest.CacheDir(t)
	path, err := Tools(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Tools(t.Context(), cache)
	if err != nil || again != path {
		t.Errorf("the second time: %s, %v", again, err)
	}
	if st, err := os.Stat(path); err != nil || !os.SameFile(made, st) { // Tools updates the modification time at each use
		t.Errorf("the second time it is made anew: %v", err)
	}
	debugfs, _ := agent.Tool("debugfs")
	if debugfs == "" {
		t.Fatal("no debugfs: it comes with mke2fs")
	}
	out, err := exec.Command(debugfs, "-R", "ls -p /usr/bin", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"sh", "cat", "mount", "mkfs.ext4", "fio"} {
		if !strings.Contains(string(out), "/"+n+"/") {
			t.Errorf("no %s on the disk", n)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Size() > 300<<20 {
		t.Errorf("the disk has %d bytes, %v", st.Size(), err)
	}

	// Simulate a host without the mandatory programs.
	t.Setenv("PATH", "/nonexistent")
	_, err = Tools(t.Context(), cache)
	var ie *iotax.Error
	if !errors.As(err, &ie) || !strings.Contains(err.Error(), "mount") || ie.Hint == "" {
		t.Errorf("without a PATH: %v", err)
	}
}

func TestFresh(t *testing.T) {
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib")
	list := filepath.Join(dir, "list")
	write := func(text string) {
		if err := os.WriteFile(lib, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	st, _ := os.Stat(lib)
	if err := os.WriteFile(list, []byte(`[{"host":"`+lib+`","size":3,"time":"`+st.ModTime().Format(time.RFC3339Nano)+`"},{"host":"busybox","link":"x"}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	if !fresh(list) {
		t.Error("nothing has changed, but it is not fresh")
	}
	write("other")
	if fresh(list) {
		t.Error("a library has changed, but it is fresh")
	}
	os.Remove(lib)
	if fresh(list) || fresh(filepath.Join(dir, "none")) {
		t.Error("what is not there is fresh")
	}
}

// prune and kernelsIn take the directory's name literally.
func TestPrune(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[ab]*", "boot")
	beside := filepath.Join(dir, "../../a", "boot")
	release := filepath.Join(dir, "../lib/modules/6.1")
	for _, d := range []string{dir, release, beside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(beside, "x-oldest"), nil, 0o600), os.WriteFile(filepath.Join(dir, "vmlinuz-6.1"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if k := kernelsIn(filepath.Dir(dir)); len(k) != 1 || k[0] != [2]string{filepath.Join(dir, "vmlinuz-6.1"), release} {
		t.Errorf("kernels %q", k)
	}
	for i, n := range []string{"x-old", "x-mid", "x-new", "y"} {
		p := filepath.Join(dir, n)
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(p, at, at); err != nil {
			t.Fatal(err)
		}
	}
	prune(dir, "x-*", 2, 0)
	for n, want := range map[string]bool{"x-old": false, "x-mid": true, "x-new": true, "y": true, "../../a/boot/x-oldest": true} {
		if exists(filepath.Join(dir, n)) != want {
			t.Errorf("%s is there: %v", n, !want)
		}
	}
}

// HaveKernel removes the leftovers of killed processes from the cache when they are a day old.
func TestCacheLeftovers(t *testing.T) {
	cache := t.TempDir()
	old := func(name string, age time.Duration) string {
		t.Helper()
		p, at := filepath.Join(cache, name), time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(p, 0o700), os.Chtimes(p, at, at)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	young, kept := old("guest/.tools-2", time.Hour), old("kernel/6.1-2", 48*time.Hour)
	for _, name := range []string{"guest/.tools-1", "guest/.python-1", "guest/.root-1.ext4-1", "guest/.iotax-1", "kernel/.fetch-1", "kernel/.iotax-1"} {
		p := old(name, 25*time.Hour)
		_, _ = HaveKernel(t.Context(), cache, cache+"/missing", nil)
		if exists(p) {
			t.Errorf("%s was not removed", name)
		}
	}
	if !exists(young) || !exists(kept) {
		t.Error("a young or a complete directory was removed")
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	if err := writeFile(path, strings.NewReader("x"), 0o640); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != fs.FileMode(0o640) {
		t.Errorf("%v, %v", st, err)
	}
	broken := errors.New("broken")
	if err := writeFile(path, io.MultiReader(strings.NewReader("half"), errReader{broken}), 0o640); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "x" {
		t.Errorf("a broken write leaves %q", b)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("%d files are left", len(left))
	}
}

type errReader struct{ error }

func (e errReader) Read([]byte) (int, error) { return 0, e.error }

// loaded returns a smaller program that runs like the original.
func TestLoaded(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	src := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(src, []byte("package main\n\nfunc main() { println(\"here\") }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", whole, src)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := os.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, size, err := loaded(f)
	if err != nil || size == 0 || int64(size) >= st.Size() {
		t.Fatalf("%d of %d bytes, %v", size, st.Size(), err)
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, int64(size)))
	if err != nil {
		t.Fatal(err)
	}
	less := filepath.Join(t.TempDir(), "less")
	if err := os.WriteFile(less, b, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(less).CombinedOutput(); err != nil || string(out) != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}
