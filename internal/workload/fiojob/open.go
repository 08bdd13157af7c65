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
		return 0, &plan.FieldError{Field: "load", Msg: fmt.Sprintf("%q is not a share", s), Hint: "write a share of what the slowest target can do, as in 60%, or open"}
	}
	if !(p > 0 && p < 1) {
		return 0, &plan.FieldError{Field: "load", Msg: fmt.Sprintf("%s is out of range", s), Hint: "write more than 0% and less than 100%: at its capacity a queue never stops growing"}
	}
	return float64(p), nil
}

// leastRate is the lowest rate of an open loop, and mostEach the highest of one of its sources, 1/s: fio times arrivals to
// whole microseconds.
const (
	leastRate = 10
	mostEach  = 10000
)

// parseRate reads I/Os per second. "" is 0.
func parseRate(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	rate, err := plan.ParseRate(s)
	if err != nil {
		return 0, fieldError("rate", err)
	}
	if rate < leastRate {
		return 0, &plan.FieldError{Field: "rate", Msg: fmt.Sprintf("%s is out of range", s), Hint: fmt.Sprintf("write at least %d/s", leastRate)}
	}
	return rate, nil
}

// open reports whether the job is an open loop, and openField which key makes it one.
func (f *Fio) open() bool { return f.Load != "" || f.Rate != "" || f.finds() }

func (f *Fio) openField() string {
	switch {
	case f.Rate != "":
		return "rate"
	case f.Load != "":
		return "load"
	}
	return "find"
}

// offered is what jobs sources with a rate of each offer in the window of l, 1/s. fio rounds the mean gap of a source down to
// whole microseconds. The window of a source begins with an arrival, which comes on top.
func (l line) offered(jobs, each int) float64 {
	return float64(jobs) * (1e6/math.Floor(1e6/float64(each)) + 1/l.window())
}

// busy is how many sources have at least leastEach I/Os in the window.
func (l line) busy() int { return int(l.rate * l.window() / leastEach) }

func (l line) window() (seconds float64) { return float64(max(l.runtime, 1)) / 1000 }

// sources divides the rate of l among as many sources as the job may have and are busy, each with a whole number of I/Os per
// second, or up to half as many if these come closer to the rate.
func (l line) sources() (jobs, each int) {
	most := max(1, min(l.job.layout.jobs, int(l.rate/l.offered(1, 1)), l.busy()))
	best := math.Inf(1)
	for n := most; n >= max(1, most/2) && best > rateError; n-- {
		about := max(1, int(l.rate/float64(n)-1/l.window()))
		for _, e := range []int{about, about + 1} {
			if off := math.Abs(l.offered(n, e)/l.rate - 1); off < best {
				jobs, each, best = n, e, off
			}
		}
	}
	return jobs, each
}

// The arrivals that the windows begin with would be a burst that a target near its limit takes seconds to work off. So the sources
// start at random moments of a second, or of ten mean gaps of a source, whichever is longer, and at most of a fifth of the window:
// the first arrivals add at most a tenth to the load of that time.
const (
	leastEach = 50
	startGaps = 10
)

// starts is the time within which jobs sources start, in ms.
func (l line) starts(jobs int) int64 {
	return min(l.runtime*startGaps/leastEach, max(1000, int64(1000*startGaps*float64(jobs)/l.rate)))
}

// rateError is how far the sources may be from the rate if more of them take part.
const rateError = 0.002

// fillOpen sets what an open loop needs and the plan leaves open.
func (f *Fio) fillOpen(def func(key, value string, unless ...string)) {
	def("numjobs", strconv.Itoa(openJobs))
	def("ioengine", "psync") // one I/O at a time needs no queue
	def("thread", "1")       // starting as many processes would take longer than the ramp
}

// checkLoad refuses what cannot be an open loop.
func (f *Fio) checkLoad() error {
	if !f.open() {
		return nil
	}
	if _, err := parseLoad(f.Load); err != nil {
		return err
	}
	rate, err := parseRate(f.Rate)
	if err != nil {
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
		if strings.HasPrefix(s.Key, "rate") || strings.HasPrefix(s.Key, "thinktime") || s.Key == "io_submit_mode" || s.Key == "startdelay" {
			return refuse(s.Key, "iotax sets the rate", "leave it out")
		}
		if slices.Contains([]string{"nrfiles", "offset_increment"}, s.Key) {
			return refuse(s.Key, "there is one file", "leave it out")
		}
		if n, _ := strconv.ParseFloat(s.Value, 64); s.Key == "numjobs" && rate > n*mostEach {
			return refuse("rate", fmt.Sprintf("each of %s sources can offer %d/s", s.Value, mostEach), fmt.Sprintf("numjobs: %.0f, or a lower rate", math.Ceil(rate/mostEach)))
		}
	}
	if f.finds() {
		_, err = f.condition()
	}
	return err
}

// Pilot learns how much each target can do and gives all of them the same offered load, a share of what
// the slowest can. Its facts are load.offered (1/s, all jobs together) and capacity.TARGET (1/s).
func (j *fioJob) Pilot(ctx context.Context, targets []*iotax.Target, length time.Duration, known map[string]string) (map[string]string, error) {
	facts := map[string]string{}
	if j.spec.finds() {
		return j.measureAll(ctx, targets, length, known)
	}
	if v, err := strconv.ParseFloat(known[iotax.ValueLoadOffered], 64); err == nil && v > 0 {
		j.rate = v
		return known, nil
	}
	slowest, who := math.Inf(1), ""
	for _, t := range targets {
		st, err := j.state(ctx, t)
		if err != nil {
			return nil, err
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
	rate := math.Floor(j.share * slowest)
	if rate < leastRate {
		return nil, &iotax.Error{Op: "offer a load of " + j.spec.Load + " for", On: j.name,
			Err: fmt.Errorf("%s does %.0f I/Os a second, and an open loop offers at least %d", who, slowest, leastRate), Hint: "a higher load, or a closed loop"}
	}
	j.rate = rate
	facts[iotax.FactLoad] = j.spec.Load
	facts[iotax.ValueLoadOffered] = strconv.FormatFloat(rate, 'f', -1, 64)
	return facts, nil
}

// capacity is what the job does on t when nothing holds it back. Workloads that differ in their load alone
// look once.
func (j *fioJob) capacity(ctx context.Context, t *iotax.Target, st *fioState) (float64, error) {
	trial := &iotax.Trial{Length: pilotTime, Ramp: pilotRamp, Seed: 1, Cold: true}
	key := t.Machine.String() + "\x00" + t.Place.Path + "\x00" + iotax.QuoteAll(j.line(t, st, trial).anonymous())
	if c, ok := j.shared.capacities.Load(key); ok {
		return c.(float64), nil
	}
	fail := func(err error) (float64, error) {
		return 0, &iotax.Error{Op: "find the capacity for " + j.name + " of", On: t.Name, Err: err}
	}
	if err := j.once(ctx, t, trial); err != nil {
		return fail(err)
	}
	v, ok := trial.Value(j.rateMetric())
	if !ok || !(v.Value > 0) {
		return fail(errors.New("fio did nothing"))
	}
	j.shared.capacities.Store(key, v.Value)
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

// load is the share of an open loop for people.
func (j *fioJob) load() string { return strconv.FormatFloat(100*j.share, 'f', -1, 64) + " %" }

// loadFacts say which load was offered. load.job is the same for workloads that differ in their load
// alone: together they are a curve.
func (j *fioJob) loadFacts(facts map[string]string) {
	if j.rate == 0 {
		return
	}
	var job []string
	for _, s := range j.settings {
		job = append(job, strings.TrimPrefix((fio.Setting{Key: s.Key, Value: s.Value}).String(), "--"))
	}
	if j.share > 0 {
		facts[iotax.FactLoad] = j.load()
	}
	facts[iotax.FactLoadJob] = strings.Join(job, " ")
}

// judgeLoad adds to a trial of an open loop what was offered and how many arrivals were late, and says
// where the latency is not what it seems.
func (j *fioJob) judgeLoad(l line, out *iotax.Trial) {
	if l.rate == 0 {
		return
	}
	jobs, each := l.sources()
	offered := l.offered(jobs, each)
	rate := j.rateMetric()
	direction, _, _ := strings.Cut(rate, ".")
	done, _ := out.Value(rate)
	latency, _ := out.Value(direction + ".latency.mean")
	late := min(1, done.Value*latency.Value/float64(jobs))
	out.Values = append(out.Values,
		iotax.Value{Name: iotax.ValueLoadOffered, Value: offered, Unit: iotax.PerSecond},
		iotax.Value{Name: iotax.ValueLoadLate, Value: late, Unit: iotax.RatioUnit, Better: iotax.Down})
	if done.Value < offeredBelow*offered {
		less := rules.LoadNotReached.Without("rate:", true).With("50%", fmt.Sprintf("%.0f%%", max(1, 50*j.share)))
		if j.share == 0 {
			less = rules.LoadNotReached.Hinting(fmt.Sprintf("offer less (`rate: %.0f/s`); read the latency as that of an overloaded target", max(leastRate, done.Value/2)))
		}
		out.Findings = append(out.Findings, less.Found(iotax.AboutTrial(out), "%.0f I/Os a second were offered and %.0f done", offered, done.Value))
	}
	if late > lateAbove {
		out.Findings = append(out.Findings, l.arrivalsLate().Found(iotax.AboutTrial(out), "%.1f %% of the I/Os found their source busy", 100*late))
	}
}

// arrivalsLate is the rule with what helps l.
func (l line) arrivalsLate() rules.Rule {
	return rules.ArrivalsLate.With("N", strconv.Itoa(2*l.job.layout.jobs)).Without("numjobs", l.busy() < l.job.layout.jobs)
}
