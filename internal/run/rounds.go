package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/rules"
	"iotax/stat"
)

const (
	// failuresInARow is the number of consecutive failures after which this process gives up a cell.
	failuresInARow = 3
	// minLost and maxLostShare limit the invalid rounds: a workload stops if their number is at least minLost and their
	// share is above maxLostShare.
	maxLostShare = 0.5
	minLost      = 6
)

// An engine runs the rounds of a testbed. A resumed run rebuilds the state of its engine from the stored trials.
type engine struct {
	run     *iotax.Run
	p       *plan.Plan
	d       Deps
	testbed *testbed
	lanes   []*lane
	shard   Shard
	enough  func(d []float64) string // from Options.Enough
	ledger  ledger
	seq     int // number of the next trial within the shard

	start       int                                         // number of the current start, from 1
	used        bool                                        // this process has run a trial in the current start
	setup       time.Duration                               // time until the targets were open
	reopen      func(ctx context.Context) (*testbed, error) // closes all targets and machines and opens them again
	notReopened bool                                        // reopen failed

	from   time.Time                       // when this process began the run; the budget counts from here
	begun  time.Time                       // when this process began to measure, after it had opened all targets
	around map[schedule.Cell]time.Duration // estimated overhead of a trial (schedule.Costs.Around)
	extra  map[string]stat.Timing          // measured overhead of a trial, by target
}

// A lane contains the progress of one workload: its rounds, and whether it needs more.
type lane struct {
	*load
	index    int
	pairings []stat.Pairing // one for each deciding metric
	expected []expected
	round    int                    // index of the next round within the shard
	inRound  map[string]bool        // targets with a trial in the current round
	measured bool                   // this process has measured a trial
	times    map[string]stat.Timing // durations of the successful trials of this process, by target
	ran      int                    // rounds that this process began, and earlier complete rounds without failures
	valid    int                    // number of valid rounds of the target that has the fewest
	widest   stat.Interval          // widest interval of a ratio, over all targets and deciding metrics; without bounds if a ratio has no interval yet
	about    string                 // metric, target and error if too few I/Os are beyond a quantile; otherwise ""
	failed   map[string]int         // failures in a row, by target
	good     map[string]int         // successful trials, by target
	dropped  map[string]bool        // targets shown not to be the best (plan.Measure.Drop)

	noLatency bool // an explained trial has shown that the workload records no latency

	state laneState
	why   string
	hint  string // hint of the finding for laneShort; "" if the budget ended the workload
}

type laneState int

const (
	laneOpen  laneState = iota
	laneDone            // reached its goal, such as a precision, decided expectations, or a number of rounds
	laneShort           // stopped before it reached its goal
)

func newEngine(run *iotax.Run, p *plan.Plan, d Deps, r *testbed, o Options, from time.Time) *engine {
	shard, earlier := o.Shard, o.Trials
	e := &engine{run: run, p: p, d: d, testbed: r, shard: shard, enough: o.Enough, ledger: ledger{reviewValues: d.ReviewValues, reviewFacts: d.ReviewFacts}, start: 1, from: from, around: o.Around, extra: map[string]stat.Timing{}}
	for _, t := range earlier {
		var metrics []string
		for _, l := range r.loads {
			if l.plan.Name == t.Workload {
				metrics = l.metrics()
			}
		}
		if !t.Separate() {
			e.ledger.add(t, metrics)
		}
		e.seq = max(e.seq, shard.localSeq(t.Seq)+1)
		e.start = max(e.start, t.StartIndex)
	}
	for i, l := range r.loads {
		if l.plan.Aside {
			continue
		}
		ln := &lane{load: l, index: i, times: map[string]stat.Timing{}, failed: map[string]int{}, good: map[string]int{}, dropped: map[string]bool{}}
		for _, name := range l.deciding() {
			ln.pairings = append(ln.pairings, stat.Pairing{Metric: name, SetAside: true})
		}
		for _, x := range p.Expected(l.plan.Name) {
			ln.expected = append(ln.expected, expected{x, stat.Pairing{Metric: x.Metric, SetAside: true}})
		}
		e.lanes = append(e.lanes, ln)
		byRound := map[int][]*iotax.Trial{}
		for _, t := range earlier {
			if t.Workload == l.plan.Name {
				b := shard.local(t.Round)
				byRound[b] = append(byRound[b], t)
				ln.round = max(ln.round, b+1)
			}
		}
		for b := range ln.round {
			if p.Measure.Drop != "" { // repeat the decision of the earlier process
				e.tally(ln)
				e.dropWorst(ln)
			}
			for _, t := range byRound[b] {
				ln.pair(t)
			}
			// Do not count rounds with missing or failed trials, so that a resumed run tries the failed targets again.
			if len(byRound[b]) >= len(l.targets)-len(ln.dropped) && !slices.ContainsFunc(byRound[b], func(t *iotax.Trial) bool { return t.Err != "" }) {
				ln.beginRound()
				for _, t := range byRound[b] {
					ln.account(t)
				}
			}
		}
		e.tally(ln)
		e.judge(ln)
	}
	return e
}

// complete reports whether every cell has reached the goal of the plan.
func (e *engine) complete() bool {
	for _, ln := range e.lanes {
		if ln.state != laneDone || len(ln.targets) < ln.wanted {
			return false
		}
		for _, t := range ln.targets {
			if ln.good[t.Name] < e.p.Measure.Rounds.Min {
				return false
			}
		}
	}
	return true
}

// measure runs the rounds of the unfinished workloads in turn, until all workloads have ended.
func (e *engine) measure(ctx context.Context) error {
	for _, ln := range e.lanes {
		if ln.state == laneOpen {
			if err := e.supported(ctx, ln); err != nil {
				return err
			}
		}
	}
	e.begun = e.d.Now()
	defer e.cutShort()
	for {
		busy, waiting := false, false
		for _, ln := range e.lanes {
			if ln.state != laneOpen {
				continue
			}
			if e.spent(ln) {
				most := ""
				if b := e.p.Measure.Rounds; b.Min < b.Max {
					most = "at most "
				}
				e.stop(ln, laneShort, fmt.Sprintf("the budget of %s was spent after %d of %s%d rounds", e.p.Measure.Budget, ln.valid, most, e.p.Measure.Rounds.Max), "")
				continue
			}
			if e.startOf(ln) > e.start {
				waiting = true
				continue
			}
			busy = true
			last, err := e.runRound(ctx, ln)
			if err != nil {
				return err
			}
			e.tally(ln)
			if last != nil {
				e.d.Progress(e.event(RoundDone, ln, last))
			}
			e.judge(ln)
		}
		switch {
		case busy:
		case !waiting:
			return nil
		default:
			if err := e.restart(ctx); err != nil {
				return err
			}
		}
	}
}

// startOf returns the start in which the next round of ln is measured.
func (e *engine) startOf(ln *lane) int {
	return stat.StartOf(ln.valid, e.p.Measure.Rounds.Max, e.p.Measure.Starts())
}

// restart begins the next start. If this process has just opened all targets to resume the run, it does not open them
// again.
func (e *engine) restart(ctx context.Context) error {
	e.start++
	if !e.used {
		return nil
	}
	which := fmt.Sprintf("start %d of %d", e.start, e.p.Measure.Starts())
	e.d.Progress(Event{Kind: Opening, Text: which})
	var err error
	if e.testbed, err = e.reopen(ctx); err != nil {
		e.notReopened = true
		return opError("begin", which, err, e.resume()+" measures what is missing")
	}
	e.used = false
	for _, ln := range e.lanes {
		ln.load = e.testbed.loads[ln.index]
	}
	return nil
}

// keepFacts records the facts of the targets that are not the same at all starts.
func (e *engine) keepFacts() {
	if e.p.Measure.Starts() < 2 {
		return
	}
	for name, info := range e.testbed.infos {
		info.Starts = addStart(info.Starts, e.start, e.testbed.previous[name], info.Facts)
	}
}

// addStart sets start n of iotax.TargetInfo.Starts. Facts that are not in starts had their value of `previous` until now.
func addStart(starts []map[string]string, n int, previous, now map[string]string) []map[string]string {
	if n == 1 {
		return nil
	}
	all := map[string]string{}
	maps.Copy(all, previous)
	maps.Copy(all, now)
	for k := range all {
		varied := false
		if len(starts) > 0 {
			_, varied = starts[0][k]
		}
		if previous[k] == now[k] && !varied {
			continue
		}
		for len(starts) < n {
			starts = append(starts, map[string]string{})
		}
		if !varied {
			for _, s := range starts[:n-1] {
				s[k] = previous[k]
			}
		}
		starts[n-1][k] = now[k]
	}
	return starts
}

// reopening returns the estimated time to open all targets for the remaining starts.
func (e *engine) reopening() time.Duration {
	return time.Duration(e.p.Measure.Starts()-e.start) * e.setup
}

// spent reports whether another round of ln would exceed the budget. The first round of ln in this process runs even if
// opening used up the budget.
func (e *engine) spent(ln *lane) bool {
	budget := time.Duration(e.p.Measure.Budget)
	need := e.roundTime(ln)
	if e.startOf(ln) > e.start && e.used {
		need += e.setup
	}
	return budget > 0 && ln.measured && e.d.Now().Sub(e.from)+need > budget
}

// roundTime returns the estimated time of the next round of ln.
func (e *engine) roundTime(ln *lane) (sum time.Duration) {
	for _, t := range ln.targets {
		if ln.measures(t.Name) {
			sum += e.each(ln, t.Name)
		}
	}
	return sum
}

// runRound runs the trials of every target that is neither given up nor dropped, in the order derived from the seed. It
// returns the last normal trial.
func (e *engine) runRound(ctx context.Context, ln *lane) (last *iotax.Trial, err error) {
	round := e.shard.round(ln.round)
	ln.round++
	ln.beginRound()
	defer func() { ln.inRound = nil }()
	for k, i := range schedule.Order(e.run.Seed+uint64(ln.index), len(ln.targets), round) {
		target := ln.targets[i]
		if !ln.measures(target.Name) {
			continue
		}
		ways := e.ways(ln)
		for n := range ways {
			t, err := e.runOne(ctx, ln, target, round, ways[(round+k+n)%len(ways)])
			if err != nil {
				return nil, err
			}
			if !t.Separate() {
				last = t
			}
		}
	}
	return last, nil
}

// ways returns one element for each trial of a target in a round: the fact that marks an explained or a profiled trial,
// or "" for the normal trial. A workload gets no explained trials if it has no measurement window, or after a trial has
// shown that it records no latency.
func (e *engine) ways(ln *lane) []iotax.FactKey {
	out := []iotax.FactKey{""}
	if e.p.Measure.Explain && ln.w.Caps().Limit == 0 && !ln.noLatency {
		out = append(out, iotax.FactExplains)
	}
	if e.p.Measure.Profile {
		out = append(out, iotax.FactProfiles)
	}
	return out
}

// runOne runs one trial and saves it.
func (e *engine) runOne(ctx context.Context, ln *lane, target *iotax.Target, round int, way iotax.FactKey) (*iotax.Trial, error) {
	t := e.newTrial(ln, target, round, schedule.RoundSeed(e.run.Seed, ln.plan.Name, round))
	separate(t, way)
	begun := e.d.Now()
	if !e.used {
		e.used = true
		e.keepFacts()
	}
	e.d.Progress(e.event(Starting, ln, t))
	left := e.attempt(ctx, ln, target, t)
	leftBehind(e.run, left)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // an interrupted trial is not used
	}
	for i := range t.Findings {
		t.Findings[i].Hint = schedule.Workable(e.p, t.Findings[i].Hint)
	}
	// WithoutCancel: an interrupt must not lose a finished trial.
	if err := e.d.Save(context.WithoutCancel(ctx), t); err != nil {
		return nil, errors.Join(opError("save trial", t.Cell(), err, ""), left)
	}
	if left != nil {
		return nil, left
	}
	if t.Separate() {
		ln.noLatency = ln.noLatency || way == iotax.FactExplains && t.Err == "" && !slices.ContainsFunc(t.Values, func(v iotax.Value) bool { return strings.HasSuffix(v.Name, ".latency.mean") })
		e.d.Progress(e.event(Finished, ln, t))
		return t, nil
	}
	e.ledger.add(t, ln.metrics())
	ln.pair(t)
	ln.account(t)
	ln.inRound[target.Name] = true
	took := e.d.Now().Sub(begun) // t.Took excludes the time to open a machine for the trial
	ln.measured = true
	if t.Err == "" {
		ln.times[target.Name] = ln.times[target.Name].Add(took)
	}
	if ln.w.Caps().Limit == 0 && t.Err == "" {
		e.extra[target.Name] = e.extra[target.Name].Add(took - schedule.TrialTime(e.p, &ln.plan))
	}
	e.d.Progress(e.event(Finished, ln, t))
	return t, nil
}

// separate makes t an explained or a profiled trial, unless `way` is "". The trial's workload gets another name, so
// that the trial is not paired with normal trials. The trial has no ramp, because its counters are read only before and
// after the whole trial.
func separate(t *iotax.Trial, way iotax.FactKey) {
	if way == "" {
		return
	}
	t.Facts[way] = t.Workload
	t.Workload += map[iotax.FactKey]string{iotax.FactExplains: " (explained)", iotax.FactProfiles: " (profiled)"}[way]
	t.Ramp, t.Length = 0, t.Ramp+t.Length
}

// attempt runs trial t on the target's open machine, or on a machine that it opens for the trial. It returns an error
// only if the clean-up of that machine failed.
func (e *engine) attempt(ctx context.Context, ln *lane, target *iotax.Target, t *iotax.Trial) error {
	pt, _ := e.p.Target(target.Name)
	if !e.p.EachTrial(pt.On) {
		runTrial(ctx, e.d, ln.w, target, t, e.p.Measure)
		return nil
	}
	begun := e.d.Now()
	part, fresh, err := e.testbed.renew(ctx, ln.load, target)
	if err == nil {
		t.Facts[iotax.FactMachineOpened] = e.d.Now().Sub(begun).Round(time.Millisecond).String()
		runTrial(ctx, e.d, ln.w, fresh, t, e.p.Measure)
		t.Facts["machine.fresh"] = "yes"
		e.sinceStart(t, fresh.Machine, part.placed)
	} else {
		t.Start, t.Err = e.d.Now(), err.Error()
	}
	return part.close(context.WithoutCancel(ctx))
}

// sinceStart adds times to t, in seconds since the start of its machine: when each boot phase ended, when the place was
// ready, and when the trial had a result. It adds no times if the trial failed or the start of the machine is unknown.
func (e *engine) sinceStart(t *iotax.Trial, m iotax.Machine, placed time.Time) {
	can := m.Caps()
	if t.Err != "" || can.Started.IsZero() {
		return
	}
	add := func(name string, at time.Duration) {
		t.Values = append(t.Values, iotax.Value{Name: name, Value: at.Seconds(), Unit: iotax.Seconds, Better: iotax.Down})
	}
	for _, p := range can.Boot {
		if p.At > 0 {
			add("boot."+p.Name, p.At)
		}
	}
	add("boot.place", placed.Sub(can.Started))
	add("boot.result", e.d.Now().Sub(can.Started))
}

func (e *engine) newTrial(ln *lane, target *iotax.Target, round int, seed uint64) *iotax.Trial {
	m := e.p.Measure
	t := &iotax.Trial{Run: e.run.ID, Target: target.Name, Workload: ln.plan.Name,
		Round: round, Seq: e.shard.seq(e.seq), StartIndex: e.start, Seed: seed, Ramp: time.Duration(m.Ramp), Length: m.Length(ln.plan),
		Cold: m.Cold, Labels: target.Labels, Facts: e.shard.facts(e.run)}
	t.Facts[iotax.FactJob] = ln.job
	if ln.w.Caps().Limit > 0 {
		t.Ramp, t.Length = 0, 0
	}
	e.seq++
	return t
}

func (ln *lane) pair(t *iotax.Trial) {
	for i := range ln.pairings {
		ln.pairings[i].Add(t)
	}
	for i := range ln.expected {
		ln.expected[i].pairing.Add(t)
	}
}

func (ln *lane) beginRound() {
	ln.ran++
	ln.inRound = map[string]bool{}
}

// account counts the success or failure of t.
func (ln *lane) account(t *iotax.Trial) {
	if t.Err != "" {
		ln.failed[t.Target]++
	} else {
		ln.failed[t.Target] = 0
		ln.good[t.Target]++
	}
}

// judge stops ln if it does not need another round, or if another round would not help.
func (e *engine) judge(ln *lane) {
	if ln.failed[e.run.Baseline] >= failuresInARow {
		e.stop(ln, laneShort, fmt.Sprintf("%s failed %d times in a row on the baseline", ln.plan.Name, failuresInARow), e.again())
		return
	}
	if !slices.ContainsFunc(ln.targets, func(t *iotax.Target) bool { return ln.failed[t.Name] < failuresInARow }) {
		e.stop(ln, laneShort, fmt.Sprintf("no target is left on which %s can be done", ln.plan.Name), e.again())
		return
	}
	if missing := e.missing(ln); missing != "" {
		e.stop(ln, laneShort, missing, "choose another metric; `iotax show` lists what the trials have")
		return
	}
	if lost := ln.ran - ln.valid; lost >= minLost && float64(lost) > maxLostShare*float64(ln.ran) {
		e.stop(ln, laneShort, fmt.Sprintf("%d of %d rounds do not count: a trial of theirs failed or was not valid", lost, ln.ran), e.again())
		return
	}
	b := e.p.Measure.Rounds
	if e.enough != nil {
		if why := e.enough(e.logRatios(ln)); why != "" {
			e.stop(ln, laneDone, why, "")
		} else if ln.valid >= b.Max {
			e.stop(ln, laneShort, fmt.Sprintf("not sure after %d rounds", ln.valid), schedule.Workable(e.p, moreRounds))
		}
		return
	}
	if e.p.Measure.Fixed() {
		if ln.valid >= b.Max {
			e.stop(ln, laneDone, "as the protocol requires", "")
		}
		return
	}
	look, done := stat.Next(ln.valid, ln.widest, e.run.Precision, b.Min, b.Max)
	if !look {
		return
	}
	if e.dropWorst(ln) {
		_, done = stat.Next(ln.valid, ln.widest, e.run.Precision, b.Min, b.Max)
	}
	undecided := e.undecided(ln)
	if len(ln.expected) > 0 && ln.valid < b.Max {
		done = undecided == 0 && (done || !e.p.Measure.Precisely)
	}
	switch width := math.Sqrt(ln.widest.Hi/ln.widest.Lo) - 1; {
	case !done:
	case undecided > 0 && b.Min < b.Max:
		e.stop(ln, laneShort, fmt.Sprintf("expectations undecided after %d rounds: %d", ln.valid, undecided), schedule.Workable(e.p, moreRounds))
	case len(ln.expected) > 0 && undecided == 0 && !e.p.Measure.Precisely:
		e.stop(ln, laneDone, "with its expectations decided", "")
	case !slices.ContainsFunc(ln.targets, func(t *iotax.Target) bool { return e.compared(ln, t) }):
		why := "with nothing to compare"
		if len(ln.dropped) > 0 {
			why = "with the best target known"
		}
		e.stop(ln, laneDone, why, "")
	case stat.Precise(ln.widest, e.run.Precision):
		e.stop(ln, laneDone, "precise to "+stat.PlusMinus(width, 2), "")
	case e.p.Measure.Starts() > 1 && b.Max >= stat.LeastTrials && !ln.widest.Bounded():
		e.stop(ln, laneDone, "too few starts for an interval", "")
	case b.Min == b.Max:
		e.stop(ln, laneDone, stat.PlusMinus(width, 2), "") // the plan sets a number of rounds, not a precision
	default:
		e.stop(ln, laneShort, "precision not reached: "+cmp.Or(ln.about, stat.PlusMinus(width, 2)), schedule.Workable(e.p, moreRounds))
	}
}

// missing returns a message if several trials of a target succeeded but none has a metric that ln needs, or else "".
func (e *engine) missing(ln *lane) (why string) {
	need := func(p *stat.Pairing, targets ...string) {
		for _, t := range targets {
			if n := ln.good[t]; why == "" && n >= failuresInARow && !p.Measured(t) {
				why = fmt.Sprintf("none of the %d trials of %s has %s", n, t, p.Metric)
			}
		}
	}
	base := e.run.BaselineOf(ln.plan.Name)
	for _, t := range ln.targets {
		for i := range ln.pairings {
			if e.compared(ln, t) {
				need(&ln.pairings[i], e.reference(ln, t), t.Name)
			}
		}
		for i := range ln.expected {
			if x := &ln.expected[i]; x.About(t.Name, base) {
				need(&x.pairing, t.Name)
			}
		}
	}
	return why
}

const moreRounds = "use more rounds (`--rounds 12..60`); use longer trials (`--trial 30s`) or a quieter machine"

// tally counts the valid rounds of the lane as the report does, and finds the widest interval of its targets and
// deciding metrics.
func (e *engine) tally(ln *lane) {
	ln.valid, ln.widest, ln.about = math.MaxInt, stat.Interval{Estimate: 1, Lo: 1, Hi: 1}, ""
	o := stat.Options{Alpha: e.run.Alpha, Autocorrelation: e.run.Calibration.Autocorrelation()}
	for _, t := range ln.targets {
		if !e.compared(ln, t) {
			continue
		}
		ref := e.reference(ln, t)
		for i := range ln.pairings {
			p := &ln.pairings[i]
			r, rounds, err := p.Interval(ref, t.Name, o)
			ln.valid = min(ln.valid, rounds)
			if few := (*stat.TooFewBeyond)(nil); errors.As(err, &few) {
				ln.about = fmt.Sprintf("%s of %s: %s", p.Metric, t.Name, err)
			}
			if err != nil || !r.Bounded() || !ln.widest.Bounded() {
				ln.widest = stat.Interval{Estimate: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
			} else if r.Hi/r.Lo > ln.widest.Hi/ln.widest.Lo {
				ln.widest = r
			}
		}
	}
	if ln.valid == math.MaxInt { // without comparisons, count the rounds of each target separately
		for _, t := range ln.targets {
			if ln.measures(t.Name) {
				_, alone, _ := ln.pairings[0].Interval(t.Name, t.Name, o)
				ln.valid = min(ln.valid, alone)
			}
		}
	}
	if ln.valid == math.MaxInt {
		ln.valid = 0
	}
}

// logRatios returns the log ratios of the first compared target that has any, or nil.
func (e *engine) logRatios(ln *lane) []float64 {
	for _, t := range ln.targets {
		if e.compared(ln, t) {
			if d, err := ln.pairings[0].LogRatios(e.reference(ln, t), t.Name); err == nil { // otherwise there are no ratios yet
				return d
			}
		}
	}
	return nil
}

// measures reports whether the target is neither given up nor dropped.
func (ln *lane) measures(target string) bool {
	return ln.failed[target] < failuresInARow && !ln.dropped[target]
}

// dropWorst drops, at an interim analysis, the targets shown not to be the best, except reference targets. It reports
// whether it dropped any.
func (e *engine) dropWorst(ln *lane) (found bool) {
	b := e.p.Measure.Rounds
	if e.p.Measure.Drop == "" || !stat.IsLook(ln.valid, b.Min, b.Max) {
		return false
	}
	var left []string
	for _, t := range ln.targets {
		if ln.measures(t.Name) {
			left = append(left, t.Name)
		}
	}
	o := stat.Options{Alpha: e.run.Alpha / float64(max(1, len(ln.targets)-1)), Autocorrelation: e.run.Calibration.Autocorrelation()}
	behind := map[string]int{}
	for i := range ln.pairings {
		for t := range ln.pairings[i].Behind(left, o) {
			behind[t]++
		}
	}
	for _, t := range left {
		reference := slices.ContainsFunc(ln.targets, func(o *iotax.Target) bool { return e.reference(ln, o) == t })
		if behind[t] == len(ln.pairings) && !reference {
			ln.dropped[t], found = true, true
			e.run.Findings = mergeFindings(e.run.Findings, []iotax.Finding{rules.TargetDropped.Found(iotax.AboutCell(t, ln.plan.Name), "%s is surely not the best after %d rounds, and was not measured further", t, ln.valid)})
		}
	}
	if found {
		e.tally(ln)
	}
	return found
}

// compared reports whether t is compared with another target and neither is given up or dropped.
func (e *engine) compared(ln *lane, t *iotax.Target) bool {
	ref := e.reference(ln, t)
	return ref != "" && ln.measures(ref) && ln.measures(t.Name)
}

func (e *engine) stop(ln *lane, s laneState, why, hint string) {
	ln.state, ln.why, ln.hint = s, why, hint
	e.d.Progress(Event{Kind: CellsDone, Workload: ln.plan.Name, Text: why, Short: s == laneShort})
}

// again returns the hint for a workload with failed or discarded trials.
func (e *engine) again() string {
	return "see why trials failed or are discarded (`iotax show`); after you remove the cause, " + e.resume() + " measures what is missing"
}

// resume returns the command that resumes the run, as text for a hint.
func (e *engine) resume() string {
	if e.shard.Divided() {
		return "the same command (`--id " + iotax.Quote(e.run.ID) + "`)"
	}
	return "`iotax run --resume=" + iotax.Quote(e.run.ID) + "`"
}

// cutShort adds a finding for each workload that stopped early. If the budget ended the workload, the hint shows how
// to resume the run.
func (e *engine) cutShort() {
	left, b := e.begun.Sub(e.from)+e.reopening(), e.p.Measure.Rounds // a resumed run opens everything again
	for _, ln := range e.lanes {
		if ln.state == laneShort && ln.hint == "" {
			left += e.roundTime(ln) * time.Duration(max(0, b.Max-ln.valid))
		}
	}
	about := "about "
	if b.Min < b.Max {
		about = "at most "
	}
	hint := e.resume() + " measures the rest, in " + about + plan.Duration(left.Round(time.Second)).String()
	if budget := time.Duration(e.p.Measure.Budget); left > budget {
		hint = e.resume() + " continues for another " + e.p.Measure.Budget.String()
	}
	for _, ln := range e.lanes {
		if ln.state == laneShort {
			e.run.Findings = mergeFindings(e.run.Findings, []iotax.Finding{rules.StoppedEarly.Hinting(cmp.Or(ln.hint, hint)).
				Found(iotax.AboutWorkload(ln.plan.Name), "%s: %s", ln.plan.Name, ln.why)})
		}
	}
}

func (e *engine) event(kind EventKind, ln *lane, t *iotax.Trial) Event {
	ev := Event{Kind: kind, Target: t.Target, Workload: ln.plan.Name, Round: ln.valid, Rounds: e.p.Measure.Rounds.Max,
		Trial: t, Metric: ln.metrics()[0], Elapsed: e.d.Now().Sub(e.begun)}
	if r := ln.widest; r.N > 0 && r.Bounded() && !math.IsInf(r.HalfWidth(), 0) {
		ev.HalfWidth = r.HalfWidth()
	}
	if b := e.p.Measure.Rounds; !e.p.Measure.Fixed() && b.Min < b.Max {
		ev.Precision = e.run.Precision
	}
	for _, l := range e.lanes {
		if l.state != laneOpen {
			continue
		}
		ev.Left += e.roundTime(l) * time.Duration(max(0, e.p.Measure.Rounds.Max-l.valid))
		for target := range ln.inRound {
			if l == ln && l.valid < e.p.Measure.Rounds.Max && l.measures(target) {
				ev.Left -= e.each(l, target)
			}
		}
	}
	if ev.Left > 0 {
		ev.Left += e.reopening()
	}
	if b := time.Duration(e.p.Measure.Budget); b > 0 {
		ev.Left = min(ev.Left, max(0, b-e.d.Now().Sub(e.from)))
	}
	return ev
}

// each returns the estimated time of all trials of l on a target in one round.
func (e *engine) each(l *lane, target string) time.Duration {
	return time.Duration(len(e.ways(l))) * e.trialTime(l, target)
}

// trialTime returns the estimated time of a trial of l on a target: the mean of the earlier successful trials of this
// process, or else the planned time plus an overhead. If l and a workload that was measured on the target both have a
// measurement window, the overhead is the measured one. Otherwise, the overhead is from Options.Around.
func (e *engine) trialTime(l *lane, target string) time.Duration {
	if t := l.times[target]; t.N > 0 {
		return t.Mean()
	}
	planned := schedule.TrialTime(e.p, &l.plan)
	if t := e.extra[target]; t.N > 0 && l.w.Caps().Limit == 0 {
		return planned + t.Mean()
	}
	return planned + e.around[schedule.Cell{Workload: l.plan.Name, Target: target}]
}

var errNothing = errors.New("the workload did nothing")
