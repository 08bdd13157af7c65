package chart

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"iotax"
)

// elements parses a drawing as strict XML, as programs other than browsers do.
func elements(t interface{ Fatalf(string, ...any) }, svg template.HTML) []xml.StartElement {
	var out []xml.StartElement
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if e, ok := tok.(xml.StartElement); ok {
			out = append(out, e.Copy())
		}
	}
}

var commands = regexp.MustCompile(`([A-Z])([^A-Z]*)`)

// inside returns an error for the first coordinate outside the drawing, or nil.
func inside(es []xml.StartElement) error {
	var width, height float64
	for _, e := range es {
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "viewBox":
				if _, err := fmt.Sscanf(a.Value, "0 0 %g %g", &width, &height); err != nil {
					return err
				}
			case "x", "cx", "width":
				if v, err := strconv.ParseFloat(a.Value, 64); err != nil || v < -0.05 || v > width+.05 {
					return fmt.Errorf("%s %s=%s outside 0 to %g", e.Name.Local, a.Name.Local, a.Value, width)
				}
			case "y", "cy", "height":
				if v, err := strconv.ParseFloat(a.Value, 64); err != nil || v < -0.05 || v > height+.05 {
					return fmt.Errorf("%s %s=%s outside 0 to %g", e.Name.Local, a.Name.Local, a.Value, height)
				}
			case "d":
				if strings.ContainsAny(a.Value, "hz") {
					continue // closed paths are not checked
				}
				for _, command := range commands.FindAllStringSubmatch(a.Value, -1) {
					for i, n := range strings.Fields(command[2]) {
						limit := width
						if command[1] == "V" || i%2 == 1 {
							limit = height
						}
						if v, err := strconv.ParseFloat(n, 64); err != nil || v < -0.05 || v > limit+.05 {
							return fmt.Errorf("path %s: %s outside 0 to %g", a.Value, n, limit)
						}
					}
				}
			}
		}
	}
	return nil
}

// value generates numbers of many magnitudes, and also negative numbers, NaN and infinity.
var value = rapid.OneOf(rapid.Float64Range(0, 10), rapid.Float64Range(1e-9, 1e12), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Just(-1.0), rapid.Just(0.0))

var name = rapid.StringMatching(`[a-zäß<>&"' =./]{0,70}`)

// For any input, a drawing is well-formed, stays inside its frame, and contains no NaN.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := func(d Drawing) {
			svg := SVG(d)
			if svg == "" {
				return
			}
			if err := inside(elements(t, svg)); err != nil {
				t.Fatalf("%v", err)
			}
			if s := string(svg); strings.Contains(s, "NaN") || strings.Contains(s, "Inf\"") {
				t.Fatalf("no number: %s", s)
			}
		}
		axis := func() Axis {
			a := Axis{Label: name.Draw(t, "label"), Lo: value.Draw(t, "lo"), Hi: value.Draw(t, "hi"), Log: rapid.Bool().Draw(t, "log")}
			for range rapid.IntRange(0, 5).Draw(t, "ticks") {
				a.Ticks = append(a.Ticks, Tick{value.Draw(t, "tick"), "1.5 MiB/s"})
			}
			return a
		}
		p := Plot{Title: name.Draw(t, "title"), Desc: name.Draw(t, "desc"), Height: 100, X: axis(), Y: axis(), Note: "note"}
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			l := Line{Name: name.Draw(t, "name"), Hue: rapid.IntRange(-3, 30).Draw(t, "hue"), Marks: rapid.Bool().Draw(t, "marks"), Faint: rapid.Bool().Draw(t, "faint")}
			for range rapid.IntRange(0, 6).Draw(t, "points") {
				l.Points = append(l.Points, Point{X: value.Draw(t, "x"), Y: value.Draw(t, "y"), Title: "<&>"})
			}
			p.Lines = append(p.Lines, l)
		}
		p.Bands = []Band{{value.Draw(t, "from"), value.Draw(t, "to")}}
		drawn(p)

		r := Rows{Title: p.Title, Axis: axis(), Zero: value.Draw(t, "zero"), Width: rapid.SampledFrom([]float64{0, 358, 860}).Draw(t, "width"), Ends: [2]string{"← worse", "better →"}}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			row := Row{Heading: name.Draw(t, "heading"), Name: name.Draw(t, "row"), Figure: "0.5×", Bounds: "[0.4, 0.6]", Word: "worse", Tone: "worse", Mark: Mark(rapid.IntRange(0, 5).Draw(t, "mark")),
				From: value.Draw(t, "from"), At: value.Draw(t, "at"), Lo: value.Draw(t, "lo"), Hi: value.Draw(t, "hi"), Joined: rapid.Bool().Draw(t, "joined")}
			for range rapid.IntRange(0, 3).Draw(t, "dots") {
				row.Dots = append(row.Dots, Dot{At: value.Draw(t, "dot"), Level: rapid.Float64Range(0, 1).Draw(t, "level")})
			}
			r.Rows = append(r.Rows, row)
		}
		drawn(r)
		r.Other = r.Axis.Ticks
		drawn(r)
	})
}

func TestLinePartsAtWhatIsNoNumber(t *testing.T) {
	p := Plot{Height: 100, X: Axis{Hi: 4}, Y: Axis{Hi: 4}, Lines: []Line{{Points: []Point{{X: 0, Y: 1}, {X: 1, Y: 1}, {X: 2, Y: math.NaN()}, {X: 3, Y: 1}, {X: 4, Y: 1}}}}}
	_, d, _ := strings.Cut(string(SVG(p)), `class="curve" d="`)
	d, _, _ = strings.Cut(d, `"`)
	if strings.Count(d, "M") != 2 {
		t.Errorf("path %s", d)
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{{"short", 10, "short"}, {"guest virtio-blk cache=none", 15, "guest v…he=none"}, {"größer", 6, "größer"}} {
		if got := shorten(c.in, c.most); got != c.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", c.in, c.most, got, c.want)
		}
	}
}

// The first 2*Hues targets all differ in colour, in dash, or in both.
func TestHuesAndDashes(t *testing.T) {
	seen := map[string]bool{}
	for k := range 2 * Hues {
		both := Hue(k) + dash(k)
		if seen[both] {
			t.Errorf("thing %d looks like another", k)
		}
		seen[both] = true
	}
}

// The ticks of any axis are round, and their labels are their values. There are at least two ticks, even in a small
// range. An axis of ratios has a tick at 1.
func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := math.Exp(rapid.Float64Range(-12, 20).Draw(t, "log lo"))
		hi := lo * math.Exp(rapid.OneOf(rapid.Float64Range(.01, .3), rapid.Float64Range(.3, 9)).Draw(t, "log range"))
		unit := rapid.SampledFrom([]string{iotax.Seconds, iotax.Bytes, iotax.BytesPerSecond, iotax.PerSecond, iotax.Count, iotax.RatioUnit}).Draw(t, "unit")
		below, above := math.Exp(-rapid.Float64Range(.01, 7).Draw(t, "below")), math.Exp(rapid.Float64Range(.01, 7).Draw(t, "above"))
		multiples, percent := Multiples(below, above)
		same := func(at float64) float64 { return at }
		for name, a := range map[string]struct {
			Axis
			value func(at float64) float64
		}{"linear": {Linear("", hi, unit), same}, "log": {Log("", lo, hi, unit), same}, "ratios": {Ratios(below, above), same}, "far ratios": {Ratios(lo, hi), same},
			"multiples": {multiples, func(at float64) float64 { return math.Max(at, 1/at) }}, "percent": {Axis{Lo: below, Hi: above, Ticks: percent}, same}} {
			var values []float64 // in the unit of the label
			var factors []float64
			for _, tick := range a.Ticks {
				if !a.has(tick.At) {
					continue
				}
				x, factor := labelled(t, tick.Label)
				if want := a.value(tick.At); math.Abs(x*factor-want) > 1e-6*want {
					t.Fatalf("%s %v: the tick at %g is labelled %q", name, a.Axis, tick.At, tick.Label)
				}
				values, factors = append(values, x), append(factors, factor)
			}
			for i, x := range values {
				gap := x // distance to the nearest other tick
				for k, y := range values {
					if d := math.Abs(x - y*factors[k]/factors[i]); d > 1e-9*x {
						gap = math.Min(gap, d)
					}
				}
				fine := math.Pow10(int(math.Floor(math.Log10(gap)+1e-6))) / 2
				if off := math.Abs(x/fine - math.Round(x/fine)); off > 1e-4 {
					t.Fatalf("%s: %g is not round among %v: %v", name, x, values, a.Ticks)
				}
			}
			if name != "linear" && name != "log" && a.has(1) && !slices.Contains(values, 1) && !slices.Contains(values, 100) {
				t.Fatalf("%s: no tick at 1: %v", name, a.Ticks)
			}
			if len(values) < 2 {
				t.Fatalf("%s from %g to %g: %v", name, a.Lo, a.Hi, a.Ticks)
			}
		}
	})
}

// labelled returns the number of a tick's label and the factor of its unit.
func labelled(t *rapid.T, label string) (x, factor float64) {
	number := strings.TrimRight(label, " BGKikmMnsTµ/%×")
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.Contains(number, "e") {
		t.Fatalf("label %q: %v", label, err)
	}
	unit := strings.TrimSpace(strings.TrimPrefix(label, number))
	if unit == "%" {
		return x, .01
	}
	prefix := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(unit, "/s"), "B"), "s"), "×")
	factor, ok := map[string]float64{"": 1, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}[prefix]
	if !ok {
		t.Fatalf("label %q", label)
	}
	return x, factor
}

// Extreme or nearly equal bounds do not cause an endless loop in the search for ticks.
func TestTicksOfExtremes(t *testing.T) {
	for _, c := range [][2]float64{{5e-309, math.Inf(1)}, {0, 1}, {-1, 1}, {1, 1 + 1e-15}, {1, 1}, {math.NaN(), 1}, {1, math.NaN()}, {math.SmallestNonzeroFloat64, math.MaxFloat64}} {
		if a := Ratios(c[0], c[1]); len(a.Ticks) == 0 || a.Ticks[0].At != 1 {
			t.Errorf("%v: %v", c, a.Ticks)
		}
	}
}

// No class that uses the shape's tone has the name of a tone. Otherwise, the shapes of that class would get the
// wrong colour.
func TestClassesAreNoTones(t *testing.T) {
	for class, s := range styles {
		if light[class] != "" && (s.fill == "own" || s.stroke == "own") {
			t.Errorf("%s is both", class)
		}
	}
}
