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

// Rates sums the logs of several jobs (one file a job, averaged by log_avg_msec) into one series a
// direction, with one value a step (seconds). fio stamps its averages a few milliseconds early or
// late and each job in its own way, so every average is spread over the time since the one before.
// Steps that only a part of the time is known of are left out.
func Rates(kind LogKind, step float64, logs ...[]Sample) []iotax.Series {
	unit, factor := kind.Base()
	var out []iotax.Series
	for dir, name := range []string{"read", "write", "trim"} {
		var sums, covered []float64
		jobs := 0
		for _, log := range logs {
			last := 0.0
			seen := false
			for _, s := range log {
				if s.Direction != dir || s.Seconds <= last || s.Seconds-last > 1e6 || s.Seconds > 1e6*step {
					continue
				}
				seen = true
				for at := last; at < s.Seconds; {
					i := int(at/step + 1e-9)
					end := min(s.Seconds, float64(i+1)*step)
					if end <= at {
						break
					}
					for len(sums) <= i {
						sums, covered = append(sums, 0), append(covered, 0)
					}
					sums[i] += s.Value * (end - at) / step
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
