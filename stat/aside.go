package stat

import "iotax"

// SetAside returns trials in the same order. It replaces each trial that has a finding of severity Invalid with a
// discarded copy without findings. If more than MaxDiscarded of the valid trials of a cell (a target and a workload)
// have such a finding, SetAside keeps them all, and the findings invalidate the whole cell. Failed and already
// discarded trials do not count. SetAside does not modify trials.
//
// The decision depends on the findings, not on the ratio.
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

func few(bad, valid int) bool { return float64(bad) <= MaxDiscarded*float64(valid) }

// errorOf returns the first finding of severity Invalid, or false.
func errorOf(t *iotax.Trial) (iotax.Finding, bool) {
	for _, f := range t.Findings {
		if f.Severity == iotax.Invalid {
			return f, true
		}
	}
	return iotax.Finding{}, false
}
