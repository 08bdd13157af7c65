package fio

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"iotax"
)

// A Sample is one line of a log file that fio writes with write_bw_log, write_iops_log,
// write_lat_log and their kin.
type Sample struct {
	Seconds   float64 // since the start of the measured window (ramp_time excluded)
	Value     float64 // KiB/s or 1/s, as fio wrote it: see LogKind.Base
	Direction int     // 0 read, 1 write, 2 trim
	BlockSize uint64
}

// LogKind says what the values of a log are.
type LogKind string

// The kinds of logs.
const (
	BandwidthLog LogKind = "bandwidth"
	IOPSLog      LogKind = "iops"
)

// Base returns the unit of a kind and what fio's numbers are multiplied with to get it.
func (k LogKind) Base() (unit string, factor float64) {
	if k == BandwidthLog {
		return iotax.BytesPerSecond, 1024
	}
	return iotax.PerSecond, 1
}

// ParseLog reads one log file. Every version starts a line with time (ms), value, direction and
// block size; what later versions add is ignored.
func ParseLog(data []byte) ([]Sample, error) {
	var out []Sample
	n := 0
	for line := range bytes.Lines(data) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		var f [4]float64
		rest := line
		for i := range f {
			field, tail, more := bytes.Cut(rest, []byte(","))
			v, err := strconv.ParseFloat(string(bytes.TrimSpace(field)), 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return out, fmt.Errorf("fio log, line %d: %.40q has no number in field %d", n, line, i+1)
			}
			f[i] = v
			if rest = tail; !more && i < 3 {
				return out, fmt.Errorf("fio log, line %d: %.40q has %d fields, 4 are the least", n, line, i+1)
			}
		}
		out = append(out, Sample{Seconds: f[0] / 1000, Value: f[1], Direction: int(min(f[2], 3)), BlockSize: uint64(min(f[3], math.MaxInt64))})
	}
	return out, nil
}

// gap says what a sample that comes late, more than a step after the one at last, is about: the part of
// that time in which the work was done, and its rate there.
//
// fio writes no line for a step without I/O, and the rate of the next line is of its own step alone: such a
// line stands a whole number of steps after the one before, and what lies between is idle. If fio itself
// was stopped (a signal, a frozen control group), it writes a line at once when it goes on, with the
// mean of all the time since the last one; then the work was done in the first step, before the stop. A
// late line whose mean is as high as before was only late, because fio's threads worked on. All three
// were seen with fio 3.33.
func gap(last float64, s Sample, step, level float64) (from, to, rate float64) {
	const (
		jitter = 0.03 // of a step: lines are written this exactly
		late   = 1.5  // steps
		rise   = 1.2  // how far above the level before the first step may seem to be
	)
	steps := (s.Seconds - last) / step
	done := s.Value * steps // in steps of work at this rate
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

// Rates sums the logs of several jobs (one file a job, averaged by log_avg_msec) into one series a
// direction, with one value a step (seconds). fio stamps its averages a few milliseconds early or
// late and each job in its own way, so every average is spread over the time since the one before;
// but see gap. Steps that only a part of the time is known of are left out.
func Rates(kind LogKind, step float64, logs ...[]Sample) []iotax.Series {
	unit, factor := kind.Base()
	var out []iotax.Series
	for dir, name := range []string{"read", "write", "trim"} {
		var sums, covered []float64
		jobs := 0
		for _, log := range logs {
			last := 0.0
			seen := false
			level := 0.0 // the highest average so far
			for _, s := range log {
				if s.Direction != dir || s.Seconds <= last || s.Seconds-last > 1e6 || s.Seconds > 1e6*step {
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
		if jobs == 0 {
			continue
		}
		s := iotax.Series{Name: name + "." + string(kind), Unit: unit}
		for i := range sums {
			share := covered[i] / float64(jobs)
			if share < 0.5 {
				continue
			}
			s.T = append(s.T, float64(i+1)*step)
			s.V = append(s.V, sums[i]/share*factor)
		}
		if len(s.T) > 0 {
			out = append(out, s)
		}
	}
	return slices.Clip(out)
}
