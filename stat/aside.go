package stat

import "iotax"

// SetAside discards the trials with a finding of severity Invalid, if their cell has few of them. It does not modify
// trials: the result contains discarded copies. An invalid value must not be averaged. Its cause, for example a cache
// that served one trial, does not affect the other trials of the cell. If more than MaxDiscarded of a cell's trials
// have such findings, SetAside keeps these trials, and the findings invalidate the whole cell. Failed and already
// discarded trials do not count. The report uses SetAside to select pairs. The engine uses a Pairing with the field
// SetAside, which applies the same rule, to count rounds.
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

// errorOf returns the first finding that makes the trial's value invalid.
func errorOf(t *iotax.Trial) (iotax.Finding, bool) {
	for _, f := range t.Findings {
		if f.Severity == iotax.Invalid {
			return f, true
		}
	}
	return iotax.Finding{}, false
}
