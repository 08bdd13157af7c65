package fio

import (
	"cmp"
	"math"
	"slices"
	"time"

	"iotax"
)

// quantiles lists the quantiles that Values reports if there are enough samples.
var quantiles = []struct {
	name string
	p    float64
}{{"p50", .5}, {"p90", .9}, {"p95", .95}, {"p99", .99}, {"p99.9", .999}, {"p99.99", .9999}}

// minBeyond is the minimum number of samples above a reported quantile.
const minBeyond = 100

// A total is the sum of one direction over the jobs of a result.
type total struct {
	name                          string
	iops, bandwidth               float64
	bytes, short                  uint64
	ios                           uint64        // 0 if the number of a job is unknown
	uncounted                     bool          // the number of I/Os of a job is unknown
	runtime                       time.Duration // of the slowest job
	submission, completion, total Latency
}

// latency returns the total latency, or the completion latency if fio reported only that (disable_lat, old json+).
func (t *total) latency() *Latency {
	if t.total.N > 0 {
		return &t.total
	}
	return &t.completion
}

// distribution returns the latency that has bins or percentiles. Without lat_percentiles, fio records bins only for
// the completion latency.
func (t *total) distribution() *Latency {
	if len(t.total.Bins) > 0 || len(t.total.Percentiles) > 0 {
		return &t.total
	}
	return &t.completion
}

// add adds the rates and counts of o to t, and keeps the longer runtime. It does not merge the latencies.
func (t *total) add(o *total) {
	t.iops, t.bandwidth = t.iops+o.iops, t.bandwidth+o.bandwidth
	t.bytes, t.ios, t.short = sum(t.bytes, o.bytes), sum(t.ios, o.ios), sum(t.short, o.short)
	t.uncounted = t.uncounted || o.uncounted
	t.runtime = max(t.runtime, o.runtime)
}

func (t *total) addLatencies(submission, completion, total *Latency) {
	t.submission.add(submission)
	t.completion.add(completion)
	t.total.add(total)
}

// totals sums the jobs by direction. The jobs of a group run at the same time, so the rate of a group is its total
// divided by the runtime of its slowest job, as with group_reporting. The rates of groups are added up. If there
// are several directions and fio did not report their sum ("mixed"), totals appends it.
func (r *Result) totals() []total {
	type groupKey struct {
		host  string
		port  int
		group int
	}
	type groupSum struct {
		key     groupKey
		total           // if the runtime is 0, the rates are the rates that fio printed
		rounded float64 // estimated I/Os of jobs whose number of I/Os is unknown
	}
	var out []total
	for k, name := range directionNames {
		t := total{name: name}
		var groups []groupSum
		for i := range r.Jobs {
			j := &r.Jobs[i]
			dir := j.directions()[k]
			if dir.IOs == 0 && dir.Bytes == 0 && dir.IOPS == 0 {
				continue
			}
			key := groupKey{j.Host, j.Port, j.Group}
			at := slices.IndexFunc(groups, func(g groupSum) bool { return g.key == key })
			if at < 0 {
				groups = append(groups, groupSum{key: key})
				at = len(groups) - 1
			}
			g := &groups[at]
			job := total{iops: dir.IOPS, bandwidth: dir.Bandwidth, bytes: dir.Bytes, ios: dir.IOs, short: dir.Short, runtime: dir.Runtime}
			if dir.IOs == 0 {
				job.iops, job.uncounted = 0, true
				g.rounded += dir.IOPS * cmp.Or(dir.Runtime.Seconds(), 1)
			}
			g.add(&job)
			t.addLatencies(&dir.Submission, &dir.Completion, &dir.Total)
		}
		for i := range groups {
			g := &groups[i]
			if s := g.runtime.Seconds(); s > 0 {
				g.iops, g.bandwidth = float64(g.ios)/s, float64(g.bytes)/s
			}
			t.add(&g.total)
			t.iops += g.rounded / cmp.Or(g.runtime.Seconds(), 1)
		}
		if t.uncounted {
			t.ios = 0
		}
		if len(groups) > 0 {
			out = append(out, t)
		}
	}
	if len(out) < 2 || out[len(out)-1].name == "mixed" {
		return out
	}
	m := total{name: "mixed"}
	for i := range out {
		m.add(&out[i])
		m.addLatencies(&out[i].submission, &out[i].completion, &out[i].total)
	}
	if m.uncounted {
		m.ios = 0
	}
	return append(out, m)
}

// Values returns sums over all jobs in base units. For each of read, write, trim and mixed (the sum of several
// directions), it returns values such as "read.iops": iops, bandwidth, bytes, ios and latency.*. For the whole
// result, it returns iops, bandwidth, sync.ios, sync.latency.*, duration, bytes, and cpu.client, the CPU time of fio
// itself in seconds.
//
// A rate is the total divided by the runtime. If the number of I/Os is unknown (text, terse), Values omits ios and uses
// the IOPS that fio printed. The latency is the total latency if fio reports it. Values omits quantiles with fewer than
// 100 samples above them. Quantiles come from the merged bins. Without bins (plain JSON), Values uses fio's percentiles
// if they are from one job and direction, because percentiles cannot be merged.
func (r *Result) Values() []iotax.Value {
	var vs []iotax.Value
	add := func(name string, v float64, unit string, better iotax.Better) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			vs = append(vs, iotax.Value{Name: name, Value: v, Unit: unit, Better: better})
		}
	}
	var runtime time.Duration
	var bytes uint64
	var iops, bandwidth float64
	for _, t := range r.totals() {
		p := t.name + "."
		if t.iops > 0 || t.bytes == 0 { // a group summary in text output does not contain the I/Os
			add(p+"iops", t.iops, iotax.PerSecond, iotax.Up)
		}
		add(p+"bandwidth", t.bandwidth, iotax.BytesPerSecond, iotax.Up)
		add(p+"bytes", float64(t.bytes), iotax.Bytes, iotax.Neither)
		if t.ios > 0 {
			add(p+"ios", float64(t.ios), iotax.Count, iotax.Neither)
		}
		addLatency(add, p+"latency.", t.latency(), t.distribution())
		if t.submission.N > 0 {
			add(p+"latency.submission.mean", t.submission.Mean, iotax.Seconds, iotax.Down)
		}
		if t.completion.N > 0 {
			add(p+"latency.completion.mean", t.completion.Mean, iotax.Seconds, iotax.Down)
		}
		runtime = max(runtime, t.runtime)
		if t.name == "mixed" {
			bytes, iops, bandwidth = t.bytes, t.iops, t.bandwidth
		} else {
			bytes, iops, bandwidth = sum(bytes, t.bytes), iops+t.iops, bandwidth+t.bandwidth
		}
	}
	if iops > 0 {
		add("iops", iops, iotax.PerSecond, iotax.Up)
	}
	if bandwidth > 0 {
		add("bandwidth", bandwidth, iotax.BytesPerSecond, iotax.Up)
	}
	var cpu float64
	for i := range r.Jobs {
		j := &r.Jobs[i]
		cpu += (j.UserCPU + j.SystemCPU) * j.Runtime.Seconds()
	}
	if flush := r.flush(); flush.IOs > 0 {
		add("sync.ios", float64(flush.IOs), iotax.Count, iotax.Neither)
		addLatency(add, "sync.latency.", &flush.Latency, &flush.Latency)
	}
	if runtime > 0 {
		add("duration", runtime.Seconds(), iotax.Seconds, iotax.Neither)
	}
	add("bytes", float64(bytes), iotax.Bytes, iotax.Neither)
	if cpu > 0 {
		add(iotax.ValueCPUClient, cpu, iotax.Seconds, iotax.Down)
	}
	return vs
}

func addLatency(add func(string, float64, string, iotax.Better), prefix string, l, dist *Latency) {
	if l.N > 0 {
		add(prefix+"mean", l.Mean, iotax.Seconds, iotax.Down)
		add(prefix+"sd", l.SD, iotax.Seconds, iotax.Down)
		add(prefix+"max", l.Max, iotax.Seconds, iotax.Down)
	}
	for _, q := range quantiles {
		if v, ok := dist.Quantile(q.p); ok {
			add(prefix+q.name, v, iotax.Seconds, iotax.Down)
		}
	}
}

// flush returns the sum of the flushes of all jobs. It returns 0 if their number is unknown: fio 3.33 may print 0 in text
// even if it measured their latency.
func (r *Result) flush() (all Sync) {
	for i := range r.Jobs {
		s := &r.Jobs[i].Sync
		if s.IOs == 0 && s.Latency.Mean > 0 {
			return Sync{}
		}
		all.IOs = sum(all.IOs, s.IOs)
		all.Latency.add(&s.Latency)
	}
	return all
}

// Histograms returns the merged bins of each direction ("read.latency") and of the flushes ("sync.latency"), in
// seconds.
func (r *Result) Histograms() []iotax.Histogram {
	var hs []iotax.Histogram
	for _, t := range r.totals() {
		if d := t.distribution(); len(d.Bins) > 0 {
			hs = append(hs, d.histogram(t.name+".latency"))
		}
	}
	if flush := r.flush(); len(flush.Latency.Bins) > 0 {
		hs = append(hs, flush.Latency.histogram("sync.latency"))
	}
	return hs
}

func (l *Latency) histogram(name string) iotax.Histogram {
	h := iotax.Histogram{Name: name, Unit: iotax.Seconds, Bins: make([]iotax.Bin, len(l.Bins))}
	for i, b := range l.Bins {
		h.Bins[i] = iotax.Bin{Value: float64(b.Nanoseconds) * 1e-9, Count: b.Count}
	}
	return h
}

// Damaged returns a sentence for each impossible value that was omitted from the result.
func (r *Result) Damaged() []string { return r.damaged }

// add merges o into l. It merges the moments with the parallel algorithm of Chan, Golub and LeVeque (1979) for
// sample standard deviations, and adds up the bins. If both have samples, it drops the percentiles, because they
// cannot be merged.
func (l *Latency) add(o *Latency) {
	if o.N == 0 {
		return
	}
	if l.N == 0 {
		*l = *o
		l.Bins = slices.Clone(o.Bins)
		return
	}
	n, m := float64(l.N), float64(o.N)
	delta := o.Mean - l.Mean
	m2 := l.SD*l.SD*(n-1) + o.SD*o.SD*(m-1) + delta*delta*n*m/(n+m)
	l.Mean += delta * m / (n + m)
	l.SD = math.Sqrt(max(0, m2) / (n + m - 1))
	l.Min = min(l.Min, o.Min)
	l.Max = max(l.Max, o.Max)
	l.N = sum(l.N, o.N)
	l.Percentiles = nil
	l.Bins = compactBins(slices.Concat(l.Bins, o.Bins))
}

// Quantile returns the time in seconds within which the share p (0…1) of the I/Os completed. It uses the bins, or
// else fio's percentiles. ok is false if fewer than 100 samples are above the quantile, or if the quantile is
// unknown.
func (l *Latency) Quantile(p float64) (seconds float64, ok bool) {
	if !(p >= 0 && p <= 1) {
		return 0, false
	}
	n := l.N
	if len(l.Bins) > 0 {
		n = l.counted()
	}
	// Round to a millionth of a sample, so that exactly 100 of 1000 samples are above the 0.9 quantile.
	if math.Round(float64(n)*(1-p)*1e6)/1e6 < minBeyond {
		return 0, false
	}
	if len(l.Bins) > 0 {
		rank := count(math.Ceil(p*float64(n) - 1e-6))
		var below uint64
		for _, b := range l.Bins {
			if below = sum(below, b.Count); below >= rank {
				return float64(b.Nanoseconds) * 1e-9, true
			}
		}
	}
	for _, q := range l.Percentiles {
		if math.Abs(q.P-p) < 1e-9 {
			return q.Seconds, true
		}
	}
	return 0, false
}
