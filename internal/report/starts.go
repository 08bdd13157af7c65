package report

import (
	"maps"
	"slices"

	"iotax"
	"iotax/stat"
)

// Starts returns the number of starts of a run (iotax.Trial.StartIndex), or 0 if it is unknown. `of` is "machines" if
// each start opened machines again, otherwise "servers" if it opened servers again, otherwise "". A machine that is
// opened for each trial does not count. `of` is also "" if the run was divided into shards, because each shard opens its
// own machines and servers.
func (r *Report) Starts() (n int, of string) {
	eachTrial := map[string]bool{}
	for _, t := range r.Trials {
		n = max(n, t.StartIndex)
		eachTrial[t.Target] = eachTrial[t.Target] || t.Facts[iotax.FactMachineOpened] != ""
	}
	if r.Divided() {
		return n, ""
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

// Divided reports whether the run was divided into shards.
func (r *Report) Divided() bool { return r.Run.Environment["shards"] != "" } // the key is run.ShardsKey

// Lacks returns the unit to count in sentences about cells with the verdict TooFew: "round", "trial" or "start".
func (r *Report) Lacks() string {
	for _, row := range r.Rows() {
		if row.FewStarts() > 0 {
			return "start"
		}
	}
	return r.Counted()
}

// TooFew returns the plural of the unit that cells without a verdict need more of, for example "rounds or I/Os".
func (r *Report) TooFew() string {
	few := r.Lacks() + "s"
	for s, row := range r.Rows() {
		if s.Decides && row.Few != nil {
			return few + " or I/Os"
		}
	}
	return few
}

// Starts returns the start index of each value that Values returns.
func (r *Row) Starts() (starts []int) {
	for _, d := range r.Dots {
		if !d.Discarded {
			starts = append(starts, d.Start)
		}
	}
	return starts
}

// Separates returns a fact that may explain the modes of the starts (stat.StartSpread.Modes), and its value in each
// mode. The fact has one value in all starts of a mode, and another value in each other mode. Separates returns "" if
// there is no such fact, or if each mode has a single start, because then any fact that changes with each start would
// match.
func (r *Report) Separates(row *Row) (fact string, values []string) {
	of := map[int]int{} // mode by start
	for mode, starts := range row.Ratio.Starts.Modes {
		for _, s := range starts {
			of[s] = mode
		}
	}
	modes := len(row.Ratio.Starts.Modes)
	if len(of) == modes {
		return "", nil
	}
	for _, target := range []string{row.Target, row.Against} {
		seen := map[string][]map[string]bool{} // values by fact and mode
		starts := r.Target(target).Starts
		for _, t := range r.Trials {
			mode, ok := of[t.StartIndex]
			if t.Target != target || !ok {
				continue
			}
			facts := map[string]string{}
			if t.StartIndex <= len(starts) {
				maps.Copy(facts, starts[t.StartIndex-1])
			}
			maps.Copy(facts, t.Facts)
			for k, v := range facts {
				if v == "" {
					continue // it is a target's fact at other starts only
				}
				if seen[k] == nil {
					seen[k] = make([]map[string]bool, modes)
				}
				if seen[k][mode] == nil {
					seen[k][mode] = map[string]bool{}
				}
				seen[k][mode][v] = true
			}
		}
		for _, k := range slices.Sorted(maps.Keys(seen)) {
			all := map[string]bool{}
			values = nil
			for _, vs := range seen[k] {
				for v := range vs {
					all[v], values = true, append(values, v)
				}
			}
			if len(values) == modes && len(all) == modes && !slices.ContainsFunc(seen[k], func(vs map[string]bool) bool { return len(vs) != 1 }) {
				return k, values
			}
		}
	}
	return "", nil
}

// FewStarts returns the number of starts if they are too few for an interval, although there are enough trials: they
// agree (stat.Options.Starts), or a percentile pools the rounds of each start (stat.PairTails). Otherwise it returns 0.
func (r *Row) FewStarts() int {
	e := r.Ratio
	if e == nil || e.Bounded() || r.Value.N < stat.LeastTrials {
		return 0
	}
	pooled := map[int]bool{}
	for _, d := range r.tails {
		if !d.Discarded {
			pooled[d.Start] = true
		}
	}
	if e.Starts != nil && e.Starts.Agree || e.Starts == nil && e.N > 1 && e.N == len(pooled) {
		return e.N
	}
	return 0
}
