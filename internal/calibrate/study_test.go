package calibrate

import (
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// A run suggests another trial length if a full calibration proposes a much different one.
func TestLengthTip(t *testing.T) {
	m := plan.Defaults() // trials of 10 s
	for _, c := range []struct {
		c    *iotax.Calibration
		want string
	}{
		{nil, ""},
		{&iotax.Calibration{Trial: time.Minute, Brief: true}, ""},
		{&iotax.Calibration{}, ""},
		{&iotax.Calibration{Trial: 19 * time.Second}, ""},
		{&iotax.Calibration{Trial: 6 * time.Second}, ""},
		{&iotax.Calibration{Trial: 5 * time.Second}, "calibrated: trials of 5s waste the least time here, these take 10s (--trial 5s)"},
		{&iotax.Calibration{Trial: time.Minute}, "calibrated: trials of 1m waste the least time here, these take 10s (--trial 1m)"},
	} {
		if got := lengthTip(c.c, m); got != c.want {
			t.Errorf("%+v: %q, want %q", c.c, got, c.want)
		}
	}
	m.Protocol = "fixed:5x60s"
	if got := lengthTip(&iotax.Calibration{Trial: 5 * time.Second}, m); got != "" {
		t.Errorf("a fixed protocol: %q", got)
	}
}
