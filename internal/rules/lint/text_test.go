package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"iotax/fio"
)

// found returns the rules and severities of the findings for a text with one result.
func found(t *testing.T, text string) []string {
	t.Helper()
	parts := fio.Read([]byte(text), "x.txt")
	if len(parts) != 1 || parts[0].Result == nil {
		t.Fatalf("%d parts: %s", len(parts), text)
	}
	var out []string
	for _, f := range Result("x.txt", 1, parts[0].Result) {
		out = append(out, f.Rule+" "+string(f.Severity))
	}
	return out
}

const textHead = "a: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=32\n"

// Text output shows few options, so the missing ones count as unknown: the job may have used direct I/O, a flush or
// another seed.
func TestTextShowsFewOptions(t *testing.T) {
	const row = "a: (groupid=0, jobs=1): err= 0: pid=3139: Sun Nov 22 08:27:52 2026\n  write: IOPS=1999, BW=7997KiB/s (8189kB/s)(23.4MiB/3001msec)\n    clat (nsec): min=751, max=115675k, avg=2169596.31, stdev=8829224.47\n     issued rwts: total=0,6000,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
	if got := found(t, textHead+row); len(got) != 0 {
		t.Errorf("text: %v", got)
	}
	const json = `{"fio version" : "fio-3.33", "jobs" : [{"jobname" : "a", "job options" : {%s}, "write" : {"io_bytes" : 24576000, "io_kbytes" : 24000, "total_ios" : 6000, "runtime" : 3001, "iops" : 1999.3,
		"bw_bytes" : 8189270, "lat_ns" : {"min" : 1, "max" : 9, "mean" : 5, "stddev" : 1, "N" : 6000}}, "job_runtime" : 3001}]}`
	for options, want := range map[string][]string{
		"": nil, // fio before 2.4 shows no options
		`"rw" : "randwrite", "bs" : "4k", "ioengine" : "libaio", "iodepth" : "32"`: {"libaio-buffered warning", "buffered-write-unsynced warning"},
	} {
		if got := found(t, fmt.Sprintf(json, options)); !slices.Equal(got, want) {
			t.Errorf("JSON with {%s}: %v, want %v", options, got, want)
		}
	}
}

// Rates and totals that contradict each other are found in each format, in excerpts, and between a group and its jobs.
func TestContradictions(t *testing.T) {
	const (
		text = "a: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=io_uring, iodepth=64\n" +
			"a: (groupid=0, jobs=8): err= 0: pid=32265: Sun Jul 26 05:48:52 2020\n  read: IOPS=8910, BW=34.8MiB/s (36.5MB/s)(2088MiB/60001msec)\n    lat (usec): min=2, max=99001, avg= 111.75, stdev= 0.50\n"
		sum   = "\nRun status group 0 (all jobs):\n   READ: bw=34.8MiB/s (36.5MB/s), 34.8MiB/s-34.8MiB/s (36.5MB/s-36.5MB/s), io=2088MiB (2189MB), run=60001-60001msec\n"
		old   = "  read : io=4096.0MB, bw=611058KB/s, iops=152764, runt=  6864msec\n    lat (usec): min=2, max=99001, avg= 111.75, stdev= 0.50\n"
		aggr  = "   READ: io=4096.0MB, aggrb=611058KB/s, minb=611058KB/s, maxb=611058KB/s, mint=6864msec, maxt=6864msec\n"
		json  = `{"fio version" : "fio-3.33", "jobs" : [{"jobname" : "a", "read" : {"io_bytes" : 4096000, "io_kbytes" : 4000, "bw_bytes" : 4096000, "bw" : 4000, "iops" : 1000.0, "runtime" : 1000, "total_ios" : 1000, "lat_ns" : {"mean" : 15, "N" : 1000}}}]}`
		terse = "3;fio-3.33;a;0;0;4000;4000;1000;1000"
	)
	rest := ";0;0;0.000000;0.000000;10;20;15.000000;1.000000" + strings.Repeat(";0%=0", 20) + ";10;20;15.000000;1.000000;0;0;0.000000%;0.000000;0.000000"
	rest += ";0;0;0;0;0;0;0.000000;0.000000;0;0;0.000000;0.000000" + strings.Repeat(";0%=0", 20) + ";0;0;0.000000;0.000000;0;0;0.000000%;0.000000;0.000000"
	rest += ";1.500000%;2.500000%;11;1;2" + strings.Repeat(";14.3%", 7) + strings.Repeat(";4.55%", 22)
	for _, c := range []struct{ whole, from, to string }{
		{text + sum, "BW=34.8MiB/s (36.5MB/s)", "BW=348MiB/s (365MB/s)"},
		{text + sum, "BW=34.8MiB/s (36.5MB/s)", "BW=34.8MiB/s (365MB/s)"},
		{text + sum, "IOPS=8910", "IOPS=891"},
		{text + sum, "io=2088MiB (2189MB)", "io=208MiB (218MB)"},
		{text + sum, "io=2088MiB (2189MB)", "io=20.8GiB (22.3GB)"},
		{text + sum, "io=2088MiB (2189MB)", "io=2088MiB (2189kB)"},
		{text + sum, ": bw=34.8MiB/s (36.5MB/s)", ": bw=34.8MiB/s (365MB/s)"},
		{sum, "io=2088MiB (2189MB)", "io=2088MiB (2189kB)"},
		{sum, "io=2088MiB (2189MB)", "io=208MiB (218MB)"},
		{old + "\nRun status group 0 (all jobs):\n" + aggr, "runt=  6864msec", "runt= 68640msec"},
		{aggr, "aggrb=611058KB/s", "aggrb=61105KB/s"},
		{json, `"bw" : 4000`, `"bw" : 400`},
		{json, `"io_kbytes" : 4000`, `"io_kbytes" : 400`},
		{json, `"bw_bytes" : 4096000, "bw" : 4000`, `"bw_bytes" : 409600, "bw" : 400`},
		{json, `"iops" : 1000.0`, `"iops" : 100.0`},
		{terse + rest, ";4000;4000;1000;1000", ";4000;400;1000;1000"},
		{terse + rest, ";4000;4000;1000;1000", ";4000;4000;100000;1000"},
	} {
		if got := found(t, c.whole); slices.Contains(got, "rate-mismatch error") {
			t.Errorf("%s: %v", c.whole, got)
		}
		if changed := strings.Replace(c.whole, c.from, c.to, 1); changed == c.whole || !slices.Contains(found(t, changed), "rate-mismatch error") {
			t.Errorf("%q for %q: %v", c.to, c.from, found(t, changed))
		}
	}
	// A quoted row may be one of several, and terse output has whole KiB.
	part := text[strings.Index(text, "a: (groupid"):] + strings.Replace(sum, "io=2088MiB (2189MB)", "io=20.8GiB (22.3GB)", 1)
	for _, right := range []string{part, strings.Replace(terse, ";4000;4000;1000;1000", ";1;9;19;151", 1) + rest,
		strings.Replace(terse, ";4000;4000;1000;1000", ";2000;6666;16500;300", 1) + rest} {
		if got := found(t, right); slices.Contains(got, "rate-mismatch error") {
			t.Errorf("%s: %v", right, got)
		}
	}
}

// fio rounds its numbers, so small differences are not findings.
func TestRoundedRates(t *testing.T) {
	for _, c := range []struct {
		name, line, bs string
		wrong          bool
	}{
		{"11.96 as 11.0, as 3.25 and before cut it", "IOPS=3060, BW=11.0MiB/s (12.5MB/s)(719MiB/60172msec)", "4096B", false},
		{"10.9 IOPS as 10", "IOPS=10, BW=43.7KiB/s (44.7kB/s)(2622KiB/60001msec)", "4096B", false},
		{"1.9 IOPS as 1", "IOPS=1, BW=1946KiB/s (1993kB/s)(114MiB/60001msec)", "1024KiB", false},
		{"1.0M IOPS", "IOPS=1279k, BW=4995MiB/s (5238MB/s)(146GiB/30002msec)", "4096B", false},
		{"another unit", "IOPS=2400, BW=966KiB/s (990kB/s)(56.6MiB/60001msec)", "4096B", true},
		{"19 IOPS of 30", "IOPS=19, BW=120KiB/s (123kB/s)(7200KiB/60001msec)", "4096B", true},
		{"a rate that is not that of the total", "IOPS=3060, BW=12.0MiB/s (12.5MB/s)(1438MiB/60172msec)", "4096B", true},
		{"the same without a block size", "IOPS=3060, BW=12.0MiB/s (12.5MB/s)(1438MiB/60172msec)", "", true},
		{"two rates", "IOPS=3060, BW=12.0MiB/s (125MB/s)(719MiB/60172msec)", "4096B", true},
	} {
		head := ""
		if c.bs != "" {
			head = fmt.Sprintf("a: (g=0): rw=randread, bs=(R) %s-%[1]s, (W) %[1]s-%[1]s, (T) %[1]s-%[1]s, ioengine=io_uring, iodepth=64\n", c.bs)
		}
		got := found(t, head+"a: (groupid=0, jobs=8): err= 0: pid=32265: Sun Jul 26 05:48:52 2020\n   read: "+c.line+"\n    clat (usec): min=690, max=864172, avg=164701.59, stdev=104199.41\n")
		if c.wrong != slices.Equal(got, []string{"rate-mismatch error"}) || !c.wrong && len(got) > 0 {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A row that combines sections with different block sizes does not have a single block size.
func TestSectionsOfAResult(t *testing.T) {
	const row = "a: (groupid=0, jobs=2): err= 0: pid=28813: Sun Nov 22 08:27:23 2026\n  write: IOPS=8665, BW=63.7MiB/s (66.8MB/s)(128MiB/2009msec)\n     lat (nsec): min=20, max=17418k, avg=1433.75, stdev=135878.14\n     issued rwts: total=0,17408,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
	other := "b: (g=0): rw=randwrite, bs=(R) 64.0KiB-64.0KiB, (W) 64.0KiB-64.0KiB, (T) 64.0KiB-64.0KiB, ioengine=libaio, iodepth=32\n"
	if got := found(t, textHead+other+row); !slices.Equal(got, []string{"jobs-compete warning"}) {
		t.Errorf("two sections: %v", got)
	}
	if got := found(t, textHead+row); !slices.Equal(got, []string{"rate-mismatch error"}) {
		t.Errorf("one section: %v", got)
	}
}

// The byte count includes the I/Os in flight when the ramp ends. The I/O count does not.
func TestRampOfAResult(t *testing.T) {
	doc := func(options string) string {
		return fmt.Sprintf(`{"fio version" : "fio-3.33", "jobs" : [{"jobname" : "a", "job options" : {"rw" : "read", "bs" : "1m", "direct" : "1", "ioengine" : "libaio", "iodepth" : "64", "numjobs" : "10"%s},
			"read" : {"io_bytes" : 2147483648, "io_kbytes" : 2097152, "total_ios" : 1600, "runtime" : 10000, "iops" : 160.0, "bw_bytes" : 214748364, "lat_ns" : {"min" : 1, "max" : 9, "mean" : 5, "stddev" : 1, "N" : 1600}}, "job_runtime" : 100000}]}`, options)
	}
	if got := found(t, doc(`, "ramp_time" : "5"`)); len(got) != 0 {
		t.Errorf("with a ramp: %v", got)
	}
	if got := found(t, doc("")); !slices.Equal(got, []string{"rate-mismatch info"}) {
		t.Errorf("without: %v", got)
	}
}

func TestLooksLikeJob(t *testing.T) {
	const result = "  read: IOPS=14.7k, BW=57.5MiB/s (60.2MB/s)(1149MiB/20003msec)\n"
	for text, want := range map[string]bool{
		"; a job\n[a]\nrw=read\n":                   true,
		"[a]# comment\nrw=read\n":                   true,
		"[root@host ~]# fio --name=t --rw=read\n":   false,
		"[root@host ~]# cat x\n" + result:           false,
		"[me@host dir]$ sudo fio --name=t\n":        false,
		"[host]# fio --name=t --rw=read\n" + result: false,
		"[12:00:01] fio starts\n" + result:          false,
		"[a]\nrw=read\n\n" + result:                 false,
		"rw=read\n":                                 false,
	} {
		if got := LooksLikeJob(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
