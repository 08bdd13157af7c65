package fiojob

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/plan"
	"iotax/internal/rules"
)

// An open loop offers I/Os at times that do not depend on when others are done, as users do. fio's own
// way to that, io_submit_mode=offload, hangs at its end in about half of the runs of version 3.33, and its
// usual one, an asynchronous engine with rate_process=poisson, waits for all that is in flight before it
// waits for the next arrival: what should have come meanwhile comes late, and its latency counts from
// then. So the arrivals come from many jobs, each with a Poisson process of its own and one I/O at a
// time: together they are a Poisson process again, and an I/O comes late only if its own job is
// busy. The share of those is known (Little's law: the I/Os in flight over the number of jobs), kept with
// each trial, and told when it matters.

// openJobs is the number of sources where the plan gives none.
const openJobs = 128

// openShare is the offered load of `load: open`.
const openShare = 0.6

const (
	lateAbove    = 0.05 // share of arrivals that found their source busy
	offeredBelow = 0.95 // done ÷ offered
)

// pilotTime is how long a target is driven as hard as the jobs can, to learn its capacity.
const (
	pilotTime = time.Second
	pilotRamp = 200 * time.Millisecond
)

// PilotTime is how long the load generator runs to learn the capacity of one target.
const PilotTime = pilotTime + pilotRamp

// parseLoad reads a share of the capacity. "" is a closed loop, 0.
func parseLoad(s string) (float64, error) {
	switch s {
	case "":
		return 0, nil
	case "open":
		return openShare, nil
	}
	p, err := plan.ParsePercent(s)
	if err != nil {
		return 0, &plan.FieldError{Field: "load", Msg: fmt.Sprintf("%q is no share", s), Hint: "write a share of what the slowest target can do, as in 60%, or open"}
	}
	if !(p > 0 && p < 1) {
		return 0, &plan.FieldError{Field: "load", Msg: fmt.Sprintf("%s is out of range", s), Hint: "write more than 0% and less than 100%: at its capacity a queue never stops growing"}
	}
	return float64(p), nil
}

// fillOpen sets what an open loop needs and the plan leaves open.
func (f *Fio) fillOpen(def func(key, value string, unless ...string)) {
	def("numjobs", strconv.Itoa(openJobs))
	def("ioengine", "psync") // one I/O at a time needs no queue
	def("thread", "1")       // starting as many processes would take longer than the ramp
}

// checkLoad refuses what cannot be an open loop.
func (f *Fio) checkLoad() error {
	if f.Load == "" {
		return nil
	}
	if _, err := parseLoad(f.Load); err != nil {
		return err
	}
	refuse := func(field, msg, hint string) error {
		return &plan.FieldError{Field: field, Msg: "in an open loop, " + msg, Hint: hint}
	}
	if rw, _ := f.get("rw"); rw != "randread" && rw != "randwrite" {
		return refuse("rw", "many sources share one file, so only random I/O in one direction stays what it is", "rw: randread or rw: randwrite")
	}
	if d, _ := f.get("iodepth"); d != "1" {
		return refuse("iodepth", "the arrivals decide how many I/Os are in flight", "leave iodepth out; numjobs is the number of sources")
	}
	for _, s := range f.settings {
		if strings.HasPrefix(s.Key, "rate") || strings.HasPrefix(s.Key, "thinktime") || s.Key == "io_submit_mode" {
			return refuse(s.Key, "iotax sets the rate", "leave it out")
		}
		if slices.Contains([]string{"nrfiles", "offset_increment"}, s.Key) {
			return refuse(s.Key, "there is one file", "leave it out")
		}
	}
	return nil
}

// Pilot learns how much each target can do and gives all of them the same offered load, a share of what
// the slowest can. Its facts are load.offered (1/s, all jobs together) and capacity.TARGET (1/s).
func (j *fioJob) Pilot(ctx context.Context, targets []*iotax.Target, known map[string]string) (map[string]string, error) {
	facts := map[string]string{}
	rate, jobs := int64(0), 0
	if v, err := strconv.ParseInt(known["load.rate"], 10, 64); err == nil && v > 0 {
		rate, facts = v, known
	}
	slowest, who := math.Inf(1), ""
	for _, t := range targets {
		st, err := j.state(ctx, t)
		if err != nil {
			return nil, err
		}
		jobs = st.job.layout.jobs
		if rate > 0 {
			continue
		}
		c, err := j.capacity(ctx, t, st)
		if err != nil {
			return nil, err
		}
		facts["capacity."+t.Name] = strconv.FormatFloat(c, 'f', 0, 64)
		if c < slowest {
			slowest, who = c, t.Name
		}
	}
	if rate == 0 {
		rate = int64(j.share * slowest / float64(jobs))
		if rate < 1 {
			return nil, &iotax.Error{Op: "offer a load of " + j.spec.Load + " for", On: j.name,
				Err:  fmt.Errorf("%s does %.0f I/Os a second, too few to be shared among %d sources", who, slowest, jobs),
				Hint: fmt.Sprintf("numjobs: %d", max(1, int(j.share*slowest/10)))}
		}
		facts[iotax.FactLoad] = j.spec.Load
		facts["load.rate"] = strconv.FormatInt(rate, 10)
		facts[iotax.ValueLoadOffered] = strconv.FormatInt(rate*int64(jobs), 10)
	}
	for _, t := range targets {
		j.states[t].rate = rate
	}
	return facts, nil
}

// capacity is what the job does on t when nothing holds it back. Workloads that differ in their load alone
// look once.
func (j *fioJob) capacity(ctx context.Context, t *iotax.Target, st *fioState) (float64, error) {
	st.rate = 0
	trial := &iotax.Trial{Length: pilotTime, Ramp: pilotRamp, Seed: 1, Cold: true}
	key := t.Machine.String() + "\x00" + t.Place.Path + "\x00" + iotax.QuoteAll(j.line(t, st, trial).anonymous())
	shared.mu.Lock()
	c, ok := shared.capacities[key]
	shared.mu.Unlock()
	if ok {
		return c, nil
	}
	fail := func(err error) (float64, error) {
		return 0, &iotax.Error{Op: "find the capacity for " + j.name + " of", On: t.Name, Err: err}
	}
	if err := j.Run(ctx, t, trial); err != nil {
		return fail(err)
	}
	v, ok := trial.Value(j.rateMetric())
	if !ok || !(v.Value > 0) {
		return fail(errors.New("fio did nothing"))
	}
	shared.mu.Lock()
	shared.capacities[key] = v.Value
	shared.mu.Unlock()
	return v.Value, nil
}

// anonymous are the arguments without the name of the job.
func (l line) anonymous() []string {
	l.name = "pilot"
	return l.args()
}

// rateMetric is the rate of the direction of an open loop.
func (j *fioJob) rateMetric() string {
	for _, s := range j.settings {
		if s.Key == "rw" && writes(s.Value) {
			return iotax.ValueWriteIOPS
		}
	}
	return iotax.ValueReadIOPS
}

// loadFacts say which load was offered. load.job is the same for workloads that differ in their load
// alone: together they are a curve.
func (j *fioJob) loadFacts(facts map[string]string, st *fioState) {
	if st.rate == 0 {
		return
	}
	var job []string
	for _, s := range j.settings {
		job = append(job, strings.TrimPrefix((fio.Setting{Key: s.Key, Value: s.Value}).String(), "--"))
	}
	facts[iotax.FactLoad] = strconv.FormatFloat(100*j.share, 'f', -1, 64) + " %"
	facts[iotax.FactLoadJob] = strings.Join(job, " ")
}

// judgeLoad adds to a trial of an open loop what was offered and how many arrivals were late, and says
// where the latency is not what it seems.
func (j *fioJob) judgeLoad(st *fioState, out *iotax.Trial) {
	if st.rate == 0 {
		return
	}
	offered := float64(st.rate) * float64(st.job.layout.jobs)
	rate := j.rateMetric()
	direction, _, _ := strings.Cut(rate, ".")
	done, _ := out.Value(rate)
	latency, _ := out.Value(direction + ".latency.mean")
	late := done.Value * latency.Value / float64(st.job.layout.jobs)
	out.Values = append(out.Values,
		iotax.Value{Name: iotax.ValueLoadOffered, Value: offered, Unit: iotax.PerSecond},
		iotax.Value{Name: iotax.ValueLoadLate, Value: late, Unit: iotax.RatioUnit, Better: iotax.Down})
	if done.Value < offeredBelow*offered {
		out.Findings = append(out.Findings, rules.LoadNotReached.Without("rate:", true).With("50%", fmt.Sprintf("%.0f%%", max(1, 50*j.share))).
			Found(iotax.AboutTrial(out), "%.0f I/Os a second were offered and %.0f done", offered, done.Value))
	}
	if late > lateAbove {
		out.Findings = append(out.Findings, rules.ArrivalsLate.With("N", strconv.Itoa(2*st.job.layout.jobs)).
			Found(iotax.AboutTrial(out), "%.1f %% of the I/Os found their source busy", 100*late))
	}
}
