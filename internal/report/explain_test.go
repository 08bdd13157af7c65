package report

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"iotax"
	"iotax/internal/testenv/reporttest"
	"iotax/stat"
)

func near(x, want, by float64) bool { return math.Abs(x-want) <= by }

func TestExplanation(t *testing.T) {
	r := New(reporttest.Explained(8))
	for _, x := range r.Trials {
		if x.Explains() != "" {
			t.Fatal("an explained trial is among the others")
		}
	}
	if len(r.Sections) != 1 || r.Sections[0].Rows[1].Ran != 8 || !r.Sections[0].Rows[1].Ratio.Contains(.25) {
		t.Errorf("the headline has changed: %+v", r.Sections)
	}
	if len(r.Explanations) != 1 || len(r.Explanations[0].Targets) != 3 {
		t.Fatalf("%+v", r.Explanations)
	}
	host, disk, share := r.Explanations[0].Targets[0], r.Explanations[0].Targets[1], r.Explanations[0].Targets[2]
	const µs = 1e-6
	if len(host.Stages) != 2 || !near(host.Stages[1].Time.Estimate, 92*µs, 2*µs) || host.Against != "" || host.Difference.N != 0 {
		t.Errorf("%+v", host)
	}
	for i, want := range []struct {
		name             string
		time, difference float64
	}{{"guest above the block layer", 50, 40}, {"queue", 200, 200}, {"QEMU", 60, 60}, {"device", 90, 0}} {
		s := disk.Stages[i]
		// Explained trials are 2 % slower.
		if s.Name != want.name || !near(s.Time.Estimate, 1.02*want.time*µs, .02*want.time*µs) || !near(s.Difference.Estimate, 1.02*want.difference*µs, 2*µs) || !s.Difference.Bounded() || s.Difference.Hi-s.Difference.Lo > 20*µs {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
	if disk.Rest.N != 0 || !disk.Difference.Contains(306*µs) || !disk.Speed.Contains(.98) || disk.Rounds != 8 {
		t.Errorf("%+v", disk)
	}
	// Without clocks above the device there are two stages, and two clocks are missing.
	if len(share.Stages) != 2 || share.Stages[0].Name != "FUSE + wake-up + virtiofsd" || len(share.Missing) != 2 || share.Missing[1].Why != "it counts no times" ||
		!share.Stages[0].Difference.Contains(816*µs) {
		t.Errorf("%+v", share)
	}
}

// The stages, the rest and the differences add up, whatever the clocks show.
func TestStagesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run, trials := reporttest.Explained(rapid.IntRange(1, 9).Draw(t, "rounds"))
		for _, x := range trials {
			for i, v := range x.Values {
				if x.Explains() != "" && v.Unit == iotax.Seconds {
					x.Values[i].Value *= rapid.Float64Range(.01, 3).Draw(t, "factor")
				}
			}
		}
		for _, e := range New(run, trials).Explanations[0].Targets {
			sum, more := 0., 0.
			for _, s := range e.Stages {
				if s.Time.Estimate < 0 {
					t.Fatalf("%+v", s)
				}
				sum, more = sum+s.Time.Estimate, more+s.Difference.Estimate
			}
			if e.Rest.N > 0 {
				if e.Rest.Estimate >= 0 {
					t.Fatalf("%+v", e.Rest)
				}
				sum, more = sum+e.Rest.Estimate, more+e.RestMore.Estimate
			}
			if !near(sum, e.Total.Estimate, 1e-9) || e.Against != "" && !near(more, e.Difference.Estimate, 1e-9) {
				t.Fatalf("%v of %v, %v of %v", sum, e.Total, more, e.Difference)
			}
		}
	})
}

// If a device was busy with requests that no I/O waited for, the negative time of the stage above it is in Rest.
func TestRest(t *testing.T) {
	run, trials := reporttest.Explained(8)
	for _, x := range trials {
		for i, v := range x.Values {
			if v.Name == iotax.ValueStage("device", iotax.StageBelow) && x.Target == "guest disk" {
				x.Values[i].Value *= 3
			}
		}
	}
	e := New(run, trials).Explanations[0].Targets[1]
	if len(e.Stages) != 3 || !(e.Rest.Hi < 0) || !near(e.Rest.Estimate, -122e-6, 4e-6) {
		t.Errorf("%+v", e)
	}
}

// A request that carries several I/Os counts once for each of them, even below the layer that merged them.
func TestMergedRequests(t *testing.T) {
	run, trials := reporttest.Explained(8)
	for _, x := range trials {
		for i, v := range x.Values {
			switch {
			case x.Target != "guest disk" || x.Explains() == "":
			case v.Name == iotax.ValueStage("block", iotax.StageHanded): // each request carries four I/Os
				x.Values[i].Value /= 4
			case v.Name == iotax.ValueStage("qemu", iotax.StageBelow) || v.Name == iotax.ValueStage("device", iotax.StageBelow):
				x.Values[i].Value /= 4
			}
		}
	}
	e := New(run, trials).Explanations[0].Targets[1]
	if !near(e.Stages[1].Time.Estimate, 204e-6, 3e-6) || !near(e.Stages[3].Time.Estimate, 92e-6, 2e-6) {
		t.Errorf("%+v", e)
	}
}

func TestNotExplained(t *testing.T) {
	for why, spoil := range map[string]func(x *iotax.Trial){
		"the workload does not report the latency of its I/Os": func(x *iotax.Trial) { x.Values = nil },
		"its explained trials failed: exit status 1":           func(x *iotax.Trial) { x.Err = "exit status 1" },
		"the trial has no stages":                              func(x *iotax.Trial) { delete(x.Facts, iotax.FactStages) },
	} {
		run, trials := reporttest.Explained(8)
		for _, x := range trials {
			if x.Explains() != "" && x.Target == "guest disk" {
				spoil(x)
			}
		}
		r := New(run, trials)
		if e := r.Explanations[0].Targets[1]; e.Unknown != why || e.Known() {
			t.Errorf("%q, want %q", e.Unknown, why)
		}
		if _, err := json.Marshal(r.Explanations); err != nil {
			t.Error(err)
		}
	}
}

// The interval of a mean difference contains the true difference in at least 94 % of the studies.
func TestStageIntervals(t *testing.T) {
	r, held := rand.New(rand.NewPCG(1, 2)), 0
	const studies = 2000
	for range studies {
		var d []float64
		for range 8 {
			d = append(d, 40e-6+5e-6*r.NormFloat64())
		}
		if i, err := stat.Mean(d, stat.Options{}); err == nil && i.Contains(40e-6) {
			held++
		}
	}
	if share := float64(held) / studies; share < .94 {
		t.Errorf("%.1f %%", 100*share)
	}
}
