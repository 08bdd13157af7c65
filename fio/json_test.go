package fio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// run runs the installed fio and returns its stdout and stderr, in one stream.
func run(t testing.TB, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("fio", args...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("fio %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func parse(t testing.TB, data []byte) *Result {
	t.Helper()
	r, err := Parse(data)
	if err != nil {
		t.Fatalf("%v\n%.300s", err, data)
	}
	return r
}

func value(t testing.TB, r *Result, name string) float64 {
	t.Helper()
	for _, v := range r.Values() {
		if v.Name == name {
			return v.Value
		}
	}
	t.Fatalf("no value %s in %v", name, r.Values())
	return 0
}

func absent(t *testing.T, r *Result, name string) {
	t.Helper()
	for _, v := range r.Values() {
		if v.Name == name {
			t.Errorf("%s is %v, and should be absent", name, v.Value)
		}
	}
}

func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The JSON values agree with the human-readable output of the same run.
func TestAgreesWithHumanOutput(t *testing.T) {
	out := run(t, "--name=job", "--rw=randrw", "--size=4m", "--bs=4k", "--iodepth=4", "--numjobs=3", "--ioengine=posixaio",
		"--runtime=600ms", "--time_based", "--output-format=normal,json+", "--lat_percentiles=1", "--fsync=64")
	r := parse(t, out)
	if len(r.Jobs) != 3 || r.Err() != nil || r.Latencies != "total" {
		t.Fatalf("%d jobs, %v, latencies %q", len(r.Jobs), r.Err(), r.Latencies)
	}
	var reads, writes, flushes uint64
	for _, m := range regexp.MustCompile(`issued rwts: total=(\d+),(\d+),\d+,(\d+) `).FindAllSubmatch(out, -1) {
		for i, sum := range []*uint64{&reads, &writes, &flushes} {
			n, _ := strconv.ParseUint(string(m[i+1]), 10, 64)
			*sum += n
		}
	}
	if reads == 0 || writes == 0 {
		t.Fatalf("the human output was not understood:\n%s", out)
	}
	for name, want := range map[string]uint64{"read.ios": reads, "write.ios": writes, "mixed.ios": reads + writes, "read.bytes": reads * 4096} {
		if got := value(t, r, name); got != float64(want) {
			t.Errorf("%s: got %v, want %d", name, got, want)
		}
	}
	if flushes > 0 {
		near(t, "sync.ios", value(t, r, "sync.ios"), float64(flushes), 0.05) // fio's two formats count flushes differently at the end of the run
	}
	group := regexp.MustCompile(`(?m)^ +READ: bw=([0-9.]+)([KM])iB/s`).FindSubmatch(out)
	if group == nil {
		t.Fatalf("no group summary:\n%s", out)
	}
	mib, _ := strconv.ParseFloat(string(group[1]), 64)
	if string(group[2]) == "K" { // fio prints KiB/s only on a busy host
		mib /= 1024
	}
	near(t, "read.bandwidth", value(t, r, "read.bandwidth")/(1<<20), mib, 0.02)
	near(t, "iops × block size", value(t, r, "read.iops")*4096, value(t, r, "read.bandwidth"), 1e-9)
	near(t, "mixed.iops", value(t, r, "mixed.iops"), value(t, r, "read.iops")+value(t, r, "write.iops"), 1e-12)
	if len(r.Notes) < 10 {
		t.Errorf("the human report should be in the notes: %q", r.Notes)
	}
}

// Quantiles computed from the bins agree with the percentiles that fio prints.
func TestQuantilesAgreeWithFio(t *testing.T) {
	out := run(t, "--name=job", "--rw=randread", "--size=64m", "--ioengine=null", "--iodepth=8", "--numjobs=2", "--group_reporting",
		"--runtime=400ms", "--time_based", "--output-format=json+", "--percentile_list=50:90:95:99:99.9:99.99")
	r := parse(t, out)
	l := r.Jobs[0].Read.Completion
	var sum uint64
	for _, b := range l.Bins {
		sum += b.Count
	}
	if sum != l.N || l.N != r.Jobs[0].Read.IOs {
		t.Errorf("bins hold %d of %d samples of %d I/Os", sum, l.N, r.Jobs[0].Read.IOs)
	}
	if len(l.Percentiles) != 6 {
		t.Fatal(l.Percentiles)
	}
	for _, p := range l.Percentiles {
		if beyond := float64(l.N) * (1 - p.P); beyond < 2*minBeyond && p.P > .99 {
			continue // a busy machine does too few I/Os for this quantile during the run
		}
		if got, ok := l.Quantile(p.P); !ok || got != p.Seconds {
			t.Errorf("quantile %v: got %v, %v, want %v", p.P, got, ok, p.Seconds)
		}
	}
	if r.Latencies != "total" {
		t.Errorf("latencies: %q", r.Latencies)
	}
}

// The decoder agrees with encoding/json on a document that is valid JSON.
func TestAgreesWithEncodingJSON(t *testing.T) {
	out := run(t, "--name=a", "--rw=write", "--size=1m", "--ioengine=psync", "--output-format=json+", "--name=b", "--rw=read", "--size=1m", "--ioengine=null")
	var doc struct {
		Version string `json:"fio version"`
		TimeMS  int64  `json:"timestamp_ms"`
		Jobs    []struct {
			Name        string `json:"jobname"`
			Ctx         uint64
			JobRuntime  float64           `json:"job_runtime"`
			Usr         float64           `json:"usr_cpu"`
			Options     map[string]string `json:"job options"`
			Read, Write struct {
				IOBytes  uint64  `json:"io_bytes"`
				IOs      uint64  `json:"total_ios"`
				BW       float64 `json:"bw_bytes"`
				IOPS     float64
				Runtime  int64
				Complete struct {
					Mean, Stddev, Min, Max float64
					N                      uint64
					Bins                   map[string]uint64
				} `json:"clat_ns"`
			}
		}
		Disks []struct{ Name string } `json:"disk_util"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	r := parse(t, out)
	if r.Version != doc.Version || r.Time.UnixMilli() != doc.TimeMS || len(r.Jobs) != len(doc.Jobs) || len(r.Disks) != len(doc.Disks) {
		t.Fatalf("got %s, %v, %d jobs, %d disks", r.Version, r.Time, len(r.Jobs), len(r.Disks))
	}
	for i, want := range doc.Jobs {
		got := r.Jobs[i]
		if got.Name != want.Name || got.ContextSwitches != want.Ctx || fmt.Sprint(got.Options) != fmt.Sprint(want.Options) {
			t.Errorf("job %d: got %+v", i, got)
		}
		near(t, "usr_cpu", got.UserCPU, want.Usr/100, 1e-12)
		near(t, "job_runtime", got.Runtime.Seconds(), want.JobRuntime/1000, 1e-12)
		for _, d := range []struct {
			got  Direction
			want any
			b    uint64
			n    uint64
			bw   float64
			ms   int64
			mean float64
			sd   float64
			bins int
		}{
			{got.Read, nil, want.Read.IOBytes, want.Read.IOs, want.Read.BW, want.Read.Runtime, want.Read.Complete.Mean, want.Read.Complete.Stddev, len(want.Read.Complete.Bins)},
			{got.Write, nil, want.Write.IOBytes, want.Write.IOs, want.Write.BW, want.Write.Runtime, want.Write.Complete.Mean, want.Write.Complete.Stddev, len(want.Write.Complete.Bins)},
		} {
			if d.got.Bytes != d.b || d.got.IOs != d.n || d.got.Bandwidth != d.bw || d.got.Runtime.Milliseconds() != d.ms || len(d.got.Completion.Bins) != d.bins {
				t.Errorf("job %d: got %+v, want %+v", i, d.got, d)
			}
			near(t, "mean", d.got.Completion.Mean, d.mean*1e-9, 1e-12)
			near(t, "sd", d.got.Completion.SD, d.sd*1e-9, 1e-12)
		}
	}
}

func TestUnifiedReporting(t *testing.T) {
	args := []string{"--name=a", "--rw=randrw", "--size=16m", "--ioengine=null", "--number_ios=1000", "--output-format=json+"}
	r := parse(t, run(t, append(args, "--unified_rw_reporting=1")...))
	if value(t, r, "mixed.ios") != value(t, r, "bytes")/4096 {
		t.Error(r.Values())
	}
	absent(t, r, "read.ios")
	r = parse(t, run(t, append(args, "--unified_rw_reporting=both")...))
	if value(t, r, "mixed.ios") != value(t, r, "read.ios")+value(t, r, "write.ios") {
		t.Error(r.Values())
	}
}

// With a real server and client, the result contains the rows of the jobs, but not the row with their sum.
func TestClientServer(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	server := exec.Command("fio", "--server=sock:"+sock)
	server.Dir = t.TempDir()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	for range 100 {
		if c, err := net.Dial("unix", sock); err == nil {
			c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	job := filepath.Join(t.TempDir(), "j.fio")
	if err := os.WriteFile(job, []byte("[a]\nioengine=null\nrw=read\nsize=1m\n[b]\nioengine=null\nrw=read\nsize=2m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := parse(t, run(t, "--client=sock:"+sock, "--output-format=json+", job))
	if len(r.Jobs) != 2 || value(t, r, "read.bytes") != 3<<20 {
		t.Errorf("%d jobs, %v", len(r.Jobs), r.Values())
	}
}

func TestStatusInterval(t *testing.T) {
	out := run(t, "--name=a", "--rw=read", "--size=1m", "--ioengine=null", "--rate_iops=1000", "--runtime=2500ms", "--time_based", "--status-interval=1", "--output-format=json")
	n, last := 0, uint64(0)
	for d := range documents(out) {
		r := d.result
		if d.err != nil {
			t.Fatal(d.err)
		}
		n++
		if r.Jobs[0].Read.IOs < last {
			t.Error("documents are cumulative")
		}
		last = r.Jobs[0].Read.IOs
	}
	if n < 3 {
		t.Errorf("%d documents", n)
	}
	if got := value(t, parse(t, out), "read.ios"); got != float64(last) {
		t.Errorf("the result has %v I/Os, the last document %d", got, last)
	}
}

func TestJobError(t *testing.T) {
	cmd := exec.Command("fio", "--name=a", "--rw=read", "--size=1m", "--ioengine=psync", "--filename=/proc/self/mem", "--allow_file_create=0", "--output-format=json")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("fio was expected to fail")
	}
	r, err := Parse(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "fio job a: ") {
		t.Errorf("got %v", err)
	}
	if len(r.Notes) == 0 || r.Err() == nil || len(r.Damaged()) != 0 {
		t.Error(r.Notes, r.Err(), r.Damaged())
	}
}

// The documents are synthetic, because old versions of fio are not available here. Each was written by hand from the
// source of the version that it names. Their numbers are made up, not measured.
func TestOldVersions(t *testing.T) {
	const dir2 = `"io_bytes" : 4096, "bw" : 1000, "iops" : 250.0, "runtime" : 4096, "total_ios" : 1024, "short_ios" : 0, "drop_ios" : 0,
		"slat" : {"min" : 1, "max" : 9, "mean" : 3.00, "stddev" : 1.00},
		"clat" : {"min" : 10, "max" : 4000, "mean" : 100.00, "stddev" : 20.00, "percentile" : {"50.000000" : 90, "99.000000" : 800, "0.00" : 0, "0.00" : 0} %s},
		"lat" : {"min" : 11, "max" : 4009, "mean" : 103.00, "stddev" : 21.00}`
	const none = `"io_bytes" : 0, "bw" : 0, "iops" : 0.00, "runtime" : 0, "total_ios" : 0`
	doc := func(version, read string) []byte {
		return []byte(`{"fio version" : "` + version + `", "timestamp" : 1400000000, "jobs" : [{"jobname" : "j", "groupid" : 0, "error" : 0, "eta" : 0, "elapsed" : 5,
			"read" : {` + read + `}, "write" : {` + none + `}, "usr_cpu" : 1.5, "sys_cpu" : 2.5, "ctx" : 7, "majf" : 0, "minf" : 9}],
			"disk_util" : [{"name" : "sda", "read_ios" : 1020, "write_ios" : 0, "read_merges" : 0, "write_merges" : 0, "read_ticks" : 1, "write_ticks" : 0, "in_queue" : 1, "util" : 12.5}]}`)
	}
	for _, c := range []struct {
		name, version, read string
		p50, mean           float64
	}{
		// 2.1: io_bytes in KiB, latencies in µs, unused percentile slots as "0.00".
		{"KiB and µs", "fio-2.1.11", fmt.Sprintf(dir2, ""), 90e-6, 103e-6},
		// up to 2.19: bins by index into a table of µs. Index 130 is the bin [132, 134), whose midpoint is 133.
		{"bins by index", "fio-2.19", fmt.Sprintf(dir2, `, "bins" : {"0" : 0, "90" : 500, "130" : 524, "131" : 0}`), 133e-6, 103e-6},
		// 2.20 and 2.21: bins in µs. From 2.21, io_bytes is in bytes, and io_kbytes exists.
		{"bins in µs", "fio-2.21", strings.Replace(fmt.Sprintf(dir2, `, "bins" : {"90" : 500, "133" : 524}`), `"io_bytes" : 4096`, `"io_bytes" : 4194304, "io_kbytes" : 4096`, 1), 133e-6, 103e-6},
		// 3.0: nanoseconds, without bw_bytes.
		{"ns", "fio-3.0", `"io_bytes" : 4194304, "io_kbytes" : 4096, "bw" : 1000, "iops" : 250.0, "runtime" : 4096, "total_ios" : 1024,
			"clat_ns" : {"min" : 10000, "max" : 4000000, "mean" : 100000.0, "stddev" : 20000.0, "percentile" : {"50.000000" : 90000}, "bins" : {"90112" : 500, "132608" : 524}},
			"lat_ns" : {"min" : 11000, "max" : 4009000, "mean" : 103000.0, "stddev" : 21000.0}`, 132608e-9, 103e-6},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, doc(c.version, c.read))
			near(t, "bytes", value(t, r, "read.bytes"), 4<<20, 0)
			near(t, "iops", value(t, r, "read.iops"), 1024/4.096, 1e-12)
			near(t, "bandwidth", value(t, r, "read.bandwidth"), (4<<20)/4.096, 1e-12)
			near(t, "reported bandwidth", r.Jobs[0].Read.Bandwidth, 1000*1024, 0)
			near(t, "mean", value(t, r, "read.latency.mean"), c.mean, 1e-9)
			near(t, "p50", value(t, r, "read.latency.p50"), c.p50, 1e-9)
			absent(t, r, "read.latency.p99") // only 10 samples above it
			if r.Jobs[0].Read.Completion.N != 1024 || r.Time.Unix() != 1400000000 || r.Disks[0].Utilization != 0.125 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// awkward is a synthetic fio document. Text around and inside the document breaks JSON parsers.
const awkward = `fio: this platform does not support process shared mutexes, forcing use of threads. Use the 'thread' option to get rid of this warning.
note: groups {are} not "jobs"
{
  "fio version" : "fio-3.36",
  "timestamp" : 1, "timestamp_ms" : 1700000000123,
  "global options" : [ { "bs" : "4k" }, { "direct" : "1" } ],
  "jobs" : [
fio: clock setaffinity failed: Invalid argument
    { "jobname" : "say \"hi\" C:\\x", "error" : 0, "groupid" : 0, "job options" : { "rw" : "read", "odd" : 5, "list" : [1] },
      "read" : { "io_bytes" : 40960, "io_kbytes" : 40, "bw_bytes" : nan, "bw" : 40, "iops" : -nan, "runtime" : 1000, "total_ios" : 10,
        "lat_ns" : { "min" : 1, "max" : 5, "mean" : inf, "stddev" : nan, "N" : 10 }, "lat_ns_new" : {"a" : [{"b" : {}}]} },
      "write" : [], "usr_cpu" : nan, "sys_cpu" : 1e2, "job_runtime" : 1000 }
  ],
  "disk_util" : null
}
warning at the end {
`

func TestAwkward(t *testing.T) {
	r := parse(t, []byte(awkward))
	j := r.Jobs[0]
	if j.Name != `say "hi" C:\x` || j.Options["odd"] != "5" || r.Options["bs"] != "4k" || r.Options["direct"] != "1" {
		t.Errorf("%+v %v", j, r.Options)
	}
	near(t, "iops", value(t, r, "read.iops"), 10, 0)
	near(t, "cpu", value(t, r, "cpu.client"), 1, 1e-12)
	if r.Time.UnixMilli() != 1700000000123 {
		t.Error(r.Time)
	}
	if got := strings.Join(r.Notes, "|"); !strings.Contains(got, "setaffinity failed") || !strings.Contains(got, "warning at the end") || !strings.Contains(got, "mutexes") {
		t.Error(got)
	}
}

func TestSeveralDocuments(t *testing.T) {
	second := strings.ReplaceAll(awkward, `"total_ios" : 10`, `"total_ios" : 70`)
	r := parse(t, []byte(awkward+second))
	near(t, "iops of the last", value(t, r, "read.iops"), 70, 0)
}

func TestTruncated(t *testing.T) {
	whole := []byte(awkward)
	end := bytes.LastIndexByte(whole, '}')
	for cut := bytes.IndexByte(whole, '{') + 40; cut < end; cut += 7 {
		r, err := Parse(whole[:cut])
		var syntax *SyntaxError
		if !errors.As(err, &syntax) && !errors.Is(err, ErrNoResult) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if r == nil {
			t.Fatalf("cut at %d: no result", cut)
		}
		if syntax != nil && (syntax.Offset > cut || syntax.Offset < cut-80) {
			t.Errorf("cut at %d, reported at %d", cut, syntax.Offset)
		}
	}
	r, err := Parse(whole[:end])
	if err == nil || !strings.Contains(err.Error(), "read so far: fio-3.36, 1 job)") || len(r.Jobs) != 1 {
		t.Errorf("%v, %d jobs", err, len(r.Jobs))
	}
	if _, err := Parse([]byte("bash: fio: command not found\n")); !errors.Is(err, ErrNoResult) {
		t.Error(err)
	}
}

// Several rows and one grouped row of the same jobs have the same values. The documents are synthetic.
func TestGroupingMakesNoDifference(t *testing.T) {
	lat := func(mean, sd float64, n int, bins string) string {
		return fmt.Sprintf(`"lat_ns" : {"min" : 100, "max" : 900, "mean" : %v, "stddev" : %v, "N" : %d, "bins" : {%s}}`, mean, sd, n, bins)
	}
	job := func(ios, ms int, lat string) string {
		return fmt.Sprintf(`{"jobname" : "j", "groupid" : 0, "error" : 0, "read" : {"io_bytes" : %d, "io_kbytes" : 1, "total_ios" : %d, "runtime" : %d, %s}, "job_runtime" : %d, "usr_cpu" : 10, "sys_cpu" : 0}`,
			ios*4096, ios, ms, lat, ms)
	}
	doc := func(jobs ...string) []byte {
		return []byte(`{"fio version" : "fio-3.33", "jobs" : [` + strings.Join(jobs, ",") + `]}`)
	}
	split := parse(t, doc(job(600, 1000, lat(200, 0, 600, `"200" : 600`)), job(400, 2000, lat(700, 0, 400, `"200" : 1, "700" : 399`))))
	// 600 I/Os at 200 ns and 400 at 700 ns: the mean is 400, and the sum of squared deviations is 600·200² +
	// 400·300².
	sd := math.Sqrt((600*200*200 + 400*300*300) / 999.0)
	whole := parse(t, []byte(strings.Replace(string(doc(job(1000, 2000, lat(400, sd, 1000, `"200" : 601, "700" : 399`)))), `"job_runtime" : 2000`, `"job_runtime" : 3000`, 1)))
	a, b := split.Values(), whole.Values()
	if len(a) != len(b) {
		t.Fatalf("%v\n%v", a, b)
	}
	for i := range a {
		if a[i].Name != b[i].Name {
			t.Errorf("%v, %v", a[i], b[i])
		}
		near(t, a[i].Name, a[i].Value, b[i].Value, 1e-9)
	}
	near(t, "iops", value(t, split, "read.iops"), 500, 1e-12)
	if fmt.Sprint(split.Histograms()) != fmt.Sprint(whole.Histograms()) {
		t.Error(split.Histograms(), whole.Histograms())
	}
	absent(t, split, "read.latency.p95") // only 50 samples above it
	near(t, "p90", value(t, split, "read.latency.p90"), 700e-9, 1e-12)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(awkward))
	f.Add([]byte(`{"jobs":[{"read":{"clat_ns":{"bins":{"10":5,"9":1},"percentile":{"99.0":3}}}}]}`))
	f.Add([]byte(`{"fio version" : "fio-2.1","client_stats":[{"jobname":"All clients"},{"steadystate":{"data":{"iops":[1]}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if r == nil {
			t.Fatal("no result")
		}
		var syntax *SyntaxError
		if errors.As(err, &syntax) && (syntax.Offset < 0 || syntax.Offset > len(data)) {
			t.Fatalf("offset %d of %d", syntax.Offset, len(data))
		}
		for _, v := range r.Values() {
			if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
				t.Fatalf("%+v", v)
			}
		}
		for _, h := range r.Histograms() {
			for i, b := range h.Bins {
				if b.Count == 0 || i > 0 && h.Bins[i-1].Value > b.Value {
					t.Fatalf("%+v", h)
				}
			}
		}
		_ = r.Err()
	})
}

// BenchmarkParse reads json+ documents of 16 jobs with full histograms.
func BenchmarkParse(b *testing.B) {
	doc := run(b, "--name=a", "--rw=randrw", "--size=1g", "--ioengine=null", "--numjobs=16", "--runtime=500ms", "--time_based", "--output-format=json+", "--lat_percentiles=1")
	doc = bytes.Repeat(doc, 1+4<<20/len(doc))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := Parse(doc)
		if err != nil || len(r.Jobs) != 16 {
			b.Fatal(err)
		}
	}
}
