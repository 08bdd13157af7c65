package assess

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
)

// answerCases returns cases for the first sentence.
func answerCases() map[string]assessCase {
	disk, loss := reporttest.Reads("disk", 10000, nil), reporttest.Reads("a", 5000, nil)
	noisy := reporttest.Reads("a", 9500, func(c *reporttest.CellSpec) { c.Noise = .3 })
	invalid := reporttest.Reads("b", 5000, func(c *reporttest.CellSpec) {
		c.Findings = []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 %"}}
	})
	wide, wider := func(c *reporttest.CellSpec) { c.Noise = .15 }, func(c *reporttest.CellSpec) { c.Noise = .3 }
	emulated := func(targets ...int) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) {
			for _, i := range targets {
				r.Targets[i].Facts = map[string]string{iotax.FactAccel: "tcg"}
			}
		}
	}
	took := func(target string, seconds float64) reporttest.CellSpec {
		return reporttest.CellSpec{Target: target, Workload: "clone", Values: map[string]float64{"first.duration": seconds}}
	}
	targets := func(change func(ts []iotax.TargetInfo) []iotax.TargetInfo) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) { r.Targets = change(r.Targets) }
	}
	volatile := targets(func(ts []iotax.TargetInfo) []iotax.TargetInfo { ts[1].Durability = iotax.Volatile; return ts })
	// expecting sets limits for read.iops, which is 10,000 on the target `disk` and about 9,500, with noise, on `a`.
	expecting := func(limits ...string) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) {
			r.Presentation = &iotax.Presentation{}
			for _, l := range limits {
				r.Presentation.Expect = append(r.Presentation.Expect, iotax.Expectation{Text: "4k read: read.iops " + l})
			}
		}
	}
	// fewIOs makes read.latency.p99 the metric of the reads. It gives target b, or all targets if `both` is set, too
	// few I/Os for a p99.
	fewIOs := func(both bool) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, ts []*iotax.Trial) {
			r.Workloads[0].Metrics = []string{"read.latency.p99"}
			for _, t := range ts {
				count := uint64(1e6)
				if t.Target == "b" || both {
					count = 1
				}
				h := iotax.Histogram{Name: "read.latency", Unit: iotax.Seconds}
				for k := range 200 {
					h.Bins = append(h.Bins, iotax.Bin{Value: 10 / t.Values[0].Value * (1 + float64(k)/1e4), Count: count})
				}
				t.Histograms = []iotax.Histogram{h}
			}
		}
	}
	return map[string]assessCase{
		"same, one invalid":     {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 10000, nil), invalid}, want: "No difference found: the comparison with disk is within ± 5 % (1 more cannot be judged)."},
		"gain, one invalid":     {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 20000, nil), invalid}, want: "No loss found. 4k read on a is 2.0× faster than on disk (1 more cannot be judged)."},
		"unsure, one invalid":   {cells: []reporttest.CellSpec{disk, noisy, invalid}, want: "It is too noisy (1 more cannot be judged)."},
		"few I/Os":              {cells: []reporttest.CellSpec{disk, reporttest.Reads("b", 9500, nil)}, change: fewIOs(true), want: "No verdict yet against disk. Too few rounds or I/Os for a verdict: 1 of 1."},
		"few I/Os of one":       {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 10000, nil), reporttest.Reads("b", 9500, nil)}, change: fewIOs(false), want: "No difference found yet against disk. Too few rounds or I/Os for a verdict: 1 of 2."},
		"few I/Os and noisy":    {cells: []reporttest.CellSpec{disk, noisy, reporttest.Reads("b", 9500, nil)}, change: fewIOs(false), want: "No difference found yet against disk. Of 2 comparisons 1 are too noisy, and 1 have too few rounds or I/Os."},
		"expectation":           {cells: []reporttest.CellSpec{disk, noisy}, change: expecting("> 5k at disk"), want: "The expectation is met. No difference"},
		"met":                   {cells: []reporttest.CellSpec{disk, noisy}, change: expecting("> 5k", "< 50k at disk"), want: "All 3 expectations are met."},
		"missed":                {cells: []reporttest.CellSpec{disk, noisy}, change: expecting("> 50k at a", "< 50k at disk"), want: "Of 2 expectations, 1 is missed."},
		"undecided":             {cells: []reporttest.CellSpec{disk, noisy}, change: expecting("> 9500 at a", "< 9500 at a"), want: "Of 2 expectations, 2 are undecided."},
		"missed and undecided":  {cells: []reporttest.CellSpec{disk, noisy}, change: expecting("> 9500 at a", "> 50k"), want: "Of 3 expectations, 2 are missed and 1 is undecided."},
		"expected and no trial": {cells: []reporttest.CellSpec{disk}, change: func(r *iotax.Run, ts []*iotax.Trial) { expecting("> 5k")(r, ts); clear(ts) }, want: "Nothing was measured."},
		"loss":                  {cells: []reporttest.CellSpec{disk, loss}, want: "4k read on a is 2.0× slower than on disk."},
		"time lost":             {cells: []reporttest.CellSpec{took("disk", 1), took("a", 2)}, want: "clone first duration on a is 2.0× slower than on disk."},
		"losses":                {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 2000, nil)}, want: "b is the slowest: 4k read is 5.0× slower than on disk."},
		"gain":                  {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 20000, nil)}, want: "No loss found. 4k read on a is 2.0× faster than on disk."},
		"gains":                 {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 20000, nil), reporttest.Reads("b", 30000, nil)}, want: "No loss found in 2 comparisons. Largest gain: 4k read on b is 3.0× faster than on disk."},
		"same":                  {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 10000, nil)}, want: "No difference found: the comparison with disk is within ± 5 %."},
		"all same":              {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 10000, nil), reporttest.Reads("b", 10000, nil)}, want: "No difference found: all 2 comparisons with disk are within ± 5 %."},
		"unsure":                {cells: []reporttest.CellSpec{disk, noisy}, want: "No difference found between disk and a. It is too noisy: a could be up to 1.2× slower or 1.1× faster."},
		"one disk": {cells: []reporttest.CellSpec{disk, noisy}, change: func(r *iotax.Run, _ []*iotax.Trial) {
			for i := range r.Targets {
				r.Targets[i].Machine, r.Targets[i].Facts = "host", map[string]string{"filesystem": "ext4", iotax.FactDeviceName: "vda", iotax.FactDeviceDisk: "vda"}
			}
		}, want: "No difference found between disk and a (both ext4 on vda: the same disk). It is too noisy: a could be"},
		"three unsure":       {cells: []reporttest.CellSpec{disk, noisy, reporttest.Reads("b", 9500, wider), reporttest.Reads("c", 9500, wider)}, want: "No difference found yet against disk. All 3 comparisons are too noisy."},
		"some unsure":        {cells: []reporttest.CellSpec{disk, noisy, reporttest.Reads("b", 10000, nil)}, want: "No difference found yet against disk. 1 of 2 comparisons are too noisy."},
		"tied":               {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 2000, wide), reporttest.Reads("c", 2100, wide)}, want: "c is the slowest: 4k read is 5.0× slower than on disk. b (5.0× slower) may be as slow."},
		"all tied":           {cells: []reporttest.CellSpec{disk, reporttest.Reads("b", 2000, wide), reporttest.Reads("c", 2100, wide)}, want: "b is the slowest: 4k read is 5.0× slower than on disk. c (4.8× slower) may be as slow."},
		"three tied":         {cells: []reporttest.CellSpec{disk, reporttest.Reads("b", 2000, wide), reporttest.Reads("c", 2100, wide), reporttest.Reads("d", 2050, wide)}, change: emulated(1, 2, 3), want: "d (emulated) is the slowest: 4k read is 5.1× slower than on disk. b (5.0× slower) and c (4.8× slower) may be as slow."},
		"emulated":           {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 2000, nil)}, change: emulated(1, 2), want: "b (emulated) is the slowest: 4k read is 5.0× slower than on disk."},
		"tied and emulated":  {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 2000, wide), reporttest.Reads("c", 2100, wide)}, change: emulated(2, 3), want: "c (emulated) is the slowest: "},
		"tied, one emulated": {cells: []reporttest.CellSpec{disk, loss, reporttest.Reads("b", 2000, wide), reporttest.Reads("c", 2100, wide)}, change: emulated(3), want: "c (emulated) is the slowest: "},
		"all unsure":         {cells: []reporttest.CellSpec{disk, noisy, reporttest.Reads("b", 9500, func(c *reporttest.CellSpec) { c.Noise = .3 })}, want: "No difference found yet against disk. Both comparisons are too noisy."},
		"unsure and no pair": {cells: []reporttest.CellSpec{disk, noisy, reporttest.Reads("b", 9500, nil)}, change: func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts {
				if t.Target == "b" && t.Round > 0 || t.Target == "disk" && t.Round == 0 {
					t.Err = "gone"
				}
			}
		}, want: "No difference found yet against disk. It is too noisy (1 more cannot be judged)."},
		"not ranked": {cells: []reporttest.CellSpec{disk, loss}, change: volatile, want: "No target can be ranked against disk: what a flush promises there is not the same."},
		"unknown flushes": {cells: []reporttest.CellSpec{disk, loss}, change: targets(func(ts []iotax.TargetInfo) []iotax.TargetInfo {
			ts[1].Durability = iotax.UnknownDurability("fuse")
			return ts
		}), want: "No target can be ranked against disk: what a flush promises there may not be the same."},
		"without a direction": {cells: []reporttest.CellSpec{disk, loss}, change: func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts {
				for i := range t.Values {
					t.Values[i].Better = iotax.Neither
				}
			}
		}, want: "No target can be ranked against disk: see the notes."},
		"all failed": {cells: []reporttest.CellSpec{disk, loss}, change: func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts {
				t.Err, t.Values = "run fio on disk: gone.\nmore", nil
			}
		}, want: "Nothing was measured, every trial failed: run fio on disk: gone."},
		"not opened": {cells: []reporttest.CellSpec{disk}, change: targets(func(ts []iotax.TargetInfo) []iotax.TargetInfo {
			return append(ts, iotax.TargetInfo{Name: "a", Err: "gone"})
		}), want: "No target could be compared with disk: see the notes."},
		"one of two": {cells: []reporttest.CellSpec{disk, loss, invalid}, want: "4k read on a is 2.0× slower than on disk."},
		"alone":      {cells: []reporttest.CellSpec{disk}, want: "Only disk was measured: there is nothing to compare it with."},
		"alone, failed": {cells: []reporttest.CellSpec{disk}, change: func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts {
				t.Err = "gone"
			}
		}, want: "Nothing was measured, every trial failed: gone."},
		"other work":    {cells: []reporttest.CellSpec{disk, {Target: "a", Workload: "put", Values: map[string]float64{"upload.bandwidth": 1}}}, change: func(r *iotax.Run, _ []*iotax.Trial) { reporttest.Against(r, "a", "nobody") }, want: "No two targets did the same work: nothing can be compared."},
		"never ran":     {cells: []reporttest.CellSpec{disk}, change: func(r *iotax.Run, ts []*iotax.Trial) { r.Targets[0].Err = "gone"; r.Targets = r.Targets[:1]; clear(ts) }, want: "Nothing was measured: disk could not be opened."},
		"no trials":     {cells: []reporttest.CellSpec{disk}, change: func(_ *iotax.Run, ts []*iotax.Trial) { clear(ts) }, want: "Nothing was measured."},
		"losses of one": {cells: []reporttest.CellSpec{disk, loss, took("disk", 1), took("a", 3)}, want: "Largest loss: "},
		"few":           {rounds: 5, cells: []reporttest.CellSpec{disk, loss}, want: "No verdict yet against disk. Too few rounds for a verdict: 1 of 1."},
		"unsure and few": {cells: []reporttest.CellSpec{disk, noisy, reporttest.Reads("b", 9500, nil)}, change: func(_ *iotax.Run, ts []*iotax.Trial) {
			for _, t := range ts {
				if t.Target == "b" && t.Round > 3 {
					t.Err = "gone"
				}
			}
		}, want: "Of 2 comparisons 1 are too noisy, and 1 have too few rounds."},
		"loss of all": {cells: []reporttest.CellSpec{disk, reporttest.Reads("a", 5000, nil), took("disk", 1), took("a", 3)}, want: "Largest loss: clone first duration on a is 3.0× slower than on disk."},
	}
}

func TestEveryAnswer(t *testing.T) {
	for name, c := range answerCases() {
		if got := Of(c.report()).Answer(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// everySentence lists the text of each possible sentence or part of a sentence as it is in the source, the case in
// which it must appear, and a similar case in which it must not.
var everySentence = []struct{ says, stands, silent string }{
	{"The expectation is %s.", "answer/expectation", "answer/expected and no trial"},
	{"All %d expectations are met.", "answer/met", "answer/expectation"},
	{"Of %d expectations, %d %s missed.", "answer/missed", "answer/undecided"},
	{"Of %d expectations, %d %s undecided.", "answer/undecided", "answer/met"},
	{"Of %d expectations, %d %s missed and %d %s undecided.", "answer/missed and undecided", "answer/missed"},
	{"Nothing was measured", "answer/no trials", "answer/alone"},
	{" could not be opened", "answer/never ran", "answer/no trials"},
	{"No two targets did the same work: nothing can be compared", "answer/other work", "answer/loss"},
	{"Only %s was measured: there is nothing to compare it with", "answer/alone", "answer/not opened"},
	{" is the slowest: ", "answer/losses", "answer/loss"},
	{" may be as slow", "answer/tied", "answer/losses"},
	{" (emulated)", "answer/emulated", "answer/losses"},
	{"Largest loss: ", "answer/losses of one", "answer/losses"},
	{"No loss found. ", "answer/gain", "answer/loss"},
	{"No loss found in %d comparisons. Largest gain: ", "answer/gains", "answer/gain"},
	{"%s is %s than on %s", "answer/loss", "answer/same"},
	{" on ", "answer/loss", "answer/no trials"},
	{"No difference found: all %d comparisons with %s are within ± %s", "answer/all same", "answer/same"},
	{"No difference found: the comparison with %s is within ± %s", "answer/same", "answer/loss"},
	{"No difference found between %s and %s", "answer/unsure", "answer/all unsure"},
	{" (both %s: the same disk)", "answer/one disk", "answer/unsure"},
	{"%s: %s could be up to %s or %s", "answer/unsure", "answer/all unsure"},
	{"No difference found yet against %s. %s", "answer/all unsure", "answer/unsure"},
	{"It is too noisy", "answer/unsure", "answer/few"},
	{"Both comparisons are too noisy", "answer/all unsure", "answer/unsure"},
	{"All %d comparisons are too noisy", "answer/three unsure", "answer/all unsure"},
	{"%d of %d comparisons are too noisy", "answer/some unsure", "answer/all unsure"},
	{"No verdict yet", "answer/few", "answer/few I/Os of one"},
	{"No difference found yet", "answer/few I/Os of one", "answer/few"},
	{"%s against %s. Too few %s for a verdict: %d of %d", "answer/few", "answer/unsure"},
	{"No difference found yet against %s. Of %d comparisons %d are too noisy, and %d have too few %s", "answer/unsure and few", "answer/few"},
	{" (%d more cannot be judged)", "answer/same, one invalid", "answer/same"},
	{"No target can be ranked against %s: see the notes", "answer/without a direction", "answer/not ranked"},
	{"No target can be ranked against %s: what a flush promises there %s the same", "answer/not ranked", "answer/without a direction"},
	{"Nothing was measured, every trial failed: ", "answer/all failed", "answer/no trials"},
	{", and those of ", "sentence/durable", "sentence/unlike"},
	{" do not", "sentence/durable", "sentence/unlike"},
	{" may not", "sentence/durable, unknown reference", "sentence/durable"},
	{"its flushes may not reach the device", "sentence/unknown flushes", "sentence/durable"},
	{"No target could be compared with %s: see the notes", "answer/not opened", "answer/alone"},

	{"Invalid: %s: %s.", "sentence/invalid", "sentence/only a warning"},
	{"cached", "sentence/invalid", "sentence/only a warning"},
	{"cached writes", "sentence/writes absorbed", "sentence/invalid"},
	{"cached: faster than the line to the storage", "sentence/above the line", "sentence/invalid"},
	{"more than 20 % of the trials are discarded", "sentence/many discarded", "sentence/no loss"},
	{"a value has no logarithm", "sentence/no logarithm", "sentence/no loss"},
	{"%s could not be opened: %s.", "sentence/not opened", "sentence/takes no part"},
	{"%s could not be measured: %s.", "sentence/never measured", "sentence/failed"},
	{"%s has no result: none of its %s counts.", "sentence/failed", "sentence/nothing failed"},
	{"too few %ss: ", "sentence/too few", "sentence/unsure"},
	{"%s (%d of %d)", "sentence/too few", "sentence/unsure"},
	{"More %ss", "sentence/unsure", "sentence/sure"},
	{"%s would decide: %s.", "sentence/unsure", "sentence/sure"},
	{"too few I/Os: ", "answer/few I/Os", "answer/few"},
	{"Longer trials", "answer/few I/Os", "answer/few"},
	{" or longer trials", "answer/few I/Os and noisy", "answer/few I/Os"},
	{"its flushes are acknowledged and not done", "sentence/unlike", "sentence/memory"},
	{"its flushes may end in the cache of the drive", "sentence/drive cache", "sentence/unlike"},
	{"it is memory", "sentence/memory", "sentence/unlike"},
	{"its flushes reach the device", "sentence/durable", "sentence/alike"},
	{"a flush promises something else there", "sentence/another promise", "sentence/alike"},
	{"Not ranked against %s, since %s: %s.", "sentence/unlike", "sentence/alike"},
	{"The %d clients of %s / %s do not share alike: the slowest reaches %s of the fastest.", "clients/uneven", "clients/even"},
	{"No difference, within ± %s: %s.", "sentence/same", "sentence/not the same"},

	{" that the server sends on ", "cause/copies on the line", "cause/reads are not sent on"},
	{"it is at ", "cause/line rate", "cause/no line"},
	{"a cache answered a part", "cause/cache, gain", "cause/a loss is no work of a cache"},
	{"a cache took a part of the writes", "cause/writes, gain", "cause/cache, gain"},
	{"the host's cache did a part of it", "cause/host, gain", "cause/cache, gain"},
	{" was limited by the CPU of its load generator", "cause/baseline held", "cause/both held"},
	{"submission blocks: only %s of %s I/Os were in flight", "cause/blocking", "cause/blocking, depth unknown"},
	{"only %s of %s I/Os were in flight (Little's law)", "cause/depth", "cause/depth, no finding"},
	{" was itself limited by its CPU, so the loss may be larger", "cause/generator of the baseline", "cause/generator of both"},
	{"its load generator had no more CPU, so the CPU is the limit", "cause/generator", "cause/generator of both"},
	{"it is near the limit of the CPU", "cause/at the ceiling itself", "cause/both at the ceiling"},
	{" of its CPU time was stolen", "cause/steal", "cause/steal of little"},
	{"a rate limit began during its trials", "cause/throttle", "cause/silence"},
	{"the end of its queue was counted as time, so it looks ", "cause/drain", "cause/drain of little"},
	{" slower than it is", "cause/drain", "cause/drain, bandwidth"},
	{"the measured line rate (", "cause/measured network", "cause/other work of no network"},
	{"the line rate", "cause/line rate", "cause/no line"},
	{" that the server sends on: ", "sentence/copies sent on", "sentence/no copies"},
	{"%d copies", "sentence/copies sent on", "sentence/no copies"},
	{"%s / %s reaches %s of %s", "sentence/share", "sentence/no share"},
	{"%s reaches %s of %s (%s)", "sentence/shares of a line", "sentence/no share"},
	{"More %ss would decide what share is reached: %s.", "sentence/share of unknown size", "sentence/share"},
	{"more than the line carries: a cache answered, or the line was slower when it was measured", "sentence/share, too large", "sentence/share"},
	{"the network is not the limit", "sentence/share, small", "sentence/share"},
	{"the network is the limit", "sentence/share", "sentence/share, small"},
	{"whether the network is the limit is not decided", "sentence/share undecided", "sentence/share"},
	{"%s / %s: the second is %s as fast as the first", "sentence/fast path", "sentence/no two things"},
	{", so the fast path is taken.", "sentence/fast path", "sentence/fast path missed"},
	{", and not %d times: the fast path is missed.", "sentence/fast path missed", "sentence/fast path"},
	{"; whether that is %d times is not decided.", "sentence/fast path unsure", "sentence/fast path"},

	{"Noisy, trials vary by %s or more: %s.", "sentence/noise", "sentence/quiet"},
	{"the same within ± ", "sentence/the sum of all", "sentence/not fair"},
	{"too noisy", "sentence/the sum of all", "sentence/not fair"},
	{"too few ", "sentence/too few", "sentence/sure"},
	{"without a verdict", "sentence/sum of invalid", "sentence/not fair"},
	{"Of %d comparisons: %s. ", "sentence/not fair", "answer/alone"},
	{"The trials were imported and not measured in turns: nothing shows whether the comparison is fair.", "sentence/imported is not fair", "sentence/fair"},
	{"No check found a problem.", "sentence/fair", "sentence/not fair"},
	{"Warnings: ", "sentence/not fair", "sentence/fair"},
	{"Invalid results: ", "sentence/sum of invalid", "sentence/fair"},
	{". Warnings: ", "sentence/sum of invalid and doubted", "sentence/sum of invalid"},
	{" (%s: one at a time takes %s)", "sentence/memory below", "sentence/a device"},
	{"%s is the memory of the machine below, not a device%s: against a device, the other targets would keep a larger share of the speed.", "sentence/memory below", "sentence/memory of the others"},

	{"%s: of %d ways to upload %s in parts, %s uploads fastest, %s", "sentence/best parts", "sentence/one part size"},
	{"; it makes no difference: all are within %s of it.", "sentence/parts the same", "sentence/parts alike"},
	{"; the next, %s, reaches %s of that.", "sentence/best parts", "sentence/parts the same"},
	{"; that it is the fastest is not sure: %s.", "sentence/parts alike", "sentence/best parts"},
	{"its first I/O comes in %s of the time that a copy takes", "sentence/lazy", "sentence/another volume"},
	{"all of it is there in %s of that time", "sentence/lazy", "sentence/no volume"},
	{"reads then reach %s of a copy's", "sentence/lazy", "sentence/no volume"},
	{"%s, used lazily: %s.", "sentence/lazy", "sentence/no volume"},
}

// joints lists strings in the source that are not sentences: names of kinds, and strings that join numbers and names.
var joints = []string{"not ranked", "fast path", "best way", "more ", " and ", " to ", " of ", ", so ", "open ", "with the ", " with the ", "%s / %s of %s",
	"%s is %s", "%s its %s", "%s of its %s"}

// Each possible sentence must appear in one test case and be absent from another. If one of the source files below
// has a new sentence without these cases, this test fails.
func TestEverySentence(t *testing.T) {
	cases := map[string]func() *report.Report{
		"clients/uneven": func() *report.Report { return report.New(reporttest.Clients(.005)) },
		"clients/even":   func() *report.Report { return report.New(reporttest.Clients(1)) },
	}
	for kind, table := range map[string]map[string]assessCase{"answer": answerCases(), "cause": causeCases(), "sentence": sentenceCases()} {
		for name, c := range table {
			cases[kind+"/"+name] = c.report
		}
	}
	verb := regexp.MustCompile(`%[sdq]`)
	said := func(name, says string) bool {
		build, ok := cases[name]
		if !ok {
			t.Fatalf("%q: there is no case %q", says, name)
		}
		var parts []string
		for _, p := range verb.Split(strings.ReplaceAll(says, "%%", "%"), -1) {
			parts = append(parts, regexp.QuoteMeta(p))
		}
		pattern := regexp.MustCompile(strings.Join(parts, ".*"))
		return slices.ContainsFunc(Of(build()).Sentences, func(s Sentence) bool { return pattern.MatchString(s.Text) })
	}
	listed := map[string]bool{}
	for _, e := range everySentence {
		listed[e.says] = true
		if !said(e.stands, e.says) {
			t.Errorf("%q is not said in %q", e.says, e.stands)
		}
		if said(e.silent, e.says) {
			t.Errorf("%q is said in %q", e.says, e.silent)
		}
	}
	words := regexp.MustCompile(`[a-z]{2}`)
	for _, file := range []string{"assess.go", "cells.go", "causes.go", "doubts.go", "ways.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			s, err := strconv.Unquote(l.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(s, " ") && words.MatchString(s) && !listed[s] && !slices.Contains(joints, s) {
				t.Errorf("%s: %q has no case in which it stands, and none in which it must not", file, s)
			}
			return true
		})
	}
}
