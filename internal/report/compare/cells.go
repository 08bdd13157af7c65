package compare

import (
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/stat"
)

// Work describes the work of a cell, whether its target is emulated, and what a flush guarantees there. A trend
// excludes runs whose work differs from that of its newest run.
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

// Unfit returns the reason why the value of k in r must not be compared with another run, or "" if it may be
// compared.
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

// Differences returns the facts of the host, the targets and the protocol that differ between two runs.
func Differences(a, b *report.Report) []Difference { return differencesOf(a, b) }
