// Package lint finds what makes a comparison wrong before anything is measured: rules on fio jobs
// (job files, command lines, the options kept in a result) and on plans. It does no I/O: what a rule
// must know about the machine is told by Facts.
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

// A rule is one of the registry, with the functions that look for it.
type rule struct {
	rules.Rule

	job  func(*job, *report)   // looks at one job; plan and result replace it where there are both
	file func([]*job, *report) // looks at the jobs of a file together
	sect func(*job, *report)   // looks at the options of one section as fio reads it, [global] included
	plan func(*planView, *report)
	// absent is set where the rule takes an option that is not there for its default.
	absent bool

	result func(*fio.Job, *job, *report) // looks at what a job of a result has done
}

// checks are the rules that have functions, in the order of the docs.
func checks() []rule {
	return slices.Concat(fileRules, depthRules, cacheRules, lengthRules, dataRules, optionRules, planRules, resultRules)
}

// Facts are what is known about the machine that the jobs will run on. The zero Facts know nothing:
// rules that need a fact then say "if", or nothing.
type Facts struct {
	Memory  int64    // bytes of RAM; 0 is unknown
	OS      string   // as runtime.GOOS says it; "" is unknown
	Version string   // of fio there, as in "fio-3.33"; "" is unknown
	Options []string // what that fio lists as its options; nil is unknown
	Engines []string // what it lists as its engines; nil is unknown

	// Holds says what the block device at a path holds that writing would destroy ("mounted on
	// /srv", "an ext4 file system"), or "". Nil when devices cannot be looked at.
	Holds func(device string) string
	// Written is the share of the file at a path that has blocks on the storage, and whether there
	// is such a file. Nil when files cannot be looked at.
	Written func(path string) (share float64, ok bool)
}

// A Finding is an iotax.Finding with the line it points at.
type Finding struct {
	iotax.Finding
	Source string // the line (of a command: the whole of it); "" when there is none
	Width  int    // characters from Column on
}

// A position is a place in a text; the zero position is none.
type position struct {
	file, source        string
	line, column, width int
}

// report gathers the findings of one rule.
type report struct {
	rule  rule
	facts Facts
	hits  []hit
}

// A hit is what a rule has to say about one job.
type hit struct {
	at       position
	severity iotax.Severity
	evidence string
	hint     string
	job      string // "" when it is about all
}

// at adds a finding about a job, at the place of one of its settings.
func (r *report) at(j *job, s setting, format string, args ...any) {
	r.as(r.rule.Severity, j, s, format, args...)
}

func (r *report) as(severity iotax.Severity, j *job, s setting, format string, args ...any) {
	h := hit{at: s.at, severity: severity, evidence: fmt.Sprintf(format, args...), hint: r.rule.Hint, job: j.name}
	if s.key == "" && s.at.line > 0 {
		h.job = "" // its header says it
	}
	r.hits = append(r.hits, h)
}

// hint replaces the hint of the last finding.
func (r *report) hint(format string, args ...any) {
	r.hits[len(r.hits)-1].hint = fmt.Sprintf(format, args...)
}

// named is how many jobs a finding names.
const named = 3

// findings joins what was said at the same place about several jobs: an option of [global] is one
// mistake, however many jobs have it. jobs is how many there are in all.
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

// lint runs the rules that are for jobs of this sort.
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
					rule.job(j, r)
				}
			}
		}
		if rule.file != nil {
			rule.file(jobs, r)
		}
		n := len(jobs)
		if rule.sect != nil {
			n = 0 // the place names the section
			for _, s := range sections {
				rule.sect(s, r)
			}
		}
		out = append(out, r.findings(n)...)
	}
	return sorted(out)
}

// sorted puts findings in the order of the text; what has no place comes first.
func sorted(fs []Finding) []Finding {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fs
}
