package stat

// Behind is the set of those targets that are surely not the best: of each, another one is better in the rounds that both have, by an
// interval with these options. With α over the number of other targets, the chance that the best one is in it is at most α/2 for each look.
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
