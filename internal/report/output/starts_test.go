package output

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/expect"
	"iotax/internal/report"
	"iotax/internal/report/export"
	"iotax/internal/report/text"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

// If values differ between starts of the machines, the intervals of the table, the layers and the expectations are
// wider. If values agree between too few starts, there is no verdict.
func TestStarts(t *testing.T) {
	made := func(starts int, faster float64, change ...func(*iotax.Run, []*iotax.Trial)) *report.Report {
		run, trials := reporttest.RunOf(12, nil,
			reporttest.CellSpec{Target: "disk", Workload: "4k read", Values: map[string]float64{"read.iops": 1000}},
			reporttest.CellSpec{Target: "guest", Workload: "4k read", Values: map[string]float64{"read.iops": 800}})
		run.Presentation = &iotax.Presentation{Layers: [][]string{{"disk", "guest"}}, Expect: []iotax.Expectation{{Text: "4k read: read.iops < 95% of baseline"}}}
		for _, x := range trials {
			x.StartIndex = 1
			if starts > 0 {
				x.StartIndex = stat.StartOf(x.Round, 12, starts)
			}
			if x.Target == "guest" && x.Round%12 >= 8 { // the values of the last starts differ
				x.Values[0].Value *= faster
			}
		}
		for _, f := range change {
			f(run, trials)
		}
		return report.New(run, trials)
	}
	details := func(r *report.Report) string {
		var b bytes.Buffer
		if err := Text(&b, r, true, text.Options{Width: 400}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	one, six, three, agree := made(0, math.Exp(.25)), made(6, math.Exp(.25)), made(3, math.Exp(.25)), made(3, 1)
	if s := details(one); strings.Contains(s, "between starts") || strings.Contains(s, "started once") { // both targets are directories of this host
		t.Errorf("a run with one start:\n%s", s)
	}
	// If another start could give other ratios, each form of the report mentions the single start exactly once.
	for _, c := range []struct {
		what, machine, fact, value string // of the second target
		opened                     string // time to open a machine for each trial of that target; "" if trials share a machine
		shards                     string // number of shards, each with its own machines; "" for an undivided run
	}{
		{"machines", "guest", "", "", "", ""},
		{"servers", "host", iotax.FactNBD, "qemu-nbd", "", ""},
		{"servers", "host", iotax.FactShareType, "nfs", "", ""},
		{"", "host", iotax.FactFilesystem, "ext4", "", ""},
		{"", "guest", "", "", "3s", ""},
		{"", "guest", "", "", "", "2"},
	} {
		r := made(0, 1, func(run *iotax.Run, trials []*iotax.Trial) {
			run.Environment = map[string]string{"shards": c.shards}
			run.Targets[0].Machine, run.Targets[1].Machine, run.Targets[1].Facts = "host", c.machine, map[string]string{c.fact: c.value}
			for _, t := range trials {
				if t.Facts = map[string]string{}; t.Target == "guest" && c.opened != "" {
					t.Facts[iotax.FactMachineOpened] = c.opened
				}
			}
		})
		var short, page bytes.Buffer
		if err := errors.Join(Text(&short, r, false, text.Options{Width: 400}), HTML(&page, r)); err != nil {
			t.Fatal(err)
		}
		for form, out := range map[string]string{"short": short.String(), "details": details(r), "page": page.String()} {
			n := strings.Count(strings.ToLower(out), c.what+" started once")
			if (n == 1) != (c.what != "") || n > 1 {
				t.Errorf("%+v: %s: %d times:\n%s", c, form, n, out)
			}
		}
	}
	row := func(r *report.Report) report.Row { return *r.Sections[0].Row("guest") }
	if a, b := row(one).Ratio, row(six).Ratio; a.Starts != nil || b.Starts == nil || b.Starts.Starts != 6 || !(b.HalfWidth() > 1.1*a.HalfWidth()) || b.P <= a.P {
		t.Errorf("one start: %+v, six: %+v", a, b)
	}
	if a, b := one.Waterfalls[0].Total.Ratio, six.Waterfalls[0].Total.Ratio; !(b.HalfWidth() > 1.1*a.HalfWidth()) {
		t.Errorf("layers: one start %v, six %v", a, b)
	}
	if a, b := one.Expected[0].Value, six.Expected[0].Value; !(b.HalfWidth() > 1.1*a.HalfWidth()) {
		t.Errorf("expectation: one start %v, six %v", a, b)
	}
	if a, b, c := row(one).Value, row(six).Value, row(agree).Value; !(b.HalfWidth() > 1.1*a.HalfWidth()) || c.Bounded() || c.N != 12 {
		t.Errorf("values: one start %v, six %v, three that agree %v", a, b, c)
	}
	s := details(six)
	if !strings.Contains(s, "6 starts; standard deviation of the ratio: between starts 14 %, between rounds ") || !strings.Contains(s, "(guest / 4k read).") || strings.Contains(s, "may share a mode") {
		t.Errorf("six starts:\n%s", s)
	}
	if x := row(three); !x.Ratio.Bounded() || x.Ratio.Starts.Agree || !(x.Ratio.HalfWidth() > 2*row(six).Ratio.HalfWidth()) || strings.Contains(details(three), "may share a mode") {
		t.Errorf("three starts that differ: %+v", x.Ratio)
	}
	if x, e := row(agree), agree.Expected[0]; x.Verdict != stat.TooFew || x.Ratio.Bounded() || !x.Ratio.Starts.Agree || e.Outcome != expect.Undecided || e.Why != "too few starts" {
		t.Errorf("three starts that agree: %+v, %+v", x, e)
	}
	if x := row(made(0, 1)); x.Verdict != stat.Worse {
		t.Errorf("the same rounds of one start: %+v", x)
	}
	value := func(run *iotax.Run, _ []*iotax.Trial) {
		run.Presentation.Expect = []iotax.Expectation{{Text: "4k read: read.iops > 10 at guest"}}
	}
	for starts, want := range map[int]report.Expected{1: {Outcome: expect.Met}, 3: {Outcome: expect.Undecided, Why: "too few starts"}, 6: {Outcome: expect.Met}, 12: {Outcome: expect.Met}} {
		if x := made(starts, 1, value).Expected[0]; x.Outcome != want.Outcome || x.Why != want.Why {
			t.Errorf("an expectation of a value after %d starts: %+v", starts, x)
		}
	}
	var short bytes.Buffer
	if err := Text(&short, agree, false, text.Options{Width: 400}); err != nil {
		t.Fatal(err)
	}
	for out, wants := range map[string][]string{
		details(agree): {"Fewer than 6 starts that agree may share a mode, so they have no verdict.", "Too few starts for a verdict: 1 of 1", "--restarts 6", "3 starts that agree may share a mode; a verdict needs 6 starts"},
		short.String(): {"No verdict yet against disk.", "Too few for a verdict: 3 starts of 6.", "(1.2× slower)"},
	} {
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	// The report names the fact that differs between the two speeds. It does not name facts that differ between all
	// starts or within a start.
	facts := func(run *iotax.Run, trials []*iotax.Trial) {
		for _, t := range trials {
			t.Facts = map[string]string{"a.same": "1", "b.start": strconv.Itoa(t.StartIndex), "c.trial": strconv.Itoa(t.Seq), "numa.node": map[bool]string{true: "1", false: "0"}[t.StartIndex >= 5]}
		}
	}
	if s := details(made(6, math.Exp(.25), facts)); !strings.Contains(s, "There are 2 speeds, in 4 and 2 starts (the worst first); they differ in numa.node: 0, 1.") {
		t.Errorf("facts of the speeds:\n%s", s)
	}
	at := func(run *iotax.Run, _ []*iotax.Trial) {
		for i := range run.Targets {
			for start := range 6 {
				run.Targets[i].Starts = append(run.Targets[i].Starts, map[string]string{"boot": strconv.Itoa(start), "elsewhere": []string{"", "here"}[start/4], "kernel.file": []string{"old", "new"}[start/4]})
			}
		}
	}
	if s := details(made(6, math.Exp(.25), at)); !strings.Contains(s, "they differ in kernel.file: old, new.") {
		t.Errorf("facts of the starts:\n%s", s)
	}
	if !strings.Contains(s, "There are 2 speeds, in 4 and 2 starts (the worst first).") {
		t.Errorf("no facts:\n%s", s)
	}
	if s := details(made(6, 1)); strings.Contains(s, "speeds") {
		t.Errorf("six starts that agree:\n%s", s)
	}
	var b bytes.Buffer
	if err := export.JSON(&b, six); err != nil || !strings.Contains(b.String(), `"between_starts"`) {
		t.Errorf("%v\n%s", err, b.String())
	}
}
