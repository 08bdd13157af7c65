package probe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"iotax/internal/leftover"
)

// cached returns the number of pages of a file that are in the page cache.
func cached(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	vec := make([]byte, (len(m)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&vec[0]))); e != 0 {
		t.Fatal(e)
	}
	n := 0
	for _, v := range vec {
		n += int(v & 1)
	}
	return n
}

func TestEvict(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "iotax-evict-") // pages of a tmpfs cannot be evicted
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	in, out, marker := filepath.Join(dir, "a", "in"), filepath.Join(dir, "out"), filepath.Join(dir, "a", leftover.Marker)
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{in, out, marker} {
		if err := os.WriteFile(p, make([]byte, 4<<20), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(out, filepath.Join(dir, "a", "link")); err != nil {
		t.Fatal(err)
	}
	before := cached(t, in)
	if before < 1000 {
		t.Fatalf("only %d pages cached after writing: nothing to test", before)
	}
	extents, err := evictHere(t.Context(), filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if extents < 1 || extents > 100 { // a file of 4 MiB, whatever the file system
		t.Errorf("%d extents", extents)
	}
	if n := cached(t, in); n > before/100 {
		t.Errorf("%d of %d dirty pages stay in the cache", n, before)
	}
	if n := cached(t, marker); n < 1000 {
		t.Errorf("%d pages of the marker are left", n)
	}
	if n := cached(t, out); n < 1000 {
		t.Errorf("a link was followed: %d pages of its target are left", n)
	}
	if _, err := evictHere(t.Context(), filepath.Join(dir, "a", "link")); err != nil { // a link to a single file, such as a disk image
		t.Fatal(err)
	}
	if n := cached(t, out); n > 10 {
		t.Errorf("%d pages of a single file stay", n)
	}
	if _, err := evictHere(t.Context(), filepath.Join(dir, "gone")); err != nil {
		t.Errorf("a file that is gone: %v", err)
	}
	holed, err := os.Create(filepath.Join(dir, "holed"))
	if err != nil {
		t.Fatal(err)
	}
	defer holed.Close()
	for i := range int64(3) {
		if _, err := holed.WriteAt(make([]byte, 64<<10), i<<20); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := evictHere(t.Context(), holed.Name()); n < 3 || err != nil {
		t.Errorf("a file of three parts: %d extents, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := evictHere(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}
