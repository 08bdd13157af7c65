// Package guesttest gives tests what they need to boot real guests.
package guesttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// CacheDir is the cache that tests share between packages and runs, so that a kernel is fetched
// and unpacked once.
func CacheDir(t testing.TB) string {
	t.Helper()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(user, "iotax")
}

var build struct {
	sync.Once
	path string
	err  error
}

// Init builds a small static init and returns its path. Tests that have linked cgo or the race
// detector in cannot boot themselves.
func Init(t testing.TB) string {
	t.Helper()
	build.Do(func() {
		// The path is part of the key under which the initramfs is cached: keep it.
		build.path = filepath.Join(CacheDir(t), "test-init")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", build.path, "iotax/guest/guesttest/init")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			build.err = err
			t.Logf("%s", out)
		}
	})
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.path
}
