package doctor

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"iotax"
	"iotax/internal/probe"
)

// read returns the text of a file of the system, or "" if it cannot be read.
func (e *examiner) read(name string) string {
	b, _ := os.ReadFile(e.path(name))
	return strings.TrimSpace(string(b))
}

func (e *examiner) ioUring(context.Context) Check {
	switch e.read("proc/sys/kernel/io_uring_disabled") {
	case "0":
		return Check{Status: OK, Detail: "allowed for all"}
	case "1":
		c := Check{Status: OK, Detail: "allowed for root and one group"}
		if os.Geteuid() != 0 {
			c.Status, c.Hint = Warn, "run as root, or `sysctl kernel.io_uring_disabled=0`"
		}
		return c
	case "2":
		return Check{Status: Warn, Detail: "disabled on this host", Hint: "`sysctl kernel.io_uring_disabled=0`; else libaio is used"}
	}
	return Check{} // Linux before 6.6 does not have this file; the check of fio engines still tries io_uring
}

// Free space in bytes. With less than spaceNeeded, the check fails. spaceAdvice is enough for a small run: a guest's
// kernel and initramfs, and test files of 1 GiB for some targets.
const (
	spaceNeeded = 1 << 30
	spaceAdvice = 4 << 30
)

func (e *examiner) space(dir string) func(context.Context) Check {
	if dir == "" {
		return nil
	}
	return func(context.Context) Check {
		// If the directory does not exist yet, check its nearest existing parent.
		at := dir
		for {
			if _, err := os.Stat(at); err == nil || filepath.Dir(at) == at {
				break
			}
			at = filepath.Dir(at)
		}
		free, err := freeBytes(at)
		if err != nil {
			return Check{Status: Warn, Detail: dir + ": " + err.Error()}
		}
		return judgeSpace(dir, free)
	}
}

func judgeSpace(dir string, free uint64) Check {
	c := Check{Status: OK, Detail: humanize.IBytes(free) + " free at " + dir}
	switch {
	case free < spaceNeeded:
		c.Status, c.Hint = Missing, "free at least "+humanize.IBytes(spaceNeeded)
	case free < spaceAdvice:
		c.Status, c.Hint = Warn, "free some, or measure with a smaller --size"
	}
	return c
}

// stageClocks reports which block devices record request times for run --explain.
func (e *examiner) stageClocks(context.Context) Check {
	if runtime.GOOS != "linux" {
		return Check{Status: Warn, Detail: "run --explain needs Linux"}
	}
	devices := probe.Counting(e.TempDir)
	if devices == nil {
		return Check{Status: Warn, Detail: "no block device below " + e.TempDir + " counts the times of its requests, so run --explain does not know the device's part",
			Hint: "measure on a disk; `cat /sys/block/*/queue/iostats` shows 0 where counting is off"}
	}
	return Check{Status: OK, Detail: strings.Join(devices, " ") + " counts the times of its requests"}
}

func (e *examiner) memory(context.Context) Check {
	mem := meminfo(e.read("proc/meminfo"))
	free, ok := mem["MemAvailable"]
	if !ok {
		return Check{}
	}
	c := Check{Status: OK, Detail: fmt.Sprintf("%s available of %s", humanize.IBytes(free), humanize.IBytes(mem["MemTotal"]))}
	if free < 1<<30 {
		c.Status, c.Hint = Warn, "end other programs: a guest takes 1 GiB by default (memory: 256MiB)"
	}
	return c
}

// meminfo parses /proc/meminfo and returns its values in bytes.
func meminfo(text string) map[string]uint64 {
	m := map[string]uint64{}
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 53)
		if ok && err == nil {
			m[k] = n * 1024
		}
	}
	return m
}

// openFiles checks the soft limit that fio gets. The Go runtime raises the soft limit of this process, but restores the
// original limit in child processes.
func (e *examiner) openFiles(ctx context.Context) Check {
	out, _, err := e.output(ctx, "cat", "/proc/self/limits")
	m := openFilesLine.FindStringSubmatch(out)
	if err != nil || m == nil {
		return Check{} // not Linux
	}
	soft, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		soft = math.MaxUint64 // unlimited
	}
	c := Check{Status: OK, Detail: limitText(soft, "")}
	if soft < 1024 {
		c.Status, c.Hint = Warn, "`ulimit -n 4096`: many jobs on many files need more"
	}
	return c
}

var openFilesLine = regexp.MustCompile(`(?m)^Max open files +(\S+)`)

func (e *examiner) lockedMemory(context.Context) Check {
	soft, ok := lockedMemoryLimit()
	if !ok {
		return Check{}
	}
	c := Check{Status: OK, Detail: limitText(soft, "B")}
	// Before Linux 5.12, io_uring rings count as locked memory. Registered buffers always do.
	if soft < 1<<20 && os.Geteuid() != 0 {
		c.Status, c.Hint = Warn, "`ulimit -l unlimited`, or LimitMEMLOCK=infinity: io_uring with registered buffers fails"
	}
	return c
}

func limitText(n uint64, unit string) string {
	switch {
	case n >= 1<<62: // RLIM_INFINITY differs between systems, but is always at least this large
		return "unlimited"
	case unit == "B":
		return humanize.IBytes(n)
	}
	return strconv.FormatUint(n, 10)
}

func (e *examiner) dropCaches(ctx context.Context) Check {
	const hint = "run as root, or allow `sudo -n`; else measure with --warm"
	switch runtime.GOOS {
	case "linux":
		f, err := os.OpenFile(e.path("proc/sys/vm/drop_caches"), os.O_WRONLY, 0)
		if err == nil {
			f.Close()
			return Check{Status: OK, Detail: "permitted"}
		}
		if os.IsNotExist(err) {
			return Check{Status: Warn, Detail: "this kernel has no drop_caches", Hint: "measure with --warm"}
		}
	case "windows":
		return Check{}
	}
	if err := e.Host.Run(ctx, iotax.Command("sudo", "-n", "true")); err == nil {
		return Check{Status: OK, Detail: "permitted by sudo"}
	}
	return Check{Status: Warn, Detail: "not permitted: reads would come from caches", Hint: hint}
}

func (e *examiner) governor(context.Context) Check {
	files, _ := filepath.Glob(e.path("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
	if len(files) == 0 {
		return Check{} // a guest, or a CPU whose frequency the kernel does not scale
	}
	var names []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			names = append(names, strings.TrimSpace(string(b)))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	c := Check{Status: OK, Detail: strings.Join(names, ", ")}
	if c.Detail != "performance" {
		c.Status, c.Hint = Warn, "`cpupower frequency-set -g performance`: the clock follows the load, and latencies with it"
	}
	return c
}

// turbo never warns, because turbo affects all targets of interleaved rounds alike.
func (e *examiner) turbo(context.Context) Check {
	boost, none := e.read("sys/devices/system/cpu/cpufreq/boost"), e.read("sys/devices/system/cpu/intel_pstate/no_turbo")
	switch {
	case boost == "1", none == "0":
		return Check{Status: OK, Detail: "on: the clock varies with temperature and neighbours"}
	case boost == "0", none == "1":
		return Check{Status: OK, Detail: "off"}
	}
	return Check{}
}

func (e *examiner) clockSource(context.Context) Check {
	s := e.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
	switch s {
	case "":
		return Check{}
	case "hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies":
		return Check{Status: Warn, Detail: s + ": reading the clock takes microseconds, which fio does twice for each I/O",
			Hint: "see `dmesg | grep -i clocksource` for why the CPU's own counter was given up"}
	}
	return Check{Status: OK, Detail: s}
}

func (e *examiner) swap(context.Context) Check {
	mem := meminfo(e.read("proc/meminfo"))
	total, ok := mem["SwapTotal"]
	if !ok {
		return Check{}
	}
	used := total - min(total, mem["SwapFree"])
	switch {
	case total == 0:
		return Check{Status: OK, Detail: "none"}
	case used > 64<<20:
		return Check{Status: Warn, Detail: fmt.Sprintf("%s of %s in use: swapping adds I/O of its own", humanize.IBytes(used), humanize.IBytes(total)), Hint: "end other programs, or `swapoff -a` for the time of the run"}
	}
	return Check{Status: OK, Detail: humanize.IBytes(total) + ", not in use"}
}

func (e *examiner) load(context.Context) Check {
	return judgeLoad(e.read("proc/loadavg"), runtime.NumCPU())
}

func judgeLoad(loadavg string, cpus int) Check {
	one, _, _ := strings.Cut(loadavg, " ")
	n, err := strconv.ParseFloat(one, 64)
	if err != nil {
		return Check{}
	}
	c := Check{Status: OK, Detail: fmt.Sprintf("%.2g on %d CPUs", n, cpus)}
	// If other work uses more than half of the CPUs, too few remain for a load generator, a guest and its helpers.
	if n > float64(cpus)/2 {
		c.Status, c.Hint = Warn, "wait until the host is idle: other work takes CPU and I/O from all targets, and intervals get wide"
	}
	return c
}

func (e *examiner) virtualisation(ctx context.Context) Check {
	facts, err := e.facts()
	if err != nil {
		return failed(ctx, Warn, err, "")
	}
	return judgeVirtualisation(facts)
}

func judgeVirtualisation(facts map[string]string) Check {
	var in []string
	switch h := facts["hypervisor"]; h {
	case "", "none":
	case "unknown":
		in = append(in, "a virtual machine")
	default:
		in = append(in, "a virtual machine ("+h+")")
	}
	if c := facts[iotax.FactContainer]; c != "" {
		in = append(in, "a container ("+c+")")
	}
	switch {
	case len(in) > 0:
		return Check{Status: Warn, Detail: "this host is itself " + strings.Join(in, " and ") + ": neighbours share its disk and CPU, and guests are nested",
			Hint: "for figures to publish, measure on bare metal; comparisons within a run stay fair"}
	case facts["hypervisor"] == "none":
		return Check{Status: OK, Detail: "none"}
	}
	return Check{}
}
