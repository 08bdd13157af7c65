package lint

import (
	"testing"

	"iotax"
	"iotax/fio"
)

// ran returns the result of one job: 4 KiB random reads for ten seconds.
func ran() *fio.Result {
	const iops, seconds = 20000, 10
	return &fio.Result{Options: map[string]string{}, Jobs: []fio.Job{{
		Name:    "a",
		Options: map[string]string{"rw": "randread", "bs": "4k", "direct": "1", "randrepeat": "0", "ioengine": "libaio", "iodepth": "32"},
		Read: fio.Direction{Bytes: iops * seconds * 4096, IOs: iops * seconds, Runtime: seconds * 1e9, IOPS: iops, Bandwidth: iops * 4096,
			Total: fio.Latency{N: iops * seconds, Mean: 1.6e-3}},
	}}}
}

// An I/O of unified_rw_reporting=both is in its direction and in the sum, and counts once.
func TestNoLatencyCountsOnce(t *testing.T) {
	r := ran()
	r.Jobs[0].Read.Total, r.Jobs[0].Mixed = fio.Latency{}, r.Jobs[0].Read
	r.Jobs[0].Mixed.Total = fio.Latency{}
	if fs := Result("x.json", 1, r); len(fs) != 1 || fs[0].Evidence != "200000 I/Os and no latency" {
		t.Errorf("%+v", fs)
	}
}

func TestResults(t *testing.T) {
	if fs := Result("x.json", 1, ran()); len(fs) != 0 {
		t.Errorf("a clean result: %+v", fs)
	}
	for _, c := range []struct {
		name, rule string
		severity   iotax.Severity
		change     func(*fio.Result)
	}{
		{"IOPS of another unit", "rate-mismatch", "error", func(r *fio.Result) { r.Jobs[0].Read.IOPS = 2400; r.Jobs[0].Read.Bandwidth = 0.99e6 }},
		{"a bandwidth in KB", "rate-mismatch", "error", func(r *fio.Result) { r.Jobs[0].Read.Bandwidth *= 1000 }},
		{"totals of another block size", "rate-mismatch", "error", func(r *fio.Result) { r.Jobs[0].Options["bs"] = "8k" }},
		{"totals of another block size in JSON", "rate-mismatch", "info", func(r *fio.Result) { r.Kind = fio.KindJSON; r.Jobs[0].Options["bs"] = "8k" }},
		{"no totals", "rate-mismatch", "error", func(r *fio.Result) {
			r.Jobs[0].Read = fio.Direction{IOPS: 2400, Bandwidth: 0.99e6, Total: fio.Latency{N: 1, Mean: 1}}
		}},
		{"no job", "rate-mismatch", "error", func(r *fio.Result) {
			r.Jobs[0].Options = nil
			r.Jobs[0].Read = fio.Direction{IOs: 24000, Bytes: 9900000, IOPS: 2400, Bandwidth: 0.99e6, Runtime: 1e10, Total: fio.Latency{N: 1, Mean: 1}}
		}},
		{"no job, and nothing wrong", "", "", func(r *fio.Result) { r.Jobs[0].Options = nil }},
		{"rounded", "", "", func(r *fio.Result) { r.Jobs[0].Read.IOPS = 20.4e3 }},
		{"MB for MiB", "", "", func(r *fio.Result) { r.Jobs[0].Read.Bandwidth = 20000 * 4096 * 1.0486 }}, // within 5 %
		{"several block sizes", "", "", func(r *fio.Result) { r.Jobs[0].Options["bssplit"] = "4k/50:8k/50" }},
		{"too short to tell", "", "", func(r *fio.Result) { r.Jobs[0].Read.Runtime = 5e6; r.Jobs[0].Read.IOPS = 1e6 }},
		{"no latency", "no-latency", "info", func(r *fio.Result) { r.Jobs[0].Read.Total = fio.Latency{} }},
		{"gtod_reduce", "gtod-reduce", "warning", func(r *fio.Result) {
			r.Jobs[0].Read.Total = fio.Latency{}
			r.Options["gtod_reduce"] = "1"
		}},
		{"gtod_reduce=0", "", "", func(r *fio.Result) { r.Options["gtod_reduce"] = "0" }},
		{"buffered libaio", "libaio-buffered", "warning", func(r *fio.Result) { r.Jobs[0].Options["direct"] = "0" }},
		{"buffered wins over direct", "libaio-buffered", "warning", func(r *fio.Result) {
			r.Options["direct"] = "1"
			r.Jobs[0].Options["buffered"] = "1"
			delete(r.Jobs[0].Options, "direct")
		}},
		{"a depth of psync", "depth-of-sync-engine", "warning", func(r *fio.Result) { r.Jobs[0].Options["ioengine"] = "psync" }},
		{"repeated offsets", "randrepeat", "warning", func(r *fio.Result) { r.Jobs[0].Options["randrepeat"] = "1" }},
		{"an NFS path", "filename-colon", "error", func(r *fio.Result) { r.Jobs[0].Options["filename"] = "192.168.11.100:/srv/nfs/x" }},
		{"the standard's units", "size-units", "warning", func(r *fio.Result) { r.Options["size"] = "1GiB" }},
		{"a ramp in which a faster drive is through", "", "", func(r *fio.Result) {
			r.Options["size"], r.Options["ramp_time"], r.Options["runtime"] = "1g", "6", "10"
		}},
		{"a ramp as long as the run, and time_based, which JSON does not show without a value", "ramp-not-shorter", "warning", func(r *fio.Result) {
			r.Options["size"], r.Options["ramp_time"], r.Options["runtime"] = "1m", "6", "6"
		}},
		{"a job that did nothing", "", "", func(r *fio.Result) { r.Jobs[0].Read = fio.Direction{} }},
	} {
		r := ran()
		c.change(r)
		fs := Result("x.json", 7, r)
		switch {
		case c.rule == "" && len(fs) == 0:
		case len(fs) != 1 || fs[0].Rule != c.rule || fs[0].Severity != c.severity || fs[0].File != "x.json" || fs[0].Line != 7:
			t.Errorf("%s: %+v, want %s", c.name, fs, c.rule)
		}
	}
}
