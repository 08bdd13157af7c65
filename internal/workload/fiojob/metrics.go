package fiojob

import (
	"cmp"
	"slices"
	"strings"

	"iotax"
	"iotax/fio"
	"iotax/internal/metric"
)

// Metrics returns the main metrics: for each direction the bandwidth if the I/O is sequential with large blocks, else
// the IOPS. For an open loop, it returns the mean latencies instead, and for a search, the limit.
func (j *fioJob) Metrics() []string {
	out := metrics(j.settings)
	for _, p := range j.beside {
		for _, m := range metrics(p.settings) {
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	if j.spec.finds() {
		return []string{iotax.ValueLimitIOPS}
	}
	if j.spec.open() { // the rate is given, so the targets differ in latency
		for i := range out {
			out[i], _, _ = strings.Cut(out[i], ".")
			out[i] += ".latency.mean"
		}
	}
	return out
}

func metrics(settings []fio.Setting) []string {
	base := 1024
	get := func(key, def string) string {
		for _, s := range settings {
			if s.Key == key {
				base = cmp.Or(s.KBBase, 1024)
				return s.Value
			}
		}
		return def
	}
	rw := get("rw", "read")
	rate := "iops"
	blocks := cmp.Or(get("bs", ""), get("bsrange", ""), get("bssplit", "4k"))
	if !strings.HasPrefix(rw, "rand") && smallest(blocks, base, 4096) >= 64<<10 {
		rate = "bandwidth"
	}
	out := directionsOf(rw)
	for i := range out {
		out[i] += "." + rate
	}
	return out
}

func directionsOf(rw string) (out []string) {
	mode, _, _ := strings.Cut(rw, ":")
	if reads(mode) {
		out = append(out, "read")
	}
	if strings.Contains(mode, "write") || mode == "rw" || mode == "randrw" {
		out = append(out, "write")
	}
	if strings.Contains(mode, "trim") {
		out = append(out, "trim")
	}
	return out
}

// flushing lists the options that make a job flush while it runs.
var flushing = []string{"fsync", "fdatasync", "sync_file_range"}

// metrics lists the metrics of a trial, in each direction of the jobs. If a variable sets the direction, it lists the
// metrics of all directions. For a search, it lists only the limit.
func (f *Fio) metrics() (all []metric.Metric) {
	j := f.jobs()
	if f.finds() {
		return metric.Of(iotax.PerSecond, iotax.Up, iotax.ValueLimitIOPS, "highest load of an open loop that met the condition of `find`, I/Os per second")
	}
	flushes, queues, seen := false, false, []string{}
	for _, settings := range append([][]fio.Setting{j.settings}, settingsOf(j.beside)...) {
		rw, waits := "read", false
		for _, s := range settings {
			switch s.Key {
			case "rw":
				rw = s.Value
			case "ioengine":
				waits = fio.Synchronous(s.Value)
			}
			flushes = flushes || slices.Contains(flushing, s.Key) && s.Value != "0"
		}
		queues = queues || !waits
		of := directionsOf(rw)
		if strings.Contains(rw, "$") {
			of = []string{"read", "write", "trim"}
		}
		for _, d := range of {
			if !slices.Contains(seen, d) {
				seen = append(seen, d)
			}
		}
	}
	if len(seen) > 1 {
		seen = append(seen, "mixed")
	}
	for _, d := range seen {
		all = slices.Concat(all, metric.Of(iotax.PerSecond, iotax.Up, d+".iops", "I/Os per second"),
			metric.Of(iotax.BytesPerSecond, iotax.Up, d+".bandwidth", "bytes per second"),
			metric.Latency(d+".latency", "latency of an I/O, from submission to completion"),
			metric.Of(iotax.Seconds, iotax.Down, d+".latency.completion.mean", "mean time from submission to completion"),
			metric.Of(iotax.Count, iotax.Neither, d+".ios", "I/Os in the window"),
			metric.Of(iotax.Bytes, iotax.Neither, d+".bytes", "bytes in the window"))
		if queues { // engines that wait for each I/O have no separate submission
			all = append(all, metric.Of(iotax.Seconds, iotax.Down, d+".latency.submission.mean", "mean time to submit an I/O")...)
		}
		if d != "mixed" {
			all = append(all, metric.Stalls(d)...)
		}
	}
	if flushes {
		all = slices.Concat(all, metric.Latency("sync.latency", "time of a flush (fsync, fdatasync)"), metric.Stalls("sync"))
	}
	if f.open() {
		all = append(all, metric.Of(iotax.RatioUnit, iotax.Down, iotax.ValueLoadLate, "share of the arrivals that found their source busy")...)
	}
	return append(all, metric.Of(iotax.RatioUnit, iotax.Up, iotax.ValueFairnessJain, "Jain's index of the rates of several clients",
		"fairness.min-max", "rate of the slowest client over that of the fastest")...)
}

func settingsOf(parts []part) (all [][]fio.Setting) {
	for _, p := range parts {
		all = append(all, p.settings)
	}
	return all
}
