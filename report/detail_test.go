package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/report/format"
	"iotax/stat"
)

// detailed is the fixture with what only pictures show: histograms as fio makes them, seconds, CPU and memory,
// a chain of layers and published figures.
func detailed() (*iotax.Run, []*iotax.Trial) {
	run, trials := fixture()
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
		if t.Block%3 == 2 && i > seconds*2/3 {
			v *= .62
		}
		s.T, s.V = append(s.T, float64(i+1)), append(s.V, v)
	}
	t.Series = []iotax.Series{s}
	h := iotax.Histogram{Name: op + ".latency", Unit: iotax.Seconds}
	mid := 16 / ops
	for k := range 90 {
		z := -2.5 + .09*float64(k)
		tail := .004 * math.Exp(-math.Pow(z-3.4, 2)/.6) // some wait for something else
		if n := uint64(ops * float64(seconds) * (.09*math.Exp(-z*z/2)/2.5066 + .09*tail)); n > 0 {
			h.Bins = append(h.Bins, iotax.Bin{Value: mid * math.Exp(.45*z), Count: n})
		}
	}
	t.Histograms = []iotax.Histogram{h}
	busy := .35 + .1*r.Float64()
	t.Values = append(t.Values, iotax.Value{Name: "cpu.host.busy", Value: busy, Unit: iotax.RatioUnit})
	if t.Target != hostDisk {
		t.Values = append(t.Values, iotax.Value{Name: "memory.serving", Value: (500 + 20*r.Float64()) * (1 << 20), Unit: iotax.Bytes, Better: iotax.Down})
	}
}

// curved adds to a run an open loop at three loads on two of its targets, and a store that one, two and four
// clients read at once.
func curved(run *iotax.Run, trials []*iotax.Trial) (*iotax.Run, []*iotax.Trial) {
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
	open, loads := loaded()
	for _, t := range loads {
		t.Target = map[string]string{"host": hostDisk, "guest": virtioBlk}[t.Target]
	}
	add(open.Workloads, []string{hostDisk, virtioBlk}, loads)
	many, reads := clients(.005)
	run.Targets = append(run.Targets, many.Targets...)
	add(many.Workloads, names(many.Targets), reads)
	return run, trials
}

// whole is a report that has a drawing of each kind that there is in a report: also a waterfall, and published
// figures, as those who compute them leave them.
func whole() *Report {
	r := New(curved(detailed()))
	hop := func(from, to string, ratio float64, v stat.Verdict) Hop {
		return Hop{From: from, To: to, Ratio: stat.Interval{Estimate: ratio, Lo: ratio * .93, Hi: ratio * 1.07, N: 6}, Verdict: v}
	}
	r.Waterfalls = []Waterfall{{Workload: "4k random read", Metric: "read.iops", Label: "read IOPS", Unit: iotax.PerSecond, Better: iotax.Up, Blocks: 6,
		Chain: []string{hostDisk, virtioBlk, virtioFS, ninep}, Start: stat.Interval{Estimate: 48200, Lo: 47100, Hi: 49000, N: 6},
		Hops:  []Hop{hop(hostDisk, virtioBlk, .71, stat.Worse), hop(virtioBlk, virtioFS, .44, stat.Worse), hop(virtioFS, ninep, .17, stat.Worse)},
		Total: hop(hostDisk, ninep, .71*.44*.17, stat.Worse)}}
	one := func(x float64) *stat.Interval { return &stat.Interval{Estimate: x, Lo: x * .9, Hi: x * 1.1, N: 5} }
	r.Beside = &Beside{Name: "example", Source: "figures made up for a test", Reference: hostDisk, Theirs: "host",
		Rows: []BesideRow{{Workload: "4k random read", Target: virtioBlk, Metric: "read.iops", Label: "read IOPS", Unit: iotax.PerSecond, Better: iotax.Up, TheirWorkload: "randread", TheirTarget: "guest disk",
			Value: format.Lone(34000), TheirValue: format.Lone(61000), Ratio: one(.71), TheirRatio: one(.64), Agree: Overlap}},
		Unmatched: []string{"1M sequential read on " + virtioFS}, Unused: []string{"randwrite on sshfs"}, Notes: []string{"the publication does not say how caches were dropped"}}
	return r
}

// The curve of quantiles is the one that stat.Quantile reads, and ends where its figures do.
func TestDistributions(t *testing.T) {
	r := New(detailed())
	trials := r.counting()
	ds := r.Sections[0].distributions(r)
	if len(ds) != 1 || len(ds[0].Cells) != 5 {
		t.Fatalf("%d distributions", len(ds))
	}
	for _, c := range ds[0].Cells {
		var hs []iotax.Histogram
		for _, tr := range trials[Cell{c.Target, r.Sections[0].Workload}] {
			hs = append(hs, tr.Histograms...)
		}
		h := stat.Merge(hs...)
		for i, q := range c.Quantiles {
			if i > 0 && (q.Q < c.Quantiles[i-1].Q || q.Value < c.Quantiles[i-1].Value) {
				t.Fatalf("%s: not ascending at %d: %v", c.Target, i, c.Quantiles)
			}
		}
		for _, q := range []float64{.25, .5, .9, .99} {
			want, ok := stat.Quantile(h, q)
			if got := at(c.Quantiles, q); ok && math.Abs(got/want-1) > .05 {
				t.Errorf("%s: q%g is %g, want %g", c.Target, q, got, want)
			}
		}
		last := c.Quantiles[len(c.Quantiles)-1]
		if n := stat.Beyond(h, last.Q); n < 99 {
			t.Errorf("%s: the curve goes to %g, with %d observations beyond", c.Target, last.Q, n)
		}
	}
	few := iotax.Histogram{Bins: []iotax.Bin{{Value: 1, Count: 60}, {Value: 2, Count: 30}}}
	if qs := quantileCurve(few); qs != nil {
		t.Errorf("90 observations have the curve %v", qs)
	}
}

// A void block and a failed trial are in no picture, a stall survives thinning, a step is not steady.
func TestTimeline(t *testing.T) {
	r := New(detailed())
	timelines, err := r.timelines(r.counting())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Sections {
		if !s.First {
			continue
		}
		tl := timelines[s.Workload]
		if tl == nil {
			t.Fatalf("%s: none", s.Workload)
		}
		for i := range tl.Cells {
			c := tl.Cells[i]
			for _, x := range c.Trials {
				if s.Workload == "4k random read" && x.Block == 3 {
					t.Errorf("%s: block 3 is void and drawn", c.Target)
				}
				if want := x.Block%3 != 2; x.Steady.Reached != want {
					t.Errorf("%s block %d: steady %v", c.Target, x.Block, x.Steady.Reached)
				}
			}
			if c.Target == virtioFS && s.Workload == "4k random write" && len(c.Trials) != 4 {
				t.Errorf("%d trials of the cell with two failures", len(c.Trials))
			}
		}
	}
	long := iotax.Series{}
	for i := range 3600 {
		v := 100.0
		if i == 1234 {
			v = 0
		}
		long.T, long.V = append(long.T, float64(i+1)), append(long.V, v)
	}
	pts := thinnedSeries(long, 100)
	stalled := false
	for i, p := range pts {
		stalled = stalled || p.Y == 0
		if i > 0 && p.X <= pts[i-1].X {
			t.Fatal("time runs backwards")
		}
	}
	if len(pts) > 102 || !stalled {
		t.Errorf("%d points, the stalled second among them: %v", len(pts), stalled)
	}
}

func TestCost(t *testing.T) {
	run, trials := small(iotax.Up, flat100, flat50)
	run.Environment = map[string]string{"cpu.count": "4"}
	if New(run, trials).Sections[0].cost(New(run, trials), New(run, trials).counting()) != nil {
		t.Error("a cost where nothing is known")
	}
	for _, tr := range trials {
		tr.Values = append(tr.Values, iotax.Value{Name: "read.iops", Value: 1000, Unit: iotax.PerSecond}, iotax.Value{Name: "cpu.host.busy", Value: .5, Unit: iotax.RatioUnit})
		if tr.Target != run.Baseline { // nothing serves a directory of this host
			tr.Values = append(tr.Values, iotax.Value{Name: "memory.serving", Value: 300 << 20, Unit: iotax.Bytes})
		}
	}
	r := New(run, trials)
	c := r.Sections[0].cost(r, r.counting())
	if c == nil || len(c.Cells) != 2 {
		t.Fatalf("%+v", c)
	}
	// Half of four CPUs for a thousand I/Os a second is 2 ms each.
	for i, memory := range []float64{math.NaN(), 300 << 20} {
		got := c.Cells[i]
		if known := !math.IsNaN(memory); math.Abs(got.CPU.Estimate-.002) > 1e-12 || known == math.IsNaN(got.Memory.Estimate) || known && got.Memory.Estimate != memory {
			t.Errorf("%s: CPU %g, memory %g, want %g", got.Target, got.CPU.Estimate, got.Memory.Estimate, memory)
		}
	}
	if v := c.chart(map[string]int{}); !strings.Contains(string(v.SVG), "b: 300.0 MiB") {
		t.Errorf("the bars do not tell the memory:\n%s", v.SVG)
	}
}

// The tiles count what the rows say, and link to notes that are there.
func TestTiles(t *testing.T) {
	r := New(fixture())
	tiles := r.tiles()
	if len(tiles) != 4 {
		t.Fatalf("%d tiles", len(tiles))
	}
	counts, total := map[stat.Verdict]int{}, 0
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			if s.First && !row.Baseline {
				counts[row.Verdict]++
				total++
			}
		}
	}
	if want := fmt.Sprintf("%d of %d worse", counts[stat.Worse], total); tiles[0].Big != want {
		t.Errorf("lost: %q, want %q", tiles[0].Big, want)
	}
	sum, width := 0, 0.0
	for _, p := range tiles[0].Parts {
		sum, width = sum+p.N, width+p.W
	}
	if sum != total || math.Abs(width-100) > 1e-9 {
		t.Errorf("the parts are %d of %d, %g %%", sum, total, width)
	}
	if tiles[1].Big != ninep {
		t.Errorf("where: %q", tiles[1].Big)
	}
	if tiles[3].Big != "1 number not to be quoted" || tiles[3].Rules[0].Rule != "cache-served" {
		t.Errorf("fair: %+v", tiles[3])
	}
	clean, trials := small(iotax.Up, flat100, flat100)
	if tiles := New(clean, trials).tiles(); tiles[0].Big != "nothing" && tiles[0].Big != "nothing for sure" {
		t.Errorf("two equal targets: lost %q", tiles[0].Big)
	}
	if tiles := New(nil, nil).tiles(); tiles != nil {
		t.Errorf("tiles of nothing: %v", tiles)
	}
}

func TestCode(t *testing.T) {
	for in, want := range map[string]string{
		"plain <b>":                 "plain &lt;b&gt;",
		"use `cache: none` or `-x`": "use <code>cache: none</code> or <code>-x</code>",
		"one ` alone <":             "one ` alone &lt;",
		"``":                        "<code></code>",
	} {
		if got := string(code(in)); got != want {
			t.Errorf("code(%q) = %q, want %q", in, got, want)
		}
	}
}

// Every drawing is well-formed XML by itself and says what it shows.
func TestDrawingsAreWellFormed(t *testing.T) {
	var b bytes.Buffer
	if err := whole().HTML(&b); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	rest := b.String()
	for {
		_, after, ok := strings.Cut(rest, `data-save="`)
		if !ok {
			break
		}
		kind, _, _ := strings.Cut(after, `"`)
		_, after, _ = strings.Cut(after, "<svg")
		picture, tail, _ := strings.Cut(after, "</svg>")
		rest = tail
		kinds[kind]++
		d := xml.NewDecoder(strings.NewReader("<svg" + picture + "</svg>"))
		for {
			tok, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "svg" {
				named := false
				for _, a := range e.Attr {
					named = named || strings.HasPrefix(a.Name.Local, "aria-label") && len(a.Value) > 10
				}
				if !named {
					t.Errorf("%s: no words for who cannot see it", kind)
				}
			}
		}
	}
	for _, want := range drawings(t) {
		if kinds[want] == 0 {
			t.Errorf("no drawing %q among %v", want, kinds)
		}
	}
}

// hundred is a run of 100 cells: 20 workloads on five targets, 30 blocks of ten seconds.
func hundred() (*iotax.Run, []*iotax.Trial) {
	run, _ := fixture()
	run.Targets, run.Workloads, run.Findings = run.Targets[:5], nil, nil
	r := rand.New(rand.NewPCG(7, 8))
	var trials []*iotax.Trial
	for w := range 20 {
		name := fmt.Sprintf("%dk random read qd%d", 4<<(w%5), 1<<(w/5))
		run.Workloads = append(run.Workloads, iotax.WorkloadInfo{Name: name, Kind: "fio", Metrics: []string{"read.iops"}, Cold: true})
		for b := range 30 {
			for k, target := range run.Targets {
				t := &iotax.Trial{Run: run.ID, Target: target.Name, Workload: name, Block: b, Seq: len(trials), Length: 10e9, Ramp: 2e9, Cold: true, Start: run.Start, Took: 12e9,
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

func TestSizeOfLargePage(t *testing.T) {
	var b bytes.Buffer
	if err := New(hundred()).HTML(&b); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 3<<20 {
		t.Errorf("%d bytes for 100 cells of 30 trials of 10 s", b.Len())
	}
	t.Logf("%d bytes", b.Len())
}

// From trials to the page, which takes a second at most on a small machine: it fails where it takes more.
func BenchmarkHTML100Cells(b *testing.B) {
	run, trials := hundred()
	for b.Loop() {
		if err := New(run, trials).HTML(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	if each := b.Elapsed() / time.Duration(b.N); each > time.Second {
		b.Errorf("%v a page, more than a second", each)
	}
}

// The classic tables stand in the page too, word by word.
func TestLayoutsInPage(t *testing.T) {
	for _, name := range iotax.Layouts {
		r := laidOut(name)
		page := strings.NewReplacer(format.NBSP, " ", "\u2060", "").Replace(html.UnescapeString(string(written(t, r))))
		tables := r.LayoutTables()
		if len(tables) == 0 {
			t.Fatalf("%s: no table", name)
		}
		for _, table := range tables {
			for _, row := range table.Rows {
				for _, cell := range row {
					if !strings.Contains(page, ">"+format.Clean(cell)+"</td>") {
						t.Errorf("%s: the page lacks %q", name, cell)
					}
				}
			}
		}
	}
	if strings.Contains(string(written(t, laidOut(""))), "At a glance") {
		t.Error("a report without a layout has its heading")
	}
}

// What serves the targets is drawn over time too, also where nothing else is, as in boots: without a word on whether it
// was steady.
func TestServingOverTime(t *testing.T) {
	run, trials := small(iotax.Down, flat100, flat50)
	for _, tr := range trials {
		tr.Series = []iotax.Series{
			{Name: "memory.host.rss", Unit: iotax.Bytes, T: []float64{0.1, 0.2, 0.3}, V: []float64{0, 100 << 20, 300 << 20}},
			{Name: "cpu.host", Unit: iotax.RatioUnit, T: []float64{0.2, 0.3}, V: []float64{0.5, 1}},
		}
	}
	var page strings.Builder
	if err := New(run, trials).HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"What serves the targets, over time", "Host memory during the trials", "at most 300 MiB", "Host CPU during the trials"} {
		if !strings.Contains(page.String(), want) && !strings.Contains(page.String(), strings.ToLower(want[:1])+want[1:]) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page.String(), "second by second") || strings.Contains(page.String(), "too short to tell") {
		t.Error("it judges whether memory was steady")
	}
}
