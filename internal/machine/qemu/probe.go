package qemu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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

// Probe returns kvm on Linux or hvf on macOS if a guest boots with that accelerator, else tcg (emulation). boot
// describes a minimal guest. Probe sets boot's fields Accel, QMP, Net and Name. alive reports whether a line of the
// console proves that the guest runs.
//
// Probe boots a guest because inside a virtual machine, /dev/kvm may be very slow or fail. Probe caches the result in
// cacheDir for this QEMU and this guest kernel. On Linux, a reboot of the host makes the result invalid. If the host
// lacks memory, space or CPU time for the guest, Probe returns an error and caches nothing, so that later guests are
// not emulated because of a temporary shortage.
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
	found, err := tryBoot(ctx, boot, accel, workDir, alive)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return Accelerator{}, err
	}
	known.Key, known.Accelerator = key, found
	if b, err := json.Marshal(known); err == nil && os.MkdirAll(cacheDir, 0o755) == nil {
		// The cache only saves time, so ignore errors of writing it.
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

// Known returns the result that the last Probe saved in cacheDir. If there is no saved result, it returns the
// accelerator that Probe would try, and false. If this host has no accelerator to probe, it returns tcg and true.
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

func tryBoot(ctx context.Context, c Config, accel, workDir string, alive func(line string) bool) (Accelerator, error) {
	local := func(err error) (Accelerator, error) {
		return Accelerator{}, &iotax.Error{Op: "test " + accel, Err: err, Hint: "start again when this host has more memory, space and CPU time, or emulate the guest: {qemu: {accel: tcg}}"}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeDeadline, fmt.Errorf("no guest booted within %v", probeDeadline))
	defer cancel()
	dir, err := os.MkdirTemp(workDir, "accel-")
	if err != nil {
		return local(err)
	}
	defer os.RemoveAll(dir)
	sock, made, err := SocketPath(dir, "qmp")
	if err != nil {
		return local(err)
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
	var used time.Duration
	if err == nil {
		select {
		case <-up:
		case <-v.Done():
			err = v.Err()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		took := time.Since(start)
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = v.Close(c)
		if err == nil {
			return Accelerator{Name: accel, Why: fmt.Sprintf("a guest booted in %v", took.Round(time.Millisecond))}, nil
		}
		used = v.CPU()
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var ie *iotax.Error
	if errors.As(err, &ie) {
		err = ie.Err
	}
	var load float64 // 0 if the system has no such file
	text, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(text), &load)
	if passing(err, used, load) {
		return local(err)
	}
	first := strings.Join(strings.Fields(err.Error()), " ")
	if len(first) > 250 {
		first = first[:250] + "…"
	}
	return Accelerator{Name: "tcg", Why: accel + " is there but does not work: " + first}, nil
}

// passing reports whether the probe may succeed later: the host lacked memory or another resource, or it was busy and
// QEMU got less than twice the CPU time that a guest with a working accelerator needs.
func passing(err error, used time.Duration, load float64) bool {
	text, _, _ := strings.Cut(strings.ToLower(err.Error()), "\nlast lines of its console") // the guest's own errors do not count
	for _, e := range []error{syscall.EAGAIN, syscall.EBUSY, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, errors.New("signal: killed")} {
		if strings.Contains(text, e.Error()) {
			return true
		}
	}
	return strings.HasPrefix(text, "no guest booted") && used < 500*time.Millisecond && load > float64(runtime.NumCPU())
}
