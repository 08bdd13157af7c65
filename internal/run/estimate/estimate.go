// Package estimate estimates how long a run takes, from the last run of the same plan on this host or from
// assumptions.
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
	"iotax/internal/plan/schedule"
	"iotax/internal/report/format"
	"iotax/internal/run/saved"
	"iotax/internal/store"
	"iotax/internal/terminal"
	"iotax/internal/workload"
	"iotax/internal/workload/fiojob"
	"iotax/stat"
)

// An assumption contains the times assumed for a kind of machine until a run of the same plan has been measured. `boot`
// is the time to boot the machine, `place` the time to attach a place, `prepare` the time to prepare a workload, and
// `around` the overhead of each trial.
type assumption struct{ boot, place, prepare, around time.Duration }

var (
	here     = assumption{0, 200 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	node     = assumption{time.Second, here.place, here.prepare, here.around}
	there    = assumption{2 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond}
	guest    = assumption{4 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond, 600 * time.Millisecond}
	emulated = assumption{8 * time.Second, 2 * time.Second, 1500 * time.Millisecond, 1200 * time.Millisecond}
)

const assumedWrite = 150 << 20 // assumed speed of writing test files, in B/s, with or without a share

func assume(p *plan.Plan, machine, accel string) assumption {
	m, ok := p.Machine(machine)
	switch {
	case machine == plan.Host || !ok:
		return here
	case m.Kind == "node":
		return node
	case m.Kind != "qemu":
		return there
	case accel == "tcg":
		return emulated
	}
	return guest
}

// Assumed returns assumed costs, for a plan that has not been measured yet.
func Assumed(p *plan.Plan) schedule.Costs {
	c := schedule.Costs{Around: map[schedule.Cell]time.Duration{}}
	accel, _ := qemu.Known(iotax.CacheDir())
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
			for _, name := range placesOf(t, w) { // the members of a combined target work at the same time
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
				c.Open += fiojob.PilotTime + around
			}
		}
	}
	c.Open += writing(TestBytes(p))
	return c
}

const (
	longRun     = 10 * time.Minute // a run is long if the trials of its minimum number of rounds take at least this long
	reopenShare = 4                // a start may take at most 1/reopenShare of the time of a round
)

// Restart gives each round of a long run its own start if a start boots a guest or makes a container, a pod or a
// server. A start must add at most a quarter to the time of a round, and the budget must still suffice for the minimum
// number of rounds. Restart does not change a plan with restarts, with drop, or with a fixed number of rounds. It uses
// assumed costs, because measured costs differ from run to run, and the number of starts should not.
func Restart(p *plan.Plan) {
	m := &p.Measure
	if m.Restarts != 0 || m.Drop != "" || m.Rounds.Min == m.Rounds.Max || !slices.ContainsFunc(p.Targets, func(t plan.Target) bool { return restartable(p, t) }) {
		return
	}
	least, _, _ := schedule.Estimate(p, schedule.Costs{})
	var round time.Duration
	for i := range p.Workloads {
		round += schedule.RoundTime(p, &p.Workloads[i])
	}
	costs := Assumed(p)
	if least < longRun || costs.Open > round/reopenShare {
		return
	}
	m.Restarts = m.Rounds.Max
	if _, _, rounds := schedule.Estimate(p, costs); rounds < m.Rounds.Min { // the budget would end the run before its minimum number of rounds
		m.Restarts = 0
	}
}

// restartable reports whether a start makes the machine of t, a container on it, or a server of t's volume. It returns
// false if the machine is restarted for each trial anyway.
func restartable(p *plan.Plan, t plan.Target) bool {
	if p.EachTrial(t.On) {
		return false
	}
	m, _ := p.Machine(t.On)
	return slices.Contains([]string{"qemu", "docker", "podman", "k8s", "container"}, m.Kind) || len(t.In) > 0 || slices.Contains([]string{"nbd", "nfs", "bucket"}, t.Kind)
}

// writing returns the assumed time to write test files.
func writing(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / assumedWrite * float64(time.Second))
}

// searchedRuns limits how many runs with the same name Costs searches.
const searchedRuns = 20

// Costs returns the costs measured by the last run in db with the targets and workloads of p on this host, and the id
// of that run. It searches at most searchedRuns runs with the name of p. If none matches, or db is nil, it returns
// assumed costs and "". `mode` is the way in which the run calibrates. If Costs cannot read a run, it calls `note` with
// the error and skips the run, because no measurement depends on the estimate. It fails only if ctx ends, with the
// cause of ctx.
func Costs(ctx context.Context, db *store.Store, p *plan.Plan, mode calibrate.Mode, note func(string, ...any)) (c schedule.Costs, from string, err error) {
	c = Assumed(p)
	c.Before = calibrate.Ahead(p, mode, kinds.All())
	if db == nil {
		return c, "", nil
	}
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

// samePlan returns the plan of r if it equals p except for the measure settings, and nil otherwise.
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

// took sets the costs in c to those measured by run r of plan q. It returns false if r has no usable trials.
func took(c *schedule.Costs, p, q *plan.Plan, r *iotax.Run, trials []*iotax.Trial) bool {
	around := map[schedule.Cell]stat.Timing{}
	for _, t := range trials {
		opened, _ := time.ParseDuration(t.Facts[iotax.FactMachineOpened]) // 0 on a machine that was already open
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
	if setup, err := time.ParseDuration(r.Environment[iotax.FactSetupTime]); err == nil { // absent if opening failed
		c.Open = setup
	}
	for cell, t := range around {
		c.Around[cell] = t.Mean()
	}
	return true
}

// Done returns the number of rounds of p that trials contain, by workload: the smallest number of valid trials on any
// of its targets, at most the maximum number of rounds of p.
func Done(p *plan.Plan, trials []*iotax.Trial) map[string]int {
	valid := map[schedule.Cell]int{}
	for _, t := range trials {
		if t.Err == "" && t.Discarded == "" {
			valid[schedule.Cell{Workload: t.Workload, Target: t.Target}]++
		}
	}
	done := map[string]int{}
	for _, w := range p.Workloads {
		least := p.Measure.Rounds.Max
		for _, t := range p.Targets {
			if w.Done(t.Name) {
				least = min(least, valid[schedule.Cell{Workload: w.Name, Target: t.Name}])
			}
		}
		done[w.Name] = least
	}
	return done
}

// work contains the properties of a workload that an estimate needs. `space` is the number of bytes that the workload
// writes to a place. `pilot` is equal for workloads that share a pilot, and "" for a workload without one.
type work struct {
	space int64
	pilot string
}

// worksOf returns the work of each workload of p. A workload that cannot be created has a zero work, because the run
// reports the error.
func worksOf(p *plan.Plan) []work {
	out := make([]work, len(p.Workloads))
	for i, w := range p.Workloads {
		made, err := workload.New(w, kinds.Env())
		if err != nil {
			continue
		}
		can := made.Caps()
		if can.Space != nil {
			out[i].space = can.Space()
		}
		if job, err := w.Job(); err == nil && can.Pilot != nil {
			delete(job, "load") // workloads that differ only in their load share a pilot
			delete(job, "find")
			out[i].pilot = iotax.JobText(job)
		}
	}
	return out
}

// placesOf returns the targets whose places w uses when it runs on t.
func placesOf(t plan.Target, w plan.Workload) []string {
	switch can := t.Traits(); {
	case can.Gather != nil && can.Gather.Doing == w.Name && !w.Done(t.Name):
		return can.Gather.At
	case can.Gather != nil:
		return can.Gather.Together
	}
	return []string{t.Name}
}

// TestBytes returns the size of the test files of all targets in bytes, rounded up to whole MiB. On one target,
// workloads with the same size share a file.
func TestBytes(p *plan.Plan) (sum int64) {
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
	const mib = 1 << 20
	return (sum + mib - 1) / mib * mib
}

func guests(p *plan.Plan) (n int) {
	for _, m := range p.Machines {
		if m.Kind == "qemu" {
			n++
		}
	}
	return n
}

// opening describes the work before the first trial.
func opening(p *plan.Plan) string {
	var what []string
	if n := guests(p); n > 0 {
		what = append(what, "booting "+format.Plural(n, "guest"))
	}
	if bytes := TestBytes(p); bytes > 0 {
		what = append(what, "writing "+plan.Size(bytes).String()+" of test files")
	}
	if len(what) == 0 {
		return ""
	}
	return " (" + strings.Join(what, ", ") + ")"
}

// span formats a range of time, or one time if both print the same.
func span(lo, hi time.Duration) string {
	from, to := terminal.Elapsed(lo), terminal.Elapsed(hi)
	if from == to {
		return from
	}
	return from + " to " + to
}

// Lines describes how long a run takes and which steps take that time. `from` is the id of the run in which c was
// measured, or "" if c is assumed.
func Lines(p *plan.Plan, c schedule.Costs, from string) (lines []string) {
	least, most, rounds := schedule.Estimate(p, c)
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	source := "assumed; the first run measures it"
	if from != "" {
		source = "as in run " + from
	}
	line("about %s (%s)", span(least, max(least, most)), source)
	if rounds < p.Measure.Rounds.Max {
		line("the budget of %s ends it after about %s of %d", p.Measure.Budget, format.Plural(rounds, "round"), p.Measure.Rounds.Max)
	}
	each := ""
	if n := p.Measure.Starts(); n == p.Measure.Rounds.Max && n > 1 {
		each = ", for each round"
	} else if n > 1 {
		each = fmt.Sprintf(", %d times", n)
	}
	line("%s to open, prepare and close%s%s", terminal.Elapsed(c.Open), opening(p), each)
	var around []time.Duration
	for i := range p.Workloads {
		for _, t := range p.Targets {
			if w := &p.Workloads[i]; w.Assumed == 0 && w.Done(t.Name) {
				around = append(around, max(0, c.Around[schedule.Cell{Workload: w.Name, Target: t.Name}]))
			}
		}
	}
	if len(around) > 0 && slices.Max(around) > 0 {
		line("%s around each trial", span(slices.Min(around), slices.Max(around)))
	}
	if c.Before > 0 {
		line("%s to measure the noise floor, once a week (--calibrate=no leaves that out)", terminal.Elapsed(c.Before))
	}
	if _, tested := qemu.Known(iotax.CacheDir()); !tested && from == "" && guests(p) > 0 {
		line("assumed that guests are accelerated: iotax doctor tests that")
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Assumed > 0 && from == "" {
			line("%s ends by itself: %s for each trial is assumed until one has been measured", w.Name, terminal.Elapsed(w.Assumed))
		}
	}
	if p.Measure.Prepare != "" && from == "" {
		line("the command of prepare comes on top, before each trial")
	}
	return lines
}
