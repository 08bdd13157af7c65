package fio

import (
	"bytes"
	"fmt"
	"mime/quotedprintable"
	"slices"
	"strings"
	"testing"
)

// row returns the text result of one job with 4 KiB reads at 1000 IOPS.
func row(name string, pid, second, ios int) string {
	return fmt.Sprintf("%s: (groupid=0, jobs=1): err= 0: pid=%d: Sat Jul 12 10:11:%02d 2014\n  read : io=%dKB, bw=4000KB/s, iops=1000, runt=%6dmsec\n     issued    : total=r=%d/w=0/d=0, short=r=0/w=0/d=0\n",
		name, pid, second, 4*ios, ios, ios)
}

// terseRow returns a terse line with I/O in one direction. `share` is the direction's share of the group's bandwidth in
// percent. `most` is the direction's maximum latency in µs.
func terseRow(kib, ms int, share, most float64) string {
	d := fmt.Sprintf(";%d;%d;%d;%d;0;0;0.000000;0.000000;10;%v;100.250000;20.000000", kib, kib*1000/ms, kib*250/ms, ms, most) + strings.Repeat(";0%=0", 20) +
		fmt.Sprintf(";10;%v;103.750000;21.000000;1;2;%f%%;1.500000;0.500000", most, share)
	none := ";0;0;0;0;0;0;0.000000;0.000000;0;0;0.000000;0.000000" + strings.Repeat(";0%=0", 20) + ";0;0;0.000000;0.000000;0;0;0.000000%;0.000000;0.000000"
	return terseSample(3, d, none) + "\n"
}

// Read must not lose a result. If it is unclear whether two results are from the same process, Read returns both.
func TestSeveralOfOne(t *testing.T) {
	const head = "a: (g=0): rw=randread, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=64\nfio-2.1.11\nStarting 1 process\n"
	doc := func(at, ms, ios int) string {
		return fmt.Sprintf(`{"fio version" : "fio-3.33", "timestamp_ms" : %d, "jobs" : [{"jobname" : "a", "elapsed" : 61, "read" : {"io_bytes" : %d, "io_kbytes" : 1, "total_ios" : %d, "runtime" : %d,
			"lat_ns" : {"min" : 1000, "max" : 900000, "mean" : 5000, "stddev" : 10, "N" : %[3]d}}}]}`+"\n", 1700000000123+at, ios*4096, ios, ms)
	}
	old := func(s string) string { return strings.Replace(s, `"timestamp_ms"`, `"seed"`, 1) }
	on := func(row string, ios int) string {
		return strings.TrimSuffix(row, "\n") + fmt.Sprintf(";sda;%d;0;0;0;1;0;1;12.50%%\n", ios)
	}
	cut := func(row string) string { return row[:strings.Index(row, "     issued")] }
	excerpt := func(ios int) string { return strings.SplitAfterN(row("", 0, 0, ios), "\n", 2)[1] }
	for _, c := range []struct {
		name, text string
		ios        []int // I/Os of each result
	}{
		{"terse lines of commands in a loop", terseRow(8192, 256, 0, 300) + terseRow(16384, 499, 0, 400) + terseRow(32768, 999, 100, 500), []int{2048, 4096, 8192}},
		{"terse lines of one command again and again", terseRow(8192, 2000, 100, 300) + terseRow(8192, 2000, 99, 300), []int{2048, 2048}},
		{"terse lines of clones", terseRow(8192, 2000, 51, 300) + terseRow(8192, 2000, 48, 300), []int{4096}},
		{"terse lines of a status interval", terseRow(8192, 2000, 100, 300) + terseRow(16384, 4000, 100, 400) + terseRow(24576, 6000, 100, 400), []int{6144}},
		{"terse lines of a status interval, within one sample of the disks", on(terseRow(8192, 2000, 100, 300), 7) + on(terseRow(16384, 4000, 100, 400), 7) + on(terseRow(24576, 6000, 100, 400), 9), []int{6144}},
		{"terse lines of clones on a disk", on(terseRow(8192, 2000, 51, 300), 7) + on(terseRow(8192, 2000, 48, 300), 7), []int{4096}},
		{"terse lines of jobs of one process, one shorter", on(terseRow(8192, 2000, 80, 300), 7) + strings.Replace(on(terseRow(16384, 4000, 80, 300), 7), "job one", "job two", 1), []int{6144}},
		{"terse lines of growing runs, then of a status interval", terseRow(8192, 1000, 100, 300) + terseRow(16384, 2000, 100, 400) + terseRow(32768, 4000, 100, 400), []int{2048, 8192}},
		{"reports of a status interval", head + row("a", 7, 1, 1000) + row("a", 7, 2, 2000) + row("a", 7, 3, 3000), []int{3000}},
		{"the same without what fio prints first", row("a", 7, 1, 1000) + row("a", 7, 2, 2000) + row("a", 7, 3, 3000), []int{3000}},
		{"processes of containers, which have the same ID", head + row("a", 7, 1, 9000) + head + row("a", 7, 11, 9001), []int{9000, 9001}},
		{"the same, cut", row("a", 7, 1, 9000) + row("a", 7, 11, 9001), []int{9000, 9001}},
		{"excerpts", excerpt(1000) + excerpt(2000) + excerpt(4000), []int{1000, 2000, 4000}},
		{"documents of two hosts at one time", doc(0, 60000, 6000000) + doc(5, 60002, 6100000), []int{6000000, 6100000}},
		{"documents of one process", doc(0, 59900, 6000000) + doc(102, 60002, 6010000), []int{6010000}},
		{"documents of one process, the second late", doc(0, 89, 1000) + doc(300, 287, 3000), []int{3000}},
		{"documents of a loop of growing runs", doc(0, 1000, 1000) + strings.Replace(doc(3500, 3000, 3000), `"min" : 1000`, `"min" : 900`, 1), []int{1000, 3000}},
		{"documents without a time of a loop", old(doc(0, 10000, 1000)) + strings.Replace(old(doc(0, 20000, 2000)), "900000", "950000", 1), []int{1000, 2000}},
		{"documents without a time of one process", old(doc(0, 10000, 1000)) + old(doc(0, 20000, 2000)), []int{2000}},
		{"a document and the text of another run as long", head + row("a", 7, 1, 9000) + strings.Replace(doc(0, 9000, 8000), "3.33", "2.1.11", 1), []int{9000, 8000}},
		{"a document and the terse line of another run as long", strings.Replace(terseRow(36000, 9000, 100, 300), "job one;2", "a;0", 1) + doc(0, 9000, 13500), []int{9000, 13500}},
		{"a document and the terse line of the same run", strings.Replace(terseRow(36000, 9000, 100, 300), "job one;2", "a;0", 1) + doc(0, 9000, 9000), []int{9000}},
		{"a document and the text of another run as long, without its count", head + cut(row("a", 7, 1, 9000)) + doc(0, 9000, 8000), []int{9000, 8000}},
		{"a document and the text of the same run, without its count", head + cut(row("a", 7, 1, 9000)) + doc(0, 9000, 9000), []int{9000}},
	} {
		var got []int
		for _, p := range Read([]byte(c.text), "") {
			n := 0
			if p.Result != nil {
				for _, j := range p.Result.Jobs {
					n += int(j.Read.IOs)
				}
				if j := p.Result.Jobs[0]; j.Read.IOs == 0 {
					n = int(j.Read.Bytes / 4096)
				}
			}
			got = append(got, n)
		}
		if !slices.Equal(got, c.ios) {
			t.Errorf("%s: %v, want %v", c.name, got, c.ios)
		}
	}
}

// A group summary is a result of its own only if it does not match the jobs before it.
func TestSummariesOfExcerpts(t *testing.T) {
	const write = "  write: IOPS=25.8k, BW=25.2GiB/s (27.0GB/s)(755GiB/30010msec); 0 zone resets\n"
	const read = "  read: IOPS=127k, BW=496MiB/s (520MB/s)(14.5GiB/30002msec)\n"
	const sumWrite = "  WRITE: bw=25.2GiB/s (27.0GB/s), 25.2GiB/s-25.2GiB/s (27.0GB/s-27.0GB/s), io=755GiB (810GB), run=30010-30010msec\n"
	const sumRead = "   READ: bw=496MiB/s (520MB/s), 496MiB/s-496MiB/s (520MB/s-520MB/s), io=14.5GiB (15.6GB), run=30002-30002msec\n"
	for _, c := range []struct {
		name, text, want string
	}{
		{"two jobs, each with its summary", "--- write ---\n" + write + sumWrite + "--- read ---\n" + read + sumRead, "write|read"},
		{"the same, nothing between", write + sumWrite + read + sumRead, "write|read"},
		{"one job that does both", read + write + sumRead + sumWrite, "read+write"},
		{"two jobs, prose between", read + "and then writes:\n" + write, "read|write"},
		{"two jobs in the other order", write + read, "write|read"},
		{"two jobs of other lengths", read + strings.Replace(write, "30010", "60010", 1), "read|write"},
		{"summaries alone", sumRead + sumWrite, "read+write"},
		{"summaries of two groups", "Run status group 0 (all jobs):\n" + sumRead + "\nRun status group 1 (all jobs):\n" + sumWrite, "read|write"},
		{"summaries of two runs", sumRead + sumRead, "read|read"},
		{"a summary of several jobs, of which one is quoted", read + strings.ReplaceAll(strings.ReplaceAll(sumRead, "496", "1984"), "14.5", "58.0"), "read|read"},
		{"a summary of a group whose job is cut", "a: (groupid=0, jobs=1): err= 0: pid=7: Sat Jul 12 10:11:12 2014\n" + read + "Run status group 0 (all jobs):\n" + sumRead + "Run status group 1 (all jobs):\n" + sumWrite, "read|write"},
	} {
		var got []string
		for _, p := range Read([]byte(c.text), "") {
			var did []string
			for _, j := range p.Result.Jobs {
				for i, d := range j.directions() {
					if !d.empty() {
						did = append(did, directionNames[i])
					}
				}
			}
			got = append(got, strings.Join(did, "+"))
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}

// The rows of several clients form one result. Read uses the sum that fio prints after them only if the text does not
// contain these rows.
func TestAllClients(t *testing.T) {
	const greeting = "hostname=db1, be=0, 64-bit, os=Linux, arch=x86-64, fio=fio-3.33, flags=1\nhostname=db2, be=0, 64-bit, os=Linux, arch=x86-64, fio=fio-3.33, flags=1\n"
	const status = "\nRun status group 0 (all jobs):\n   READ: io=4000KB, aggrb=4000KB/s, minb=4000KB/s, maxb=4000KB/s, mint=1000msec, maxt=1000msec\n"
	sum := strings.NewReplacer("bw=4000", "bw=8000", "iops=1000", "iops=2000", "runt=  2000", "runt=  1000").Replace(row("All clients", 0, 2, 2000))
	for _, c := range []struct {
		name, text string
		jobs       int
	}{
		{"clients", greeting + row("a", 11, 1, 1000) + status + row("a", 12, 1, 1000) + status + sum, 2},
		{"clients with one ID", greeting + row("a", 7, 1, 1000) + status + row("a", 7, 1, 1000) + status + sum, 2},
		{"their sum alone", "    $ fio --client=hosts r.fio\n    ...\n" + sum, 1},
	} {
		r := one(t, []byte(c.text), "").Result
		if got := value(t, r, "iops"); got != 2000 || len(r.Jobs) != c.jobs {
			t.Errorf("%s: %v IOPS in %d jobs", c.name, got, len(r.Jobs))
		}
	}
	if parts := Read([]byte(row("a", 11, 1, 5000)+status+sum), ""); len(parts) != 2 {
		t.Errorf("another run, then a sum: %s", describe(parts))
	}
}

// If the output is not a terminal, fio's progress does not end with a newline. The text after it is on the same
// line.
func TestGluedToProgress(t *testing.T) {
	const progress = "Jobs: 1 (f=1): [r(1)][100.0%][r=147MiB/s][r=37.6k IOPS][eta 00m:00s]"
	terse, text := terseRow(4000, 1000, 100, 300), row("job one", 7, 1, 1000)
	for _, before := range []string{progress, "Jobs: 1 (f=1): [r(1)][53.3%][eta 00m:14s" + progress, "Jobs: 1 (f=1)", "Jobs: 4 (f=4), 0B/s-0B/s<vm> ", "Jobs: 2 (f=2): [r(1)] [98.6MB/0KB/0KB /s] [153K/0/0 iops] [eta 00m:00s]"} {
		if r := one(t, []byte(before+terse), "").Result; r.Jobs[0].Name != "job one" {
			t.Errorf("%s: %+v", before, r.Jobs[0])
		}
		if r := one(t, []byte(before+text), "").Result; r.Jobs[0].Name != "job one" {
			t.Errorf("%s: %+v", before, r.Jobs[0])
		}
	}
	// A run in two formats is one result.
	group := strings.Replace(text, "groupid=0", "groupid=2", 1)
	if p := one(t, []byte(strings.Replace(group, "Sat Jul", "Sat Jul", 1)+progress+terse), ""); len(p.Also) != 1 {
		t.Error(describe([]Part{p}))
	}
}

func TestQuotedPrintable(t *testing.T) {
	for name, text := range map[string]string{"text": text2, "terse": terseRow(4096, 1000, 100, 300), "a blog": blog} {
		var b bytes.Buffer
		b.WriteString("Content-Transfer-Encoding: quoted-printable\n\n")
		w := quotedprintable.NewWriter(&b)
		w.Write([]byte(text))
		w.Close()
		want, got := Read([]byte(text), ""), Read(b.Bytes(), "")
		if describe(got) == "" || len(got) != len(want) || got[0].Result == nil {
			t.Fatalf("%s: %s\n%s", name, describe(got), b.Bytes())
		}
		for i := range want {
			if g, w := fmt.Sprint(got[i].Result.Values()), fmt.Sprint(want[i].Result.Values()); g != w {
				t.Errorf("%s: %s\nwant %s", name, g, w)
			}
		}
	}
}

// fio 3.33 prints submission latencies that are longer than the run, with disable_lat and slat_percentiles. With
// ramp_time, an I/O may be older than the window.
func TestLatenciesLongerThanTheRun(t *testing.T) {
	doc := `{"fio version" : "fio-3.33", "global options" : {"ramp_time" : "%s"}, "jobs" : [{"jobname" : "a", "write" : {"io_bytes" : 1073741824, "io_kbytes" : 1048576, "total_ios" : 262144, "runtime" : 236,
		"slat_ns" : {"min" : 2500458163, "max" : 2736302918, "mean" : 2614743555, "stddev" : 1, "N" : 262144}, "clat_ns" : {"min" : 90, "max" : 8262245, "mean" : 229, "stddev" : 1, "N" : 262144}}}]}`
	r := one(t, fmt.Appendf(nil, doc, "0"), "").Result
	absent(t, r, "write.latency.submission.mean")
	near(t, "completion", value(t, r, "write.latency.completion.mean"), 229e-9, 1e-12)
	if f := r.Damaged(); len(f) != 1 {
		t.Errorf("%v", f)
	}
	if r := one(t, fmt.Appendf(nil, doc, "3s"), "").Result; len(r.Damaged()) > 0 {
		t.Errorf("after a ramp: %v", r.Damaged())
	}
}

// A histogram with many more I/Os than the job did is ignored, and no sum overflows.
func TestGarbageHistogram(t *testing.T) {
	doc := func(a, b string) []byte {
		return []byte(`{"fio version" : "fio-3.33", "jobs" : [{"jobname" : "a", "read" : {"io_bytes" : 4096000, "io_kbytes" : 4000, "total_ios" : 1000, "runtime" : 1000,
			"lat_ns" : {"min" : 10, "max" : 20, "mean" : 15, "stddev" : 1, "N" : 1000, "bins" : {"10" : ` + a + `, "20" : ` + b + `}}}}]}`)
	}
	for _, c := range [][2]string{{"18446744073709551000", "1216"}, {"9223372036854775808", "9223372036854776308"}, {"500", "500000"}} {
		r := one(t, doc(c[0], c[1]), "").Result
		if h, f := r.Histograms(), r.Damaged(); len(h) != 0 || len(f) != 1 || !strings.Contains(f[0], "histogram") {
			t.Errorf("%v: %v %v", c, h, f)
		}
		absent(t, r, "read.latency.p50")
	}
	// The histograms of three rows, of which fio counted neither samples nor I/Os, overflow only when they are summed.
	row := `{"jobname" : "a", "read" : {"io_bytes" : 4096000, "runtime" : 1000, "lat_ns" : {"min" : 10, "max" : 20, "mean" : 15, "stddev" : 1, "N" : 9000000000000000000, "bins" : {"10" : 9000000000000000000}}}}`
	r := one(t, []byte(`{"fio version" : "fio-3.33", "jobs" : [`+row+","+row+","+row+"]}"), "").Result
	if h, f := r.Histograms(), r.Damaged(); len(h) != 0 || len(f) != 3 {
		t.Errorf("%v %v", h, f)
	}
	many := strings.Replace(string(doc("5000", "5000")), `"N" : 1000`, `"N" : 10000`, 1)
	if f := one(t, []byte(many), "").Result.Damaged(); len(f) != 1 {
		t.Errorf("ten samples of each I/O: %v", f)
	}
	if r := one(t, doc("500", "500"), "").Result; value(t, r, "read.latency.p50") != 10e-9 {
		t.Errorf("%v", r.Values())
	}
}
