package fio

import (
	"math"
	"slices"
	"time"

	"iotax"
)

// follow makes r the continuation of prev, when it is a later report of the same process: it takes
// over prev's series and adds what happened in between.
func (r *Result) follow(prev *Result) bool {
	if !r.continues(prev) {
		return false
	}
	r.begin()
	old := prev.Split()
	for _, part := range r.Split() {
		g := part.Jobs[0].Group
		i := slices.IndexFunc(old, func(p *Result) bool { return p.Jobs[0].Group == g })
		if i < 0 {
			continue
		}
		r.groups[g] = extend(prev.groups[g], old[i], part)
	}
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
	return true
}

func (r *Result) begin() {
	if r.groups == nil {
		r.groups = map[int][]iotax.Series{}
	}
}

// continues reports whether r is a later report of the process that made prev. A process counts
// upwards and reports again before a second one could have run as long.
func (r *Result) continues(prev *Result) bool {
	if len(r.Jobs) == 0 || len(r.Jobs) != len(prev.Jobs) || r.Version != prev.Version {
		return false
	}
	var before, now time.Duration
	var done, more uint64
	var elapsed time.Duration
	pids, failed := true, false
	for i := range r.Jobs {
		a, b := &prev.Jobs[i], &r.Jobs[i]
		failed = failed || a.Error != 0
		elapsed = max(elapsed, b.Elapsed)
		if a.Name != b.Name || a.Host != b.Host || a.Group != b.Group || a.PID != b.PID {
			return false
		}
		pids = pids && a.PID != 0
		for k, d := range a.directions() {
			e := b.directions()[k]
			if e.Runtime < d.Runtime || e.IOs < d.IOs || e.Bytes < d.Bytes && d.BytesFrom == Exact && e.BytesFrom == Exact {
				return false
			}
			before, now = max(before, d.Runtime), max(now, e.Runtime)
			done, more = done+d.Bytes, more+e.Bytes-min(d.Bytes, e.Bytes)
		}
	}
	switch {
	case pids:
		return true
	case done == 0: // it had not begun, or did nothing and was done
		return !failed && (r.Time.IsZero() || prev.Time.IsZero() || r.Time.Sub(prev.Time) < elapsed)
	case !r.Time.IsZero() && !prev.Time.IsZero():
		return !r.Time.Before(prev.Time) && float64(r.Time.Sub(prev.Time)) < 0.9*float64(now)
	}
	// Terse has no time: what was added must look like more of the same. The last report may come a
	// moment after the one before it.
	return alike(done, more, before, now) || len(prev.groups) > 0 && now-before < sliver
}

// sliver is too short a time for a report of its own.
const sliver = 100 * time.Millisecond

// alike reports whether the bytes more, done from before until now, came at about the rate of those done until then.
func alike(done, more uint64, before, now time.Duration) bool {
	if now-before < sliver || more == 0 || before <= 0 {
		return false
	}
	rate := (float64(more) / float64(now-before)) / (float64(done) / float64(before))
	return rate > 0.1 && rate < 10
}

// grew reports whether b looks like a later report of job a.
func grew(a, b *Job) bool {
	any := false
	for k, d := range a.directions() {
		e := b.directions()[k]
		if e.Runtime < d.Runtime || e.Bytes < d.Bytes || e.Total.Max < d.Total.Max {
			return false
		}
		any = any || alike(d.Bytes, e.Bytes-d.Bytes, d.Runtime, e.Runtime)
	}
	return any
}

// extend adds to series what b did after a, which are reports of one group.
func extend(series []iotax.Series, a, b *Result) []iotax.Series {
	out := series // prev is done with
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
		// The report before the first difference is an interval as well, from the start.
		if s := t.runtime.Seconds(); first && s > 0 {
			addRates(add, t.name, s, s, t.ios, t.bytes, t.ios > 0)
		}
	}
	for _, t := range b.totals() {
		w := was[t.name]
		// The last report may come a moment after the one before it, and such a sliver tells nothing.
		s := (t.runtime - w.runtime).Seconds()
		if s < sliver.Seconds() || t.ios < w.ios || t.bytes < w.bytes {
			continue
		}
		addRates(add, t.name, t.runtime.Seconds(), s, t.ios-w.ios, t.bytes-w.bytes, t.ios > 0 && (w.ios > 0 || w.bytes == 0))
	}
	return out
}

// addRates adds the rates over an interval; counted says that the I/Os are known.
func addRates(add func(string, string, float64, float64), name string, at, seconds float64, ios, bytes uint64, counted bool) {
	if counted {
		add(name+".iops", iotax.PerSecond, at, float64(ios)/seconds)
	}
	add(name+".bandwidth", iotax.BytesPerSecond, at, float64(bytes)/seconds)
}

// Split returns a result for each group of jobs, in order. The jobs of a group run at the same time;
// groups are what stonewall and new_group make, and are different workloads.
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
