package statefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Read returns the written state until Clear. Only one process at a time can open the directory.
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
