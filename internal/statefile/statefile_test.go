package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Read returns the written state until Clear. The directory cannot be opened twice at the same time.
func TestState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := Open(path, "iotax test")
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if found, err := d.Read(&n); found || err != nil {
		t.Errorf("of a new directory: %v, %v", found, err)
	}
	if err := d.Write(21); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "iotax test"); err == nil || !strings.Contains(err.Error(), "another iotax test works there") {
		t.Errorf("twice at once: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(path, "iotax test"); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if found, err := d.Read(&n); !found || err != nil || n != 21 {
		t.Errorf("read %d, %v, %v", n, found, err)
	}
	var text string
	if _, err := d.Read(&text); err == nil || !strings.Contains(err.Error(), "--reset") {
		t.Errorf("a state of another kind: %v", err)
	}
	if err := d.Clear(); err != nil {
		t.Fatal(err)
	}
	if found, err := d.Read(&n); found || err != nil {
		t.Errorf("after Clear: %v, %v", found, err)
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after Remove: %v", err)
	}
}

// A search does not remove files that it did not make: it refuses a directory that contains such files, and keeps
// files that appear later.
func TestOtherFiles(t *testing.T) {
	path := t.TempDir()
	own := filepath.Join(path, "thesis")
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(own)
	if _, err := Open(path, "iotax test", "builds"); err == nil || !strings.Contains(err.Error(), "not of a search") {
		t.Errorf("a directory with other files: %v", err)
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path, "iotax test", "builds")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	write(own)
	write(filepath.Join(path, "builds"))
	if err := errors.Join(d.Write(21), d.Clear(), d.Write(22), d.Remove()); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(path + "/*"); err != nil || len(left) != 1 || left[0] != own {
		t.Errorf("left %v, %v", left, err)
	}
}
