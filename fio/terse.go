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
	"time"
)

// A terse line is a row of a result as fio prints it with --minimal or --output-format=terse. Its fields have no
// names, so the parser derives the layout from the form of the fields.
//
//	3;fio-3.33;job;0;0;<read>;<write>;usr%;sys%;ctx;majf;minf;<depths>;<latencies>;<disks>;…
//
// A direction has 41 fields, or 47 in version 5. Version 3 has no trim. With unified_rw_reporting, fio prints the sum
// of the directions, alone or as an additional direction.
const (
	terseRates       = 4  // KiB, KiB/s, IOPS, ms
	terseLatency     = 4  // min, max, mean, deviation, in µs
	tersePercentiles = 20 // "99.000000%=1234", in µs
	terseBandwidth   = 5  // min, max, share, mean, deviation
	terseSamples     = 6  // version 5: samples; IOPS min, max, mean, deviation, samples
	terseDirection   = terseRates + 3*terseLatency + tersePercentiles + terseBandwidth
	terseDepths      = 7
	terseBuckets     = 22
	terseDisk        = 9
)

// terseLine reports whether s looks like a terse line, and returns its version.
func terseLine(s string) (version int, ok bool) {
	if len(s) < 20 || s[0] < '2' || s[0] > '5' || s[1] != ';' {
		return 0, false
	}
	if version = int(s[0] - '0'); version > 2 && !strings.HasPrefix(s[2:], "fio") {
		return 0, false
	}
	return version, strings.Count(s, ";") > 40
}

// parseTerse reads a terse line into a row. It stores fields about the whole process in r.
func parseTerse(line string, r *Result) (Job, error) {
	version, ok := terseLine(line)
	if !ok {
		return Job{}, errors.New("not a terse line of version 2, 3, 4 or 5")
	}
	f := strings.Split(line, ";")
	at := 1
	if version > 2 {
		r.Version = f[1]
		at = 2
	}
	if len(f) < at+3 {
		return Job{}, errors.New("the line ends before the name of the job")
	}
	j := Job{Name: valid(f[at])}
	var err1, err2 error
	j.Group, err1 = strconv.Atoi(f[at+1])
	j.Error, err2 = strconv.Atoi(f[at+2])
	if err1 != nil || err2 != nil {
		return j, fmt.Errorf("found %.20q and %.20q instead of the group and the error", f[at+1], f[at+2])
	}
	at += 3

	size := terseDirection
	if version == 5 {
		size += terseSamples
	}
	usual := 2
	if version != 3 {
		usual = 3
	}
	// Find the number of directions that fits the remaining fields. Try the usual number first.
	n := 0
	for _, try := range []int{usual, 1, 2, 3, 4} {
		if terseTail(f[at:], try*size) {
			n = try
			break
		}
	}
	if n == 0 {
		return j, fmt.Errorf("version %d with %d fields is cut off or has an unknown layout", version, len(f))
	}
	for i := range n {
		d := parseTerseDirection(f[at : at+size])
		at += size
		switch {
		case n == 1 || i == 3 || n == 3 && version == 3 && i == 2:
			j.Mixed = d
		case i == 0:
			j.Read = d
		case i == 1:
			j.Write = d
		default:
			j.Trim = d
		}
	}
	j.UserCPU, j.SystemCPU = tersePercent(f[at]), tersePercent(f[at+1])
	j.ContextSwitches, j.MajorFaults, j.MinorFaults = count(number(f[at+2])), count(number(f[at+3])), count(number(f[at+4]))
	at += 5 + terseDepths + terseBuckets
	for len(f)-at >= terseDisk && strings.HasSuffix(f[at+terseDisk-1], "%") {
		if d := f[at : at+terseDisk]; d[0] != "slaves" {
			r.Disks = append(r.Disks, Disk{
				Name: valid(d[0]), ReadIOs: count(number(d[1])), WriteIOs: count(number(d[2])),
				ReadMerges: count(number(d[3])), WriteMerges: count(number(d[4])),
				ReadTicks: milliseconds(d[5]), WriteTicks: milliseconds(d[6]), InQueue: milliseconds(d[7]),
				Utilization: tersePercent(d[8]),
			})
		}
		at += terseDisk
	}
	return j, nil
}

// terseTail reports whether the fields from index `at` on can be CPU, depths and latencies.
func terseTail(f []string, at int) bool {
	if len(f) < at+5+terseDepths+terseBuckets {
		return false
	}
	tail := f[at : at+5+terseDepths+terseBuckets]
	for i, s := range tail {
		if percent := strings.HasSuffix(s, "%"); percent == (i >= 2 && i < 5) {
			return false
		}
	}
	return true
}

func parseTerseDirection(f []string) Direction {
	d := Direction{
		Bytes:     count(number(f[0]) * 1024),
		Bandwidth: number(f[1]) * 1024,
		IOPS:      number(f[2]),
		Runtime:   milliseconds(f[3]),
	}
	if d.BytesOff = 1024; d.Bytes > 0 {
		d.BytesFrom, d.IOsFrom = Rounded, Rounded
	}
	latency := func(f []string) Latency {
		const µs = 1e-6
		return Latency{Min: number(f[0]) * µs, Max: number(f[1]) * µs, Mean: number(f[2]) * µs, SD: number(f[3]) * µs}
	}
	f = f[terseRates:]
	d.Submission = latency(f)
	f = f[terseLatency:]
	d.Completion = latency(f)
	f = f[terseLatency:]
	for _, s := range f[:tersePercentiles] {
		p, us, ok := strings.Cut(s, "%=")
		// An unused slot is "0%=0". A value of 0 means less than 1 µs, which is too coarse to use.
		if share := number(p) / 100; ok && share > 0 && share <= 1 && number(us) > 0 {
			d.Completion.Percentiles = append(d.Completion.Percentiles, Percentile{P: share, Seconds: number(us) * 1e-6})
		}
	}
	sortPercentiles(d.Completion.Percentiles)
	f = f[tersePercentiles:]
	d.Total = latency(f)
	if d.Completion.Mean == 0 && d.Total.Mean > 0 { // the percentiles are of the only latency that fio measured
		d.Completion.Percentiles, d.Total.Percentiles = nil, d.Completion.Percentiles
	}
	d.share = tersePercent(f[terseLatency+2])
	d.IOPSOff, d.BandwidthOff = 1, 1024
	d.countTerse()
	return d
}

// countTerse derives the number of I/Os, which terse output does not contain. The printed rate is too coarse: at 34
// IOPS it can be off by 3 %. If exactly one power of two fits the rounded rate as a block size and divides the bytes,
// the number of I/Os is the bytes divided by that block size.
func (d *Direction) countTerse() {
	s := d.Runtime.Seconds()
	if d.IOPS < 1 || s <= 0 || d.Bytes == 0 {
		return
	}
	most, least := float64(d.Bytes+1023)/(d.IOPS*s), float64(d.Bytes)/((d.IOPS+1)*s)
	if !(most < 1<<40) || most < 512 {
		return
	}
	bs := uint64(1) << (bits.Len64(uint64(most)) - 1)
	if float64(bs) < least || float64(bs)/2 >= least || d.Bytes%bs != 0 || d.Bytes%1024 != 0 {
		return
	}
	switch {
	case bs >= 1024:
		d.BytesFrom = Exact // whole blocks of whole KiB are not rounded
	case d.Bytes < 1<<20: // a block that the bytes may lack is not negligible
		return
	}
	d.IOs, d.IOsFrom = d.Bytes/bs, FromBytes
}

func sortPercentiles(ps []Percentile) {
	slices.SortStableFunc(ps, func(a, b Percentile) int { return cmp.Compare(a.P, b.P) })
}

// number reads a finite positive number and returns 0 for anything else. fio prints nan and -nan if there are no
// samples.
func number(s string) float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

func tersePercent(s string) float64 { return number(strings.TrimSuffix(s, "%")) / 100 }

func milliseconds(s string) time.Duration {
	f := number(s) * float64(time.Millisecond)
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
