package tune

import (
	"slices"

	"gonum.org/v1/gonum/mat"
)

// A Factor is an option with its values. The first value is the present one.
type Factor struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// A Combo is a combination: the index of a value for each factor. The present combination has only zeros.
type Combo []int

// changed returns the number of factors that differ from the present combination.
func (c Combo) changed() (n int) {
	for _, level := range c {
		if level != 0 {
			n++
		}
	}
	return n
}

// after reports whether c changes exactly one factor that o leaves at its present value, and otherwise equals o.
func (c Combo) after(o Combo) bool {
	n := 0
	for f := range c {
		if c[f] != o[f] {
			if o[f] != 0 {
				return false
			}
			n++
		}
	}
	return n == 1
}

// space contains, for each factor, the indexes of the values that are still considered. Each list begins with 0.
type space [][]int

// size returns the number of combinations, or limit+1 if there are more than limit.
func (s space) size(limit int) int {
	n := 1
	for _, levels := range s {
		if n *= len(levels); n > limit {
			return limit + 1
		}
	}
	return n
}

// all returns every combination of the factors for which vary returns true. The other factors keep their present
// values. The present combination is the first.
func (s space) all(vary func(factor int) bool) []Combo {
	out := []Combo{make(Combo, len(s))}
	for f, levels := range s {
		if !vary(f) {
			continue
		}
		for _, level := range levels[1:] {
			for _, c := range out[:len(out):len(out)] {
				if c[f] == 0 {
					c = slices.Clone(c)
					c[f] = level
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// screen returns the combinations of a screening design, the present combination first. The design is an orthogonal
// array with its foldover. If no factor has more than two values, each factor uses a column of a Hadamard matrix
// (Plackett and Burman 1946), and main effects are not aliased with interactions of two factors. Otherwise the factors
// use columns of a regular fraction, in which several symbols may represent the same value (Addelman 1962).
func (s space) screen() []Combo {
	base := s.array()
	var out []Combo
	for _, fold := range []int{0, 1} {
		for _, row := range base {
			c := make(Combo, len(s))
			for f, levels := range s {
				symbol := row[f]
				if fold == 1 {
					symbol = 1<<bits(len(levels)) - 1 - symbol
				}
				if symbol >= len(levels) {
					symbol = 0 // spare symbols represent the present value, which is therefore measured more often
				}
				c[f] = levels[symbol]
			}
			if !slices.ContainsFunc(out, func(o Combo) bool { return slices.Equal(o, c) }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// bits returns the number of two-symbol columns that n values need.
func bits(n int) (b int) {
	for 1<<b < n {
		b++
	}
	return b
}

// array returns the rows of an orthogonal array, with one symbol for each factor. The symbols of the first row are 0.
func (s space) array() [][]int {
	two := 0
	for _, levels := range s {
		if len(levels) > 2 {
			return s.regular()
		}
		two += len(levels) - 1
	}
	h := hadamard(two + 1)
	rows := make([][]int, len(h))
	for i, row := range h {
		column := 1 // column 0 is constant
		for _, levels := range s {
			symbol := 0
			if len(levels) == 2 {
				symbol = row[column]
				column++
			}
			rows[i] = append(rows[i], symbol)
		}
	}
	return rows
}

// hadamard returns a Hadamard matrix with at least n rows, but at least 4: the smallest one from Paley's first
// construction with a prime, or from Sylvester's construction. Its elements are 0 and 1, and those of the first row and
// column are 0.
func hadamard(n int) [][]int {
	order := 4
	for ; ; order += 4 {
		if order >= n && (order&(order-1) == 0 || prime(order-1)) {
			break
		}
	}
	rows := make([][]int, order)
	for i := range rows {
		rows[i] = make([]int, order)
	}
	if order&(order-1) == 0 {
		for i := range rows {
			for j := range rows {
				rows[i][j] = parity(i & j)
			}
		}
		return rows
	}
	q := order - 1 // q ≡ 3 (mod 4), as the construction requires
	square := make([]bool, q)
	for i := 1; i < q; i++ {
		square[i*i%q] = true
	}
	for i := range q {
		for j := range q {
			if i == j || square[(j-i+q)%q] {
				rows[i+1][j+1] = 1
			}
		}
	}
	return rows
}

func parity(x int) (p int) {
	for ; x > 0; x &= x - 1 {
		p ^= 1
	}
	return p
}

func prime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

// regular returns an orthogonal array with 2^m rows. Each factor has some masks, and each bit of its symbol is the
// parity of the row number under one of these masks. The XOR of some masks of one factor never equals the XOR of some
// masks of another. All pairs of symbols of two factors therefore occur equally often.
func (s space) regular() [][]int {
	order := make([]int, len(s)) // indexes of the factors, those with the most values first
	for f := range order {
		order[f] = f
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(s[b]) - len(s[a]) })
	for m := 2; ; m++ {
		if masks, ok := s.masks(order, m); ok {
			rows := make([][]int, 1<<m)
			for i := range rows {
				for f := range s {
					symbol := 0
					for b, mask := range masks[f] {
						symbol |= parity(i&mask) << b
					}
					rows[i] = append(rows[i], symbol)
				}
			}
			return rows
		}
	}
}

// masks chooses the masks of the factors from the 2^m − 1 possible ones, in the given order of factors. ok is false if
// there are too few masks.
func (s space) masks(order []int, m int) (masks [][]int, ok bool) {
	taken := make([]bool, 1<<m)
	masks = make([][]int, len(s))
	for _, f := range order {
		span := []int{0}
		for next := 1; len(masks[f]) < bits(len(s[f])); next++ {
			if next == 1<<m {
				return nil, false
			}
			if slices.Contains(span, next) || slices.ContainsFunc(span, func(x int) bool { return taken[x^next] }) {
				continue
			}
			masks[f] = append(masks[f], next)
			for _, x := range span {
				span = append(span, x^next)
			}
		}
		for _, x := range span[1:] {
			taken[x] = true
		}
	}
	return masks, true
}

// A term is a column of the linear model: 1 for combinations that contain all values of the term, and 0 for the
// others.
type term []struct{ factor, level int }

func (t term) of(c Combo) float64 {
	for _, x := range t {
		if c[x.factor] != x.level {
			return 0
		}
	}
	return 1
}

// mains returns the terms of the main effects: one for each value except the present ones.
func (s space) mains() (out []term) {
	for f, levels := range s {
		for _, level := range levels[1:] {
			out = append(out, term{{f, level}})
		}
	}
	return out
}

// pair returns the terms of the interaction of two factors.
func (s space) pair(f, g int) (out []term) {
	for _, a := range s[f][1:] {
		for _, b := range s[g][1:] {
			out = append(out, term{{f, a}, {g, b}})
		}
	}
	return out
}

// A fit is a least-squares fit of a linear model to the means of combinations.
type fit struct {
	effects []float64 // estimated effect of each term
	factors []float64 // variance of each effect, as a multiple of the variance of a mean
	rest    float64   // residual sum of squares
	df      int       // residual degrees of freedom
}

// fitted fits the model with a constant and the terms. ok is false if the combinations are too few or too similar to
// estimate all terms.
func fitted(combos []Combo, means []float64, terms []term) (f fit, ok bool) {
	n, p := len(combos), len(terms)+1
	if n < p {
		return f, false
	}
	x := mat.NewDense(n, p, nil)
	for i, c := range combos {
		x.Set(i, 0, 1)
		for j, t := range terms {
			x.Set(i, j+1, t.of(c))
		}
	}
	var xtx, inverse mat.Dense
	xtx.Mul(x.T(), x)
	if err := inverse.Inverse(&xtx); err != nil { // singular, or nearly so
		return f, false
	}
	y := mat.NewVecDense(n, slices.Clone(means))
	var xty, b, back mat.VecDense
	xty.MulVec(x.T(), y)
	b.MulVec(&inverse, &xty)
	back.MulVec(x, &b)
	for i, v := range means {
		f.rest += (v - back.AtVec(i)) * (v - back.AtVec(i))
	}
	for j := range terms {
		f.effects = append(f.effects, b.AtVec(j+1))
		f.factors = append(f.factors, inverse.At(j+1, j+1))
	}
	f.df = n - p
	return f, true
}
