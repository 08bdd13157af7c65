package fio

import (
	"errors"

	"iotax"
)

// CanReport reports whether a fio of this version, with so many jobs, prints reports while it runs (status-interval) without risk to
// the result. Before 3.42, a report waits for an I/O of every job. If one is stalled, a job that ends waits for the report and gives
// up after five seconds with the error EDEADLK.
func CanReport(version string, jobs int) bool {
	return !before(version, 3, 42) || jobs == 1 && !before(version, 3, 0)
}

// Reports takes apart what one fio process printed with status-interval: reports that all count from the start of the measured
// window. last is data without the reports before the last one. The intervals have what was observed between the reports: those of a
// name add up to the last report's histogram of that name exactly. The sum of all directions has none of its own, and the
// time before the first I/O of the window belongs to the first interval. With an error there are no intervals.
func Reports(data []byte) (last []byte, intervals []iotax.Interval, err error) {
	type report struct {
		at   float64
		hist []iotax.Histogram
	}
	var all []report
	start, end := 0, 0 // of the last document
	for d := range documents(data) {
		last = append(last, data[end:d.start]...)
		start, end = d.start, d.end
		if d.err != nil {
			err = d.err
		}
		r := report{d.result.runtime().Seconds(), d.result.Histograms()}
		if len(r.hist) == 0 { // of the ramp
			continue
		}
		// A report right before the next one is left out: fio prints one at the end anyway.
		if n := len(all); n > 0 && r.at-all[n-1].at < sliver.Seconds() {
			all = all[:n-1]
		}
		all = append(all, r)
	}
	last = append(last, data[start:]...)
	if err != nil || len(all) < 2 {
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

// since returns what bins have more than those of an earlier report; not ok if it is less.
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
