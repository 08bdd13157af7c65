package format

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"iotax"
	"iotax/stat"
)

func TestContrast(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		lo, estimate, hi   float64
		better             iotax.Better
		unit               string
		estimated, bounded string
	}{
		{1 / 43., 1 / 33., 1 / 27., iotax.Up, iotax.PerSecond, "33× slower", "33× slower [27–43]"},
		{1.3, 1.4, 1.55, iotax.Up, iotax.BytesPerSecond, "1.4× faster", "1.4× faster [1.3–1.6]"},
		{.80, .86, .93, iotax.Up, iotax.PerSecond, "14 % slower", "14 % slower [7–20]"},
		{1 / 1.2, 1 / 1.14, 1 / 1.07, iotax.Down, iotax.Seconds, "14 % slower", "14 % slower [7–20]"},
		{.45, .5, .55, iotax.Down, iotax.Bytes, "2.0× more", "2.0× more [1.8–2.2]"},
		{.45, .5, .55, iotax.Up, "", "2.0× lower", "2.0× lower [1.8–2.2]"},
		{1 / 1.3, 1.1, 1.7, iotax.Up, iotax.PerSecond, "10 % faster", "between 1.3× slower and 1.7× faster"},
		{.97, 1, 1.03, iotax.Up, iotax.PerSecond, "the same", "between 3 % slower and 3 % faster"},
		{1e-14, .8, 1e13, iotax.Up, iotax.PerSecond, "too noisy", "too noisy"},
		{.004, .01, .02, iotax.Up, iotax.PerSecond, "at least 50× slower", "at least 50× slower"},
		{nan, .5, nan, iotax.Up, iotax.PerSecond, "2.0× slower", "2.0× slower"},
		{nan, nan, nan, iotax.Up, iotax.PerSecond, "–", "–"},
	} {
		i := stat.Interval{Estimate: c.estimate, Lo: c.lo, Hi: c.hi, N: 6}
		if got := ContrastOf("", c.better, c.unit).Estimate(i); got != c.estimated {
			t.Errorf("%v: %q, want %q", i, got, c.estimated)
		}
		if got := ContrastOf("", c.better, c.unit).Interval(i); got != c.bounded {
			t.Errorf("%v: %q, want %q", i, got, c.bounded)
		}
	}
	for _, c := range []struct {
		lo, estimate, hi   float64
		multiple, baseline string
	}{
		{.45, .5, .55, "2.0× slower [1.8, 2.2]", "50 % [45–55]"}, {1.3, 1.4, 1.55, "1.4× faster [1.3, 1.6]", "140 % [130–160]"},
		{.97, .999, 1.03, "1.00× [0.971, 1.03]", "99.9 % [97.0–103]"}, {.8, .9, 1.1, "1.11× slower [0.91, 1.2]", "90 % [80–110]"},
		{.085, .1, .13, "10× slower [7.7, 12]", "10 % [8.5–13]"}, {.004, .01, .02, "≥ 50× slower ", "≤ 0.020× "}, {.1, 1, 10, "too noisy ", "too noisy "},
	} {
		i := stat.Interval{Estimate: c.estimate, Lo: c.lo, Hi: c.hi, N: 6}
		value, brackets := ContrastOf("", iotax.Up, iotax.PerSecond).Multiple(i)
		if got := value + " " + brackets; got != c.multiple {
			t.Errorf("%v: %q, want %q", i, got, c.multiple)
		}
		value, brackets = OfBaseline(i)
		if got := value + " " + brackets; got != c.baseline {
			t.Errorf("%v: %q, want %q", i, got, c.baseline)
		}
	}
}

var printed = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// near reports whether the number printed as s equals x, apart from rounding.
func near(s string, x float64) bool {
	y, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return false
	}
	_, fraction, _ := strings.Cut(s, ".")
	half := math.Max(.5*math.Pow10(-len(fraction)), .5*math.Pow10(int(math.Floor(math.Log10(math.Abs(x))))-1))
	return math.Abs(y-x) <= half*(1+1e-9)
}

// For any interval, each printed number matches the estimate or a bound, apart from rounding. A difference of more than
// 100 % is not printed as a percentage. A wide interval that contains 1 is printed as "too noisy". Numbers have at most
// two significant digits, or three in a narrow interval or from 1 to 1.2.
func TestNoNumberMisstatesTheData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		estimate := math.Exp(rapid.Float64Range(-9, 9).Draw(t, "log estimate"))
		width := rapid.SampledFrom([]float64{.001, .03, .3, 2, 40}).Draw(t, "width")
		i := stat.Interval{Estimate: estimate, Lo: estimate * math.Exp(-rapid.Float64Range(0, width).Draw(t, "below")), Hi: estimate * math.Exp(rapid.Float64Range(0, width).Draw(t, "above")), N: 6}
		useless := (i.Hi/i.Lo > 4 || i.Hi > 10*i.Estimate || i.Lo < i.Estimate/10) && i.Lo <= 1 && i.Hi >= 1
		narrow := i.Hi-i.Lo <= i.Estimate/10 || 1/i.Lo-1/i.Hi <= .1/i.Estimate
		better := rapid.SampledFrom([]iotax.Better{iotax.Up, iotax.Down}).Draw(t, "better")
		c := ContrastOf("", better, iotax.Seconds)
		value := func(ratio float64) float64 {
			if better == iotax.Down {
				return 1 / ratio
			}
			return ratio
		}
		var changes, ratios []float64
		for _, x := range []float64{i.Estimate, i.Lo, i.Hi} {
			changes = append(changes, factor(x), 100*math.Abs(value(x)-1))
			ratios = append(ratios, x, 100*x)
		}
		joined := func(value, brackets string) string { return value + " " + brackets }
		for name, s := range map[string]string{"multiple": joined(c.Multiple(i)), "of baseline": joined(OfBaseline(i)), "estimate": c.Estimate(i), "interval": c.Interval(i), "ratio": Ratio(i), "share": Share(i), "times": Times(i), "spread": Spread(i, "")} {
			truths := changes
			if name == "multiple" {
				truths = []float64{i.Estimate, i.Lo, i.Hi, 1 / i.Estimate, 1 / i.Lo, 1 / i.Hi}
			} else if name != "estimate" && name != "interval" {
				truths = ratios
			}
			if name == "multiple" || name == "of baseline" || name == "ratio" || name == "estimate" || name == "interval" {
				if strings.Contains(s, stat.TooNoisy) != useless {
					t.Fatalf("%s of %+v: %q", name, i, s)
				}
			}
			if name == "spread" {
				if _, spread, ok := strings.Cut(s, "±"); ok {
					pc := strings.Fields(strings.TrimPrefix(spread, "< "))[0]
					x, _ := strconv.ParseFloat(strings.TrimPrefix(pc, "<"), 64)
					if half := 100 * math.Max(i.Hi/i.Estimate-1, 1-i.Lo/i.Estimate); x > 100 || math.Abs(x-half) > math.Max(.6, .1*half) {
						t.Fatalf("%q of %+v: it is ± %.3g %%", s, i, half)
					}
				}
				continue
			}
			for _, n := range printed.FindAllString(s, -1) {
				ok := n == "0" && math.Min(math.Abs(i.Lo-1), math.Min(math.Abs(i.Hi-1), math.Abs(i.Estimate-1))) < 1e-3
				for _, x := range truths {
					ok = ok || near(n, x)
				}
				if !ok {
					t.Fatalf("%s of %+v: %q: no bound is %s", name, i, s, n)
				}
				digits, most := strings.TrimLeft(strings.Replace(n, ".", "", 1), "0"), 2
				if !strings.Contains(n, ".") {
					digits = strings.TrimRight(digits, "0")
				}
				if x, _ := strconv.ParseFloat(n, 64); narrow || x >= .995 && x <= asTimes || x >= 99.5 && x <= 100*asTimes {
					most = 3
				}
				if len(digits) > most {
					t.Fatalf("%s of %+v: %q has too many digits", name, i, s)
				}
			}
			if name == "estimate" || name == "interval" {
				for _, pc := range regexp.MustCompile(`([0-9.]+) %`).FindAllStringSubmatch(s, -1) {
					if x, _ := strconv.ParseFloat(pc[1], 64); x > 100 {
						t.Fatalf("%s of %+v: %q", name, i, s)
					}
				}
			}
		}
		if s := stat.PlusMinus(i.Hi/i.Estimate-1, 1); (i.Hi/i.Estimate-1 > 1) != strings.Contains(s, "wider") {
			t.Fatalf("%+v: %q", i, s)
		}
	})
}
