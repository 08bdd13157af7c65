// Package probe collects facts about a machine and a place on it. During a trial, it measures device I/O, the CPU time
// of this host, the memory of the processes that serve a guest, and the machine's clock.
//
// It omits data that a machine does not provide (no sysfs, no permission, another system).
package probe

import (
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"iotax"
	"iotax/internal/agent"
)

// Environment returns facts about m: os, kernel, arch, hostname, cpu.model, cpu.count, cpu.governor, cpu.turbo,
// cpu.mitigations, memory (formatted), memory.bytes, swap, hypervisor, container, clocksource, and the limits of a
// control group, cpu.limit (CPUs) and memory.limit. It omits facts that m does not provide.
func Environment(ctx context.Context, m iotax.Machine) (map[string]string, error) {
	return readEnvironment.On(ctx, m, struct{}{})
}

var readEnvironment = agent.New("read the environment", func(ctx context.Context, _ struct{}) (map[string]string, error) {
	return environment(thisHost.environment(ctx)), context.Cause(ctx)
})

// environmentFiles maps keys of the result of system.environment to the files that contain their data.
var environmentFiles = map[string]string{
	"release":      "/etc/os-release",
	"online":       "/sys/devices/system/cpu/online",
	"no_turbo":     "/sys/devices/system/cpu/intel_pstate/no_turbo",
	"boost":        "/sys/devices/system/cpu/cpufreq/boost",
	"cmdline":      "/proc/cmdline",
	"meminfo":      "/proc/meminfo",
	"clocksource":  "/sys/devices/system/clocksource/clocksource0/current_clocksource",
	"clocksources": "/sys/devices/system/clocksource/clocksource0/available_clocksource",
	"xen":          "/sys/hypervisor/type",
	"vendor":       "/sys/class/dmi/id/sys_vendor",
	"product":      "/sys/class/dmi/id/product_name",
	"devicetree":   "/proc/device-tree/model",
	"cpu.max":      "/sys/fs/cgroup/cpu.max",
	"memory.max":   "/sys/fs/cgroup/memory.max",
}

// environment reads the data from which the facts of this host are derived.
func (fs system) environment(ctx context.Context) map[string]string {
	g := map[string]string{"uname": uname()}
	if runtime.GOOS == "darwin" {
		g["darwin"] = output(ctx, "sw_vers", "-productVersion") +
			output(ctx, "sysctl", "-n", "machdep.cpu.brand_string", "hw.ncpu", "hw.memsize", "kern.hv_vmm_present")
		return g
	}
	for name, file := range environmentFiles {
		g[name] = fs.read(file)
	}
	if g["release"] == "" {
		g["release"] = fs.read("/usr/lib/os-release")
	}
	// On a large machine, cpuinfo is hundreds of kilobytes long. Keep only the first processor, and the lines that ARM
	// adds at the end.
	info := fs.read("/proc/cpuinfo")
	first, rest, _ := strings.Cut(info, "\n\n")
	for line := range strings.Lines(rest) {
		if k, _, _ := strings.Cut(line, ":"); slices.Contains([]string{"Hardware", "Model", "Processor"}, strings.TrimSpace(k)) {
			first += "\n" + line
		}
	}
	g["cpuinfo"] = first
	n := runtime.NumCPU()
	if c := strings.Count("\n"+info, "\nprocessor"); c > 0 {
		n = c
	}
	g["processors"] = strconv.Itoa(n)
	governors, _ := filepath.Glob(filepath.Join(fs.sys, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
	for _, file := range governors {
		g["governor"] += fs.read(file)
	}
	all, _ := filepath.Glob(filepath.Join(fs.sys, "devices/system/cpu/vulnerabilities/*"))
	for _, file := range all {
		g["vulnerabilities"] += filepath.Base(file) + " " + fs.read(file)
	}
	here := func(file string) bool { _, err := os.Stat(file); return err == nil }
	if _, err := exec.LookPath("systemd-detect-virt"); err == nil {
		g["virt"] = output(ctx, "systemd-detect-virt", "--vm")
		g["container"] = output(ctx, "systemd-detect-virt", "--container")
	} else if here("/run/.containerenv") {
		g["container"] = "podman"
	} else if here("/.dockerenv") {
		g["container"] = "docker"
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		g["container"] = "kubernetes"
	}
	return g
}

// output returns the standard output of a command even if the command fails: systemd-detect-virt fails if it detects
// nothing.
func output(ctx context.Context, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = io.Discard
	out, _ := iotax.ExecOutput(cmd)
	return string(out)
}

// environment derives facts from the data that system.environment read.
func environment(g map[string]string) map[string]string {
	facts := map[string]string{}
	uname := lines(g["uname"], 4)
	set(facts, "kernel", uname[1])
	set(facts, "arch", uname[2])
	set(facts, "hostname", uname[3])
	if uname[0] == "Darwin" {
		d := lines(g["darwin"], 5)
		set(facts, "os", "macOS "+d[0])
		set(facts, iotax.FactCPUModel, d[1])
		set(facts, iotax.FactCPUCount, d[2])
		if n, err := strconv.ParseUint(d[3], 10, 64); err == nil {
			setBytes(facts, "memory", n)
		}
		switch d[4] {
		case "0":
			facts["hypervisor"] = "none"
		case "1":
			facts["hypervisor"] = "unknown"
		}
		return facts
	}
	release := assignments(g["release"])
	set(facts, "os", release["PRETTY_NAME"])
	if facts["os"] == "" {
		set(facts, "os", uname[0])
	}
	cpu := fields(g["cpuinfo"])
	set(facts, iotax.FactCPUModel, cpuModel(cpu, g["devicetree"]))
	n := strings.TrimSpace(g["processors"])
	if c := countList(g["online"]); c > 0 {
		n = strconv.Itoa(c)
	}
	set(facts, iotax.FactCPUCount, n)
	set(facts, iotax.FactCPUGovernor, distinct(g["governor"]))
	switch on := strings.TrimSpace(g["boost"]); {
	case strings.TrimSpace(g["no_turbo"]) == "1", on == "0":
		facts["cpu.turbo"] = "off"
	case strings.TrimSpace(g["no_turbo"]) == "0", on == "1":
		facts["cpu.turbo"] = "on"
	}
	set(facts, "cpu.mitigations", mitigations(g["vulnerabilities"], g["cmdline"]))
	mem := fields(g["meminfo"])
	if kb, err := strconv.ParseUint(strings.TrimSuffix(mem["MemTotal"], " kB"), 10, 53); err == nil {
		setBytes(facts, "memory", kb*1024)
	}
	if kb, err := strconv.ParseUint(strings.TrimSuffix(mem["SwapTotal"], " kB"), 10, 53); err == nil && kb > 0 {
		facts["swap"] = humanize.IBytes(kb * 1024)
	} else if err == nil {
		facts["swap"] = "none"
	}
	set(facts, "clocksource", g["clocksource"])
	set(facts, "hypervisor", hypervisor(g, cpu, uname[1]))
	if c := strings.TrimSpace(g["container"]); c != "none" && c != "wsl" {
		set(facts, "container", c)
	}
	if quota, period, ok := strings.Cut(strings.TrimSpace(g["cpu.max"]), " "); ok && quota != "max" {
		q, err1 := strconv.ParseFloat(quota, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && p > 0 {
			facts[iotax.FactCPULimit] = strconv.FormatFloat(q/p, 'g', 4, 64)
		}
	}
	if limit, err := strconv.ParseUint(strings.TrimSpace(g["memory.max"]), 10, 64); err == nil {
		facts[iotax.FactMemoryLimit] = humanize.IBytes(limit)
	}
	return facts
}

// setBytes stores a size twice: formatted for tables, and exactly in bytes.
func setBytes(facts map[string]string, name string, n uint64) {
	facts[name], facts[name+".bytes"] = humanize.IBytes(n), strconv.FormatUint(n, 10)
}

// cpuModel returns the CPU model. x86 reports it as "model name", POWER as "cpu", RISC-V as "uarch" or "isa". Most ARM
// systems report only codes of the implementer and the part. cpuModel then adds the board from the device tree.
func cpuModel(cpu map[string]string, tree string) string {
	for _, k := range []string{"model name", "cpu", "uarch"} {
		if v := cpu[k]; v != "" {
			return v
		}
	}
	if part := cpu["CPU part"]; part != "" {
		return strings.TrimSpace("ARM implementer " + cpu["CPU implementer"] + " part " + part + " " + strings.Trim(tree, "\x00\n "))
	}
	for _, k := range []string{"Processor", "Hardware", "isa"} {
		if v := cpu[k]; v != "" {
			return v
		}
	}
	return ""
}

// mitigations summarizes /sys/devices/system/cpu/vulnerabilities and the kernel parameter `mitigations`.
func mitigations(vulnerabilities, cmdline string) string {
	var parts []string
	for _, word := range strings.Fields(cmdline) {
		if v, ok := strings.CutPrefix(word, "mitigations="); ok {
			parts = append(parts, "mitigations="+v)
		}
	}
	by := map[string][]string{}
	for line := range strings.Lines(vulnerabilities) {
		name, state, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		switch {
		case strings.HasPrefix(state, "Not affected"):
			by["not affected"] = append(by["not affected"], name)
		case strings.HasPrefix(state, "Mitigation"), strings.Contains(state, "Mitigation:"): // some states start with "KVM:"
			by["mitigated"] = append(by["mitigated"], name)
		case strings.Contains(state, "Vulnerable"), strings.Contains(state, "Processor vulnerable"):
			by["vulnerable"] = append(by["vulnerable"], name)
		default: // such as "Unknown: No mitigations"
			by["unknown"] = append(by["unknown"], name)
		}
	}
	for _, k := range []string{"mitigated", "vulnerable", "unknown"} {
		if len(by[k]) > 0 {
			slices.Sort(by[k])
			parts = append(parts, k+": "+strings.Join(by[k], " "))
		}
	}
	if len(parts) == 0 && len(by) > 0 {
		return "none needed"
	}
	return strings.Join(parts, "; ")
}

// hypervisor identifies the hypervisor of the machine. It returns "none", a name, "unknown" if the CPU reports a
// hypervisor that cannot be identified, or "" if nothing is known.
func hypervisor(g, cpu map[string]string, kernel string) string {
	if strings.Contains(strings.ToLower(kernel), "microsoft") {
		return "wsl"
	}
	if v := strings.TrimSpace(g["virt"]); v != "" && v != "none" {
		return v
	}
	if v := strings.TrimSpace(g["xen"]); v != "" {
		return v
	}
	dmi := strings.TrimSpace(oneLine(g["vendor"]) + " " + oneLine(g["product"]))
	for _, x := range []struct{ word, name string }{
		{"QEMU", "qemu"}, {"KVM", "kvm"}, {"Amazon EC2", "amazon"}, {"VMware", "vmware"}, {"VirtualBox", "oracle"},
		{"Google Compute", "google"}, {"Virtual Machine", "microsoft"}, {"Xen", "xen"}, {"Parallels", "parallels"},
		{"Apple Virtualization", "apple"}, {"OpenStack", "openstack"}, {"BHYVE", "bhyve"},
	} {
		// EC2's bare-metal instances have the same vendor as its virtual machines, but ".metal" in their product, as in
		// "m7i.metal-24xl".
		if strings.Contains(dmi, x.word) && !strings.Contains(dmi, ".metal") {
			return x.name
		}
	}
	// The names of paravirtual clock sources identify the hypervisor.
	clocks := g["clocksources"]
	for _, x := range []struct{ word, name string }{{"kvm-clock", "kvm"}, {"hyperv_clocksource", "microsoft"}, {"xen", "xen"}} {
		if strings.Contains(clocks, x.word) {
			return x.name
		}
	}
	flags, known := cpu["flags"]
	switch {
	case slices.Contains(strings.Fields(flags), "hypervisor"):
		return "unknown"
	case known || strings.TrimSpace(g["virt"]) == "none":
		return "none"
	}
	return ""
}

// lines returns the first n lines of s. Missing lines are empty.
func lines(s string, n int) []string {
	out := make([]string, n)
	for i, l := range strings.SplitN(s, "\n", n+1) {
		if i < n {
			out[i] = strings.TrimSpace(l)
		}
	}
	return out
}

// fields parses lines of the form "key : value". It keeps the first non-empty value of each key.
func fields(s string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(s) {
		k, v, ok := strings.Cut(line, ":")
		if k = strings.TrimSpace(k); ok && m[k] == "" {
			m[k] = strings.TrimSpace(v)
		}
	}
	return m
}

// assignments parses the lines of os-release(5).
func assignments(s string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(s) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			m[k] = strings.Trim(v, `"'`)
		}
	}
	return m
}

// countList counts the numbers in a list in the kernel's format, such as "0-3,8,10-11". It returns 0 if s is malformed.
func countList(s string) int {
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		from, to, ok := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			return 0
		}
		b := a
		if ok {
			if b, err = strconv.Atoi(to); err != nil || b < a {
				return 0
			}
		}
		n += b - a + 1
	}
	return n
}

// distinct joins the distinct lines of s with commas.
func distinct(s string) string {
	seen := map[string]bool{}
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			seen[line] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}
