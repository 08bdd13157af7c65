package stat

import "iotax"

// SetAside returns trials in the same order, with discarded copies of the trials that have a finding of severity
// Invalid. The copies have no findings. SetAside discards trials of a cell (a target and a workload) only if at most
// the share MaxDiscarded of its valid trials has such a finding. Otherwise it keeps them all, and the findings
// invalidate the whole cell. Failed and already discarded trials do not count. The cause of an invalid value, for
// example a cache that served one trial, does not affect the other trials of the cell. SetAside does not modify trials.
// The report uses it to select pairs. The engine counts rounds with a Pairing whose field SetAside applies the same
// rule.
//
// The decision depends only on the validity of the trials, never on the ratio.
func SetAside(trials []*iotax.Trial) []*iotax.Trial {
	valid, bad := map[[2]string]int{}, map[[2]string]int{}
	for _, t := range trials {
		if t.Err != "" || t.Discarded != "" {
			continue
		}
		c := [2]string{t.Target, t.Workload}
		valid[c]++
		if _, ok := errorOf(t); ok {
			bad[c]++
		}
	}
	out := make([]*iotax.Trial, len(trials))
	for i, t := range trials {
		out[i] = t
		c := [2]string{t.Target, t.Workload}
		f, wrong := errorOf(t)
		if !wrong || t.Err != "" || t.Discarded != "" || !few(bad[c], valid[c]) {
			continue
		}
		discarded := *t
		discarded.Discarded, discarded.Findings = f.Rule+": "+f.Evidence, nil
		out[i] = &discarded
	}
	return out
}

// few reports whether `bad` of `valid` trials is a small enough share to discard the bad ones.
func few(bad, valid int) bool { return float64(bad) <= MaxDiscarded*float64(valid) }

// errorOf returns the first finding that makes the value of the trial invalid, or false if the trial has no such
// finding.
func errorOf(t *iotax.Trial) (iotax.Finding, bool) {
	for _, f := range t.Findings {
		if f.Severity == iotax.Invalid {
			return f, true
		}
	}
	return iotax.Finding{}, false
}
