package fio

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"iotax"
)

// follow makes r the continuation of prev, an earlier report of the same process. r takes over prev's notes and series,
// and appends the rates between the two reports.
func (r *Result) follow(prev *Result) {
	prev.begin()
	r.begin()
	old := prev.Split()
	for _, part := range r.Split() {
		g := part.Jobs[0].Group
		i := slices.IndexFunc(old, func(p *Result) bool { return p.Jobs[0].Group == g })
		if i < 0 || part.runtime() < old[i].runtime() { // fio reset the counters
			continue
		}
		r.groups[g] = extend(prev.groups[g], old[i], part)
	}
	r.fresh = prev.fresh
	r.Notes = append(prev.Notes, r.Notes...)
	if len(r.Notes) > maxNotes {
		r.Notes = r.Notes[:maxNotes]
	}
	r.Series = nil
	if len(r.groups) == 1 {
		for _, s := range r.groups {
			r.Series = s
		}
	}
}

func (r *Result) begin() {
	if r.groups == nil {
		r.groups = map[int][]iotax.Series{}
	}
}

// A relation states whether a result is a later report of the process that wrote an earlier result.
type relation int

const (
	another relation = iota
	perhaps          // it may be a later report, but that is not certain
	later
)

// after returns the relation of r to the previous result prev. The counters of a process never decrease. The next
// report of a process comes sooner than a new process could reach the same runtime. In doubtful cases, after returns
// `perhaps` or `another`, because the caller discards prev if the relation is `later`.
func (r *Result) after(prev *Result) relation {
	if r.fresh || len(r.Jobs) == 0 || len(r.Jobs) != len(prev.Jobs) && (r.Kind != KindText || len(r.Jobs) < len(prev.Jobs)) || r.Version != prev.Version || !maps.Equal(r.Options, prev.Options) {
		return another
	}
	var before, now, grown, elapsed time.Duration
	var done, more, ios, added, queue uint64
	pids, failed, held, reset, began, grew := true, false, false, false, false, false
	fastest, kept := 0, 0 // the minimum latencies of prev, and how many of them r has, too
	for i := range prev.Jobs {
		a, b := &prev.Jobs[i], &r.Jobs[i]
		if k := slices.IndexFunc(r.Jobs, func(j Job) bool { return j.PID == a.PID && j.Name == a.Name && j.Group == a.Group && j.Host == a.Host }); k >= 0 && r.Kind == KindText {
			b = &r.Jobs[k] // text omits the jobs without I/O
		}
		if a.Name != b.Name || a.Host != b.Host || a.Group != b.Group || a.PID != b.PID || !maps.Equal(a.recorded(), b.recorded()) {
			return another
		}
		pids = pids && a.PID != 0
		failed = failed || a.Error != 0
		elapsed = max(elapsed, b.Elapsed)
		queue += a.depth(r.Options)
		if r.reset(prev, a, b) {
			reset = true
			continue
		}
		if b.ContextSwitches < a.ContextSwitches {
			return another
		}
		for k, d := range a.directions() {
			e := b.directions()[k]
			if e.Runtime < d.Runtime || e.IOs < d.IOs || e.Bytes < d.Bytes && d.BytesFrom == Exact && e.BytesFrom == Exact || r.Kind != KindText && !d.within(e) {
				return another
			}
			before, now = max(before, d.Runtime), max(now, e.Runtime)
			grown = max(grown, e.Runtime-d.Runtime)
			if d.Runtime == 0 { // the job may have waited for others (stonewall)
				began = began || e.Runtime > 0
				continue
			}
			for n, l := range []*Latency{&d.Submission, &d.Completion, &d.Total} {
				if l.Mean > 0 {
					if fastest++; l.Min >= 1e-6 && l.Min == []*Latency{&e.Submission, &e.Completion, &e.Total}[n].Min {
						kept++
					}
				}
			}
			grew = grew || e.Runtime > d.Runtime || e.IOs > d.IOs || e.Total.Mean != d.Total.Mean
			done, more = done+d.Bytes, more+e.Bytes-min(d.Bytes, e.Bytes)
			ios, added = ios+d.IOs, added+e.IOs-d.IOs
			held = held || d.Total.Max >= telling && d.Total.Max == e.Total.Max
		}
	}
	timed, passed := !r.Time.IsZero() && !prev.Time.IsZero(), r.Time.Sub(prev.Time)
	unit, soonest := time.Duration(0), now+10*time.Millisecond // a new process also needs time to start
	if r.Time.Nanosecond() == 0 && prev.Time.Nanosecond() == 0 {
		unit, soonest = time.Second, now-now/10 // text and old JSON print whole seconds
	}
	switch {
	case r.Kind == KindText && !pids: // text without PIDs is an excerpt
		return another
	case reset:
		return later
	case done == 0: // prev contains no I/O
		switch {
		case failed || timed && passed >= elapsed:
			return another
		case timed:
			return later
		}
		return perhaps
	case timed:
		// Allow for I/Os in flight, which complete at the end, and for counters that fio does not read at the same
		// moment.
		allowed := float64(ios)*(10*grown.Seconds()+0.05)/before.Seconds() + float64(queue)
		const lag = 1500 * time.Millisecond // a report may be this late on a busy machine
		switch {
		case passed < 0 || grown > passed+unit+lag:
			return another
		case kept > 0 && kept == fastest && grown > passed/2: // the report is late
			return later
		case began && !grew && ios > 0: // a group of jobs ended, and the next one began
			return later
		case passed-unit >= soonest:
			return another
		case ios > 0 && float64(added) > allowed, passed > grown+grown/10+unit+lag && grown+time.Duration(more) > 0:
			return perhaps
		case r.Kind == KindText && r.headed, passed+unit < soonest:
			return later
		}
		return perhaps
	case r.Kind == KindText || !alike(done, more, before, now) && !(len(prev.groups) > 0 && grown < sliver):
		return another
	case held:
		return later
	}
	return perhaps
}

// reset reports whether fio reset the counters of a job at the end of its ramp, between its report a in prev and its
// report b in r. Text does not show whether the job has a ramp.
func (r *Result) reset(prev *Result, a, b *Job) bool {
	var was, ran time.Duration
	fell := false
	for k, d := range a.directions() {
		e := b.directions()[k]
		was, ran = max(was, d.Runtime), max(ran, e.Runtime)
		fell = fell || e.Runtime < d.Runtime || e.IOs < d.IOs
	}
	passed, unit := r.Time.Sub(prev.Time), 500*time.Millisecond // a report may be late
	if r.Time.Nanosecond() == 0 && prev.Time.Nanosecond() == 0 {
		unit += time.Second // text and old JSON print whole seconds
	}
	if was == 0 || r.Time.IsZero() || prev.Time.IsZero() || passed < 0 {
		return false
	}
	if r.Kind == KindText {
		return r.headed && a.PID != 0 && fell && ran <= passed+unit
	}
	ramp, err := ParseTime(cmp.Or(a.recorded()["ramp_time"], r.Options["ramp_time"]), time.Second)
	after := passed - (ramp - was) // the time from the end of the ramp to r
	return err == nil && ramp > 0 && was < ramp+sliver && (after-ran).Abs() <= unit
}

// recorded returns the options as fio printed them.
func (j *Job) recorded() map[string]string {
	if j.printed != nil {
		return j.printed
	}
	return j.Options
}

// telling is a latency in seconds. Two results with the same maximum latency are probably from one process if that
// maximum is at least this long.
const telling = 100e-6

// within reports whether direction e, which has at least as many I/Os as d, can include all I/Os of d.
func (d *Direction) within(e *Direction) bool {
	for _, l := range [][2]*Latency{{&d.Submission, &e.Submission}, {&d.Completion, &e.Completion}, {&d.Total, &e.Total}} {
		if a, b := l[0], l[1]; a.Mean > 0 && (b.Max < a.Max || b.Min > a.Min) {
			return false
		}
	}
	return true
}

// depth returns the maximum number of I/Os of j in flight, but at least 64.
func (j *Job) depth(all map[string]string) uint64 {
	number := func(key string) uint64 {
		n, _ := strconv.ParseUint(cmp.Or(j.Options[key], all[key]), 10, 16)
		return max(n, 1)
	}
	return max(64, number("iodepth")*max(number("numjobs"), uint64(max(j.Members, 0))))
}

// sliver is the minimum time between two reports. Shorter intervals are ignored.
const sliver = 100 * time.Millisecond

// alike reports whether two rates differ by less than a factor of 10: `more` bytes between `before` and `now`, and
// `done` bytes until `before`.
func alike(done, more uint64, before, now time.Duration) bool {
	if now-before < sliver || more == 0 || before <= 0 {
		return false
	}
	rate := (float64(more) / float64(now-before)) / (float64(done) / float64(before))
	return rate > 0.1 && rate < 10
}

// runtime returns the runtime of the slowest direction.
func (r *Result) runtime() time.Duration {
	var d time.Duration
	for i := range r.Jobs {
		for _, dir := range r.Jobs[i].directions() {
			d = max(d, dir.Runtime)
		}
	}
	return d
}

// extend appends the rates between reports a and b of one group to series.
func extend(series []iotax.Series, a, b *Result) []iotax.Series {
	out := series // shares memory with series, which the caller no longer uses
	add := func(name, unit string, at, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		i := slices.IndexFunc(out, func(s iotax.Series) bool { return s.Name == name })
		if i < 0 {
			out = append(out, iotax.Series{Name: name, Unit: unit})
			i = len(out) - 1
		}
		out[i].T, out[i].V = append(out[i].T, at), append(out[i].V, v)
	}
	first := len(series) == 0
	was := map[string]total{}
	for _, t := range a.totals() {
		was[t.name] = t
		// The time before the first report is an interval too.
		if s := t.runtime.Seconds(); first && s > 0 {
			addRates(add, t.name, s, s, t.ios, t.bytes, t.ios > 0)
		}
	}
	for _, t := range b.totals() {
		w := was[t.name]
		// Skip very short intervals, because the last report may come immediately after the previous one.
		s := (t.runtime - w.runtime).Seconds()
		if s < sliver.Seconds() || t.ios < w.ios || t.bytes < w.bytes {
			continue
		}
		addRates(add, t.name, t.runtime.Seconds(), s, t.ios-w.ios, t.bytes-w.bytes, t.ios > 0 && (w.ios > 0 || w.bytes == 0))
	}
	return out
}

// addRates adds the rates of an interval. counted reports whether the number of I/Os is known.
func addRates(add func(string, string, float64, float64), name string, at, seconds float64, ios, bytes uint64, counted bool) {
	if counted {
		add(name+".iops", iotax.PerSecond, at, float64(ios)/seconds)
	}
	add(name+".bandwidth", iotax.BytesPerSecond, at, float64(bytes)/seconds)
}

// Split returns a result for each group of jobs, in order. The jobs of a group run at the same time. stonewall and
// new_group start a new group, which is a different workload.
func (r *Result) Split() []*Result {
	var out []*Result
	for _, j := range r.Jobs {
		i := slices.IndexFunc(out, func(p *Result) bool { return p.Jobs[0].Group == j.Group })
		if i < 0 {
			p := *r
			p.Jobs, p.Series, p.groups = nil, r.groups[j.Group], nil
			out = append(out, &p)
			i = len(out) - 1
		}
		out[i].Jobs = append(out[i].Jobs, j)
	}
	return out
}
