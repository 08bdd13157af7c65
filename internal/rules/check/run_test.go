package check

import (
	"slices"
	"testing"

	"iotax"
	"iotax/internal/rules"
	"iotax/stat"
)

// cleanRun returns a run of eight rounds of one workload, on the host's disk and on a guest's disk. The guest's disk
// is stored on the host's disk and reaches 60 % of its speed.
func cleanRun() (*iotax.Run, []*iotax.Trial) {
	run := &iotax.Run{
		Baseline: "host disk", Margin: 0.05,
		Targets: []iotax.TargetInfo{
			{Name: "host disk", Durability: iotax.Durable},
			{Name: "guest", Durability: iotax.Durable, Facts: map[string]string{"of": "host disk", "disk.bus": "virtio-blk", "disk.cache": "none"}},
		},
		Workloads: []iotax.WorkloadInfo{{Name: "4k random read", Metrics: []string{"read.iops", "read.bandwidth"}}},
	}
	var trials []*iotax.Trial
	for b := range 8 {
		for i, target := range []string{"host disk", "guest"} {
			t, _ := clean()
			t.Target, t.Round, t.Seq = target, b, 2*b+i
			speed := []float64{1, 0.6}[i] * (1 + 0.005*float64((b*(5-2*i)+i)%8))
			scale(t, speed)
			trials = append(trials, t)
		}
	}
	return run, trials
}

// scale multiplies the speed of a trial without changing its depth.
func scale(t *iotax.Trial, by float64) {
	for _, n := range []string{"read.iops", "read.ios", "read.bytes", "device.read.ios", "device.read.bytes", "machine.device.read.ios", "machine.device.read.bytes", "own.read.bytes", "read.bandwidth"} {
		set(t, n, get(t, n)*by)
	}
	set(t, "read.latency.mean", get(t, "read.latency.mean")/by)
	for i := range t.Values {
		if t.Values[i].Name == "read.iops" {
			t.Values[i].Better = iotax.Up
		}
	}
}

// fastAndCached makes the guest three times as fast. A cache serves the guest's trials in the first `rounds` rounds.
func fastAndCached(trials []*iotax.Trial, rounds int) {
	each(trials, "guest", func(t *iotax.Trial) {
		if scale(t, 3); t.Round < rounds {
			t.Findings = []iotax.Finding{rules.CacheServed.Found(iotax.AboutTrial(t), "3 %%")}
		}
	})
}

func each(trials []*iotax.Trial, target string, f func(*iotax.Trial)) {
	for _, t := range trials {
		if t.Target == target {
			f(t)
		}
	}
}

var plantedRuns = []struct {
	rule     string
	name     string
	severity iotax.Severity
	fault    func(*iotax.Run, []*iotax.Trial)
	twin     func(*iotax.Run, []*iotax.Trial)
}{
	{"unlike-facts", "another fio in the guest", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "guest", func(t *iotax.Trial) { t.Facts[iotax.FactFio] = "fio-3.28" })
		},
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "guest", func(t *iotax.Trial) { t.Facts["machine.kernel"] = "6.12" })
		}},
	{"unlike-facts", "another engine in the guest", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "guest", func(t *iotax.Trial) { t.Facts[iotax.FactIOEngine] = "libaio" })
		},
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "guest", func(t *iotax.Trial) {
				t.Facts[iotax.FactIOEngine] = "libaio"
				t.Labels = map[string]string{"ioengine": "libaio"}
			})
		}},
	{"unlike-facts", "as many jobs as the guest has CPUs", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "guest", func(t *iotax.Trial) { t.Facts[iotax.FactNumJobs] = "2" })
		},
		func(r *iotax.Run, ts []*iotax.Trial) { // reported before the first trial
			each(ts, "guest", func(t *iotax.Trial) { t.Facts[iotax.FactIOEngine] = "libaio" })
			r.Findings = []iotax.Finding{{Rule: "engine-differs"}}
		}},
	{"unlike-depth", "the host ran at 898", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "host disk", func(t *iotax.Trial) { set(t, "read.latency.mean", 898/get(t, "read.iops")) })
		},
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "host disk", func(t *iotax.Trial) { set(t, "read.latency.mean", 40/get(t, "read.iops")) })
		}},
	{"unlike-depth", "the target that it is compared with ran at 898", iotax.Warning,
		func(r *iotax.Run, ts []*iotax.Trial) {
			r.Targets[1].Against = []string{"network", "host disk"}
			each(ts, "host disk", func(t *iotax.Trial) { set(t, "read.latency.mean", 898/get(t, "read.iops")) })
		},
		func(r *iotax.Run, ts []*iotax.Trial) {
			r.Targets[1].Against = []string{"network"}
			each(ts, "host disk", func(t *iotax.Trial) { set(t, "read.latency.mean", 898/get(t, "read.iops")) })
		}},
	{"unlike-depth", "the host ran at 898, and nothing held it back", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "host disk", func(t *iotax.Trial) { set(t, "read.latency.mean", 898/get(t, "read.iops")) })
		},
		func(_ *iotax.Run, ts []*iotax.Trial) { // the job limits its rate
			each(ts, "host disk", func(t *iotax.Trial) {
				set(t, "read.latency.mean", 898/get(t, "read.iops"))
				t.Facts[iotax.FactCommand] += " --rate_iops=1000"
			})
		}},
	{"unlike-depth", "the host ran at 898 within its window", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "host disk", func(t *iotax.Trial) { set(t, "read.latency.mean", 898/get(t, "read.iops")) })
		},
		func(_ *iotax.Run, ts []*iotax.Trial) { // a stall at the end outlasted the window, so its I/Os do not fit the rate
			each(ts, "host disk", func(t *iotax.Trial) {
				set(t, "read.latency.mean", 898/get(t, "read.iops"))
				t.Findings = append(t.Findings, rules.DrainCounted.Found(iotax.AboutTrial(t), ""))
			})
		}},
	{"unlike-merging", "the guest's scheduler joins two", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "guest", func(t *iotax.Trial) { set(t, "device.read.ios", get(t, "device.read.ios")/2) })
		},
		func(r *iotax.Run, ts []*iotax.Trial) {
			r.Workloads[0].Metrics = []string{"read.bandwidth"}
			each(ts, "guest", func(t *iotax.Trial) { set(t, "device.read.ios", get(t, "device.read.ios")/2) })
		}},
	{"unlike-merging", "the host splits", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "host disk", func(t *iotax.Trial) { set(t, "device.read.ios", get(t, "device.read.ios")*2) })
		},
		func(_ *iotax.Run, ts []*iotax.Trial) { // read-ahead: the device reads more bytes than the workload
			each(ts, "guest", func(t *iotax.Trial) { set(t, "device.read.bytes", get(t, "device.read.bytes")*8) })
		}},
	{"guest-beats-host", "twice as fast", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) { each(ts, "guest", func(t *iotax.Trial) { scale(t, 3) }) },
		func(r *iotax.Run, ts []*iotax.Trial) { // the guest's disk is based on another disk
			r.Targets[1].Facts["of"] = "fast disk"
			each(ts, "guest", func(t *iotax.Trial) { scale(t, 3) })
		}},
	{"guest-beats-host", "but not by more than the margin", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) { each(ts, "guest", func(t *iotax.Trial) { scale(t, 1.2/0.6) }) },
		func(_ *iotax.Run, ts []*iotax.Trial) { each(ts, "guest", func(t *iotax.Trial) { scale(t, 1.02/0.6) }) }},
	{"guest-beats-host", "although a cache answered one trial", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) { fastAndCached(ts, 1) },
		func(_ *iotax.Run, ts []*iotax.Trial) { fastAndCached(ts, 2) }}, // more than 20 %: the whole cell is invalid
	{"host-cache", "a disk with a cache", iotax.Info,
		func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Facts["disk.cache"] = "writeback" },
		func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Facts["disk.cache"] = "directsync" }},
	{"host-cache", "a share", iotax.Info,
		func(r *iotax.Run, _ []*iotax.Trial) {
			r.Targets[1].Facts = map[string]string{"share.type": "virtiofs", "host.direct": "no"}
		},
		func(r *iotax.Run, _ []*iotax.Trial) {
			r.Targets[1].Facts = map[string]string{"share.type": "virtiofs", "host.direct": "yes"}
		}},
	{"emulated", "a guest without an accelerator", iotax.Warning,
		func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Facts["accel"] = "tcg" },
		func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Facts["accel"] = "kvm" }},
	{"emulated", "a guest that another program started", iotax.Warning,
		func(r *iotax.Run, _ []*iotax.Trial) {
			r.Targets[1].Facts["machine.cpu.model"] = "QEMU TCG CPU version 2.5+"
		},
		func(r *iotax.Run, _ []*iotax.Trial) {
			r.Targets[1].Facts["machine.cpu.model"] = "QEMU Virtual CPU version 2.5+"
		}},
	{"same-device", "two directories of a disk", iotax.Warning,
		func(r *iotax.Run, _ []*iotax.Trial) { place(r, "/srv/data/iotax-2", "ext4", "/", "vda", "vda") },
		func(r *iotax.Run, _ []*iotax.Trial) { place(r, "/srv/data/iotax-2", "xfs", "/srv/data", "vdb", "vdb") }},
	{"same-device", "two directories that are not like mount points", iotax.Info,
		func(r *iotax.Run, _ []*iotax.Trial) { place(r, "/home/u/x/iotax-2", "ext4", "/", "vda", "vda") },
		func(r *iotax.Run, _ []*iotax.Trial) { place(r, "/home/u/x/iotax-2", "ext4", "/home", "vdb", "vdb") }},
	{"same-device", "two volumes of a container", iotax.Info,
		func(r *iotax.Run, _ []*iotax.Trial) {
			place(r, "/mnt/b/iotax-2", "ext4", "/mnt/b", "vda", "vda")
			r.Targets[0].Facts["machine.container"], r.Targets[1].Facts["machine.container"] = "docker", "docker"
		},
		func(r *iotax.Run, _ []*iotax.Trial) { place(r, "/mnt/b/iotax-2", "ext4", "/mnt/b", "vdb", "vdb") }},
	{"same-device", "two partitions of a disk", iotax.Info,
		func(r *iotax.Run, _ []*iotax.Trial) { place(r, "/home/iotax-2", "xfs", "/home", "vda2", "vda") },
		func(r *iotax.Run, _ []*iotax.Trial) { // the same directory twice
			place(r, "/var/tmp/iotax-2", "ext4", "/", "vda", "vda")
		}},
	{"same-device", "two partitions as devices", iotax.Info,
		func(r *iotax.Run, _ []*iotax.Trial) {
			place(r, "/dev/vda2", "", "", "vda2", "vda")
			r.Targets[0].Place, r.Targets[0].Facts = "/dev/vda1", map[string]string{"device.name": "vda1", "device.disk": "vda"}
		},
		func(r *iotax.Run, _ []*iotax.Trial) { // the same device twice
			place(r, "/dev/vda1", "", "", "vda1", "vda")
			r.Targets[0].Place, r.Targets[0].Facts = r.Targets[1].Place, r.Targets[1].Facts
		}},
	{"same-device", "an export that is mounted twice", iotax.Warning,
		func(r *iotax.Run, _ []*iotax.Trial) {
			place(r, "/net/b/iotax-2", "nfs4", "/net/b", "", "")
			r.Targets[0].Facts = map[string]string{"filesystem": "nfs4", "filesystem.mount": "/net/a", "filesystem.source": "nas:/x"}
			r.Targets[1].Facts["filesystem.source"] = "nas:/x"
		},
		func(r *iotax.Run, _ []*iotax.Trial) { // two file systems in memory
			place(r, "/tmp/iotax-2", "tmpfs", "/tmp", "", "")
			r.Targets[0].Facts = map[string]string{"filesystem": "tmpfs", "filesystem.mount": "/dev/shm", "filesystem.source": "tmpfs"}
			r.Targets[1].Facts["filesystem.source"] = "tmpfs"
		}},
	{"not-mounted", "a directory below /mnt", iotax.Warning,
		func(r *iotax.Run, _ []*iotax.Trial) {
			place(r, "/mnt/nvme/iotax-2", "ext4", "/", "vda", "vda")
			r.Targets[0].Machine = "another"
		},
		func(r *iotax.Run, _ []*iotax.Trial) { place(r, "/mnt/nvme/iotax-2", "ext4", "/mnt/nvme", "vdb", "vdb") }},
	{"not-mounted", "a directory of /etc/fstab", iotax.Warning,
		func(r *iotax.Run, _ []*iotax.Trial) {
			place(r, "/data/x/iotax-2", "ext4", "/", "vda", "vda")
			r.Targets[0].Machine = "another"
			r.Targets[1].Facts["filesystem.unmounted"] = "/data"
		},
		func(r *iotax.Run, _ []*iotax.Trial) {
			place(r, "/data/x/iotax-2", "ext4", "/", "vda", "vda")
			r.Targets[0].Machine = "another"
		}},
	{"noisy-baseline", "a fifth up and down", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) { shake(ts, 0.2) },
		func(_ *iotax.Run, ts []*iotax.Trial) { shake(ts, 0.05) }},
	{"rounds-correlated", "the guest slows down from round to round", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) {
			each(ts, "guest", func(t *iotax.Trial) { scale(t, 1-0.02*float64(t.Round)) })
		},
		func(_ *iotax.Run, ts []*iotax.Trial) { // the host slows down too
			each(ts, "guest", func(t *iotax.Trial) { scale(t, 1-0.02*float64(t.Round)) })
			each(ts, "host disk", func(t *iotax.Trial) { scale(t, 1-0.02*float64(t.Round)) })
		}},
	{"two-levels", "two trials of the guest on the wrong node", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) { slow(ts, "guest", 0.8, 2, 5) },
		func(_ *iotax.Run, ts []*iotax.Trial) { slow(ts, "guest", 0.97, 2, 5) }},
	{"two-levels", "one trial of the host", iotax.Warning,
		func(_ *iotax.Run, ts []*iotax.Trial) { slow(ts, "host disk", 0.8, 4) },
		func(_ *iotax.Run, ts []*iotax.Trial) {
			slow(ts, "host disk", 0.8, 4)
			for _, t := range ts {
				if t.Round == 4 {
					t.Discarded = "a test" // the round is not valid
				}
			}
		}},
}

// place moves the second target to dir. The first target is a directory of the root file system.
func place(r *iotax.Run, dir, fs, mount, device, disk string) {
	r.Targets[0].Machine, r.Targets[0].Place = "host", "/var/tmp/iotax-1"
	r.Targets[0].Facts = map[string]string{"filesystem": "ext4", "filesystem.mount": "/", "filesystem.source": "/dev/vda", "device.name": "vda", "device.disk": "vda"}
	r.Targets[1].Machine, r.Targets[1].Place = "host", dir
	r.Targets[1].Facts = map[string]string{"filesystem": fs, "filesystem.mount": mount, "device.name": device, "device.disk": disk}
}

func slow(trials []*iotax.Trial, target string, by float64, rounds ...int) {
	each(trials, target, func(t *iotax.Trial) {
		if slices.Contains(rounds, t.Round) {
			scale(t, by)
		}
	})
}

// shake spreads the values of the host's trials evenly, in a fixed shuffled order.
func shake(trials []*iotax.Trial, by float64) {
	each(trials, "host disk", func(t *iotax.Trial) { scale(t, 1+by*(float64(t.Round*3%8)/3.5-1)) })
}

// kept reduces the trials to the parts that package run keeps for Run.
func kept(run *iotax.Run, trials []*iotax.Trial) {
	for _, t := range trials {
		t.Facts = RunFacts(t)
		t.Values = slices.DeleteFunc(t.Values, func(v iotax.Value) bool {
			return !slices.Contains(RunValues(), v.Name) && !slices.Contains(run.Workloads[0].Metrics, v.Name)
		})
	}
}

// Correlated rounds give a finding, unless the run has several starts with several rounds each. The interval of such a
// run already includes the variation between starts.
func TestCorrelatedStarts(t *testing.T) {
	for starts, want := range map[int]bool{1: true, 4: false, 0: true} { // 0: a start for each round
		run, trials := cleanRun()
		most := 0
		for _, x := range trials {
			most = max(most, x.Round+1)
		}
		for _, x := range trials {
			if x.StartIndex = x.Round + 1; starts > 0 {
				x.StartIndex = stat.StartOf(x.Round, most, starts)
			}
		}
		each(trials, "guest", func(x *iotax.Trial) { scale(x, 1-0.02*float64(x.Round)) })
		kept(run, trials)
		if got := slices.ContainsFunc(Run(run, trials), func(f iotax.Finding) bool { return f.Rule == rules.RoundsCorrelated.ID }); got != want {
			t.Errorf("%d starts: found %v", starts, got)
		}
	}
}

func TestPlantedRuns(t *testing.T) {
	for _, c := range plantedRuns {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			run, trials := cleanRun()
			c.fault(run, trials)
			kept(run, trials)
			found := Run(run, trials)
			if len(found) != 1 || found[0].Rule != c.rule {
				t.Fatalf("found %+v, want only %s", found, c.rule)
			}
			if f := found[0]; f.Severity != c.severity || f.Evidence == "" || f.Hint == "" {
				t.Errorf("finding %+v, want severity %s, evidence and hint", f, c.severity)
			}
			run, trials = cleanRun()
			c.twin(run, trials)
			kept(run, trials)
			if found := Run(run, trials); len(found) > 0 {
				t.Errorf("the twin has %+v", found)
			}
		})
	}
}

// Trial reports a result that a cache served. Run does not report it again.
func TestCacheServedIsToldOnce(t *testing.T) {
	run, trials := cleanRun()
	each(trials, "guest", func(x *iotax.Trial) {
		scale(x, 3)
		set(x, "device.read.bytes", 64<<20)
		set(x, "device.read.ios", 512)
		x.Findings, _ = Trial(x, &iotax.Target{Place: iotax.Place{Backing: "/x", Durability: iotax.Durable}})
		if !slices.Contains(ids(x.Findings), "cache-served") {
			t.Fatalf("findings %v", ids(x.Findings))
		}
	})
	if found := Run(run, trials); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

func TestRunWithoutPlan(t *testing.T) {
	if found := Run(nil, nil); len(found) > 0 {
		t.Errorf("nothing: %+v", found)
	}
	_, trials := cleanRun()
	if found := Run(&iotax.Run{}, append(trials, nil)); len(found) > 0 {
		t.Errorf("imported: %+v", found)
	}
}
