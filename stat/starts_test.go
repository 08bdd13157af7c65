package stat

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"iotax"
)

// startStudy draws log ratios around 0: one effect per start, from draw, and noise with an SD of 0.02 in each round.
func startStudy(r *rand.Rand, rounds []int, draw func() float64) (d []float64, starts []int) {
	for s, n := range rounds {
		effect := draw()
		for range n {
			d, starts = append(d, effect+.02*r.NormFloat64()), append(starts, s+1)
		}
	}
	return d, starts
}

// The interval covers the variation between starts, even if starts have different numbers of rounds. If there are few
// starts and they agree, there is no interval. An interval that ignores the starts is too narrow.
func TestStartsCoverage(t *testing.T) {
	const studies = 4000
	r := rand.New(rand.NewPCG(23, 1))
	normal := func(sd float64) func() float64 { return func() float64 { return sd * r.NormFloat64() } }
	both := func(p float64) func() float64 { // each side is 15 % slower in some starts
		slow := math.Log(1 - .15)
		return func() (x float64) {
			if r.Float64() < p {
				x += slow
			}
			if r.Float64() < p {
				x -= slow
			}
			return x
		}
	}
	for _, c := range []struct {
		name       string
		rounds     []int
		draw       func() float64
		aloneBelow float64
	}{
		{"quiet, 3 starts", []int{10, 10, 10}, normal(0), 1},
		{"quiet, 6 starts", []int{5, 5, 5, 5, 5, 5}, normal(0), 1},
		{"normal, 2 starts", []int{15, 15}, normal(.05), .35},
		{"modes p=0.1, 2 starts", []int{15, 15}, both(.1), .85},
		{"normal, 6 starts", []int{5, 5, 5, 5, 5, 5}, normal(.05), .75},
		{"normal, unequal", []int{9, 1, 5, 2, 8, 5}, normal(.05), .75},
		{"small, unequal", []int{9, 1, 5, 2, 8, 5}, normal(.01), .95},
		{"modes p=0.1", []int{5, 5, 5, 5, 5, 5}, both(.1), .85},
		{"modes p=0.2", []int{5, 5, 5, 5, 5, 5}, both(.2), .8},
		{"modes p=0.5", []int{5, 5, 5, 5, 5, 5}, both(.5), .75},
	} {
		hit, alone, shown := 0, 0, 0
		for range studies {
			d, starts := startStudy(r, c.rounds, c.draw)
			i, err := Hull(d, Options{Starts: starts})
			if err != nil {
				t.Fatal(err)
			}
			j, err := Hull(d, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if i.Lo > j.Lo*(1+1e-12) || i.Hi < j.Hi*(1-1e-12) {
				t.Fatalf("%s: %v does not contain %v, the interval of the rounds", c.name, i, j)
			}
			if j.Contains(1) {
				alone++
			}
			if !i.Bounded() {
				if i.N != len(c.rounds) || i.N >= LeastTrials {
					t.Fatalf("%s: %v has no interval", c.name, i)
				}
				continue
			}
			shown++
			if i.Contains(1) {
				hit++
			}
		}
		if quiet := strings.HasPrefix(c.name, "quiet, 3"); quiet != (float64(shown) < .02*studies) {
			t.Errorf("%s: %d of %d studies have an interval", c.name, shown, studies)
		}
		w := Wilson(hit, shown, .05)
		t.Logf("%s: %.1f %% of %d, rounds alone %.1f %%", c.name, 100*w.Estimate, shown, 100*float64(alone)/studies)
		if w.Hi < .945 {
			t.Errorf("%s: the coverage is %.3f [%.3f, %.3f]", c.name, w.Estimate, w.Lo, w.Hi)
		}
		if share := float64(alone) / studies; share > c.aloneBelow {
			t.Errorf("%s: rounds alone cover %.3f, expected at most %v: the test shows nothing", c.name, share, c.aloneBelow)
		}
	}
}

// The interval of a value covers the variation between starts. That of a median of all rounds holds the truth in half of
// these studies.
func TestMedianOfStarts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	held, wide := 0, 0
	const studies = 2000
	for range studies {
		xs, starts := startStudy(r, []int{5, 5, 5, 5, 5, 5}, func() float64 { return r.NormFloat64() })
		for i := range xs {
			xs[i] = 100 + xs[i]
		}
		if i := MedianOfStarts(xs, Options{Starts: starts}); i.Lo <= 100 && 100 <= i.Hi {
			held++
		}
		if i := MedianAt(xs, .05); i.Lo <= 100 && 100 <= i.Hi {
			wide++
		}
	}
	if held < studies*94/100 || wide > studies*80/100 {
		t.Errorf("%d of %d intervals contain the truth, and %d of all rounds", held, studies, wide)
	}
	xs := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	plain := Median(xs)
	for _, c := range []struct {
		what string
		of   func(i int) int // start of value i
		want Interval
	}{
		{"one start", func(int) int { return 1 }, plain},
		{"a start for each value", func(i int) int { return i }, plain},
		{"two starts that agree", func(i int) int { return i % 2 }, Interval{plain.Estimate, math.NaN(), math.NaN(), 12}},
	} {
		var starts []int
		for i := range xs {
			starts = append(starts, c.of(i))
		}
		if got := MedianOfStarts(xs, Options{Starts: starts}); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// The p value is the largest alpha at which the interval contains the ratio.
func TestStartsP(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 2))
	for range 200 {
		d, starts := startStudy(r, []int{4, 2, 5, 1, 3, 2}[:4+2*r.IntN(2)], func() float64 { return .03 * r.NormFloat64() })
		for _, o := range []Options{{Starts: starts}, {Starts: starts, Autocorrelation: .2}, {Starts: starts, Hidden: .01}} {
			ratio := math.Exp(.06 * r.NormFloat64())
			p := EffectP(d, ratio, o)
			for _, by := range []float64{.98, 1.02} {
				if o.Alpha = p * by; p > .5 || p == 0 {
					continue // the t and rank intervals may not overlap, and the hull also contains the ratios between them
				}
				i, err := Hull(d, o)
				if err != nil {
					t.Fatal(err)
				}
				if i.Bounded() && i.Contains(ratio) != (by < 1) {
					t.Fatalf("ratio %v has p %v, and at alpha %v the interval is %v", ratio, p, o.Alpha, i)
				}
			}
		}
	}
}

func TestSpreadByStart(t *testing.T) {
	// Means 0.1 and 0.3. Within each start the variance is 0.0002, which explains 0.0001 of the 0.02 between the means.
	s := SpreadByStart([]float64{.09, .11, .29, .31}, []int{1, 1, 2, 2})
	if s == nil || s.Starts != 2 || math.Abs(float64(s.Between)-math.Sqrt(.02-.0001)) > 1e-12 || math.Abs(float64(s.Within)-math.Sqrt(.0002)) > 1e-12 {
		t.Errorf("%+v", s)
	}
	if s := SpreadByStart([]float64{.1, .3}, []int{1, 2}); s == nil || !math.IsNaN(float64(s.Within)) || math.Abs(float64(s.Between)-math.Sqrt(.02)) > 1e-12 {
		t.Errorf("one round each: %+v", s)
	}
	if s := SpreadByStart([]float64{.1, .3}, []int{2, 2}); s != nil {
		t.Errorf("one start: %+v", s)
	}
	d := []float64{.01, .02, .03, .2, .21, .22}
	e, err := Estimate(d, Options{Starts: []int{1, 1, 1, 2, 2, 2}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(e)
	if err != nil || e.Starts == nil || !strings.Contains(string(b), `"starts":{"starts":2,"between_starts":0.13`) {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := Hull(d, Options{Starts: []int{1}}); err == nil || !strings.Contains(err.Error(), "6 log ratios, and the starts of 1") {
		t.Errorf("starts of other rounds: %v", err)
	}
}

// If rounds are pooled for a quantile, the rounds of a start form one group.
func TestStartsPooled(t *testing.T) {
	h := func(slow float64) iotax.Histogram {
		return iotax.Histogram{Bins: []iotax.Bin{{Value: 1e-3, Count: 2535}, {Value: slow * .99, Count: 26}, {Value: slow, Count: 39}}}
	}
	var base, target []iotax.Histogram
	var starts []int
	for s := range 7 {
		for range 4 {
			base, target, starts = append(base, h(4e-3)), append(target, h(4e-3*(1+.1*float64(s%2)))), append(starts, s+1)
		}
	}
	o := Options{Starts: starts}
	d, err := PairTails([2][]Tail{Tails(base, .99), Tails(target, .99)}, .99, &o)
	if err != nil || len(d) != 7 || o.Starts != nil {
		t.Fatalf("%d groups, starts %v, %v", len(d), o.Starts, err)
	}
	for s, x := range d {
		if want := -math.Log(1 + .1*float64(s%2)); math.Abs(x-want) > .02 {
			t.Errorf("start %d: %v, expected about %v", s+1, x, want)
		}
	}
}

// Short starts are pooled, too: with one round in each start, the groups are those of rounds without starts.
func TestShortStartsPooled(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 6))
	base, target := rounds(r, 30, 2_500, .5, .02, .8) // 25 I/Os beyond p99 in each round
	tails := [2][]Tail{Tails(base, .99), Tails(target, .99)}
	want, err := PairTails(tails, .99, &Options{})
	if err != nil || len(want) != 7 {
		t.Fatalf("%d groups of rounds, %v", len(want), err)
	}
	for per, groups := range map[int]int{1: 7, 2: 7, 3: 6, 5: 6, 15: 2} {
		o := Options{}
		for i := range base {
			o.Starts = append(o.Starts, 1+i/per)
		}
		d, err := PairTails(tails, .99, &o)
		if err != nil || len(d) != groups || o.Starts != nil || per == 1 && !slices.Equal(d, want) {
			t.Errorf("%d rounds per start: %d groups, starts %v, %v", per, len(d), o.Starts, err)
		}
	}
}

// The planned rounds are divided evenly between starts. Rounds beyond the planned number belong to the last start.
func TestStartOf(t *testing.T) {
	got := ""
	for n := range 9 {
		got += string(rune('0' + StartOf(n, 7, 3)))
	}
	if got != "111223333" {
		t.Error(got)
	}
	if StartOf(5, 30, 0) != 1 || StartOf(0, 0, 3) != 1 {
		t.Error("a run without restarts has one start")
	}
}

// In most studies, the modes are the groups of starts that the test has drawn.
func TestModes(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 4))
	const studies = 500
	for _, c := range []struct {
		of   []int // mode of each start
		want [][]int
	}{
		{[]int{0, 0, 0, 0, 0, 0}, nil},
		{[]int{0, 1, 1, 0, 1, 1}, [][]int{{1, 4}, {2, 3, 5, 6}}},
		{[]int{2, 1, 0, 1, 2, 0}, [][]int{{3, 6}, {2, 4}, {1, 5}}},
	} {
		right := 0
		for range studies {
			next := 0
			d, starts := startStudy(r, []int{5, 5, 5, 5, 5, 5}, func() float64 { next++; return .15 * float64(c.of[next-1]) })
			s := SpreadByStart(d, starts)
			for _, m := range s.Modes {
				slices.Sort(m)
			}
			if reflect.DeepEqual(s.Modes, c.want) {
				right++
			}
		}
		if right < .93*studies {
			t.Errorf("%v: %d of %d studies show these modes", c.want, right, studies)
		}
	}
	if s := SpreadByStart([]float64{1, 2}, []int{1, 2}); !s.Agree || s.Modes != nil {
		t.Errorf("one round per start: %+v", s)
	}
}

// Two runs whose starts have random effects do not differ. With enough starts, the interval of their comparison contains
// 1 in most studies. With fewer starts, there is no interval. An interval that ignores the starts excludes 1 in many
// studies.
func TestStartSamples(t *testing.T) {
	const studies = 1000
	r := rand.New(rand.NewPCG(23, 5))
	for _, c := range []struct {
		rounds  [2][]int
		bounded bool
	}{
		{[2][]int{{15, 15}, {15, 15}}, false},
		{[2][]int{{6, 6, 6, 6, 6}, {6, 6, 6, 6, 6}}, false},
		{[2][]int{{5, 5, 5, 5, 5, 5}, {10, 10, 10}}, false},
		{[2][]int{{5, 5, 5, 5, 5, 5}, {9, 1, 5, 2, 8, 5}}, true},
		{[2][]int{{10, 10, 10, 10, 10, 10, 10, 10}, {5, 5, 5, 5, 5, 5}}, true},
	} {
		wrong, alone := 0, 0
		for range studies {
			var logs [2][]float64
			var starts [2][]int
			for side := range logs {
				logs[side], starts[side] = startStudy(r, c.rounds[side], func() float64 { return .05 * r.NormFloat64() })
			}
			s := StartSamples(logs, starts)
			e, err := EstimateChange(s[0], s[1], Options{})
			plain, err2 := EstimateChange(logs[0], logs[1], Options{})
			if err != nil || err2 != nil || e.Bounded() != c.bounded {
				t.Fatalf("%v: %+v, %v, %v", c.rounds, e, err, err2)
			}
			if e.Bounded() && !e.Contains(1) {
				wrong++
			}
			if !plain.Contains(1) {
				alone++
			}
		}
		if wrong > .06*studies || alone < .1*studies {
			t.Errorf("%v: %d of %d studies differ, and %d by the rounds alone", c.rounds, wrong, studies, alone)
		}
	}
}
