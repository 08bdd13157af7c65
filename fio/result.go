// Package fio parses results, logs, job files and command lines of fio 2.x to 3.4x. It also formats job files and
// command lines. Values are in base units. The package opens no files and starts no processes.
package fio

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"iotax"
)

// Kind is the format of a Part or a Result.
type Kind string

// The kinds that Read recognizes.
const (
	KindJSON     Kind = "JSON"
	KindJSONPlus Kind = "JSON+" // JSON with histograms
	KindTerse    Kind = "terse" // --minimal
	KindText     Kind = "text"  // the normal output
	KindLog      Kind = "log"   // from write_bw_log and similar options
	KindJobFile  Kind = "job file"
	KindNone     Kind = "" // not a fio file
)

// A Result contains the measurements of one fio process.
type Result struct {
	Kind    Kind
	Version string    // as fio prints it
	Time    time.Time // when fio wrote the result
	Options map[string]string
	Jobs    []Job
	Disks   []Disk
	Notes   []string // lines of text in and around the document, such as fio's warnings and errors

	// Series contains the rates over time of a process that reported more than once (status-interval), such as
	// "read.iops" and "read.bandwidth". If the result has several groups, only the results that Split returns have
	// Series.
	Series []iotax.Series

	groups map[int][]iotax.Series // Series by group, for Split

	damaged []string // descriptions of impossible values that were omitted

	fresh  bool // text or terse: a process started after the previous result
	headed bool // text: the lines that a process prints when it starts were found

	// Latencies is "total" (submission and completion), or "completion" if fio reported only completion latencies.
	// It is "" if no job has latencies.
	Latencies string
}

// A Job is one row of a result: a job, or the sum of a group of jobs with group_reporting.
type Job struct {
	Name    string
	Host    string // of a client in client/server mode; "" otherwise
	Port    int
	Group   int
	Members int           // number of jobs in the row; from text, or from the runtimes of a group in JSON; 0 if unknown
	Unlike  []string      // options in which these jobs differ; they are not in Options
	PID     int           // of the first of these jobs, in text output
	Error   int           // errno of the error that stopped the job; 0 means success
	Elapsed time.Duration // since the start of fio, in whole seconds; only in JSON
	Options map[string]string
	printed map[string]string // the options in a sum as fio printed them; nil if they are equal to Options

	// PerhapsSum reports that a JSON row may be the sum of several sections. Then Options are those of the last section,
	// and the options of the others are unknown.
	PerhapsSum bool

	Read, Write, Trim Direction
	// Mixed is the sum that unified_rw_reporting reports, instead of or in addition to the directions.
	Mixed Direction
	Sync  Sync

	Runtime         time.Duration // summed over the jobs of a group
	UserCPU         float64       // CPU time divided by Runtime
	SystemCPU       float64       // CPU time divided by Runtime
	ContextSwitches uint64
	MajorFaults     uint64
	MinorFaults     uint64
	SteadyState     *SteadyState // nil if the job does not use the option steadystate
}

// A Direction is the I/O of a job in one direction.
type Direction struct {
	Bytes   uint64
	IOs     uint64
	Short   uint64
	Dropped uint64
	Runtime time.Duration // of the slowest job of a group

	// IOPS and Bandwidth (B/s) are the rates as fio printed them. Values computes rates from the totals.
	IOPS      float64
	Bandwidth float64

	// IOPSOff, BandwidthOff and BytesOff are the maximum rounding errors of IOPS, Bandwidth and Bytes.
	IOPSOff, BandwidthOff, BytesOff float64

	// Twice describes a number that fio printed in two forms that contradict each other; "" if there is none.
	Twice string

	share float64 // share of the group's bandwidth, from terse

	// The sources of IOs and Bytes. Text and terse output do not contain both exactly.
	IOsFrom, BytesFrom Source

	Submission, Completion, Total Latency
}

// A Source states how a total was obtained, and therefore how exact it is.
type Source string

const (
	Exact         Source = ""                    // as counted
	Rounded       Source = "rounded by fio"      // IOs from this source are unknown (0)
	FromBlockSize Source = "IOs × block size"    // exact, because text output contains both factors
	FromRate      Source = "bandwidth × runtime" // rounded less than the printed bytes
	FromBytes     Source = "bytes ÷ block size"  // exact if all blocks had the size that the rate implies
)

// Sync contains the number and latency of a job's flushes. fio reports them from version 3.4.
type Sync struct {
	IOs     uint64
	Latency Latency
}

// A Latency is a distribution of times in seconds.
type Latency struct {
	Min, Max, Mean, SD float64
	N                  uint64
	Percentiles        []Percentile // ascending
	Bins               []Bin        // ascending, without empty bins; only in json+
}

// A Percentile is the time within which the share P (0…1) of the I/Os completed.
type Percentile struct {
	P       float64
	Seconds float64
}

// A Bin counts the I/Os with about the same latency. fio uses 64 bins per power of two, so the relative error is at
// most 1/128.
type Bin struct {
	Nanoseconds uint64
	Count       uint64
}

// SteadyState is the result of fio's steady state detection.
type SteadyState struct {
	Criterion string // such as "iops_slope:0.169%"
	Attained  bool
	Duration  time.Duration
	IOPS      float64
	Bandwidth float64 // B/s
}

// A Disk contains the statistics of a block device during the run.
type Disk struct {
	Name                    string
	ReadIOs, WriteIOs       uint64
	ReadMerges, WriteMerges uint64
	ReadBytes, WriteBytes   uint64 // since fio 3.37; 0 before
	ReadTicks, WriteTicks   time.Duration
	InQueue                 time.Duration
	Utilization             float64 // ratio
}

// allClients is the name of the extra row that sums all clients.
const allClients = "All clients"

// Err returns the errors of the failed jobs, or nil.
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

// versionNumber reads "fio-3.33-12-gabc" as 3, 33. It returns the newest version for an unknown format, because
// only old versions need special treatment.
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

// compactBins sorts bins, merges bins with the same value, and removes empty bins. It modifies bins.
func compactBins(bins []Bin) []Bin {
	if ascending := func(a, b Bin) int { return cmp.Compare(a.Nanoseconds, b.Nanoseconds) }; !slices.IsSortedFunc(bins, ascending) {
		slices.SortFunc(bins, ascending)
	}
	out := bins[:0]
	for _, b := range bins {
		switch {
		case b.Count == 0:
		case len(out) > 0 && out[len(out)-1].Nanoseconds == b.Nanoseconds:
			out[len(out)-1].Count = sum(out[len(out)-1].Count, b.Count)
		default:
			out = append(out, b)
		}
	}
	return out
}

// directions returns the directions in fio's order.
func (j *Job) directions() []*Direction { return []*Direction{&j.Read, &j.Write, &j.Trim, &j.Mixed} }

func (j *Job) latencies() []*Latency {
	var ls []*Latency
	for _, d := range j.directions() {
		ls = append(ls, &d.Submission, &d.Completion, &d.Total)
	}
	return ls
}

// complete derives missing fields from the others, for results in any format.
func (r *Result) complete() {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		var slowest time.Duration
		for _, d := range j.directions() {
			slowest = max(slowest, d.Runtime)
			r.leaveOutLate(j, d)
			samples := d.IOs
			if samples == 0 {
				samples = count(d.IOPS * d.Runtime.Seconds())
			}
			for _, l := range []*Latency{&d.Submission, &d.Completion, &d.Total} {
				if l.N == 0 && (l.Mean > 0 || len(l.Percentiles) > 0) {
					l.N = max(samples, 1) // fio before 3.18, text and terse do not print the number of samples
				}
			}
			switch {
			case d.Total.N > 0:
				r.Latencies = "total"
			case d.Completion.N > 0 && r.Latencies == "":
				r.Latencies = "completion"
			}
		}
		switch {
		case j.Sync.Latency.N == 0 && j.Sync.Latency.Mean > 0:
			j.Sync.Latency.N = j.Sync.IOs
		case j.Sync.IOs == 0: // fio 3.33 reports 0 flushes even if it measured their latency
			j.Sync.IOs = j.Sync.Latency.N
		}
		// Text has no job_runtime. For a single job, it is the runtime of the slowest direction. For a group it is
		// a sum that text does not show.
		if j.Runtime == 0 && j.Members == 1 {
			j.Runtime = slowest
		}
	}
}

// leaveOutLate removes latencies that are longer than the run. fio 3.33 prints such submission latencies with
// disable_lat and slat_percentiles.
func (r *Result) leaveOutLate(j *Job, d *Direction) {
	ramp, _ := ParseTime(cmp.Or(j.recorded()["ramp_time"], r.Options["ramp_time"]), time.Second)
	for i, l := range []*Latency{&d.Submission, &d.Completion, &d.Total} {
		if most := 1.1*(d.Runtime+ramp).Seconds() + 0.1; d.Runtime > 0 && l.Min > most {
			r.damaged = append(r.damaged, fmt.Sprintf("the %s latencies of %s are at least %.3g s in a run of %.3g s: left out", []string{"submission", "completion", "total"}[i], j.Name, l.Min, d.Runtime.Seconds()))
			*l = Latency{}
		}
	}
}

// FitsBlocks reports whether the bytes divided by the block size equal the I/Os within 5 % or inFlight I/Os. After a
// ramp, fio counts the bytes of up to inFlight I/Os that started in the ramp, but does not count these I/Os.
func (d *Direction) FitsBlocks(size float64, inFlight int64) bool {
	blocks, ios := float64(d.Bytes)/size, float64(d.IOs)
	return math.Abs(blocks-ios) <= max(0.05*ios, float64(inFlight))+d.BytesOff/size
}

// counted returns the total count of the bins.
func (l *Latency) counted() uint64 {
	n := uint64(0)
	for _, b := range l.Bins {
		n = sum(n, b.Count)
	}
	return n
}

// sum returns a + b, or the largest number on overflow. Damaged output can cause an overflow.
func sum(a, b uint64) uint64 {
	if n, carry := bits.Add64(a, b, 0); carry == 0 {
		return n
	}
	return math.MaxUint64
}

// count rounds f to the nearest uint64. NaN becomes 0.
func count(f float64) uint64 {
	if !(f > 0) {
		return 0
	}
	if f >= math.MaxUint64 {
		return math.MaxUint64
	}
	return uint64(f + 0.5)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
