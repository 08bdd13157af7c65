package report

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"iotax"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

// Holm's adjustment only withdraws verdicts: a withdrawn verdict becomes inconclusive, with a note that explains why.
// The verdict of a single comparison does not change.
func TestHolmOnlyTakesBack(t *testing.T) {
	undone := 0
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		targets, workloads := rapid.IntRange(1, 4).Draw(t, "targets"), rapid.IntRange(1, 5).Draw(t, "workloads")
		run, trials := reporttest.Matrix(r, targets, workloads, rapid.IntRange(2, 9).Draw(t, "rounds"), .04, func(int, int) float64 {
			return rapid.SampledFrom([]float64{.5, .9, .93, 1, 1.1}).Draw(t, "ratio")
		})
		run.Margin = rapid.SampledFrom([]float64{0, .02, .05}).Draw(t, "margin")
		if rapid.Bool().Draw(t, "imported") {
			run.Findings = []iotax.Finding{{Rule: "imported"}}
		}
		if rapid.Bool().Draw(t, "correlated") {
			run.Calibration = &iotax.Calibration{Phi: .3}
		}
		rep := New(run, trials)
		family := 0
		for _, s := range rep.Sections {
			for _, row := range s.Rows {
				if row.Baseline {
					continue
				}
				alone := stat.Judge(row.Ratio.Interval, run.Margin)
				if row.Holm != nil {
					family++
					if row.Holm.Alone != alone || row.Holm.Adjusted < row.Holm.P {
						t.Fatalf("%+v, alone %s", row.Holm, alone)
					}
				}
				noted := slices.Contains(ruleIDs(rep, row), "one-of-many")
				switch {
				case row.Verdict == alone:
					if noted {
						t.Fatalf("a note about nothing: %+v", row)
					}
				case row.Verdict != stat.Inconclusive || alone != stat.Worse && alone != stat.Better || !noted:
					t.Fatalf("alone %q, among others %q, noted %v", alone, row.Verdict, noted)
				case family == 1 && targets*workloads == 1:
					t.Fatalf("one comparison, alone %q, became %q", alone, row.Verdict)
				default:
					undone++
				}
			}
		}
		if family != rep.Protocol.Comparisons {
			t.Fatalf("%d comparisons, counted %d", family, rep.Protocol.Comparisons)
		}
	})
	if undone == 0 && !testing.Short() { // with -short, there are few runs, and perhaps no withdrawn verdict
		t.Error("nothing was ever taken back: the test sees nothing")
	}
}

// Of runs with twenty comparisons, no real difference and a margin of 0, at most about 5 % have a worse or better
// verdict. Without the adjustment, about 64 % would have one.
func TestHolmKeepsFalseVerdictsRare(t *testing.T) {
	const studies = 200
	wrong, alone := 0, 0
	for seed := range uint64(studies) {
		run, trials := reporttest.Matrix(rand.New(rand.NewPCG(seed, 9)), 4, 5, 8, .03, func(int, int) float64 { return 1 })
		run.Margin = 0
		flagged, judged := false, false
		for _, s := range New(run, trials).Sections {
			for _, row := range s.Rows {
				flagged = flagged || row.Verdict == stat.Worse || row.Verdict == stat.Better
				judged = judged || row.Holm != nil && (row.Holm.Alone == stat.Worse || row.Holm.Alone == stat.Better)
			}
		}
		if flagged {
			wrong++
		}
		if judged {
			alone++
		}
	}
	if w := stat.Wilson(wrong, studies, .01); w.Lo > .05 {
		t.Errorf("%d of %d runs without a difference have a verdict", wrong, studies)
	}
	if alone < studies/4 {
		t.Errorf("only %d runs needed the adjustment: the test sees nothing", alone)
	}
}

func TestHolmTakesBack(t *testing.T) {
	run, trials := reporttest.OneOfMany()
	rep := New(run, trials)
	row := row(t, rep, "w0", "m", "t1")
	if row.Holm == nil || row.Holm.Alone != stat.Worse || row.Verdict != stat.Inconclusive {
		t.Fatalf("verdict %q, %+v, ratio %v", row.Verdict, row.Holm, row.Ratio)
	}
	one := New(run, slices.DeleteFunc(slices.Clone(trials), func(x *iotax.Trial) bool { return x.Workload != "w0" || x.Target > "t1" }))
	for _, s := range one.Sections {
		for _, r := range s.Rows {
			if s.Workload == "w0" && r.Target == "t1" && r.Verdict != stat.Worse {
				t.Errorf("the cell alone is %q", r.Verdict)
			}
		}
	}
}

func TestAutocorrelationWidensRatios(t *testing.T) {
	run, trials := reporttest.Fixture()
	narrow := New(run, trials)
	run.Calibration = &iotax.Calibration{Phi: .6}
	wide := New(run, trials)
	n, w := narrow.Sections[0].Rows[1].Ratio, wide.Sections[0].Rows[1].Ratio
	if !(w.HalfWidth() > 1.5*n.HalfWidth()) || w.Estimate != n.Estimate {
		t.Errorf("φ = 0.6 makes ± %v of ± %v", w.HalfWidth(), n.HalfWidth())
	}
}
