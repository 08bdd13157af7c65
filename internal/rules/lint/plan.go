package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/rules"
)

// planRules check where the I/O goes: the targets of a plan, and the paths in a job.
var planRules = []rule{
	{Rule: rules.GuestDiskCache, plan: guestDiskCache},
	{Rule: rules.MemoryTarget, job: memoryJob, plan: memoryTarget},
}

// A planView is a plan with the fio jobs of its workloads.
type planView struct {
	*plan.Plan
	jobs []*job
}

func guestDiskCache(p *planView, r *report) {
	for _, t := range p.Targets {
		cache := t.Value("cache")
		if t.Kind != "disk" || t.Name == p.Baseline {
			continue
		}
		switch {
		case cache == "unsafe" && slices.ContainsFunc(p.jobs, (*job).writes):
			r.on(t.Where("cache"), r.rule.Severity, "%s has cache=unsafe: its flushes are acknowledged and not done, those of %s are", t.Name, p.Baseline)
			r.hint("use `cache: none` (or directsync)") // the rule's hint offers direct: 0, but QEMU would not flush
		case (cache == "unsafe" || cache == "writeback" || cache == "writethrough") && slices.ContainsFunc(p.jobs, (*job).direct) && p.baselineDirect():
			r.on(t.Where("cache"), r.rule.Severity, "%s has cache=%s: direct I/O in the guest comes from the host's page cache, that of %s does not", t.Name, cache, p.Baseline)
		}
	}
}

// baselineDirect reports whether direct I/O on the baseline reaches the device.
func (p *planView) baselineDirect() bool {
	for _, t := range p.Targets {
		if t.Name == p.Baseline {
			return t.Kind == "dir" || t.Kind == "device" || t.Value("cache") == "none" || t.Value("cache") == "directsync"
		}
	}
	return false
}

func memoryTarget(p *planView, r *report) {
	for _, t := range p.Targets {
		if path := t.Value("path"); t.Kind == "dir" && inMemory(path) {
			r.on(t.Where("path"), r.rule.Severity, "%s is %s, which is memory", t.Name, path)
		}
	}
}

// inMemory reports whether a path is in a memory file system on Linux. Disks may be mounted below /run/media.
func inMemory(path string) bool {
	return slices.ContainsFunc([]string{"/dev/shm", "/run"}, func(m string) bool {
		return (path == m || strings.HasPrefix(path, m+"/")) && !strings.HasPrefix(path, "/run/media/")
	})
}

// memoryJob implements memory-target for a job.
func memoryJob(j *job, r *report) {
	if system := j.system(r.facts); system != "" && system != "linux" || !j.onFiles(r.facts) {
		return
	}
	for _, key := range []string{"filename", "directory"} {
		s, _ := j.get(key)
		for _, path := range split(s.value) {
			if inMemory(path) {
				r.at(j, s, "%s is memory", path)
			}
		}
	}
}

// shortTrials implements short-run for a plan.
func shortTrials(p *planView, r *report) {
	reported := false
	for _, w := range p.Workloads {
		d := p.Measure.Length(w)
		switch {
		case w.Assumed > 0 || w.Value("by_size") == "true": // w ends by itself
		case d <= 0 || d >= quickLook:
		case time.Duration(p.Measure.Trial) >= quickLook:
			r.on(w.Where("times"), r.rule.Severity, "trials of %s", rules.Time(d))
			r.hint("use a larger `times`")
		case !reported:
			reported = true
			r.on(p.Where("trial"), r.rule.Severity, "trials of %s", rules.Time(d))
			r.hint("%s", schedule.Workable(p.Plan, "give trials of 10 s or more (`--trial 10s`)"))
		}
	}
}

// on adds a finding at a position in a plan.
func (r *report) on(m plan.Mark, severity iotax.Severity, format string, args ...any) {
	r.hits = append(r.hits, hit{at: marked(m), severity: severity, evidence: fmt.Sprintf(format, args...), hint: r.rule.Hint})
}

func marked(m plan.Mark) position {
	file := m.File
	if m.Word != "" {
		file = m.Word
	}
	return position{file: file, source: m.Source, line: m.Line, column: m.Column, width: m.Width}
}

// Plan finds mistakes in a plan and its jobs.
func Plan(p *plan.Plan, facts Facts) []Finding {
	v := &planView{Plan: p}
	for _, w := range p.Workloads {
		if w.Kind == "fio" {
			v.jobs = append(v.jobs, planJobs(w)...)
		}
	}
	out := lint(v.jobs, nil, rules.Plan, facts)
	for _, rule := range checks() {
		if rule.plan != nil {
			r := &report{rule: rule, facts: facts}
			rule.plan(v, r)
			out = append(out, r.findings(0)...)
		}
	}
	return sorted(out)
}

// reportedByRuns lists the rules whose findings about a plan ForRun omits. The trials or the report of a run show the
// same mistakes with the rules short-trial, depth-of-sync-engine and durability-differs.
var reportedByRuns = []string{rules.ShortRun.ID, rules.DepthOfSyncEngine.ID, rules.MemoryTarget.ID}

// ForRun returns the findings about a plan that belong in the report of its run.
func ForRun(findings []Finding) []iotax.Finding {
	var out []iotax.Finding
	for _, f := range findings {
		if !slices.Contains(reportedByRuns, f.Rule) {
			f.Subject = iotax.AboutRun()
			out = append(out, f.Finding)
		}
	}
	return out
}

// BadPlan converts the errors of plan.Parse into findings.
func BadPlan(errs plan.Errors) []Finding {
	var out []Finding
	for _, e := range errs {
		r := &report{rule: rule{Rule: rules.NotAPlan}}
		file := e.Pos.File
		if e.Word != "" {
			file = e.Word
		}
		r.hits = append(r.hits, hit{at: position{file: file, source: e.Source, line: e.Pos.Line, column: e.Column, width: e.Width},
			severity: rules.NotAPlan.Severity, evidence: e.Msg, hint: cmp.Or(e.Hint, rules.NotAPlan.Hint)})
		out = append(out, r.findings(0)...)
	}
	return out
}

// planJobs returns the jobs of a workload. It returns several jobs if the workload runs them jointly.
func planJobs(w plan.Workload) []*job {
	text := w.Value("command")
	if text == "" {
		return []*job{planJob(w, nil)}
	}
	c, err := fio.ParseCommand(text)
	if err != nil {
		return []*job{planJob(w, nil)}
	}
	var out []*job
	for _, spec := range c.Jobs() {
		out = append(out, planJob(w, spec.Settings))
	}
	return out
}

// planJob returns one job of a workload. The keys of the plan override the options of the job file or command. Findings
// about the latter point to the file or command in the plan.
func planJob(w plan.Workload, written []fio.Setting) *job {
	sized := w.Value("by_size") == "true"
	j := &job{name: w.Name, set: map[string]setting{}, ours: true, sized: sized}
	j.head = setting{at: marked(w.Where(""))}
	at := w.Where("file")
	if at == w.Where("") { // the plan does not set the file
		at = w.Where("command")
	}
	for _, s := range written {
		if k := fio.Canonical(s.Key); k == "filename" || k == "directory" {
			continue // the target determines the files
		}
		j.add(setting{key: fio.Canonical(s.Key), value: s.Value, bare: s.Bare, base: kbBase(s), at: marked(at)})
	}
	if takes := w.Traits().Options; takes != nil && takes.Scaled != nil {
		for _, o := range takes.Scaled() {
			j.add(setting{key: fio.Canonical(o.Key), value: o.Value, bare: o.Value == "", at: marked(w.Where(o.Key))})
		}
	}
	return j
}
