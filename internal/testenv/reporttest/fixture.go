// Package reporttest provides runs and trials for tests of reports, and compares output with golden files.
package reporttest

import (
	"math"
	"math/rand/v2"
	"time"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/rules"
)

const (
	HostDisk   = "host disk"
	VirtioBlk  = "guest virtio-blk"
	VirtioFS   = "guest virtio-fs"
	UnsafeDisk = "guest virtio-blk cache=unsafe aio=io_uring iothread=on"
	Ninep      = "gast 9p Größe=msize-512k"
	NotOpened  = "guest nvme"
)

// Fixture returns a run of three workloads on six targets, one of which could not be opened. It has failed trials, a
// discarded trial and findings.
func Fixture() (*iotax.Run, []*iotax.Trial) {
	start := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	guest := func(disk string) map[string]string {
		return map[string]string{
			"machine.kernel": "6.1.0-40-amd64", "machine.clocksource": "tsc", "qemu": "7.2.17", "accel": "tcg",
			"boot.start": "0s", "boot.kernel": "212ms", "boot.init": "1.184s", "boot.network": "1.371s", "boot.ready": "1.52s", "device.blk": disk,
		}
	}
	run := &iotax.Run{
		ID: "20260314-092653-k3v9", Name: "shares in a guest", Version: "0.1.0", Seed: 42, Start: start, End: start.Add(14*time.Minute + 8*time.Second),
		Status: iotax.Incomplete, Baseline: HostDisk, Precision: .05, Margin: .05, Alpha: .032,
		Environment: map[string]string{
			"kernel": "6.1.0-40-amd64", "cpu.model": "AMD EPYC 7B13", "cpu.count": "2", "memory": "7.8 GiB", "hypervisor": "kvm",
			"os": "Debian GNU/Linux 12 (bookworm)", "cpu.mitigations": "spectre_v2: Retpolines; IBPB: conditional", "clocksource": "kvm-clock",
		},
		Targets: []iotax.TargetInfo{
			{Name: HostDisk, Machine: "host", Place: "/var/tmp/iotax-8f3a", Durability: iotax.Durable, Facts: map[string]string{"filesystem": "ext4", "device.name": "nvme0n1p2", "mount.options": "rw,relatime", "queue.scheduler": "none", "queue.rotational": "0"}},
			{Name: VirtioBlk, Machine: "guest", Place: "/dev/vda", Durability: iotax.Durable, Facts: guest("-device virtio-blk-pci,drive=d0 -blockdev driver=raw,cache.direct=on,aio=native")},
			{Name: VirtioFS, Machine: "guest", Place: "/mnt/share", Durability: iotax.Durable, Facts: guest("-device vhost-user-fs-pci,tag=share,chardev=c0")},
			{Name: UnsafeDisk, Machine: "guest2", Place: "/dev/vda", Durability: iotax.FlushIgnored, Labels: map[string]string{"cache": "unsafe", "aio": "io_uring"}, Facts: guest("-blockdev driver=raw,cache.no-flush=on,aio=io_uring")},
			{Name: Ninep, Machine: "guest", Place: "/mnt/9p", Durability: iotax.Durable, Facts: guest("-device virtio-9p-pci,mount_tag=nine,msize=512k"),
				Findings: []iotax.Finding{rules.BlockingSubmit.Found(iotax.AboutTarget(Ninep), "9p blocks when I/O is submitted: depth 32 was asked for, 1.0 was reached")}},
			{Name: NotOpened, Machine: "guest3", Err: "open guest3: qemu-system-x86_64: -device nvme: Device 'nvme' not found\n  hint: install qemu-system-x86 with its block devices"},
		},
		Workloads: []iotax.WorkloadInfo{
			{Name: "4k random read", Kind: "fio", Metrics: []string{"read.iops"}, Cold: true},
			{Name: "4k random write", Kind: "fio", Metrics: []string{"write.iops", "write.latency.p99"}, Cold: true},
			{Name: "1M sequential read", Kind: "fio", Metrics: []string{"read.bandwidth"}, Cold: true},
		},
		Findings: []iotax.Finding{
			rules.StoppedEarly.Found(iotax.AboutRun(), "4k random write: the budget of 14m is spent"),
			rules.Emulated.Found(iotax.AboutRun(), "the guests ran without hardware acceleration (tcg): their CPU cost is not that of a real host"),
		},
	}
	r := rand.New(rand.NewPCG(1, 2))
	type load struct {
		name, op  string
		base, blk float64 // operations per second, and bytes per operation
		noise     float64
		factor    map[string]float64
	}
	loads := []load{
		{"4k random read", "read", 48213, 4096, .02, map[string]float64{VirtioBlk: .71, VirtioFS: .31, UnsafeDisk: .74, Ninep: .052}},
		{"4k random write", "write", 11870, 4096, .09, map[string]float64{VirtioBlk: .97, VirtioFS: .44, UnsafeDisk: 2.9, Ninep: .081}},
		{"1M sequential read", "read", 1312, 1 << 20, .008, map[string]float64{VirtioBlk: .996, VirtioFS: .975, UnsafeDisk: 1.004, Ninep: .42}},
	}
	targets := []string{HostDisk, VirtioBlk, VirtioFS, UnsafeDisk, Ninep}
	var trials []*iotax.Trial
	seq := 0
	at := start.Add(9 * time.Second)
	for round := range 7 {
		for _, l := range loads {
			if round == 6 && l.name != "4k random read" {
				continue // only this workload has a discarded round to replace
			}
			shared := math.Exp(.03 * r.NormFloat64())
			for _, target := range targets {
				f, ok := l.factor[target]
				if !ok {
					f = 1
				}
				ops := l.base * f * shared * math.Exp(l.noise*r.NormFloat64())
				t := &iotax.Trial{Run: run.ID, Target: target, Workload: l.name, Round: round, Seq: seq, Seed: uint64(1000 + round),
					Ramp: 2 * time.Second, Length: 10 * time.Second, Cold: true, Start: at, Took: 12*time.Second + 310*time.Millisecond, Facts: map[string]string{"fio": "fio-3.33"}}
				seq++
				at = at.Add(13 * time.Second)
				p99 := .004 / f * math.Exp(.1*r.NormFloat64())
				t.Values = []iotax.Value{
					{Name: l.op + ".iops", Value: ops, Unit: iotax.PerSecond, Better: iotax.Up},
					{Name: l.op + ".bandwidth", Value: ops * l.blk, Unit: iotax.BytesPerSecond, Better: iotax.Up},
					{Name: l.op + ".latency.mean", Value: 32 / ops, Unit: iotax.Seconds, Better: iotax.Down},
					{Name: l.op + ".latency.p99", Value: p99, Unit: iotax.Seconds, Better: iotax.Down},
					{Name: "duration", Value: 10, Unit: iotax.Seconds},
				}
				if target != HostDisk {
					t.Values = append(t.Values, iotax.Value{Name: "cpu.serving", Value: 11.2 + r.Float64(), Unit: iotax.Seconds, Better: iotax.Down})
				}
				t.Histograms = []iotax.Histogram{{Name: l.op + ".latency", Unit: iotax.Seconds, Bins: []iotax.Bin{
					{Value: min(30/ops, p99/4), Count: uint64(9 * ops)}, {Value: min(60/ops, p99/2), Count: uint64(.8 * ops)}, {Value: p99, Count: uint64(.2 * ops)}}}}
				metric.Derive(t)
				switch {
				case target == VirtioFS && l.name == "4k random write" && (round == 2 || round == 4):
					t.Values, t.Histograms = nil, nil
					t.Err = "fio: exit status 1: fio: io_u error on file /mnt/share/test: No space left on device"
				case target == Ninep && l.name == "4k random read" && round == 3:
					t.Discarded = "the guest's clock ran 3.1 % slow against the host's"
				case target == VirtioFS && l.name == "1M sequential read":
					t.Findings = append(t.Findings, rules.CacheServed.Found(iotax.AboutTrial(t), "the host's device read %d %% of the workload's bytes", 21+round%2))
				case target == VirtioBlk && l.name == "4k random write" && round%2 == 0:
					t.Findings = append(t.Findings, rules.NotSteady.Found(iotax.AboutTrial(t), "five sub-windows range over 27 %% of their mean, SNIA allows 20 %%"))
				case target == HostDisk && l.name == "4k random write" && round == 5:
					t.Findings = append(t.Findings, rules.ThrottleStep.Found(iotax.AboutTrial(t), "after 6 s the rate fell by 31 %% and stayed there"))
				}
				trials = append(trials, t)
			}
		}
	}
	return run, trials
}
