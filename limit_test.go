package iotax

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A Capture that is passed to os/exec ends a command that prints endlessly.
func TestCapture(t *testing.T) {
	t.Parallel()
	out := Capture{Limit: 1000}
	cmd := exec.Command("yes")
	cmd.Stdout = &out
	if err := cmd.Run(); err == nil {
		t.Error("yes ended well")
	}
	var over *LimitError
	if len(out.Bytes()) != 1000 || !errors.As(out.Err(), &over) {
		t.Errorf("%d bytes were kept, with the error %v", len(out.Bytes()), out.Err())
	}
	whole := Capture{Limit: 3}
	if n, err := io.Copy(&whole, strings.NewReader("abc")); n != 3 || err != nil || whole.Err() != nil {
		t.Errorf("an output of exactly the limit: %d, %v", n, err)
	}
}

// Output returns if a machine does not answer, even if the caller sets no deadline.
func TestDeadline(t *testing.T) {
	defer func(o time.Duration) { outputTime = o }(outputTime)
	outputTime = 10 * time.Millisecond
	if _, err := Output(t.Context(), silent{}, "true"); err == nil || err.Error() != "no end within 10ms" {
		t.Errorf("Output: %v", err)
	}
}

// A silent machine never answers.
type silent struct{ Machine }

func (silent) Run(ctx context.Context, _ *Cmd) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, bytes.Repeat([]byte("x"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadFile(name, 100); len(b) != 100 || err != nil {
		t.Errorf("a file of exactly the limit: %d bytes, %v", len(b), err)
	}
	for _, f := range []string{name, "/dev/zero"} {
		var over *LimitError
		if b, err := ReadFile(f, 99); b != nil || !errors.As(err, &over) || err.Error() != "it is larger than 99 bytes" {
			t.Errorf("%s: %d bytes and %v", f, len(b), err)
		}
	}
	if b, err := ReadFile(os.DevNull, 99); len(b) != 0 || err != nil {
		t.Errorf("%s: %d bytes and %v", os.DevNull, len(b), err)
	}
}

// Without HOME, the cache is not at a path in the directory for temporary files that another user could have taken.
func TestCacheWithoutHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	dir := CacheDir()
	if filepath.Dir(dir) != filepath.Clean(os.TempDir()) {
		return // below the home directory of the user database
	}
	if err := os.Remove(dir); err != nil { // CacheDir made it
		t.Errorf("%s: %v", dir, err)
	}
}
