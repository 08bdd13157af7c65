package run

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
	"iotax/stat"
)

// A round with a failed or invalid trial is run again, so that the report has as many pairs as requested.
func TestLostRoundIsRunAgain(t *testing.T) {
	for name, spoil := range map[string]func(x *iotax.Trial) error{
		"failed":  func(*iotax.Trial) error { return errors.New("fio: out of cheese") },
		"invalid": func(x *iotax.Trial) error { x.Facts["spoilt"] = "yes"; return nil },
	} {
		for _, protocol := range []string{"adaptive", "fixed:8x10s"} {
			w := newWorld()
			w.value = func(x *iotax.Trial) (float64, error) {
				if x.Round == 3 && x.Target == "share" {
					if err := spoil(x); err != nil {
						return 0, err
					}
				}
				return 1000 + float64(x.Round%2), nil
			}
			d := w.deps()
			d.Check = func(x *iotax.Trial, _ *iotax.Target) ([]iotax.Finding, string) {
				if x.Facts["spoilt"] != "" {
					return []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "half of it"}}, ""
				}
				return nil, ""
			}
			p := guestPlan("w")
			p.Measure.Protocol = protocol
			p.Measure.Rounds = plan.Rounds{Min: 8, Max: 30}
			if protocol != "adaptive" {
				p.Measure.Rounds, p.Measure.Budget = plan.Rounds{}, 0
				if err := p.Measure.Check(); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Run(context.Background(), p, d, Options{ID: "r"})
			if err != nil || r.Status != iotax.Done {
				t.Errorf("%s, %s: status %s, %v", name, protocol, r.Status, err)
			}
			if len(w.saved) != 9*3 {
				t.Errorf("%s, %s: %d trials, want nine rounds of 3: one is run again", name, protocol, len(w.saved))
			}
			base, _, _ := stat.Pairs(stat.SetAside(w.saved), "w", "read.iops", "host", "share")
			if len(base) != 8 {
				t.Errorf("%s, %s: the report will have %d pairs, want 8", name, protocol, len(base))
			}
		}
	}
}

// If most trials of a cell are invalid, repeating them would not help, and no round is run again.
func TestCondemnedCellIsNotRunAgain(t *testing.T) {
	w := newWorld()
	d := w.deps()
	d.Check = func(x *iotax.Trial, _ *iotax.Target) ([]iotax.Finding, string) {
		if x.Target == "share" {
			return []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid}}, ""
		}
		return nil, ""
	}
	if _, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	if len(w.saved) != 6*3 {
		t.Errorf("%d trials, want 6 rounds of 3", len(w.saved))
	}
}

// A target that fails in two of three rounds never fails three times in a row. The run still ends once at least minLost
// rounds, and more than half of all rounds, are invalid.
func TestLostRoundsEnd(t *testing.T) {
	for _, protocol := range []string{"adaptive", "fixed:8x10s"} {
		w := newWorld()
		w.value = func(x *iotax.Trial) (float64, error) {
			if x.Round%3 != 0 && x.Target == "share" {
				return 0, errors.New("fio: out of cheese")
			}
			return 1000, nil
		}
		p := guestPlan("w")
		if p.Measure.Protocol = protocol; protocol != "adaptive" {
			p.Measure.Rounds, p.Measure.Budget = plan.Rounds{}, 0
			if err := p.Measure.Check(); err != nil {
				t.Fatal(err)
			}
		}
		start := w.now
		r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
		if err != nil || r.Status != iotax.Incomplete || !strings.Contains(r.Findings[0].Evidence, "rounds do not count") {
			t.Errorf("%s: status %s, findings %v, %v", protocol, r.Status, r.Findings, err)
		}
		if took := w.now.Sub(start); took > 20*time.Minute {
			t.Errorf("%s: it took %v", protocol, took)
		}
	}
}

// The run ends after the first round for which stat.Next, called with the widest interval, reports the end.
func TestStopsWhereTheRuleSays(t *testing.T) {
	ends := map[int]bool{}
	for seed := range uint64(30) {
		w := newWorld()
		rng := rand.New(rand.NewPCG(seed, 1))
		sd := .01 + .12*rng.Float64()
		w.value = func(x *iotax.Trial) (float64, error) {
			if rng.Float64() < .03 {
				return math.NaN(), nil
			}
			return 1000 * math.Exp(sd*rng.NormFloat64()), nil
		}
		p := guestPlan("w")
		p.Measure.Budget = 0
		r, err := Run(context.Background(), p, w.deps(), Options{ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		rounds := w.saved[len(w.saved)-1].Round + 1
		for b := 1; b <= rounds; b++ {
			trials := slices.DeleteFunc(slices.Clone(w.saved), func(x *iotax.Trial) bool { return x.Round >= b })
			widest, n := stat.Interval{Lo: 1, Hi: 1}, 0
			for _, target := range []string{"disk", "share"} {
				base, other, _ := stat.Pairs(trials, "w", "read.iops", "host", target)
				n = len(base)
				if i, err := stat.Ratio(base, other, iotax.Up, r.Alpha); err != nil || !i.Bounded() {
					widest = stat.Interval{Lo: math.NaN(), Hi: math.NaN()}
				} else if i.Hi/i.Lo > widest.Hi/widest.Lo {
					widest = i
				}
			}
			_, done := stat.Next(n, widest, r.Precision, p.Measure.Rounds.Min, p.Measure.Rounds.Max)
			if done != (b == rounds) {
				t.Errorf("seed %d: after round %d of %d the rule says %v (%d count, ± %.3f)", seed, b, rounds, done, n, widest.HalfWidth())
				break
			}
			if done {
				ends[n] = true
			}
		}
	}
	if len(ends) < 4 {
		t.Errorf("the runs ended at %v: the test sees little", ends)
	}
}

// A link is a machine that reports lost connections.
type link struct {
	fakeMachine
	broke []string
}

func (l *link) Caps() iotax.MachineCaps { return iotax.MachineCaps{Reconnected: l.reconnected} }

func (l *link) reconnected() []string {
	told := l.broke
	l.broke = nil
	return told
}

// A lost connection is reported only for the trial during which it was lost.
func TestReconnectedIsTold(t *testing.T) {
	w := newWorld()
	d := w.deps()
	guest := &link{fakeMachine: fakeMachine{w: w, name: "guest"}}
	d.Open = func(context.Context, plan.Machine, iotax.Machine, []iotax.Device) (iotax.Machine, error) {
		return guest, nil
	}
	w.value = func(x *iotax.Trial) (float64, error) {
		if x.Round == 2 && x.Target == "share" {
			guest.broke = []string{"guest: connection lost"}
			return 0, errors.New("connection lost")
		}
		return 1000, nil
	}
	if _, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	for _, x := range w.saved {
		told := slices.ContainsFunc(x.Findings, func(f iotax.Finding) bool {
			return f.Rule == "connection-remade" && f.Evidence == "guest: connection lost"
		})
		if told != (x.Err == "connection lost") {
			t.Errorf("round %d of %s, error %q: told %v", x.Round, x.Target, x.Err, told)
		}
	}
	if guest.broke != nil {
		t.Error("nobody asked")
	}
}

// The review gets only the parts of a trial that it needs. Equal facts share one map.
func TestKeepsLittleOfATrial(t *testing.T) {
	w := newWorld()
	w.value = func(x *iotax.Trial) (float64, error) {
		x.Facts["engine"], x.Facts["command"] = "psync", strings.Repeat("x", x.Seq)
		x.Raw, x.Series, x.Histograms = make([]byte, 1000), make([]iotax.Series, 3), make([]iotax.Histogram, 3)
		x.Values = append(x.Values, iotax.Value{Name: "read.latency", Value: 1 / float64(x.Seq)}, iotax.Value{Name: "read.latency.p99", Value: 1})
		return 1000 + float64(x.Seq), nil
	}
	d := w.deps()
	d.Check = func(*iotax.Trial, *iotax.Target) ([]iotax.Finding, string) {
		return []iotax.Finding{{Rule: "steal", Severity: iotax.Warning, Evidence: "10 %", Hint: "be alone"}}, ""
	}
	var seen []*iotax.Trial
	d.ReviewValues = []string{"read.latency"}
	d.ReviewFacts = func(x *iotax.Trial) map[string]string { return map[string]string{"engine": x.Facts["engine"]} }
	d.Review = func(_ *iotax.Run, trials []*iotax.Trial) []iotax.Finding { seen = trials; return nil }
	if _, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	if len(seen) < 18 {
		t.Fatalf("%d trials", len(seen))
	}
	one := seen[0].Facts
	for _, x := range seen {
		one["shared"] = "" // visible in all trials, because they share one map
		if x.Raw != nil || x.Series != nil || x.Histograms != nil || len(x.Values) != 2 || len(x.Findings) != 1 || x.Findings[0] != (iotax.Finding{Rule: "steal", Severity: iotax.Warning}) {
			t.Errorf("kept: %+v", x)
		}
		if _, ok := x.Facts["shared"]; !ok || x.Facts["engine"] != "psync" || len(x.Facts) != 2 {
			t.Errorf("facts: %v", x.Facts)
		}
	}
	for i, x := range w.saved {
		if y := seen[i]; y.Target != x.Target || y.Round != x.Round || y.Seq != x.Seq || y.StartIndex != x.StartIndex || y.Values[0] != x.Values[0] || y.Values[1] != x.Values[2] {
			t.Errorf("trial %d of %s, round %d, %v: the review has %d of %s, %d, %v", x.Seq, x.Target, x.Round, x.Values, y.Seq, y.Target, y.Round, y.Values)
		}
		if x.Raw == nil || x.Facts["engine"] != "psync" || len(x.Values) != 3 || x.Findings[0].Evidence == "" {
			t.Errorf("saved: %+v", x)
		}
	}
}
