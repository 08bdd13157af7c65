package check

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/rules"
	"iotax/stat"
)

// Run examines all trials of a run together. It does not check the conditions of a verdict, such as discarded rounds,
// because the report shows them next to the verdict.
func Run(run *iotax.Run, trials []*iotax.Trial) []iotax.Finding {
	if run == nil {
		return nil
	}
	s := sort(run, trials)
	var fs []iotax.Finding
	for _, check := range []func() []iotax.Finding{
		s.sameDevice, s.notMounted, s.facts, s.noisy, s.depth, s.merging, s.plausible, s.hostCache, s.emulated, s.groups,
	} {
		fs = append(fs, check()...)
	}
	for i, f := range fs {
		fs[i].Hint = s.settings(f.Subject).Unfollowed(f.Hint)
	}
	return fs
}

// settings returns the settings of a cell, or of the run, that hints refer to.
func (s *study) settings(of iotax.Subject) rules.Facts {
	f := rules.Facts{}
	rounds := map[int]bool{}
	for i, t := range s.trials {
		if of.Workload == "" || t.Workload == of.Workload {
			rounds[t.Round] = true
		}
		if length := t.Length.String(); i == 0 || length == f["--trial"] {
			f["--trial"] = length
		} else {
			delete(f, "--trial") // trials differ
		}
	}
	f["--rounds"] = strconv.Itoa(len(rounds))
	if noCache(s.info(of.Target).Facts[iotax.FactDiskCache]) {
		f["cache"] = "none"
	}
	return f
}

// study is a run with its trials, grouped by cell.
type study struct {
	run       *iotax.Run
	targets   []string // the baseline is first
	workloads []string
	cells     map[[2]string][]*iotax.Trial // by target and workload
	trials    []*iotax.Trial               // with the invalid ones set aside, as in the report
}

func sort(run *iotax.Run, trials []*iotax.Trial) *study {
	s := &study{run: run, cells: map[[2]string][]*iotax.Trial{}}
	add := func(list *[]string, name string) {
		if name != "" && !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	add(&s.targets, run.Baseline)
	for _, t := range run.Targets {
		add(&s.targets, t.Name)
	}
	for _, w := range run.Workloads {
		add(&s.workloads, w.Name)
	}
	s.trials = stat.SetAside(slices.DeleteFunc(slices.Clone(trials), func(t *iotax.Trial) bool { return t == nil }))
	for _, t := range s.trials { // imported trials have no plan
		add(&s.targets, t.Target)
		add(&s.workloads, t.Workload)
		c := [2]string{t.Target, t.Workload}
		s.cells[c] = append(s.cells[c], t)
	}
	return s
}

func (s *study) info(target string) iotax.TargetInfo {
	for _, t := range s.run.Targets {
		if t.Name == target {
			return t
		}
	}
	return iotax.TargetInfo{Name: target}
}

func (s *study) others() []string {
	return slices.DeleteFunc(slices.Clone(s.targets), func(t string) bool { return t == s.run.Baseline })
}

// reference returns the target that a target is compared with in a workload, or "".
func (s *study) reference(target, workload string) string {
	return s.info(target).Reference(s.run.BaselineOf(workload), func(name string) bool { return len(s.cells[[2]string{name, workload}]) > 0 })
}

// metric returns the headline metric of a workload.
func (s *study) metric(workload string) string {
	for _, w := range s.run.Workloads {
		if w.Name == workload && len(w.Metrics) > 0 {
			return w.Metrics[0]
		}
	}
	return ""
}

// good returns the valid trials of a cell.
func (s *study) good(target, workload string) []*iotax.Trial {
	return slices.DeleteFunc(slices.Clone(s.cells[[2]string{target, workload}]), func(t *iotax.Trial) bool {
		return t.Err != "" || t.Discarded != ""
	})
}

// reported reports whether a valid trial of the cell has a finding of that rule with severity Invalid.
func (s *study) reported(target, workload, rule string) bool {
	for _, t := range s.good(target, workload) {
		for _, f := range t.Findings {
			if f.Rule == rule && f.Severity == iotax.Invalid {
				return true
			}
		}
	}
	return false
}

// sameDevice finds targets with different directories or devices that share one device of a machine. It skips a target
// that is based on another target, because these two share a device by design.
func (s *study) sameDevice() []iotax.Finding {
	type device struct{ machine, name string }
	all, order := map[device][]iotax.TargetInfo{}, []device{}
	for _, t := range s.run.Targets {
		d := device{t.Machine, t.Device()}
		if d.name == "" || t.Facts["of"] != "" || slices.ContainsFunc(all[d], func(o iotax.TargetInfo) bool { return named(o) == named(t) }) {
			continue
		}
		if all[d] == nil {
			order = append(order, d)
		}
		all[d] = append(all[d], t)
	}
	var fs []iotax.Finding
	for _, d := range order {
		var names []string
		rule := rules.SameDevice
		if !slices.ContainsFunc(all[d], s.ownMount) {
			rule = rules.SameDevice.As(iotax.Info)
		}
		for _, t := range all[d] {
			names = append(names, fmt.Sprintf("%s (%s)", t.Name, t.Storage()))
			if t.Storage() != all[d][0].Storage() {
				rule = rules.SameDevice.As(iotax.Info)
			}
		}
		if len(names) > 1 {
			fs = append(fs, rule.Found(iotax.AboutRun(), "%s lie on %s of %s", strings.Join(names, ", "), d.name, d.machine))
		}
	}
	return fs
}

// named returns the directory or device as the plan names it. For a directory, it leaves out the subdirectory that
// iotax created there.
func named(t iotax.TargetInfo) string {
	if strings.HasPrefix(path.Base(t.Place), "iotax-") {
		return path.Dir(t.Place)
	}
	return t.Place
}

// mountBases are directories below which disks are usually mounted.
var mountBases = []string{"/mnt", "/media", "/run/media", "/Volumes"}

func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// ownMount reports whether the user probably expects a separate disk, because the directory is a mount point,
// /etc/fstab lists a mount point for it, or its path suggests one. In a container it returns false, because there every
// volume is a mount point.
func (s *study) ownMount(t iotax.TargetInfo) bool {
	container := t.Facts["machine.container"]
	if t.Machine == "host" {
		container = cmp.Or(container, s.run.Environment[iotax.FactContainer])
	}
	dir := named(t)
	return container == "" && (dir == t.Facts[iotax.FactFilesystemMount] || t.Facts[iotax.FactFilesystemUnmounted] != "" ||
		slices.ContainsFunc(append([]string{"/srv"}, mountBases...), func(base string) bool { return below(dir, base) }))
}

// notMounted finds targets whose directory should be on a mounted disk, but nothing is mounted there.
func (s *study) notMounted() []iotax.Finding {
	var fs []iotax.Finding
	for _, t := range s.run.Targets {
		dir, mount := named(t), t.Facts[iotax.FactFilesystemMount]
		if mount == "" {
			continue
		}
		why := ""
		if point := t.Facts[iotax.FactFilesystemUnmounted]; point != "" {
			why = point + " is in /etc/fstab"
		} else if i := slices.IndexFunc(mountBases, func(base string) bool { return below(dir, base) && !below(mount, base) }); i >= 0 {
			why = "disks are mounted below " + mountBases[i]
		}
		if why != "" {
			fs = append(fs, rules.NotMounted.Found(iotax.AboutTarget(t.Name), "%s lies on %s, mounted on %s: %s, but nothing is mounted at %s", t.Name, t.Storage(), mount, why, cmp.Or(t.Facts[iotax.FactFilesystemUnmounted], dir)))
		}
	}
	return fs
}

// facts finds compared facts that differ between the trials of a workload and are not varied by a label.
func (s *study) facts() []iotax.Finding {
	var fs []iotax.Finding
	seen := map[string]bool{} // findings so far; a difference of the fio version occurs in every workload
	for _, w := range s.workloads {
		for _, key := range comparedFacts {
			if s.reportedOfRun(firstReported[key]) {
				continue
			}
			var values, places []string
			label := false
			for _, t := range s.targets {
				for _, x := range s.good(t, w) {
					_, named := x.Labels[key]
					label = label || named
					if v, ok := x.Facts[key]; ok && !slices.Contains(values, v) && !(key == iotax.FactIOEngine && v == engineNBD) {
						values = append(values, v)
						places = append(places, fmt.Sprintf("%s on %s", v, t))
					}
				}
			}
			text := key + " is " + strings.Join(places, ", ")
			if len(values) > 1 && !label && !seen[text] {
				seen[text] = true
				fs = append(fs, rules.UnlikeFacts.Found(iotax.AboutRun(), "%s", text))
			}
		}
	}
	return fs
}

// engineNBD is fio's only engine for NBD exports and supports nothing else, so comparing it with another engine is
// intended.
const engineNBD = "nbd"

// firstReported maps a fact to the rule under which the fio workload reports differences before the first trial.
var firstReported = map[string]string{iotax.FactFio: rules.FioVersionDiffers.ID, iotax.FactIOEngine: rules.EngineDiffers.ID}

func (s *study) reportedOfRun(rule string) bool {
	return slices.ContainsFunc(s.run.Findings, func(f iotax.Finding) bool { return f.Rule == rule })
}

func (s *study) noisy() []iotax.Finding {
	var fs []iotax.Finding
	for _, w := range s.workloads {
		logs := s.logs(s.run.Baseline, w)
		if sd := stat.Spread(logs); sd > stat.NoisySpread {
			fs = append(fs, rules.NoisyBaseline.Found(iotax.AboutCell(s.run.Baseline, w), "%s: %d trials of %s vary by %s", w, len(logs), s.run.Baseline, rules.Percent(sd)))
		}
	}
	return fs
}

func (s *study) depth() []iotax.Finding {
	reached := func(target, workload string) float64 {
		var ds []float64
		for _, t := range s.good(target, workload) {
			if r := (reading{t: t}); r.limited() { // the rate limits the number of I/Os in flight
				return math.NaN()
			} else if d := r.reached(); d > 0 && !slices.ContainsFunc(t.Findings, func(f iotax.Finding) bool { return f.Rule == rules.DrainCounted.ID }) {
				ds = append(ds, d)
			}
		}
		return stat.Median(ds).Estimate
	}
	var fs []iotax.Finding
	for _, w := range s.workloads {
		for _, t := range s.others() {
			of := s.reference(t, w)
			base := reached(of, w)
			if d := reached(t, w); d > base*depthUnlike || d < base/depthUnlike { // false if a value is NaN
				fs = append(fs, rules.UnlikeDepth.Found(iotax.AboutCell(t, w), "%s: %s in flight on %s, %s on %s", w, rules.Number(d), t, rules.Number(base), of))
			}
		}
	}
	return fs
}

// merging compares the mean I/O sizes of the targets at the device.
func (s *study) merging() []iotax.Finding {
	size := func(target, workload, direction string) float64 {
		var bytes, ios, done float64
		for _, t := range s.good(target, workload) {
			r := reading{t: t}
			b, ok1 := r.value("device." + direction + ".bytes")
			n, ok2 := r.value("device." + direction + ".ios")
			if ok1 && ok2 && r.did(direction) {
				w, _ := r.value(direction + ".bytes")
				bytes, ios, done = bytes+b, ios+n, done+w*(1+r.rampShare())
			}
		}
		// With few I/Os, single metadata blocks dominate the mean. If the bytes differ from those of the workload,
		// another process, read-ahead or a cache changed the I/O at the device.
		if ios < 100 || math.Abs(bytes/done-1) > 0.2 {
			return math.NaN()
		}
		return bytes / ios
	}
	var fs []iotax.Finding
	for _, w := range s.workloads {
		if strings.HasSuffix(s.metric(w), ".bandwidth") {
			continue // merging does not change bandwidth
		}
		for _, d := range []string{"read", "write"} {
			for _, t := range s.others() {
				of := s.reference(t, w)
				base := size(of, w, d)
				if x := size(t, w, d); x > base*mergeUnlike || x < base/mergeUnlike {
					fs = append(fs, rules.UnlikeMerging.Found(iotax.AboutCell(t, w), "%s: a %s at the device has %s under %s, %s under %s",
						w, d, rules.Bytes(x), t, rules.Bytes(base), of))
				}
			}
		}
	}
	return fs
}

// plausible finds guests that are faster than their host.
func (s *study) plausible() []iotax.Finding {
	var fs []iotax.Finding
	for _, w := range s.workloads {
		metric := s.metric(w)
		for _, t := range s.others() {
			if !s.standsOnBaseline(t) || s.reported(t, w, rules.CacheServed.ID) || s.reported(t, w, rules.WriteAbsorbed.ID) {
				continue
			}
			base, other, better := stat.Pairs(s.trials, w, metric, s.run.Baseline, t)
			ratio, err := stat.Ratio(base, other, better, 1-stat.Confidence)
			if err != nil || !ratio.Bounded() || ratio.Lo <= 1+s.run.Margin {
				continue
			}
			fs = append(fs, rules.GuestBeatsHost.Found(iotax.AboutCell(t, w), "%s: %s of %s is %s times that of %s (%s to %s)",
				w, metric, t, rules.Number(ratio.Estimate), s.run.Baseline, rules.Number(ratio.Lo), rules.Number(ratio.Hi)))
		}
	}
	return fs
}

// standsOnBaseline reports whether the target is a guest's disk or share that is based on the baseline.
func (s *study) standsOnBaseline(target string) bool {
	f := s.info(target).Facts
	if f[iotax.FactDiskBus] == "" && f[iotax.FactShareType] == "" {
		return false
	}
	return f["of"] == s.run.Baseline
}

func (s *study) hostCache() []iotax.Finding {
	var names []string
	for _, t := range s.targets {
		f := s.info(t).Facts
		switch f[iotax.FactDiskCache] {
		case "writeback", "writethrough", "unsafe":
			names = append(names, fmt.Sprintf("%s (cache=%s)", t, f[iotax.FactDiskCache]))
		}
		if f[iotax.FactShareType] != "" && f[iotax.FactHostDirect] == "no" {
			names = append(names, fmt.Sprintf("%s (%s)", t, f[iotax.FactShareType]))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []iotax.Finding{rules.HostCache.Found(iotax.AboutRun(), "%s", strings.Join(names, ", "))}
}

func (s *study) emulated() []iotax.Finding {
	var names []string
	for _, t := range s.targets {
		if s.info(t).Emulated() {
			names = append(names, t)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []iotax.Finding{rules.Emulated.Found(iotax.AboutRun(), "%s", strings.Join(names, ", "))}
}
