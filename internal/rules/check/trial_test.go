package check

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/rules"
)

// clean returns a trial that breaks no rule: 10 s of 4 KiB random reads at depth 32 on a guest's disk. All reads
// reached the guest's disk and the host's device, including the reads of the ramp.
func clean() (*iotax.Trial, *iotax.Target) {
	const iops, window, ramp = 20000.0, 10.0, 2.0
	t := &iotax.Trial{
		Target: "guest", Workload: "4k random read", Ramp: 2 * time.Second, Length: 10 * time.Second, Cold: true,
		Facts: map[string]string{iotax.FactIOEngine: "io_uring", iotax.FactDirect: "1", iotax.FactIODepth: "32", iotax.FactNumJobs: "1", iotax.FactFio: "fio-3.33"},
	}
	set(t, "duration", window)
	set(t, "read.iops", iops)
	set(t, "read.ios", iops*window)
	set(t, "read.bytes", iops*window*4096)
	set(t, "read.latency.mean", 32/iops)
	set(t, "read.latency.submission.mean", 5e-6)
	set(t, "read.latency.completion.mean", 32/iops-5e-6)
	set(t, "cpu.client", 4)
	set(t, "cpu.host.steal", 0.001)
	set(t, "clock.ratio", 1.0002)
	set(t, "clock.error", 0.0001)
	set(t, "device.read.bytes", iops*(window+ramp)*4096)
	set(t, "device.read.ios", iops*(window+ramp))
	set(t, "device.write.bytes", 1<<20)
	set(t, "device.write.ios", 60)
	for _, n := range []string{"device.read.bytes", "device.read.ios", "device.write.bytes", "device.write.ios"} {
		set(t, "machine."+n, get(t, n))
	}
	set(t, "own.read.bytes", get(t, "device.read.bytes"))
	set(t, "own.write.bytes", 0)
	set(t, "read.bandwidth", iops*4096)
	set(t, "cpu.machine.steal", 0)
	t.Series = []iotax.Series{series("read.iops", 10, func(s int) float64 { return iops * (1 + 0.01*float64(s%3)) })}
	return t, &iotax.Target{Name: "guest", Place: iotax.Place{Backing: "/var/tmp/iotax-x/disk.raw", Durability: iotax.Durable}}
}

// single changes a trial to random 4 KiB reads at depth 1 on the named disk of the target's machine. took is the
// latency in seconds.
func single(t *iotax.Trial, tgt *iotax.Target, disk string, took float64) {
	t.Facts[iotax.FactIODepth], t.Facts["rw"], t.Facts["bs"] = "1", "randread", "4k"
	tgt.Facts, tgt.Place.Backing = map[string]string{"device.disk": disk}, ""
	set(t, "read.latency.mean", took)
	set(t, "read.latency.submission.mean", took/10)
	set(t, "read.latency.completion.mean", took*9/10)
}

func written(t *iotax.Trial) {
	for i := range t.Values {
		n := &t.Values[i].Name
		*n = strings.NewReplacer("read.", "write.", "write.", "read.").Replace(*n)
	}
	for i := range t.Series {
		t.Series[i].Name = strings.Replace(t.Series[i].Name, "read", "write", 1)
	}
}

func series(name string, seconds int, f func(int) float64) iotax.Series {
	s := iotax.Series{Name: name, Unit: iotax.PerSecond}
	for i := range seconds {
		s.T = append(s.T, float64(i+1))
		s.V = append(s.V, f(i))
	}
	return s
}

func set(t *iotax.Trial, name string, v float64) {
	for i := range t.Values {
		if t.Values[i].Name == name {
			t.Values[i].Value = v
			return
		}
	}
	t.Values = append(t.Values, iotax.Value{Name: name, Value: v})
}

func get(t *iotax.Trial, name string) float64 {
	v, _ := t.Value(name)
	return v.Value
}

func drop(t *iotax.Trial, prefix string) {
	t.Values = slices.DeleteFunc(t.Values, func(v iotax.Value) bool { return strings.HasPrefix(v.Name, prefix) })
}

func ids(fs []iotax.Finding) []string {
	out := []string{}
	for _, f := range fs {
		out = append(out, f.Rule)
	}
	return out
}

// planted contains faults that each break one rule about trials. For each fault, it also contains a similar change that
// breaks no rule.
var planted = []struct {
	rule     string
	name     string
	severity iotax.Severity
	fault    func(*iotax.Trial, *iotax.Target)
	twin     func(*iotax.Trial, *iotax.Target)
}{
	{"no-io", "size 0", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) {
			drop(t, "read.")
			t.Series = nil
		},
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "read.ios", 1) }},
	{"impossible-value", "61,000,000T IOPS", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "read.iops", 6.1e19) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "mixed.iops", 9e9) }},
	{"impossible-value", "more bytes than any window carries", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "read.bytes", 1.1e16)
			set(t, "device.read.bytes", 1.1e16)
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "write.bytes", 9e15)
			t.Facts[iotax.FactIOEngine] = "null"
		}},
	{"impossible-value", "a bandwidth that is infinite", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "read.bandwidth", math.Inf(1)) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "sync.latency.mean", math.NaN()) }},
	{"impossible-value", "a rate that is not a number", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "read.iops", math.NaN()) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "read.latency.sd", math.NaN()) }},
	{"impossible-value", "a count that is negative", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "read.ios", -1) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "write.ios", 0) }},
	{"impossible-value", "a mean latency of 0.3 ns", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "read.latency.mean", 3e-10) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "write.latency.mean", 0) }},
	{"host-paused", "iotax was stopped for 2 s", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "paused", 2)
			t.Facts[iotax.FactPaused] = "iotax did not run for 2s, from 12:00:00 UTC on"
		},
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "paused", 0) }},
	{"clock-insane", "a time stamp counter calibrated 40 times wrong", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "clock.ratio", 0.025) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "clock.ratio", 0.9997) }},
	{"clock-insane", "2 % fast", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "clock.ratio", 1.02) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "clock.ratio", 1.02); set(t, "clock.error", 0.03) }},
	{"clock-drift", "half a percent", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "clock.ratio", 1.005) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "clock.ratio", 1.005); set(t, "clock.error", 0.005) }},
	{"cache-served", "the host's page cache had half of it", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "device.read.bytes", get(t, "read.bytes")/2) },
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "device.read.bytes", get(t, "read.bytes")/2)
			set(t, "machine.device.read.bytes", get(t, "read.bytes")/2)
			t.Facts[iotax.FactDirect] = "0"
		}},
	{"cache-served", "the host's page cache had half of it, and the guest's disk does not count", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) {
			drop(t, "machine.")
			set(t, "device.read.bytes", get(t, "read.bytes")/2)
		},
		func(t *iotax.Trial, _ *iotax.Target) { drop(t, "machine.") }},
	{"cache-served", "the guest's page cache had half of it, whatever else the host's device did", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "machine.device.read.bytes", get(t, "read.bytes")/2) },
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "machine.device.read.bytes", get(t, "read.bytes")/2)
			t.Facts[iotax.FactDirect] = "0"
		}},
	{"cache-served", "the cache of a machine elsewhere", iotax.Invalid,
		func(t *iotax.Trial, tgt *iotax.Target) { elsewhere(t, tgt); set(t, "machine.device.read.bytes", 4096) },
		func(t *iotax.Trial, tgt *iotax.Target) { elsewhere(t, tgt) }},
	{"cache-served", "half of it, and the account of the trial's processes misses a part", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "device.read.bytes", get(t, "read.bytes")/2)
			set(t, "own.read.bytes", get(t, "read.bytes")/3)
		},
		func(t *iotax.Trial, _ *iotax.Target) { // the device read everything, and the account alone is not evidence of a cache
			set(t, "own.read.bytes", get(t, "read.bytes")/3)
		}},
	{"cache-served", "by an engine that reads", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { untouched(t); t.Facts[iotax.FactIOEngine] = "mmap" },
		func(t *iotax.Trial, _ *iotax.Target) { untouched(t); t.Facts[iotax.FactIOEngine] = "null" }},
	{"cache-served", "hidden by the ramp, of which nobody knows what it did", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			drop(t, "machine.")
			drop(t, "own.")
			set(t, "device.read.bytes", 1.03*get(t, "read.bytes"))
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			drop(t, "machine.")
			drop(t, "own.")
			set(t, "device.read.bytes", 1.06*get(t, "read.bytes"))
		}},
	{"cache-served", "hidden by the ramp, but not from the guest's disk", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "device.read.bytes", 1.1*get(t, "read.bytes")) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "device.read.bytes", 1.15*get(t, "read.bytes")) }},
	{"cache-served", "hidden by the ramp, and no account of the trial's processes", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			drop(t, "machine.")
			drop(t, "own.")
			set(t, "device.read.bytes", 1.01*get(t, "read.bytes"))
		},
		func(t *iotax.Trial, _ *iotax.Target) { // almost no reads during the ramp
			drop(t, "machine.")
			set(t, "own.read.bytes", 1.01*get(t, "read.bytes"))
			set(t, "device.read.bytes", 1.01*get(t, "read.bytes"))
		}},
	{"cache-served", "hidden by the ramp, and the account holds the programs that were loaded", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			drop(t, "machine.")
			set(t, "own.read.bytes", 2*get(t, "read.bytes"))
			set(t, "device.read.bytes", 1.02*get(t, "read.bytes"))
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			drop(t, "machine.")
			set(t, "own.read.bytes", 2*get(t, "read.bytes")) // includes reads from another device
			set(t, "device.read.bytes", 1.1*get(t, "read.bytes"))
		}},
	{"device-did-less", "a buffered job over a disk with a cache", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			buffered(t)
			set(t, "device.read.bytes", get(t, "read.bytes")/2)
		},
		func(t *iotax.Trial, _ *iotax.Target) { buffered(t) }},
	{"device-did-less", "writes that stay in the host's memory", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			written(t)
			buffered(t)
			set(t, "device.write.bytes", 0)
		},
		func(t *iotax.Trial, _ *iotax.Target) { // too few I/Os for a conclusion
			written(t)
			buffered(t)
			set(t, "device.write.bytes", 0)
			set(t, "machine.device.write.ios", 99)
		}},
	{"line-rate-exceeded", "80 MB/s over a line of half that", iotax.Invalid,
		func(t *iotax.Trial, tgt *iotax.Target) { tgt.Facts = map[string]string{"line.rate": "40e6"} },
		func(t *iotax.Trial, tgt *iotax.Target) { tgt.Facts = map[string]string{"line.rate": "80e6"} }},
	{"line-rate-exceeded", "buffered, so that the client's cache may answer", iotax.Warning,
		func(t *iotax.Trial, tgt *iotax.Target) {
			t.Facts[iotax.FactDirect] = "0"
			tgt.Place.Facts = map[string]string{"line.rate": "40000000"}
		},
		func(t *iotax.Trial, tgt *iotax.Target) { tgt.Place.Facts = map[string]string{"line.rate": "fast"} }},
	{"cache-served", "warm, as asked", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "device.read.bytes", 0); t.Cold = false },
		func(t *iotax.Trial, tgt *iotax.Target) {
			set(t, "device.read.bytes", 0)
			tgt.Place.Backing = "" // the counted device is not the target's
		}},
	{"cache-served", "warm, because nobody may drop caches", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "device.read.bytes", 0)
			t.Cold = false
			t.Findings = []iotax.Finding{{Rule: "caches-not-dropped"}}
		},
		func(t *iotax.Trial, tgt *iotax.Target) { set(t, "device.read.bytes", 0); tgt.Place.Backing = "" }},
	{"write-absorbed", "in the memory of the host", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) {
			written(t)
			set(t, "device.write.bytes", get(t, "write.bytes")/10)
		},
		func(t *iotax.Trial, _ *iotax.Target) { written(t) }},
	{"cache-served", "half of it, for two jobs with direct I/O, and for one without", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { jointly(t, "1 + 1"); halfServed(t) },
		func(t *iotax.Trial, _ *iotax.Target) { jointly(t, "0 + 0"); halfServed(t) }},
	{"cache-served", "half of it, for two jobs with direct I/O, and for one that leaves it to fio", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) { jointly(t, "1 + 1"); halfServed(t) },
		func(t *iotax.Trial, _ *iotax.Target) { jointly(t, "1 + default"); halfServed(t) }},
	{"cache-served", "of a job beside one that uses only CPU time, and beside one without a device", iotax.Invalid,
		func(t *iotax.Trial, _ *iotax.Target) {
			jointly(t, "1 + 1")
			halfServed(t)
			t.Facts[iotax.FactIOEngine] = "cpuio + io_uring"
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			jointly(t, "1 + 1")
			halfServed(t)
			t.Facts[iotax.FactIOEngine] = "io_uring + null"
		}},
	{"foreign-io", "a backup writes", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "device.write.ios", 0.05*get(t, "device.read.ios"))
			set(t, "device.write.bytes", 0.05*get(t, "device.read.bytes"))
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "device.write.ios", 0.01*get(t, "device.read.ios"))
			set(t, "device.write.bytes", 0.01*get(t, "device.read.bytes"))
		}},
	{"foreign-io", "a backup reads beside the reads", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "device.read.bytes", 1.05*get(t, "own.read.bytes")) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "device.read.bytes", 1.01*get(t, "own.read.bytes")) }},
	{"foreign-io", "a backup reads, and the account is whole", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "device.read.bytes", 1.5*get(t, "own.read.bytes")) },
		func(t *iotax.Trial, _ *iotax.Target) { // a server unknown to iotax did the work
			set(t, "device.read.bytes", 1.5*get(t, "own.read.bytes"))
			set(t, "own.read.bytes", 4096)
		}},
	{"foreign-io", "another writes beside the writes", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { beside(t, "fio --rw=randwrite --end_fsync=1") },
		func(t *iotax.Trial, _ *iotax.Target) { beside(t, "fio --rw=randwrite --fdatasync=1") }},
	{"foreign-io", "another writes beside the writes of a file system that writes in place", iotax.Warning,
		func(t *iotax.Trial, tgt *iotax.Target) {
			beside(t, "fio --rw=randwrite")
			t.Facts["filesystem"] = "xfs"
		},
		func(t *iotax.Trial, tgt *iotax.Target) {
			beside(t, "fio --rw=randwrite")
			t.Facts["filesystem"] = "btrfs"
		}},
	{"foreign-io", "reads beside writes, in a cold trial too", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			written(t)
			set(t, "device.read.ios", get(t, "device.write.ios"))
			set(t, "device.read.bytes", get(t, "device.write.bytes"))
		},
		func(t *iotax.Trial, _ *iotax.Target) { // own reads: in a cold trial, the kernel reads the workload's program from the device again
			written(t)
			set(t, "device.read.ios", get(t, "device.write.ios"))
			set(t, "device.read.bytes", get(t, "device.write.bytes"))
			set(t, "own.read.bytes", get(t, "device.read.bytes"))
		}},
	{"foreign-io", "programs that come back from the device are few, but large", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			written(t)
			t.Cold = false
			set(t, "device.read.ios", 0.05*get(t, "device.write.ios"))
			set(t, "device.read.bytes", 0.05*get(t, "device.write.bytes"))
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			written(t)
			t.Cold = false
			set(t, "device.read.ios", 0.005*get(t, "device.write.ios"))
			set(t, "device.read.bytes", 0.05*get(t, "device.write.bytes"))
		}},
	{"foreign-io", "all of them do, after caches were dropped, and whose they are is not known", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			written(t)
			drop(t, "own.")
			t.Cold = false
			set(t, "device.read.ios", get(t, "device.write.ios"))
			set(t, "device.read.bytes", get(t, "device.write.bytes"))
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			written(t)
			drop(t, "own.")
			set(t, "device.read.ios", get(t, "device.write.ios"))
			set(t, "device.read.bytes", get(t, "device.write.bytes"))
		}},
	{"host-memory", "a virtual disk that answers a read in 14 µs, and one in 80", iotax.Info,
		func(t *iotax.Trial, tgt *iotax.Target) { single(t, tgt, "vda", 14e-6) },
		func(t *iotax.Trial, tgt *iotax.Target) { single(t, tgt, "vda", 80e-6) }},
	{"host-memory", "the same, and a disk that is passed through", iotax.Info,
		func(t *iotax.Trial, tgt *iotax.Target) { single(t, tgt, "xvda", 14e-6) },
		func(t *iotax.Trial, tgt *iotax.Target) { single(t, tgt, "nvme0n1", 14e-6) }},
	{"host-memory", "the same, and 32 at a time", iotax.Info,
		func(t *iotax.Trial, tgt *iotax.Target) { single(t, tgt, "vda", 14e-6) },
		func(t *iotax.Trial, tgt *iotax.Target) {
			single(t, tgt, "vda", 14e-6)
			t.Facts[iotax.FactIODepth] = "32"
			set(t, "read.iops", 32/14e-6)
			set(t, "read.latency.submission.mean", 1e-7)
		}},
	{"host-memory", "a directory of this very host, and a disk that it serves to a guest", iotax.Info,
		func(t *iotax.Trial, tgt *iotax.Target) {
			single(t, tgt, "vda", 14e-6)
			tgt.Place.Path, tgt.Place.Backing = "/var/tmp/iotax-x", "/var/tmp/iotax-x"
		},
		func(t *iotax.Trial, tgt *iotax.Target) {
			single(t, tgt, "vda", 14e-6)
			tgt.Place.Path, tgt.Place.Backing = "/dev/vdb", "/var/tmp/iotax-x/disk.raw"
		}},
	{"short-trial", "1.5 s", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { shrink(t, 0.15) },
		func(t *iotax.Trial, _ *iotax.Target) { shrink(t, 0.6) }},
	{"short-window", "the file was through", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { shrink(t, 0.7); t.Length = 10 * time.Second },
		func(t *iotax.Trial, _ *iotax.Target) { shrink(t, 0.97); t.Length = 10 * time.Second }},
	{"drain-counted", "a quarter of a second until the queue was empty", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "duration", 10.26) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "duration", 10.05) }},
	{"drain-counted", "the same, and a writer whose flush takes as long", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "duration", 10.26) },
		func(t *iotax.Trial, _ *iotax.Target) { written(t); set(t, "duration", 10.26) }},
	{"stall", "a second of nothing", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { t.Series[0].V[6] = 0 },
		func(t *iotax.Trial, _ *iotax.Target) { t.Series[0].V[6] *= 0.95 }},
	{"stall", "what is left of a second of nothing, since the tool's stamps are not exact", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { t.Series[0].V[6] *= 0.002 },
		func(t *iotax.Trial, _ *iotax.Target) { // 8 IOPS, with some empty seconds
			t.Series = []iotax.Series{series("read.iops", 60, func(s int) float64 { return 8 * float64(min(1, s%25)) })}
			lasts(t, 60)
		}},
	{"stall", "until the end", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { cut(t, 6) },
		func(t *iotax.Trial, _ *iotax.Target) { cut(t, 8) }},
	{"stall", "until the end, with a value every 4 s", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { fourSeconds(t, 11) },
		func(t *iotax.Trial, _ *iotax.Target) { fourSeconds(t, 13) }},
	{"throttle-step", "burst credit used up", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { step(t, 0.6) },
		func(t *iotax.Trial, _ *iotax.Target) { step(t, 0.96) }},
	{"throttle-step", "late in a long trial", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			t.Series = []iotax.Series{series("read.iops", 60, func(s int) float64 { return 20000 - 8000*float64(s/40) + 100*float64(s%3) })}
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			t.Series = []iotax.Series{series("read.iops", 60, func(s int) float64 { return 20000 - 800*float64(s/40) + 100*float64(s%3) })}
		}},
	{"warm-up", "longer than half of the window", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			t.Series = []iotax.Series{series("read.iops", 60, func(s int) float64 { return 20000 * (1 + 1.5*math.Max(0, 1-float64(s)/38) + 0.02*float64(s%2)) })}
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			t.Series = []iotax.Series{series("read.iops", 60, func(s int) float64 { return 20000 * (1 + 0.1*math.Max(0, 1-float64(s)/5) + 0.02*float64(s%2)) })}
		}},
	{"not-steady", "up and down", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { wave(t, 0.3) },
		func(t *iotax.Trial, _ *iotax.Target) { wave(t, 0.05) }},
	{"steal", "a neighbour", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "cpu.host.steal", 0.03) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "cpu.host.steal", 0.019) }},
	{"steal", "a neighbour of the target's machine", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "cpu.machine.steal", 0.03) },
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "cpu.machine.steal", 0.02) }},
	{"generator-bound", "one thread, all of its CPU", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "cpu.client", 9.9) },
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "cpu.client", 9.9)
			t.Facts[iotax.FactNumJobs], t.Facts[iotax.FactIODepth] = "2", "16"
		}},
	{"generator-bound", "others take the CPU that it would use", iotax.Warning,
		func(t *iotax.Trial, tgt *iotax.Target) {
			tgt.Machine = thisHost{}
			set(t, "cpu.client", 6)
			set(t, "cpu.host.busy", 0.98)
		},
		func(t *iotax.Trial, tgt *iotax.Target) { // other processes leave CPU time unused
			tgt.Machine = thisHost{}
			set(t, "cpu.client", 6)
			set(t, "cpu.host.busy", 0.85)
		}},
	{"generator-bound", "the same, and it wants little", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "cpu.client", 9.6) },
		func(t *iotax.Trial, tgt *iotax.Target) {
			tgt.Machine = thisHost{}
			set(t, "cpu.client", 4)
			set(t, "cpu.host.busy", 0.98)
		}},
	{"generator-bound", "two jobs at the same time, with three threads", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			jointly(t, "1 + 1")
			t.Facts[iotax.FactNumJobs] = "1 + 2"
			set(t, "cpu.client", 29)
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			jointly(t, "1 + 1")
			t.Facts[iotax.FactNumJobs] = "1 + 2"
			set(t, "cpu.client", 20)
		}},
	{"generator-bound", "four clients of one thread each", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { clients(t, 4); set(t, "cpu.client", 39) },
		func(t *iotax.Trial, _ *iotax.Target) { clients(t, 4); set(t, "cpu.client", 12) }},
	{"blocking-submit", "submission longer than completion", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "read.latency.submission.mean", 1.4e-3)
			set(t, "read.latency.completion.mean", 0.2e-3)
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "read.latency.submission.mean", 1.4e-3)
			set(t, "read.latency.completion.mean", 0.2e-3)
			t.Facts[iotax.FactIOEngine], t.Facts[iotax.FactIODepth], t.Facts[iotax.FactNumJobs] = "psync", "32", "32"
		}},
	{"blocking-submit", "a full queue of I/Os done one after the other", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "read.latency.submission.mean", 48e-6)
			set(t, "read.latency.completion.mean", 31*48e-6)
			set(t, "cpu.client", 2)
		},
		func(t *iotax.Trial, _ *iotax.Target) { // the null engine uses the CPU during the whole submission
			set(t, "read.latency.submission.mean", 48e-6)
			set(t, "read.latency.completion.mean", 31*48e-6)
			set(t, "cpu.client", 9)
		}},
	{"blocking-submit", "a full queue of each of four clients", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			clients(t, 4)
			set(t, "read.latency.submission.mean", 4*48e-6)
			set(t, "read.latency.completion.mean", 4*31*48e-6)
		},
		func(t *iotax.Trial, _ *iotax.Target) { // the submission takes a quarter of the time
			clients(t, 4)
			set(t, "read.latency.submission.mean", 48e-6)
			set(t, "read.latency.completion.mean", 4*31*48e-6)
		}},
	{"depth-not-reached", "8 of 32", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) { set(t, "read.latency.mean", 8/get(t, "read.iops")) },
		func(t *iotax.Trial, _ *iotax.Target) {
			set(t, "read.latency.mean", 8/get(t, "read.iops"))
			t.Facts[iotax.FactCommand] = "fio --rw=randread --rate_iops=20000"
		}},
	{"depth-not-reached", "8 of 32, in text, which shows no rate", iotax.Info,
		func(t *iotax.Trial, _ *iotax.Target) {
			t.Facts[iotax.FactJob] = iotax.JobText(map[string]string{iotax.PartlyKnown: "yes"})
			set(t, "read.latency.mean", 8/get(t, "read.iops"))
		},
		func(t *iotax.Trial, _ *iotax.Target) { // the depth of one job is not that of the other
			t.Facts[iotax.FactIOEngine] = "libaio + psync"
			set(t, "read.latency.mean", 8/get(t, "read.iops"))
		}},
	{"depth-not-reached", "8 of 4 × 8", iotax.Warning,
		func(t *iotax.Trial, _ *iotax.Target) {
			t.Facts[iotax.FactNumJobs], t.Facts[iotax.FactIODepth] = "4", "8"
			set(t, "read.latency.mean", 8/get(t, "read.iops"))
		},
		func(t *iotax.Trial, _ *iotax.Target) {
			t.Facts[iotax.FactNumJobs], t.Facts[iotax.FactIODepth] = "4", "8"
		}},
}

// thisHost is a machine that only reports that it is local.
type thisHost struct{ iotax.Machine }

func (thisHost) Caps() iotax.MachineCaps { return iotax.MachineCaps{Local: true} }

// jointly makes two jobs do the work of the trial at the same time.
func jointly(t *iotax.Trial, direct string) {
	t.Facts[iotax.FactDirect], t.Facts[iotax.FactIODepth], t.Facts[iotax.FactNumJobs] = direct, "16 + 16", "1 + 1"
}

// halfServed lets the cache of the target's machine serve half of the reads.
func halfServed(t *iotax.Trial) {
	for _, n := range []string{"machine.device.read.bytes", "device.read.bytes", "own.read.bytes"} {
		set(t, n, get(t, "read.bytes")/2)
	}
}

// clients makes n clients do the work of the trial at the same time, each with its own queue of 32.
func clients(t *iotax.Trial, n float64) {
	t.Facts[iotax.FactClients] = strconv.Itoa(int(n))
	for _, name := range []string{"read.latency.mean", "read.latency.completion.mean"} {
		set(t, name, n*get(t, name))
	}
}

// elsewhere moves the trial to a machine unrelated to this host.
func elsewhere(t *iotax.Trial, tgt *iotax.Target) {
	tgt.Place.Backing = ""
	drop(t, "device.")
	drop(t, "own.")
	drop(t, "cpu.host.")
}

// untouched removes the I/O from the counters of the devices, and sets the queue depth to 1.
func untouched(t *iotax.Trial) {
	for _, n := range []string{"device.read.bytes", "device.read.ios", "machine.device.read.bytes", "machine.device.read.ios", "own.read.bytes"} {
		set(t, n, 0)
	}
	set(t, "device.write.bytes", 0)
	set(t, "device.write.ios", 0)
	t.Facts[iotax.FactIODepth] = "1"
}

// buffered makes the job use the guest's page cache.
func buffered(t *iotax.Trial) { t.Facts[iotax.FactDirect] = "0" }

// beside changes a read trial to a write trial in which the device writes 10 % more than the trial's own processes.
func beside(t *iotax.Trial, command string) {
	written(t)
	t.Facts[iotax.FactCommand] = command
	set(t, "device.write.bytes", 1.1*get(t, "own.write.bytes"))
}

// shrink scales the duration and the work of the trial by a factor. It removes the device's writes and the series.
func shrink(t *iotax.Trial, by float64) {
	for _, n := range []string{"duration", "read.ios", "read.bytes", "device.read.ios", "device.read.bytes", "machine.device.read.ios", "machine.device.read.bytes", "own.read.bytes", "cpu.client"} {
		set(t, n, get(t, n)*by)
	}
	t.Ramp = time.Duration(float64(t.Ramp) * by)
	t.Length = time.Duration(float64(t.Length) * by)
	set(t, "device.write.ios", 0)
	set(t, "device.write.bytes", 0)
	t.Series = nil
}

// cut removes the series after the given number of seconds.
func cut(t *iotax.Trial, seconds int) {
	s := &t.Series[0]
	s.T, s.V = s.T[:seconds], s.V[:seconds]
}

// lasts sets the length of the window without changing the work.
func lasts(t *iotax.Trial, seconds float64) {
	set(t, "duration", seconds)
	t.Length = time.Duration(seconds * float64(time.Second))
}

// fourSeconds sets a window of 60 s with the given number of values, one every 4 s.
func fourSeconds(t *iotax.Trial, values int) {
	s := series("read.iops", values, func(int) float64 { return 20000 })
	for i := range s.T {
		s.T[i] *= 4
	}
	t.Series = []iotax.Series{s}
	lasts(t, 60)
}

func step(t *iotax.Trial, to float64) {
	for i := 5; i < len(t.Series[0].V); i++ {
		t.Series[0].V[i] *= to
	}
}

func wave(t *iotax.Trial, by float64) {
	for i := range t.Series[0].V {
		if i/2%2 == 0 {
			t.Series[0].V[i] *= 1 - by
		}
	}
}

func TestPlanted(t *testing.T) {
	for _, c := range planted {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			rule, ok := rules.Explain(c.rule)
			if !ok {
				t.Fatalf("no rule %s", c.rule)
			}
			x, tgt := clean()
			c.fault(x, tgt)
			found, discarded := Trial(x, tgt)
			switch {
			case rule.Discards:
				if !strings.HasPrefix(discarded, c.rule+": ") || len(found) > 0 {
					t.Errorf("discarded %q, found %+v", discarded, found)
				}
			case discarded != "":
				t.Errorf("discarded %q", discarded)
			case len(found) != 1 || found[0].Rule != c.rule:
				t.Fatalf("found %+v, want only %s", found, c.rule)
			case found[0].Severity != c.severity || found[0].Evidence == "" || found[0].Hint == "":
				t.Errorf("finding %+v, want severity %s, evidence and hint", found[0], c.severity)
			}
			x, tgt = clean()
			c.twin(x, tgt)
			if found, discarded := Trial(x, tgt); len(found) > 0 || discarded != "" {
				t.Errorf("the twin has %+v, discarded %q", found, discarded)
			}
		})
	}
}

func TestClean(t *testing.T) {
	x, tgt := clean()
	if found, discarded := Trial(x, tgt); len(found) > 0 || discarded != "" {
		t.Errorf("found %+v, discarded %q", found, discarded)
	}
	if found, discarded := Trial(nil, nil); len(found) > 0 || discarded != "" {
		t.Errorf("no trial: found %+v, discarded %q", found, discarded)
	}
}

func TestFailedTrialIsLeftAlone(t *testing.T) {
	x := &iotax.Trial{Err: "fio: exit status 1", Values: []iotax.Value{{Name: "clock.ratio", Value: 40}}}
	if found, discarded := Trial(x, nil); len(found) > 0 || discarded != "" {
		t.Errorf("found %+v, discarded %q", found, discarded)
	}
}

// An imported result has no target, few facts and unusual numbers. Trial must not panic on it or report a fault.
func TestPoor(t *testing.T) {
	for name, values := range map[string]map[string]float64{
		"rate alone":         {"read.iops": 2400},
		"bytes alone":        {"bytes": 4096},
		"not a number":       {"read.iops": 100, "clock.ratio": math.NaN(), "cpu.host.steal": math.NaN(), "device.read.bytes": math.Inf(1)},
		"unified":            {"mixed.iops": 100, "mixed.latency.mean": .1},
		"negative":           {"read.iops": 100, "cpu.client": -1},
		"half of the device": {"read.iops": 100, "read.bytes": 100, "device.read.ios": 3},
	} {
		x := &iotax.Trial{}
		for n, v := range values {
			set(x, n, v)
		}
		x.Series = []iotax.Series{{Name: "read.iops", T: []float64{1, 2, 3}, V: []float64{1}}, {Name: "read.bandwidth"}}
		if found, discarded := Trial(x, nil); len(found) > 0 || discarded != "" {
			t.Errorf("%s: found %+v, discarded %q", name, found, discarded)
		}
	}
}

// A pause between trials does not discard a trial. A pause in a failed trial is reported, because it may be the
// cause.
func TestPauseBesideATrial(t *testing.T) {
	x, tgt := clean()
	x.Facts[iotax.FactPausedBefore] = "iotax did not run for 2s, from 12:00:00 UTC on"
	found, discarded := Trial(x, tgt)
	if discarded != "" || len(found) != 1 || found[0].Rule != "host-paused" || found[0].Severity != iotax.Info || !strings.Contains(found[0].Evidence, "for 2s") {
		t.Errorf("before the trial: found %+v, discarded %q", found, discarded)
	}
	x, tgt = clean()
	x.Err = "no end within 100s"
	set(x, "paused", 200)
	x.Facts[iotax.FactPaused] = "this host was suspended for 3m20s, from 12:00:00 UTC on"
	found, discarded = Trial(x, tgt)
	if discarded != "" || len(found) != 1 || found[0].Severity != iotax.Warning || !strings.Contains(found[0].Evidence, "suspended for 3m20s") {
		t.Errorf("in a trial that failed: found %+v, discarded %q", found, discarded)
	}
}
