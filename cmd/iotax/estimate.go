package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/machine/qemu"
	"iotax/internal/plan"
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
	i := slices.IndexFunc(p.Machines, func(m plan.Machine) bool { return m.Name == machine })
	switch {
	case machine == plan.Host || i < 0:
		return assumedHere
	case p.Machines[i].Kind == "node":
		return assumption{time.Second, assumedHere.place, assumedHere.prepare, assumedHere.around}
	case p.Machines[i].Kind != "qemu":
		return assumedThere
	case accel == "tcg":
		return assumedEmulated
	}
	return assumedGuest
}

// assumedCosts are the costs of a plan of which no run is known.
func assumedCosts(p *plan.Plan) plan.Costs {
	c := plan.Costs{Around: map[string]time.Duration{}}
	accel := qemu.Known(cacheDir())
	for _, m := range p.Machines {
		c.Open += assume(p, m.Name, accel).boot
	}
	for _, t := range p.Targets {
		a := assume(p, t.On, accel)
		c.Open += a.place
		c.Around[t.Name] = a.around
		for _, w := range p.Workloads {
			if w.Done(t.Name) {
				c.Open += a.prepare
			}
		}
	}
	c.Open += time.Duration(float64(testBytes(p)) / assumedWrite * float64(time.Second))
	return c
}

// searchedRuns bounds how many runs of the same name are searched for one of the same plan.
const searchedRuns = 20

// costsOf returns the costs of p, as the last run of the same targets and workloads on this host in db had them, and the id of that run. Work that ends
// by itself is then assumed to take what it took. Without such a run the costs are assumed, and the id is "". A run that cannot be read is
// noted and skipped, because no measurement depends on the estimate. The error is that of ctx.
func costsOf(ctx context.Context, db *store.Store, p *plan.Plan, note func(string, ...any)) (c plan.Costs, from string, err error) {
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
func took(c *plan.Costs, p, q *plan.Plan, r *iotax.Run, trials []*iotax.Trial) bool {
	around, whole := map[string]stat.Timing{}, map[string]stat.Timing{}
	for _, t := range trials {
		opened, _ := time.ParseDuration(t.Facts[iotax.FactMachineOpened]) // 0 on a machine that was there before
		i := slices.IndexFunc(p.Workloads, func(w plan.Workload) bool { return w.Name == t.Workload })
		switch {
		case t.Err != "" || i < 0:
		case t.Length > 0:
			around[t.Target] = around[t.Target].Add(opened + t.Took - time.Duration(q.Measure.Settle) - t.Ramp - t.Length)
		default:
			whole[t.Workload] = whole[t.Workload].Add(opened + t.Took - time.Duration(q.Measure.Settle))
		}
	}
	if len(around)+len(whole) == 0 {
		return false
	}
	if setup, err := time.ParseDuration(r.Environment[iotax.FactSetupTime]); err == nil { // absent when the last process could not open the targets
		c.Open = setup
	}
	for name, t := range around {
		c.Around[name] = max(0, t.Mean())
	}
	for i := range p.Workloads {
		if t := whole[p.Workloads[i].Name]; t.N > 0 {
			p.Workloads[i].Assumed = t.Mean()
		}
	}
	return true
}

// costs is costsOf with the store of the command line, where there is one: plan neither makes nor needs one.
func (a *app) costs(ctx context.Context, p *plan.Plan) (plan.Costs, string, error) {
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

// testBytes is the size of the test files of all targets. The run reports a workload that cannot be made.
func testBytes(p *plan.Plan) (sum int64) {
	type file struct {
		target string
		size   int64
	}
	seen := map[file]bool{}
	for _, w := range p.Workloads {
		made, err := workload.New(w, workloadEnv())
		if err != nil {
			continue
		}
		space := made.Caps().Space
		if space == nil {
			continue
		}
		size := space()
		for _, t := range p.Targets {
			if f := (file{t.Name, size}); w.Done(t.Name) && !seen[f] {
				seen[f] = true
				sum += size
			}
		}
	}
	return sum
}

// planTime are lines about how long a run takes, and where the time goes.
func planTime(p *plan.Plan, c plan.Costs, from string) (lines []string) {
	least, most, rounds := p.Estimate(c)
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
	var lo, hi time.Duration
	for i, t := range p.Targets {
		d := c.Around[t.Name]
		if i == 0 || d < lo {
			lo = d
		}
		hi = max(hi, d)
	}
	if hi > 0 {
		around := elapsed(lo)
		if around != elapsed(hi) {
			around += " to " + elapsed(hi)
		}
		line("%s around each trial", around)
	}
	if least, _, _ := p.Estimate(plan.Costs{}); least >= worthCalibrating {
		line("10 s once a week to measure the noise floor (--calibrate=no leaves that out)")
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Assumed > 0 {
			line("%s ends by itself: %s for each trial is assumed until one has been measured", w.Name, elapsed(w.Assumed))
		}
	}
	return lines
}
