package workload

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/testenv/worktest"
	"iotax/internal/workload/nested"
	"iotax/internal/workload/support"
)

// A machine of another architecture, and one without QEMU, are refused before guests are brought there.
func TestGuestElsewhere(t *testing.T) {
	w := &guestOnTop{name: "guest"}
	check := func(m iotax.Machine, want string) {
		t.Helper()
		err := w.Check(t.Context(), &iotax.Target{Name: "t", Machine: m, Place: iotax.Place{Kind: iotax.PlaceURL, Path: "nbd://x"}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%v: %v", m, err)
		}
	}
	m := worktest.Bare(t, "far")
	check(m, "it is not installed")
	m = worktest.Bare(t, "riscv", "uname")
	script := "#!/bin/sh\n[ \"$1\" = -s ] && echo Linux || echo riscv64\n"
	if err := os.WriteFile(filepath.Join(strings.TrimPrefix(m.Env[0], "PATH="), "uname"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	check(m, "it runs Linux/riscv64, and this iotax has agents for ")
	if left, _ := os.ReadDir(strings.TrimPrefix(m.Env[1], "XDG_CACHE_HOME=")); len(left) > 0 {
		t.Errorf("%v was made there", left)
	}
}

// What a machine lacks and this host cannot give either is told as both; a kernel alone is left to the machine.
func TestGuestKit(t *testing.T) {
	lacks := nested.Lacks{Kernel: "none in /boot", Programs: []string{"fio", "tune2fs"}}
	if got := lacks.String(); got != "a kernel (none in /boot), fio, tune2fs" {
		t.Errorf("it lacks %q", got)
	}
	var logged []string
	none := errors.New("there is none")
	w := &guestOnTop{name: "guest", env: support.Env{
		Log:      func(format string, _ ...any) { logged = append(logged, format) },
		GuestKit: func(context.Context, nested.Lacks, string, int64) (*support.GuestKit, error) { return nil, none },
	}}
	target := &iotax.Target{Name: "t", Machine: worktest.Bare(t, "far")}
	if kit, err := w.kit(t.Context(), target, lacks); kit != nil || !errors.Is(err, none) || !strings.Contains(err.Error(), "far lacks a kernel (none in /boot), fio, tune2fs: there is none") {
		t.Errorf("a kernel and programs: %v, %v", kit, err)
	}
	if kit, err := w.kit(t.Context(), target, nested.Lacks{Kernel: "none"}); kit != nil || err != nil || len(logged) != 1 {
		t.Errorf("a kernel: %v, %v, said %q", kit, err, logged)
	}
	w.spec.Kernel = "/boot/vmlinuz-1"
	if kit, err := w.kit(t.Context(), target, nested.Lacks{}); kit != nil || !errors.Is(err, none) {
		t.Errorf("a kernel of the plan: %v, %v", kit, err)
	}
}
