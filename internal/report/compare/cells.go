package compare

import (
	"strings"

	"iotax/internal/report"
	"iotax/stat"
)

// Work describes the work of a cell, whether its target is emulated, and the durability of the target. A trend excludes
// runs for which Work returns another text than for the newest run.
func Work(r *report.Report, c report.Cell) string {
	w := works(r.Trials)[c]
	var b strings.Builder
	for _, k := range optionsOf(w.options) {
		b.WriteString(k + "=" + w.options[k] + " ")
	}
	t := r.Target(c.Target)
	if t.Emulated() {
		b.WriteString("emulated ")
	}
	b.WriteString(string(t.Durability))
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
