// Package generate does the I/O of applications in a directory of any machine. It runs inside the agent, so nothing
// needs to be installed, except git for DoRealGit. A generator imitates the system calls of an application: their
// order, sizes and flushes. It measures how long they take, and verifies the data that it reads back. Its random
// choices come from a seed.
package generate

import (
	"math/bits"
	"time"

	"iotax"
)

// Histograms have the bins of fio: exact below 128 ns, and 64 for each power of two above. The middle of a bin differs
// from the observed value by at most 1/128 of that value.
const binBits = 6

// A recorder counts latencies. Only one goroutine may use it.
type recorder struct {
	counts []uint64 // by bin, as far as needed
	sum    time.Duration
	n      uint64
}

// start is the zero of clock.
var start = time.Now()

// clock returns the time since start. It reads the monotonic clock alone, time.Now also the time of day.
func clock() time.Duration { return time.Since(start) }

func (r *recorder) add(d time.Duration) {
	d = max(d, 0)
	r.count(binOf(uint64(d)), 1)
	r.sum += d
	r.n++
}

func (r *recorder) count(bin int, n uint64) {
	if more := bin + 1 - len(r.counts); more > 0 {
		r.counts = append(r.counts, make([]uint64, more)...)
	}
	r.counts[bin] += n
}

func binOf(ns uint64) int {
	shift := max(0, bits.Len64(ns)-binBits-1)
	return shift<<binBits + int(ns>>shift)
}

// middle returns the middle of a bin, in ns.
func middle(bin int) float64 {
	if bin < 2<<binBits {
		return float64(bin)
	}
	shift := bin>>binBits - 1
	return float64(uint64(bin-shift<<binBits)<<shift) + float64(uint64(1)<<shift)/2
}

// merge adds the counts of another recorder.
func (r *recorder) merge(o *recorder) {
	for i, n := range o.counts {
		r.count(i, n)
	}
	r.sum += o.sum
	r.n += o.n
}

// into adds the histogram name.latency and its mean to a result.
func (r *recorder) into(out *Result, name string) {
	if r.n == 0 {
		return
	}
	name += ".latency"
	h := iotax.Histogram{Name: name, Unit: iotax.Seconds}
	for bin, n := range r.counts {
		if n > 0 {
			h.Bins = append(h.Bins, iotax.Bin{Value: max(middle(bin), .5) / 1e9, Count: n})
		}
	}
	out.Histograms = append(out.Histograms, h)
	out.value(name+".mean", r.sum.Seconds()/float64(r.n), iotax.Seconds, iotax.Down)
}

// lost returns the error for a file that does not contain what the generator wrote.
func lost(path string, err error) error {
	return &iotax.Error{Op: "verify", On: path, Err: err, Hint: "the place lost data: trust nothing there"}
}

// FactNames is the key of a fact of cold trials. The fact is "" if the kernel's cache of file names and attributes was
// dropped before the trial, and otherwise the error.
const FactNames = "names"

// A Result contains the measurements of a generator.
type Result struct {
	Values     []iotax.Value
	Histograms []iotax.Histogram
	Facts      map[string]string
	Calls      map[string]int // number of system calls in the measured directory, by name
}

func (r *Result) called(n int, calls ...string) {
	for _, c := range calls {
		if n > 0 {
			r.Calls[c] += n
		}
	}
}

// forget drops the kernel's cache of names and attributes, and records the outcome as the fact FactNames.
func (r *Result) forget() {
	r.Facts[FactNames] = ""
	if err := forgetNames(); err != nil {
		r.Facts[FactNames] = iotax.Cause(err).Error()
	}
}

func (r *Result) value(name string, v float64, unit string, better iotax.Better) {
	r.Values = append(r.Values, iotax.Value{Name: name, Value: v, Unit: unit, Better: better})
}
