// Package fio reads what fio prints and writes what fio reads: results, logs and job files of fio
// 2.x to 3.4x, in base units. It does no I/O of its own.
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

// Kind is a form in which fio gives its results.
type Kind string

// The kinds of what Read tells apart.
const (
	KindJSON     Kind = "JSON"
	KindJSONPlus Kind = "JSON+" // JSON with histograms
	KindTerse    Kind = "terse" // --minimal
	KindText     Kind = "text"  // what fio prints for people
	KindLog      Kind = "log"   // write_bw_log and its kin
	KindJobFile  Kind = "job file"
	KindNone     Kind = "" // nothing of fio's
)

// A Result is what one fio process measured.
type Result struct {
	Kind    Kind
	Version string    // as fio says it: "fio-3.33"
	Time    time.Time // when fio wrote it
	Options map[string]string
	Jobs    []Job
	Disks   []Disk
	Notes   []string // lines of text around the document: fio's warnings and errors

	// Series are what the process did over time, where it reported more than once (status-interval):
	// "read.iops" and "read.bandwidth", from the differences of its reports.
	Series []iotax.Series

	groups map[int][]iotax.Series // Series of each group, for Split

	damaged []string // what was left out because it cannot be right

	fresh  bool // text or terse: a process started since the result before
	headed bool // text: the lines that a process starts with were seen

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
	Members int           // jobs behind the row, from text, or from the times of a group in JSON; 0 where neither shows it
	Unlike  []string      // options in which these jobs differ, which are therefore not in Options
	PID     int           // of the first of them, from text
	Error   int           // errno of what stopped the job; 0 is success
	Elapsed time.Duration // since the start of fio, in whole seconds; only JSON has it
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

	// IOPSOff and BandwidthOff are how far the true rates may be from these, by fio's rounding.
	IOPSOff, BandwidthOff float64

	share    float64 // of the group's bandwidth, from terse
	bytesOff float64 // how far the true Bytes may be from these, by fio's rounding

	// Where IOs and Bytes come from. Text and terse round one or the other.
	IOsFrom, BytesFrom Source

	Submission, Completion, Total Latency
}

// A Source says how exact a total is.
type Source string

const (
	Exact         Source = ""                    // as counted
	Rounded       Source = "rounded by fio"      // to the digits it prints; IOs are then unknown (0)
	FromBlockSize Source = "IOs × block size"    // exact: the text gives both
	FromRate      Source = "bandwidth × runtime" // exact to 1 KiB/s
	FromBytes     Source = "bytes ÷ block size"  // exact if all blocks were of the size that the rate suggests
)

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

// allClients is the name of the row that a fio with clients appends: their sum, as if it were one more.
const allClients = "All clients"

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

// directions lists j's directions in fio's order.
func (j *Job) directions() []*Direction { return []*Direction{&j.Read, &j.Write, &j.Trim, &j.Mixed} }

func (j *Job) latencies() []*Latency {
	var ls []*Latency
	for _, d := range j.directions() {
		ls = append(ls, &d.Submission, &d.Completion, &d.Total)
	}
	return ls
}

// complete fills in what follows from the rest, whatever the form r was read from.
func (r *Result) complete() {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		var slowest time.Duration
		for _, d := range j.directions() {
			slowest = max(slowest, d.Runtime)
			samples := d.IOs
			if samples == 0 {
				samples = count(d.IOPS * d.Runtime.Seconds())
			}
			for _, l := range []*Latency{&d.Submission, &d.Completion, &d.Total} {
				if l.N == 0 && (l.Mean > 0 || len(l.Percentiles) > 0) {
					l.N = samples // before 3.18, and outside JSON, the number of samples is not printed
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
		case j.Sync.IOs == 0: // fio 3.33 says 0 of flushes that it has timed
			j.Sync.IOs = j.Sync.Latency.N
		}
		// Text has no job_runtime. Of a single job it is the time it ran; of a group it is a sum that
		// nothing else tells.
		if j.Runtime == 0 && j.Members == 1 {
			j.Runtime = slowest
		}
	}
}

// FitsBlocks reports whether d's bytes and I/Os are blocks of one size, within 5 %. Behind a ramp, which is not
// counted, fio has the bytes of I/Os that began in it: up to inFlight of them are not among the I/Os.
func (d *Direction) FitsBlocks(size float64, inFlight int64) bool {
	blocks, ios := float64(d.Bytes)/size, float64(d.IOs)
	return math.Abs(blocks-ios) <= max(0.05*ios, float64(inFlight))
}

// counted is the sum of the bins.
func (l *Latency) counted() uint64 {
	n := uint64(0)
	for _, b := range l.Bins {
		n = sum(n, b.Count)
	}
	return n
}

// sum is a + b, or the largest number: a damaged output may have any.
func sum(a, b uint64) uint64 {
	if n, carry := bits.Add64(a, b, 0); carry == 0 {
		return n
	}
	return math.MaxUint64
}

// count is f as a number of things.
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
