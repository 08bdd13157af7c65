package syntax

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]Size{
		"0": 0, "4096": 4096, "4k": 4096, "4K": 4096, "1m": 1 << 20, "1g": 1 << 30, "1t": 1 << 40, "1KiB": 1024, "1MiB": 1 << 20, "1GiB": 1 << 30,
		"2TiB": 2 << 40, "1kB": 1000, "1MB": 1e6, "1GB": 1e9, "1TB": 1e12, "7B": 7, "1.5GiB": 3 << 29, "0.5k": 512, " 1 GiB ": 1 << 30,
		"9223372036854775807": math.MaxInt64,
	} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"1GiBs": `unknown unit "GiBs", did you mean "GiB"?`, "1gib": `unknown unit "gib", did you mean "GiB"?`, "1mb": `unknown unit "mb", did you mean "MB"?`,
		"1KB": `did you mean "kB"?`, "1GIB": `did you mean "GiB"?`, "1Gi": `did you mean "GiB"?`, "1 gigabyte": `unknown unit "gigabyte", units are B`,
		"": `"" is not a size`, "k": "is not a size", "-1": `"-1" is negative`, "1.1k": "not a whole number of bytes", "1e3": `unknown unit "e3"`,
		"8388608TiB": "too large", "9223372036854775808": "too large", "+1": "is not a size", "1..2": "is not a size", ".5k": "is not a size", "١k": "is not a size",
		"1" + strings.Repeat("0", 100): "is not a size", "NaN": "is not a size", "1_000": "unknown unit",
	} {
		if got, err := ParseSize(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", s, got, err, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0": 0, "10s": 10 * time.Second, "1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond, "1.5h": 90 * time.Minute, "20m": 20 * time.Minute,
		"7us": 7 * time.Microsecond, "7µs": 7 * time.Microsecond, "3ns": 3, "10 s": 10 * time.Second, "1h0.5s": time.Hour + time.Second/2,
	} {
		if got, err := ParseDuration(s); err != nil || got.Duration() != want {
			t.Errorf("%q: %s, %v, want %s", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"10sec": `unknown unit "sec", did you mean "s"?`, "10": `"10" has no unit, did you mean "10s"?`, "5 minutes": `did you mean "m"?`, "1Hour": `did you mean "h"?`,
		"1m30": `"1m30" ends without a unit`, "-5s": "is negative", "": "is not a duration", "s": "is not a duration", "1d": `unknown unit "d", units are ns`,
		"300000h1000000000h": "too long", "9999999999999h": "too long", "1s-1s": `unknown unit "s-"`, "1.2.3s": "is not a duration", "1m1.2.3s": "is not a duration", "1m.s": "is not a duration",
		"200000h200000h200000h200000h200000h200000h200000h200000h200000h200000h200000h200000h200000h": "too long",
	} {
		if got, err := ParseDuration(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", s, got, err, want)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for s, want := range map[string]Percent{"5%": 0.05, "0%": 0, "0.5%": 0.005, "100%": 1, "7%": 0.07, "5 %": 0.05, "12.5%": 0.125, "250%": 2.5} {
		if got, err := ParsePercent(s); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, float64(got), err, float64(want))
		}
	}
	for s, want := range map[string]string{
		"5 percent": `unknown unit "percent", did you mean "%"?`, "0.05": "write 5% for a ratio of 0.05, or 0.05%", "5": "write 5%", "-1%": "is negative", "": "is not a percentage", "%": "is not a percentage", "5%%": "unknown unit",
	} {
		if got, err := ParsePercent(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", s, got, err, want)
		}
	}
}

func TestUnitsPrintShort(t *testing.T) {
	for got, want := range map[string]string{
		Size(0).String(): "0B", Size(4096).String(): "4KiB", Size(512000).String(): "512kB", Size(1e9).String(): "1GB", Size(1 << 30).String(): "1GiB", Size(4095).String(): "4095B",
		Duration(20 * time.Minute).String(): "20m", Duration(time.Hour).String(): "1h", Duration(90 * time.Second).String(): "1m30s", Duration(0).String(): "0s",
		Duration(10 * time.Second).String(): "10s", Duration(1500 * time.Millisecond).String(): "1.5s", Duration(time.Hour + time.Second).String(): "1h0m1s", Duration(100 * time.Minute).String(): "1h40m",
		Percent(0.05).String(): "5%", Percent(0.07).String(): "7%", Percent(0).String(): "0%", Percent(1).String(): "100%", Percent(0.00125).String(): "0.125%", Percent(12.345).String(): "1234.5%",
		Percent(-0.05).String(): "-5%",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	_ = Percent(math.NaN()).String() + Percent(math.Inf(-1)).String() + Size(math.MinInt64).String() + Duration(math.MinInt64).String()
}

func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Size(rapid.Int64Min(0).Draw(t, "size"))
		if got, err := ParseSize(s.String()); err != nil || got != s {
			t.Fatalf("%d: %s: %d, %v", s, s, got, err)
		}
		d := Duration(rapid.Int64Min(0).Draw(t, "duration"))
		if got, err := ParseDuration(d.String()); err != nil || got != d {
			t.Fatalf("%d: %s: %d, %v", d, d, got, err)
		}
		p := Percent(rapid.Float64Range(0, 10).Filter(func(f float64) bool { return f == 0 || f > 1e-20 }).Draw(t, "percent"))
		if got, err := ParsePercent(p.String()); err != nil || got != p {
			t.Fatalf("%v: %s: %v, %v", float64(p), p, float64(got), err)
		}
	})
}

// Any text is either rejected or read as a value in range.
func TestUnitsTakeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9.]{0,25} ?[a-zA-Zµ%0-9.]{0,9}`)).Draw(t, "text")
		if v, err := ParseSize(s); err == nil && v < 0 {
			t.Fatalf("%q: %d", s, v)
		}
		if v, err := ParseDuration(s); err == nil && v < 0 {
			t.Fatalf("%q: %d", s, v)
		}
		if v, err := ParsePercent(s); err == nil && !(v >= 0 && !math.IsInf(float64(v), 0)) {
			t.Fatalf("%q: %v", s, float64(v))
		}
	})
}

// In YAML and JSON, the types are written and read as text.
func TestUnitsAreText(t *testing.T) {
	type all struct {
		Size     Size     `yaml:"size" json:"size"`
		Duration Duration `yaml:"duration" json:"duration"`
		Percent  Percent  `yaml:"percent" json:"percent"`
	}
	want := all{4096, Duration(time.Minute), 0.05}
	y, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got all
	if err := yaml.Unmarshal(y, &got); err != nil || got != want {
		t.Errorf("%s: %+v, %v", y, got, err)
	}
	got = all{}
	if err := yaml.Unmarshal([]byte("size: 4096\nduration: 60s\npercent: 5%\n"), &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if err := yaml.Unmarshal([]byte("duration: 60sec"), &got); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("%v", err)
	}
	j, err := json.Marshal(want)
	if err != nil || string(j) != `{"size":"4KiB","duration":"1m","percent":"5%"}` {
		t.Errorf("%s, %v", j, err)
	}
	got = all{}
	if err := json.Unmarshal(j, &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	// Rejected text does not change the value.
	if err := got.Duration.UnmarshalText([]byte("x")); err == nil || got != want {
		t.Errorf("%v, %+v", err, got)
	}
}
