package lint

import (
	"fmt"
	"math"
	"strings"

	"iotax"
	"iotax/fio"
)

// resultRules are about numbers of a result that do not fit together, whatever was measured.
var resultRules = []Rule{
	{ID: "rate-mismatch", Severity: iotax.Invalid, Title: "bandwidth is not IOPS times block size",
		Why: "Bandwidth is the number of I/Os in a second times their size. Where the two differ by more than 5 %, one of them was mistyped, rounded away or taken in another unit (KiB for KB, MiB/s for MB/s, k for nothing): " +
			"a published line has 2.4k IOPS of 4 KiB beside 0.99 MB/s. Seen from what is printed, from the totals, and from the block size of the job where it has only one; where that is not known, I/Os of less than 512 bytes give it away.",
		Mend:   "take both from the same raw output; compute IOPS and bandwidth from the totals and the run time",
		result: rateMismatch},
	{ID: "no-latency", Severity: iotax.Info, Title: "a result without latencies",
		Why:    "The job did I/O and no latency was recorded: `gtod_reduce`, `disable_lat` and their kin leave them out, and some outputs print 0 in their place.",
		Mend:   "do not quote a latency from it; run again without `gtod_reduce` and `disable_…` where one is needed",
		result: noLatency},
}

// mismatch is how far a rate may be from what it should be: text is rounded to three digits.
const mismatch = 0.05

// sector is the smallest I/O of a block device.
const sector = 512

func rateMismatch(ran *fio.Job, j *job, r *report) {
	// Of jobs that were through at once, fio's own rounding of the time decides.
	for _, d := range directionsOf(ran) {
		mean := 0.0
		if d.IOs > 0 {
			mean = float64(d.Bytes) / float64(d.IOs)
		}
		bs, fixed := j.blockSize(d.name)
		switch {
		case fixed && mean > 0 && d.Short == 0 && off(mean, float64(bs)):
			r.at(j, j.head, "%s: %d bytes in %d I/Os are %s each, and the block size is %s", d.name, d.Bytes, d.IOs, bytesText(int64(mean)), bytesText(bs))
			continue
		case fixed: // IOs or bytes may have been made of the rates: the block size was not
			mean = float64(bs)
		}
		if d.IOPS < 1 || d.Bandwidth <= 0 || d.Runtime > 0 && d.Runtime.Seconds() < 0.1 {
			continue
		}
		if size := d.Bandwidth / d.IOPS; !fixed && size < sector*(1-mismatch) && j.text("ioengine") == "" {
			r.at(j, j.head, "%s: %.4g IOPS and %s/s make I/Os of %s, and no storage has any smaller than %d bytes", d.name, d.IOPS, bytesText(int64(d.Bandwidth)), bytesText(int64(size)), sector)
			continue
		}
		if mean > 0 && off(d.Bandwidth, d.IOPS*mean) {
			r.at(j, j.head, "%s: %.4g IOPS of %s are %s/s, and the bandwidth is %s/s", d.name, d.IOPS, bytesText(int64(mean)), bytesText(int64(d.IOPS*mean)), bytesText(int64(d.Bandwidth)))
		}
	}
}

func off(a, b float64) bool { return math.Abs(a/b-1) > mismatch }

// A ranDirection is what a job did in one direction, with its name.
type ranDirection struct {
	name string
	*fio.Direction
}

func directionsOf(ran *fio.Job) []ranDirection {
	return []ranDirection{{"read", &ran.Read}, {"write", &ran.Write}, {"trim", &ran.Trim}, {"mixed", &ran.Mixed}}
}

// blockSize is the one block size of a direction, and whether it is known and the only one.
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
		return // said
	}
	done := uint64(0)
	for _, d := range directionsOf(ran) {
		done += d.IOs
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
