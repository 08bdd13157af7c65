// Package rules is the registry of the rules that iotax checks. A Rule describes a mistake, why it matters, how to fix
// it, and where the rule applies. Only a Rule builds an iotax.Finding. The functions that search for mistakes are in
// the packages lint and check, or in the package that encounters the mistake.
package rules

import (
	"fmt"
	"slices"
	"strings"

	"iotax"
)

// A Rule is a mistake or a fault that a program can detect.
type Rule struct {
	ID       string // stable; stored in findings
	Severity iotax.Severity
	In       Where
	Discards bool   // a trial that breaks the rule is discarded, with its round
	Title    string // what is wrong, in a few words
	Why      string // why it matters, and how it is detected
	Hint     string // what to do; parts that apply in different cases are separated by semicolons
	Bad      string // a job file or plan that breaks the rule
	Good     string // a similar job file or plan that does not break it
}

// Where is a set of the objects that a rule examines.
type Where int

const (
	JobFile Where = 1 << iota // a job file or a command line, as fio itself would run it
	Plan                      // a plan and its workloads, as iotax would run them
	Result                    // a result of fio: its options and its numbers
	Trial                     // a trial, as soon as it has ended
	Run                       // all trials together, at the end
	Work                      // reported by the package that encounters it
	Report                    // reported next to a verdict

	BeforeRun = JobFile | Plan | Result
	DuringRun = Trial | Run | Work | Report
)

// All lists every rule, in the order of docs/reference/rules.md.
func All() []Rule { return slices.Clone(all) }

// Explain returns the rule with this id, and whether it exists.
func Explain(id string) (Rule, bool) {
	i := slices.IndexFunc(all, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return all[i], true
}

// Title returns the title of the rule with this id, or the id itself if the rule does not exist.
func Title(id string) string {
	if r, ok := Explain(id); ok {
		return r.Title
	}
	return id
}

// Found returns a finding about a subject that breaks the rule. The format and its arguments are the evidence.
func (r Rule) Found(about iotax.Subject, format string, args ...any) iotax.Finding {
	return iotax.Finding{Rule: r.ID, Severity: r.Severity, Subject: about, Evidence: fmt.Sprintf(format, args...), Hint: r.Hint}
}

// FoundError returns a finding for the text of an error. The hint of an iotax.Error replaces the hint of the rule.
func (r Rule) FoundError(about iotax.Subject, text string) iotax.Finding {
	why, hint, ok := strings.Cut(text, "\n  hint: ")
	if ok {
		r.Hint = hint
	}
	return r.Found(about, "%s", why)
}

// As returns r with another severity.
func (r Rule) As(s iotax.Severity) Rule { r.Severity = s; return r }

// Hinting returns r with another hint, for a specific fix.
func (r Rule) Hinting(hint string) Rule { r.Hint = hint; return r }

// With returns r with `example` replaced by `fact` in its hint, for instance RUN by the id of the run.
func (r Rule) With(example, fact string) Rule {
	r.Hint = strings.ReplaceAll(r.Hint, example, fact)
	return r
}

// Only returns r with its hint reduced to the parts that contain at least one of words.
func (r Rule) Only(words ...string) Rule {
	return r.parts(func(part string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(part, word) })
	})
}

// Without returns r without the parts of its hint that contain `word`. If followed is false, it returns r unchanged.
func (r Rule) Without(word string, followed bool) Rule {
	if !followed {
		return r
	}
	return r.parts(func(part string) bool { return !strings.Contains(part, word) })
}

func (r Rule) parts(keep func(string) bool) Rule {
	r.Hint = strings.Join(slices.DeleteFunc(strings.Split(r.Hint, "; "), func(part string) bool { return !keep(part) }), "; ")
	return r
}

// Page returns the rule's page in Markdown.
func (r Rule) Page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s%s. Severity: %s.\n\n%s\n\n*Hint:* %s.\n", r.ID, strings.ToUpper(r.Title[:1]), r.Title[1:], r.Severity, r.Why, r.Hint)
	for _, x := range []struct{ head, text string }{{"Wrong", r.Bad}, {"Right", r.Good}} {
		if x.text != "" {
			fmt.Fprintf(&b, "\n%s:\n\n```%s\n%s\n```\n", x.head, syntax(x.text), strings.TrimSpace(x.text))
		}
	}
	return b.String()
}

func syntax(text string) string {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return "ini"
	}
	return "yaml"
}
