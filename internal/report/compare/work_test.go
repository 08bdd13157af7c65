package compare

import (
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

// jobRun returns the report of a run with a baseline and one target. The trials cycle through the given jobs.
func jobRun(workload string, values []float64, jobs ...string) *report.Report {
	run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, values)
	run.Workloads[0].Name = workload
	for i, t := range trials {
		t.Workload = workload
		t.Facts = map[string]string{iotax.FactJob: jobs[i%len(jobs)]}
		if facts, ok := strings.CutPrefix(jobs[i%len(jobs)], "facts:"); ok { // a trial without iotax.FactJob
			t.Facts = map[string]string{}
			for _, f := range strings.Fields(facts) {
				k, v, _ := strings.Cut(f, "=")
				t.Facts[k] = v
			}
		}
	}
	return report.New(run, trials)
}

const (
	plainJob = `{"bs":"4096","direct":"1","iodepth":"1","kind":"fio","numjobs":"1","rw":"randwrite"}`
	syncJob  = `{"bs":"4096","direct":"1","fsync":"1","iodepth":"1","kind":"fio","numjobs":"1","rw":"randwrite"}`
	textJob  = `{"bs":"4096","kind":"fio","partly known":"yes","rw":"randwrite"}`
)

func TestWorkDiffers(t *testing.T) {
	job := func(key, value string) string {
		return strings.Replace(plainJob, `"kind"`, `"`+key+`":"`+value+`","kind"`, 1)
	}
	for _, c := range []struct {
		name string
		a, b []string
		want string // text of the finding; "" means that the work is the same
	}{
		{"the same", []string{plainJob}, []string{plainJob}, ""},
		{"a flush for each write", []string{plainJob}, []string{syncJob}, "fsync was not set and is 1"},
		{"none any more", []string{syncJob}, []string{plainJob}, "fsync was 1 and is not set"},
		{"buffered", []string{plainJob}, []string{strings.Replace(plainJob, `"direct":"1"`, `"direct":"0"`, 1)}, "direct was 1 and is 0"},
		{"another mix", []string{job("rwmixread", "70")}, []string{job("rwmixread", "30")}, "rwmixread was 70 and is 30"},
		{"another engine", []string{job("ioengine", "libaio")}, []string{job("ioengine", "io_uring")}, "ioengine was libaio and is io_uring"},
		{"a job beside it", []string{plainJob}, []string{job("2.rw", "read")}, "2.rw was not set and is read"},
		{"of another kind", []string{`{"command":"dd","kind":"command"}`}, []string{`{"command":"cp","kind":"command"}`}, "command was dd and is cp"},
		{"not the same in all trials", []string{plainJob}, []string{plainJob, syncJob}, "fsync was not set and is 1, not set"},
		{"options that a text does not show", []string{plainJob}, []string{textJob}, "direct was 1 and is not recorded in B"},
		{"the other way round", []string{textJob}, []string{plainJob}, "direct is 1 and is not recorded in A"},
		{"two texts", []string{textJob}, []string{textJob}, ""},
		{"facts of another size", []string{"facts:bs=4k rw=randread"}, []string{"facts:bs=64k rw=randread"}, "bs was 4k and is 64k"},
		{"the same facts", []string{"facts:bs=4k rw=randread"}, []string{"facts:bs=4k rw=randread"}, ""},
		{"a job that is none", []string{"{"}, []string{plainJob}, "job was { and is not set"},
	} {
		cmp := Of(jobRun("w", reporttest.Flat100, c.a...), jobRun("w", reporttest.Flat50, c.b...), Options{FailOn: FailOnWorse})
		r := cmp.row(t, "b", "w")
		i := slices.IndexFunc(r.Findings, func(f iotax.Finding) bool { return f.Rule == "work-differs" })
		if c.want == "" {
			if i >= 0 || r.Verdict != stat.Worse || r.Loss == nil {
				t.Errorf("%s: %q, %v", c.name, r.Verdict, r.Findings)
			}
			continue
		}
		if r.Verdict != stat.NotRanked || r.Loss != nil || !cmp.Failed || i < 0 || !strings.Contains(r.Findings[i].Evidence, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.name, r.Verdict, r.Findings, c.want)
		}
		if a, b := Work(cmp.A, report.Cell{Target: "b", Workload: "w"}), Work(cmp.B, report.Cell{Target: "b", Workload: "w"}); a == b {
			t.Errorf("%s: a trend has both: %s", c.name, a)
		}
	}
}

// Workloads that do the same work are compared even if their names differ. If both the work and the names differ, they
// are not compared.
func TestRenamedWorkload(t *testing.T) {
	c := Of(jobRun("4k write", reporttest.Flat100, plainJob), jobRun("randwrite-4k", reporttest.Flat50, plainJob), Options{})
	if r := c.row(t, "b", "4k write"); r.Verdict != stat.Worse || r.Loss == nil || len(c.OnlyA)+len(c.OnlyB) > 0 {
		t.Errorf("%q, loss %v, only in A %v, only in B %v", r.Verdict, r.Loss, c.OnlyA, c.OnlyB)
	}
	if !slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.A == "4k write" && d.B == "randwrite-4k" }) || len(c.Findings) > 0 {
		t.Errorf("%+v, %v", c.Differences, c.Findings)
	}
	c = Of(jobRun("4k write", reporttest.Flat100, plainJob), jobRun("randwrite-4k", reporttest.Flat50, syncJob), Options{})
	if len(c.Rows) > 0 || len(c.OnlyA) != 2 || len(c.OnlyB) != 2 {
		t.Errorf("other work under another name: %+v", c.Rows)
	}
}

// If a value of a cell is 0, the cell has no ratio and is not comparable. It fails the gate only if A's values are all
// positive.
func TestBecameZero(t *testing.T) {
	zeros := append([]float64{0}, reporttest.Flat50[1:]...)
	for _, x := range []struct {
		a, b []float64
		lost bool
	}{{reporttest.Flat100, zeros, true}, {zeros, zeros, false}} {
		a, at := reporttest.Small(iotax.Up, reporttest.Flat100, x.a)
		b, bt := reporttest.Small(iotax.Up, reporttest.Flat100, x.b)
		c := Of(report.New(a, at), report.New(b, bt), Options{FailOn: FailOnWorse})
		if r := c.row(t, "b", "w"); r.Verdict != stat.NotComparable || r.Lost != x.lost || c.Failed != x.lost {
			t.Errorf("%v to %v: %q, lost %v, failed %v", x.a[0], x.b[0], r.Verdict, r.Lost, c.Failed)
		}
	}
}

func TestTooFewTrials(t *testing.T) {
	five := reporttest.Flat50[:5]
	run := func(n int, values []float64) *report.Report {
		run, trials := reporttest.Small(iotax.Up, reporttest.Flat100[:n], values)
		return report.New(run, trials)
	}
	for _, by := range []By{ByValue, ByLoss} {
		c := Of(run(6, reporttest.Flat100), run(5, five), Options{By: by, FailOn: FailOnWorse})
		r := c.row(t, "b", "w")
		if r.Verdict != stat.TooFew || r.Judged(by).Bounded() || !hasRule(r.Findings, "few-trials") || !r.Lost || !c.Failed {
			t.Errorf("%s: %q %+v, %v, lost %v", by, r.Verdict, r.Judged(by), r.Findings, r.Lost)
		}
		// A cell without a verdict in A is not lost in B, but a gate that could not judge anything fails.
		c = Of(run(5, reporttest.Flat100[:5]), run(5, five), Options{By: by, FailOn: FailOnWorse})
		if r := c.row(t, "b", "w"); r.Verdict != stat.TooFew || r.Lost || !c.Failed || c.Reasons[0] != "nothing could be compared" {
			t.Errorf("%s, both: %q, lost %v, %v", by, r.Verdict, r.Lost, c.Reasons)
		}
		if !strings.Contains(c.Answer, "more rounds") {
			t.Errorf("%s: %s", by, c.Answer)
		}
	}
}

// An emulated guest is not ranked against an accelerated one.
func TestEmulatedAgainstAccelerated(t *testing.T) {
	guest := func(accel string, values []float64) *report.Report {
		run, trials := reporttest.Small(iotax.Up, reporttest.Flat100, values)
		run.Targets[1].Facts = map[string]string{"accel": accel}
		return report.New(run, trials)
	}
	tcg, kvm := guest("tcg", reporttest.Flat50), guest("kvm", reporttest.Flat100)
	for _, by := range []By{ByValue, ByLoss} {
		c := Of(tcg, kvm, Options{By: by, FailOn: FailOnWorse})
		if r := c.row(t, "b", "w"); r.Verdict != stat.NotRanked || !hasRule(r.Findings, "emulated") || !c.Failed {
			t.Errorf("%s: %q, %v", by, r.Verdict, r.Findings)
		}
		if b := BannerOfAll([]*Comparison{c}); !strings.HasPrefix(b, "In A: Guests were EMULATED (QEMU TCG): do not publish. KVM") {
			t.Errorf("banner %q", b)
		}
		c = Of(tcg, guest("tcg", reporttest.Flat100), Options{By: by})
		if r := c.row(t, "b", "w"); r.Verdict != stat.Better || !strings.HasPrefix(BannerOfAll([]*Comparison{c}), "In A and B: ") {
			t.Errorf("%s, both emulated: %q, %v, %s", by, r.Verdict, r.Findings, BannerOfAll([]*Comparison{c}))
		}
	}
	if c := Of(kvm, kvm, Options{}); BannerOfAll([]*Comparison{c}) != "" || kvm.Banner() != "" {
		t.Errorf("neither is emulated: %q", BannerOfAll([]*Comparison{c}))
	}
	cell := report.Cell{Target: "b", Workload: "w"}
	if Work(tcg, cell) == Work(kvm, cell) {
		t.Error("a trend has both")
	}
}

// The starts of a run with several starts are its sample, because the rounds of a start resemble each other. With two
// to five starts there is no verdict.
func TestStartsAreTheSample(t *testing.T) {
	run := func(starts int, slow float64) *report.Report {
		var base, values []float64
		for i := range 12 {
			base, values = append(base, 100+float64(i%3)), append(values, 50+float64(i%2))
			if i/2%3 == 0 {
				values[i] *= slow
			}
		}
		run, trials := reporttest.Small(iotax.Up, base, values)
		for _, x := range trials {
			x.StartIndex = stat.StartOf(x.Round, 12, starts)
		}
		return report.New(run, trials)
	}
	for _, by := range []By{ByValue, ByLoss} {
		row := func(a, b int) Change { return Of(run(a, .8), run(b, .9), Options{By: by}).row(t, "b", "w") }
		of := func(a, b int) *stat.Change {
			r := row(a, b)
			return r.Judged(by)
		}
		rounds, starts := of(1, 1), of(6, 6)
		if rounds.N != 12 || starts.N != 6 || !(starts.HalfWidth() > 1.3*rounds.HalfWidth()) {
			t.Errorf("%s: rounds: %+v, starts: %+v", by, rounds, starts)
		}
		if one := of(6, 1); one.N != 6 || !(one.HalfWidth() > rounds.HalfWidth()) {
			t.Errorf("%s: six starts and one: %+v", by, one)
		}
		unit := map[By]string{ByValue: "trials", ByLoss: "pairs"}[by]
		for few, want := range map[[2]int]string{
			{6, 3}: "need 6 starts on either side; there are 6 in A and 3 in B",
			{1, 3}: "need 6 " + unit + " or starts on either side; there are 12 " + unit + " in A and 3 starts in B",
		} {
			if r := row(few[0], few[1]); r.Verdict != stat.TooFew || !r.Lost || !strings.Contains(r.Findings[0].Evidence, want) || r.Findings[0].Hint != "start at least 6 times (`--restarts 6`)" {
				t.Errorf("%s: %v starts: %q, %+v", by, few, r.Verdict, r.Findings)
			}
		}
	}
}
