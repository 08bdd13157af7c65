// Package kube builds Kubernetes from its published modules and starts clusters of a few nodes on this machine, for
// tests.
package kube

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"iotax"
)

// Version is the Kubernetes version to build.
const Version = "v1.34.4"

// modFile, sumFile and mainFile are the files of the module from which Kubernetes is built: the requirements of the
// release with each k8s.io module at its published version, the checksums of all modules, and the program.
var (
	//go:embed hyper/go.mod.txt
	modFile []byte
	//go:embed hyper/go.sum.txt
	sumFile []byte
	//go:embed hyper/main.go.txt
	mainFile []byte
)

// parts lists the components. One binary contains all of them, and the name under which it is started selects one.
var parts = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"}

// Build returns the directory that contains the components of Kubernetes. If they are not in the user's cache, Build
// builds them. This takes eight minutes of CPU time, 3 GB below GOPATH and 130 MB in the cache.
func Build(ctx context.Context, log func(format string, args ...any)) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "iotax", "kubernetes", Version)
	fail := func(err error) (string, error) {
		return "", &iotax.Error{Op: "build Kubernetes", On: dir, Err: err, Hint: "go and the module proxy must be reachable; try go run ./internal/testenv/kube/get"}
	}
	program := filepath.Join(dir, "hyperkube")
	if complete(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	lock := flock.New(dir + ".lock")
	if err := lock.Lock(); err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if complete(dir) { // another process built it while this one waited for the lock
		return dir, nil
	}
	if _, err := os.Stat(program); err != nil {
		log("building Kubernetes %s into %s; this takes some minutes, once", Version, dir)
		if err := build(ctx, program); err != nil {
			return fail(err)
		}
	}
	for _, p := range parts {
		if err := os.Symlink("hyperkube", filepath.Join(dir, p)); err != nil && !errors.Is(err, os.ErrExist) {
			return fail(err)
		}
	}
	return dir, nil
}

func complete(dir string) bool {
	for _, p := range parts {
		if st, err := os.Stat(filepath.Join(dir, p)); err != nil || st.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// build builds Kubernetes in a temporary directory, then moves the binary to the path `program`.
func build(ctx context.Context, program string) (err error) {
	src, err := os.MkdirTemp(filepath.Dir(program), "src-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(src)) }()
	for name, text := range map[string][]byte{"go.mod": modFile, "go.sum": sumFile, "main.go": mainFile} {
		if err := os.WriteFile(filepath.Join(src, name), text, 0o644); err != nil {
			return err
		}
	}
	// The components report the version that these flags set. kubelet refuses an API server with an older version.
	minor, _, _ := strings.Cut(strings.TrimPrefix(Version, "v1."), ".")
	flags := "-s -w"
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range []string{"gitVersion=" + Version, "gitMajor=1", "gitMinor=" + minor, "gitTreeState=clean", "buildDate=2026-01-01T00:00:00Z"} {
			flags += fmt.Sprintf(" -X %s.%s", p, v)
		}
	}
	out := filepath.Join(src, "hyperkube")
	c := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-buildvcs=false", "-trimpath", "-ldflags", flags, "-o", out, ".")
	c.Dir = src
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-modcacherw", "GOWORK=off")
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, said[max(0, len(said)-2000):])
	}
	return os.Rename(out, program)
}
