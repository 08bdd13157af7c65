package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"iotax"
)

// probeDeadline is the time after which an accelerator counts as broken if the console does not prove that the guest
// runs. A guest with a working accelerator needs about 250 ms.
const probeDeadline = 5 * time.Second

// An Accelerator is the accelerator for guests on this host, and the reason for the choice.
type Accelerator struct {
	Name string `json:"name"` // kvm, hvf, tcg
	Why  string `json:"why"`
}

// Probe returns kvm on Linux or hvf on macOS if a guest boots with it, else tcg (emulation). boot
// describes a minimal guest. Probe sets its Accel, QMP, Net and Name. alive reports whether a line of the console
// proves that the guest runs.
//
// Probe boots a guest because inside a virtual machine, /dev/kvm may be very slow or fail. It caches the result in
// cacheDir for this QEMU and this guest kernel. On Linux, a reboot of the host makes the result invalid.
func Probe(ctx context.Context, boot Config, release, cacheDir, workDir string, alive func(line string) bool) (Accelerator, error) {
	accel, why := mayAccelerate()
	if accel == "" {
		return Accelerator{Name: "tcg", Why: why}, nil
	}
	path, err := boot.Look()
	if err != nil {
		return Accelerator{}, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return Accelerator{}, err
	}
	bootID, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	key := fmt.Sprintf("%s|%s|%d|%d|%s|%s", accel, path, st.Size(), st.ModTime().UnixNano(), release, strings.TrimSpace(string(bootID)))
	file := filepath.Join(cacheDir, "accel.json")
	var known struct {
		Key string `json:"key"`
		Accelerator
	}
	if b, err := iotax.ReadFile(file, iotax.MaxOutput); err == nil && json.Unmarshal(b, &known) == nil && known.Key == key {
		return known.Accelerator, nil
	}
	found := tryBoot(ctx, boot, accel, workDir, alive)
	if err := ctx.Err(); err != nil {
		return Accelerator{}, err
	}
	known.Key, known.Accelerator = key, found
	if b, err := json.Marshal(known); err == nil && os.MkdirAll(cacheDir, 0o755) == nil {
		// The cache only saves time: without it the next run probes again.
		tmp := fmt.Sprintf("%s.%d", file, os.Getpid())
		if os.WriteFile(tmp, b, 0o644) == nil {
			_ = os.Rename(tmp, file)
		}
	}
	return found, nil
}

// MayAccelerate reports whether this host has an accelerator to probe. If not, it returns the reason.
func MayAccelerate() (bool, string) {
	accel, why := mayAccelerate()
	return accel != "", why
}

// Known returns the result that the last Probe saved in cacheDir. Without one, it returns the accelerator that Probe
// would try, and false. If this host has no accelerator to probe, it returns tcg and true.
func Known(cacheDir string) (accel string, tested bool) {
	if accel, _ = mayAccelerate(); accel == "" {
		return "tcg", true
	}
	var known Accelerator
	b, err := iotax.ReadFile(filepath.Join(cacheDir, "accel.json"), iotax.MaxOutput)
	if err != nil || json.Unmarshal(b, &known) != nil || known.Name == "" {
		return accel, false
	}
	return known.Name, true
}

func mayAccelerate() (accel, why string) {
	switch runtime.GOOS {
	case "linux":
		f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
		if err != nil {
			return "", fmt.Sprintf("no KVM: %v", err)
		}
		f.Close()
		return "kvm", ""
	case "darwin":
		return "hvf", ""
	}
	return "", "no accelerator is known for " + runtime.GOOS
}

func tryBoot(ctx context.Context, c Config, accel, workDir string, alive func(line string) bool) Accelerator {
	fail := func(err error) Accelerator {
		var ie *iotax.Error
		if errors.As(err, &ie) {
			err = ie.Err
		}
		first := strings.Join(strings.Fields(err.Error()), " ")
		if len(first) > 250 {
			first = first[:250] + "…"
		}
		return Accelerator{Name: "tcg", Why: accel + " is there but does not work: " + first}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeDeadline, fmt.Errorf("no guest booted within %v", probeDeadline))
	defer cancel()
	dir, err := os.MkdirTemp(workDir, "accel-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	sock, made, err := SocketPath(dir, "qmp")
	if err != nil {
		return fail(err)
	}
	if made != "" {
		defer os.RemoveAll(made)
	}
	c.Accel, c.QMP, c.Net, c.Name = accel, sock, false, "accelerator probe"
	up := make(chan struct{}, 1)
	start := time.Now()
	v, err := Start(ctx, c, func(_ time.Time, line string) {
		if alive(line) {
			select {
			case up <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fail(err)
	}
	defer func() {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = v.Close(c)
	}()
	select {
	case <-up:
		return Accelerator{Name: accel, Why: fmt.Sprintf("a guest booted in %v", time.Since(start).Round(time.Millisecond))}
	case <-v.Done():
		return fail(v.Err())
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	}
}
