package run

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/rules"
)

// Environment facts about the process that measures a run.
const (
	RunnerKey = "runner" // the process, as leftover.Runner.String writes it
	ShardKey  = "shard"  // shard that the process measures, if the run is divided; also a fact of its trials
	FolderKey = "folder" // directory that the plan's relative paths start from, if the run is divided
	ShardsKey = "shards" // number of shards, if the run is divided
)

// A Shard is the part of a run that one process measures: its share of the rounds, with all targets. Rounds are
// assigned to shards in pairs, because the second round of a pair mirrors the target order of the first. A shard does
// not see the results of the other shards, so it does not stop when a result is precise enough.
//
// The zero Shard represents a run that is not divided.
type Shard struct {
	Index int // from 0
	Count int
}

// ParseShard parses a shard such as "2/8", the third of eight.
func ParseShard(text string) (Shard, error) {
	bad := fmt.Errorf("%q is not a shard; write its number, from 0, and how many there are, as in 0/4", text)
	index, count, ok := strings.Cut(text, "/")
	if !ok {
		return Shard{}, bad
	}
	i, err := strconv.Atoi(index)
	if err != nil {
		return Shard{}, bad
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || i < 0 {
		return Shard{}, bad
	}
	if i >= n {
		return Shard{}, fmt.Errorf("there is no shard %d of %d: the first is 0/%d, the last %d/%d", i, n, n, n-1, n)
	}
	return Shard{i, n}, nil
}

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Divided reports whether the run is divided into shards.
func (s Shard) Divided() bool { return s.Count > 0 }

// round converts k, the index of a round within the shard, to the index of that round in the run.
func (s Shard) round(k int) int {
	if !s.Divided() {
		return k
	}
	return 2*(k/2*s.Count+s.Index) + k%2
}

// local is the inverse of round.
func (s Shard) local(round int) int {
	if !s.Divided() {
		return round
	}
	return round/2/s.Count*2 + round%2
}

// seq converts k, the index of a trial within the shard, to the number of that trial in the run. localSeq is its
// inverse.
func (s Shard) seq(k int) int {
	if !s.Divided() {
		return k
	}
	return k*s.Count + s.Index
}

func (s Shard) localSeq(seq int) int {
	if !s.Divided() {
		return seq
	}
	return seq / s.Count
}

// Own returns the elements of trials that the shard has measured.
func (s Shard) Own(trials []*iotax.Trial) []*iotax.Trial {
	return slices.DeleteFunc(slices.Clone(trials), func(t *iotax.Trial) bool { return s.Divided() && t.Seq%s.Count != s.Index })
}

// share returns how many of the run's first n rounds belong to the shard.
func (s Shard) share(n int) int {
	k := 0
	for s.round(k) < n {
		k++
	}
	return k
}

// Of returns the plan of the shard: p with a fixed number of rounds. The zero Shard returns p itself. Of returns an
// error if p cannot be divided.
func (s Shard) Of(p *plan.Plan) (*plan.Plan, error) {
	if !s.Divided() {
		return p, nil
	}
	if p.Measure.Drop != "" {
		return nil, &iotax.Error{Op: "divide run", On: "shard " + s.String(), Err: errors.New("drop: worst needs all rounds in one process"), Hint: "remove drop: worst, or measure on one host"}
	}
	if p.Measure.Starts() > 1 {
		return nil, &iotax.Error{Op: "divide run", On: "shard " + s.String(), Err: errors.New("restarts need all rounds in one process"), Hint: "remove restarts:, or measure on one host"}
	}
	most := p.Measure.Rounds.Max
	n := s.share(most)
	if n == 0 {
		return nil, &iotax.Error{Op: "divide run", On: "shard " + s.String(), Err: fmt.Errorf("the plan has %d rounds, and they are dealt two by two", most),
			Hint: fmt.Sprintf("ask for %d rounds (--rounds %d), or for %d shards at most", 2*s.Count, 2*s.Count, (most+1)/2)}
	}
	part := *p
	part.Measure.Rounds = plan.Rounds{Min: n, Max: n}
	part.Measure.Protocol = fmt.Sprintf("fixed:%dx%v", n, part.Measure.Trial)
	return &part, nil
}

// seed returns the seed of a run whose plan does not set one. It depends on the run's id, which all shards share.
func (s Shard) seed(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id)) // never fails
	return max(1, h.Sum64()>>1)
}

// facts returns the facts that record where a trial of the shard was measured.
func (s Shard) facts(r *iotax.Run) map[string]string {
	if !s.Divided() {
		return map[string]string{}
	}
	facts := map[string]string{ShardKey: s.String()}
	if host := r.Environment[iotax.FactHostname]; host != "" {
		facts["shard.host"] = host
	}
	return facts
}

// Merge combines the runs of the shards into one. `parts` are in the order of the shards, and `count` is the number of
// shards expected. The result has the status Running until all shards have ended. A target gets a finding if only some
// shards could open it, or if its durability differs between shards.
func Merge(parts []*iotax.Run, count int) *iotax.Run {
	out := *parts[0]
	out.Findings, out.Targets, out.Calibration = nil, nil, nil
	var environments []map[string]string
	seen := map[iotax.Status]int{}
	for _, p := range parts {
		seen[p.Status]++
		if p.Start.Before(out.Start) {
			out.Start = p.Start
		}
		if p.End.After(out.End) {
			out.End = p.End
		}
		environments = append(environments, p.Environment)
		out.Findings = mergeFindings(out.Findings, p.Findings)
		// The calibration with the highest noise floor applies to the whole run.
		if c := p.Calibration; c != nil && (out.Calibration == nil || c.Floor() > out.Calibration.Floor()) {
			out.Calibration = c
		}
		if len(out.Workloads) == 0 {
			out.Workloads = p.Workloads
		}
	}
	switch n := len(parts); {
	case n < count || seen[iotax.Running] > 0:
		out.Status, out.End = iotax.Running, time.Time{}
	case seen[iotax.Done] == n:
		out.Status = iotax.Done
	case seen[iotax.Failed] == n:
		out.Status = iotax.Failed
	case seen[iotax.Interrupted] > 0:
		out.Status = iotax.Interrupted
	default:
		out.Status = iotax.Incomplete
	}
	out.Environment = joined(environments)
	delete(out.Environment, RunnerKey)
	delete(out.Environment, ShardKey)
	delete(out.Environment, FolderKey)
	delete(out.Environment, iotax.FactCommand)
	delete(out.Environment, iotax.FactSetupTime)
	delete(out.Environment, iotax.FactResumed)
	out.Environment[ShardsKey] = strconv.Itoa(count)
	out.Targets = mergeTargets(parts)
	return &out
}

func mergeTargets(parts []*iotax.Run) []iotax.TargetInfo {
	var names []string
	byName := map[string][]iotax.TargetInfo{}
	for _, p := range parts {
		for _, t := range p.Targets {
			if byName[t.Name] == nil {
				names = append(names, t.Name)
			}
			byName[t.Name] = append(byName[t.Name], t)
		}
	}
	var out []iotax.TargetInfo
	for _, name := range names {
		all := byName[name]
		t := all[0]
		t.Findings, t.Err = nil, ""
		var facts []map[string]string
		var errs []string
		for _, one := range all {
			t.Findings = mergeFindings(t.Findings, one.Findings)
			if one.Err != "" {
				errs = append(errs, one.Err)
				continue
			}
			facts = append(facts, one.Facts)
			if t.Place == "" {
				t.Place, t.Durability = one.Place, one.Durability
			}
			if one.Durability != t.Durability {
				t.Findings = mergeFindings(t.Findings, []iotax.Finding{rules.ShardsDiffer.Only("on hosts").
					Found(iotax.AboutTarget(t.Name), "a flush promises %s in one shard and %s in another", t.Durability, one.Durability)})
			}
		}
		switch {
		case len(errs) == len(all):
			t.Err = errs[0]
		case len(errs) > 0:
			t.Findings = append(t.Findings, rules.ShardsDiffer.Only("--shard").
				Found(iotax.AboutTarget(t.Name), "it could not be opened in %d of %d shards: %s", len(errs), len(all), errs[0]))
		}
		t.Facts = joined(facts)
		out = append(out, t)
	}
	return out
}

// mostJoined is the maximum number of values of a fact that the function `joined` lists.
const mostJoined = 4

// joined combines the maps. It separates the different values of a key with commas.
func joined(all []map[string]string) map[string]string {
	sets := map[string][]string{}
	for _, m := range all {
		for k, v := range m {
			if !slices.Contains(sets[k], v) {
				sets[k] = append(sets[k], v)
			}
		}
	}
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(sets)) {
		vs := slices.Sorted(slices.Values(sets[k]))
		if out[k] = strings.Join(vs, ", "); len(vs) > mostJoined {
			out[k] = fmt.Sprintf("%s and %d others", strings.Join(vs[:mostJoined], ", "), len(vs)-mostJoined)
		}
	}
	return out
}
