package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/report/format"
)

func TestNoiseFloorIsInEveryFormat(t *testing.T) {
	run, trials := fixture()
	run.Calibration = &iotax.Calibration{Ratio: 1.01, Lo: .98, Hi: 1.04, Blocks: 20, Phi: .5, At: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Workload: "randread-4k", Length: 5 * time.Second}
	rep := New(run, trials)
	if got, want := rep.noiseLine(), "Noise floor: A/A ± 3 % (20 blocks of 5s, randread-4k, 2026-03-01); intervals are widened by 1.73, because successive blocks resemble each other (φ = 0.50)."; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for name, write := range map[string]func(b *bytes.Buffer) error{
		"text": func(b *bytes.Buffer) error { return rep.Text(b, TextOptions{Width: 200}) }, "markdown": func(b *bytes.Buffer) error { return rep.Markdown(b) },
		"html": func(b *bytes.Buffer) error { return rep.HTML(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if s := strings.ReplaceAll(b.String(), format.NBSP, " "); !strings.Contains(s, "Noise floor: A/A ± 3 %") {
			t.Errorf("%s lacks the noise floor", name)
		}
	}

	run.Calibration = nil
	if got := New(run, trials).noiseLine(); !strings.Contains(got, "not calibrated (`iotax calibrate`); single trials of host disk vary by ") {
		t.Error(got)
	}
	if got := New(run, nil).noiseLine(); got != "Noise floor: not calibrated (`iotax calibrate`)." {
		t.Error(got)
	}
}

func TestAutocorrelationWidensRatios(t *testing.T) {
	run, trials := fixture()
	narrow := New(run, trials)
	run.Calibration = &iotax.Calibration{Phi: .6}
	wide := New(run, trials)
	n, w := narrow.Sections[0].Rows[1].Ratio, wide.Sections[0].Rows[1].Ratio
	if !(w.HalfWidth() > 1.5*n.HalfWidth()) || w.Estimate != n.Estimate {
		t.Errorf("φ = 0.6 makes ± %v of ± %v", w.HalfWidth(), n.HalfWidth())
	}
}
