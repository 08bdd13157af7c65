package report

import (
	"fmt"

	"iotax"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/stat"
)

// An Adjustment describes how a run's other comparisons affect a verdict.
type Adjustment struct {
	Alone    stat.Verdict // verdict by the interval alone
	P        float64      // p value of the hypothesis that the ratio is within the margin
	Adjusted float64      // P after Holm's adjustment
}

// MarginP returns the p value for Holm's adjustment. The hypothesis is that the ratio equals the bound of the margin on
// the side of the estimate. MarginP returns 1 if the estimate is within the margin. p returns the p value of the
// hypothesis that the ratio has the given value.
func MarginP(estimate, margin float64, p func(ratio float64) float64) float64 {
	switch margin = max(margin, 0); {
	case estimate > 1+margin:
		return p(1 + margin)
	case estimate < 1/(1+margin):
		return p(1 / (1 + margin))
	}
	return 1
}

// holm withdraws verdicts that may be due to chance, because the run has many comparisons. Afterwards, the probability
// that any "worse" or "better" of the run is wrong is at most Alpha at each interim check, if the noise is normal: far
// from the trials' ratios, p comes from the t test alone (stat.EffectP). The family contains every ratio whose verdict
// comes from its interval, but no invalid ratios.
func (b *builder) holm() {
	type member struct {
		s *Section
		r *Row
	}
	var family []member
	var p []float64
	for s, r := range b.Rows() {
		if !(Conclusive(r.Verdict) || r.Verdict == stat.Inconclusive) || r.Holm == nil {
			r.Holm = nil
			continue
		}
		family, p = append(family, member{s, r}), append(p, r.Holm.P)
	}
	b.Protocol.Comparisons = len(family)
	for i, q := range stat.Holm(p) {
		r, a := family[i].r, family[i].r.Holm
		a.Alone, a.Adjusted = r.Verdict, q
		// A single comparison keeps the verdict of its interval, even if rounding puts p on the other side of Alpha.
		if len(family) < 2 || (r.Verdict != stat.Worse && r.Verdict != stat.Better) || q <= b.Alpha {
			continue
		}
		r.Verdict = stat.Inconclusive
		b.note(r, rules.OneOfMany.Found(iotax.AboutCell(r.Target, family[i].s.Workload), ""),
			Item{Lead: fmt.Sprintf("by its interval alone it would be %s, but chance explains one such result among %d comparisons (Holm); adjusted p", a.Alone, len(family)),
				Detail: format.P(q),
				Cells:  []Cell{{r.Target, family[i].s.Workload}}})
	}
}
