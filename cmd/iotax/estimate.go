package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/machine/qemu"
	"iotax/internal/plan"
	"iotax/internal/plan/schedule"
	"iotax/internal/store"
	"iotax/internal/workload"
	"iotax/stat"
)

// What a kind of machine is assumed to need, until a run of the same plan has been measured: to come up, to make a place ready
// there, to prepare a workload at it, and around each trial. The work of the last three is a few commands over there.
type assumption struct{ boot, place, prepare, around time.Duration }

var (
	assumedHere     = assumption{0, 200 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	assumedThere    = assumption{2 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond}
	assumedGuest    = assumption{4 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond, 600 * time.Millisecond}
	assumedEmulated = assumption{15 * time.Second, 4 * time.Second, 1500 * time.Millisecond, 2500 * time.Millisecond}
)

const assumedWrite = 150 << 20 // bytes of test files a second, through shares too

// assume finds the assumption about a machine of p.
func assume(p *plan.Plan, machine string, accel string) assumption {
	m, ok := p.Machine(machine)
	switch {
	case machine == plan.Host || !ok:
		return assumedHere
	case m.Kind == "node":
		return assumption{time.Second, assumedHere.place, assumedHere.prepare, assumedHere.around}
	case m.Kind != "qemu":
		return assumedThere
	case accel == "tcg":
		return assumedEmulated
	}
	return assumedGuest
}

// assumedCosts are the costs of a plan of which no run is known.
func assumedCosts(p *plan.Plan) schedule.Costs {
	c := schedule.Costs{Around: map[schedule.Cell]time.Duration{}}
	accel := qemu.Known(cacheDir())
	used := p.Used()
	for _, m := range p.Machines {
		if used[m.Name] {
			c.Open += assume(p, m.Name, accel).boot
		}
	}
	works := worksOf(p)
	piloted := map[string]bool{}
	for _, t := range p.Targets {
		if t.Traits().Gather == nil {
			c.Open += assume(p, t.On, accel).place
		}
		for i, w := range p.Workloads {
			if !w.Done(t.Name) {
				continue
			}
			var around time.Duration
			for _, name := range placesOf(t, w) { // those of a target made of others work at the same time
				at, _ := p.Target(name)
				a := assume(p, at.On, accel)
				each := a.around
				if p.EachTrial(at.On) {
					each += a.boot + a.place + a.prepare + writing(works[i].space)
				}
				c.Open += a.prepare
				around = max(around, each)
			}
			c.Around[schedule.Cell{Workload: w.Name, Target: t.Name}] = around
			if id := t.Name + "\x00" + works[i].pilot; works[i].pilot != "" && !piloted[id] {
				piloted[id] = true
				c.Open += workload.PilotTime + around
			}
		}
	}
	c.Open += writing(testBytes(p))
	return c
}

// writing is how long test files are assumed to take.
func writing(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / assumedWrite * float64(time.Second))
}

// searchedRuns bounds how many runs of the same name are searched for one of the same plan.
const searchedRuns = 20

// costsOf returns the costs of p, as the last run of the same targets and workloads on this host in db had them, and the id of that run. Work that ends
// by itself is then estimated to take what it took. Without such a run the costs are assumed, and the id is "". A run that cannot be read is
// noted and skipped, because no measurement depends on the estimate. The error is that of ctx.
func costsOf(ctx context.Context, db *store.Store, p *plan.Plan, note func(string, ...any)) (c schedule.Costs, from string, err error) {
	c = assumedCosts(p)
	without := func(what string, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		note("the estimate does not use %s: %v", what, err)
		return nil
	}
	here := hostname()
	runs, _, err := db.Find(ctx, store.Query{Name: p.Name, Limit: searchedRuns})
	if err != nil {
		return c, "", without("earlier runs", err)
	}
	for _, found := range runs {
		r, err := db.Get(ctx, found.ID)
		var q *plan.Plan
		var trials []*iotax.Trial
		if err == nil {
			var same bool
			if q, same = samePlan(p, r); !same || r.Imported() || divided(r) || cmp.Or(r.Environment[iotax.FactHostname], here) != here {
				continue
			}
			trials, err = measured(ctx, db, r.ID)
		}
		if err != nil {
			if err := without("run "+found.ID, err); err != nil {
				return c, "", err
			}
			continue
		}
		if took(&c, p, q, r, trials) {
			return c, r.ID, nil
		}
	}
	return c, "", nil
}

// samePlan returns the plan of r, and whether that has the targets and workloads of p. How long and how often may differ.
func samePlan(p *plan.Plan, r *iotax.Run) (q *plan.Plan, same bool) {
	q, err := plan.Parse("plan of run "+r.ID, r.Plan, kinds())
	if err != nil {
		return nil, false // another version of iotax wrote it
	}
	alike := *q
	alike.Measure = p.Measure
	a, errA := p.YAML()
	b, errB := alike.YAML()
	return q, errA == nil && errB == nil && string(a) == string(b)
}

// took puts into c what the run r of the plan q took, and reports whether r has trials that show it.
func took(c *schedule.Costs, p, q *plan.Plan, r *iotax.Run, trials []*iotax.Trial) bool {
	around := map[schedule.Cell]stat.Timing{}
	for _, t := range trials {
		opened, _ := time.ParseDuration(t.Facts[iotax.FactMachineOpened]) // 0 on a machine that was there before
		i := slices.IndexFunc(p.Workloads, func(w plan.Workload) bool { return w.Name == t.Workload })
		if t.Err != "" || i < 0 {
			continue
		}
		planned := time.Duration(q.Measure.Settle) + t.Ramp + t.Length
		if t.Length == 0 {
			planned += p.Workloads[i].Assumed
		}
		cell := schedule.Cell{Workload: t.Workload, Target: t.Target}
		around[cell] = around[cell].Add(opened + t.Took - planned)
	}
	if len(around) == 0 {
		return false
	}
	if setup, err := time.ParseDuration(r.Environment[iotax.FactSetupTime]); err == nil { // absent when the last process could not open the targets
		c.Open = setup
	}
	for cell, t := range around {
		c.Around[cell] = t.Mean()
	}
	return true
}

// costs is costsOf with the store of the command line, where there is one: plan neither makes nor needs one.
func (a *app) costs(ctx context.Context, p *plan.Plan) (schedule.Costs, string, error) {
	if !store.Exists(a.store) {
		return assumedCosts(p), "", nil
	}
	note := func(format string, args ...any) { fmt.Fprintf(a.err, "iotax: "+format+"\n", args...) }
	db, err := store.Open(ctx, a.store)
	if err != nil {
		note("the estimate does not use earlier runs: %v", err)
		return assumedCosts(p), "", nil
	}
	defer db.Close()
	return costsOf(ctx, db, p, note)
}

// opening lists the work before the first trial.
func opening(p *plan.Plan) string {
	guests := 0
	for _, m := range p.Machines {
		if m.Kind == "qemu" {
			guests++
		}
	}
	var what []string
	if guests > 0 {
		what = append(what, "booting "+count(guests, "guest"))
	}
	if bytes := testBytes(p); bytes > 0 {
		what = append(what, "writing "+plan.Size(bytes).String()+" of test files")
	}
	if len(what) == 0 {
		return ""
	}
	return " (" + strings.Join(what, ", ") + ")"
}

// A work is what an estimate needs of a workload: the bytes that it puts at a place, and what it has in common with workloads of
// the same pilot, "" without one.
type work struct {
	space int64
	pilot string
}

// worksOf is for each workload of p. The run reports a workload that cannot be made.
func worksOf(p *plan.Plan) []work {
	out := make([]work, len(p.Workloads))
	for i, w := range p.Workloads {
		made, err := workload.New(w, workloadEnv())
		if err != nil {
			continue
		}
		can := made.Caps()
		if can.Space != nil {
			out[i].space = can.Space()
		}
		if job, err := w.Job(); err == nil && can.Pilot != nil {
			delete(job, "load") // workloads that differ in their load alone look once
			out[i].pilot = iotax.JobText(job)
		}
	}
	return out
}

// placesOf are the targets at whose places w works when it is done at t.
func placesOf(t plan.Target, w plan.Workload) []string {
	switch can := t.Traits(); {
	case can.Encloses:
		return []string{*can.Of}
	case can.Gather != nil && can.Gather.Doing == w.Name && !w.Done(t.Name):
		return can.Gather.At
	case can.Gather != nil:
		return can.Gather.Together
	}
	return []string{t.Name}
}

// testBytes is the size of the test files of all targets. Workloads of one size share theirs.
func testBytes(p *plan.Plan) (sum int64) {
	type file struct {
		target string
		size   int64
	}
	seen := map[file]bool{}
	works := worksOf(p)
	for i, w := range p.Workloads {
		for _, t := range p.Targets {
			if g := t.Traits().Gather; !w.Done(t.Name) && (g == nil || g.Doing != w.Name) {
				continue
			}
			for _, name := range placesOf(t, w) {
				if f := (file{name, works[i].space}); !seen[f] {
					seen[f] = true
					sum += f.size
				}
			}
		}
	}
	return sum
}

// planTime are lines about how long a run takes, and where the time goes.
func planTime(p *plan.Plan, c schedule.Costs, from string) (lines []string) {
	least, most, rounds := schedule.Estimate(p, c)
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	total := "about " + elapsed(least)
	if most > least {
		total += " to " + elapsed(most)
	}
	if from == "" {
		total += " (assumed; the first run measures it)"
	} else {
		total += " (as in run " + from + ")"
	}
	line("%s", total)
	if rounds < p.Measure.Rounds.Max {
		line("the budget of %s ends it after about %s of %d", p.Measure.Budget, count(rounds, "round"), p.Measure.Rounds.Max)
	}
	line("%s to open, prepare and close%s", elapsed(c.Open), opening(p))
	var around []time.Duration
	for i := range p.Workloads {
		for _, t := range p.Targets {
			if w := &p.Workloads[i]; w.Assumed == 0 && w.Done(t.Name) {
				around = append(around, max(0, c.Around[schedule.Cell{Workload: w.Name, Target: t.Name}]))
			}
		}
	}
	if len(around) > 0 && slices.Max(around) > 0 {
		lo, hi := elapsed(slices.Min(around)), elapsed(slices.Max(around))
		if lo != hi {
			lo += " to " + hi
		}
		line("%s around each trial", lo)
	}
	if worthIt(p) {
		if aa, err := calibrate.AA(p, p.Baseline, calibrate.Brief(), kinds()); err == nil { // else the run reports why
			line("%s once a week to measure the noise floor (--calibrate=no leaves that out)", elapsed(calibrationTime(aa)))
		}
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Assumed > 0 && from == "" {
			line("%s ends by itself: %s for each trial is assumed until one has been measured", w.Name, elapsed(w.Assumed))
		}
	}
	if p.Measure.Prepare != "" && from == "" {
		line("the command of prepare comes on top, before each trial")
	}
	return lines
}
