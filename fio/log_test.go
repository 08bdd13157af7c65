package fio

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"iotax"
)

// In the logs of a real run, the mean over the seconds is close to the rate in the result.
func TestRatesOfARealRun(t *testing.T) {
	dir := t.TempDir()
	r := parse(t, run(t, "--name=a", "--rw=randrw", "--size=64m", "--ioengine=null", "--numjobs=2", "--rate_iops=500,250", "--runtime=3s", "--time_based",
		"--ramp_time=500ms", "--write_iops_log="+dir+"/s", "--write_bw_log="+dir+"/s", "--log_avg_msec=1000", "--group_reporting", "--output-format=json"))
	read := func(pattern string) (logs [][]Sample) {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			s, err := ParseLog(text)
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, s)
		}
		return logs
	}
	iops := Rates(IOPSLog, 1, read("s_iops.*.log")...)
	bw := Rates(BandwidthLog, 1, read("s_bw.*.log")...)
	if len(iops) != 2 || len(bw) != 2 || iops[0].Name != "read.iops" || iops[1].Name != "write.iops" || bw[0].Name != "read.bandwidth" || bw[0].Unit != iotax.BytesPerSecond {
		t.Fatalf("%+v\n%+v", iops, bw)
	}
	for i := range iops {
		if len(iops[i].V) < 2 {
			t.Fatalf("%d seconds of 3: %+v", len(iops[i].V), iops[i])
		}
		mean := 0.0
		for k := range iops[i].V {
			mean += iops[i].V[k] / float64(len(iops[i].V))
			near(t, bw[i].Name, bw[i].V[k], iops[i].V[k]*4096, 0.01)
			if iops[i].T[k] != float64(k+1) {
				t.Errorf("times %v", iops[i].T)
			}
		}
		near(t, "mean of "+iops[i].Name, mean, value(t, r, iops[i].Name), 0.3) // the series contains only whole seconds
	}
}

func TestRates(t *testing.T) {
	log := func(text string) []Sample {
		s, err := ParseLog([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// The second sample is 100 ms late, so its rate extends 100 ms into the third second.
	got := Rates(IOPSLog, 1, log("1000, 100, 0, 4096\n2100, 200, 0, 4096, 0, 0x0004\n3000, 300, 0, 4096\n"), log("1000, 10, 0, 0\n2000, 20, 0, 0\n3000, 30, 0, 0\n"))
	want := []float64{110, 220, 0.1*200 + 0.9*300 + 30}
	if len(got) != 1 || len(got[0].V) != 3 {
		t.Fatal(got)
	}
	for i := range want {
		if math.Abs(got[0].V[i]-want[i]) > 1e-6 {
			t.Errorf("got %v, want %v", got[0].V, want)
		}
	}
	// A second with data for less than half of it is omitted.
	if got := Rates(IOPSLog, 1, log("1000, 5, 1, 0\n1300, 5, 1, 0\n")); len(got) != 1 || len(got[0].V) != 1 || got[0].Name != "write.iops" {
		t.Error(got)
	}
	// Before fio 2.10, averages could have a block size. Rates does not mistake such averages of three jobs for single
	// I/Os.
	old := log("1000, 100, 0, 4096\n2000, 100, 0, 4096\n3000, 100, 0, 4096\n")
	if got := Rates(IOPSLog, 1, old, old, old); len(got) != 1 || !slices.Equal(got[0].V, []float64{300, 300, 300}) {
		t.Error(got)
	}
	for _, bad := range []string{"1000, 5\n", "x, 1, 0, 0\n", "1, nan, 0, 0\n", "-1, 1, 0, 0\n", "1, 1, 0\n"} {
		if _, err := ParseLog([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestLogName(t *testing.T) {
	for name, want := range map[string]Log{
		"x_bw.1.log": {Prefix: "x", Kind: BandwidthLog, Job: 1}, "a.b_iops.12.log": {Prefix: "a.b", Kind: IOPSLog, Job: 12},
		"d/x_clat.3.log": {Prefix: "d/x", Kind: CompletionLog, Job: 3}, "x_slat.1.log": {Prefix: "x", Kind: SubmissionLog, Job: 1},
		"x_lat.1.log.host1": {Prefix: "x", Kind: LatencyLog, Job: 1}, "x_clat_hist.1.log": {Prefix: "x", Kind: HistogramLog, Job: 1},
		"x_bw.log": {Prefix: "x", Kind: BandwidthLog}, "run.logs/x.log_bw.1.log": {Prefix: "run.logs/x.log", Kind: BandwidthLog, Job: 1},
	} {
		l, ok := LogName(name)
		if !ok || l.Prefix != want.Prefix || l.Kind != want.Kind || l.Job != want.Job {
			t.Errorf("%s: %+v", name, l)
		}
	}
	for _, name := range []string{"", "x.log", "x_bw.1.txt", "fio.json", "bw.1.log"} {
		if l, ok := LogName(name); ok {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestLogForms(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []Sample
	}{
		{"2.x", "500, 1000, 0, 0\n1000, 1200, 1, 0\n", []Sample{{.5, 1000, 0, 0}, {1, 1200, 1, 0}}},
		{"with offsets", "500, 1000, 0, 4096, 8192\n", []Sample{{.5, 1000, 0, 4096}}},
		{"with priorities and issue times", "500, 1000, 0, 4096, 8192, 0x0004, 123456789\n", []Sample{{.5, 1000, 0, 4096}}},
		{"mean and maximum", "500, 1000, 9000, 0, 0, 0\n1000, 1200, 1, 1, 0, 0\n", []Sample{{.5, 1000, 0, 0}, {1, 1200, 1, 0}}},
		{"since 1970", "1700000000500, 10, 0, 0, 0\n1700000000500, 20, 1, 0, 0\n1700000001500, 30, 0, 0, 0\n", []Sample{{1, 10, 0, 0}, {1, 20, 1, 0}, {2, 30, 0, 0}}},
	} {
		got, err := ParseLog([]byte(c.text))
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v %v", c.name, got, err)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// For logs of single I/Os, Rates counts the I/Os in each second: three of 4 KiB in the first, one of 8 KiB in the
// second.
func TestLogsOfSingleIOs(t *testing.T) {
	s, err := ParseLog([]byte("10, 1, 0, 4096, 0\n20, 1, 0, 4096, 0\n900, 1, 0, 4096, 0\n1950, 1, 0, 8192, 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // samples so close together that they cannot be averages
		s = append(s, Sample{Seconds: 2 + float64(i)/20, Value: 1, BlockSize: 4096})
	}
	got := Rates(IOPSLog, 1, s)
	if len(got) != 1 || len(got[0].V) != 3 || got[0].V[0] != 3 || got[0].V[1] != 1 || got[0].V[2] != 20 {
		t.Errorf("%v", got)
	}
	if got := Rates(BandwidthLog, 1, s); got[0].V[0] != 12288 || got[0].V[1] != 8192 || got[0].Unit != iotax.BytesPerSecond {
		t.Errorf("%v", got)
	}
}

// The histogram log and the bins of json+ of a real run agree. The log may lack the I/Os at the end of the run.
func TestHistogramLogOfARealRun(t *testing.T) {
	for _, coarseness := range []string{"0", "2"} {
		dir := t.TempDir()
		out := run(t, "--name=a", "--rw=randread", "--size=256m", "--ioengine=null", "--numjobs=2", "--rate_iops=20000", "--runtime=3s", "--time_based", "--write_hist_log="+dir+"/h",
			"--log_hist_msec=250", "--log_hist_coarseness="+coarseness, "--output-format=json+", "--group_reporting")
		var logs []*Log
		for _, n := range []string{"1", "2"} {
			name := dir + "/h_clat_hist." + n + ".log"
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			parts := Read(data, name)
			if len(parts) != 1 || parts[0].Err != nil || parts[0].Log == nil || parts[0].Log.Kind != HistogramLog {
				t.Fatal(describe(parts))
			}
			logs = append(logs, parts[0].Log)
		}
		_, values, hists := LogResults("", 1, logs...)
		if len(hists) != 1 || hists[0].Name != "read.latency" {
			t.Fatalf("%v", hists)
		}
		bins := map[float64]uint64{}
		var all, n uint64
		for _, b := range parse(t, out).Histograms()[0].Bins {
			bins[b.Value] = b.Count
			all += b.Count
		}
		for _, b := range hists[0].Bins {
			n += b.Count
			if coarseness == "0" && bins[b.Value] < b.Count {
				t.Errorf("%d I/Os of %v s, json+ has %d", b.Count, b.Value, bins[b.Value])
			}
		}
		// The log ends with its last complete interval.
		if n > all || float64(n) < 0.6*float64(all) {
			t.Errorf("%d I/Os in the logs, %d in json+", n, all)
		}
		var p50 float64
		for _, v := range values {
			if v.Name == "read.latency.p50" {
				p50 = v.Value
			}
		}
		near(t, "p50", p50, value(t, parse(t, out), "read.latency.p50"), 0.25)
	}
}

func TestHistogramLog(t *testing.T) {
	line := func(columns int, at map[int]int) string {
		s := "1000, 0, 4096"
		for i := range columns {
			s += ", " + strconv.Itoa(at[i])
		}
		return s + "\n"
	}
	for _, c := range []struct {
		columns int
		at      int
		want    uint64 // nanoseconds
	}{
		{1856, 130, 133}, // [132, 134) ns
		{1216, 130, 133000},
		{1856 / 4, 40, 196}, // bins 160 to 163, [192, 200) ns
		{1216 / 2, 20, 41000},
	} {
		h, err := ParseHistogramLog([]byte(line(c.columns, map[int]int{c.at: 5}) + line(c.columns, map[int]int{c.at: 2})))
		if err != nil || len(h) != 1 || len(h[0].Bins) != 1 || h[0].Bins[0].Count != 7 {
			t.Fatalf("%+v %v", h, err)
		}
		if got := h[0].Bins[0].Nanoseconds; got != c.want {
			t.Errorf("%d columns, bin %d: %d ns, want %d", c.columns, c.at, got, c.want)
		}
	}
	for _, bad := range []string{"1000, 0, 4096, 1, 2, 3\n", line(1856, nil) + line(1216, nil), strings.Replace(line(1856, nil), ", 0\n", ", x\n", 1)} {
		if _, err := ParseHistogramLog([]byte(bad)); err == nil {
			t.Errorf("%.40q was taken", bad)
		}
	}
}

// Latency logs are in microseconds up to fio 2.21 and in nanoseconds in later versions.
func TestLatencyLogs(t *testing.T) {
	s, err := ParseLog([]byte("1000, 100, 0, 0\n1001, 300, 1, 0\n2000, 200, 0, 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	l := &Log{Kind: LatencyLog, Samples: s}
	for version, unit := range map[string]float64{"fio-2.21": 1e-6, "fio-3.0": 1e-9, "": 1e-9} {
		series, values, _ := LogResults(version, 1, l, &Log{Kind: LatencyLog, Samples: []Sample{{1, 500, 0, 0}}})
		if len(series) != 2 || series[0].Name != "read.latency" || series[0].Unit != iotax.Seconds || len(series[0].V) != 2 {
			t.Fatalf("%v", series)
		}
		near(t, "first second", series[0].V[0], 300*unit, 1e-12)
		near(t, "second", series[0].V[1], 200*unit, 1e-12)
		if values[0].Name != "read.latency.mean" || values[0].Better != iotax.Down {
			t.Errorf("%v", values)
		}
		near(t, "mean", values[0].Value, 250*unit, 1e-12)
	}
}

func FuzzParseLog(f *testing.F) {
	f.Add([]byte("999, 127811, 0, 0, 0\n2000, 133416, 1, 4096, 0\n"))
	f.Add([]byte("1e300, 1, 0, 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"x_bw.1.log", "x_iops.1.log", "x_clat.1.log", "x_clat_hist.1.log"} {
			for _, p := range Read(data, name) {
				if p.Log == nil {
					continue
				}
				series, values, _ := LogResults("fio-2.0", 1, p.Log, p.Log)
				for _, v := range values {
					if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
						t.Fatal(v)
					}
				}
				for _, s := range series {
					if len(s.T) != len(s.V) {
						t.Fatal(s)
					}
				}
			}
		}
		s, _ := ParseLog(data)
		for _, series := range Rates(BandwidthLog, 1, s, s) {
			if len(series.T) != len(series.V) {
				t.Fatal(series)
			}
		}
	})
}
