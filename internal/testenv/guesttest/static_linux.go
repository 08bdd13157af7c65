package guesttest

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"iotax"
)

// Static rebuilds this test binary with CGO_ENABLED=0 and executes the result if the binary is dynamically linked.
// Guests and containers run the binary, and have no C library. Static does nothing if the program is not a test binary,
// is already static, or was built with -race, -cover or -tags.
func Static() {
	exe, err := os.Executable()
	if err != nil || !strings.HasSuffix(filepath.Base(os.Args[0]), ".test") {
		return
	}
	lost := func(s debug.BuildSetting) bool { return s.Key == "-race" || s.Key == "-cover" || s.Key == "-tags" }
	if info, ok := debug.ReadBuildInfo(); ok && slices.ContainsFunc(info.Settings, lost) {
		return // the rebuilt binary would lack these settings
	}
	f, err := elf.Open(exe)
	if err != nil {
		return
	}
	dynamic := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	f.Close()
	if !dynamic {
		return
	}
	os.Setenv("CGO_ENABLED", "0") // also for programs that the tests build
	static := exe + "-static"     // in the same directory, which go test removes
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	out, err := iotax.ExecOutput(exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", static, "."))
	if err == nil {
		err = syscall.Exec(static, append([]string{static}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "the tests of guests need CGO_ENABLED=0: %v %s\n", err, out)
}
