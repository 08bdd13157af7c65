package compare

import (
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/stat"
)

// Work says what was done in a cell, and what a flush promised there, as far as its trials tell. Numbers of
// unlike work are no trend.
func Work(r *report.Report, c report.Cell) string {
	w := works(r.Trials)[c]
	var b strings.Builder
	for _, k := range optionsOf(w.options) {
		b.WriteString(k + "=" + w.options[k] + " ")
	}
	if slices.Contains(r.Emulated(), c.Target) {
		b.WriteString("emulated ")
	}
	b.WriteString(string(side{Report: r}.durability(c.Target)))
	return strings.TrimSpace(b.String())
}

// Unfit says why the number of a cell must not be held against that of another run; "" where it may.
func Unfit(r *report.Report, k CellMetric) string {
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
func Differences(a, b *report.Report) []Difference { return differencesOf(a, b) }
