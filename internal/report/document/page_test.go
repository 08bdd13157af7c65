package document

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/block"
	"iotax/internal/report/chart"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

// Thinning a long series keeps its minimum and the order of its points.
func TestThinnedSeries(t *testing.T) {
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

func TestCostIsDrawn(t *testing.T) {
	known := stat.Interval{Estimate: 300 << 20, Lo: 300 << 20, Hi: 300 << 20, N: 6}
	c := &report.Cost{Workload: "w", Label: "m", Cells: []report.CostCell{{Target: "b", Speed: known, CPU: format.Lone(math.NaN()), Memory: known}}}
	drawn := costCharts(c, map[string]int{})
	if len(drawn) != 2 { // CPU time is unknown, so it has no chart
		t.Fatalf("%d charts", len(drawn))
	}
	if s := string(chart.SVG(drawn[1].Drawing)); !strings.Contains(s, "serving memory 300.0 MiB") || !strings.Contains(s, `class="bar"`) {
		t.Errorf("the bars do not tell the memory:\n%s", s)
	}
}

// If starts have several rounds, the dots of each start have a colour, and the key names up to chart.Hues starts.
func TestStartsHaveColours(t *testing.T) {
	for starts, want := range map[int]struct {
		keys, hues int
		caption    bool
	}{1: {}, 2: {keys: 2, hues: 2}, 8: {keys: 8, hues: 8}, 10: {hues: 8, caption: true}, 24: {}} {
		run, trials := reporttest.RunOf(24, nil,
			reporttest.CellSpec{Target: "disk", Workload: "w", Values: map[string]float64{"read.iops": 1000}},
			reporttest.CellSpec{Target: "guest", Workload: "w", Values: map[string]float64{"read.iops": 800}})
		for _, x := range trials {
			x.StartIndex = stat.StartOf(x.Round, 24, starts)
		}
		r := report.New(run, trials)
		c := trialsChart(r, &r.Sections[0])
		hues, svg := 0, string(chart.SVG(c.Drawing))
		for k := range chart.Hues {
			if strings.Contains(svg, `<g class="`+chart.Hue(k)+`"><circle class="toned"`) {
				hues++
			}
		}
		titled := strings.Contains(svg, fmt.Sprintf("start %d<", starts))
		if len(c.Key) != want.keys || hues != want.hues || titled != (want.hues > 0) || strings.Contains(c.Caption, "repeat") != want.caption {
			t.Errorf("%d starts: %d colours, key %v, start in titles: %v, caption %q", starts, hues, c.Key, titled, c.Caption)
		}
	}
}

// The list of trials counts trials and rounds from 1, as `iotax show` does.
func TestTrialsCountFromOne(t *testing.T) {
	for _, b := range everyTrial(report.New(reporttest.Fixture())) {
		if f, ok := b.(block.Fold); ok {
			if row := f.Blocks[0].(block.Table).Rows[0].Cells; row[0].Text != "1" || row[4].Text != "1" {
				t.Errorf("the first trial: %+v", row)
			}
			return
		}
	}
	t.Error("no list of trials")
}

// The tiles agree with the rows of the report.
func TestTiles(t *testing.T) {
	r := report.New(reporttest.Fixture())
	tilesOf := func(r *report.Report) []block.Tile { return tiles(r, assess.Of(r).Sentences[0]) }
	got := tilesOf(r)
	if len(got) != 4 {
		t.Fatalf("%d tiles", len(got))
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
	for i, want := range []string{fmt.Sprintf("%d of %d results", counts[stat.Worse], total), "20× slower", "6 rounds", "emulated guests"} {
		if got[i].Figure != want {
			t.Errorf("tile %d: %q, want %q", i, got[i].Figure, want)
		}
	}
	if got[0].Name != "Slower than host disk" || got[1].About != reporttest.Ninep+", 4k random read" || got[3].About != "1 result cached" {
		t.Errorf("%+v", got)
	}
	tied := report.New(reporttest.RunOf(6, nil, reporttest.Reads("disk", 10000, nil), reporttest.Reads("a", 1000, nil), reporttest.Reads("b", 1002, nil), reporttest.Reads("c", 5000, nil)))
	tied.General = append(tied.General, report.Note{Finding: rules.NoisyBaseline.Found(iotax.AboutRun(), "it varies")})
	if got := tilesOf(tied); got[1].Figure != "10× slower" || got[1].About != "a, 4k read" || got[3].Figure != "1 warning" || got[3].About != "the baseline is noisy" {
		t.Errorf("tied losses, and a noisy baseline: %+v", got)
	}
	clean, trials := reporttest.Small(iotax.Up, reporttest.Flat100, reporttest.Flat100)
	if got := tilesOf(report.New(clean, trials)); got[0].Figure != "0 of 1 result" || got[1].Figure != "none confirmed" {
		t.Errorf("two equal targets: %+v", got)
	}
	if got := tilesOf(report.New(nil, nil)); got != nil {
		t.Errorf("tiles of nothing: %v", got)
	}
}

// On the logarithmic axis, the bars of the layers add up to the bar of the total.
func TestWaterfallAddsUp(t *testing.T) {
	w := report.Waterfall{Workload: "w", Chain: []string{"device", "a", "b", "c"}, Start: format.Lone(100), Total: report.Hop{Ratio: format.Lone(.5 * .8 * 1.25)}}
	for i, r := range []float64{.5, .8, 1.25} {
		w.Hops = append(w.Hops, report.Hop{From: w.Chain[i], To: w.Chain[i+1], Ratio: format.Lone(r)})
	}
	rows := waterfallChart(w, "round").Drawing.(chart.Rows)
	if len(rows.Rows) != 5 {
		t.Fatalf("%d rows", len(rows.Rows))
	}
	sum, at := 0.0, 1.0
	for _, r := range rows.Rows[1:4] {
		if math.Abs(r.From-at) > 1e-9 || !r.Joined {
			t.Errorf("%s begins at %v, not where the one before it ended, %v", r.Name, r.From, at)
		}
		at = r.At
		sum += math.Log(r.At / r.From)
	}
	whole := rows.Rows[4]
	if math.Abs(sum-math.Log(whole.At/whole.From)) > 1e-9 || rows.Axis.Lo >= .4 || rows.Axis.Hi <= 1 {
		t.Errorf("the steps come to %v, the whole goes from %v to %v on %+v", sum, whole.From, whole.At, rows.Axis)
	}
}

// If there are too many trials, the page lists all failed trials and some of the others.
func TestListedTrials(t *testing.T) {
	var all []*report.Trial
	for i := range 3 * mostListed {
		x := &report.Trial{Trial: &iotax.Trial{}}
		if x.Seq = i; i%100 == 99 {
			x.Err = "boom"
		}
		all = append(all, x)
	}
	listed, failed := listedTrials(all), 0
	for i, x := range listed {
		if x.Err != "" {
			failed++
		}
		if i > 0 && x.Seq <= listed[i-1].Seq {
			t.Fatal("not in their order")
		}
	}
	if len(listed) != mostListed || failed != 3*mostListed/100 {
		t.Errorf("%d listed, %d of them failed", len(listed), failed)
	}
}

// The proposed command contains each flag only once, before the arguments of fio, and no output flags.
func TestAgain(t *testing.T) {
	const flags = "--trial 10s --budget 20m"
	for command, want := range map[string]string{
		"":                                       "the same command with " + flags,
		"iotax run quick":                        "iotax run quick " + flags,
		"iotax run /a /b --trial 1s --budget=3m": "iotax run /a /b " + flags,
		"iotax run quick -q --json --queue=1 -o 'a b.html'":    "iotax run quick --queue=1 " + flags,
		"iotax run --trial 1s /a /b -- fio --name=t --trial 3": "iotax run /a /b " + flags + " -- fio --name=t --trial 3",
	} {
		if got := again(command, flags); got != want {
			t.Errorf("%q became %q, want %q", command, got, want)
		}
	}
	if got := again("iotax run /a /b --rounds 2 -q", "--trial 10s --rounds 6"); got != "iotax run /a /b --trial 10s --rounds 6" {
		t.Errorf("few rounds became %q", got)
	}
}
