package statsim

import (
	"reflect"
	"strings"
	"testing"
)

// With six or more starts, intervals reach the promised coverage, unless slow states are rare and affect only the
// target. With two to five starts, some studies have no interval.
func TestRestarts(t *testing.T) {
	o := Options{Studies: 800, Seed: 3, Models: []string{"M0 σ=2%", "M3 φ=0.6", "M5-both", "M5-one-arm p=0.5 until", "M5-one-arm p=0.1 until"}}
	rows, err := Restarts(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	byModel := map[string]map[int]*Restarted{}
	for _, r := range rows {
		if byModel[r.Model] == nil {
			byModel[r.Model] = map[int]*Restarted{}
		}
		byModel[r.Model][r.Starts] = r
		if r.Starts == 1 && float64(r.Coverage) != r.Alone {
			t.Errorf("%s, one start: coverage %v, rounds alone %v", r.Model, r.Coverage, r.Alone)
		}
		if few := r.Starts > 1 && r.Starts < 6; few && r.Hi < Gate || (r.Shown < 1) != few {
			t.Errorf("%s, %d starts: coverage %v [%v, %v] of %v", r.Model, r.Starts, r.Coverage, r.Lo, r.Hi, r.Shown)
		}
		if float64(r.Coverage) < r.Alone-.01 { // the centre of the interval may move, but coverage must not drop
			t.Errorf("%s, %d starts: coverage %v, rounds alone %v", r.Model, r.Starts, r.Coverage, r.Alone)
		}
		rare := strings.HasPrefix(r.Model, "M5-one-arm p=0.1")
		if r.Starts >= 6 && !rare && r.Hi < Gate {
			t.Errorf("%s, %d starts: coverage %v [%v, %v]", r.Model, r.Starts, r.Coverage, r.Lo, r.Hi)
		}
		if rare && r.Starts == 6 && r.Coverage > .8 {
			t.Errorf("%s: coverage %v with six starts: the page says that it falls short", r.Model, r.Coverage)
		}
	}
	if x := byModel["M5-both p=0.5 until the next start"][6]; x == nil || x.Alone > .8 {
		t.Errorf("rounds alone hold under modes: %+v", x)
	}
	if x := byModel["M0 σ=2%"]; x[2].Shown > .03 || x[5].Shown > .03 {
		t.Errorf("quiet: %v of studies with two starts have an interval, %v with five", x[2].Shown, x[5].Shown)
	}
	if x := byModel["M0 σ=2%"]; x[6].HalfWidth > 1.7*x[1].HalfWidth {
		t.Errorf("quiet: six starts are ± %v, one ± %v", x[6].HalfWidth, x[1].HalfWidth)
	}
	o.Models, o.Workers = []string{"M5-both p=0.5 sticky"}, 1
	o.Studies = 50
	one, err := Restarts(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Workers = 3
	if three, err := Restarts(t.Context(), o); err != nil || !reflect.DeepEqual(one, three) {
		t.Errorf("the result depends on the workers: %v", err)
	}
	page := RestartsMarkdown(one, 3)
	if !strings.Contains(page, "| M5-both p=0.5 sticky | ") || !strings.Contains(page, "--studies 50 --seed 3") {
		t.Error(page)
	}
	if _, err := Restarts(t.Context(), Options{Studies: 1, Models: []string{"M9"}}); err == nil {
		t.Error("an unknown model")
	}
}
