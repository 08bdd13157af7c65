package report

import (
	"fmt"

	"iotax"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// An Adjustment is what the other comparisons of a run do to the verdict of one.
type Adjustment struct {
	Alone    stat.Verdict // what the interval says by itself
	P        float64      // of the hypothesis that the ratio is within the margin
	Adjusted float64      // P after Holm's adjustment
}

// MarginP is the p value that Holm's adjustment is made from: that of the margin on the side where the
// estimate lies, and 1 where it lies within.
func MarginP(estimate, margin float64, p func(ratio float64) float64) float64 {
	switch margin = max(margin, 0); {
	case estimate > 1+margin:
		return p(1 + margin)
	case estimate < 1/(1+margin):
		return p(1 / (1 + margin))
	}
	return 1
}

// holm takes back verdicts that are no wonder among so many: all "worse" and "better" of the run together
// are wrong with probability Alpha at most, which a run of several looks spends on each of them. The family
// is every ratio that a verdict was drawn from; what a check condemned is not in it.
func (b *builder) holm() {
	type member struct {
		s *Section
		r *Row
	}
	var family []member
	var p []float64
	for i := range b.Sections {
		s := &b.Sections[i]
		for j := range s.Rows {
			r := &s.Rows[j]
			if !(Conclusive(r.Verdict) || r.Verdict == stat.Inconclusive) || r.Holm == nil {
				r.Holm = nil
				continue
			}
			family, p = append(family, member{s, r}), append(p, r.Holm.P)
		}
	}
	b.Protocol.Comparisons = len(family)
	for i, q := range stat.Holm(p) {
		r, a := family[i].r, family[i].r.Holm
		a.Alone, a.Adjusted = r.Verdict, q
		// A family of one is the interval itself; rounding must not decide there.
		if len(family) < 2 || (r.Verdict != stat.Worse && r.Verdict != stat.Better) || q <= b.Alpha {
			continue
		}
		r.Verdict = stat.Inconclusive
		b.note(r, rules.OneOfMany.Found(iotax.AboutCell(r.Target, family[i].s.Workload), ""),
			Item{Lead: fmt.Sprintf("alone it would be %s, but one such is no wonder among %d comparisons (Holm); adjusted p", a.Alone, len(family)),
				Detail: format.P(q),
				Cells:  []Cell{{r.Target, family[i].s.Workload}}})
	}
}
