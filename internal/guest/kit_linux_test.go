package guest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A kit arrives whole and can be booted from, or not at all; one that was damaged later is noticed, and old ones go.
func TestKit(t *testing.T) {
	k := kernel(t)
	root := filepath.Join(t.TempDir(), "root")
	disk := make([]byte, 8<<20)
	copy(disk[1<<20:], "data")
	if err := os.WriteFile(root, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	pack := func(k *Kernel, root string) (*Kit, []byte) {
		t.Helper()
		kit, err := NewKit(t.Context(), k, root)
		if err != nil {
			t.Fatal(err)
		}
		var sent bytes.Buffer
		if err := kit.Send(t.Context(), &sent); err != nil {
			t.Fatal(err)
		}
		return kit, sent.Bytes()
	}
	kit, sent := pack(k, root)
	far := t.TempDir()
	files := func() (all []string) {
		all, err := filepath.Glob(filepath.Join(far, "guest", "*"))
		hidden, herr := filepath.Glob(filepath.Join(far, "guest", ".*"))
		if err := errors.Join(err, herr); err != nil {
			t.Fatal(err)
		}
		return append(all, hidden...)
	}
	missing := func(what string) {
		t.Helper()
		if _, err := OpenKit(t.Context(), far, kit.Sum, true); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
		if left := files(); len(left) > 0 {
			t.Errorf("%s: %q stays", what, left)
		}
	}
	missing("before it was sent")
	other := strings.Repeat("0", len(kit.Sum))
	if err := TakeKit(t.Context(), far, other, bytes.NewReader(sent)); err == nil || !strings.Contains(err.Error(), "its SHA-256 is "+kit.Sum[:16]) {
		t.Errorf("another kit: %v", err)
	}
	missing("another kit")
	if err := TakeKit(t.Context(), far, kit.Sum, bytes.NewReader(sent[:len(sent)/2])); err == nil {
		t.Error("half of it was taken")
	}
	missing("half of it")
	if err := TakeKit(t.Context(), far, "../../x", bytes.NewReader(sent)); err == nil || !strings.Contains(err.Error(), "no sum") {
		t.Errorf("a sum that is a path: %v", err)
	}

	if err := TakeKit(t.Context(), far, kit.Sum, bytes.NewReader(sent)); err != nil {
		t.Fatal(err)
	}
	there, err := OpenKit(t.Context(), far, kit.Sum, true)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(there.Root); err != nil || !bytes.Equal(b, disk) {
		t.Errorf("the root disk has %d bytes: %v", len(b), err)
	}
	is, err := OpenKernel(far, there.Kernel, "")
	if err != nil {
		t.Fatal(err)
	}
	if is.Release != k.Release || !strings.HasPrefix(is.Modules, far) {
		t.Errorf("the kernel that came is %+v", is)
	}
	tree, err := openModules(is.Modules)
	if err != nil {
		t.Fatal(err)
	}
	all, err := openModules(k.Modules)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range append(bootModules, lazyModules...) {
		if tree.has(m) != all.has(m) {
			t.Errorf("module %s did not come", m)
		}
	}

	if err := os.WriteFile(there.Root, append(disk[:len(disk)-1:len(disk)-1], 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKit(t.Context(), far, kit.Sum, true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a damaged kit is told as %v", err)
	}

	// Half a kit is a kit. All that were used today stay, and of older ones no more than two are left.
	var sums []string
	for _, part := range []func() (*Kit, []byte){func() (*Kit, []byte) { return pack(k, "") }, func() (*Kit, []byte) { return pack(nil, root) }, func() (*Kit, []byte) { return pack(k, root) }} {
		kit, sent := part()
		if err := TakeKit(t.Context(), far, kit.Sum, bytes.NewReader(sent)); err != nil {
			t.Fatal(err)
		}
		sums = append(sums, kit.Sum)
	}
	if there, err := OpenKit(t.Context(), far, sums[0], false); err != nil || there.Kernel == "" || there.Root != "" {
		t.Errorf("a kit of a kernel, the first of three: %+v, %v", there, err)
	}
	if there, err := OpenKit(t.Context(), far, sums[1], false); err != nil || there.Kernel != "" || there.Root == "" {
		t.Errorf("a kit of a root disk: %+v, %v", there, err)
	}
	before := time.Now().Add(-kitDay - time.Hour)
	if err := errors.Join(os.RemoveAll(kitDir(far, sums[2])), os.Chtimes(kitDir(far, sums[0]), before, before), TakeKit(t.Context(), far, kit.Sum, bytes.NewReader(sent))); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKit(t.Context(), far, sums[0], false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a kit that nobody used for a day: %v", err)
	}
	if _, err := OpenKit(t.Context(), far, sums[1], false); err != nil {
		t.Error(err)
	}
}
