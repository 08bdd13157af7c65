package fio

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"

	"iotax"
)

// CanReport reports whether this version of fio can print status-interval reports that Reports can read.
func CanReport(version string) bool { return !before(version, 3, 0) }

// ReportCanBlock reports whether a status-interval report can make a job fail in this version of fio with this number
// of jobs. A report waits until every job completes an I/O. Before 3.42, fio holds a lock while it waits. A job that
// ends needs that lock, and fails with EDEADLK after five seconds.
func ReportCanBlock(version string, jobs int) bool { return jobs > 1 && before(version, 3, 42) }

// Blocked reports whether fio's messages show the failure that ReportCanBlock describes.
func Blocked(messages string) bool { return strings.Contains(messages, "stuck grabbing stat_sem") }

// Reports splits the output of a fio process that uses status-interval. The reports are cumulative. `last` is `data`
// without the reports before the last one. `intervals` contains the observations between consecutive reports, in
// seconds from the start of the measured window. These observations add up to the histograms of the last report.
// Reports omits mixed.latency if the output also has separate directions. If a report waits for a stalled I/O, its
// interval ends late. Reports returns no intervals on error, without histograms, or if a run of more than 1.5 s has
// only one report.
func Reports(data []byte) (last []byte, intervals []iotax.Interval, err error) {
	type report struct {
		begun, at float64 // when fio began and ended the report, in seconds; `at` is Unix time until the next loop converts it
		hist      []iotax.Histogram
	}
	var all []report
	clock := math.Inf(1) // Unix time of the start of the measured window
	start, end := 0, 0   // byte range of the last document
	for d := range documents(data) {
		last = append(last, bytes.TrimLeft(data[end:d.start], "\n")...)
		start, end = d.start, d.end
		if d.err != nil {
			err = d.err
		}
		r := report{begun: d.result.runtime().Seconds(), at: float64(d.result.Time.UnixMilli()) / 1000, hist: d.result.Histograms()}
		if len(r.hist) > 0 { // a report without histograms is from the ramp time
			all, clock = append(all, r), min(clock, r.at-r.begun)
		}
	}
	for i := range all {
		if r := &all[i]; i < len(all)-1 {
			r.at = max(r.begun, min(r.at-clock, all[i+1].begun))
		} else {
			r.at = r.begun
		}
	}
	// Skip a report shortly before the next one. fio always prints a final report, which may follow a status report
	// immediately.
	for i := len(all) - 2; i >= 0; i-- {
		if all[i+1].at-all[i].at < sliver.Seconds() {
			all = slices.Delete(all, i, i+1)
		}
	}
	last = append(last, data[start:]...)
	// In a trial of about one second, the final report may be the only one. In a longer trial, a single report means
	// that fio printed no status reports.
	if err != nil || len(all) == 0 || len(all) == 1 && all[0].at > 1.5 {
		return last, nil, err
	}
	for k, h := range all[len(all)-1].hist {
		if k > 0 && h.Name == iotax.ValueMixedLatency {
			continue
		}
		prev, from := []iotax.Bin(nil), 0.0
		for _, r := range all {
			var bins []iotax.Bin
			for _, o := range r.hist {
				if o.Name == h.Name {
					bins = o.Bins
				}
			}
			more, ok := since(bins, prev)
			if !ok {
				return last, nil, errors.New("a report of fio has fewer I/Os than the one before")
			}
			if len(more) > 0 {
				intervals = append(intervals, iotax.Interval{From: from, To: r.at, Histogram: iotax.Histogram{Name: h.Name, Unit: h.Unit, Bins: more}})
			}
			prev, from = bins, r.at
		}
	}
	return last, intervals, nil
}

// since returns the counts that were added to the bins after the `earlier` report. ok is false if a count decreased or
// a bin disappeared.
func since(bins, earlier []iotax.Bin) (more []iotax.Bin, ok bool) {
	k := 0
	for _, b := range bins {
		if k < len(earlier) && earlier[k].Value == b.Value {
			if earlier[k].Count > b.Count {
				return nil, false
			}
			b.Count -= earlier[k].Count
			k++
		}
		if b.Count > 0 {
			more = append(more, b)
		}
	}
	return more, k == len(earlier)
}
