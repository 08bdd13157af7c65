package statsim

import (
	"math"
	"strings"
	"testing"

	"iotax"
)

// recorded returns the trials of a run of the model as the engine would store them.
func recorded(m *Model, rounds int, lnRho float64) []*iotax.Trial {
	w := newWork()
	w.reset(m, 6, 1, lnRho)
	w.order = 1
	w.keep = true
	for b := range rounds {
		w.pair(b, ours, true)
	}
	return w.kept
}

func record(t *testing.T, trials []*iotax.Trial) *Recording {
	t.Helper()
	rec, err := Record(trials, workload, metric, baseline, target)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// The intervals of a replay cover the ratio of the recording. If the setup drifts, the intervals of back-to-back studies
// do not cover it.
func TestReplay(t *testing.T) {
	drift := &Model{Name: "drift", Sigma: .01, Drift: math.Log(.5) / 1000}
	for _, m := range []*Model{{Name: "quiet", Sigma: .02}, drift} {
		rows, err := Replay(record(t, recorded(m, 30, math.Log(.62))), Options{Studies: 1000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 3 {
			t.Fatalf("%s: %d rows", m.Name, len(rows))
		}
		for _, x := range rows {
			switch {
			case strings.HasSuffix(x.Model, "A/A") && (x.Truth != 1 || x.Coverage < .9):
				t.Errorf("%s: %s: truth %v, coverage %v", m.Name, x.Model, x.Truth, x.Coverage)
			case x.Policy == Ours && (x.Coverage < .9 || x.Recorded < 15 || x.Studies != 1000):
				t.Errorf("%s: %s: coverage %v of %d, %d rounds", m.Name, x.Model, x.Coverage, x.Studies, x.Recorded)
			case strings.HasSuffix(x.Model, target) && math.Abs(x.Truth/.62-1) > .05:
				t.Errorf("%s: %s: truth %v", m.Name, x.Model, x.Truth)
			case x.Policy == "back-to-back" && (x.Coverage < .85) != (m == drift):
				t.Errorf("%s: back to back covers %v", m.Name, x.Coverage)
			}
		}
		for line := range strings.Lines(ReplayText(rows)) {
			if len([]rune(line)) > 80 {
				t.Errorf("too wide: %s", line)
			}
		}
		again, _ := Replay(record(t, recorded(m, 30, math.Log(.62))), Options{Studies: 1000, Seed: 1})
		if again[0].Row.Coverage != rows[0].Row.Coverage || again[0].HalfWidth != rows[0].HalfWidth {
			t.Error("the same seed makes another result")
		}
	}
}

func TestRecord(t *testing.T) {
	trials := recorded(&Model{Name: "quiet", Sigma: .02}, 14, 0)
	trials[0].Discarded = "a test"
	trials[3].Err = "a test"
	if rec := record(t, trials); len(rec.Rounds) != 12 {
		t.Errorf("%d rounds, of which one was discarded and one had failed", len(rec.Rounds))
	}
	trials[5].Series = nil
	if _, err := Record(trials, workload, metric, baseline, target); err == nil || !strings.Contains(err.Error(), "11 rounds") {
		t.Errorf("eleven rounds: %v", err)
	}
	if _, err := Record(trials, workload, "write.iops", baseline, target); err == nil || !strings.Contains(err.Error(), "0 rounds") {
		t.Errorf("no such series: %v", err)
	}
	dead := recorded(&Model{Name: "quiet"}, 12, 0)
	clear(dead[4].Series[0].V)
	if _, err := Replay(record(t, dead), Options{Studies: 10}); err == nil || !strings.Contains(err.Error(), "did nothing") {
		t.Errorf("a trial of zeros: %v", err)
	}
	s := iotax.Series{Name: metric, T: []float64{1, 2, 3, 4, 4.01}, V: []float64{1, 2, math.NaN(), 4, 900}}
	if got := secondsOf(&iotax.Trial{Series: []iotax.Series{s}}, metric); len(got) != 3 || got[2] != 4 {
		t.Errorf("seconds %v", got)
	}
}
