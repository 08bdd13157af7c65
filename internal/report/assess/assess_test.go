package assess

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/rules"
	"iotax/internal/testenv/reporttest"
)

// A target without a reference does not count as a comparison.
func TestAnswerOfSomeTargets(t *testing.T) {
	run, trials := reporttest.SomeTargets()
	r := report.New(run, trials)
	if got := Of(r).Answer(); got != "read on guest is 2.0× slower than on disk." {
		t.Error(got)
	}
	run.Workloads, run.Targets = run.Workloads[1:], run.Targets[2:]
	if got := Of(report.New(run, trials[:0:0])).Answer(); got != "Nothing was measured." {
		t.Error(got)
	}
	run.Baseline = "disk"
	if got := Of(report.New(run, slices.DeleteFunc(trials, func(x *iotax.Trial) bool { return x.Target != "s3" }))).Answer(); got != "No two targets did the same work: nothing can be compared." {
		t.Error(got)
	}
}

// says returns the sentences of kind k.
func says(r *report.Report, k SentenceKind) []Sentence {
	var out []Sentence
	for _, s := range Of(r).Sentences {
		if s.Kind == k {
			out = append(out, s)
		}
	}
	return out
}

// An assessCase is a run and the expected sentence of its assessment.
type assessCase struct {
	rounds  int // 0 means 8
	cells   []reporttest.CellSpec
	change  func(*iotax.Run, []*iotax.Trial)
	kind    SentenceKind // of the expected sentence; "" means any sentence (causeCases) or the answer (answerCases)
	want    string       // a part of that sentence; if kind is set, "" means that no sentence has that kind
	without string       // in causeCases: must not occur in any sentence except the sum
}

func (c assessCase) report() *report.Report {
	run, trials := reporttest.RunOf(cmp.Or(c.rounds, 8), reporttest.ReadMetrics, c.cells...)
	if c.change != nil {
		c.change(run, trials)
	}
	return report.New(run, trials)
}

// causeCases returns cases for the causes in sentences.
func causeCases() map[string]assessCase {
	disk := reporttest.Reads("disk", 10000, nil)
	finding := func(target string, iops float64, rule rules.Rule) reporttest.CellSpec {
		return reporttest.Reads(target, iops, func(c *reporttest.CellSpec) { c.Findings = []iotax.Finding{reporttest.Warn(rule)} })
	}
	line := func(rate string) reporttest.CellSpec {
		return reporttest.Reads("export", 1000, func(c *reporttest.CellSpec) { c.Facts = map[string]string{"line.rate": rate} })
	}
	network := reporttest.CellSpec{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 1000 * 4096 / .93}}
	replicated := func(metric string) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) {
			r.Workloads[0].Metrics, r.Workloads[1].Kind = []string{metric}, "network"
			r.Targets[1].Facts = map[string]string{"s3.copies": "3, of which 2 must have a write"}
			reporttest.Against(r, "three", "s3", "tcp")
		}
	}
	with := func(iops float64, rule rules.Rule, name string, value float64) reporttest.CellSpec {
		c := finding("share", iops, rule)
		c.Values[name] = value
		return c
	}
	length := func(_ *iotax.Run, ts []*iotax.Trial) {
		for _, x := range ts {
			x.Length = 10 * time.Second
		}
	}
	reached := func(rule rules.Rule, clients string) reporttest.CellSpec {
		return reporttest.Reads("share", 1000, func(c *reporttest.CellSpec) {
			c.Facts = map[string]string{"iodepth": "32", "numjobs": "1", "clients": clients}
			c.Values["read.latency.mean"] = .032 // 32 I/Os in flight at 1000/s
			c.Findings = []iotax.Finding{reporttest.Warn(rule)}
		})
	}
	depth := func(c *reporttest.CellSpec) {
		c.Facts = map[string]string{"iodepth": "8", "numjobs": "4"}
		c.Values["read.latency.mean"] = .001 // 1.0 I/Os in flight at 1000/s
	}
	return map[string]assessCase{
		"line rate": {cells: []reporttest.CellSpec{disk, line(fmt.Sprint(1000 * 4096 / .93))}, want: "; it is at 93 % of the line rate, so the network is the limit"},
		"line rate of a target": {cells: []reporttest.CellSpec{disk, reporttest.Reads("export", 1000, nil)}, want: "; it is at 93 % of the line rate, so the network is the limit",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Targets[1].Facts = map[string]string{"line.rate": fmt.Sprint(1000 * 4096 / .93)}
			}},
		"measured network": {cells: []reporttest.CellSpec{disk, reporttest.Reads("export", 1000, nil), network}, want: "; it is at 93 % of the measured line rate (tcp), so the network is the limit",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Workloads[1].Kind = "network"
				reporttest.Against(r, "export", "disk", "tcp")
			}},
		"other work of no network": {cells: []reporttest.CellSpec{disk, reporttest.Reads("export", 1000, nil), network}, without: "limit",
			change: func(r *iotax.Run, _ []*iotax.Trial) { reporttest.Against(r, "export", "disk", "tcp") }},
		"line not used":        {cells: []reporttest.CellSpec{disk, line("41000000")}, want: "; it is at 10 % of the line rate, so the network is not the limit"},
		"line half used":       {cells: []reporttest.CellSpec{disk, line(fmt.Sprint(1000 * 4096 / .7))}, without: "network"},
		"faster than the line": {cells: []reporttest.CellSpec{disk, line(fmt.Sprint(1000 * 4096 / 1.2))}, without: "limit"},
		"copies on the line": {cells: []reporttest.CellSpec{{Target: "s3", Workload: "put", Values: map[string]float64{"upload.bandwidth": 1000}}, {Target: "three", Workload: "put", Values: map[string]float64{"upload.bandwidth": 460}}, reporttest.CellSpec{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 1000}}},
			want: "; with the 2 copies that the server sends on it is at 92 % of the measured line rate (tcp), so the network is the limit", without: "not the limit", change: replicated("upload.bandwidth")},
		"reads are not sent on": {cells: []reporttest.CellSpec{{Target: "s3", Workload: "put", Values: map[string]float64{"download.bandwidth": 1000}}, {Target: "three", Workload: "put", Values: map[string]float64{"download.bandwidth": 460}}, reporttest.CellSpec{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 1000}}},
			want: "; it is at 46 % of the measured line rate (tcp), so the network is not the limit", without: "copies", change: replicated("download.bandwidth")},
		"no line": {cells: []reporttest.CellSpec{disk, line("")}, without: "line"},
		"blocking": {cells: []reporttest.CellSpec{disk, reporttest.Reads("share", 1000, func(c *reporttest.CellSpec) {
			depth(c)
			c.Findings = []iotax.Finding{reporttest.Warn(rules.BlockingSubmit)}
		})}, want: "; submission blocks: only 1 of 32 I/Os were in flight"},
		"blocking, depth unknown": {cells: []reporttest.CellSpec{disk, finding("share", 1000, rules.BlockingSubmit)}, without: "submission"},
		"blocking on both":        {cells: []reporttest.CellSpec{finding("disk", 10000, rules.BlockingSubmit), finding("share", 1000, rules.BlockingSubmit)}, without: "submission"},
		"depth": {cells: []reporttest.CellSpec{disk, reporttest.Reads("share", 1000, func(c *reporttest.CellSpec) {
			depth(c)
			c.Findings = []iotax.Finding{reporttest.Warn(rules.DepthNotReached)}
		})}, want: "; only 1 of 32 I/Os were in flight (Little's law)"},
		"blocking, but deep enough":        {cells: []reporttest.CellSpec{disk, reached(rules.BlockingSubmit, "1")}, want: "4k read is", without: "in flight"},
		"not reached, but deep enough":     {cells: []reporttest.CellSpec{disk, reached(rules.DepthNotReached, "1")}, want: "4k read is", without: "in flight"},
		"each of four clients has a share": {cells: []reporttest.CellSpec{disk, reached(rules.DepthNotReached, "4")}, want: "; only 8.1 of 32 I/Os were in flight (Little's law)"},
		"depth, no finding":                {cells: []reporttest.CellSpec{disk, reporttest.Reads("share", 1000, depth)}, without: "Little"},
		"generator":                        {cells: []reporttest.CellSpec{disk, finding("share", 1000, rules.GeneratorBound)}, want: "; its load generator had no more CPU, so the CPU is the limit"},
		"generator of the baseline": {cells: []reporttest.CellSpec{finding("disk", 10000, rules.GeneratorBound), reporttest.Reads("share", 1000, nil)},
			want: "; disk was itself limited by its CPU, so the loss may be larger"},
		"generator of both": {cells: []reporttest.CellSpec{finding("disk", 10000, rules.GeneratorBound), finding("share", 1000, rules.GeneratorBound)}, want: "4k read is", without: "CPU"},
		"near the ceiling": {cells: []reporttest.CellSpec{disk, reporttest.Reads("share", 6000, nil)}, want: "; disk was itself limited by its CPU, so the loss may be larger",
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Calibration = &iotax.Calibration{NullIOPS: 15000} }},
		"at the ceiling itself": {cells: []reporttest.CellSpec{disk, reporttest.Reads("share", 6000, nil)}, want: "; it is near the limit of the CPU",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Calibration = &iotax.Calibration{NullIOPS: 11000}
				r.Targets[0].Facts = map[string]string{"machine.kernel": "6.1"} // on another machine, so this host's limit does not apply
			}},
		"both at the ceiling": {cells: []reporttest.CellSpec{disk, reporttest.Reads("share", 6000, nil)}, want: "4k read is", without: "CPU",
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Calibration = &iotax.Calibration{NullIOPS: 11000} }},
		"far from the ceiling": {cells: []reporttest.CellSpec{disk, reporttest.Reads("share", 6000, nil)}, without: "CPU",
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Calibration = &iotax.Calibration{NullIOPS: 1e6} }},
		"steal":           {cells: []reporttest.CellSpec{disk, with(7000, rules.Steal, "cpu.host.steal", .2)}, want: "; 20 % of its CPU time was stolen"},
		"steal of little": {cells: []reporttest.CellSpec{disk, with(1000, rules.Steal, "cpu.host.steal", .03)}, without: "stolen"},
		"steal of both":   {cells: []reporttest.CellSpec{finding("disk", 10000, rules.Steal), finding("share", 1000, rules.Steal)}, want: "4k read is", without: "stolen"},
		"throttle":        {cells: []reporttest.CellSpec{disk, finding("share", 1000, rules.ThrottleStep)}, want: "; a rate limit began during its trials"},
		"drain":           {cells: []reporttest.CellSpec{disk, with(8000, rules.DrainCounted, "duration", 12.5)}, want: "; the end of its queue was counted as time, so it looks 20 % slower than it is", change: length},
		"drain of little": {cells: []reporttest.CellSpec{disk, with(1000, rules.DrainCounted, "duration", 10.2)}, without: "queue", change: length},
		"drain, bandwidth": {cells: []reporttest.CellSpec{disk, with(8000, rules.DrainCounted, "duration", 12.5)}, want: "4k read is", without: "queue",
			change: func(r *iotax.Run, ts []*iotax.Trial) {
				length(r, ts)
				r.Workloads[0].Metrics = []string{"read.bandwidth"}
			}},
		"few trials said so": {cells: []reporttest.CellSpec{disk, finding("share", 1000, rules.Steal)}, without: "stolen",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts[:len(ts)-4] {
					x.Findings = nil
				}
			}},
		"cache, gain":                  {cells: []reporttest.CellSpec{disk, finding("share", 20000, rules.CacheServed)}, want: "; a cache answered a part"},
		"writes, gain":                 {cells: []reporttest.CellSpec{disk, finding("share", 20000, rules.WriteAbsorbed)}, want: "; a cache took a part of the writes"},
		"host, gain":                   {cells: []reporttest.CellSpec{disk, finding("share", 20000, rules.DeviceDidLess)}, want: "; the host's cache did a part of it"},
		"baseline held":                {cells: []reporttest.CellSpec{finding("disk", 10000, rules.GeneratorBound), reporttest.Reads("share", 20000, nil)}, want: "; disk was limited by the CPU of its load generator"},
		"both held":                    {cells: []reporttest.CellSpec{finding("disk", 10000, rules.GeneratorBound), finding("share", 20000, rules.GeneratorBound)}, want: "4k read is", without: "CPU"},
		"a loss is no work of a cache": {cells: []reporttest.CellSpec{disk, finding("share", 1000, rules.CacheServed)}, without: "answered a part"},
		"silence":                      {cells: []reporttest.CellSpec{disk, reporttest.Reads("share", 1000, nil)}, without: ";"},
	}
}

// A cause is reported if a check found it. It is not reported if the check did not find it, found it in only a few
// trials, or found it on the reference too.
func TestCauses(t *testing.T) {
	for name, c := range causeCases() {
		r := c.report()
		if all := Of(r).Sentences; !slices.ContainsFunc(all, func(s Sentence) bool { return strings.Contains(s.Text, c.want) }) {
			t.Errorf("%s: %+v, want %q in it", name, all, c.want)
		}
		for _, s := range Of(r).Sentences {
			if c.without != "" && s.Kind != SaysSum && strings.Contains(s.Text, c.without) {
				t.Errorf("%s: %q, with %q", name, s.Text, c.without)
			}
			for _, cause := range s.Causes {
				if !strings.Contains(s.Text, cause.Text) || cause.Rule == "" {
					t.Errorf("%s: %q does not tell %+v", name, s.Text, cause)
				}
			}
		}
	}
}

// Workloads whose losses have the same rule but different causes do not share a sentence.
func TestCausesOfTwoWorkloads(t *testing.T) {
	cell := func(target, workload string, iops float64, bound bool) reporttest.CellSpec {
		return reporttest.Reads(target, iops, func(c *reporttest.CellSpec) {
			if c.Workload = workload; bound {
				c.Findings = []iotax.Finding{reporttest.Warn(rules.GeneratorBound)}
			}
		})
	}
	r := assessCase{cells: []reporttest.CellSpec{cell("disk", "one", 10000, false), cell("share", "one", 1000, true),
		cell("disk", "two", 10000, true), cell("share", "two", 2000, false)}}.report()
	var got []string
	for _, s := range says(r, SaysLoss) {
		for _, c := range s.Causes {
			got = append(got, fmt.Sprint(len(s.Figures), " ", c.Text))
		}
	}
	want := []string{"1 its load generator had no more CPU, so the CPU is the limit", "1 disk was itself limited by its CPU, so the loss may be larger"}
	if !slices.Equal(got, want) {
		t.Errorf("causes %q, want %q", got, want)
	}
}

// sentenceCases returns cases for the sentences after the answer.
func sentenceCases() map[string]assessCase {
	disk, loss := reporttest.Reads("disk", 10000, nil), reporttest.Reads("a", 5000, nil)
	bad := iotax.Finding{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 %"}
	cond := func(f iotax.Finding) reporttest.CellSpec {
		return reporttest.Reads("b", 5000, func(c *reporttest.CellSpec) { c.Findings = []iotax.Finding{f} })
	}
	invalid := func(rule string) reporttest.CellSpec {
		return cond(iotax.Finding{Rule: rule, Severity: iotax.Invalid, Evidence: "seen"})
	}
	noisy := func(target string, sd float64) reporttest.CellSpec {
		return reporttest.Reads(target, 5000, func(c *reporttest.CellSpec) { c.Noise = sd })
	}
	clone := func(first, second float64) reporttest.CellSpec {
		return reporttest.CellSpec{Target: "a", Workload: "clone", Values: map[string]float64{"volume.first.duration": first, "volume.second.duration": second}}
	}
	s3 := func(bandwidth float64) []reporttest.CellSpec {
		return []reporttest.CellSpec{disk, loss, {Target: "s3", Workload: "get", Values: map[string]float64{"download.bandwidth": bandwidth}},
			{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 1e6}}}
	}
	line := func(r *iotax.Run, _ []*iotax.Trial) {
		reporttest.Against(r, "s3", "tcp")
		for i := range r.Workloads {
			if r.Workloads[i].Name == "network" {
				r.Workloads[i].Kind = "network"
			}
		}
	}
	s3put := func(bandwidth float64) []reporttest.CellSpec {
		out := s3(bandwidth)
		out[2].Values = map[string]float64{"upload.bandwidth": bandwidth}
		return out
	}
	copied := func(copies string) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, ts []*iotax.Trial) {
			line(r, ts)
			r.Targets[2].Facts = map[string]string{"s3.copies": copies}
		}
	}
	durability := func(d iotax.Durability) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[2].Durability = d }
	}
	notMeasured := func(workload string) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) {
			r.Targets[1].Findings = []iotax.Finding{{Rule: "cell-not-measured", Severity: iotax.Warning, Subject: iotax.AboutCell(r.Targets[1].Name, workload), Evidence: "nbdcopy is missing", Hint: "install it"}}
		}
	}
	both := func(target string, read, write float64) []reporttest.CellSpec {
		return []reporttest.CellSpec{reporttest.Reads(target, read, nil), {Target: target, Workload: "4k write", Values: map[string]float64{"write.iops": write}}}
	}
	parts := func(noise float64, mibs ...float64) []reporttest.CellSpec {
		out := []reporttest.CellSpec{disk, loss}
		for i, x := range mibs {
			part := fmt.Sprintf("%dMiB", 8<<i)
			out = append(out, reporttest.CellSpec{Target: "s3", Workload: "multipart part=" + part, Values: map[string]float64{"upload.bandwidth": x * (1 << 20)}, Noise: noise,
				Facts: map[string]string{"size": "64MiB", "count": "1", "part": part, "concurrency": "4"}})
		}
		return out
	}
	volume := func(lazyFirst float64, size string) []reporttest.CellSpec {
		one := func(name, lazy, size string, first, whole, steady float64) reporttest.CellSpec {
			return reporttest.CellSpec{Target: "export", Workload: name, Values: map[string]float64{"first.io": first, "duration": whole, "steady.read.bandwidth": steady}, Facts: map[string]string{"lazy": lazy, "size": size}}
		}
		return []reporttest.CellSpec{disk, loss, one("copy", "no", "1", 3, 3, 1e9), one("overlay", "yes", size, lazyFirst, 6, 5e8)}
	}
	kinds := func(name, kind string) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) {
			for i := range r.Workloads {
				if strings.HasPrefix(r.Workloads[i].Name, name) || name == "*" && r.Workloads[i].Name != "4k read" {
					r.Workloads[i].Kind = kind
					if kind == "materialise" {
						r.Workloads[i].Metrics = []string{"duration", "first.io", "steady.read.bandwidth"}
					}
				}
			}
		}
	}
	return map[string]assessCase{
		"loss beside the answer": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 2000, nil)}, kind: SaysLoss, want: "a: 4k read is 2.0× slower than on disk."},
		"losses of a target":     {cells: slices.Concat(both("disk", 10000, 8000), both("b", 2000, 1000), both("a", 5000, 4800)), kind: SaysLoss, want: "a: 4k read is 2.0× slower than on disk and 4k write 1.7× slower [1.6–1.7]."},
		"the answer's target":    {cells: slices.Concat(both("disk", 10000, 8000), both("a", 5000, 4800)), kind: SaysLoss, want: "a: 4k read is 2.0× slower than on disk and 4k write 1.7× slower."},
		"no loss":                {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 10000, nil)}, kind: SaysLoss},
		"gain":                   {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 20000, nil)}, kind: SaysGain, want: "b: 4k read is 2.0× faster"},
		"no gain":                {cells: []reporttest.CellSpec{disk, loss}, kind: SaysGain},
		"same":                   {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 10000, nil)}, kind: SaysSame, want: "No difference, within ± 5 %: b / 4k read."},
		"all the same":           {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 10000, nil)}, kind: SaysSame, want: "No difference found: the comparison with disk is within ± 5 %."},
		"not the same":           {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 9000, nil)}, kind: SaysSame},
		"invalid":                {cells: []reporttest.CellSpec{disk, loss, cond(bad)}, kind: SaysInvalid, want: "Invalid: b / 4k read: cached."},
		"invalid baseline":       {cells: []reporttest.CellSpec{reporttest.Reads("disk", 10000, func(c *reporttest.CellSpec) { c.Findings = []iotax.Finding{bad} }), loss, reporttest.Reads("b", 2000, nil)}, kind: SaysInvalid, want: "Invalid: disk / 4k read: cached."},
		"writes absorbed":        {cells: []reporttest.CellSpec{disk, loss, invalid("write-absorbed")}, kind: SaysInvalid, want: "Invalid: b / 4k read: cached writes."},
		"above the line":         {cells: []reporttest.CellSpec{disk, loss, invalid("line-rate-exceeded")}, kind: SaysInvalid, want: "Invalid: b / 4k read: cached: faster than the line to the storage."},
		"another error":          {cells: []reporttest.CellSpec{disk, loss, invalid("fio-error")}, kind: SaysInvalid, want: "Invalid: b / 4k read: fio-error."},
		"many discarded": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysInvalid, want: "more than 20 % of the trials are discarded.",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts {
					if x.Target == "b" && x.Round < 3 {
						x.Discarded = "clock-insane: 3 %"
					}
				}
			}},
		"no logarithm": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysInvalid, want: "a value has no logarithm.",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts {
					if x.Target == "b" && x.Round == 3 {
						x.Values[0].Value, x.Values[1].Value = 0, 0
					}
				}
			}},
		"only a warning": {cells: []reporttest.CellSpec{disk, loss, cond(reporttest.Warn(rules.CacheServed))}, kind: SaysInvalid},
		"failed": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysFailed, want: "b / 4k read has no result: none of its 8 trials counts.",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts {
					if x.Target == "b" {
						x.Err, x.Values = "fio: exit status 1", nil
					}
				}
			}},
		"never measured": {cells: []reporttest.CellSpec{disk, loss, {Target: "disk", Workload: "copy", Values: map[string]float64{"duration": 1}}}, kind: SaysFailed,
			want: "a / copy could not be measured: nbdcopy is missing.", change: notMeasured("copy")},
		"not opened": {cells: []reporttest.CellSpec{disk, loss}, kind: SaysFailed, want: "b could not be opened: no such device.",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Targets = append(r.Targets, iotax.TargetInfo{Name: "b", Err: "open b: no such device\n  hint: buy one"})
			}},
		"nothing failed": {cells: []reporttest.CellSpec{disk, loss}, kind: SaysFailed},
		"takes no part": {cells: []reporttest.CellSpec{disk, loss}, kind: SaysFailed,
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Targets = append(r.Targets, iotax.TargetInfo{Name: "b"}) }},
		"unsure":      {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 9500, func(c *reporttest.CellSpec) { c.Noise = .3 })}, kind: SaysUnsure, want: "More rounds would decide: b / 4k read, between 1."},
		"too few":     {rounds: 5, cells: []reporttest.CellSpec{disk, loss}, kind: SaysUnsure, want: "More rounds would decide: too few rounds: a / 4k read (5 of 6)."},
		"sure":        {cells: []reporttest.CellSpec{disk, loss}, kind: SaysUnsure},
		"unlike":      {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since its flushes are acknowledged and not done: b.", change: durability(iotax.FlushIgnored)},
		"memory":      {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since it is memory: b.", change: durability(iotax.Volatile)},
		"drive cache": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since its flushes may end in the cache of the drive: b.", change: durability(iotax.DriveCache)},
		"durable": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since its flushes reach the device, and those of disk do not: b.",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Targets[0].Durability, r.Targets[1].Durability, r.Targets[2].Durability = iotax.Volatile, iotax.Volatile, iotax.Durable
			}},
		"durable, unknown reference": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since its flushes reach the device, and those of disk may not: b.",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Targets[0].Durability, r.Targets[1].Durability, r.Targets[2].Durability = iotax.UnknownDurability("fuse"), iotax.UnknownDurability("fuse"), iotax.Durable
			}},
		"unknown flushes": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since its flushes may not reach the device: b.", change: durability(iotax.UnknownDurability("fuse.bindfs"))},
		"another promise": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since a flush promises something else there: b.", change: durability("later")},
		"alike":           {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 5000, nil)}, kind: SaysUnlike, change: durability(iotax.Durable)},
		"noise":           {cells: []reporttest.CellSpec{disk, loss, noisy("b", .3)}, kind: SaysNoise, want: "Noisy, trials vary by 10 % or more: b / 4k read ("},
		"noise of one of several": {cells: append(both("disk", 1, 1), reporttest.CellSpec{Target: "a", Workload: "vm", Values: map[string]float64{"disk.attached": 1, "write.bandwidth": 1e9}, Noise: .3}), kind: SaysNoise, want: "a / vm disk attached (",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Workloads[2].Kind, r.Workloads[2].Metrics = "guest", []string{"disk.attached", "write.bandwidth"}
			}},
		"memory below": {cells: []reporttest.CellSpec{reporttest.Reads("disk", 10000, func(c *reporttest.CellSpec) {
			c.Findings = []iotax.Finding{{Rule: "host-memory", Severity: iotax.Info, Evidence: "14 µs"}}
			c.Values["read.latency.mean"] = 14e-6
		}), loss}, kind: SaysMemory, want: "disk is the memory of the machine below, not a device (4k read: one at a time takes 14 µs): against a device, the other targets would keep a larger share of the speed."},
		"memory of the others": {cells: []reporttest.CellSpec{disk, cond(iotax.Finding{Rule: "host-memory", Severity: iotax.Info, Evidence: "14 µs"})}, kind: SaysMemory},
		"a device":             {cells: []reporttest.CellSpec{disk, loss}, kind: SaysMemory},
		"quiet":                {cells: []reporttest.CellSpec{disk, loss, noisy("b", .05)}, kind: SaysNoise},
		"share":                {cells: s3(9e5), kind: SaysShare, want: "s3 / get reaches 90", change: line},
		"share, too large":     {cells: s3(1.2e6), kind: SaysShare, want: "more than the line carries: a cache answered, or the line was slower when it was measured.", change: line},
		"shares of a line": {cells: append(s3(9e5), reporttest.CellSpec{Target: "s3", Workload: "put, twice", Values: map[string]float64{"upload.bandwidth": 9.2e5}}), kind: SaysShare,
			want: "of tcp's network bandwidth (get and \"put, twice\"): the network is the limit.", change: line},
		"share undecided": {rounds: 6, cells: func() []reporttest.CellSpec {
			out := s3(9e5)
			out[2].Noise = .74
			return out
		}(), kind: SaysShare, want: ": whether the network is the limit is not decided.", change: line},
		"share of unknown size": {rounds: 3, cells: func() []reporttest.CellSpec {
			out := s3(9e5)
			out[2].Noise = 6
			return out
		}(), kind: SaysUnsure, want: "More rounds would decide what share is reached: s3 / get of tcp.", change: line},
		"share, small":     {cells: s3(3e5), kind: SaysShare, want: "s3 / get reaches 30", change: line},
		"no share":         {cells: s3(9e5), kind: SaysShare},
		"fast path":        {cells: append(both("disk", 1, 1), clone(17, .12)), kind: SaysPath, want: "a / clone: the second is 14"},
		"fast path missed": {cells: append(both("disk", 1, 1), clone(17, 4)), kind: SaysPath, want: "a / clone: the second is 4.2"},
		"best parts":       {cells: parts(.01, 30, 43, 36), kind: SaysBest, want: "s3: of 3 ways to upload 64MiB in parts, 16MiB × 4 uploads fastest, 42.9 [41.8, 43.9] MiB/s; the next, 32MiB × 4, reaches 83.9 %", change: kinds("multipart", "object")},
		"parts alike":      {cells: parts(.05, 43, 43.2), kind: SaysBest, want: "that it is the fastest is not sure", change: kinds("multipart", "object")},
		"parts the same":   {cells: parts(.005, 43, 43.2, 42.9), kind: SaysBest, want: "MiB/s; it makes no difference: all are within 5 % of it.", change: kinds("multipart", "object")},
		"copies sent on":   {cells: s3put(4.6e5), kind: SaysShare, want: ": 92.3 % [90.1–94.6] with the 2 copies that the server sends on: the network is the limit.", change: copied("3, of which 2 must have a write")},
		"no copies":        {cells: s3put(4.6e5), kind: SaysShare, want: "network bandwidth: the network is not the limit.", change: copied("")},
		"one part size":    {cells: parts(.01, 43), kind: SaysBest, change: kinds("multipart", "object")},
		"no object":        {cells: parts(.01, 30, 43), kind: SaysBest},
		"other objects": {cells: parts(.01, 30, 43), kind: SaysBest, change: func(r *iotax.Run, ts []*iotax.Trial) {
			kinds("multipart", "object")(r, ts)
			for _, x := range ts {
				if strings.HasSuffix(x.Workload, "16MiB") {
					x.Facts = map[string]string{"size": "1GiB", "part": "16MiB", "concurrency": "4"}
				}
			}
		}},
		"lazy":                       {cells: volume(.03, "1"), kind: SaysLazy, want: "export, used lazily: its first I/O comes in 0.997 %", change: kinds("*", "materialise")},
		"lazy, whole":                {cells: volume(.03, "1"), kind: SaysLazy, want: "all of it is there in 199 %", change: kinds("*", "materialise")},
		"lazy, reads":                {cells: volume(.03, "1"), kind: SaysLazy, want: "reads then reach 49.8 %", change: kinds("*", "materialise")},
		"another volume":             {cells: volume(.03, "2"), kind: SaysLazy, change: kinds("*", "materialise")},
		"no volume":                  {cells: volume(.03, "1"), kind: SaysLazy},
		"fast path unsure":           {cells: append(both("disk", 1, 1), reporttest.CellSpec{Target: "a", Workload: "clone", Values: map[string]float64{"volume.first.duration": 10, "volume.second.duration": 1}, Noise: .3}), kind: SaysPath, want: "; whether that is 10 times is not decided."},
		"no two things":              {cells: []reporttest.CellSpec{disk, loss}, kind: SaysPath},
		"fair":                       {cells: []reporttest.CellSpec{disk, loss}, kind: SaysSum, want: "No check found a problem."},
		"not fair":                   {cells: []reporttest.CellSpec{disk, loss, cond(reporttest.Warn(rules.NotSteady))}, kind: SaysSum, want: "Of 2 comparisons: 2 worse. Warnings: no steady state."},
		"sum of invalid":             {cells: []reporttest.CellSpec{disk, loss, cond(bad)}, kind: SaysSum, want: "Of 2 comparisons: 1 worse, 1 without a verdict. Invalid results: a cache answered, not the device."},
		"sum of invalid and doubted": {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 5000, func(c *reporttest.CellSpec) { c.Findings = []iotax.Finding{reporttest.Warn(rules.NotSteady)} }), cond(bad)}, kind: SaysSum, want: "Invalid results: a cache answered, not the device. Warnings: no steady state."},
		"the sum of all": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 10000, nil), reporttest.Reads("c", 20000, nil), reporttest.Reads("d", 9500, func(c *reporttest.CellSpec) { c.Noise = .3 })}, kind: SaysSum,
			want: "Of 4 comparisons: 1 worse, 1 better, 1 the same within ± 5 %, 1 too noisy. "},
		"nothing known": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 9500, func(c *reporttest.CellSpec) { c.Noise = 4 })}, kind: SaysUnsure, want: "More rounds would decide: too noisy: b / 4k read."},
		"imported is not fair": {cells: []reporttest.CellSpec{disk, loss}, kind: SaysSum, want: "The trials were imported and not measured in turns: nothing shows whether the comparison is fair.",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Environment = map[string]string{iotax.FactOrigin: iotax.OriginImport}
			}},
	}
}

// Each kind of sentence appears only if the data support it.
func TestSentences(t *testing.T) {
	for name, c := range sentenceCases() {
		r := c.report()
		got := says(r, c.kind)
		if len(got) > 0 && got[0].Text == Of(r).Answer() && len(says(r, c.kind)) > 0 && c.kind != SaysSame {
			got = got[1:] // the answer has its own tests
		}
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q", name, got[0].Text)
		case c.want != "" && !slices.ContainsFunc(got, func(s Sentence) bool { return strings.Contains(s.Text, c.want) }):
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

func TestLimitsAndPaths(t *testing.T) {
	for share, want := range map[float64]string{.9: "the network is the limit.", .3: "the network is not the limit.", .7: "bandwidth.", 1.2: "more than the line carries"} {
		run, trials := reporttest.RunOf(8, reporttest.ReadMetrics, reporttest.Reads("disk", 1, nil), reporttest.CellSpec{Target: "s3", Workload: "get", Values: map[string]float64{"download.bandwidth": 1e6 * share}},
			reporttest.CellSpec{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 1e6}})
		reporttest.Against(run, "s3", "tcp")
		run.Workloads[2].Kind = "network"
		got := says(report.New(run, trials), SaysShare)
		if len(got) != 1 || !strings.Contains(got[0].Text, want) {
			t.Errorf("%v: %+v, want %q", share, got, want)
		}
	}
	// A share of more than the line's rate does not explain a loss, so it has a sentence of its own.
	get := func(target string, rate float64) reporttest.CellSpec {
		return reporttest.CellSpec{Target: target, Workload: "get", Values: map[string]float64{"download.bandwidth": rate}}
	}
	run, trials := reporttest.RunOf(8, reporttest.ReadMetrics, get("disk", 3e6), get("s3", 1.2e6),
		reporttest.CellSpec{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 1e6}})
	reporttest.Against(run, "s3", "disk", "tcp")
	run.Workloads[0].Metrics, run.Workloads[1].Kind = []string{"download.bandwidth"}, "network"
	if got := says(report.New(run, trials), SaysShare); len(got) != 1 || !strings.Contains(got[0].Text, "more than the line carries") {
		t.Errorf("a loss at more than the line's rate: %+v", got)
	}
	// If the interval allows opposite conclusions, the sentence draws no conclusion.
	for share, noise := range map[float64]float64{.6: .8, .7: .6, .75: .6} {
		run, trials := reporttest.RunOf(6, reporttest.ReadMetrics, reporttest.Reads("disk", 1, nil), reporttest.CellSpec{Target: "s3", Workload: "get", Noise: noise, Values: map[string]float64{"download.bandwidth": 1e6 * share}},
			reporttest.CellSpec{Target: "tcp", Workload: "network", Values: map[string]float64{"bandwidth": 1e6}})
		reporttest.Against(run, "s3", "tcp")
		run.Workloads[2].Kind = "network"
		got := says(report.New(run, trials), SaysShare)
		if len(got) != 1 || !strings.Contains(got[0].Text, "is not decided.") || len(got[0].Causes) != 0 {
			t.Errorf("%v ± %v: %+v", share, noise, got)
		}
	}
	for second, want := range map[float64]string{.1: "so the fast path is taken.", 1: "not decided.", 5: "the fast path is missed."} {
		run, trials := reporttest.RunOf(8, map[string][]string{"clone": {"first.duration"}}, reporttest.CellSpec{Target: "image", Workload: "clone", Noise: .02, Values: map[string]float64{"first.duration": 10, "second.duration": second}})
		got := says(report.New(run, trials), SaysPath)
		if len(got) != 1 || !strings.Contains(got[0].Text, want) {
			t.Errorf("%v: %+v, want %q", second, got, want)
		}
	}
}

func TestAssessmentOrder(t *testing.T) {
	r := report.New(reporttest.Fixture())
	last := -1
	for i, s := range Of(r).Sentences {
		at := slices.Index(sentenceOrder, s.Kind)
		if at < 0 || i > 1 && at < last {
			t.Errorf("%q stands behind what is less bad", s.Text)
		}
		last = at
		if s.Text != Of(r).Answer() && strings.Count(Of(r).Answer(), s.Text) > 0 {
			t.Errorf("said twice: %q", s.Text)
		}
	}
	// The largest loss comes first.
	var worst []float64
	for _, s := range says(r, SaysLoss) {
		worst = append(worst, s.Figures[0].Ratio.Estimate)
	}
	if len(worst) < 4 || worst[0] != slices.Min(worst) || !slices.IsSorted(worst[1:]) {
		t.Errorf("losses in the order of %v", worst)
	}
}

func TestAnswers(t *testing.T) {
	nothing := func(*iotax.Run, []*iotax.Trial) {}
	for _, c := range []struct {
		base, target []float64
		better       iotax.Better
		change       func(*iotax.Run, []*iotax.Trial)
		want         string
	}{
		{reporttest.Flat100, reporttest.Flat50, iotax.Up, nothing, "w m on b is 2.0× slower than on a."},
		{reporttest.Flat50, reporttest.Flat100, iotax.Down, nothing, "w m on b is 2.0× more than on a."},
		{reporttest.Flat50, reporttest.Flat100, iotax.Up, nothing, "No loss found. w m on b is 2.0× faster than on a."},
		{reporttest.Flat100, reporttest.Flat100, iotax.Up, nothing, "No difference found: the comparison with a is within ± 5 %."},
		{reporttest.Flat100, []float64{50, 200, 80, 120, 100, 100}, iotax.Up, nothing, "No difference found between a and b. It is too noisy: b could be up to 2.0× slower or 2.0× faster."},
		{reporttest.Flat100, reporttest.Flat50, iotax.Up, func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[1].Err = "gone" }, "No target could be compared with a: see the notes."},
		{reporttest.Flat100, nil, iotax.Up, func(r *iotax.Run, _ []*iotax.Trial) { r.Targets = r.Targets[:1] }, "Only a was measured: there is nothing to compare it with."},
		{nil, nil, iotax.Up, func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[0].Err = "gone" }, "Nothing was measured: a could not be opened."},
		{nil, nil, iotax.Up, nothing, "Nothing was measured."},
	} {
		run, trials := reporttest.Small(c.better, c.base, c.target)
		c.change(run, trials)
		if got := Of(report.New(run, trials)).Answer(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

func TestUnevenIsTold(t *testing.T) {
	r := report.New(reporttest.Clients(.005))
	if got := says(r, SaysUneven); len(got) != 1 || !strings.HasPrefix(got[0].Text, "The 4 clients of store / 4k read do not share alike: the slowest reaches 40") {
		t.Errorf("%+v", got)
	}
	if got := says(report.New(reporttest.Clients(1)), SaysUneven); len(got) != 0 {
		t.Errorf("of an interval that is too wide: %+v", got)
	}
}
