package report

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"iotax"
	"iotax/stat"
)

// later is the fixture a week on: another kernel and governor, virtio-blk slower, a target that no longer
// starts, one with another promise, one that is new, and a job with a larger block size under an old name.
func later() (*iotax.Run, []*iotax.Trial) {
	run, trials := fixture()
	run.ID, run.Start, run.Status, run.Findings = "20260321-081500-m4q1", run.Start.Add(7*24*time.Hour), iotax.Done, nil
	run.Environment["kernel"], run.Environment["cpu.governor"] = "6.12.0-1-amd64", "powersave"
	run.Targets[0].Facts["mount.options"] = "rw,noatime"
	for _, i := range []int{1, 2, 4} {
		run.Targets[i].Facts["machine.kernel"] = "6.12.0-1-amd64"
	}
	run.Targets[3].Durability = iotax.Durable
	run.Targets[4].Err = "open guest: no 9p here\n  mend: load the module"
	run.Targets[5] = iotax.TargetInfo{Name: "guest scsi", Durability: iotax.Durable}
	r := rand.New(rand.NewPCG(5, 6))
	trials = slices.DeleteFunc(trials, func(t *iotax.Trial) bool { return t.Target == ninep })
	for _, t := range trials {
		t.Run, t.Facts = run.ID, map[string]string{"fio": "fio-3.36", "bs": "4k"}
		host := .8 // the whole host is slower now
		if t.Workload == "1M sequential read" {
			host = 1
		}
		if t.Target == virtioBlk && t.Workload == "4k random read" {
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

func earlierRun() (*iotax.Run, []*iotax.Trial) {
	run, trials := fixture()
	for _, t := range trials {
		t.Facts = map[string]string{"fio": "fio-3.33", "bs": "4k"}
		if t.Target == virtioFS && t.Workload == "4k random write" {
			t.Facts["bs"] = "8k"
		}
	}
	return run, trials
}

func compared(o CompareOptions) *Comparison {
	return Compare(New(earlierRun()), New(later()), o)
}

func TestCompareGolden(t *testing.T) {
	c := compared(CompareOptions{Margin: .05, FailOn: FailOnWorse})
	loss := compared(CompareOptions{Margin: -1, By: ByLoss})
	for name, write := range map[string]func(io.Writer) error{
		"compare-80.txt":    func(w io.Writer) error { return c.Text(w, TextOptions{Width: 80}) },
		"compare-120.txt":   func(w io.Writer) error { return c.Text(w, TextOptions{Width: 120}) },
		"compare-50.txt":    func(w io.Writer) error { return c.Text(w, TextOptions{Width: 50}) },
		"compare-color.txt": func(w io.Writer) error { return c.Text(w, TextOptions{Width: 100, Color: true}) },
		"compare-loss.txt":  func(w io.Writer) error { return loss.Text(w, TextOptions{Width: 120}) },
		"compare.md":        c.Markdown,
		"compare.json":      c.JSON,
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
				t.Errorf("differs from %s (go test -update writes it anew):\n%s", path, d)
			}
		})
	}
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
	c := compared(CompareOptions{Margin: .05, FailOn: FailOnWorse})
	read := c.row(t, virtioBlk, "4k random read")
	if read.Verdict != stat.Worse || !read.Ratio.Contains(.8*.8) || !read.Loss.Contains(.8) {
		t.Errorf("read: %q %v, loss %v", read.Verdict, read.Ratio, read.Loss)
	}
	// The whole host lost a fifth: so did the share, by value; against the baseline nothing changed.
	share := c.row(t, virtioFS, "4k random read")
	if !share.Ratio.Contains(.8) || share.Ratio.Contains(1) || !share.Loss.Contains(1) {
		t.Errorf("share: %v, loss %v", share.Ratio, share.Loss)
	}
	if l := compared(CompareOptions{Margin: .05, By: ByLoss}).row(t, virtioFS, "4k random read"); l.Verdict != stat.Equivalent && l.Verdict != stat.BelowMargin {
		t.Errorf("share by loss: %q %v", l.Verdict, l.Loss)
	}
	for _, x := range []struct{ target, workload, rule string }{
		{unsafeDisk, "4k random read", "durability-differs"}, {virtioFS, "4k random write", "work-differs"}, {ninep, "4k random read", "no-values"},
		{virtioFS, "1M sequential read", "cache-served"},
	} {
		r := c.row(t, x.target, x.workload)
		if conclusive(r.Verdict) || r.Verdict == stat.Inconclusive || !hasRule(r.Findings, x.rule) {
			t.Errorf("%s / %s: %q, %v; want %s and no verdict", x.target, x.workload, r.Verdict, r.Findings, x.rule)
		}
		if lost := x.rule != "cache-served"; r.Lost != lost {
			t.Errorf("%s / %s: lost %v", x.target, x.workload, r.Lost)
		}
	}
	if !c.Failed || !strings.Contains(strings.Join(c.Reasons, "\n"), virtioBlk+" / 4k random read: read IOPS is worse") {
		t.Errorf("gate: %v %q", c.Failed, c.Reasons)
	}
	if len(c.OnlyB) != 4 || c.OnlyB[0].Target != "guest scsi" || len(c.OnlyA) != 4 || c.OnlyA[0].Target != notOpened {
		t.Errorf("only in A %v, only in B %v", c.OnlyA, c.OnlyB)
	}
	// What A itself could not measure is no loss.
	if strings.Contains(strings.Join(c.Reasons, "\n"), notOpened) {
		t.Errorf("reasons: %q", c.Reasons)
	}
	if !hasRule(c.Findings, "environment-differs") || !hasRule(c.Findings, "baseline-changed") {
		t.Errorf("findings: %v", c.Findings)
	}
}

func TestPairDots(t *testing.T) {
	run, trials := fixture()
	r := New(run, trials)
	for _, s := range r.Sections {
		base := s.baseline()
		for _, row := range s.Rows {
			wb, wx, _ := stat.Pairs(stat.SetAside(trials), s.Workload, s.Metric, base.Target, row.Target)
			if bs, xs := pairDots(base.Dots, row.Dots, false); !slices.Equal(bs, wb) || !slices.Equal(xs, wx) {
				t.Errorf("%s / %s: %v %v, stat.Pairs has %v %v", row.Target, s.Workload, bs, xs, wb, wx)
			}
		}
	}
}

// A comparison of two runs of 33,000 trials in 1,110 cells.
func BenchmarkCompare(b *testing.B) {
	big := func(f float64) *Report {
		run := &iotax.Run{ID: "r", Baseline: "t0", Margin: .05}
		var trials []*iotax.Trial
		for w := range 10 {
			run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: string(rune('a' + w)), Metrics: []string{"m"}})
			for block := range 30 {
				for k := range 111 {
					name := "t" + strconv.Itoa(k)
					if w == 0 && block == 0 {
						run.Targets = append(run.Targets, iotax.TargetInfo{Name: name})
					}
					trials = append(trials, &iotax.Trial{Target: name, Workload: string(rune('a' + w)), Block: block, Seq: len(trials),
						Values: []iotax.Value{{Name: "m", Value: 100*f + float64((block*7919+k*31)%97)/10, Better: iotax.Up}}})
				}
			}
		}
		return New(run, trials)
	}
	x, y := big(1), big(.9)
	for b.Loop() {
		Compare(x, y, CompareOptions{})
	}
}

func TestCompareDifferences(t *testing.T) {
	c := compared(CompareOptions{})
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
	if d := find("machine.kernel"); d == nil || !slices.Equal(d.Where, []string{virtioBlk, virtioFS}) { // 9p did not open
		t.Errorf("machine.kernel: %+v", d)
	}
	run, trials := earlierRun()
	run.Targets[1].Facts["boot.ready"], run.Targets[1].Facts["device.x"] = "9s", "file=/var/tmp/iotax-919fd8/disk.raw"
	a := New(run, trials)
	run, trials = earlierRun()
	run.Targets[1].Facts["device.x"] = "file=/var/tmp/iotax-0000aa/disk.raw"
	if same := Compare(a, New(run, trials), CompareOptions{}); len(same.Differences) != 0 || len(same.Findings) != 0 {
		t.Errorf("the same twice: %+v, %v", same.Differences, same.Findings)
	}
}

// pairRun makes a run of a baseline and one target.
func pairRun(better iotax.Better, base, target []float64) *Report {
	return New(small(better, base, target))
}

func scaled(xs []float64, f float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = f * x
	}
	return out
}

func TestGate(t *testing.T) {
	a := pairRun(iotax.Up, flat100, flat50)
	noB, noBTrials := small(iotax.Up, flat100, flat50)
	noB.Targets, noBTrials = noB.Targets[:1], noBTrials[:len(flat100)]
	unlike, unlikeTrials := small(iotax.Up, flat100, flat50)
	unlike.Targets[1].Durability = iotax.FlushIgnored
	for _, x := range []struct {
		name   string
		b      *Report
		o      CompareOptions
		failed bool
		reason string
	}{
		{"same", pairRun(iotax.Up, flat100, flat50), CompareOptions{FailOn: FailOnDiffers, Margin: .05}, false, ""},
		{"worse", pairRun(iotax.Up, flat100, scaled(flat50, .8)), CompareOptions{FailOn: FailOnWorse, Margin: .05}, true, "b / w: m is worse: 0.8"},
		{"worse, no gate", pairRun(iotax.Up, flat100, scaled(flat50, .8)), CompareOptions{Margin: .05}, false, ""},
		{"worse, wide margin", pairRun(iotax.Up, flat100, scaled(flat50, .8)), CompareOptions{FailOn: FailOnWorse, Margin: .4}, false, ""},
		{"better", pairRun(iotax.Up, flat100, scaled(flat50, 1.3)), CompareOptions{FailOn: FailOnWorse, Margin: .05}, false, ""},
		{"better differs", pairRun(iotax.Up, flat100, scaled(flat50, 1.3)), CompareOptions{FailOn: FailOnDiffers, Margin: .05}, true, "is better"},
		{"host slower, by value", pairRun(iotax.Up, scaled(flat100, .7), scaled(flat50, .7)), CompareOptions{FailOn: FailOnWorse, Margin: .05}, true, "a / w"},
		{"host slower, by loss", pairRun(iotax.Up, scaled(flat100, .7), scaled(flat50, .7)), CompareOptions{FailOn: FailOnWorse, Margin: .05, By: ByLoss}, false, ""},
		{"target slower, by loss", pairRun(iotax.Up, scaled(flat100, .7), scaled(flat50, .5)), CompareOptions{FailOn: FailOnWorse, Margin: .05, By: ByLoss}, true, "b / w"},
		{"missing", New(noB, noBTrials), CompareOptions{FailOn: FailOnWorse, Margin: .05}, true, "missing in B"},
		{"unlike durability", New(unlike, unlikeTrials), CompareOptions{FailOn: FailOnWorse, Margin: .05}, true, "durability-differs"},
		{"nothing in common", New(&iotax.Run{}, nil), CompareOptions{FailOn: FailOnWorse, Margin: .05}, true, "missing in B"},
	} {
		c := Compare(a, x.b, x.o)
		if c.Failed != x.failed || !strings.Contains(strings.Join(c.Reasons, "\n"), x.reason) {
			t.Errorf("%s: failed %v, %q", x.name, c.Failed, c.Reasons)
		}
	}
	if c := Compare(New(nil, nil), New(nil, nil), CompareOptions{FailOn: FailOnWorse}); !c.Failed {
		t.Error("two empty runs pass")
	}
	// Less is better: a latency that rises by a fifth is worse, and told as one that rises.
	c := Compare(pairRun(iotax.Down, flat100, flat50), pairRun(iotax.Down, flat100, scaled(flat50, 1.2)), CompareOptions{FailOn: FailOnWorse, Margin: .05})
	if !c.Failed || !strings.Contains(c.Answer, "rose to 1.2") {
		t.Errorf("latency: %v, %s", c.Failed, c.Answer)
	}
}

// Forty cells without any change, at a margin of 0: alone about two would be called worse or better.
func TestCompareHolm(t *testing.T) {
	false1, alone := 0, 0
	const studies = 100
	for seed := range uint64(studies) {
		r := rand.New(rand.NewPCG(seed, 7))
		many := func() *Report {
			run := &iotax.Run{ID: "r", Baseline: "a", Targets: []iotax.TargetInfo{{Name: "a"}}, Alpha: .05}
			var trials []*iotax.Trial
			for w := range 20 {
				name := string(rune('A' + w))
				run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: name, Metrics: []string{"m"}})
				for b := range 6 {
					trials = append(trials, &iotax.Trial{Target: "a", Workload: name, Block: b, Values: []iotax.Value{{Name: "m", Value: 100 * math.Exp(.03*r.NormFloat64()), Better: iotax.Up}}})
				}
			}
			return New(run, trials)
		}
		c := Compare(many(), many(), CompareOptions{Margin: 0, FailOn: FailOnDiffers})
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

func TestCompareFits(t *testing.T) {
	c := compared(CompareOptions{FailOn: FailOnWorse})
	for width := 40; width <= 200; width++ {
		var b bytes.Buffer
		if err := c.Text(&b, TextOptions{Width: width, Color: width%2 == 0}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > width {
				t.Errorf("width %d: a line of %d: %q", width, w, line)
			}
		}
	}
}

// Any two runs can be compared, whatever their names and numbers are, and every format can be written.
func TestCompareAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(1, 2), rapid.Just(0.), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Just(-1.))
		name := rapid.SampledFrom([]string{"a", "b", "x|y <b>", "\x1b[31m", ""})
		report := func() *Report {
			run := &iotax.Run{Baseline: name.Draw(t, "baseline"), Margin: rapid.Float64().Draw(t, "margin"), Environment: map[string]string{name.Draw(t, "key"): name.Draw(t, "fact")}}
			var trials []*iotax.Trial
			for i := range rapid.IntRange(0, 12).Draw(t, "trials") {
				trials = append(trials, &iotax.Trial{Target: name.Draw(t, "target"), Workload: name.Draw(t, "workload"), Block: i / 2, Seq: i,
					Values: []iotax.Value{{Name: "read.iops", Value: value.Draw(t, "value"), Better: iotax.Up}}, Void: rapid.SampledFrom([]string{"", "", "v"}).Draw(t, "void")})
			}
			return New(run, trials)
		}
		c := Compare(report(), report(), CompareOptions{Margin: rapid.Float64().Draw(t, "δ"), By: rapid.SampledFrom([]By{"", ByValue, ByLoss}).Draw(t, "by"),
			FailOn: rapid.SampledFrom([]FailOn{"", FailOnWorse, FailOnDiffers}).Draw(t, "gate")})
		for _, write := range []func(io.Writer) error{func(w io.Writer) error { return c.Text(w, TextOptions{}) }, c.Markdown, c.JSON} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsRune(b.String(), '\x1b') {
				t.Fatal("a name steers the terminal")
			}
		}
	})
}

func TestCompareJSON(t *testing.T) {
	var b bytes.Buffer
	if err := compared(CompareOptions{FailOn: FailOnWorse, Margin: .05}).JSON(&b); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Version int
		Run     struct{ ID string }
		Gate    struct {
			Failed  bool
			Reasons []string
		}
		Cells []struct {
			Target, Workload, Metric, Unit, Verdict string
			Value, Before                           struct{ Median, Lo, Hi *float64 }
			Ratio                                   *struct{ Estimate, Lo, Hi *float64 }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if out.Version != 1 || out.Run.ID != "20260321-081500-m4q1" || !out.Gate.Failed || len(out.Gate.Reasons) == 0 || len(out.Cells) == 0 {
		t.Errorf("%+v", out)
	}
	for _, c := range out.Cells {
		if c.Target == virtioBlk && c.Workload == "4k random read" && (c.Verdict != "worse" || c.Unit != "1/s" || *c.Ratio.Hi > .8 || *c.Before.Median < *c.Value.Median) {
			t.Errorf("%+v", c)
		}
	}
}

// Several runs stand on one page, each beside A and under its own letter, and notes are counted through.
func TestComparePageOfSeveral(t *testing.T) {
	b := compared(CompareOptions{Letter: "B"})
	c := compared(CompareOptions{Letter: "C"})
	page := ComparePage{All: []*Comparison{b, c}, Other: "/other?by=loss",
		Links: func(r *iotax.Run) (string, string) { return "/runs/" + r.ID, "/base/" + r.ID }}
	var out bytes.Buffer
	if err := page.HTML(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"<h1>B, guest virtio-blk: 4k random read IOPS fell to ", "the largest loss of 2 runs against A.</h1>", ">B/A<", ">C/A<", "hold the others against this one", `href="/runs/` + b.A.Run.ID + `"`, `href="/other?by=loss"`, "favour of the letter"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, "B against A") {
		t.Error("several runs are called one")
	}
	if got := answerOfAll([]*Comparison{{Letter: "B"}, {Letter: "C"}}); got != "2 runs against A: nothing is lost for sure." {
		t.Error(got)
	}
	ids := regexp.MustCompile(`id="n(\d+)"`).FindAllStringSubmatch(text, -1)
	seen := map[string]bool{}
	for _, m := range ids {
		if seen[m[1]] {
			t.Errorf("note %s twice", m[1])
		}
		seen[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`href="#n(\d+)"`).FindAllStringSubmatch(text, -1) {
		if !seen[m[1]] {
			t.Errorf("note %s is referred to and not there", m[1])
		}
	}
	if bn, _ := b.notes(); len(bn) == 0 || len(seen) != 2*len(bn) {
		t.Errorf("%d notes on the page, %d of B alone", len(seen), len(bn))
	}
}
