package reporttest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/published"
	"iotax/internal/rules"
)

// SomeTargets returns a run whose workloads each ran on only some of the targets.
func SomeTargets() (*iotax.Run, []*iotax.Trial) {
	run, trials := RunOf(8, nil,
		CellSpec{Target: "disk", Workload: "read", Values: map[string]float64{"read.iops": 1000}},
		CellSpec{Target: "guest", Workload: "read", Values: map[string]float64{"read.iops": 500}},
		CellSpec{Target: "s3", Workload: "get", Values: map[string]float64{"download.bandwidth": 30}},
	)
	run.Workloads[0].At, run.Workloads[1].At = []string{"disk", "guest"}, []string{"s3"}
	return run, trials
}

// Mounts returns a run like the published study lima-mounts, but on another machine.
func Mounts() (*iotax.Run, []*iotax.Trial) {
	cell := func(target, workload string, iops float64) CellSpec {
		return CellSpec{Target: target, Workload: workload, Values: map[string]float64{"read.iops": iops}}
	}
	run, trials := RunOf(8, nil,
		cell("host disk", "Random Read", 50000), cell("sshfs", "Random Read", 3000), cell("guest 9p", "Random Read", 14000), cell("VZ virtiofs", "Random Read", 60000),
		cell("host disk", "archive", 50000), cell("guest 9p", "archive", 50000))
	run.Presentation = &iotax.Presentation{Reference: &iotax.Reference{Published: "lima-mounts", Targets: map[string]string{"sshfs": "QEMU reverse-sshfs", "guest 9p": "QEMU 9p"}}}
	return run, trials
}

// Later returns the fixture a week later, to be compared with EarlierRun. The environment, the targets and one job have
// changed. Small blocks are slower, and random reads on virtio-blk even more so.
func Later() (*iotax.Run, []*iotax.Trial) {
	run, trials := Fixture()
	run.ID, run.Start, run.Status, run.Findings = "20260321-081500-m4q1", run.Start.Add(7*24*time.Hour), iotax.Done, nil
	run.Environment["kernel"], run.Environment["cpu.governor"] = "6.12.0-1-amd64", "powersave"
	run.Targets[0].Facts["mount.options"] = "rw,noatime"
	for _, i := range []int{1, 2, 4} {
		run.Targets[i].Facts["machine.kernel"] = "6.12.0-1-amd64"
	}
	run.Targets[3].Durability = iotax.Durable
	run.Targets[4].Err = "open guest: no 9p here\n  hint: load the module"
	run.Targets[5] = iotax.TargetInfo{Name: "guest scsi", Durability: iotax.Durable}
	r := rand.New(rand.NewPCG(5, 6))
	trials = slices.DeleteFunc(trials, func(t *iotax.Trial) bool { return t.Target == Ninep })
	for _, t := range trials {
		t.Run, t.Facts = run.ID, map[string]string{"fio": "fio-3.36", iotax.FactJob: `{"bs":"4096","kind":"fio","rw":"randwrite"}`}
		host := .8 // small blocks are slower on all targets
		if t.Workload == "1M sequential read" {
			host = 1
		}
		if t.Target == VirtioBlk && t.Workload == "4k random read" {
			host *= .8
		}
		for i := range t.Values {
			if t.Values[i].Better == iotax.Up {
				t.Values[i].Value *= host * math.Exp(.01*r.NormFloat64())
			}
		}
	}
	return run, trials
}

// EarlierRun returns the fixture with which Later is compared.
func EarlierRun() (*iotax.Run, []*iotax.Trial) {
	run, trials := Fixture()
	for _, t := range trials {
		t.Facts = map[string]string{"fio": "fio-3.33", iotax.FactJob: `{"bs":"4096","kind":"fio","rw":"randwrite"}`}
		if t.Target == VirtioFS && t.Workload == "4k random write" {
			t.Facts[iotax.FactJob] = `{"bs":"8192","kind":"fio","rw":"randwrite"}`
		}
	}
	return run, trials
}

// Detailed returns the fixture with more data for charts: larger histograms, values for each second, CPU time and
// memory.
func Detailed() (*iotax.Run, []*iotax.Trial) {
	run, trials := Fixture()
	r := rand.New(rand.NewPCG(3, 4))
	for _, t := range trials {
		if t.Err != "" {
			continue
		}
		addDetail(t, r, 10)
	}
	return run, trials
}

func addDetail(t *iotax.Trial, r *rand.Rand, seconds int) {
	head := t.Values[0]
	op, _, _ := strings.Cut(head.Name, ".")
	ops := head.Value
	s := iotax.Series{Name: op + ".iops", Unit: iotax.PerSecond}
	for i := range seconds {
		v := ops * math.Exp(.04*r.NormFloat64())
		if t.Round%3 == 2 && i > seconds*2/3 {
			v *= .62
		}
		s.T, s.V = append(s.T, float64(i+1)), append(s.V, v)
	}
	t.Series = []iotax.Series{s}
	h := iotax.Histogram{Name: op + ".latency", Unit: iotax.Seconds}
	mid := 16 / ops
	for k := range 90 {
		z := -2.5 + .09*float64(k)
		tail := .004 * math.Exp(-math.Pow(z-3.4, 2)/.6) // a second peak, of slow I/Os
		if n := uint64(ops * float64(seconds) * (.09*math.Exp(-z*z/2)/2.5066 + .09*tail)); n > 0 {
			h.Bins = append(h.Bins, iotax.Bin{Value: mid * math.Exp(.45*z), Count: n})
		}
	}
	t.Histograms = []iotax.Histogram{h}
	busy := .35 + .1*r.Float64()
	t.Values = slices.DeleteFunc(t.Values, func(v iotax.Value) bool { return strings.HasPrefix(v.Name, h.Name+".p") }) // derived from the previous histogram
	t.Values = append(t.Values, iotax.Value{Name: iotax.ValueCPUHostUsed, Value: 2 * busy, Unit: iotax.RatioUnit, Better: iotax.Down})
	metric.Derive(t)
	if t.Target != HostDisk {
		t.Values = append(t.Values, iotax.Value{Name: "memory.serving", Value: (500 + 20*r.Float64()) * (1 << 20), Unit: iotax.Bytes, Better: iotax.Down})
	}
}

// Hundred returns a run of 100 cells: 20 workloads on five targets, with 30 rounds.
func Hundred() (*iotax.Run, []*iotax.Trial) {
	run, _ := Fixture()
	run.Targets, run.Workloads, run.Findings = run.Targets[:5], nil, nil
	r := rand.New(rand.NewPCG(7, 8))
	var trials []*iotax.Trial
	for w := range 20 {
		name := fmt.Sprintf("%dk random read qd%d", 4<<(w%5), 1<<(w/5))
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: name, Kind: "fio", Metrics: []string{"read.iops"}, Cold: true})
		for b := range 30 {
			for k, target := range run.Targets {
				t := &iotax.Trial{Run: run.ID, Target: target.Name, Workload: name, Round: b, Seq: len(trials), Length: 10e9, Ramp: 2e9, Cold: true, Start: run.Start, Took: 12e9,
					Facts: map[string]string{"iodepth": "8"}}
				ops := 50000 / float64(w+1) * math.Pow(.55+.02*float64(w), float64(k)) * math.Exp(.05*r.NormFloat64())
				t.Values = []iotax.Value{{Name: "read.iops", Value: ops, Unit: iotax.PerSecond, Better: iotax.Up}, {Name: "read.latency.mean", Value: 8 / ops, Unit: iotax.Seconds, Better: iotax.Down}}
				addDetail(t, r, 10)
				trials = append(trials, t)
			}
		}
	}
	return run, trials
}

// Matrix returns a run with one baseline and the given numbers of other targets and of workloads. `of` returns the
// ratio of a target to the baseline. Values have lognormal noise with standard deviation sd.
func Matrix(r *rand.Rand, targets, workloads, rounds int, sd float64, of func(target, workload int) float64) (*iotax.Run, []*iotax.Trial) {
	run := &iotax.Run{ID: "r", Baseline: "t0", Targets: []iotax.TargetInfo{{Name: "t0"}}, Alpha: .05, Margin: .05}
	var trials []*iotax.Trial
	for k := range targets {
		run.Targets = append(run.Targets, iotax.TargetInfo{Name: fmt.Sprint("t", k+1)})
	}
	for w := range workloads {
		name := fmt.Sprint("w", w)
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: name, Metrics: []string{"m"}})
		for b := range rounds {
			for k, t := range run.Targets {
				rho := 1.0
				if k > 0 {
					rho = of(k-1, w)
				}
				trials = append(trials, &iotax.Trial{Target: t.Name, Workload: name, Round: b, Seq: len(trials),
					Values: []iotax.Value{{Name: "m", Value: 100 * rho * math.Exp(sd*r.NormFloat64()), Better: iotax.Up}}})
			}
		}
	}
	return run, trials
}

// OneOfMany returns a run in which Holm's adjustment removes one verdict.
func OneOfMany() (*iotax.Run, []*iotax.Trial) {
	return Matrix(rand.New(rand.NewPCG(4, 4)), 3, 8, 6, .02, func(target, workload int) float64 {
		if target == 0 && workload == 0 {
			return .9 // worse by more than the margin, but not by much
		}
		return 1
	})
}

// Layered returns a run with two chains of layers. The second one names a target that does not exist.
func Layered() (*iotax.Run, []*iotax.Trial) {
	run, trials := RunOf(8, map[string][]string{"4k read": {"read.iops", "read.latency.mean"}, "1M read": {"read.bandwidth"}},
		CellSpec{Target: "device", Workload: "4k read", Values: map[string]float64{"read.iops": 50000, "read.latency.mean": .0006}},
		CellSpec{Target: "file system", Workload: "4k read", Values: map[string]float64{"read.iops": 48500, "read.latency.mean": .00062}},
		CellSpec{Target: "guest disk", Workload: "4k read", Values: map[string]float64{"read.iops": 19000, "read.latency.mean": .0016}},
		CellSpec{Target: "container in the guest", Workload: "4k read", Values: map[string]float64{"read.iops": 18900, "read.latency.mean": .0017}, Noise: .02},
		CellSpec{Target: "device", Workload: "1M read", Values: map[string]float64{"read.bandwidth": 2e9}},
		CellSpec{Target: "guest disk", Workload: "1M read", Values: map[string]float64{"read.bandwidth": 2.2e9}},
	)
	run.Presentation = &iotax.Presentation{Layers: [][]string{{"device", "file system", "guest disk", "container in the guest"}, {"device", "nothing"}}}
	return run, trials
}

// LaidOut returns the run of fixture with sections, with the table layout `layout`, and with standard deviations of
// latencies.
func LaidOut(layout string, fixture func() (*iotax.Run, []*iotax.Trial)) (*iotax.Run, []*iotax.Trial) {
	run, trials := fixture()
	run.Presentation = &iotax.Presentation{Layout: layout}
	run.Workloads[0].Section, run.Workloads[1].Section = "Small blocks", "Small blocks"
	for _, t := range trials {
		for _, v := range t.Values {
			if strings.HasSuffix(v.Name, ".latency.mean") {
				t.Values = append(t.Values, iotax.Value{Name: strings.TrimSuffix(v.Name, "mean") + "sd", Value: v.Value / 3, Unit: iotax.Seconds, Better: iotax.Down})
				break
			}
		}
	}
	return run, trials
}

// Loaded returns a run of an open loop at three loads on two targets. The loads are out of order.
func Loaded() (*iotax.Run, []*iotax.Trial) {
	r := &iotax.Run{ID: "r", Name: "loads", Baseline: "host", Alpha: .05, Targets: []iotax.TargetInfo{{Name: "host"}, {Name: "guest"}}}
	var ts []*iotax.Trial
	for _, share := range []int{90, 30, 60} {
		w := fmt.Sprintf("4k load=%d%%", share)
		r.Workloads = append(r.Workloads, iotax.WorkloadInfo{Name: w, Metrics: []string{"read.latency.mean"}})
		for round := range 6 {
			for i, target := range []string{"host", "guest"} {
				latency := 100e-6 * float64(1+i) * (1 + float64(round)/100) / (1 - float64(share)/100)
				h := iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{{Value: latency, Count: 9000}, {Value: 3 * latency, Count: 100}}}
				ts = append(ts, &iotax.Trial{Target: target, Workload: w, Round: round, Seq: len(ts), Length: time.Second, Histograms: []iotax.Histogram{h},
					Facts: map[string]string{"load": fmt.Sprintf("%d %%", share), "load.job": "rw=randread bs=4k numjobs=128", "iodepth": "1", "numjobs": "128"},
					Values: []iotax.Value{{Name: "read.iops", Value: 99 * float64(share), Unit: iotax.PerSecond, Better: iotax.Up},
						{Name: "read.latency.mean", Value: latency, Unit: iotax.Seconds, Better: iotax.Down}, {Name: "load.offered", Value: 100 * float64(share), Unit: iotax.PerSecond}}})
			}
		}
	}
	return r, ts
}

// FewSlow returns a run in which some quantiles have too few observations beyond them.
func FewSlow() (*iotax.Run, []*iotax.Trial) {
	run, trials := Small(iotax.Up, Flat100, Flat50)
	for i, x := range trials {
		slow := uint64(20) // of 2,000 I/Os in a trial of b; over its six rounds, 120 are beyond the 99th percentile and 12 beyond the 99.9th
		if i < 6 {
			slow = 10
		}
		x.Histograms = []iotax.Histogram{{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{
			{Value: 1e-3, Count: 100*slow - slow}, {Value: 2e-3 + float64(i)*1e-6, Count: slow}}}}
		x.Values = append(x.Values, iotax.Value{Name: "read.latency.p99", Value: 1, Unit: iotax.Seconds})
	}
	return run, trials
}

// Clients returns a run of 1, 2 and 4 clients on a store that serves two clients at full speed. The run also has an
// unrelated target.
func Clients(noise float64) (*iotax.Run, []*iotax.Trial) {
	cell := func(name string, iops, minMax, jain float64) CellSpec {
		v := map[string]float64{"read.iops": iops}
		if minMax > 0 {
			v["fairness.min-max"], v["fairness.jain"] = minMax, jain
		}
		return CellSpec{Target: name, Workload: "4k read", Values: v, Noise: noise}
	}
	run, trials := RunOf(8, ReadMetrics, cell("store clients=1", 10000, 0, 0), cell("store clients=2", 20000, .95, .99), cell("store clients=4", 20000, .4, .8), cell("other", 5000, 0, 0))
	for i, n := range []string{"1", "2", "4"} {
		run.Targets[i].Labels = map[string]string{"clients": n}
		run.Targets[i].Facts = map[string]string{"clients": n}
	}
	return run, trials
}

// Curved adds to a run an open loop at three loads, and a store that one, two and four clients read.
func Curved(run *iotax.Run, trials []*iotax.Trial) (*iotax.Run, []*iotax.Trial) {
	names := func(targets []iotax.TargetInfo) (out []string) {
		for _, t := range targets {
			out = append(out, t.Name)
		}
		return out
	}
	for i := range run.Workloads {
		run.Workloads[i].At = names(run.Targets)
	}
	add := func(work []iotax.WorkloadInfo, at []string, more []*iotax.Trial) {
		for _, w := range work {
			w.At = at
			run.Workloads = append(run.Workloads, w)
		}
		for _, t := range more {
			t.Run, t.Seq = run.ID, len(trials)
			trials = append(trials, t)
		}
	}
	open, loads := Loaded()
	for _, t := range loads {
		t.Target = map[string]string{"host": HostDisk, "guest": VirtioBlk}[t.Target]
	}
	add(open.Workloads, []string{HostDisk, VirtioBlk}, loads)
	many, reads := Clients(.005)
	run.Targets = append(run.Targets, many.Targets...)
	add(many.Workloads, names(many.Targets), reads)
	return run, trials
}

// ThroughALine returns a run with sections, as in a study of a cluster. Some targets are compared with a network link.
func ThroughALine() (*iotax.Run, []*iotax.Trial) {
	short := func(cell string) []iotax.Finding {
		return []iotax.Finding{rules.ShortTrial.Found(iotax.Subject{Kind: iotax.SubjectTrial}, "a window of %s", cell)}
	}
	const mib = 1 << 20
	run, trials := RunOf(8, nil,
		CellSpec{Target: "local disk", Workload: "write", Values: map[string]float64{"write.bandwidth": 6000 * mib}, Findings: short("2 s")},
		CellSpec{Target: "controller export", Workload: "write", Values: map[string]float64{"write.bandwidth": 43 * mib}, Findings: short("3 s")},
		CellSpec{Target: "node export", Workload: "write", Values: map[string]float64{"write.bandwidth": 3000 * mib}},
		CellSpec{Target: "tcp node04 to node01", Workload: "network", Values: map[string]float64{"bandwidth": 43.7 * mib}},
		CellSpec{Target: "s3", Workload: "large object", Values: map[string]float64{"upload.bandwidth": 43 * mib}},
		CellSpec{Target: "s3", Workload: "32 objects of 4 MiB, 8 clients at once", Values: map[string]float64{"download.bandwidth": 43.5 * mib}},
		CellSpec{Target: "s3", Workload: "image", Values: map[string]float64{"first.duration": 6}},
	)
	run.Workloads[1].Kind = "network"
	run.Presentation = &iotax.Presentation{Layout: "generated"}
	for i, section := range []string{"Block", "Network", "Object store", "Object store", "Object store"} {
		run.Workloads[i].Section, run.Workloads[i].At = section, []string{"s3"}
	}
	run.Workloads[0].At, run.Workloads[1].At = []string{"local disk", "controller export", "node export"}, []string{"tcp node04 to node01"}
	run.Version = "0.1.0"
	Against(run, "controller export", "local disk", "tcp node04 to node01")
	Against(run, "s3", "tcp node04 to node01")
	run.Findings = append(run.Findings, rules.NoisyBaseline.Found(iotax.AboutCell("local disk", "write"), "write: 8 trials of local disk vary by 20 %%"))
	return run, trials
}

// ALab returns the reference for ThroughALine: the figures, their names in the run, and an empty caveat.
func ALab() (figures []published.Figure, names iotax.Reference, caveat string) {
	const mib = 1 << 20
	fig := func(target, workload, metric string, v float64) published.Figure {
		return published.Figure{Source: "a lab", Workload: workload, Target: target, Rep: 1, Metric: metric, Value: v, Unit: iotax.BytesPerSecond}
	}
	return []published.Figure{fig("local", "write", "write.bandwidth", 700*mib), fig("remote", "write", "write.bandwidth", 30*mib), fig("minio", "put", "bw", 18*mib)},
		iotax.Reference{Published: "a-lab", Targets: map[string]string{"local disk": "local", "controller export": "remote"},
			Values: map[string]string{"s3 / large object / upload.bandwidth": "minio / put / bw"}}, ""
}

// Quick returns a run of the suite "quick" on a busy machine that emulates its guests, in trials of one second. A
// cache served one result, another result is too noisy, and the budget was spent before the last round.
func Quick() (*iotax.Run, []*iotax.Trial) {
	ratios := map[string][3]float64{"host disk": {1, 1, 1}, "guest virtio-fs": {1 / 8., 1 / 11., .2}, "guest virtio-blk": {1 / 14., 1 / 21., .93}, "guest 9p": {1 / 33., 1 / 25., 1 / 5.6}}
	names := []string{"host disk", "guest virtio-blk", "guest virtio-fs", "guest 9p"}
	run := &iotax.Run{ID: "20260612-101500-m8x2", Name: "quick", Version: "0.1.0", Seed: 7, Status: iotax.Incomplete, Baseline: "host disk", Margin: .05, Alpha: .05,
		Start: time.Date(2026, 6, 12, 10, 15, 0, 0, time.UTC), End: time.Date(2026, 6, 12, 10, 18, 0, 0, time.UTC), Plan: []byte("measure:\n  trial: 1s\n  budget: 3m\n"),
		Environment: map[string]string{"kernel": "6.1.0-40-amd64", "cpu.model": "AMD EPYC 7B13", "cpu.count": "2", iotax.FactCommand: "iotax run quick"}}
	for _, name := range names {
		t := iotax.TargetInfo{Name: name, Machine: "guest", Durability: iotax.Durable, Facts: map[string]string{"accel": "tcg", "accel.why": "no KVM: /dev/kvm does not exist"}}
		if name == "host disk" {
			t.Machine, t.Facts = "host", map[string]string{"filesystem": "ext4", "device.name": "vda"}
		}
		run.Targets = append(run.Targets, t)
	}
	r := rand.New(rand.NewPCG(11, 12))
	var trials []*iotax.Trial
	for w, work := range []struct {
		name, metric, unit string
		base               float64
		rounds             int
	}{{"4k random read", "read.iops", iotax.PerSecond, 60000, 6}, {"4k random write", "write.iops", iotax.PerSecond, 66000, 6}, {"1M sequential read", "read.bandwidth", iotax.BytesPerSecond, 1000 << 20, 6}} {
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: work.name, Kind: "fio", Metrics: []string{work.metric}, Cold: true})
		run.Findings = append(run.Findings, rules.StoppedEarly.Hinting("`iotax run --resume="+run.ID+"` measures the rest, in about 1m").
			Found(iotax.AboutWorkload(work.name), "%s: the budget of 3m was spent after 6 of 7 rounds", work.name))
		for b := range work.rounds {
			for _, name := range names {
				noise, ratio := .04, ratios[name][w]
				if name == "guest virtio-blk" && w == 2 {
					noise = .3
				}
				rate := work.base * ratio * math.Exp(noise*r.NormFloat64())
				depth, asked := 32., "32"
				if w == 2 {
					depth, asked = 8, "8"
				}
				if name == "guest 9p" {
					depth = 1
				}
				op, _, _ := strings.Cut(work.metric, ".")
				iops := rate
				if work.unit == iotax.BytesPerSecond {
					iops /= 1 << 20
				}
				t := &iotax.Trial{Run: run.ID, Target: name, Workload: work.name, Round: b, Seq: len(trials), StartIndex: 1, Length: time.Second, Ramp: 200 * time.Millisecond, Cold: true, Start: run.Start, Took: 2400 * time.Millisecond,
					Facts: map[string]string{"fio": "fio-3.33", "ioengine": "io_uring", "direct": "1", "iodepth": asked, "numjobs": "1", iotax.FactJob: `{"size":"268435456"}`},
					Values: []iotax.Value{{Name: work.metric, Value: rate, Unit: work.unit, Better: iotax.Up}, {Name: "cpu.host.steal", Value: .047, Unit: iotax.RatioUnit},
						{Name: op + ".latency.mean", Value: depth / iops, Unit: iotax.Seconds, Better: iotax.Down}}}
				found := func(r rules.Rule, evidence string) {
					t.Findings = append(t.Findings, r.Found(iotax.AboutTrial(t), "%s", evidence))
				}
				found(rules.Steal, "4.7 % of this host's CPU time was stolen")
				found(rules.ShortTrial, "a window of 1 s")
				if work.metric != op+".iops" {
					t.Values = append(t.Values, iotax.Value{Name: op + ".iops", Value: iops, Unit: iotax.PerSecond, Better: iotax.Up})
				}
				if name == "guest 9p" {
					found(rules.DepthNotReached, "1 in flight of 32")
				}
				if name == "guest virtio-fs" && w == 2 {
					found(rules.CacheServed, "16 % of the bytes were read from the device")
				}
				trials = append(trials, t)
			}
		}
	}
	return run, trials
}

// Expecting returns a run with expectations of every outcome.
func Expecting() (*iotax.Run, []*iotax.Trial) {
	cell := func(target string, iops, p99, noise float64) CellSpec {
		return CellSpec{Target: target, Workload: "4k random read", Values: map[string]float64{"read.iops": iops, "read.latency.p99": p99}, Noise: noise}
	}
	sync := CellSpec{Target: "disk", Workload: "sync", Values: map[string]float64{"write.iops": 200}}
	run, trials := RunOf(8, ReadMetrics, cell("disk", 10000, .0009, .01), cell("guest", 5000, .0018, .01), cell("share", 9500, .001, .05), sync)
	run.Presentation = &iotax.Presentation{Expect: []iotax.Expectation{{Text: "4k random read: read.iops >= 80% of baseline", File: "bench/disk.yaml", Line: 12},
		{Text: "4k random read: read.latency.p99 < 1ms", File: "bench/disk.yaml", Line: 13}, {Text: "4k random read: read.latency.p99 <= 150% of baseline at guest"},
		{Text: "4k random read: read.latency.p99.99 < 1s at disk"}, {Text: "sync: write.iops > 100"}}}
	run.Workloads[1].At = []string{"disk", "nfs"}
	run.Targets = append(run.Targets, iotax.TargetInfo{Name: "nfs", Machine: "host", Durability: iotax.Durable, Err: "mount nfs: no route to host"})
	return run, trials
}

// Stalling adds 40 intervals of one second to each trial that has a histogram. The trials of VirtioBlk stall for 300 ms
// every 7 s.
func Stalling(run *iotax.Run, trials []*iotax.Trial) (*iotax.Run, []*iotax.Trial) {
	for _, t := range trials {
		if len(t.Histograms) == 0 {
			continue
		}
		t.Length = 40 * time.Second
		h := &t.Histograms[0]
		const seconds = 40
		for k := range seconds {
			i := iotax.Interval{From: float64(k), To: float64(k + 1), Histogram: iotax.Histogram{Name: h.Name, Unit: h.Unit}}
			for _, b := range h.Bins {
				if n := (b.Count + uint64(k)) / seconds; n > 0 { // the intervals together contain as many I/Os as the trial
					i.Bins = append(i.Bins, iotax.Bin{Value: b.Value, Count: n})
				}
			}
			if t.Target == VirtioBlk && k%7 == (t.Round+3)%7 {
				i.Bins = append(i.Bins, iotax.Bin{Value: .3, Count: 1})
			}
			t.Intervals = append(t.Intervals, i)
		}
		if t.Target == VirtioBlk {
			h.Bins = append(h.Bins, iotax.Bin{Value: .3, Count: uint64((seconds-1-(t.Round+3)%7)/7) + 1})
		}
		metric.Derive(t)
	}
	return run, trials
}
