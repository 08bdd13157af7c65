package report

import (
	"iotax"
	"iotax/stat"
)

// Starts returns the number of starts of a run (iotax.Trial.StartIndex) and what each start opened again: "machines",
// "servers", or "" if the run has neither. A machine that is opened for each trial does not count. n is 0 if it is
// unknown.
func (r *Report) Starts() (n int, of string) {
	eachTrial := map[string]bool{}
	for _, t := range r.Trials {
		n = max(n, t.StartIndex)
		eachTrial[t.Target] = eachTrial[t.Target] || t.Facts[iotax.FactMachineOpened] != ""
	}
	for _, t := range r.Targets() {
		switch {
		case t.Machine != "host" && !eachTrial[t.Name]: // "host" is plan.Host
			return n, "machines"
		case t.Facts[iotax.FactNBD] != "" || t.Facts[iotax.FactShareType] == "nfs":
			of = "servers"
		}
	}
	return n, of
}

// Lacks returns what the cells with the verdict TooFew have too few of: "round", "trial" or "start".
func (r *Report) Lacks() string {
	for i := range r.Sections {
		for j := range r.Sections[i].Rows {
			if r.Sections[i].Rows[j].FewStarts() > 0 {
				return "start"
			}
		}
	}
	return r.Counted()
}

// FewStarts returns the number of starts if they agree and are too few for an interval (stat.Options.Starts).
// Otherwise it returns 0.
func (r *Row) FewStarts() int {
	if e := r.Ratio; e != nil && e.Starts != nil && e.Starts.Agree && !e.Bounded() && r.Value.N >= stat.LeastTrials {
		return e.N
	}
	return 0
}
