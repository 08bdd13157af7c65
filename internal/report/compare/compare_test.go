package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

func compared(o Options) *Comparison {
	return Of(report.New(reporttest.EarlierRun()), report.New(reporttest.Later()), o)
}

func (c *Comparison) row(t *testing.T, target, workload string) Change {
	t.Helper()
	for _, r := range c.Rows {
		if r.Target == target && r.Workload == workload {
			return r
		}
	}
	t.Fatalf("no row %s / %s", target, workload)
	return Change{}
}

func TestCompareFixture(t *testing.T) {
	c := compared(Options{Margin: .05, FailOn: FailOnWorse})
	read := c.row(t, reporttest.VirtioBlk, "4k random read")
	if read.Verdict != stat.Worse || !read.Ratio.Contains(.8*.8) || !read.Loss.Contains(.8) {
		t.Errorf("read: %q %v, loss %v", read.Verdict, read.Ratio, read.Loss)
	}
	// The whole host became 20 % slower, and so did the virtiofs share. Its ratio to the baseline did not change.
	share := c.row(t, reporttest.VirtioFS, "4k random read")
	if !share.Ratio.Contains(.8) || share.Ratio.Contains(1) || !share.Loss.Contains(1) {
		t.Errorf("share: %v, loss %v", share.Ratio, share.Loss)
	}
	if l := compared(Options{Margin: .05, By: ByLoss}).row(t, reporttest.VirtioFS, "4k random read"); l.Verdict != stat.Equivalent && l.Verdict != stat.BelowMargin {
		t.Errorf("share by loss: %q %v", l.Verdict, l.Loss)
	}
	for _, x := range []struct{ target, workload, rule string }{
		{reporttest.UnsafeDisk, "4k random read", "durability-differs"}, {reporttest.VirtioFS, "4k random write", "work-differs"}, {reporttest.Ninep, "4k random read", "no-values"},
		{reporttest.VirtioFS, "1M sequential read", "cache-served"},
	} {
		r := c.row(t, x.target, x.workload)
		if report.Conclusive(r.Verdict) || r.Verdict == stat.Inconclusive || !hasRule(r.Findings, x.rule) {
			t.Errorf("%s / %s: %q, %v; want %s and no verdict", x.target, x.workload, r.Verdict, r.Findings, x.rule)
		}
		if lost := x.rule != "cache-served"; r.Lost != lost {
			t.Errorf("%s / %s: lost %v", x.target, x.workload, r.Lost)
		}
	}
	if !c.Failed || !strings.Contains(strings.Join(c.Reasons, "\n"), reporttest.VirtioBlk+" / 4k random read: read IOPS is 1.6× slower") {
		t.Errorf("gate: %v %q", c.Failed, c.Reasons)
	}
	if len(c.OnlyB) != 4 || c.OnlyB[0].Target != "guest scsi" || len(c.OnlyA) != 4 || c.OnlyA[0].Target != reporttest.NotOpened {
		t.Errorf("only in A %v, only in B %v", c.OnlyA, c.OnlyB)
	}
	// A target that already failed in A does not fail the gate.
	if strings.Contains(strings.Join(c.Reasons, "\n"), reporttest.NotOpened) {
		t.Errorf("reasons: %q", c.Reasons)
	}
	if !hasRule(c.Findings, "environment-differs") || !hasRule(c.Findings, "baseline-changed") {
		t.Errorf("findings: %v", c.Findings)
	}
	if f := compared(Options{Margin: .05, By: ByLoss}).Findings; hasRule(f, "baseline-changed") { // its hint, --by loss, is already set
		t.Errorf("findings by loss: %v", f)
	}
}

// If a workload could not run on a target, the reason replaces the number of that cell. The target's other cells
// remain comparable.
func TestCompareCellNotMeasured(t *testing.T) {
	run, trials := reporttest.RunOf(8, nil, reporttest.Reads("disk", 10000, nil), reporttest.Reads("a", 5000, nil),
		reporttest.CellSpec{Target: "disk", Workload: "copy", Values: map[string]float64{"duration": 1}})
	run.Workloads[0].Metrics = []string{"read.iops"}
	run.Targets[1].Findings = []iotax.Finding{{Rule: "cell-not-measured", Severity: iotax.Warning, Subject: iotax.AboutCell(run.Targets[1].Name, "copy"), Evidence: "nbdcopy is missing", Hint: "install it"}}
	c := Of(report.New(run, trials), report.New(run, trials), Options{Margin: .05})
	if r := c.row(t, "a", "copy"); r.Verdict != stat.NoResult || r.Findings[0].Evidence != "in A: nbdcopy is missing" || r.Findings[0].Hint != "install it" {
		t.Errorf("a / copy: %q %+v", r.Verdict, r.Findings)
	}
	if r := c.row(t, "a", "4k read"); r.Verdict != stat.Equivalent || len(r.Findings) > 0 {
		t.Errorf("a / 4k read: %q %+v", r.Verdict, r.Findings)
	}
}

func TestPairDots(t *testing.T) {
	run, trials := reporttest.Fixture()
	r := report.New(run, trials)
	for _, s := range r.Sections {
		base := s.Row(r.Baseline)
		for _, row := range s.Rows {
			wb, wx, _ := stat.Pairs(stat.SetAside(trials), s.Workload, s.Metric, base.Target, row.Target)
			if p := report.PairDots(base.Dots, row.Dots, false); !slices.Equal(p.Values[0], wb) || !slices.Equal(p.Values[1], wx) {
				t.Errorf("%s / %s: %v %v, stat.Pairs has %v %v", row.Target, s.Workload, p.Values[0], p.Values[1], wb, wx)
			}
		}
	}
}

// BenchmarkCompare compares two runs of 33,300 trials in 1,110 cells.
func BenchmarkCompare(b *testing.B) {
	big := func(f float64) *report.Report {
		run := &iotax.Run{ID: "r", Baseline: "t0", Margin: .05}
		var trials []*iotax.Trial
		for w := range 10 {
			run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: string(rune('a' + w)), Metrics: []string{"m"}})
			for round := range 30 {
				for k := range 111 {
					name := "t" + strconv.Itoa(k)
					if w == 0 && round == 0 {
						run.Targets = append(run.Targets, iotax.TargetInfo{Name: name})
					}
					trials = append(trials, &iotax.Trial{Target: name, Workload: string(rune('a' + w)), Round: round, Seq: len(trials),
						Values: []iotax.Value{{Name: "m", Value: 100*f + float64((round*7919+k*31)%97)/10, Better: iotax.Up}}})
				}
			}
		}
		return report.New(run, trials)
	}
	x, y := big(1), big(.9)
	for b.Loop() {
		Of(x, y, Options{})
	}
}

func TestCompareDifferences(t *testing.T) {
	c := compared(Options{})
	find := func(key string) *Difference {
		for i := range c.Differences {
			if c.Differences[i].Key == key {
				return &c.Differences[i]
			}
		}
		return nil
	}
	for key, want := range map[string][2]string{
		"kernel": {"6.1.0-40-amd64", "6.12.0-1-amd64"}, "cpu.governor": {"", "powersave"}, "mount.options": {"rw,relatime", "rw,noatime"},
		"durability": {"flush-ignored", "durable"}, "fio": {"fio-3.33", "fio-3.36"}, "machine.kernel": {"6.1.0-40-amd64", "6.12.0-1-amd64"},
	} {
		d := find(key)
		if d == nil || d.A != want[0] || d.B != want[1] {
			t.Errorf("%s: %+v, want %q", key, d, want)
		}
	}
	if d := find("machine.kernel"); d == nil || !slices.Equal(d.Where, []string{reporttest.VirtioBlk, reporttest.VirtioFS}) { // the 9p target could not be opened
		t.Errorf("machine.kernel: %+v", d)
	}
	run, trials := reporttest.EarlierRun()
	run.Targets[1].Facts["boot.ready"], run.Targets[1].Facts["device.x"] = "9s", "file=/var/tmp/iotax-919fd8/disk.raw"
	a := report.New(run, trials)
	run, trials = reporttest.EarlierRun()
	run.Targets[1].Facts["device.x"] = "file=/var/tmp/iotax-0000aa/disk.raw"
	if same := Of(a, report.New(run, trials), Options{}); len(same.Differences) != 0 || len(same.Findings) != 0 {
		t.Errorf("the same twice: %+v, %v", same.Differences, same.Findings)
	}
}

// pairRun returns the report of a run with a baseline and one target.
func pairRun(better iotax.Better, base, target []float64) *report.Report {
	return report.New(reporttest.Small(better, base, target))
}

func scaled(xs []float64, f float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = f * x
	}
	return out
}

func TestGate(t *testing.T) {
	a := pairRun(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	noB, noBTrials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	noB.Targets, noBTrials = noB.Targets[:1], noBTrials[:len(reporttest.Flat100)]
	unlike, unlikeTrials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	unlike.Targets[1].Durability = iotax.FlushIgnored
	for _, x := range []struct {
		name   string
		b      *report.Report
		o      Options
		failed bool
		reason string
	}{
		{"same", pairRun(iotax.Up, reporttest.Flat100, reporttest.Flat50), Options{FailOn: FailOnDiffers, Margin: .05}, false, ""},
		{"worse", pairRun(iotax.Up, reporttest.Flat100, scaled(reporttest.Flat50, .8)), Options{FailOn: FailOnWorse, Margin: .05}, true, "b / w: m is 1.2× slower"},
		{"worse, no gate", pairRun(iotax.Up, reporttest.Flat100, scaled(reporttest.Flat50, .8)), Options{Margin: .05}, false, ""},
		{"worse, wide margin", pairRun(iotax.Up, reporttest.Flat100, scaled(reporttest.Flat50, .8)), Options{FailOn: FailOnWorse, Margin: .4}, false, ""},
		{"better", pairRun(iotax.Up, reporttest.Flat100, scaled(reporttest.Flat50, 1.3)), Options{FailOn: FailOnWorse, Margin: .05}, false, ""},
		{"better differs", pairRun(iotax.Up, reporttest.Flat100, scaled(reporttest.Flat50, 1.3)), Options{FailOn: FailOnDiffers, Margin: .05}, true, "m is 1.3× faster"},
		{"host slower, by value", pairRun(iotax.Up, scaled(reporttest.Flat100, .7), scaled(reporttest.Flat50, .7)), Options{FailOn: FailOnWorse, Margin: .05}, true, "a / w"},
		{"host slower, by loss", pairRun(iotax.Up, scaled(reporttest.Flat100, .7), scaled(reporttest.Flat50, .7)), Options{FailOn: FailOnWorse, Margin: .05, By: ByLoss}, false, ""},
		{"target slower, by loss", pairRun(iotax.Up, scaled(reporttest.Flat100, .7), scaled(reporttest.Flat50, .5)), Options{FailOn: FailOnWorse, Margin: .05, By: ByLoss}, true, "b / w"},
		{"missing", report.New(noB, noBTrials), Options{FailOn: FailOnWorse, Margin: .05}, true, "missing in B"},
		{"unlike durability", report.New(unlike, unlikeTrials), Options{FailOn: FailOnWorse, Margin: .05}, true, "durability-differs"},
		{"nothing in common", report.New(&iotax.Run{}, nil), Options{FailOn: FailOnWorse, Margin: .05}, true, "missing in B"},
	} {
		c := Of(a, x.b, x.o)
		if c.Failed != x.failed || !strings.Contains(strings.Join(c.Reasons, "\n"), x.reason) {
			t.Errorf("%s: failed %v, %q", x.name, c.Failed, c.Reasons)
		}
	}
	if c := Of(report.New(nil, nil), report.New(nil, nil), Options{FailOn: FailOnWorse}); !c.Failed {
		t.Error("two empty runs pass")
	}
	// If lower is better, the answer calls a 20 % increase "more".
	c := Of(pairRun(iotax.Down, reporttest.Flat100, reporttest.Flat50), pairRun(iotax.Down, reporttest.Flat100, scaled(reporttest.Flat50, 1.2)), Options{FailOn: FailOnWorse, Margin: .05})
	if !c.Failed || !strings.Contains(c.Answer, "b: w m is 1.2× more than in A") {
		t.Errorf("latency: %v, %s", c.Failed, c.Answer)
	}
}

// TestCompareHolm compares twenty cells without any change, at a margin of 0. Without Holm's adjustment, about one
// would be called worse or better.
func TestCompareHolm(t *testing.T) {
	false1, alone := 0, 0
	const studies = 100
	for seed := range uint64(studies) {
		r := rand.New(rand.NewPCG(seed, 7))
		many := func() *report.Report {
			run := &iotax.Run{ID: "r", Baseline: "a", Targets: []iotax.TargetInfo{{Name: "a"}}, Alpha: .05}
			var trials []*iotax.Trial
			for w := range 20 {
				name := string(rune('A' + w))
				run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: name, Metrics: []string{"m"}})
				for b := range 6 {
					trials = append(trials, &iotax.Trial{Target: "a", Workload: name, Round: b, Values: []iotax.Value{{Name: "m", Value: 100 * math.Exp(.03*r.NormFloat64()), Better: iotax.Up}}})
				}
			}
			return report.New(run, trials)
		}
		c := Of(many(), many(), Options{Margin: 0, FailOn: FailOnDiffers})
		if c.Family != 20 {
			t.Fatalf("family %d", c.Family)
		}
		if c.Failed {
			false1++
		}
		for _, r := range c.Rows {
			if r.Verdict == stat.Worse || r.Verdict == stat.Better || r.Holm {
				alone++
				break
			}
		}
	}
	if w := stat.Wilson(false1, studies, .05); w.Lo > .05 {
		t.Errorf("%d of %d studies without a change failed", false1, studies)
	}
	if alone < studies/4 {
		t.Errorf("only %d studies needed the adjustment: the test sees nothing", alone)
	}
}

// With ByLoss, the sample consists of pairs: the trials of a target and of the baseline in one round. A cell is lost if
// A has enough valid pairs and B does not. A cell without enough valid pairs in A is not lost.
func TestGateByLoss(t *testing.T) {
	for _, better := range []iotax.Better{iotax.Up, iotax.Down} {
		side := func(spoil int, invalid bool) *report.Report {
			run, trials := reporttest.Small(better, reporttest.Flat100, reporttest.Flat50)
			for _, x := range trials {
				if x.Target == "a" && x.Round < spoil {
					x.Err = "fio: no space"
				}
				if x.Target == "a" && invalid {
					x.Findings = []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "half of it"}}
				}
			}
			return report.New(run, trials)
		}
		whole := side(0, false)
		for _, x := range []struct {
			name   string
			a, b   *report.Report
			lost   bool
			reason string
		}{
			{"few pairs in B", whole, side(4, false), true, "b / w: m cannot be judged: few-trials: an interval and a verdict need 6 pairs on either side; there are 6 in A and 2 in B"},
			{"few pairs in A", side(4, false), whole, false, ""},
			{"invalid baseline in B", whole, side(0, true), true, "b / w: m cannot be judged: no-common-baseline"},
			{"invalid baseline in A", side(0, true), whole, false, ""},
		} {
			c := Of(x.a, x.b, Options{Margin: .05, By: ByLoss, FailOn: FailOnWorse})
			if r := c.row(t, "b", "w"); r.Lost != x.lost || report.Conclusive(r.Verdict) || !strings.Contains(strings.Join(c.Reasons, "\n"), x.reason) {
				t.Errorf("%s, %v: lost %v, verdict %s, gate %q", x.name, better, r.Lost, r.Verdict, c.Reasons)
			}
		}
	}
}

// Trials that are too short for a percentile have no value for it. The trials with a value are the ones with the most
// I/Os, so they are not representative, and there is no verdict.
func TestPercentileOfShortTrials(t *testing.T) {
	const name = "read.latency.p99.9"
	side := func(short int, pooled bool) *report.Report {
		run, trials := reporttest.Small(iotax.Down, reporttest.Flat100, reporttest.Flat50)
		run.Workloads[0].Metrics = []string{name}
		for _, x := range trials {
			x.Values[0].Name = name
			if x.Target == "b" && x.Round < short {
				x.Values = nil
			}
			if pooled {
				x.Histograms = []iotax.Histogram{{Name: "read.latency", Unit: iotax.Seconds, Bins: []iotax.Bin{{Value: 50, Count: 20000}, {Value: 60, Count: 40}}}}
			}
		}
		return report.New(run, trials)
	}
	for _, x := range []struct {
		a, b   *report.Report
		lost   bool
		reason string
	}{
		{side(0, false), side(2, false), true, "in B: some of the 6 trials are too short"},
		{side(2, false), side(0, false), false, "in A: some of the 6 trials are too short"},
		{side(0, false), side(2, true), true, "in B: some of the 6 trials are too short"},
		{side(0, false), side(6, true), true, "in B: some of the 6 trials are too short"},
	} {
		for _, by := range []By{ByValue, ByLoss} {
			c := Of(x.a, x.b, Options{Margin: .05, By: by, FailOn: FailOnWorse})
			r := c.row(t, "b", "w")
			if r.Verdict != stat.TooFew || r.Ratio != nil || r.Loss != nil || r.Lost != x.lost || !hasRule(r.Findings, "few-trials") || !strings.HasPrefix(r.Findings[0].Evidence, x.reason) {
				t.Errorf("by %s: %q, ratio %v, loss %v, lost %v, %v, want %s", by, r.Verdict, r.Ratio, r.Loss, r.Lost, r.Findings, x.reason)
			}
			for i, v := range []stat.Interval{r.A, r.B} {
				if rep := []*report.Report{x.a, x.b}[i]; v.N > 0 && v.N < 6 {
					t.Errorf("%s shows the value of %d fast trials: %v", rep.Run.ID, v.N, v)
				}
			}
			if r := c.row(t, "a", "w"); r.Lost || len(r.Findings) > 0 {
				t.Errorf("a: %+v", r)
			}
		}
	}
}

// Percentiles in neighbouring bins of a histogram do not differ, however often they were measured.
func TestCompareBins(t *testing.T) {
	runOf := func(disk, guest float64) *report.Report {
		run, trials := reporttest.RunOf(8, nil, reporttest.CellSpec{Target: "disk", Workload: "w", Values: map[string]float64{"read.latency.p99": 1}},
			reporttest.CellSpec{Target: "guest", Workload: "w", Values: map[string]float64{"read.latency.p99": 1}})
		for _, x := range trials {
			x.Values[0] = iotax.Value{Name: "read.latency.p99", Value: disk, Unit: iotax.Seconds, Better: iotax.Down}
			if x.Target == "guest" {
				x.Values[0].Value = guest
			}
		}
		return report.New(run, trials)
	}
	a, b := runOf(1e-3, 2e-3), runOf(.993e-3, 2e-3*1.008)
	for _, by := range []By{ByValue, ByLoss} {
		c := Of(a, b, Options{By: by, Margin: .001})
		r := c.row(t, "guest", "w")
		got := r.Judged(by)
		if got.HalfWidth() < stat.HistogramError || got.P < .05 || r.Verdict != stat.Inconclusive || float64(r.P) < .05 {
			t.Errorf("by %s: %q, interval [%v, %v], p %v and %v", by, r.Verdict, got.Lo, got.Hi, got.P, r.P)
		}
	}
}
