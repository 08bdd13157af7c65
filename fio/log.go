package fio

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"iotax"
)

// A Log is a log file from write_bw_log, write_iops_log, write_lat_log or write_hist_log.
type Log struct {
	Prefix  string // "dir/x" for "dir/x_bw.1.log"
	Kind    LogKind
	Job     int // from 1; 0 if all jobs share the file
	Samples []Sample
	Bins    []Histogram // from a histogram log, one for each direction
}

// A Histogram is the sum of all lines of a histogram log for one direction.
type Histogram struct {
	Direction int // 0 read, 1 write, 2 trim, 3 other
	Bins      []Bin
}

// A Sample is one line of a log file.
type Sample struct {
	Seconds   float64 // since the start of the measured window (ramp_time excluded)
	Value     float64 // as fio wrote it: see LogKind.Base
	Direction int     // 0 read, 1 write, 2 trim, 3 other
	BlockSize uint64  // of the I/O; 0 for an average (log_avg_msec), except in old versions of fio
}

// LogKind is the quantity that a log records.
type LogKind string

// The kinds of logs.
const (
	BandwidthLog  LogKind = "bandwidth"
	IOPSLog       LogKind = "iops"
	LatencyLog    LogKind = "latency"
	CompletionLog LogKind = "latency.completion"
	SubmissionLog LogKind = "latency.submission"
	HistogramLog  LogKind = "latency.histogram"
)

// logSuffixes lists the suffixes that fio puts before ".1.log".
var logSuffixes = []struct {
	text string
	kind LogKind
}{
	{"_clat_hist", HistogramLog}, {"_slat_hist", HistogramLog}, {"_lat_hist", HistogramLog},
	{"_clat", CompletionLog}, {"_slat", SubmissionLog}, {"_lat", LatencyLog}, {"_bw", BandwidthLog}, {"_iops", IOPSLog},
}

// LogName parses the name of a log file: PREFIX_bw.JOB.log, or PREFIX_bw.log without per_job_logs. A client name
// may follow.
func LogName(name string) (l Log, ok bool) {
	end := strings.LastIndex(name, ".log")
	if end < 0 {
		return l, false
	}
	base := name[:end]
	if i := strings.LastIndexByte(base, '.'); i >= 0 {
		if n, err := strconv.Atoi(base[i+1:]); err == nil && n > 0 {
			l.Job, base = n, base[:i]
		}
	}
	for _, s := range logSuffixes {
		if prefix, found := strings.CutSuffix(base, s.text); found {
			l.Prefix, l.Kind = prefix, s.kind
			return l, true
		}
	}
	return l, false
}

// Base returns the unit of a kind, and the factor that converts fio's numbers to that unit. For latencies, the factor
// applies to fio 3.0 and later, which write nanoseconds. Older versions write microseconds.
func (k LogKind) Base() (unit string, factor float64) {
	switch k {
	case BandwidthLog:
		return iotax.BytesPerSecond, 1024
	case IOPSLog:
		return iotax.PerSecond, 1
	}
	return iotax.Seconds, 1e-9
}

// readLog reads data if it looks like a log. Except for histograms, only the name of the file shows which quantity the
// log contains.
func readLog(data []byte, name string) (Part, bool) {
	if !logLike(data, name) {
		return Part{}, false
	}
	p := Part{Kind: KindLog, End: len(data), Line: 1}
	l, named := LogName(name)
	columns := bytes.Count(firstLine(data), []byte{','}) + 1
	switch {
	case columns > 20:
		l.Kind = HistogramLog
		l.Bins, p.Err = ParseHistogramLog(data)
	case !named:
		p.Err = errors.New("the name of the log does not show its quantity: fio's names are x_bw.1.log, x_iops.1.log, x_lat.1.log")
		return p, true
	default:
		l.Samples, p.Err = ParseLog(data)
	}
	p.Log = &l
	return p, true
}

func firstLine(data []byte) []byte {
	data = bytes.TrimLeft(data[:min(len(data), 1<<16)], " \t\r\n")
	line, _, _ := bytes.Cut(data, []byte{'\n'})
	return line
}

// logLike reports whether data starts with comma-separated numbers.
func logLike(data []byte, name string) bool {
	line := firstLine(data)
	return bytes.Count(line, []byte{','}) >= 3 && line[0] >= '0' && line[0] <= '9' && len(bytes.Trim(line, "0123456789, \rxabcdef")) == 0
}

// ParseLog reads a log file. In every version of fio, a line begins with time (ms), value, direction and block size.
// ParseLog ignores later columns and the maximum that log_window_value=both adds after the value. It converts the times
// of log_unix_epoch (see fromStart).
func ParseLog(data []byte) ([]Sample, error) {
	out := make([]Sample, 0, bytes.Count(data, []byte{'\n'}))
	skip := maximumAt(data)
	for n, line := range logLines(data) {
		var f [4]float64
		rest := line
		for i := range f {
			v, tail, ok := logNumber(rest)
			if !ok {
				fromStart(out)
				return out, fmt.Errorf("fio log, line %d: %.40q has no number in field %d", n, line, i+1)
			}
			f[i] = v
			if skip && i == 1 {
				_, tail, _ = bytes.Cut(tail, []byte(","))
			}
			rest = tail
		}
		out = append(out, Sample{Seconds: f[0] / 1000, Value: f[1], Direction: int(min(f[2], 3)), BlockSize: uint64(min(f[3], math.MaxInt64))})
	}
	fromStart(out)
	return out, nil
}

// logLines yields the non-empty lines with their line numbers.
func logLines(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		n := 0
		for line := range bytes.Lines(data) {
			n++
			if line = bytes.TrimSpace(line); len(line) > 0 && !yield(n, line) {
				return
			}
		}
	}
}

// logNumber reads the first number of a line. `rest` is the text after the comma.
func logNumber(line []byte) (v float64, rest []byte, ok bool) {
	field, rest, _ := bytes.Cut(line, []byte(","))
	v, ok = decimal(bytes.TrimSpace(field))
	return v, rest, ok
}

// gap interprets a sample that may come more than a step after the previous one, which was at `last`. It returns the
// time range in which the sample's I/O was done, and the rate in that range. `level` is the highest rate before the
// sample.
//
// fio writes no line for a step without I/O. The next line comes a whole number of steps later and has the rate of its
// own step. If fio itself was stopped (by a signal or a frozen cgroup), it writes a line as soon as it continues, with
// the mean since the last line. In that case the I/O was done in the first step, before the stop. If the rate in that
// step would be clearly above `level`, fio was not stopped, and the line was only late.
func gap(last float64, s Sample, step, level float64) (from, to, rate float64) {
	const (
		jitter = 0.03 // steps; the timing precision of fio's lines
		late   = 1.5  // steps; a shorter interval is not a gap
		rise   = 1.2  // maximum ratio of the rate in the first step to level
	)
	steps := (s.Seconds - last) / step
	done := s.Value * steps // the rate if all of this I/O was done in one step
	switch whole := math.Round(steps); {
	case steps < late:
		return last, s.Seconds, s.Value
	case math.Abs(steps-whole) < jitter*max(1, whole/4):
		return s.Seconds - step, s.Seconds, s.Value
	case done <= rise*level:
		return last, last + step, done
	}
	return last, s.Seconds, s.Value
}

// maximumAt reports whether a maximum follows each value. In that case, the third number of some line is not a
// direction, and the fourth number of every line is a direction.
func maximumAt(data []byte) bool {
	found := false
	for line := range bytes.Lines(data[:min(len(data), 1<<20)]) {
		f := bytes.SplitN(line, []byte(","), 6)
		if len(f) < 5 {
			continue
		}
		third, ok := decimal(bytes.TrimSpace(f[2]))
		fourth, ok2 := decimal(bytes.TrimSpace(f[3]))
		if !ok || !ok2 || fourth > 2 {
			return false
		}
		found = found || third > 2
	}
	return found
}

// decimal reads a finite non-negative number.
func decimal(b []byte) (float64, bool) {
	if n, end := digits(b, 0); end == len(b) && end > 0 && end < 16 {
		return float64(n), true
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil && v >= 0 && !math.IsInf(v, 0)
}

// fromStart converts times since 1970 to times since the start of the window. For single I/Os, the window starts at the
// first sample. For averages, it starts one interval earlier. fromStart assumes that this interval is as long as the
// next one.
func fromStart(samples []Sample) {
	const years = 3e8 // seconds; longer than any run
	if len(samples) == 0 || samples[0].Seconds < years {
		return
	}
	first, next := samples[0].Seconds, samples[0].Seconds
	for _, s := range samples {
		if s.Seconds > first && samples[0].BlockSize == 0 {
			next = s.Seconds
			break
		}
	}
	for i := range samples {
		samples[i].Seconds = max(0, samples[i].Seconds-first+(next-first))
	}
}

// ParseHistogramLog reads a log from write_hist_log and sums it by direction. A line contains time (ms), direction,
// block size, and the counts since the previous line. A line has 1856 bins in nanoseconds since fio 3.0, and 1216
// bins in microseconds in older versions. log_hist_coarseness divides the number of bins by a power of two. The value
// of a coarse bin is its middle.
func ParseHistogramLog(data []byte) ([]Histogram, error) {
	sums := map[int][]uint64{}
	columns := 0
	var unit, stride uint64
	for n, line := range logLines(data) {
		c := bytes.Count(line, []byte{','}) + 1 - 3
		if columns == 0 {
			if unit, stride = histogramLayout(c); stride == 0 {
				return nil, fmt.Errorf("fio histogram log, line %d: %d bins are neither 1856 nor 1216, nor a half, a quarter… of them", n, c)
			}
			columns = c
		}
		if c != columns {
			return histograms(sums, unit, stride), fmt.Errorf("fio histogram log, line %d: %d bins instead of %d", n, c, columns)
		}
		var sum []uint64
		rest := line
		for i := range 3 + columns {
			v, tail, ok := logNumber(rest)
			if !ok {
				return histograms(sums, unit, stride), fmt.Errorf("fio histogram log, line %d: %.20q is not a number", n, rest)
			}
			if rest = tail; i > 2 {
				sum[i-3] += count(v)
			} else if dir := int(min(v, 3)); i == 1 {
				if sums[dir] == nil {
					sums[dir] = make([]uint64, columns)
				}
				sum = sums[dir]
			}
		}
	}
	return histograms(sums, unit, stride), nil
}

// histogramLayout returns the unit of the bins in nanoseconds, and the number of fio's bins in each column. It
// returns 0, 0 if fio does not write this number of columns.
func histogramLayout(columns int) (unit, stride uint64) {
	for stride := uint64(1); stride <= 64; stride *= 2 {
		switch uint64(columns) * stride {
		case 1856:
			return 1, stride
		case 1216:
			return 1000, stride
		}
	}
	return 0, 0
}

func histograms(sums map[int][]uint64, unit, stride uint64) []Histogram {
	var out []Histogram
	for _, dir := range slices.Sorted(maps.Keys(sums)) {
		h := Histogram{Direction: dir}
		for i, n := range sums[dir] {
			if n == 0 {
				continue
			}
			at := uint64(i) * stride
			v := binValue(at)
			if stride > 1 {
				lo, hi := binStart(at), binStart(at+stride)
				v = lo + (hi-lo)/2
			}
			h.Bins = append(h.Bins, Bin{v * unit, n})
		}
		out = append(out, h)
	}
	return out
}

// binStart returns the lower bound of the bin with this index. plat_idx_to_val in fio's stat.c returns the middle.
func binStart(index uint64) uint64 {
	if index < 128 {
		return index
	}
	shift := index/64 - 1
	return 1<<(shift+6) + index%64<<shift
}

// LogResults combines the log files of one run of fio, of all kinds and jobs. It returns series with one value per
// step, values in base units, and histograms. `step` is in seconds. If the interval of the logs is longer, it replaces
// `step`. `version` is the version of fio, or "" if it is unknown.
func LogResults(version string, step float64, logs ...*Log) ([]iotax.Series, []iotax.Value, []iotax.Histogram) {
	var series []iotax.Series
	step = max(step, interval(logs))
	for _, kind := range []LogKind{IOPSLog, BandwidthLog, LatencyLog, CompletionLog, SubmissionLog} {
		var samples [][]Sample
		for _, l := range logs {
			if l.Kind == kind && len(l.Samples) > 0 {
				samples = append(samples, l.Samples)
			}
		}
		if len(samples) == 0 {
			continue
		}
		switch kind {
		case IOPSLog, BandwidthLog:
			series = append(series, Rates(kind, step, samples...)...)
		default:
			scale := 1.0
			if version != "" && before(version, 2, 99) {
				scale = 1000
			}
			series = append(series, means(kind, step, scale, samples...)...)
		}
	}
	var values []iotax.Value
	for _, s := range series {
		var sum float64
		for _, v := range s.V {
			sum += v
		}
		name, better := s.Name, iotax.Up
		if s.Unit == iotax.Seconds {
			name, better = name+".mean", iotax.Down
		}
		values = append(values, iotax.Value{Name: name, Value: sum / float64(len(s.V)), Unit: s.Unit, Better: better})
	}
	last := 0.0
	for _, l := range logs {
		for _, s := range l.Samples {
			last = max(last, s.Seconds)
		}
	}
	if last > 0 {
		values = append(values, iotax.Value{Name: iotax.ValueDuration, Value: last, Unit: iotax.Seconds})
	}

	var merged [3]Latency
	for _, l := range logs {
		for _, h := range l.Bins {
			if h.Direction < len(merged) {
				merged[h.Direction].Bins = compactBins(slices.Concat(merged[h.Direction].Bins, h.Bins))
			}
		}
	}
	var hists []iotax.Histogram
	for i := range merged {
		if len(merged[i].Bins) == 0 {
			continue
		}
		name := directionNames[i] + ".latency"
		hists = append(hists, merged[i].histogram(name))
		for _, q := range quantiles {
			if v, ok := merged[i].Quantile(q.p); ok {
				values = append(values, iotax.Value{Name: name + "." + q.name, Value: v, Unit: iotax.Seconds, Better: iotax.Down})
			}
		}
	}
	return series, values, hists
}

// interval returns the median time between averages, rounded to whole seconds. A series with a smaller step would
// contain no more information. interval returns 0 for logs of single I/Os.
func interval(logs []*Log) float64 {
	var gaps []float64
	for _, l := range logs {
		last := 0.0
		for _, s := range l.Samples {
			if s.BlockSize > 0 {
				return 0
			}
			if s.Seconds > last {
				gaps = append(gaps, s.Seconds-last)
				last = s.Seconds
			}
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return math.Round(gaps[len(gaps)/2])
}

// directionSeries returns a series for each direction that has values.
func directionSeries(kind LogKind, values func(dir int) (t, v []float64)) []iotax.Series {
	unit, _ := kind.Base()
	var out []iotax.Series
	for dir, name := range directionNames[:3] {
		if t, v := values(dir); len(t) > 0 {
			out = append(out, iotax.Series{Name: name + "." + string(kind), Unit: unit, T: t, V: v})
		}
	}
	return slices.Clip(out)
}

// maxSteps limits the number of steps in a series, because a corrupt time could otherwise use all memory.
const maxSteps = 1e6

// binned adds up `of(s)` over the samples s of a direction. It returns the sum and the number of samples (n) for each
// step. `last` is the time of the last sample.
func binned(step float64, dir int, logs [][]Sample, of func(Sample) float64) (sums, n []float64, last float64) {
	for _, log := range logs {
		for _, s := range log {
			if s.Direction != dir || s.Seconds > maxSteps*step {
				continue
			}
			i := int(s.Seconds / step)
			if s.BlockSize == 0 { // the time of an average is the end of its interval
				i = max(0, int(math.Ceil(s.Seconds/step-0.5))-1)
			}
			for len(sums) <= i {
				sums, n = append(sums, 0), append(n, 0)
			}
			sums[i] += of(s)
			n[i]++
			last = max(last, s.Seconds)
		}
	}
	return sums, n, last
}

// means returns series of the mean latency in each step. All samples of single I/Os have equal weight. All averages
// (log_avg_msec) also have equal weight, because the log does not record the number of I/Os in an average.
func means(kind LogKind, step, scale float64, logs ...[]Sample) []iotax.Series {
	_, factor := kind.Base()
	return directionSeries(kind, func(dir int) (t, v []float64) {
		sums, n, _ := binned(step, dir, logs, func(s Sample) float64 { return s.Value })
		for i := range sums {
			if n[i] > 0 {
				t, v = append(t, float64(i+1)*step), append(v, sums[i]/n[i]*factor*scale)
			}
		}
		return t, v
	})
}

// perIO returns a series from logs of single I/Os: the I/Os or bytes per second that completed in each step. It omits
// the last of several steps unless that step is nearly complete.
func perIO(kind LogKind, step float64, dir int, logs [][]Sample) (t, v []float64) {
	sums, _, last := binned(step, dir, logs, func(s Sample) float64 {
		if kind == BandwidthLog {
			return float64(s.BlockSize)
		}
		return 1
	})
	for i, sum := range sums {
		if end := float64(i+1) * step; i == 0 || last > end-step/10 {
			t, v = append(t, end), append(v, sum/step)
		}
	}
	return t, v
}

// Rates sums the logs of several jobs, averaged by log_avg_msec. It returns a series for each direction with one value
// per step. step is in seconds. The times in each log are off by a few milliseconds, so Rates spreads each average over
// the time since the previous one (see gap). It omits steps with samples for less than half of their time. For logs of
// single I/Os, it counts the I/Os or bytes.
func Rates(kind LogKind, step float64, logs ...[]Sample) []iotax.Series {
	_, factor := kind.Base()
	return directionSeries(kind, func(dir int) (t, v []float64) {
		if single(logs, dir) {
			return perIO(kind, step, dir, logs)
		}
		var sums, covered []float64
		jobs := 0
		for _, log := range logs {
			last := 0.0
			seen := false
			level := 0.0 // the highest average so far
			for _, s := range log {
				if s.Direction != dir || s.Seconds <= last || s.Seconds-last > 1e6 || s.Seconds > maxSteps*step {
					continue
				}
				from, to, value := last, s.Seconds, s.Value
				if seen {
					from, to, value = gap(last, s, step, level)
				}
				seen = true
				level = max(level, value)
				for at := last; at < s.Seconds; {
					i := int(at/step + 1e-9)
					end := min(s.Seconds, float64(i+1)*step)
					if end <= at {
						break
					}
					for len(sums) <= i {
						sums, covered = append(sums, 0), append(covered, 0)
					}
					sums[i] += value * max(0, min(end, to)-max(at, from)) / step
					covered[i] += (end - at) / step
					at = end
				}
				last = s.Seconds
			}
			if seen {
				jobs++
			}
		}
		for i := range sums {
			if share := covered[i] / float64(jobs); share >= 0.5 {
				t, v = append(t, float64(i+1)*step), append(v, sums[i]/share*factor)
			}
		}
		return t, v
	})
}

// single reports whether the logs contain each I/O of the direction, with its block size, instead of averages. Before
// fio 2.10, averages could also have a block size. single recognizes such averages by their mean spacing: 0.4 s or
// more.
func single(logs [][]Sample, dir int) bool {
	n, seconds := 0, 0.0 // number of samples, and length in seconds, summed over the logs
	for _, log := range logs {
		last := 0.0
		for _, s := range log {
			if s.Direction != dir {
				continue
			}
			if s.BlockSize == 0 {
				return false
			}
			n, last = n+1, max(last, s.Seconds)
		}
		seconds += last
	}
	return n > 0 && seconds < 0.4*float64(n)
}
