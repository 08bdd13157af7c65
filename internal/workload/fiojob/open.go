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

// An open loop offers I/Os at times that do not depend on when other I/Os complete, as users do. fio's own mode for
// this, io_submit_mode=offload, hangs at the end of about half of the runs with fio 3.33. The usual mode, an
// asynchronous engine with rate_process=poisson, waits for all I/Os in flight before it waits for the next arrival.
// I/Os that were due in the meantime start late, and their latency counts only from then.
//
// So iotax generates the arrivals with many jobs, each with its own Poisson process and one I/O at a time. An I/O
// starts late only if its own job is busy. By Little's law, the share of late I/Os is the number of I/Os in flight over
// the number of jobs.

// openJobs is the default number of sources, the jobs of an open loop.
const openJobs = 128

// openShare is the load of `load: open`, as a share of the capacity.
const openShare = 0.6

const (
	lateAbove    = 0.05 // limit for the share of arrivals that find their source busy
	offeredBelow = 0.95 // limit for the ratio of completed to offered I/Os
)

// A pilot runs the job as fast as it can, to measure the capacity of a target. These are the lengths of its window and
// its ramp.
const (
	pilotTime = time.Second
	pilotRamp = 200 * time.Millisecond
)

// PilotTime is how long the load generator runs to measure the capacity of one target.
const PilotTime = pilotTime + pilotRamp

// parseLoad parses a share of the capacity. For "" it returns 0.
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

// leastRate is the lowest rate of an open loop. mostEach is the highest rate of one of its sources. Both are in I/Os
// per second.
const (
	leastRate = 10
	mostEach  = 10000
)

// parseRate parses a rate in I/Os per second. For "" it returns 0.
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

// open reports whether the job is an open loop.
func (f *Fio) open() bool { return f.Load != "" || f.Rate != "" || f.finds() }

// openField returns the key that makes the job an open loop.
func (f *Fio) openField() string {
	switch {
	case f.Rate != "":
		return "rate"
	case f.Load != "":
		return "load"
	}
	return "find"
}

// offered returns the rate that `jobs` sources, each with the rate `each`, offer in the window of l, in I/Os per
// second. fio rounds the mean gap of a source down to whole microseconds. The window of a source begins with one
// additional arrival.
func (l line) offered(jobs, each int) float64 {
	return float64(jobs) * (1e6/math.Floor(1e6/float64(each)) + 1/l.window())
}

// busy returns how many sources can have at least leastEach I/Os in the window.
func (l line) busy() int { return int(l.rate * l.window() / leastEach) }

func (l line) window() (seconds float64) { return float64(max(l.runtime, 1)) / 1000 }

// sources returns the number of sources and the rate of each, in whole I/Os per second. It begins with the largest
// number of sources that the job allows and that the rate keeps busy. It tries fewer sources, down to half, until the
// error is at most rateError, and returns the numbers with the smallest error.
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

// Each source starts with one additional arrival. If all sources started at the same time, these arrivals would be a
// burst that a target near its limit takes seconds to complete. So the sources start at random times within one second,
// or within ten mean gaps of a source if that is longer, but at most within a fifth of the window.
const (
	leastEach = 50 // minimum number of I/Os of a source in the window
	startGaps = 10 // number of mean gaps of a source within which the sources start
)

// starts returns the time within which `jobs` sources start, in ms.
func (l line) starts(jobs int) int64 {
	return min(l.runtime*startGaps/leastEach, max(1000, int64(1000*startGaps*float64(jobs)/l.rate)))
}

// rateError is the relative error of the rate at which `sources` stops trying fewer sources.
const rateError = 0.002

func (f *Fio) fillOpen(def func(key, value string, unless ...string)) {
	def("numjobs", strconv.Itoa(openJobs))
	def("ioengine", "psync") // a source with one I/O at a time needs no queue
	def("thread", "1")       // starting as many processes would take longer than the ramp
}

// checkLoad returns an error if the job cannot be an open loop.
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

// Pilot measures the capacity of each target. It sets one offered load for all targets, a share of the lowest capacity.
// Its facts are load (the share), load.offered (1/s, all jobs together) and capacity.TARGET (1/s). A resumed run reuses
// the load in `known`. For a search, see measureAll.
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

// capacity returns the rate of the job on t in a closed loop, 1/s. Workloads that differ only in their load share one
// measurement.
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

// anonymous returns the arguments with a fixed name for the job.
func (l line) anonymous() []string {
	l.name = "pilot"
	return l.args()
}

// rateMetric returns the metric of the rate at which an open loop reads or writes.
func (j *fioJob) rateMetric() string {
	for _, s := range j.settings {
		if s.Key == "rw" && writes(s.Value) {
			return iotax.ValueWriteIOPS
		}
	}
	return iotax.ValueReadIOPS
}

// load formats the share of an open loop, as in "60 %".
func (j *fioJob) load() string { return strconv.FormatFloat(100*j.share, 'f', -1, 64) + " %" }

// loadFacts sets the facts about the offered load. load.job is the same for workloads that differ only in their load:
// together they form a load curve.
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

// judgeLoad adds the offered load and the share of late arrivals to a trial of an open loop. It adds a finding if the
// load was not reached, and one if too many arrivals were late.
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

// arrivalsLate returns the rule with the hints that apply to l.
func (l line) arrivalsLate() rules.Rule {
	return rules.ArrivalsLate.With("N", strconv.Itoa(2*l.job.layout.jobs)).Without("numjobs", l.busy() < l.job.layout.jobs)
}
