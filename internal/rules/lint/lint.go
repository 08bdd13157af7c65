// Package lint finds mistakes in plans and fio jobs (job files, command lines, results of fio) that make a comparison
// wrong. It does no I/O itself: Facts describes the machine.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/fio"
	"iotax/internal/rules"
)

// A rule is a rule of the registry with the functions that detect the mistake.
type rule struct {
	rules.Rule

	job  func(*job, *report)   // examines one job; not called for a plan if plan is set, nor for a result if result is set
	file func([]*job, *report) // examines all jobs of a file
	sect func(*job, *report)   // examines the options that one section, including [global], sets itself
	plan func(*planView, *report)
	// absent means that the rule assumes fio's default for a missing option. The rule then skips jobs with only partly
	// known options.
	absent bool

	result func(*fio.Job, *job, *report) // examines a job of a result
}

// checks returns the rules that have functions, in the order of the docs.
func checks() []rule {
	return slices.Concat(fileRules, depthRules, cacheRules, lengthRules, dataRules, optionRules, planRules, resultRules)
}

// Facts describes the machine that will run the jobs. If a fact is unknown, the rules that need it report a condition
// ("if …") or nothing.
type Facts struct {
	Memory  int64    // bytes; 0 if unknown
	OS      string   // as in runtime.GOOS; "" if unknown
	Version string   // version of fio, such as "fio-3.33"; "" if unknown
	Options []string // options that this fio lists; nil if unknown
	Engines []string // engines that this fio lists; nil if unknown

	// Holds describes the contents of a block device that writes would destroy ("mounted on /srv", "an ext4 file
	// system"), or returns "". It is nil if devices cannot be examined.
	Holds func(device string) string
	// Written returns the share of a file's bytes that have been written to storage. ok is false if that is unknown.
	// Written is nil if files cannot be examined.
	Written func(path string) (share float64, ok bool)
}

// on returns the facts about a job that runs on this system. A machine with another system is not the one that f
// describes.
func (f Facts) on(system string) Facts {
	switch f.OS {
	case system:
		return f
	case "":
		f.OS = system
		return f
	}
	return Facts{OS: system}
}

// A Finding is an iotax.Finding with its source line.
type Finding struct {
	iotax.Finding
	Source string // the line or the whole command; "" if none
	Width  int    // number of characters from Column
}

// A position is a range in a line of text. The zero position means no position.
type position struct {
	file, source        string
	line, column, width int
}

type report struct {
	rule  rule
	facts Facts
	hits  []hit
}

// A hit is one finding, before `findings` merges equal ones.
type hit struct {
	at       position
	severity iotax.Severity
	evidence string
	hint     string
	job      string // "" if the evidence does not need the name
}

// at adds a finding about a job at the position of a setting.
func (r *report) at(j *job, s setting, format string, args ...any) {
	r.as(r.rule.Severity, j, s, format, args...)
}

func (r *report) as(severity iotax.Severity, j *job, s setting, format string, args ...any) {
	h := hit{at: s.at, severity: severity, evidence: fmt.Sprintf(format, args...), hint: r.rule.Hint, job: j.name}
	if s.key == "" && s.at.line > 0 {
		h.job = "" // the header line shows the name
	}
	r.hits = append(r.hits, h)
}

// hint replaces the hint of the last finding.
func (r *report) hint(format string, args ...any) {
	r.hits[len(r.hits)-1].hint = fmt.Sprintf(format, args...)
}

// named is the number of job names that a finding lists if it is about more than named+1 jobs, but not about all jobs.
const named = 3

// findings merges equal findings at the same position about several jobs, because an option in [global] is one
// mistake. jobs is the total number of jobs.
func (r *report) findings(jobs int) []Finding {
	type key struct {
		at       position
		severity iotax.Severity
		evidence string
	}
	var order []key
	at := map[key][]hit{}
	for _, h := range r.hits {
		k := key{h.at, h.severity, h.evidence}
		if at[k] == nil {
			order = append(order, k)
		}
		at[k] = append(at[k], h)
	}
	var out []Finding
	for _, k := range order {
		hits := at[k]
		var names []string
		for _, h := range hits {
			if h.job != "" && !slices.Contains(names, h.job) {
				names = append(names, h.job)
			}
		}
		evidence := k.evidence
		switch n := len(names); {
		case jobs < 2 || n == 0:
		case n == jobs && n == 2:
			evidence += " (both jobs)"
		case n == jobs:
			evidence += fmt.Sprintf(" (all %d jobs)", n)
		case n > named+1:
			evidence += fmt.Sprintf(" (%s and %d more)", strings.Join(names[:named], ", "), n-named)
		default:
			evidence += " (" + strings.Join(names, ", ") + ")"
		}
		f := Finding{Finding: r.rule.As(k.severity).Hinting(hits[0].hint).Found(iotax.Subject{Kind: iotax.SubjectText}, "%s", evidence),
			Source: k.at.source, Width: k.at.width}
		f.File, f.Line, f.Column = k.at.file, k.at.line, k.at.column
		out = append(out, f)
	}
	return out
}

// lint runs the rules that apply to `on`, the kind of source. It leaves rules with a function for a plan or a result to
// its callers. It returns the findings sorted by position.
func lint(jobs, sections []*job, on rules.Where, facts Facts) []Finding {
	var out []Finding
	for _, rule := range checks() {
		if rule.In&on == 0 || on == rules.Plan && rule.plan != nil || on == rules.Result && rule.result != nil {
			continue
		}
		r := &report{rule: rule, facts: facts}
		if rule.job != nil {
			for _, j := range jobs {
				if !rule.absent || !j.part {
					r.facts = facts.on(j.system(facts))
					rule.job(j, r)
				}
			}
		}
		if rule.file != nil {
			r.facts = facts
			rule.file(jobs, r)
		}
		n := len(jobs)
		if rule.sect != nil {
			n = 0 // the position shows the section
			for _, s := range sections {
				r.facts = facts.on(s.system(facts))
				rule.sect(s, r)
			}
		}
		out = append(out, r.findings(n)...)
	}
	return sorted(out)
}

// sorted sorts findings by position. Findings without a position come first.
func sorted(fs []Finding) []Finding {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fs
}
