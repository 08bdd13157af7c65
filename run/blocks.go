package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/plan"
	"iotax/stat"
)

const (
	// A cell that fails this often in a row is not tried again; its failures stay in the report.
	failuresInARow = 3
	// A workload gives up when more than this share of its blocks do not count (and at least minLost).
	maxLostShare = 0.5
	minLost      = 6
)

// An engine runs the blocks of a rig. Its only state is what the trials say, so a resumed run
// starts from the stored ones.
type engine struct {
	run    *iotax.Run
	p      *plan.Plan
	d      Deps
	rig    *rig
	lanes  []*lane
	shard  Shard
	ledger ledger
	seq    int // of the next trial, as the shard counts

	begun time.Time
}

// A lane is the progress of one workload: its blocks, and whether it needs more.
type lane struct {
	*load
	index   int
	pairing stat.Pairing   // of the first metric
	block   int            // index of the next block, as the shard counts
	took    time.Duration  // by the last block
	inBlock int            // trials that the block at hand has already
	done    int            // trials of this process, those before a resume left out
	needed  time.Duration  // by them
	ran     int            // whole blocks, those that do not count included
	valid   int            // blocks that count: the pairs of the target that has fewest
	widest  stat.Interval  // of the ratios; without bounds where one cannot be had yet
	failed  map[string]int // by target, in a row
	good    map[string]int // by target: trials that did not fail
	state   laneState
	why     string
}

type laneState int

const (
	laneOpen  laneState = iota
	laneDone            // precise enough, or as long as the protocol says
	laneShort           // stopped before that
)

func newEngine(run *iotax.Run, p *plan.Plan, d Deps, r *rig, shard Shard, earlier []*iotax.Trial) *engine {
	e := &engine{run: run, p: p, d: d, rig: r, shard: shard, ledger: ledger{reviewValues: d.ReviewValues, reviewFacts: d.ReviewFacts}}
	for _, t := range earlier {
		var metrics []string
		for _, l := range r.loads {
			if l.plan.Name == t.Workload {
				metrics = l.w.Metrics()
			}
		}
		e.ledger.add(t, metrics)
		e.seq = max(e.seq, shard.localSeq(t.Seq)+1)
	}
	for i, l := range r.loads {
		if l.plan.Aside {
			continue
		}
		ln := &lane{load: l, index: i, failed: map[string]int{}, good: map[string]int{},
			pairing: stat.Pairing{Metric: l.w.Metrics()[0], SetAside: true}}
		e.lanes = append(e.lanes, ln)
		byBlock := map[int][]*iotax.Trial{}
		for _, t := range earlier {
			if t.Workload == l.plan.Name {
				ln.pairing.Add(t)
				b := shard.local(t.Block)
				byBlock[b] = append(byBlock[b], t)
				ln.block = max(ln.block, b+1)
			}
		}
		for b := range ln.block {
			// What failed before is not held against a target that gets another chance; the pairs
			// that lack there are made up for.
			if len(byBlock[b]) >= len(l.targets) && !slices.ContainsFunc(byBlock[b], func(t *iotax.Trial) bool { return t.Err != "" }) {
				ln.beginBlock()
				for _, t := range byBlock[b] {
					ln.account(t)
				}
			}
		}
		e.tally(ln)
		e.judge(ln)
	}
	return e
}

// complete reports whether every cell reached what the plan asks.
func (e *engine) complete() bool {
	for _, ln := range e.lanes {
		if ln.state != laneDone || len(ln.targets) < ln.wanted {
			return false
		}
		for _, t := range ln.targets {
			if ln.good[t.Name] < e.p.Measure.Blocks.Min {
				return false
			}
		}
	}
	return true
}

// measure runs blocks in rotation over the workloads that still need some.
func (e *engine) measure(ctx context.Context) error {
	e.begun = e.d.Now()
	for {
		busy := false
		for _, ln := range e.lanes {
			if ln.state != laneOpen {
				continue
			}
			busy = true
			if e.spent(ln) {
				e.stop(ln, laneShort, "the budget of "+phrase(time.Duration(e.p.Measure.Budget))+" is spent", budgetSpent)
				continue
			}
			last, err := e.runBlock(ctx, ln)
			if err != nil {
				return err
			}
			e.tally(ln)
			if last != nil {
				e.d.Progress(e.event(BlockDone, ln, last))
			}
			e.judge(ln)
		}
		if !busy {
			return nil
		}
	}
}

// spent reports whether another block of ln would go beyond the budget.
func (e *engine) spent(ln *lane) bool {
	budget := time.Duration(e.p.Measure.Budget)
	return budget > 0 && e.d.Now().Sub(e.begun)+e.blockTime(ln) > budget
}

// blockTime is how long the next block will take: as long as the last one, where that is not in the plan.
func (e *engine) blockTime(ln *lane) time.Duration {
	m := e.p.Measure
	if _, ok := ln.w.(iotax.Completer); ok {
		return ln.took
	}
	return time.Duration(len(ln.targets)) * (time.Duration(m.Settle+m.Ramp) + m.Length(ln.plan))
}

// runBlock runs one trial of every target, in the order that the seed gives, and returns the last.
func (e *engine) runBlock(ctx context.Context, ln *lane) (last *iotax.Trial, err error) {
	block := e.shard.block(ln.block)
	ln.block++
	seed := plan.BlockSeed(e.run.Seed, ln.plan.Name, block)
	ln.beginBlock()
	defer func() { ln.inBlock = 0 }()
	for _, i := range plan.Order(e.run.Seed+uint64(ln.index), len(ln.targets), block) {
		target := ln.targets[i]
		if ln.failed[target.Name] >= failuresInARow {
			continue
		}
		t := e.newTrial(ln, target, block, seed)
		e.d.Progress(e.event(Starting, ln, t))
		left := e.attempt(ctx, ln, target, t)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // an interrupted trial is nobody's result
		}
		for i := range t.Findings {
			t.Findings[i].Mend = e.p.Workable(t.Findings[i].Mend)
		}
		// Saved under a context of its own: a trial that finished is not lost to a late interrupt.
		if err := e.d.Save(context.WithoutCancel(ctx), t); err != nil {
			return nil, opError("save trial", t.Cell(), err, "")
		}
		if left != nil {
			return nil, left
		}
		e.ledger.add(t, ln.w.Metrics())
		ln.pairing.Add(t)
		ln.account(t)
		last = t
		ln.inBlock++
		ln.done, ln.needed = ln.done+1, ln.needed+t.Took
		e.d.Progress(e.event(Finished, ln, t))
	}
	return last, nil
}

// attempt fills t, on the machine that stands or on one that is opened for it. An error means that
// something was left behind.
func (e *engine) attempt(ctx context.Context, ln *lane, target *iotax.Target, t *iotax.Trial) error {
	pt, _ := e.rig.planTarget(target.Name)
	if !e.p.EachTrial(pt.On) {
		runTrial(ctx, e.d, ln.w, target, t, e.p.Measure)
		return nil
	}
	part, fresh, err := e.rig.renew(ctx, ln.load, target)
	if err == nil {
		runTrial(ctx, e.d, ln.w, fresh, t, e.p.Measure)
		t.Facts["machine.fresh"] = "yes"
	} else {
		t.Start, t.Err = e.d.Now(), err.Error()
	}
	return part.close(context.WithoutCancel(ctx))
}

func (e *engine) newTrial(ln *lane, target *iotax.Target, block int, seed uint64) *iotax.Trial {
	m := e.p.Measure
	t := &iotax.Trial{Run: e.run.ID, Target: target.Name, Workload: ln.plan.Name,
		Block: block, Seq: e.shard.seq(e.seq), Seed: seed, Ramp: time.Duration(m.Ramp), Length: m.Length(ln.plan),
		Cold: m.Cold, Labels: target.Labels, Facts: e.shard.facts(e.run)}
	t.Facts[iotax.JobFact] = ln.job
	if _, ok := ln.w.(iotax.Completer); ok {
		t.Ramp, t.Length = 0, 0
	}
	e.seq++
	return t
}

func (ln *lane) beginBlock() {
	ln.ran++
	ln.took, ln.inBlock = 0, 0
}

// account books a trial of the block at hand.
func (ln *lane) account(t *iotax.Trial) {
	ln.took += t.Took
	if t.Err != "" {
		ln.failed[t.Target]++
	} else {
		ln.failed[t.Target] = 0
		ln.good[t.Target]++
	}
}

// judge decides whether ln needs another block.
func (e *engine) judge(ln *lane) {
	if ln.failed[e.run.Baseline] >= failuresInARow {
		e.stop(ln, laneShort, fmt.Sprintf("%s failed %d times in a row on the baseline", ln.plan.Name, failuresInARow), trialsFail)
		return
	}
	if !slices.ContainsFunc(ln.targets, func(t *iotax.Target) bool { return ln.failed[t.Name] < failuresInARow }) {
		e.stop(ln, laneShort, fmt.Sprintf("no target is left on which %s can be done", ln.plan.Name), trialsFail)
		return
	}
	if lost := ln.ran - ln.valid; lost >= minLost && float64(lost) > maxLostShare*float64(ln.ran) {
		e.stop(ln, laneShort, fmt.Sprintf("%d of %d blocks do not count: a trial of theirs failed or was not valid", lost, ln.ran), trialsFail)
		return
	}
	b := e.p.Measure.Blocks
	if e.p.Measure.Fixed() {
		if ln.valid >= b.Max {
			e.stop(ln, laneDone, "as the protocol says", 0)
		}
		return
	}
	look, done := stat.Next(ln.valid, ln.widest, e.run.Precision, b.Min, b.Max)
	if !look {
		return
	}
	switch width := math.Sqrt(ln.widest.Hi/ln.widest.Lo) - 1; {
	case !slices.ContainsFunc(ln.targets, func(t *iotax.Target) bool { return e.compared(ln, t) }):
		e.stop(ln, laneDone, "with nothing to compare", 0)
	case !done:
	case stat.Precise(ln.widest, e.run.Precision):
		e.stop(ln, laneDone, "precise to "+plusMinus(width), 0)
	case b.Min == b.Max:
		e.stop(ln, laneDone, plusMinus(width), 0) // a number of blocks was asked for, and no precision
	default:
		e.stop(ln, laneShort, "precision not reached: "+plusMinus(width), notPrecise)
	}
}

// tally counts the blocks behind the lane's ratios, and finds the widest interval of its first metric over
// its targets. A block counts as the report will count it: not when a trial is void, not when one is set
// aside because of an error beside its number, and not for a target whose trial failed in it. So a block
// that is lost in one of these ways is run again, as long as the budget lasts.
func (e *engine) tally(ln *lane) {
	ln.valid, ln.widest = math.MaxInt, stat.Interval{Estimate: 1, Lo: 1, Hi: 1}
	for _, t := range ln.targets {
		if !e.compared(ln, t) {
			continue
		}
		ref := e.reference(ln, t)
		base, target, better := ln.pairing.Pairs(ref, t.Name)
		d, err := stat.Pair(base, target, better)
		r := stat.Interval{Estimate: math.NaN(), Lo: math.NaN(), Hi: math.NaN(), N: len(d)}
		if err == nil && len(d) > 0 {
			r, err = stat.Hull(d, stat.Options{Alpha: e.run.Alpha, Autocorrelation: e.run.Calibration.Autocorrelation()})
		}
		ln.valid = min(ln.valid, len(base))
		if err != nil || !r.Bounded() || !ln.widest.Bounded() {
			ln.widest = stat.Interval{Estimate: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
		} else if r.Hi/r.Lo > ln.widest.Hi/ln.widest.Lo {
			ln.widest = r
		}
	}
	if ln.valid == math.MaxInt { // nothing is compared: each target counts alone
		for _, t := range ln.targets {
			if ln.failed[t.Name] < failuresInARow {
				alone, _, _ := ln.pairing.Pairs(t.Name, t.Name)
				ln.valid = min(ln.valid, len(alone))
			}
		}
	}
	if ln.valid == math.MaxInt {
		ln.valid = 0
	}
}

// compared reports whether t is held against another target, and neither is given up.
func (e *engine) compared(ln *lane, t *iotax.Target) bool {
	ref := e.reference(ln, t)
	return ref != "" && ln.failed[ref] < failuresInARow && ln.failed[t.Name] < failuresInARow
}

// Why a lane stopped before it was done; each has other hints.
type shortage int

const (
	budgetSpent shortage = iota
	notPrecise
	trialsFail
)

// parts chooses from a hint what helps against s, and fills in the budget.
func (e *engine) parts(s shortage, hint string) string {
	p := strings.Split(strings.ReplaceAll(hint, "TIME", e.moreTime()), "; ")
	switch s {
	case budgetSpent:
		p = []string{p[0], p[2]}
	case notPrecise:
		p = p[1:3]
	default:
		p = p[3:]
	}
	return e.p.Workable(strings.Join(p, "; "))
}

// moreTime is the budget that the blocks asked for would have needed at the pace so far, and a tenth more: the least
// number of blocks where not all workloads have that many, else the most.
func (e *engine) moreTime() string {
	blocks, took := e.p.Measure.Blocks.Max, time.Duration(0)
	for _, ln := range e.lanes {
		if ln.valid < e.p.Measure.Blocks.Min {
			blocks = e.p.Measure.Blocks.Min
		}
		took += ln.needed
	}
	var whole time.Duration
	for _, ln := range e.lanes {
		whole += e.each(ln) * time.Duration(blocks*len(ln.targets))
	}
	if elapsed := e.d.Now().Sub(e.begun); took > 0 && elapsed > took { // what passes between trials, too
		whole = time.Duration(float64(whole) * (elapsed.Seconds() / took.Seconds()))
	}
	return plan.WholeMinutes(max(whole+whole/10, time.Duration(e.p.Measure.Budget)+time.Minute))
}

func (e *engine) stop(ln *lane, s laneState, why string, short shortage) {
	ln.state, ln.why = s, why
	if s == laneShort {
		e.run.Findings = mergeFindings(e.run.Findings, []iotax.Finding{{Rule: "stopped-early", Severity: iotax.Warning, Workload: ln.plan.Name,
			Evidence: ln.plan.Name + ": " + why,
			Mend:     e.parts(short, "give it more time (`--budget TIME`); use more blocks (`--blocks 12..60`); use longer trials (`--trial 30s`) or a quieter machine; see why trials failed or are void (`iotax show`)")}})
	}
	e.d.Progress(Event{Kind: CellsDone, Workload: ln.plan.Name, Text: why, Short: s == laneShort})
}

func (e *engine) event(kind EventKind, ln *lane, t *iotax.Trial) Event {
	ev := Event{Kind: kind, Target: t.Target, Workload: t.Workload, Block: ln.valid, Blocks: e.p.Measure.Blocks.Max,
		Trial: t, Metric: ln.w.Metrics()[0], Elapsed: e.d.Now().Sub(e.begun)}
	if r := ln.widest; r.N > 0 && r.Bounded() && !math.IsInf(r.HalfWidth(), 0) {
		ev.HalfWidth = r.HalfWidth()
	}
	if b := e.p.Measure.Blocks; !e.p.Measure.Fixed() && b.Min < b.Max {
		ev.Precision = e.run.Precision
	}
	m := e.p.Measure
	var took time.Duration
	for _, l := range e.lanes {
		if l.state == laneOpen {
			left := max(0, m.Blocks.Max-l.valid) * len(l.targets)
			if l == ln {
				left -= ln.inBlock
			}
			ev.Left += e.each(l) * time.Duration(max(0, left))
		}
		took += l.needed
	}
	if took > 0 && ev.Elapsed > took { // what passes between trials, too
		ev.Left = time.Duration(float64(ev.Left) * (ev.Elapsed.Seconds() / took.Seconds()))
	}
	if b := time.Duration(m.Budget); b > 0 {
		ev.Left = min(ev.Left, max(0, b-ev.Elapsed))
	}
	return ev
}

// each is how long a trial of l will take: what one has needed so far; before the first, what the plan says
// or its kind is assumed to take.
func (e *engine) each(l *lane) time.Duration {
	if l.done > 0 {
		return l.needed / time.Duration(l.done)
	}
	return e.p.TrialTime(&l.plan)
}

// plusMinus prints the half width of an interval, unless that is no information.
func plusMinus(x float64) string {
	if !(x <= 1) {
		return "too noisy (wider than ± 100 %)"
	}
	return fmt.Sprintf("± %.2g %%", 100*x)
}

var errNothing = errors.New("the workload did nothing")
