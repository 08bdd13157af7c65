// Package guesttest provides the cache directory, the init programs and the static test binaries that tests need to
// boot real guests.
package guesttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// CacheDir returns the cache that tests of all packages share, so that a kernel is downloaded and unpacked only once.
func CacheDir(t testing.TB) string {
	t.Helper()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(user, "iotax")
}

var (
	mu    sync.Mutex
	built = map[string]string{}
)

// Init builds a small static init and returns its path. Test binaries that are linked with cgo or the race detector
// cannot boot as init.
func Init(t testing.TB) string { return program(t, "init") }

// Root builds the init of an initramfs that switches to the root file system on the first disk, and returns its path.
func Root(t testing.TB) string { return program(t, "root") }

func program(t testing.TB, name string) string {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if p := built[name]; p != "" {
		return p
	}
	// The path is part of the key of the initramfs in the cache, so it must stay the same.
	path := filepath.Join(CacheDir(t), "test-"+name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "iotax/internal/testenv/guesttest/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	built[name] = path
	return path
}
