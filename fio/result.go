// Package fio reads what fio prints and writes what fio reads: results, logs and job files of fio
// 2.x to 3.4x, in base units. It does no I/O of its own.
package fio

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Result is what one fio process measured.
type Result struct {
	Version string    // as fio says it: "fio-3.33"
	Time    time.Time // when fio wrote it
	Options map[string]string
	Jobs    []Job
	Disks   []Disk
	Notes   []string // lines of text around the document: fio's warnings and errors

	// Latencies says what the latency values are taken from: "total" (submission and completion)
	// or "completion" where fio reported nothing else. Empty when no job has latencies.
	Latencies string
}

// A Job is one row of a result: a job, or with group_reporting the sum of a group of jobs.
type Job struct {
	Name    string
	Host    string // of a client in client/server mode; "" otherwise
	Port    int
	Group   int
	Error   int // errno of what stopped the job; 0 is success
	Options map[string]string

	Read, Write, Trim Direction
	// Mixed holds what unified_rw_reporting reports: instead of the directions, or beside them.
	Mixed Direction
	Sync  Sync

	Runtime         time.Duration // summed over the jobs of a group
	UserCPU         float64       // ratio of Runtime
	SystemCPU       float64       // ratio of Runtime
	ContextSwitches uint64
	MajorFaults     uint64
	MinorFaults     uint64
	SteadyState     *SteadyState // nil when the job did not ask for it
}

// A Direction is what a job did in one direction.
type Direction struct {
	Bytes   uint64
	IOs     uint64
	Short   uint64
	Dropped uint64
	Runtime time.Duration // of the slowest job of a group

	// IOPS and Bandwidth (B/s) are as fio printed them; Values computes them from the totals.
	IOPS      float64
	Bandwidth float64

	Submission, Completion, Total Latency
}

// Sync is what a job's flushes took; fio reports them from 3.4.
type Sync struct {
	IOs     uint64
	Latency Latency
}

// A Latency is a distribution of times. The times are in seconds.
type Latency struct {
	Min, Max, Mean, SD float64
	N                  uint64
	Percentiles        []Percentile // ascending
	Bins               []Bin        // ascending, none empty; only json+ has them
}

// A Percentile is the time within which a share P (0…1) of the I/Os was done.
type Percentile struct {
	P       float64
	Seconds float64
}

// A Bin counts I/Os by time. fio's bins are logarithmic, with 64 to a power of two: about 1/128 off.
type Bin struct {
	Nanoseconds uint64
	Count       uint64
}

// SteadyState is what fio's own steady state detection found.
type SteadyState struct {
	Criterion string // as in "iops_slope:0.169%"
	Attained  bool
	Duration  time.Duration
	IOPS      float64
	Bandwidth float64 // B/s
}

// A Disk is the use of one block device while fio ran.
type Disk struct {
	Name                    string
	ReadIOs, WriteIOs       uint64
	ReadMerges, WriteMerges uint64
	ReadBytes, WriteBytes   uint64 // from 3.37; 0 before
	ReadTicks, WriteTicks   time.Duration
	InQueue                 time.Duration
	Utilization             float64 // ratio
}

// Err says which jobs failed, or is nil.
func (r *Result) Err() error {
	var errs []error
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if j.Error == 0 {
			continue
		}
		name := j.Name
		if j.Host != "" {
			name += " on " + j.Host
		}
		errs = append(errs, fmt.Errorf("fio job %s: %w", name, syscall.Errno(j.Error)))
	}
	return errors.Join(errs...)
}

// versionNumber reads "fio-3.33-12-gabc" as 3, 33. What it can't read is the newest there is, as
// only old versions need special care.
func versionNumber(s string) (major, minor int) {
	s = strings.TrimPrefix(s, "fio-")
	a, rest, ok := strings.Cut(s, ".")
	major, err := strconv.Atoi(a)
	if !ok || err != nil {
		return math.MaxInt, 0
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	minor, _ = strconv.Atoi(rest)
	return major, minor
}

func before(version string, major, minor int) bool {
	a, b := versionNumber(version)
	return a < major || a == major && b < minor
}

// compactBins sorts bins and joins those of one value.
func compactBins(bins []Bin) []Bin {
	if !slices.IsSortedFunc(bins, func(a, b Bin) int { return cmp.Compare(a.Nanoseconds, b.Nanoseconds) }) {
		slices.SortFunc(bins, func(a, b Bin) int { return cmp.Compare(a.Nanoseconds, b.Nanoseconds) })
	}
	out := bins[:0]
	for _, b := range bins {
		switch {
		case b.Count == 0:
		case len(out) > 0 && out[len(out)-1].Nanoseconds == b.Nanoseconds:
			out[len(out)-1].Count += b.Count
		default:
			out = append(out, b)
		}
	}
	return out
}
