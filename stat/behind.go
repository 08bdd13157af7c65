package stat

// Behind returns the targets that are significantly worse than at least one other target: the whole interval of their
// ratio, with the options o, is below 1. If o.Alpha is α divided by the number of other targets, the result contains
// the best target with a probability of at most α/2 for each interim analysis.
func (p *Pairing) Behind(targets []string, o Options) map[string]bool {
	behind := map[string]bool{}
	for _, t := range targets {
		for _, other := range targets {
			if r, _, err := p.Interval(other, t, o); other != t && err == nil && r.Bounded() && r.Hi < 1 {
				behind[t] = true
			}
		}
	}
	return behind
}
