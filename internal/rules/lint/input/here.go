package input

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/rules"
	"iotax/internal/rules/lint"
)

// lookTime limits the time for collecting facts about this machine, or about one device.
const lookTime = 10 * time.Second

// Here collects facts about this machine without changing it. A fact that it cannot determine stays unknown.
func Here(ctx context.Context) lint.Facts {
	facts := lint.Facts{OS: runtime.GOOS, Holds: func(device string) string { return holds(ctx, device) }, Written: written}
	look, cancel := context.WithTimeout(ctx, lookTime) // not for Holds, which is called later
	defer cancel()
	facts.Memory = Memory(look)
	if out, err := iotax.ExecOutput(quiet(exec.CommandContext(look, "fio", "--version"))); err == nil {
		facts.Version = strings.TrimSpace(string(out))
		if out, err = iotax.ExecOutput(quiet(exec.CommandContext(look, "fio", "--cmdhelp=all"))); err == nil {
			for line := range strings.Lines(string(out)) {
				if name, _, ok := strings.Cut(line, ":"); ok {
					facts.Options = append(facts.Options, strings.TrimSpace(name))
				}
			}
		}
		if out, err = iotax.ExecOutput(quiet(exec.CommandContext(look, "fio", "--enghelp"))); err == nil {
			_, list, _ := strings.Cut(string(out), ":")
			facts.Engines = strings.Fields(list)
		}
	}
	return facts
}

// Memory returns the memory of this machine or the limit of this container, whichever is smaller, in bytes, or 0 if
// unknown.
func Memory(ctx context.Context) int64 {
	env, err := probe.Environment(ctx, host.Local())
	if err != nil {
		return 0
	}
	return memoryOf(env)
}

func memoryOf(env map[string]string) int64 {
	n, _ := strconv.ParseInt(env[iotax.FactMemoryBytes], 10, 64)
	if limit, err := humanize.ParseBytes(env[iotax.FactMemoryLimit]); err == nil && limit > 0 && limit < math.MaxInt64 && (n == 0 || int64(limit) < n) {
		return int64(limit)
	}
	return n
}

// Plan lints a plan before its run. It reads the memory size only for rules that need it, so that a run starts without
// delay.
func Plan(ctx context.Context, p *plan.Plan) []lint.Finding {
	facts := lint.Facts{OS: runtime.GOOS}
	found := lint.Plan(p, facts)
	if slices.ContainsFunc(found, func(f lint.Finding) bool {
		return f.Rule == rules.FileFitsMemory.ID || f.Rule == rules.OverwrittenInCache.ID
	}) {
		facts.Memory = Memory(ctx)
		found = lint.Plan(p, facts)
	}
	return found
}

// holds describes the contents of a block device and its partitions, such as mounts and file systems. It does not write
// to the device. It returns "" if it finds nothing or cannot examine the device.
func holds(ctx context.Context, device string) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if real, err := filepath.EvalSymlinks(device); err == nil {
		device = real // for links such as /dev/disk/by-id/NAME
	}
	// List all devices: to name one, lsblk would need its device node, which a container may lack.
	out, err := iotax.ExecOutput(quiet(exec.CommandContext(ctx, "lsblk", "--json", "--paths", "-o", "NAME,TYPE,FSTYPE,PTTYPE,MOUNTPOINT")))
	if err != nil {
		return ""
	}
	found := held(out, device)
	// lsblk gets file system types from udev, which containers do not run. wipefs reads the device itself, if
	// permitted.
	if out, err := iotax.ExecOutput(quiet(exec.CommandContext(ctx, "wipefs", "--no-act", "--parsable", "--output", "TYPE", "--", device))); err == nil {
		for line := range strings.Lines(string(out)) {
			s := strings.TrimSpace(line)
			if s != "" && !strings.HasPrefix(s, "#") && !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, s) }) {
				found = append(found, "a signature of "+s)
			}
		}
	}
	return strings.Join(found, ", ")
}

// A block is a device in the output of lsblk.
type block struct {
	Name, Type, FSType, PTType, Mountpoint string
	Children                               []block
}

// held describes the contents of a device and of the devices based on it. lsblk is the JSON output of lsblk.
func held(lsblk []byte, device string) (found []string) {
	var all struct{ BlockDevices []block }
	if json.Unmarshal(lsblk, &all) != nil {
		return nil
	}
	var visit func(blocks []block, below bool)
	visit = func(blocks []block, below bool) {
		for _, b := range blocks {
			on, what := "", ""
			if b.Name != device {
				on = " on " + b.Name
			}
			switch {
			case !below && on != "":
			case b.Mountpoint == "[SWAP]":
				what = "swap" + on
			case b.Mountpoint != "":
				what = "mounted at " + b.Mountpoint + on
			case b.FSType != "":
				what = b.FSType + on
			case b.PTType != "" && on == "":
				what = "a partition table (" + b.PTType + ")"
			case on != "" && b.Type != "part":
				what = b.Name + " (" + b.Type + ") on it"
			}
			if what != "" && !slices.Contains(found, what) {
				found = append(found, what)
			}
			visit(b.Children, below || on == "")
		}
	}
	visit(all.BlockDevices, false)
	return found
}

// quiet discards the standard error of cmd.
func quiet(cmd *exec.Cmd) *exec.Cmd {
	cmd.Stderr = io.Discard
	return cmd
}
