package tune

import (
	"fmt"
	"slices"
	"testing"
)

// spaceOf returns a space of factors with these numbers of values.
func spaceOf(levels ...int) (s space) {
	for _, n := range levels {
		var all []int
		for i := range n {
			all = append(all, i)
		}
		s = append(s, all)
	}
	return s
}

// The array is orthogonal: each pair of symbols of two factors occurs in proportion to the frequencies of the two
// symbols. The first row is the present combination. The screening design can estimate all main effects separately.
func TestScreen(t *testing.T) {
	for levels, want := range map[string]int{ // expected number of combinations in the screening design; 0 means any
		"2 2 2": 8, "2 2 2 2 2 2 2": 16, "2 2 2 2 2 2 2 2": 24, "2 2 2 2 2 2 2 2 2 2 2 2": 32, "3 2 2": 0, "4 4 2 2": 0, "3 4 2 2": 0, "5 3 2": 0, "8 2 2 2 2": 0, "2 1 2 2 2": 16,
	} {
		var n []int
		for rest := levels; rest != ""; {
			var x int
			if _, err := fmt.Sscan(rest, &x); err != nil {
				t.Fatal(err)
			}
			n, rest = append(n, x), rest[min(2, len(rest)):]
		}
		s := spaceOf(n...)
		rows := s.array()
		if slices.ContainsFunc(rows[0], func(symbol int) bool { return symbol != 0 }) {
			t.Errorf("%s: the first row is %v", levels, rows[0])
		}
		for f := range s {
			for g := range f {
				one, two, both := map[int]int{}, map[int]int{}, map[[2]int]int{}
				for _, row := range rows {
					one[row[f]]++
					two[row[g]]++
					both[[2]int{row[f], row[g]}]++
				}
				for a := range one {
					for b := range two {
						if both[[2]int{a, b}]*len(rows) != one[a]*two[b] {
							t.Errorf("%s: %d of factor %d and %d of factor %d meet %d times in %d rows", levels, a, f, b, g, both[[2]int{a, b}], len(rows))
						}
					}
				}
			}
		}
		design := s.screen()
		if want > 0 && len(design) != want {
			t.Errorf("%s: %d combinations, want %d", levels, len(design), want)
		}
		if design[0].changed() != 0 {
			t.Errorf("%s begins with %v", levels, design[0])
		}
		if _, ok := fitted(design, make([]float64, len(design)), s.mains()); !ok {
			t.Errorf("%s: the effects are mixed up", levels)
		}
		// With the foldover, an interaction of two two-level factors does not change any main effect.
		if slices.Max(n) > 2 || len(s) < 3 {
			continue
		}
		y := make([]float64, len(design))
		for i, c := range design {
			y[i] = float64((2*c[0] - 1) * (2*c[len(c)-1] - 1))
		}
		f, _ := fitted(design, y, s.mains())
		for i, e := range f.effects {
			if e > 1e-9 || e < -1e-9 {
				t.Errorf("%s: effect %d is %g", levels, i, e)
			}
		}
	}
}

// A path adds the best single changes one at a time, and ends with the best combination.
func TestPath(t *testing.T) {
	all := spaceOf(2, 2, 3).all(func(int) bool { return true })
	if len(all) != 12 {
		t.Errorf("%d combinations", len(all))
	}
	got := path(all, func(c Combo) float64 {
		return []float64{0, 3}[c[0]] + []float64{0, -1}[c[1]] + []float64{0, 1, 2}[c[2]]
	})
	if fmt.Sprint(got) != "[[0 0 0] [1 0 0] [1 0 2]]" {
		t.Errorf("path %v", got)
	}
}
