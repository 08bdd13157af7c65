package stat

import "iotax"

// SetAside makes discarded, in copies, the trials that a check condemned (an error stands beside their
// number), where these are few in their cell: a cache that answered once says nothing about the other
// trials, and a number that must not be quoted must not be averaged either. Where more than
// MaxDiscarded of a cell's valid trials are so it is no accident: they stay as they are, and their
// errors condemn the whole cell. The engine counts its rounds and the report its pairs by it.
//
// Like every discarded, it looks at the validity of a trial and never at the ratio.
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

// few reports whether so many trials with an error, of so many that count, are few enough to be set aside.
func few(bad, valid int) bool { return float64(bad) <= MaxDiscarded*float64(valid) }

// errorOf is the first finding of a trial that forbids to quote its number.
func errorOf(t *iotax.Trial) (iotax.Finding, bool) {
	for _, f := range t.Findings {
		if f.Severity == iotax.Invalid {
			return f, true
		}
	}
	return iotax.Finding{}, false
}
