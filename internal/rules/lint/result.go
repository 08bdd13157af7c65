package lint

import (
	"fmt"
	"math"
	"strings"

	"iotax"
	"iotax/fio"
	"iotax/internal/rules"
)

// resultRules detect results whose numbers contradict each other or that have no latency.
var resultRules = []rule{
	{Rule: rules.RateMismatch, result: rateMismatch},
	{Rule: rules.NoLatency, result: noLatency},
}

// mismatch is the maximum accepted relative error of a rate. It allows for text output, which has only three digits.
const mismatch = 0.05

// sector is the smallest I/O of a block device, in bytes.
const sector = 512

func rateMismatch(ran *fio.Job, j *job, r *report) {
	for _, d := range directionsOf(ran) {
		if d.Twice != "" {
			r.at(j, j.head, "%s: %s", d.name, d.Twice)
			continue
		}
		mean := 0.0
		if d.IOs > 0 {
			mean = float64(d.Bytes) / float64(d.IOs)
		}
		bs, fixed := j.blockSize(d.name)
		switch {
		case fixed && mean > 0 && d.Short == 0 && !d.FitsBlocks(float64(bs), j.inFlight(ran)):
			r.at(j, j.head, "%s: %d bytes in %d I/Os are %s each, and the block size is %s", d.name, d.Bytes, d.IOs, rules.Bytes(int64(mean)), rules.Bytes(bs))
			if j.json { // fio printed both numbers, so none is mistyped
				r.hits[len(r.hits)-1].severity = iotax.Info
				r.hint("with group_reporting, JSON has the sum of all sections and the block size of one: fio's text output shows the number of jobs")
			}
			continue
		case fixed && (mean == 0 || !off(mean, float64(bs))): // IOs or bytes may be derived from the rates, but the block size is not
			mean = float64(bs)
		}
		// In a very short job, fio's rounding of the time dominates the error.
		if d.Runtime > 0 && d.Runtime.Seconds() < 0.1 {
			continue
		}
		s := d.Runtime.Seconds()
		bandwidth := between{d.Bandwidth - d.BandwidthOff, d.Bandwidth + d.BandwidthOff}
		if s > 0 { // the bytes are rounded, too
			bandwidth.least, bandwidth.most = bandwidth.least-d.BytesOff/s, bandwidth.most+d.BytesOff/s
		}
		iops := between{d.IOPS - d.IOPSOff, d.IOPS + d.IOPSOff}
		if s > 0 && d.Bandwidth > 0 && d.Bytes > 0 && bandwidth.off(float64(d.Bytes)/s) {
			r.at(j, j.head, "%s: %s in %s are %s/s, and the bandwidth is %s/s", d.name, rules.Bytes(int64(d.Bytes)), rules.Time(d.Runtime), rules.Bytes(int64(float64(d.Bytes)/s)), rules.Bytes(int64(d.Bandwidth)))
			continue
		}
		if s > 0 && d.IOPS > 0 && d.IOs > 0 && iops.off(float64(d.IOs)/s) {
			r.at(j, j.head, "%s: %d I/Os in %s are %s IOPS, and %s are printed", d.name, d.IOs, rules.Time(d.Runtime), rules.Number(float64(d.IOs)/s), rules.Number(d.IOPS))
			continue
		}
		if d.IOPS < 1 || d.Bandwidth <= 0 {
			continue
		}
		// In a report during the run, fio reads the bytes and the number of I/Os at different times.
		slack := max(mismatch, min(j.apart.Seconds()/max(s, 1e-3), 1))
		if size := bandwidth.most / d.IOPS; !fixed && size < sector*(1-slack) && j.text("ioengine") == "" {
			r.at(j, j.head, "%s: %s IOPS and %s/s make I/Os of %s, and no storage has any smaller than %d bytes", d.name, rules.Number(d.IOPS), rules.Bytes(int64(d.Bandwidth)), rules.Bytes(int64(d.Bandwidth/d.IOPS)), sector)
			continue
		}
		if mean > 0 && (iops.most*mean < bandwidth.least*(1-slack) || iops.least*mean > bandwidth.most*(1+slack)) {
			r.at(j, j.head, "%s: %s IOPS of %s are %s/s, and the bandwidth is %s/s", d.name, rules.Number(d.IOPS), rules.Bytes(int64(mean)), rules.Bytes(int64(d.IOPS*mean)), rules.Bytes(int64(d.Bandwidth)))
		}
	}
}

// inFlight returns the maximum number of I/Os in flight at the end of a ramp. It returns 0 if the job has no ramp, or
// if the number is unknown. If the options of the job are only partly known, inFlight assumes a ramp.
func (j *job) inFlight(ran *fio.Job) int64 {
	if !j.has("ramp_time") && !j.part {
		return 0
	}
	depth, ok1 := j.number("iodepth", 1)
	clones, ok2 := j.number("numjobs", 1)
	if !ok1 || !ok2 {
		return 0
	}
	return min(depth, 1<<20) * min(max(clones, int64(ran.Members)), 1<<20)
}

// A between is the range of rates that round to a printed rate.
type between struct{ least, most float64 }

// off reports whether x is outside the range by more than mismatch.
func (b between) off(x float64) bool {
	return x < b.least*(1-mismatch) || x > b.most*(1+mismatch)
}

func off(a, b float64) bool { return math.Abs(a/b-1) > mismatch }

// jointly implements jobs-compete for a result, whose rows may combine sections with different work.
func jointly(ran *fio.Job, j *job, r *report) {
	var what []string
	for _, k := range ran.Unlike {
		if k == "rw" || k == "bs" {
			what = append(what, k)
		}
	}
	switch {
	case len(what) > 0:
		r.at(j, j.head, "[%s] is the sum of %d jobs at the same time, which differ in %s", j.name, ran.Members, strings.Join(what, " and "))
	case len(ran.Unlike) > 0:
		r.as(iotax.Info, j, j.head, "[%s] is the sum of %d jobs at the same time, which differ in %s", j.name, ran.Members, strings.Join(ran.Unlike, " and "))
	}
}

// A ranDirection is one I/O direction of a job, with its name.
type ranDirection struct {
	name string
	*fio.Direction
}

func directionsOf(ran *fio.Job) []ranDirection {
	return []ranDirection{{"read", &ran.Read}, {"write", &ran.Write}, {"trim", &ran.Trim}, {"mixed", &ran.Mixed}}
}

// blockSize returns the block size of a direction if it is known and fixed.
func (j *job) blockSize(direction string) (int64, bool) {
	s, ok := j.get("bs")
	if !ok || j.has("bsrange", "bssplit", "bs_unaligned") || direction == "mixed" && strings.ContainsAny(s.value, ",:-") {
		return 0, false
	}
	read, write, trim := fio.PerDirection(s.value)
	v := map[string]string{"read": read, "write": write, "trim": trim, "mixed": read}[direction]
	n, err := fio.ParseSize(v, s.base)
	return n, err == nil && n > 0
}

func noLatency(ran *fio.Job, j *job, r *report) {
	if j.on("gtod_reduce") {
		return // rule gtod-reduce reports it
	}
	done := uint64(0)
	for _, d := range directionsOf(ran) {
		if d.name != "mixed" || done == 0 {
			done += d.IOs
		}
		for _, l := range []*fio.Latency{&d.Total, &d.Completion, &d.Submission} {
			if l.N > 0 || l.Mean > 0 || l.Max > 0 {
				return
			}
		}
	}
	if done > 0 {
		r.at(j, j.head, "%s and no latency", count(done, "I/O"))
	}
}

func count(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
