package trend

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/rules"
	"iotax/internal/store"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

// Runs of the same day are labelled with their times. Runs of several days are labelled with their dates.
func TestTrendWithinADay(t *testing.T) {
	epoch := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		between      time.Duration
		label, title string
	}{{time.Minute, "02:30", "since the run of 1 March 2026, 02:35"}, {24 * time.Hour, "2026-03-01", "since the run of 6 March 2026"}} {
		d := Trend{Options: Options{Cell: store.Cell{Workload: "w", Target: "t"}}, ByRatio: true}
		for i := range 10 {
			x := 1 - .5*float64(i/5)
			d.Dots = append(d.Dots, Dot{Run: iotax.Run{ID: fmt.Sprint(i), Start: epoch.Add(time.Duration(i) * c.between)}, Value: stat.Interval{Estimate: x, Lo: x, Hi: x, N: 6}})
		}
		d.Changes = []Change{{Before: 4, After: 5, Ratio: stat.Interval{Estimate: .5, Lo: .4, Hi: .6}, Verdict: stat.Worse}}
		if dates := d.chart(wideTrend).X.Ticks; len(dates) == 0 || dates[0].Label != c.label {
			t.Errorf("every %v: %+v", c.between, dates)
		}
		if got := d.answer(); !strings.HasSuffix(got, c.title) {
			t.Errorf("every %v: %s", c.between, got)
		}
		if len(d.Since(5)) != 1 || len(d.Since(4)) != 0 {
			t.Errorf("changes of the last runs: %v, %v", d.Since(5), d.Since(4))
		}
	}
}

// followed returns the trend of guest over two runs with the same three cells. `change` modifies the older run.
func followed(by string, change func(*iotax.Run, []*iotax.Trial)) *Trend {
	d := &Trend{Options: Options{By: by}}
	var all []point
	for i := range 2 {
		run, trials := reporttest.RunOf(6, nil, reporttest.Reads("disk", 10000, nil), reporttest.Reads("file", 9000, nil), reporttest.Reads("guest", 5000, nil))
		reporttest.Against(run, "guest", "file")
		if i == 0 {
			change(run, trials)
		}
		all = append(all, pointOf(store.Cell{Target: "guest", Workload: "4k read"}, report.New(run, trials)))
	}
	d.choose(all)
	return d
}

// The trend excludes an older ratio unless it has the same reference target as the newest ratio, the reference did the
// same work, and the value of the reference is valid.
func TestReferenceOfARatio(t *testing.T) {
	condemn := func(target string) func(*iotax.Run, []*iotax.Trial) {
		return func(_ *iotax.Run, trials []*iotax.Trial) {
			for _, x := range trials {
				if x.Target == target {
					x.Findings = []iotax.Finding{rules.CacheServed.Found(iotax.AboutCell(target, x.Workload), "half of it")}
				}
			}
		}
	}
	job := func(target string) func(*iotax.Run, []*iotax.Trial) {
		return func(_ *iotax.Run, trials []*iotax.Trial) {
			for _, x := range trials {
				if x.Target == target {
					x.Facts = map[string]string{iotax.FactJob: `{"iodepth":"2"}`}
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*iotax.Run, []*iotax.Trial)
		ratio  string // why the trend excludes the older ratio
		value  string
	}{
		{"same", func(*iotax.Run, []*iotax.Trial) {}, "", ""},
		{"reference invalid", condemn("file"), "cache-served", ""},
		{"baseline invalid", condemn("disk"), "", ""},
		{"target invalid", condemn("guest"), "cache-served", "cache-served"},
		{"other work at the reference", job("file"), "iodepth=2", ""},
		{"other work at the baseline", job("disk"), "", ""},
		{"other reference", func(r *iotax.Run, _ []*iotax.Trial) { reporttest.Against(r, "guest") }, "disk", ""},
	} {
		for by, want := range map[string]string{ByRatio: c.ratio, ByValue: c.value} {
			d := followed(by, c.change)
			if len(d.Dots) != 2 || d.Dots[1].Unlike != "" {
				t.Fatalf("%s, %s: %+v", c.name, by, d.Dots)
			}
			if got := d.Dots[0].Unlike; (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s, %s: takes no part because of %q, want %q", c.name, by, got, want)
			}
		}
	}
	if d := followed(ByRatio, func(*iotax.Run, []*iotax.Trial) {}); !strings.HasSuffix(d.Label(), "ratio to file") {
		t.Error(d.Label())
	}
}

// Changes of a metric for which neither more nor less is better are not ranked, even if the trend shows ratios.
func TestNoVerdictWithoutADirection(t *testing.T) {
	d := stepped(t, "", func(i int) []reporttest.CellSpec {
		return []reporttest.CellSpec{{Target: "a", Workload: "w", Values: map[string]float64{"retransmits": 10}},
			{Target: "b", Workload: "w", Values: map[string]float64{"retransmits": 10 + 10*float64(i/10)}}}
	})
	if !d.ByRatio || len(d.Changes) != 1 || d.Changes[0].Verdict != stat.NotRanked || d.Export().Better != iotax.Neither {
		t.Errorf("by ratio %v, changes %+v, better %v", d.ByRatio, d.Changes, d.Export().Better)
	}
}

// stepped returns the trend of target b under workload w over 20 runs of the given cells.
func stepped(t *testing.T, by string, cells func(run int) []reporttest.CellSpec) *Trend {
	ctx := t.Context()
	db, err := store.Open(ctx, t.TempDir()+"/runs.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 20 {
		run, trials := reporttest.RunOf(6, nil, cells(i)...)
		run.ID, run.Status, run.Start = fmt.Sprint("r", i), iotax.Done, time.Unix(int64(i)*3600, 0)
		if err := db.Create(ctx, run); err != nil {
			t.Fatal(err)
		}
		for _, x := range trials {
			x.Run = run.ID
			if err := db.Append(ctx, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	d, err := (&Reader{Store: db}).Of(ctx, Options{Cell: store.Cell{Workload: "w", Target: "b"}, By: by})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// If a percentile steps by less than the error of its histogram's bins, there is no change. A drift by one bin at a time
// is a change, and its interval includes the error of the bins.
func TestTrendOfBins(t *testing.T) {
	for by, hidden := range map[string]float64{ByValue: 2 * stat.HistogramError, ByRatio: 4 * stat.HistogramError} {
		for _, c := range []struct {
			step   float64 // after each `runs` runs
			runs   int
			change bool
		}{{.014, 10, false}, {.05, 10, true}, {.014, 4, true}} {
			d := stepped(t, by, func(i int) []reporttest.CellSpec {
				return []reporttest.CellSpec{{Target: "a", Workload: "w", Values: map[string]float64{"read.latency.p99": 1e-3}, Noise: 1e-9},
					{Target: "b", Workload: "w", Values: map[string]float64{"read.latency.p99": 1e-3 * math.Pow(1+c.step, float64(i/c.runs))}, Noise: 1e-9}}
			})
			if (len(d.Changes) > 0) != c.change || c.change && d.Changes[0].Ratio.HalfWidth() < hidden {
				t.Errorf("by %s, steps of %v: %+v", by, c.step, d.Changes)
			}
		}
	}
}
