package report

import (
	"strings"

	"iotax/stat"
)

// What other pages that show results share with the report, so that a number looks the same everywhere.

// CSS is the style of the HTML report: colours for light, dark and print, tables, notes, verdicts.
func CSS() string { return pageCSS }

// VerdictClass is the class of the page's style that colours a verdict.
func VerdictClass(v stat.Verdict) string { return verdictClass(v) }

// Work says what was done in a cell, and what a flush promised there, as far as its trials tell. Numbers of
// unlike work are no trend.
func (r *Report) Work(c Cell) string {
	facts := trialFacts(r.Trials)[c]
	var b strings.Builder
	for _, k := range append([]string{"caches"}, work...) {
		if facts[k] != "" {
			b.WriteString(k + "=" + facts[k] + " ")
		}
	}
	b.WriteString(string(side{Report: r}.durability(c.Target)))
	return strings.TrimSpace(b.String())
}

// Unfit says why the number of a cell must not be held against that of another run; "" where it may.
func (r *Report) Unfit(k CellMetric) string {
	s := sideOf(r)
	if s.rows[k].Row == nil {
		return "the run does not have it"
	}
	v, f := s.unfit(k)
	if v == stat.NoVerdict {
		return ""
	}
	return f.Rule + ": " + f.Evidence
}

// Differences are the facts of host, targets and way of measuring that two runs do not share.
func Differences(a, b *Report) []Difference { return differencesOf(a, b) }

// Place names where a difference is: "guest disk, guest share", "4 targets"; "" is the host or the run.
func (d Difference) Place() string { return d.where(2) }

// Step prints what a difference is: "6.1.0 → 6.8.2".
func (d Difference) Step() string { return d.change() }
