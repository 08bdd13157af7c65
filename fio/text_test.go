package fio

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// The samples below were written by hand from fio's source of the given version (stat.c, init.c, lib/num2str.c).
// Comments mark single lines that are quoted from published results. The numbers are chosen so that the exact
// values are known.

// Output of fio 2.2.10, as init.c and stat.c of that version print it. The line with the rates is from an issue that
// many write-ups quote.
const text2 = `test: (g=0): rw=randread, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=64
fio-2.2.10
Starting 1 process
Jobs: 1 (f=1): [r(1)] [100.0% done] [598.4MB/0KB/0KB /s] [153K/0/0 iops] [eta 00m:00s]
test: (groupid=0, jobs=1): err= 0: pid=22234: Sat Jul 12 10:11:12 2014
  read : io=4096.0MB, bw=611058KB/s, iops=152764, runt=  6864msec
    slat (usec): min=1, max=1242, avg= 4.20, stdev= 2.10
    clat (usec): min=43, max=12.3K, avg=413.60, stdev=101.40
     lat (usec): min=46, max=12.4K, avg=417.95, stdev=101.50
    clat percentiles (usec):
     |  1.00th=[  270],  5.00th=[  306], 10.00th=[  322], 20.00th=[  346],
     | 99.00th=[  724], 99.50th=[  804], 99.90th=[ 1020], 99.95th=[ 1208],
     | 99.99th=[ 3440]
    bw (KB  /s): min=590112, max=622344, per=100.00%, avg=611100.30, stdev=8230.10
    lat (usec) : 50=0.01%, 100=0.01%, 250=0.51%, 500=88.10%, 750=10.62%
    lat (msec) : 2=0.10%, 4=0.05%, 10=0.01%, 20=0.01%
  cpu          : usr=22.55%, sys=77.40%, ctx=1523, majf=0, minf=72
  IO depths    : 1=0.1%, 2=0.1%, 4=0.1%, 8=0.1%, 16=0.1%, 32=0.1%, >=64=100.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.1%, >=64=0.0%
     issued    : total=r=1048576/w=0/d=0, short=r=3/w=0/d=0, drop=r=0/w=0/d=0
     latency   : target=0, window=0, percentile=100.00%, depth=64

Run status group 0 (all jobs):
   READ: io=4096.0MB, aggrb=611057KB/s, minb=611057KB/s, maxb=611057KB/s, mint=6864msec, maxt=6864msec

Disk stats (read/write):
  nvme0n1: ios=1030519/2, merge=0/1, ticks=421832/4, in_queue=422212, util=98.60%
`

func TestText2(t *testing.T) {
	p := one(t, []byte(text2), "")
	r := p.Result
	if p.Kind != KindText || r.Version != "fio-2.2.10" || len(r.Jobs) != 1 || r.Time.Year() != 2014 {
		t.Fatalf("%s %+v", describe([]Part{p}), r)
	}
	j := r.Jobs[0]
	if j.Name != "test" || j.PID != 22234 || j.Members != 1 || j.Options["ioengine"] != "libaio" || j.Options["iodepth"] != "64" || j.Options["rw"] != "randread" || j.Options["bs"] != "4096" {
		t.Errorf("%+v", j)
	}
	if j.Read.IOs != 1048576 || j.Read.IOsFrom != Exact || j.Read.Bytes != 4<<30 || j.Read.BytesFrom != FromBlockSize || j.Read.Short != 3 || j.ContextSwitches != 1523 {
		t.Errorf("%+v", j.Read)
	}
	for name, want := range map[string]float64{
		"read.iops": 1048576 / 6.864, "iops": 1048576 / 6.864, "read.bandwidth": 4 << 30 / 6.864, "duration": 6.864,
		"read.latency.mean": 417.95e-6, "read.latency.sd": 101.5e-6, "read.latency.max": 12400e-6, "read.latency.submission.mean": 4.2e-6,
		"read.latency.completion.mean": 413.6e-6, "read.latency.p99": 724e-6, "read.latency.p99.99": 3440e-6,
		"cpu.client": 6.864 * (0.2255 + 0.774),
	} {
		near(t, name, value(t, r, name), want, 1e-12)
	}
	if len(r.Disks) != 1 || r.Disks[0].ReadIOs != 1030519 || r.Disks[0].Utilization != 0.986 || r.Disks[0].WriteMerges != 1 {
		t.Errorf("%+v", r.Disks)
	}
}

// If the number of I/Os or the block size is unknown, the bytes are the bandwidth × the runtime, or the printed size
// if that is more precise. Decimals of the size are meaningless before 2.20.
func TestText2Rounding(t *testing.T) {
	for _, c := range []struct {
		line      string
		bytes     float64
		bytesFrom Source
		iops      float64
	}{
		{"read : io=2047.2MB, bw=34931KB/s, iops=8732, runt= 60014msec", 34931 * 1024 * 60.014, FromRate, 8732},
		{"  write: io=512.00KB, bw=8533B/s, iops=2, runt= 61440msec", 8533 * 61.44, FromRate, 2},
		{"  read : io=1PB, bw=18000MB/s, iops=4400, runt=60000msec", 60 * 18000 << 20, FromRate, 4400}, // old versions of fio have no unit T
		{"  read: IOPS=8910, BW=34.8MiB/s (36.5MB/s)(2088MiB/60001msec)", 2088 << 20, Rounded, 8910},
		{"  read: IOPS=37.6k, BW=147MiB/s (154MB/s)(8812MiB/60001msec)", 8812 << 20, Rounded, 37600},
		{"  read: IOPS=1234k, BW=4.71GiB/s (5.05GB/s)(282GiB/60001msec)", 4.71 * (1 << 30) * 60.001, FromRate, 1234000},
		{"  read: IOPS=10, BW=43.7KiB/s (44.7kB/s)(2622KiB/60001msec); 0 zone resets", 2622 << 10, Rounded, 10},
		{"  write: IOPS=100, BW=400KiB/s (410kB/s)(1024B/60001msec)", 1024, Exact, 100},
		{"  read: IOPS=8910, BW=278Mibit/s (292Mbit/s)(2088MiB/60001msec)", 2088 << 20, Rounded, 8910},
	} {
		p := one(t, []byte(c.line+"\n"), "")
		d := &p.Result.Jobs[0].Read
		if strings.Contains(c.line, "write") {
			d = &p.Result.Jobs[0].Write
		}
		if math.Abs(float64(d.Bytes)-c.bytes) > 1 || d.BytesFrom != c.bytesFrom || d.IOPS != c.iops || d.IOsFrom != Rounded || d.IOs != 0 {
			t.Errorf("%s\n%+v", c.line, d)
		}
		near(t, c.line, value(t, p.Result, "iops"), c.iops, 1e-9)
		absent(t, p.Result, "read.ios")
	}
}

// Output of fio 3.28 as a blog shows it, with prompts, fences, quotes, colours, progress, and two runs. It was
// written by hand from fio's source.
const blog = "Some words: first.\r\n" +
	"# Results\n\n```console\n" +
	"root@db1:~# fio --name=rw --rw=randrw --bs=4k\r\n" +
	"rw: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 16.0KiB-16.0KiB, (T) 4096B-4096B, ioengine=io_uring, iodepth=32\n" +
	"...\n" +
	"fio-3.28\n" +
	"Starting 4 processes\n" +
	"Jobs: 4 (f=4): [m(4)][50.0%][r=145MiB/s,w=145MiB/s][r=37.2k,w=37.2k IOPS][eta 00m:05s]\r" +
	"Jobs: 4 (f=4): [m(4)][100.0%][r=147MiB/s,w=147MiB/s][r=37.6k,w=37.5k IOPS][eta 00m:00s]\r\n" +
	"\x1b[1mrw: (groupid=0, jobs=4): err= 0: pid=812: Tue Mar  3 14:00:09 2020\x1b[0m\n" +
	"  read: IOPS=37.6k, BW=147MiB/s (154MB/s)(1469MiB/10002msec)\n" +
	"    clat (nsec): min=900, max=99000k, avg=1500.25, stdev=10.50\n" +
	"     lat (usec): min=2, max=99001, avg= 1.75, stdev= 0.50\n" +
	"    clat prio 0/0 (usec): min=1, max=2, avg=77.00, stdev= 0.50\n" +
	"    clat percentiles (msec):\n" +
	"     | 50.00th=[    2], 99.00th=[   40]\n" +
	"    clat prio 0/0 (12.5% of IOs) percentiles (msec):\n" +
	"     | 50.00th=[    7], 99.00th=[   70]\n" +
	"   bw (  KiB/s): min=140000, max=155000, per=100.00%, avg=150500.10, stdev=900.00, samples=76\n" +
	"  write: IOPS=37.5k, BW=586MiB/s (614MB/s)(5860MiB/10002msec); 0 zone resets\n" +
	"     lat (usec): min=3, max=5000, avg=12.00, stdev= 3.00\n" +
	"  lat (usec)   : 2=1.00%, 4=99.00%\n" +
	"  cpu          : usr=1.50%, sys=4.00%, ctx=1, majf=2, minf=3\n" +
	"     issued rwts: total=376064,375040,0,17 short=0,0,0,0 dropped=0,5,0,0\n" +
	"  fsync/fdatasync/sync_file_range:\n" +
	"    sync (usec): min=20, max=400, avg=100.00, stdev=10.00\n" +
	"    sync percentiles (usec):\n" +
	"     | 50.00th=[   90]\n" +
	"\nRun status group 0 (all jobs):\n" +
	"   READ: bw=147MiB/s (154MB/s), 147MiB/s-147MiB/s (154MB/s-154MB/s), io=1469MiB (1540MB), run=10002-10002msec\n" +
	"```\n" +
	"and again:\n" +
	"> rw: (groupid=0, jobs=4): err= 5 (file:io_u.c:1803, func=io_u error, error=Input/output error): pid=900: Tue Mar  3 14:05:09 2020\n" +
	">   read: IOPS=1000, BW=4000KiB/s (4096kB/s)(39.1MiB/10000msec)\n" +
	">      issued rwts: total=10000,0,0,0 short=0,0,0,0 dropped=0,0,0,0\n"

func TestBlog(t *testing.T) {
	parts := Read([]byte(blog), "")
	if len(parts) != 2 || parts[0].Err != nil || parts[1].Err != nil {
		t.Fatal(describe(parts))
	}
	r := parts[0].Result
	if r.Version != "fio-3.28" || r.Jobs[0].Members != 4 || r.Jobs[0].Error != 0 || parts[0].Line != 6 {
		t.Errorf("%+v line %d", r, parts[0].Line)
	}
	for name, want := range map[string]float64{
		"read.iops": 376064 / 10.002, "write.iops": 375040 / 10.002, "iops": 751104 / 10.002,
		"read.bytes": 376064 * 4096, "write.bytes": 375040 * 16384,
		"read.latency.mean": 1.75e-6, "read.latency.completion.mean": 1500.25e-9, "read.latency.p50": 2e-3, "read.latency.p99": 40e-3,
		"write.latency.mean": 12e-6, "sync.ios": 17, "sync.latency.mean": 100e-6,
	} {
		near(t, name, value(t, r, name), want, 1e-12)
	}
	absent(t, r, "sync.latency.p50") // only 17 flushes
	absent(t, r, "cpu.client")       // text output does not contain the sum of the runtimes of four jobs
	again := parts[1].Result
	if again.Err() == nil || !strings.Contains(again.Err().Error(), "input/output error") || value(t, again, "iops") != 1000 {
		t.Errorf("%v %v", again.Err(), again.Values())
	}
}

// The IOPS of a group are the sum of the I/Os of its jobs, divided by the runtime of the slower job.
func TestTextGroups(t *testing.T) {
	const head = "a: (g=0): rw=read, bs=4K-4K/4K-4K/4K-4K, ioengine=sync, iodepth=1\nb: (g=0): rw=read, bs=64K-64K/64K-64K/64K-64K, ioengine=sync, iodepth=1\nc: (g=1): rw=read, bs=4K-128K/4K-128K/4K-128K, ioengine=sync, iodepth=1\nfio-2.1.11\n"
	row := func(name string, group, ios, kb, ms int) string {
		return fmt.Sprintf("%s: (groupid=%d, jobs=1): err= 0: pid=1%d: Sat Jul 12 10:11:12 2014\n  read : io=%dKB, bw=%dKB/s, iops=%d, runt=%6dmsec\n     issued    : total=r=%d/w=0/d=0, short=r=0/w=0/d=0\n",
			name, group, group, kb, kb*1000/ms, ios*1000/ms, ms, ios)
	}
	p := one(t, []byte(head+row("a", 0, 1000, 4000, 2000)+row("b", 0, 100, 6400, 1000)+row("c", 1, 10, 333, 500)+"\nRun status group 0 (all jobs):\n"), "")
	groups := p.Result.Split()
	if len(groups) != 2 || len(groups[0].Jobs) != 2 || groups[1].Jobs[0].Name != "c" {
		t.Fatalf("%+v", groups)
	}
	near(t, "iops", value(t, groups[0], "iops"), 550, 0)
	near(t, "bytes", value(t, groups[0], "bytes"), 10400*1024, 0)
	near(t, "bytes of a range", value(t, groups[1], "bytes"), 333*1024, 0)
}

// With kb_base=1000, MB means 1000² bytes in old text too. The number of issued I/Os shows which meaning applies.
func TestTextKBBase(t *testing.T) {
	text := "a: (g=0): rw=read, bs=4K-4K/4K-4K/4K-4K, ioengine=sync, iodepth=1\na: (groupid=0, jobs=1): err= 0: pid=1: Sat Jul 12 10:11:12 2014\n" +
		"  read : io=4096.0MB, bw=409600KB/s, iops=100000, runt= 10000msec\n     issued    : total=r=1000000/w=0/d=0, short=r=0/w=0/d=0\n"
	r := one(t, []byte(text), "").Result
	if d := r.Jobs[0].Read; d.Bytes != 4096e6 || d.BytesFrom != FromBlockSize || d.Bandwidth != 409.6e6 {
		t.Errorf("%+v", d)
	}
}

// If a group summary is quoted without its jobs, the bandwidth is known, but not the IOPS.
func TestSummaryAlone(t *testing.T) {
	for line, want := range map[string]float64{
		"   READ: bw=34.8MiB/s (36.5MB/s), 34.8MiB/s-34.8MiB/s (36.5MB/s-36.5MB/s), io=2088MiB (2189MB), run=60001-60011msec": 2088 << 20 / 60.011,
		"  WRITE: io=1024.0MB, aggrb=17475KB/s, minb=17475KB/s, maxb=17475KB/s, mint=60001msec, maxt=60003msec":               17475 * 1024,
	} {
		r := one(t, []byte("Run status group 0 (all jobs):\n"+line+"\n"), "").Result
		near(t, line, value(t, r, "bandwidth"), want, 1e-6)
		absent(t, r, "iops")
	}
}

// terseSample returns a terse line as fio 2.21 prints it (from stat.c), with these directions and without disks.
func terseSample(version int, directions ...string) string {
	head := fmt.Sprintf("%d;fio-2.21;job one;2;0", version)
	if version == 2 {
		head = "2;job one;2;0"
	}
	depths := strings.Repeat(";14.3%", 7) + strings.Repeat(";4.55%", 22)
	return head + strings.Join(directions, "") + ";1.500000%;2.500000%;11;1;2" + depths
}

func terseDir(version, kib, kibs, iops, ms int) string {
	s := fmt.Sprintf(";%d;%d;%d;%d;1;20;3.500000;1.000000;10;4000;100.250000;20.000000", kib, kibs, iops, ms) +
		";50.000000%=90;99.000000%=800" + strings.Repeat(";0%=0", 18) + ";11;4009;103.750000;21.000000;1;2;100.000000%;1.500000;0.500000"
	if version == 5 {
		s += ";7;1;2;1.500000;0.500000;7"
	}
	return s
}

// fio 3.33 may print 0 flushes in text, so the sum of two jobs is unknown.
func TestUnknownFlushes(t *testing.T) {
	row := func(name string, flushes int) string {
		return fmt.Sprintf("%s: (groupid=0, jobs=1): err= 0: pid=%d: Tue Mar  3 14:00:09 2020\n  write: IOPS=1000, BW=4000KiB/s (4096kB/s)(39.1MiB/10000msec)\n     issued rwts: total=0,10000,0,%d short=0,0,0,0 dropped=0,0,0,0\n"+
			"  fsync/fdatasync/sync_file_range:\n    sync (usec): min=20, max=400, avg=100.00, stdev=10.00\n", name, flushes, flushes)
	}
	near(t, "both known", value(t, one(t, []byte(row("a", 8)+row("b", 7)), "").Result, "sync.ios"), 15, 0)
	r := one(t, []byte(row("a", 8)+row("b", 0)), "").Result
	absent(t, r, "sync.ios")
	absent(t, r, "sync.latency.mean")
}

// Terse output rounds the bytes to KiB, and has no number of I/Os. Values omits sums that are not known.
func TestTerseTotals(t *testing.T) {
	for _, c := range []struct {
		name, read, write string
		ios               map[string]float64 // 0 for a value that must be absent
	}{
		{"one direction of an unclear block size", terseDir(3, 4096, 1000, 250, 4096), terseDir(3, 4096, 1000, 333, 4096), map[string]float64{"read.ios": 1024, "write.ios": 0, "mixed.ios": 0}},
		{"three blocks of 512 bytes", terseDir(3, 1, 9, 19, 151), terseDir(3, 4096, 1000, 250, 4096), map[string]float64{"read.ios": 0, "mixed.ios": 0, "write.ios": 1024}},
		{"many blocks of 512 bytes", terseDir(3, 4096, 1000, 2000, 4096), terseDir(3, 4096, 1000, 250, 4096), map[string]float64{"read.ios": 8192, "mixed.ios": 9216}},
		{"less than one write per second", terseDir(3, 4096, 1000, 250, 4096), strings.ReplaceAll(terseDir(3, 4, 1, 0, 4096), ";11;4009;103.75", ";11;9999;103.75"), map[string]float64{"mixed.latency.max": 9999e-6}},
		{"no completion latency", strings.Replace(terseDir(3, 4096, 1000, 250, 4096), ";10;4000;100.250000;20.000000", ";0;0;0.000000;0.000000", 1), terseDir(3, 4096, 1000, 250, 4096),
			map[string]float64{"read.latency.completion.mean": 0, "read.latency.p50": 90e-6}},
	} {
		r := one(t, []byte(terseSample(3, c.read, c.write)+"\n"), "").Result
		for name, want := range c.ios {
			if want == 0 {
				absent(t, r, name)
			} else {
				near(t, c.name+", "+name, value(t, r, name), want, 1e-12)
			}
		}
	}
}

func TestTerseVersions(t *testing.T) {
	read := func(v int) string { return terseDir(v, 4096, 1000, 250, 4096) }
	zero := func(v int) string {
		return ";0;0;0;0;0;0;0.000000;0.000000;0;0;0.000000;0.000000" + strings.Repeat(";0%=0", 20) + ";0;0;0.000000;0.000000;0;0;0.000000%;0.000000;0.000000" +
			map[bool]string{true: ";0;0;0;0.000000;0.000000;0"}[v == 5]
	}
	for _, c := range []struct {
		name, line string
		disks      int
	}{
		{"2", terseSample(2, read(2), zero(2), zero(2)), 0},
		{"2 without trim", terseSample(2, read(2), zero(2)), 0},
		{"3", terseSample(3, read(3), zero(3)), 0},
		{"4", terseSample(4, read(4), zero(4), zero(4)), 0},
		{"5", terseSample(5, read(5), zero(5), zero(5)), 0},
		{"3 with disks", terseSample(3, read(3), zero(3)) + ";dm-0;1;2;3;4;5;6;7;8.00%;slaves;1;2;3;4;5;6;7;8.00%;sda;1020;0;0;0;1;0;1;12.50%", 2},
		{"5 with a disk, errors and a description", terseSample(5, read(5), zero(5), zero(5)) + ";sda;1020;0;0;0;1;0;1;12.50%;2;5;what; it is", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := one(t, []byte("Jobs: 1 (f=1)\r"+c.line+"\n"), "").Result
			j := r.Jobs[0]
			if j.Name != "job one" || j.Group != 2 || j.ContextSwitches != 11 || j.UserCPU != 0.015 || len(r.Disks) != c.disks {
				t.Errorf("%+v %+v", j, r.Disks)
			}
			// 250 IOPS and 4 MiB in 4.096 s: only a block size of 4 KiB fits.
			for name, want := range map[string]float64{"read.bytes": 4 << 20, "read.ios": 1024, "read.iops": 250, "read.bandwidth": (4 << 20) / 4.096,
				"read.latency.mean": 103.75e-6, "read.latency.completion.mean": 100.25e-6, "read.latency.p50": 90e-6} {
				near(t, name, value(t, r, name), want, 1e-12)
			}
			absent(t, r, "write.iops")
			absent(t, r, "read.latency.p99") // only 10 samples above it
			if j.Read.IOsFrom != FromBytes {
				t.Errorf("%+v", j.Read)
			}
		})
	}
	unified := one(t, []byte(terseSample(3, read(3))), "").Result
	if value(t, unified, "mixed.iops") != 250 || value(t, unified, "iops") != 250 {
		t.Errorf("%v", unified.Values())
	}
	both := one(t, []byte(terseSample(3, read(3), read(3), terseDir(3, 8192, 2000, 500, 4096))), "").Result
	if value(t, both, "mixed.iops") != 500 || value(t, both, "iops") != 500 {
		t.Errorf("%v", both.Values())
	}
	// Varying block sizes do not fit a power of two. The result keeps the printed rate, and the number of I/Os is
	// unknown.
	odd := one(t, []byte(terseSample(3, terseDir(3, 6000, 1500, 250, 4000), zero(3))), "").Result
	if d := odd.Jobs[0].Read; d.IOs != 0 || d.IOsFrom != Rounded || value(t, odd, "iops") != 250 {
		t.Errorf("%+v", d)
	}
	absent(t, odd, "read.ios")
	parts := Read([]byte(terseSample(3, read(3), zero(3))[:600]), "")
	if len(parts) != 1 || parts[0].Err == nil || !strings.Contains(parts[0].Err.Error(), "cut off") {
		t.Error(describe(parts))
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte(text2))
	f.Add([]byte(blog))
	f.Add([]byte("<h> a: (g=0): rw=read, bs=(R) 65.5kB-65.5kB, (W) 1-1, (T) 0-0, ioengine=x, iodepth=1\n<h> a: (groupid=0, jobs=1): err= 0: pid=1:\n read: IOPS=1, BW=1 (1)(1B/1msec)\n"))
	f.Fuzz(func(t *testing.T, data []byte) { checkRead(t, data, "") })
}

func FuzzTerse(f *testing.F) {
	f.Add([]byte(terseSample(3, terseDir(3, 4096, 1000, 250, 4096), terseDir(3, 1, 1, 1, 1))))
	f.Add([]byte(terseSample(5, terseDir(5, 4096, 1000, 250, 4096), terseDir(5, 1, 1, 1, 1), terseDir(5, 9, 9, 9, 9)) + ";sda;1;2;3;4;5;6;7;8%\n"))
	f.Add([]byte(terseSample(2, terseDir(2, 4096, 1000, 250, 4096)) + "\n" + terseSample(2, terseDir(2, 8192, 1000, 250, 8192))))
	f.Fuzz(func(t *testing.T, data []byte) { checkRead(t, data, "") })
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(awkward), "")
	f.Add([]byte(blog+awkward+text2), "")
	f.Add([]byte("1000, 100, 0, 4096\n"), "x_bw.1.log")
	f.Add([]byte("[global]\nrw=read\n"), "a.fio")
	f.Fuzz(checkRead)
}

// checkRead checks properties of every input: parts are in order and not empty, no value is negative, NaN or infinite,
// and ReadFrom finds as many parts as Read.
func checkRead(t *testing.T, data []byte, name string) {
	parts := Read(data, name)
	if len(parts) == 0 {
		t.Fatal("no part")
	}
	for i, p := range parts {
		if p.Result == nil && p.Log == nil && p.Err == nil {
			t.Fatalf("part %d is nothing", i)
		}
		if p.Offset < 0 || p.Result != nil && p.End <= p.Offset || p.End > len(data) || i > 0 && p.Offset < parts[i-1].Offset || p.Line < 1 || p.Line > 1+bytes.Count(data, []byte{'\n'}) {
			t.Fatalf("part %d at %d, line %d", i, p.Offset, p.Line)
		}
		if p.Result == nil {
			continue
		}
		for _, r := range append(p.Result.Split(), p.Result) {
			for _, v := range r.Values() {
				if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || v.Value < 0 {
					t.Fatalf("%+v", v)
				}
			}
			for _, s := range r.Series {
				if len(s.T) != len(s.V) {
					t.Fatalf("%+v", s)
				}
			}
			_ = r.Err()
		}
	}
	again, err := ReadFrom(bytes.NewReader(data), name)
	if err != nil || len(again) != len(parts) {
		t.Fatalf("%v: %s\nat once: %s", err, describe(again), describe(parts))
	}
}

// Older clients put "<host>" before every line. The sum of all clients, which follows, does not become a job.
// The text was written by hand from fio's client.c.
func TestTextOfClients(t *testing.T) {
	row := "%sa: (groupid=0, jobs=1): err= 0: pid=7: Sat Jul 12 10:11:12 2014\n%s  read : io=4000KB, bw=4000KB/s, iops=1000, runt=  1000msec\n%s     issued    : total=r=1000/w=0/d=0, short=r=0/w=0/d=0\n"
	of := func(host string) string { return fmt.Sprintf(row, host, host, host) }
	sum := strings.NewReplacer("a: (", "All clients: (", "4000", "8000", "1000/", "2000/", "iops=1000", "iops=2000").Replace(of(""))
	r := one(t, []byte(of("<db1> ")+of("<db2> ")+sum+"<db1> \n<db1> Run status group 0 (all jobs):\n"), "").Result
	if len(r.Jobs) != 2 || r.Jobs[0].Host != "db1" || r.Jobs[1].Host != "db2" {
		t.Fatalf("%+v", r.Jobs)
	}
	near(t, "iops", value(t, r, "iops"), 2000, 0)
}
