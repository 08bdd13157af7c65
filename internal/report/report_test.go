package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/rules"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

func row(t *testing.T, r *Report, workload, metric, target string) Row {
	t.Helper()
	for _, s := range r.Sections {
		if s.Workload == workload && s.Metric == metric {
			for _, row := range s.Rows {
				if row.Target == target {
					return row
				}
			}
		}
	}
	t.Fatalf("no row %s / %s / %s", workload, metric, target)
	return Row{}
}

func ruleIDs(r *Report, row Row) []string {
	var out []string
	for _, n := range row.Notes {
		out = append(out, r.Notes[n-1].Rule)
	}
	return out
}

func TestVerdictsOfFixture(t *testing.T) {
	r := New(reporttest.Fixture())
	for _, c := range []struct {
		workload, metric, target string
		want                     stat.Verdict
		n                        int
		rule                     string
	}{
		{"4k random read", "read.iops", reporttest.HostDisk, stat.NoVerdict, 6, ""},
		{"4k random read", "read.iops", reporttest.VirtioFS, stat.Worse, 6, "rounds-discarded"},
		{"4k random read", "read.iops", reporttest.Ninep, stat.Worse, 6, "trial-discarded"},
		{"4k random read", "read.iops", reporttest.UnsafeDisk, stat.NotRanked, 6, "durability-differs"},
		{"4k random read", "read.iops", reporttest.NotOpened, stat.NoResult, 0, "target-not-opened"},
		{"4k random write", "write.iops", reporttest.VirtioFS, stat.TooFew, 4, "trial-failed"},
		{"4k random write", "write.iops", reporttest.VirtioBlk, stat.Inconclusive, 6, "not-steady"},
		{"4k random write", "write.latency.p99", reporttest.VirtioFS, stat.TooFew, 4, "few-trials"},
		{"1M sequential read", "read.bandwidth", reporttest.VirtioBlk, stat.Equivalent, 6, ""},
		{"1M sequential read", "read.bandwidth", reporttest.VirtioFS, stat.NotComparable, 6, "cache-served"},
	} {
		got := row(t, r, c.workload, c.metric, c.target)
		if got.Verdict != c.want || got.Value.N != c.n {
			t.Errorf("%s / %s / %s: %q from %d trials, want %q from %d", c.workload, c.metric, c.target, got.Verdict, got.Value.N, c.want, c.n)
		}
		if c.rule != "" && !slices.Contains(ruleIDs(r, got), c.rule) {
			t.Errorf("%s / %s: notes %q, want %s among them", c.workload, c.target, ruleIDs(r, got), c.rule)
		}
	}
	// The fixture was generated with these ratios, and the intervals contain them.
	for target, want := range map[string]float64{reporttest.VirtioBlk: .71, reporttest.VirtioFS: .31, reporttest.Ninep: .052} {
		if e := row(t, r, "4k random read", "read.iops", target).Ratio; !e.Contains(want) {
			t.Errorf("%s: %v does not contain %v", target, e.Interval, want)
		}
	}
	if f := row(t, r, "4k random write", "write.iops", reporttest.VirtioFS); f.Failed != 2 || f.Ran != 6 || f.Ratio.N != 4 {
		t.Errorf("failed trials: %+v", f)
	}
	v := row(t, r, "4k random read", "read.iops", reporttest.VirtioBlk)
	if v.Discarded != 1 || v.Counted != v.Ran-v.Failed-1 || v.WithDiscarded == nil || v.WithDiscarded.N != 7 || v.Ratio.N != 6 {
		t.Errorf("discarded round: discarded %d, with them %+v", v.Discarded, v.WithDiscarded)
	}
	if len(r.Notes) < 10 {
		t.Errorf("%d notes: the fixture should need two digits", len(r.Notes))
	}
}

func TestNotesAreShared(t *testing.T) {
	r := New(reporttest.Fixture())
	seen := map[string]bool{}
	last := 0
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			for _, n := range row.Notes {
				if n > last+1 {
					t.Fatalf("note %d is met before note %d", n, last+1)
				}
				last = max(last, n)
			}
		}
	}
	for i, n := range r.Notes {
		if n.Number != i+1 {
			t.Errorf("note %d has number %d", i+1, n.Number)
		}
		key := n.Rule + n.Hint + string(n.Severity)
		if seen[key] {
			t.Errorf("%s is told twice", n.Rule)
		}
		seen[key] = true
		switch n.Rule {
		case "not-steady":
			if trials := n.Items[0].Trials; len(n.Items) != 1 || trials != 3 {
				t.Errorf("not-steady: %d trials, want 3, however many metrics the workload has", trials)
			}
		case "cache-served":
			if len(n.Items) != 1 || n.Items[0].Trials != 6 || !n.Items[0].Varies {
				t.Errorf("cache-served: %+v", n)
			}
		}
	}
}

func TestVerdictRules(t *testing.T) {
	bad := iotax.Finding{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "x"}
	for _, c := range []struct {
		name   string
		change func(run *iotax.Run, trials []*iotax.Trial)
		better iotax.Better
		want   stat.Verdict
		rule   string
	}{
		{"plain", func(*iotax.Run, []*iotax.Trial) {}, iotax.Up, stat.Worse, ""},
		{"less is better", func(*iotax.Run, []*iotax.Trial) {}, iotax.Down, stat.Better, ""},
		{"neither is better", func(*iotax.Run, []*iotax.Trial) {}, iotax.Neither, stat.NotRanked, ""},
		{"errors on the target", func(_ *iotax.Run, ts []*iotax.Trial) { reporttest.Condemn(bad, ts[7:9]) }, iotax.Up, stat.NotComparable, "cache-served"},
		{"errors on the baseline", func(_ *iotax.Run, ts []*iotax.Trial) { reporttest.Condemn(bad, ts[1:3]) }, iotax.Up, stat.NotComparable, "cache-served"},
		{"one error on the target", func(_ *iotax.Run, ts []*iotax.Trial) { reporttest.Condemn(bad, ts[7:8]) }, iotax.Up, stat.TooFew, "rounds-discarded"},
		{"one error on the baseline", func(_ *iotax.Run, ts []*iotax.Trial) { reporttest.Condemn(bad, ts[1:2]) }, iotax.Up, stat.TooFew, "rounds-discarded"},
		{"one error of one trial that is not discarded", func(_ *iotax.Run, ts []*iotax.Trial) {
			reporttest.Condemn(bad, ts[7:8])
			for _, t := range ts[8:] {
				t.Discarded = "clock"
			}
		}, iotax.Up, stat.TooManyDiscarded, "cache-served"},
		{"error about the target as such", func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Findings = []iotax.Finding{bad} }, iotax.Up, stat.NotComparable, "cache-served"},
		{"warning", func(_ *iotax.Run, ts []*iotax.Trial) {
			ts[7].Findings = []iotax.Finding{{Rule: "x", Severity: iotax.Warning}}
		}, iotax.Up, stat.Worse, "x"},
		{"other durability", func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Durability = iotax.Volatile }, iotax.Up, stat.NotRanked, "durability-differs"},
		{"one of six discarded", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Discarded = "clock" }, iotax.Up, stat.TooFew, "rounds-discarded"},
		{"two of six discarded", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Discarded, ts[8].Discarded = "clock", "clock" }, iotax.Up, stat.TooManyDiscarded, "too-many-discarded"},
		{"two of six discarded on the baseline", func(_ *iotax.Run, ts []*iotax.Trial) { ts[1].Discarded, ts[2].Discarded = "clock", "clock" }, iotax.Up, stat.TooManyDiscarded, "too-many-discarded"},
		{"all failed", func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts[6:] {
				t.Err, t.Values = "boom", nil
			}
		}, iotax.Up, stat.NoResult, "trial-failed"},
		{"baseline failed", func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts[:6] {
				t.Err, t.Values = "boom", nil
			}
		}, iotax.Up, stat.Inconclusive, ""},
		{"a zero", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Values[0].Value = 0 }, iotax.Up, stat.NotComparable, "no-ratio"},
		{"a zero of what nothing is lost with", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Values[0].Value = 0 }, iotax.Neither, stat.NotRanked, ""},
		{"not opened", func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Err = "no such device" }, iotax.Up, stat.NoResult, "target-not-opened"},
		{"no directions known, one round", func(r *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts {
				t.Round = 0
			}
		}, iotax.Up, stat.TooFew, "few-trials"},
		{"five rounds", func(_ *iotax.Run, ts []*iotax.Trial) { ts[7].Err, ts[7].Values = "boom", nil }, iotax.Up, stat.TooFew, "few-trials"},
	} {
		run, trials := reporttest.Small(c.better, reporttest.Flat100, reporttest.Flat50)
		c.change(run, trials)
		r := New(run, trials)
		got := row(t, r, "w", "m", "b")
		if got.Verdict != c.want {
			t.Errorf("%s: %q, want %q", c.name, got.Verdict, c.want)
		}
		if c.rule != "" && !slices.Contains(ruleIDs(r, got), c.rule) || c.rule != "no-ratio" && slices.Contains(ruleIDs(r, got), "no-ratio") {
			t.Errorf("%s: notes %q, want %s", c.name, ruleIDs(r, got), c.rule)
		}
	}
}

// A finding about one workload on a target does not affect the target's other cells, even if its severity is Invalid.
func TestFindingOfOneCell(t *testing.T) {
	run, trials := reporttest.RunOf(8, nil, reporttest.Reads("disk", 10000, nil), reporttest.Reads("a", 5000, nil),
		reporttest.CellSpec{Target: "disk", Workload: "copy", Values: map[string]float64{"duration": 1}},
		reporttest.CellSpec{Target: "a", Workload: "copy", Values: map[string]float64{"duration": 1}})
	run.Workloads[0].Metrics = []string{"read.iops"}
	run.Targets[1].Findings = []iotax.Finding{{Rule: "cell-not-measured", Severity: iotax.Invalid, Subject: iotax.AboutCell(run.Targets[1].Name, "copy"), Evidence: "nbdcopy is missing"}}
	r := New(run, trials)
	got := map[string]stat.Verdict{}
	for _, s := range r.Sections {
		row := s.Row("a")
		got[s.Workload] = row.Verdict
		if about := len(r.Findings(s.Workload, row)) > 0; about != (s.Workload == "copy") {
			t.Errorf("findings of a / %s: %+v", s.Workload, r.Findings(s.Workload, row))
		}
	}
	if got["4k read"] != stat.Worse || got["copy"] != stat.NotComparable {
		t.Errorf("verdicts: %v", got)
	}
	if n := r.Notes[0]; len(r.Notes) != 1 || n.Items[0].Cells[0].String() != "a / copy" {
		t.Errorf("notes: %+v", r.Notes)
	}
}

// A trial that a cache served is discarded together with its round, and a note reports the trial.
func TestOneErrorIsLeftOut(t *testing.T) {
	run, trials := reporttest.Small(iotax.Up, append(slices.Clone(reporttest.Flat100), 100), []float64{50, 200, 49.6, 50.1, 50.9, 49.1, 50.2})
	reporttest.Condemn(iotax.Finding{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 % of the bytes"}, trials[8:9])
	r := New(run, trials)
	got := row(t, r, "w", "m", "b")
	if got.Verdict != stat.Worse || got.Ratio.N != 6 || got.Ratio.Estimate > 0.51 || got.WithDiscarded == nil || got.WithDiscarded.Estimate < 0.55 {
		t.Errorf("verdict %q, ratio %+v, with it %+v", got.Verdict, got.Ratio, got.WithDiscarded)
	}
	if !slices.ContainsFunc(r.Notes, func(n Note) bool {
		return n.Rule == "trial-discarded" && n.Items[0].Evidence == "cache-served: 3 % of the bytes"
	}) {
		t.Errorf("notes %+v", r.Notes)
	}
	if trials[8].Discarded != "" || len(trials[8].Findings) != 1 {
		t.Errorf("the trial itself was changed: %+v", trials[8])
	}
}

// A cell is CPU-bound if it has more than half of the IOPS that fio's null engine reaches with the same number of threads
// or with one thread per CPU, whichever number is smaller.
func TestCPUBound(t *testing.T) {
	for _, c := range []struct {
		name    string
		ceiling float64
		jobs    string
		facts   map[string]string
		want    bool
	}{
		{"less than half of two clients with a thread each", 110e3, "1", map[string]string{"clients": "2"}, false},
		{"more than half", 190e3, "", nil, true},
		{"less than half", 210e3, "", nil, false},
		{"of two threads", 96e3, "2", nil, true},
		{"of four threads on two CPUs", 96e3, "4", nil, true},
		{"less than half of two threads", 110e3, "2", nil, false},
		{"not calibrated", 0, "", nil, false},
		{"in a guest", 190e3, "", map[string]string{"machine.kernel": "6.1", "accel": "kvm"}, true},
		{"on a machine elsewhere, whose ceiling is its own", 190e3, "", map[string]string{"machine.kernel": "6.1"}, false},
	} {
		run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
		run.Environment = map[string]string{"cpu.count": "2"}
		run.Calibration = &iotax.Calibration{NullIOPS: c.ceiling}
		run.Targets[1].Facts = c.facts
		for i, x := range trials {
			x.Facts = map[string]string{"numjobs": c.jobs, "clients": c.facts["clients"]}
			rate := 1000.0
			if i >= 6 {
				rate = 60e3
				x.Values = append(x.Values, iotax.Value{Name: "write.iops", Value: 40e3, Unit: iotax.PerSecond})
			}
			x.Values = append(x.Values, iotax.Value{Name: "read.iops", Value: rate, Unit: iotax.PerSecond})
		}
		r := New(run, trials)
		if got := slices.Contains(ruleIDs(r, row(t, r, "w", "m", "b")), "cpu-bound"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if slices.Contains(ruleIDs(r, row(t, r, "w", "m", "a")), "cpu-bound") {
			t.Errorf("%s: the baseline with 1000 IOPS", c.name)
		}
	}
}

// A quantile is computed over all trials together. It has no value if fewer than 100 observations lie beyond it.
func TestQuantilesAreMerged(t *testing.T) {
	r := New(reporttest.FewSlow())
	for _, c := range []struct {
		target, name string
		value        float64 // NaN: too few observations are beyond the quantile
		beyond       int
	}{
		{"b", "read.latency.p50", 1e-3, 6000}, {"b", "read.latency.p99", 1e-3, 120}, {"b", "read.latency.p99.9", math.NaN(), 12},
		{"a", "read.latency.p99", math.NaN(), 60},
	} {
		fs := row(t, r, "w", "m", c.target).Secondary
		i := slices.IndexFunc(fs, func(f Figure) bool { return f.Name == c.name })
		if i < 0 {
			t.Fatalf("%s has no %s", c.target, c.name)
		}
		f := fs[i]
		if f.Beyond != c.beyond || f.Short != math.IsNaN(c.value) || !f.Merged || !f.Short && f.Value.Estimate != c.value || f.Short && !math.IsNaN(f.Value.Estimate) {
			t.Errorf("%s of %s: %+v, want %v with %d beyond", c.name, c.target, f, c.value, c.beyond)
		}
	}
}

// A run with a fixed number of rounds has a single analysis, so its intervals are narrower, and it has no note about
// its precision.
func TestAlphaOfRun(t *testing.T) {
	target := []float64{50, 58, 46, 53, 60, 44}
	width := map[float64]float64{}
	for alpha, want := range map[float64]float64{0: stat.AlphaPerLook, 7: stat.AlphaPerLook, .032: .032, .05: .05} {
		run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, target)
		run.Alpha = alpha
		r := New(run, trials)
		if r.Alpha != want {
			t.Errorf("alpha %v: %v, want %v", alpha, r.Alpha, want)
		}
		b := row(t, r, "w", "m", "b")
		width[alpha] = b.Ratio.T.HalfWidth()
		if fixed := alpha == .05; slices.Contains(ruleIDs(r, b), "precision-not-reached") == fixed {
			t.Errorf("alpha %v: notes %q", alpha, ruleIDs(r, b))
		}
	}
	if width[.05] >= width[.032] {
		t.Errorf("half widths %v", width)
	}
}

func TestSecondary(t *testing.T) {
	r := New(reporttest.Fixture())
	figures := map[string]Figure{}
	for _, f := range row(t, r, "4k random read", "read.iops", reporttest.VirtioBlk).Secondary {
		figures[f.Name] = f
	}
	for name, merged := range map[string]bool{"read.latency.p50": true, "read.latency.p99": true, "read.bandwidth": false, "cpu.serving.per-io": false} {
		f, ok := figures[name]
		if !ok || f.Merged != merged || !(f.Value.Estimate > 0) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	// The serving processes use 11.2 to 12.2 s of CPU time in 12 s, at 34k operations per second.
	if f := figures["cpu.serving.per-io"]; f.Value.Estimate < 25e-6 || f.Value.Estimate > 32e-6 {
		t.Errorf("CPU per I/O: %v", f.Value)
	}
	if f := row(t, r, "4k random read", "read.iops", reporttest.HostDisk).Secondary; slices.ContainsFunc(f, func(f Figure) bool { return strings.HasPrefix(f.Name, "cpu.serving") }) {
		t.Error("nobody serves the host's own disk")
	}
}

// A note about every row is in Common, without references in the rows. Findings returns it for every cell.
func TestCommonNote(t *testing.T) {
	run, trials := reporttest.Fixture()
	plain := New(run, trials)
	for _, tr := range trials {
		tr.Findings = append(tr.Findings, iotax.Finding{Rule: "short-trial", Severity: iotax.Warning, Evidence: "a window of 1 s"})
	}
	// A target that could not be opened has rows but no trials, so the note would not be about every row.
	run.Targets = slices.DeleteFunc(run.Targets, func(ti iotax.TargetInfo) bool { return ti.Err != "" })
	r := New(run, trials)
	if len(r.Common) != 1 || r.Common[0].Rule != "short-trial" || !strings.Contains(r.Common[0].Sentences(3)[0], "all cells") {
		t.Fatalf("common notes: %+v", r.Common)
	}
	for _, n := range r.Notes {
		if n.Rule == "short-trial" {
			t.Errorf("note %d repeats what is common", n.Number)
		}
	}
	if len(plain.Common) != 0 {
		t.Errorf("common without cause: %+v", plain.Common)
	}
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			if !slices.ContainsFunc(r.Findings(s.Workload, &row), func(f iotax.Finding) bool { return f.Rule == "short-trial" }) {
				t.Errorf("%s / %s lacks the finding in JSON", row.Target, s.Workload)
			}
		}
	}
}

// The note about discarded trials of an imported run shows the ratio that includes the discarded trials.
func TestDiscardedOfImported(t *testing.T) {
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	run.Environment = map[string]string{iotax.FactOrigin: iotax.OriginImport}
	for i, x := range trials {
		if x.Round = i; x.Target == "b" && x.Values[0].Value > 50.5 {
			x.Discarded = "clock-insane: 3 %"
		}
	}
	r := New(run, trials)
	b := row(t, r, "w", "m", "b")
	if b.WithDiscarded == nil || !(b.WithDiscarded.Estimate > b.Ratio.Estimate) || b.Discarded != 1 {
		t.Fatalf("%+v without, %+v with %d discarded trials", b.Ratio, b.WithDiscarded, b.Discarded)
	}
	if got := r.Findings(r.Sections[0].Workload, &b); !slices.ContainsFunc(got, func(f iotax.Finding) bool {
		return strings.HasPrefix(f.Evidence, "1 of 12 trials discarded; with discarded trials the ratio is ")
	}) {
		t.Errorf("%+v", got)
	}
}

func TestBrief(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain",
		"run fio: the guest is gone:\n[ 1.2] panic\n[ 1.3] end\n  hint: more memory": "run fio: the guest is gone:\n  hint: more memory",
	} {
		if got := Brief(in); got != want {
			t.Errorf("brief(%q) = %q, want %q", in, got, want)
		}
	}
}

// The hint of few-trials fits the plan: a fixed protocol rejects another number of rounds.
func TestHintOfFewTrials(t *testing.T) {
	for plan, want := range map[string]string{
		"measure:\n  protocol: \"fixed:5x60s\" # or\n":                                         "(`--rounds 6 --protocol adaptive`)",
		"measure:\n  protocol: adaptive # \"adaptive\", or fixed:NxLENGTH as in fixed:5x60s\n": "(`--rounds 6`)",
	} {
		run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
		run.Plan = []byte(plan)
		hint := func(trials []*iotax.Trial) (hint string) {
			r := New(run, trials)
			for _, n := range slices.Concat(r.Common, r.Notes) {
				if n.Rule == "few-trials" {
					hint = n.Hint
				}
			}
			return hint
		}
		five := slices.DeleteFunc(slices.Clone(trials), func(t *iotax.Trial) bool { return t.Round == 5 })
		if got := hint(five); !strings.Contains(got, want) || strings.Contains(got, "iotax show") { // no trial failed or is discarded
			t.Errorf("%q: %q lacks %s", plan, got, want)
		}
		// All requested rounds ran, so the hint is to check why one of them does not count.
		trials[7].Err, trials[7].Values = "boom", nil
		if got := hint(trials); got != "see why trials failed or are discarded (`iotax show`)" {
			t.Errorf("%q: %q", plan, got)
		}
	}
}

// A round in which every trial failed is not a round of the report. A run repeats such a round.
func TestFailedRounds(t *testing.T) {
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat50)
	all := New(run, trials).Protocol.MostRounds
	for _, tr := range trials {
		if tr.Round == 1 {
			tr.Err, tr.Values = "boom", nil
		}
	}
	trials[len(trials)-1].Err = "boom" // the other trial of its round counts
	if p := New(run, trials).Protocol; all < 3 || p.LeastRounds != all-1 || p.MostRounds != all-1 {
		t.Errorf("%d to %d rounds of %d", p.LeastRounds, p.MostRounds, all)
	}
}

// A finding of the run about one cell becomes a note of that cell's rows only.
func TestRunFindingOfOneCell(t *testing.T) {
	run, trials := reporttest.SomeTargets()
	run.Findings = []iotax.Finding{
		rules.UnlikeDepth.Found(iotax.AboutCell("guest", "read"), "1 in flight"),
		rules.UnlikeDepth.Found(iotax.AboutCell("gone", "read"), "2 in flight"),
		rules.Emulated.Found(iotax.AboutRun(), "guest"),
	}
	r := New(run, trials)
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			found := slices.ContainsFunc(r.Findings(s.Workload, &row), func(f iotax.Finding) bool { return f.Rule == rules.UnlikeDepth.ID })
			if want := row.Target == "guest" && s.Workload == "read"; found != want {
				t.Errorf("%s / %s: %v", row.Target, s.Workload, r.Findings(s.Workload, &row))
			}
		}
	}
	if len(r.General) != 2 || r.General[0].Items[0].Evidence != "2 in flight" || r.General[1].Rule != rules.Emulated.ID {
		t.Errorf("%+v", r.General)
	}
}
