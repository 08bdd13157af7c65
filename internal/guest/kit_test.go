package guest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax/internal/machine/host"
)

// carry rejects data that was damaged in transit. It removes old files, but keeps the most recently used ones,
// carriedFiles in number, and all that were used within carriedDay.
func TestCarry(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "vmlinux")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var copied []string
	log := func(format string, args ...any) { copied = append(copied, fmt.Sprintf(format, args...)) }
	var paths []string
	for i := range carriedFiles + 2 {
		write(fmt.Sprint("kernel ", i))
		for range 2 { // the second time, the file exists
			got, err := Carry(t.Context(), host.Local(), log, file)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(got[0]); err != nil || string(b) != fmt.Sprint("kernel ", i) {
				t.Fatalf("%s has %q, %v", got, b, err)
			}
			paths = append(paths, got[0])
		}
	}
	if len(copied) != carriedFiles+2 || !strings.HasPrefix(copied[0], "copying vmlinux for guests to ") {
		t.Errorf("copied: %q", copied)
	}
	before := time.Now().Add(-carriedDay - time.Hour)
	if err := os.Chtimes(paths[2], before, before); err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("0", 64)
	if _, err := carry.On(t.Context(), host.Local(), sum, bytes.NewReader([]byte("no archive"))); err == nil {
		t.Error("what is no zstd stream was kept")
	}
	if _, err := carry.On(t.Context(), host.Local(), sum, bytes.NewReader(nil)); err == nil || !strings.Contains(err.Error(), "its SHA-256 is e3b0c44298fc1c14…") {
		t.Errorf("another file: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(paths[0]), "*"))
	hidden, herr := filepath.Glob(filepath.Join(filepath.Dir(paths[0]), ".*"))
	if err != nil || herr != nil || len(left) != carriedFiles+1 || len(hidden) > 0 {
		t.Errorf("left: %q %q", left, hidden)
	}
	if _, err := os.Stat(paths[2]); err == nil {
		t.Error("a file of yesterday is kept")
	}
}
