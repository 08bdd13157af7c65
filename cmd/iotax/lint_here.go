package main

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/probe"
	"iotax/internal/rules"
	"iotax/internal/rules/lint"
)

// lintFacts are what the linter may know: of this machine, or of the one that the flags describe.
func lintFacts(ctx context.Context, elsewhere bool, memory plan.Size, system string) lint.Facts {
	var facts lint.Facts
	if !elsewhere && memory == 0 && system == "" {
		facts = hereFacts(ctx)
	}
	if memory != 0 {
		facts.Memory = int64(memory)
	}
	if system != "" {
		facts.OS = strings.ToLower(system)
		if facts.OS == "macos" {
			facts.OS = "darwin"
		}
	}
	return facts
}

// lookTime is how long a look at this machine may take.
const lookTime = 10 * time.Second

// hereFacts looks at this machine, and changes nothing on it. What cannot be found is left unknown.
func hereFacts(ctx context.Context) lint.Facts {
	facts := lint.Facts{OS: runtime.GOOS, Holds: func(device string) string { return holds(ctx, device) }, Written: written}
	look, cancel := context.WithTimeout(ctx, lookTime) // not for Holds, which is asked later
	defer cancel()
	facts.Memory = hereMemory(look)
	if out, err := iotax.ExecOutput(quiet(exec.CommandContext(look, "fio", "--version"))); err == nil {
		facts.Version = strings.TrimSpace(string(out))
		if out, err = iotax.ExecOutput(quiet(exec.CommandContext(look, "fio", "--cmdhelp=all"))); err == nil {
			for line := range bytes.Lines(out) {
				if name, _, ok := strings.Cut(string(line), ":"); ok {
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

// hereMemory is the memory of this machine in bytes, or what of it this container may use; 0 is unknown.
func hereMemory(ctx context.Context) int64 {
	env, err := probe.Environment(ctx, host.Local())
	if err != nil {
		return 0
	}
	n, limit := atoi(env[iotax.FactMemoryBytes]), atoi(env[iotax.FactMemoryLimit])
	if limit > 0 && limit < n {
		return limit
	}
	return n
}

// lintPlan lints a plan that is about to run. The memory of this machine is only asked for where a rule
// wants to know it: a run starts without delay.
func lintPlan(ctx context.Context, p *plan.Plan) []lint.Finding {
	facts := lint.Facts{OS: runtime.GOOS}
	found := lint.Plan(p, facts)
	if slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Rule == rules.FileFitsMemory.ID }) {
		facts.Memory = hereMemory(ctx)
		found = lint.Plan(p, facts)
	}
	return found
}

func atoi(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// holds lists the contents of a block device and its partitions: mounts, swap, members of RAID or LVM, file systems and
// partition tables. It only reads. "" also means that this host cannot find out.
func holds(ctx context.Context, device string) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if real, err := filepath.EvalSymlinks(device); err == nil {
		device = real // /dev/disk/by-id/…
	}
	// All devices, because a container has no node for the device below it; in pairs, because empty
	// columns would shift the others.
	out, err := iotax.ExecOutput(quiet(exec.CommandContext(ctx, "lsblk", "--noheadings", "--pairs", "--paths", "-o", "NAME,PKNAME,TYPE,FSTYPE,PTTYPE,MOUNTPOINT")))
	if err != nil {
		return ""
	}
	found := held(string(out), device)
	// lsblk knows types from udev, which containers lack; wipefs looks for itself, if it may read.
	if out, err := iotax.ExecOutput(quiet(exec.CommandContext(ctx, "wipefs", "--no-act", "--parsable", "--output", "TYPE", "--", device))); err == nil {
		for line := range bytes.Lines(out) {
			s := strings.TrimSpace(string(line))
			if s != "" && !strings.HasPrefix(s, "#") && !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, s) }) {
				found = append(found, "a signature of "+s)
			}
		}
	}
	return strings.Join(found, ", ")
}

// held reads from the output of lsblk what is on a device.
func held(lsblk, device string) []string {
	var found []string
	add := func(s string) {
		if !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	family := []string{device} // parents are listed before their children
	for line := range strings.Lines(lsblk) {
		f := pairs(line)
		on := ""
		if f["NAME"] != device {
			if !slices.Contains(family, f["PKNAME"]) {
				continue
			}
			family = append(family, f["NAME"])
			on = " on " + f["NAME"]
		}
		switch {
		case f["MOUNTPOINT"] == "[SWAP]":
			add("swap" + on)
		case f["MOUNTPOINT"] != "":
			add("mounted at " + f["MOUNTPOINT"] + on)
		case f["FSTYPE"] != "":
			add(f["FSTYPE"] + on)
		case f["PTTYPE"] != "" && on == "":
			add("a partition table (" + f["PTTYPE"] + ")")
		case on != "" && f["TYPE"] != "part":
			add(f["NAME"] + " (" + f["TYPE"] + ") on it")
		}
	}
	return found
}

// pairs reads KEY="value" KEY="value".
func pairs(line string) map[string]string {
	out := map[string]string{}
	for {
		key, rest, ok := strings.Cut(line, `="`)
		if !ok {
			return out
		}
		value, after, _ := strings.Cut(rest, `"`)
		out[strings.TrimSpace(key)], line = value, after
	}
}

// quiet leaves out the standard error of cmd.
func quiet(cmd *exec.Cmd) *exec.Cmd {
	cmd.Stderr = io.Discard
	return cmd
}
