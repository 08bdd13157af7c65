//go:build linux

package agent_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/probe"
)

// embedded returns a directory like the one that `make agents` creates.
func embedded(t *testing.T, agents map[string][]byte) fstest.MapFS {
	t.Helper()
	dir := fstest.MapFS{}
	for system, program := range agents {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(program); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		dir[fmt.Sprintf("%s-%x-%d.gz", system, sha256.Sum256(program), len(program))] = &fstest.MapFile{Data: packed.Bytes()}
	}
	return dir
}

// as returns a far machine whose uname prints system and machine.
func as(t *testing.T, system, machine string) (f *far, cache string) {
	t.Helper()
	tools := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = -s ] && echo %s || echo %s\n", system, machine)
	if err := os.WriteFile(filepath.Join(tools, "uname"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return newFar(t, "PATH="+tools+":"+os.Getenv("PATH"))
}

// A machine gets the agent for its system.
func TestOtherSystem(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := []byte("#!/bin/sh\nexec " + exe + " \"$@\"\n") // acts as the agent for other systems
	agents := embedded(t, map[string][]byte{"linux-amd64": []byte("not this one"), "linux-arm64": start, "darwin-arm64": append(start, '\n'), "windows-amd64": {}})
	for _, c := range [][2]string{{"Linux", "aarch64"}, {"Darwin", "arm64"}} {
		f, cache := as(t, c[0], c[1])
		f.SetPrograms(agents)
		if p, err := id.On(t.Context(), f, none{}); err != nil || p == os.Getpid() {
			t.Errorf("%v: process %d, %v", c, p, err)
		}
		copies, _ := filepath.Glob(cache + "/iotax/iotax-*")
		if len(copies) != 1 {
			t.Errorf("%v: copies %q", c, copies)
		}
	}
	for _, c := range [][3]string{{"Linux", "riscv64", "Linux/riscv64"}, {"Darwin", "x86_64", "darwin/amd64"}, {"FreeBSD", "arm64", "FreeBSD/arm64"}} {
		f, cache := as(t, c[0], c[1])
		f.SetPrograms(agents)
		_, err := id.On(t.Context(), f, none{})
		var e *iotax.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "it runs "+c[2]+", and this iotax has agents for darwin/arm64, linux/amd64, linux/arm64, windows/amd64 only") || e.Hint == "" || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v", c, err)
		}
		if left, _ := os.ReadDir(cache); len(left) > 0 {
			t.Errorf("%v: %v is left", c, left)
		}
	}
	// The program for amd64 cannot run.
	f, _ := as(t, "Linux", "x86_64")
	f.SetPrograms(agents)
	if _, err := id.On(t.Context(), f, none{}); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("got %v", err)
	}
	// The hash in the file name is wrong.
	f, cache := as(t, "Linux", "aarch64")
	wrong := fstest.MapFS{}
	for name, file := range agents {
		if strings.Contains(name, "linux-arm64") {
			wrong[strings.Replace(name, "linux-arm64-", "linux-arm64-00", 1)[:len("linux-arm64-")+64]+fmt.Sprintf("-%d.gz", len(start))] = file
		}
	}
	f.SetPrograms(wrong)
	if _, err := id.On(t.Context(), f, none{}); err == nil || !strings.Contains(err.Error(), "another SHA-256") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(cache + "/iotax/*iotax*"); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// emulated is a machine whose agent runs under qemu-user.
type emulated struct {
	*far
	qemu string
}

func (e *emulated) Run(ctx context.Context, c *iotax.Cmd) error {
	with := *c
	with.Args = append([]string(nil), c.Args...)
	with.Args[2] = strings.ReplaceAll(c.Args[2], `	"$1" `, "\t"+e.qemu+` "$1" `)
	return e.far.Run(ctx, &with)
}

// The agent for another architecture works.
func TestOtherArchitecture(t *testing.T) {
	if os.Getenv("IOTAX_TEST_REPEATS") == "" {
		t.Skip("it compiles for arm64: IOTAX_TEST_REPEATS=1 runs it")
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("qemu-user-static is not installed")
	}
	program := filepath.Join(t.TempDir(), "agent")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "iotax/cmd/iotax-agent")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := as(t, "Linux", "aarch64")
	f.SetPrograms(embedded(t, map[string][]byte{"linux-arm64": text}))
	m := &emulated{f, qemu}
	facts, err := probe.Environment(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	here, err := probe.Environment(t.Context(), host.Local())
	if err != nil {
		t.Fatal(err)
	}
	if facts[iotax.FactKernel] == "" || facts[iotax.FactKernel] != here[iotax.FactKernel] {
		t.Errorf("facts %v", facts)
	}
	t.Log(facts)
	if s, err := f.Session(t.Context(), m); err != nil || s.System != "linux/arm64" {
		t.Errorf("session %+v, %v", s, err)
	}
}
