// Package schedule computes the order of a plan's trials, their seeds, and their durations.
package schedule

import (
	"fmt"
	"math"
	"sort"
	"time"

	"iotax/internal/plan"
	"iotax/internal/plan/syntax"
	"iotax/stat"
)

// targetsOf returns the names of the targets of w, in plan order.
func targetsOf(p *plan.Plan, w *plan.Workload) (names []string) {
	for _, t := range p.Targets {
		if w.Done(t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// TrialTime returns the duration of a trial of w without the overhead around it.
func TrialTime(p *plan.Plan, w *plan.Workload) time.Duration {
	if w.Assumed > 0 {
		return time.Duration(p.Measure.Settle) + w.Assumed
	}
	m := p.Measure
	return time.Duration(m.Settle+m.Ramp) + m.Length(*w)
}

// RoundTime returns the duration of a round of w without the overhead around its trials.
func RoundTime(p *plan.Plan, w *plan.Workload) time.Duration {
	return mul(TrialTime(p, w), trialsEach(p, w)*len(targetsOf(p, w)))
}

// trialsEach returns the number of trials of w at one target in a round, with explained and profiled trials.
func trialsEach(p *plan.Plan, w *plan.Workload) int {
	n := 1
	if p.Measure.Explain && w.Assumed == 0 {
		n++
	}
	if p.Measure.Profile {
		n++
	}
	return n
}

// Trials returns the number of trials in one round of every workload.
func Trials(p *plan.Plan) int {
	n := 0
	for i := range p.Workloads {
		n += trialsEach(p, &p.Workloads[i]) * len(targetsOf(p, &p.Workloads[i]))
	}
	return n
}

const maxTrials = 1_000_000 // limit for the number of trials in the minimum number of rounds

// CheckTrials rejects a plan with too many trials, or with too few rounds for its expectations. Call it after
// changing Measure.
func CheckTrials(p *plan.Plan) error {
	n := Trials(p)
	if rounds := p.Measure.Rounds.Min; n > 0 && rounds > maxTrials/n {
		return &syntax.Error{Pos: syntax.Pos{File: p.File}, Msg: fmt.Sprintf("%d rounds of %d trials are more than %d trials", rounds, n, maxTrials), Hint: "fewer rounds, targets or workloads"}
	}
	if least := stat.LeastFor(p.Alpha()); len(p.Expectations) > 0 && p.Measure.Rounds.Max < least {
		return &syntax.Error{Pos: syntax.Pos{File: p.File}, Msg: fmt.Sprintf("%q would stay undecided: its interval needs %d rounds, and the plan has %d", p.Expectations[0], least, p.Measure.Rounds.Max),
			Hint: Workable(p, fmt.Sprintf("use more rounds (`--rounds %d`)", least))}
	}
	return nil
}

// A Cell is a workload at a target.
type Cell struct{ Workload, Target string }

// Costs contains the times that a run needs in addition to its trials, and the rounds that it does not need to measure.
type Costs struct {
	Before time.Duration          // once per run: measuring the noise floor
	Open   time.Duration          // per start: opening before its first trial, and closing after its last
	Around map[Cell]time.Duration // per trial: starting the load generator, reading counters, starting a machine for the trial
	Done   map[string]int         // valid rounds that a resumed run has, by workload
}

// Estimate returns the shortest and the longest duration of a run of the plan, and the largest number of rounds of
// every workload, without repeated rounds. A workload at a single target without expectations stops at the minimum
// number of rounds. The estimate includes at least one round, even if that round exceeds the budget.
func Estimate(p *plan.Plan, c Costs) (least, most time.Duration, rounds int) {
	m := p.Measure
	each := make([]time.Duration, len(p.Workloads)) // time of a round of each workload
	lone := make([]bool, len(p.Workloads))
	had := m.Rounds.Max // rounds that every workload already has
	for i := range p.Workloads {
		w := &p.Workloads[i]
		at := targetsOf(p, w)
		each[i] = mul(TrialTime(p, w), len(at))
		for _, t := range at {
			each[i] = add(each[i], c.Around[Cell{w.Name, t}])
		}
		each[i] = mul(each[i], trialsEach(p, w))
		lone[i] = len(at) < 2 && !m.Fixed() && p.Expected(w.Name) == nil
		if len(at) > 0 {
			had = min(had, c.Done[w.Name])
		}
	}
	start := func(round int) int { return stat.StartOf(round, m.Rounds.Max, m.Starts()) }
	opening := func(n int) time.Duration { // time to open and close everything for n rounds
		return mul(c.Open, 1+max(0, start(max(0, n-1))-start(had)))
	}
	after := func(n int) time.Duration {
		sum := add(c.Before, opening(n))
		for i, d := range each {
			to := n
			if lone[i] {
				to = min(n, m.Rounds.Min)
			}
			sum = add(sum, mul(d, max(0, to-c.Done[p.Workloads[i].Name])))
		}
		return sum
	}
	budget := time.Duration(m.Budget)
	next := min(had+1, m.Rounds.Max)
	rounds = m.Rounds.Max
	if budget > 0 {
		rounds = max(next, sort.Search(m.Rounds.Max, func(n int) bool { return after(n+1) > budget }))
	}
	most = after(rounds)
	if rounds < m.Rounds.Max {
		for i, d := range each { // one more round of some workloads may fit
			if longer := add(most, add(d, opening(rounds+1)-opening(rounds))); longer <= budget && !(lone[i] && rounds >= m.Rounds.Min) {
				most = longer
			}
		}
	}
	return min(most, after(max(next, min(m.Rounds.Min, m.Rounds.Max)))), most, rounds
}

// A Slot is a round of a workload in the schedule.
type Slot struct {
	Round    int      `json:"round"` // from 0
	Workload string   `json:"workload"`
	Seed     uint64   `json:"seed"`    // seed of the offsets; the same for all targets
	Targets  []string `json:"targets"` // in trial order
}

// Slots returns n rounds of every workload, in the order of a run in which no workload finishes early.
func Slots(p *plan.Plan, n int) []Slot {
	var out []Slot
	for round := range max(0, n) {
		for i, w := range p.Workloads {
			s := Slot{Round: round, Workload: w.Name, Seed: RoundSeed(p.Measure.Seed, w.Name, round)}
			at := targetsOf(p, &p.Workloads[i])
			if len(at) == 0 {
				continue // the workload only runs as noise
			}
			for _, k := range Order(p.Measure.Seed+uint64(i), len(at), round) {
				s.Targets = append(s.Targets, at[k])
			}
			out = append(out, s)
		}
	}
	return out
}

// add returns a + b, or the largest duration on overflow.
func add(a, b time.Duration) time.Duration {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// mul returns d × n, or the largest duration on overflow.
func mul(d time.Duration, n int) time.Duration {
	if n > 0 && d > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return d * time.Duration(n)
}
