package report

import (
	"fmt"
	"slices"
	"strings"

	"iotax/report/format"
	"iotax/stat"
)

// environmentLine names what a reader asks first: kernel, CPU, load generator, accelerator.
func (r *Report) environmentLine() string {
	var parts []string
	add := func(label string, m map[string]string, keys ...string) bool {
		for _, k := range keys {
			if v := strings.TrimSpace(m[k]); v != "" {
				if label != "" && !strings.HasPrefix(strings.ToLower(v), strings.ToLower(label)) {
					v = label + " " + v
				}
				if !slices.Contains(parts, v) {
					parts = append(parts, v)
				}
				return true
			}
		}
		return false
	}
	env := r.Run.Environment
	add("Linux", env, "kernel", "kernel.release", "os.kernel", "uname")
	if cpu := cmpOr(env, "cpu", "cpu.model", "processor"); cpu != "" {
		if n := cmpOr(env, "cpus", "cpu.count", "cpu.cores"); n != "" {
			cpu += " × " + n
		}
		parts = append(parts, cpu)
	}
	add("", env, "memory")
	if !add("fio", env, "fio", "fio.version") {
		fio := false
		for _, t := range r.Trials {
			if fio = add("fio", t.Facts, "fio", "fio.version", "generator"); fio {
				break
			}
		}
		for _, t := range r.Run.Targets {
			if fio {
				break
			}
			fio = add("fio", t.Facts, "fio", "fio.version", "generator", "machine.fio")
		}
	}
	for _, t := range r.Run.Targets {
		version, accel := cmpOr(t.Facts, "qemu.version", "qemu", "machine.qemu"), cmpOr(t.Facts, "qemu.accel", "accel", "acceleration", "qemu.acceleration", "machine.accel")
		if version == "" && accel == "" {
			continue
		}
		s := version
		if !strings.HasPrefix(strings.ToUpper(s), "QEMU") {
			s = strings.TrimSpace("QEMU " + s)
		}
		if accel != "" {
			s += " (" + accel + ")"
		}
		if !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}

func cmpOr(m map[string]string, keys ...string) string {
	for _, k := range keys {
		if v := strings.TrimSpace(m[k]); v != "" {
			return v
		}
	}
	return ""
}

// counted is what a workload was measured in. Imported trials are in no blocks.
func (r *Report) counted() string {
	if r.Run.Imported() {
		return "trial"
	}
	return "block"
}

// protocolLine says how it was measured.
func (r *Report) protocolLine() string {
	p := r.Protocol
	if r.Run.Imported() {
		return format.Plural(len(r.Trials), "imported trial") + ", not measured in turns"
	}
	var parts []string
	switch {
	case p.LeastBlocks == p.MostBlocks:
		parts = append(parts, format.Plural(p.MostBlocks, "block")+" per workload")
	default:
		parts = append(parts, fmt.Sprintf("%d–%d blocks per workload", p.LeastBlocks, p.MostBlocks))
	}
	if p.Trial > 0 {
		s := "trials of " + p.Trial.String()
		if p.Ramp > 0 {
			s += " after " + p.Ramp.String() + " ramp"
		}
		parts = append(parts, s)
	}
	switch {
	case p.Cold && p.Warm:
		parts = append(parts, "cold and warm caches")
	case p.Cold:
		parts = append(parts, "cold caches")
	case p.Warm:
		parts = append(parts, "warm caches")
	}
	return strings.Join(append(parts, fmt.Sprintf("seed %d", p.Seed)), ", ")
}

// methodLine says what the brackets mean.
func (r *Report) methodLine() string {
	s := fmt.Sprintf("Brackets are 95 %% intervals; a ratio above 1 is in the target's favour; margin ± %s.", format.Percent(r.Margin))
	if n := r.Protocol.Comparisons; n > 1 {
		s += fmt.Sprintf(" Of %d ratio intervals about %.1f may miss; worse and better allow for that (Holm).", n, float64(n)*(1-stat.Confidence))
	}
	return s
}
