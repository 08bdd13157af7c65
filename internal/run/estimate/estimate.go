// Package estimate is how long a run will take: as the last run of the same plan on this host, or by assumptions.
package estimate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/calibrate"
	"iotax/internal/kinds"
	"iotax/internal/machine/qemu"
	"iotax/internal/plan"
	"iotax/internal/report/format"
	"iotax/internal/run/saved"
	"iotax/internal/store"
	"iotax/internal/terminal"
	"iotax/internal/workload"
	"iotax/stat"
)

// An assumption is what a kind of machine needs until a run of the same plan has been measured: to boot, to make a place ready, to
// prepare a workload there, and around each trial.
type assumption struct{ boot, place, prepare, around time.Duration }

var (
	here     = assumption{0, 200 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	node     = assumption{time.Second, here.place, here.prepare, here.around}
	there    = assumption{2 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond}
	guest    = assumption{4 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond, 600 * time.Millisecond}
	emulated = assumption{15 * time.Second, 4 * time.Second, 1500 * time.Millisecond, 2500 * time.Millisecond}
)

const assumedWrite = 150 << 20 // bytes of test files a second, through shares too

func assume(p *plan.Plan, machine, accel string) assumption {
	i := slices.IndexFunc(p.Machines, func(m plan.Machine) bool { return m.Name == machine })
	switch {
	case machine == plan.Host || i < 0:
		return here
	case p.Machines[i].Kind == "node":
		return node
	case p.Machines[i].Kind != "qemu":
		return there
	case accel == "tcg":
		return emulated
	}
	return guest
}

// Assumed are the costs of a plan of which no run is known.
func Assumed(p *plan.Plan) plan.Costs {
	c := plan.Costs{Around: map[string]time.Duration{}}
	accel := qemu.Known(iotax.CacheDir())
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
	c.Open += time.Duration(float64(TestBytes(p)) / assumedWrite * float64(time.Second))
	return c
}

// searchedRuns bounds how many runs of the same name are searched for one of the same plan.
const searchedRuns = 20

// Costs returns the costs of p, as the last run of the same targets and workloads on this host in db had them, and the id of that run. Work
// that ends by itself is then assumed to take as long as it took. Without such a run the costs are assumed, and the id is "". A run that
// cannot be read is noted and skipped, because no measurement depends on the estimate. The error is that of ctx.
func Costs(ctx context.Context, db *store.Store, p *plan.Plan, note func(string, ...any)) (c plan.Costs, from string, err error) {
	c = Assumed(p)
	without := func(what string, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		note("the estimate does not use %s: %v", what, err)
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return c, "", without("earlier runs", err)
	}
	runs, _, err := db.Find(ctx, store.Query{Name: p.Name, Limit: searchedRuns})
	if err != nil {
		return c, "", without("earlier runs", err)
	}
	for _, found := range runs {
		r, err := db.Get(ctx, found.ID)
		var q *plan.Plan
		var trials []*iotax.Trial
		if err == nil {
			if q = samePlan(p, r); q == nil || r.Imported() || saved.Divided(r) || cmp.Or(r.Environment[iotax.FactHostname], host) != host {
				continue
			}
			trials, err = saved.Trials(ctx, db, r.ID)
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

// samePlan returns the plan of r if that has the targets and workloads of p, else nil. How long and how often may differ.
func samePlan(p *plan.Plan, r *iotax.Run) *plan.Plan {
	q, err := kinds.Saved(r)
	if err != nil {
		return nil
	}
	alike := *q
	alike.Measure = p.Measure
	a, errA := p.YAML()
	b, errB := alike.YAML()
	if errA != nil || errB != nil || string(a) != string(b) {
		return nil
	}
	return q
}

// took puts into c what the run r of the plan q took, and reports whether r has trials that show it.
func took(c *plan.Costs, p, q *plan.Plan, r *iotax.Run, trials []*iotax.Trial) bool {
	around, whole := map[string]stat.Timing{}, map[string]stat.Timing{}
	for _, t := range trials {
		opened, _ := time.ParseDuration(t.Facts[iotax.FactMachineOpened]) // 0 on a machine that was there before
		i := slices.IndexFunc(p.Workloads, func(w plan.Workload) bool { return w.Name == t.Workload })
		switch d := opened + t.Took - time.Duration(q.Measure.Settle); {
		case t.Err != "" || i < 0:
		case t.Length > 0:
			around[t.Target] = around[t.Target].Add(d - t.Ramp - t.Length)
		default:
			whole[t.Workload] = whole[t.Workload].Add(d)
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

// TestBytes is the size of the test files of all targets. The run reports a workload that cannot be made.
func TestBytes(p *plan.Plan) (sum int64) {
	type file struct {
		target string
		size   int64
	}
	seen := map[file]bool{}
	for _, w := range p.Workloads {
		made, err := workload.New(w, kinds.Env())
		if err != nil || made.Caps().Space == nil {
			continue
		}
		size := made.Caps().Space()
		for _, t := range p.Targets {
			if f := (file{t.Name, size}); w.Done(t.Name) && !seen[f] {
				seen[f] = true
				sum += size
			}
		}
	}
	return sum
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
		what = append(what, "booting "+format.Plural(guests, "guest"))
	}
	if bytes := TestBytes(p); bytes > 0 {
		what = append(what, "writing "+plan.Size(bytes).String()+" of test files")
	}
	if len(what) == 0 {
		return ""
	}
	return " (" + strings.Join(what, ", ") + ")"
}

// span prints a length of time, or two if they differ.
func span(lo, hi time.Duration) string {
	from, to := terminal.Elapsed(lo), terminal.Elapsed(hi)
	if from == to {
		return from
	}
	return from + " to " + to
}

// Lines describe how long a run takes, and where the time goes. from is the run that c comes from.
func Lines(p *plan.Plan, c plan.Costs, from string) (lines []string) {
	least, most, rounds := p.Estimate(c)
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	source := "assumed; the first run measures it"
	if from != "" {
		source = "as in run " + from
	}
	line("about %s (%s)", span(least, max(least, most)), source)
	if rounds < p.Measure.Rounds.Max {
		line("the budget of %s ends it after about %s of %d", p.Measure.Budget, format.Plural(rounds, "round"), p.Measure.Rounds.Max)
	}
	line("%s to open, prepare and close%s", terminal.Elapsed(c.Open), opening(p))
	var around []time.Duration
	for _, t := range p.Targets {
		around = append(around, c.Around[t.Name])
	}
	if hi := slices.Max(around); hi > 0 {
		line("%s around each trial", span(slices.Min(around), hi))
	}
	if least, _, _ := p.Estimate(plan.Costs{}); least >= calibrate.Worthwhile {
		line("10 s once a week to measure the noise floor (--calibrate=no leaves that out)")
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Assumed > 0 {
			line("%s ends by itself: %s for each trial is assumed until one has been measured", w.Name, terminal.Elapsed(w.Assumed))
		}
	}
	return lines
}
