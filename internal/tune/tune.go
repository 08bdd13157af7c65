// Package tune finds the combination of options with the best result. A screening design estimates the mean effect of
// each value. The final then compares combinations of the values that have an effect, in paired rounds, and drops
// combinations that are shown to be worse.
package tune

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"iotax"
	"iotax/stat"
)

// Alpha is the maximum probability that a search reports Result.Sure although Best is not within the margin of the best
// finalist.
const Alpha = 0.05

const (
	pilot       = 2    // number of screening rounds before unusable values are removed
	fewCombos   = 6    // largest number of combinations that are compared without screening
	maxFinal    = 9    // all combinations of the factors with a gain enter the final if there are at most this many
	maxHidden   = 3    // maximum number of interactions that add factors to the final
	effectAlpha = 0.05 // significance level of the test that brings a value into the final
	missed      = 0.05 // probability that a value does not enter the final although it gains `gains` times the margin
	gains       = 1.5
	hiddenAlpha = 0.01 // significance level of the lack-of-fit test for missing interactions
)

// A Row contains the measurements of one combination.
type Row struct {
	D     []float64 // log ratio to the present combination in each round; positive is better, and NaN means an invalid round
	Wrong Wrong
	Why   string // the reason for Wrong, as text
}

// A Wrong is the reason why a combination is never recommended, or "".
type Wrong string

const (
	Cached Wrong = "cached" // a cache, not the device, served the I/O
	Weaker Wrong = "weaker" // a flush guarantees less than with the present combination
	Failed Wrong = "failed" // the combination could not be measured
)

// A Search looks for the best combination. All fields are required.
type Search struct {
	Factors []Factor
	Margin  float64 // differences up to this share do not matter: 0.05 is 5 %
	Least   int     // minimum number of rounds of the final
	Most    int     // maximum number of rounds of the final and of the screening

	// Measure measures combinations in a number of paired rounds, and returns a Row for each combination. The first
	// combination is the present one.
	Measure func(ctx context.Context, combos []Combo, rounds int) ([]Row, error)
	Note    func(format string, args ...any)

	space  space
	result Result
}

// A Result is the result of a search.
type Result struct {
	Best      Combo    // the present combination if no other is shown to be better
	Sure      bool     // Best is shown to be within the margin of the best finalist
	Gain      Gain     // gain of Best in the final
	Effects   []Effect // in the order of the factors
	Refused   []Refusal
	Finalists []Finalist
	Trials    int
}

// A Gain is a ratio to the present combination, with its 95 % interval. A ratio above 1 is better.
type Gain = stat.Interval

// An Effect is the mean gain of a value over the combinations of the screening design.
type Effect struct {
	Factor int
	Level  int
	Gain   Gain
	Final  bool // at least one finalist has this value
}

// A Refusal is a value or a combination that is never recommended, even if it gains.
type Refusal struct {
	Combo Combo // a single value is a combination in which only its factor is not 0
	Wrong Wrong
	Why   string
}

// A Finalist is a combination of the final that was not refused.
type Finalist struct {
	Combo   Combo
	Gain    Gain
	Dropped bool // it is shown not to be the best
}

// Run performs the search. Together with an error, it returns the result so far.
func (s *Search) Run(ctx context.Context) (Result, error) {
	s.space, s.result = make(space, len(s.Factors)), Result{}
	for f, factor := range s.Factors {
		for level := range factor.Levels {
			s.space[f] = append(s.space[f], level)
		}
	}
	finalists := s.space.all(func(int) bool { return true })
	if s.space.size(fewCombos) > fewCombos {
		var err error
		if finalists, err = s.screened(ctx); err != nil {
			return s.result, err
		}
	}
	err := s.final(ctx, finalists, true)
	return s.result, err
}

// Name formats the values that a combination changes: "cache=none iothread=true".
func (s *Search) Name(c Combo) string {
	var words []string
	for f, level := range c {
		if level != 0 {
			words = append(words, s.Factors[f].Name+"="+s.Factors[f].Levels[level])
		}
	}
	return cmp.Or(strings.Join(words, " "), "the present options")
}

func (s *Search) measure(ctx context.Context, combos []Combo, rounds int) ([]Row, error) {
	rows, err := s.Measure(ctx, combos, rounds)
	if err != nil {
		return nil, err
	}
	s.result.Trials += len(combos) * rounds
	if rows[0].Wrong != "" {
		err = &iotax.Error{Op: "tune", On: "the present options", Err: errors.New(rows[0].Why), Hint: map[Wrong]string{
			Cached: "nothing is better than a cache: use a larger file, or direct I/O", Failed: "measure them alone first: iotax run"}[rows[0].Wrong]}
	}
	return rows, err
}

// screened measures a screening design and returns the combinations for the final.
func (s *Search) screened(ctx context.Context) ([]Combo, error) {
	combos := s.space.screen()
	s.Note("screening: %d combinations of %d", len(combos), s.space.size(math.MaxInt32))
	rows, err := s.measure(ctx, combos, pilot)
	if err != nil {
		return nil, err
	}
	if s.refuse(combos, rows) {
		if s.space.size(fewCombos) <= fewCombos {
			return s.space.all(func(int) bool { return true }), nil
		}
		return s.screened(ctx)
	}
	for _, margins := range []float64{gains, 1} {
		good, d, err := s.usable(combos, rows)
		if err != nil {
			return nil, err
		}
		if more := s.needed(good, d, margins) - len(rows[0].D); more > 0 {
			s.Note("the noise needs %d more rounds, to find options that gain %.0f %%", more, 100*margins*s.Margin)
			again, err := s.measure(ctx, good, more)
			if err != nil {
				s.result.Best = make(Combo, len(s.space))
				_, _, few := s.finalists(good, d) // stores the effects so far in the result
				return nil, errors.Join(err, few)
			}
			for i := range again {
				at := slices.IndexFunc(combos, func(c Combo) bool { return slices.Equal(c, good[i]) })
				again[i].D = append(slices.Clone(rows[at].D), again[i].D...)
			}
			combos, rows = good, again
		}
		if combos, d, err = s.usable(combos, rows); err != nil {
			return nil, err
		}
		final, many, err := s.finalists(combos, d)
		if err != nil || !many || margins == 1 {
			return final, err
		}
		rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Wrong != "" })
	}
	panic("unreachable")
}

// refuse removes each value whose combinations all have the same Wrong, except the present values. It reports whether
// it removed any.
func (s *Search) refuse(combos []Combo, rows []Row) (found bool) {
	for f, levels := range s.space {
		s.space[f] = slices.DeleteFunc(slices.Clone(levels), func(level int) bool {
			var wrong Wrong
			why := ""
			for i, c := range combos {
				if c[f] == level {
					if rows[i].Wrong == "" || wrong != "" && rows[i].Wrong != wrong {
						return false
					}
					wrong, why = rows[i].Wrong, rows[i].Why
				}
			}
			if level == 0 || wrong == "" {
				return false
			}
			c := make(Combo, len(s.space))
			c[f] = level
			s.refused(c, wrong, why)
			found = true
			return true
		})
	}
	return found
}

func (s *Search) refused(c Combo, wrong Wrong, why string) {
	if !slices.ContainsFunc(s.result.Refused, func(r Refusal) bool { return slices.Equal(r.Combo, c) }) {
		s.result.Refused = append(s.result.Refused, Refusal{c, wrong, why})
		s.Note("refused: %s: %s", s.Name(c), why)
	}
}

// usable returns the combinations without a Wrong, and their log ratios in the rounds that are valid for all of them.
// It refuses the other combinations.
func (s *Search) usable(combos []Combo, rows []Row) ([]Combo, [][]float64, error) {
	var good []Combo
	var d [][]float64
	for i, row := range rows {
		if row.Wrong != "" {
			s.refused(combos[i], row.Wrong, row.Why)
			continue
		}
		good, d = append(good, combos[i]), append(d, slices.Clone(row.D))
	}
	for r := len(d[0]) - 1; r >= 0; r-- {
		if slices.ContainsFunc(d, func(row []float64) bool { return math.IsNaN(row[r]) }) {
			for i := range d {
				d[i] = slices.Delete(d[i], r, r+1)
			}
		}
	}
	if len(d[0]) < 2 {
		return nil, nil, &iotax.Error{Op: "tune", On: "screening", Err: errors.New("fewer than two rounds count"), Hint: "see the reports of its runs, and remove the cause"}
	}
	return good, d, nil
}

// spread returns the residual standard deviation of one trial, without the effects of its combination and its round,
// and the degrees of freedom.
func spread(d [][]float64) (sd float64, df int) {
	rounds := len(d[0])
	mean := func(values func(yield func(float64) bool)) (m float64) {
		n := 0.0
		for v := range values {
			m += v
			n++
		}
		return m / n
	}
	row, column, all := make([]float64, len(d)), make([]float64, rounds), 0.0
	for i := range d {
		row[i] = mean(slices.Values(d[i]))
		all += row[i] / float64(len(d))
	}
	for r := range rounds {
		for i := range d {
			column[r] += d[i][r] / float64(len(d))
		}
	}
	var squares float64
	for i := range d {
		for r := range rounds {
			x := d[i][r] - row[i] - column[r] + all
			squares += x * x
		}
	}
	df = (len(d) - 1) * (rounds - 1)
	return math.Sqrt(squares / float64(df)), df
}

func means(d [][]float64) (out []float64) {
	for _, row := range d {
		sum := 0.0
		for _, x := range row {
			sum += x
		}
		out = append(out, sum/float64(len(row)))
	}
	return out
}

// needed returns the number of screening rounds, at most s.Most, that detect a gain of `margins` times the margin with
// probability 1 − missed (Stein 1945).
func (s *Search) needed(combos []Combo, d [][]float64, margins float64) int {
	f, ok := fitted(combos, means(d), s.space.mains())
	if !ok {
		return s.Most
	}
	sd, df := spread(d)
	t := distuv.StudentsT{Sigma: 1, Nu: float64(df)}
	one := (t.Quantile(1-effectAlpha/2) + t.Quantile(1-missed)) * sd * math.Sqrt(slices.Max(f.factors)) / (margins * math.Log1p(s.Margin))
	return min(s.Most, int(math.Ceil(one*one)))
}

// finalists estimates the effects and chooses the combinations of the final. many reports that several values with
// small effects may together gain enough to matter. One more finalist then contains, for each factor, the value with
// the largest estimated gain.
func (s *Search) finalists(combos []Combo, d [][]float64) (final []Combo, many bool, err error) {
	mains, y := s.space.mains(), means(d)
	f, ok := fitted(combos, y, mains)
	if !ok {
		return nil, false, &iotax.Error{Op: "tune", On: "screening", Err: errors.New("too few combinations could be measured to separate the options"), Hint: "leave out the values that cannot be measured: " + s.refusals()}
	}
	sd, df := spread(d)
	variance := sd * sd / float64(len(d[0]))
	t := distuv.StudentsT{Sigma: 1, Nu: float64(df)}.Quantile(1 - effectAlpha/2)
	s.result.Effects = nil
	active, worse := map[int]bool{}, map[int]bool{}
	sweep := make(Combo, len(s.space))
	best := make([]float64, len(s.space))
	extra := 0.0 // estimated gain of the inactive factors in the combination `sweep`
	for i, m := range mains {
		half := t * math.Sqrt(variance*f.factors[i])
		e := f.effects[i]
		factor, level := m[0].factor, m[0].level
		s.result.Effects = append(s.result.Effects, Effect{Factor: factor, Level: level, Gain: Gain{Estimate: math.Exp(e), Lo: math.Exp(e - half), Hi: math.Exp(e + half), N: len(d[0])}})
		active[factor], worse[factor] = active[factor] || e > half, worse[factor] || e < -half
		if e > best[factor] {
			best[factor], sweep[factor] = e, level
		}
	}
	model, effects := s.hidden(combos, y, variance, df, active, worse)
	for factor, e := range best {
		if !active[factor] {
			extra += e
		}
	}
	vary := func(factor int) bool { return active[factor] }
	final = s.space.all(vary)
	if len(final) > maxFinal {
		final = path(final, func(c Combo) (sum float64) {
			for i, t := range model {
				sum += effects[i] * t.of(c)
			}
			return sum
		})
	}
	if many = extra > math.Log1p(s.Margin)/2; many {
		final = append(final, sweep)
	}
	for i := range s.result.Effects {
		e := &s.result.Effects[i]
		e.Final = slices.ContainsFunc(final, func(c Combo) bool { return c[e.Factor] == e.Level })
	}
	return final, many, nil
}

// path returns the present combination and the combinations on a path of single changes, each of which adds the most
// expected gain. If the path does not reach the combination with the largest expected gain, path adds that combination.
func path(all []Combo, expected func(Combo) float64) []Combo {
	out := all[:1:1]
	for at := all[0]; ; {
		next := at
		for _, c := range all {
			if c.after(at) && expected(c) > expected(next) {
				next = c
			}
		}
		if next.changed() == at.changed() {
			break
		}
		at = next
		out = append(out, at)
	}
	best := slices.MaxFunc(all, func(a, b Combo) int { return cmp.Compare(expected(a), expected(b)) })
	if !slices.ContainsFunc(out, func(c Combo) bool { return slices.Equal(c, best) }) {
		out = append(out, best)
	}
	return out
}

// hidden searches for interactions that the model lacks, as long as the means show a lack of fit. It adds the factors
// of these interactions to active. It returns the terms of the model and their effects.
func (s *Search) hidden(combos []Combo, y []float64, variance float64, df int, active, worse map[int]bool) (terms []term, effects []float64) {
	terms = s.space.mains()
	simple, _ := fitted(combos, y, terms)
	effects = simple.effects
	for n := 0; ; n++ {
		more := s.space.mains()
		for f := range s.space {
			for g := range f {
				if active[f] && active[g] {
					more = append(more, s.space.pair(g, f)...)
				}
			}
		}
		now, ok := fitted(combos, y, more)
		if !ok { // the design cannot estimate so many interactions
			return terms, effects
		}
		terms, effects = more, now.effects
		if n == maxHidden || now.df == 0 || now.rest/float64(now.df)/variance < (distuv.F{D1: float64(now.df), D2: float64(df)}).Quantile(1-hiddenAlpha) {
			return terms, effects
		}
		var pair []int
		least, most := now.rest, 0
		for f := range s.space {
			for g := range f {
				if active[f] && active[g] {
					continue
				}
				parents := 0 // how many of the two factors have an effect; decides between interactions that fit equally well
				for _, x := range []int{f, g} {
					if active[x] || worse[x] {
						parents++
					}
				}
				with, ok := fitted(combos, y, append(slices.Clip(terms), s.space.pair(g, f)...))
				if ok && (with.rest < 0.999*least || with.rest < 1.001*least && parents > most) {
					least, most, pair = with.rest, parents, []int{g, f}
				}
			}
		}
		if pair == nil {
			return terms, effects
		}
		active[pair[0]], active[pair[1]] = true, true
		s.Note("%s and %s act together", s.Factors[pair[0]].Name, s.Factors[pair[1]].Name)
	}
}

func (s *Search) refusals() string {
	var all []string
	for _, r := range s.result.Refused {
		all = append(all, s.Name(r.Combo))
	}
	return strings.Join(all, ", ")
}

// looks returns the numbers of rounds after which the final is analyzed. Each analysis ends a batch of rounds, and the
// targets are opened again for the next batch.
func (s *Search) looks() (all []int) {
	for n := s.Least; n < s.Most; n += max(1, n/2) {
		all = append(all, n)
	}
	return append(all, s.Most)
}

// A contest is the state of the final.
type contest struct {
	combos []Combo
	d      [][]float64 // log ratios of each combination, by round
	out    []bool      // refused
	lost   []bool      // shown not to be the best
	margin float64
	alpha  float64 // significance level of one comparison
}

// final measures the finalists until one is shown to be within the margin of all others and no finalist with fewer
// changes can still qualify, but for at most s.Most rounds. With drop, it stops measuring finalists that are shown not
// to be the best, except the present combination.
func (s *Search) final(ctx context.Context, combos []Combo, drop bool) error {
	n := len(combos)
	// The choice is wrong only if a comparison of the truly best finalist with one of the n−1 others is wrong, in either
	// direction. Alpha is therefore divided by 2(n−1). The test remains valid after any number of interim analyses.
	c := &contest{combos, make([][]float64, n), make([]bool, n), make([]bool, n), s.Margin, Alpha / float64(2*max(1, n-1))}
	s.result.Best = combos[0]
	measured := 0
	var stopped error
	for _, look := range s.looks() {
		var at []int
		var live []Combo
		for i, combo := range combos {
			if i == 0 || !c.out[i] && !(c.lost[i] && drop) {
				at, live = append(at, i), append(live, combo)
			}
		}
		if len(live) == 1 {
			s.result.Sure = true // no other combination is left
			break
		}
		s.Note("final: %d combinations, up to round %d", len(live), look)
		rows, err := s.measure(ctx, live, look-measured)
		if err != nil {
			stopped = err
			break
		}
		measured = look
		for k, i := range at {
			c.d[i] = append(c.d[i], rows[k].D...)
			if rows[k].Wrong != "" {
				s.refused(combos[i], rows[k].Wrong, rows[k].Why)
				c.out[i] = true
			}
		}
		best, sure, done, err := c.decide()
		if err != nil {
			return err
		}
		s.result.Best, s.result.Sure = combos[best], sure
		if done {
			break
		}
	}
	for i, combo := range combos {
		if !c.out[i] {
			s.result.Finalists = append(s.result.Finalists, Finalist{Combo: combo, Gain: gain(c.d[i]), Dropped: c.lost[i]})
		}
		if slices.Equal(combo, s.result.Best) {
			s.result.Gain = gain(c.d[i])
		}
	}
	return stopped
}

// gain returns the ratio of a finalist to the present combination, or NaNs if it cannot be estimated.
func gain(d []float64) Gain {
	d = slices.DeleteFunc(slices.Clone(d), math.IsNaN)
	if g, err := stat.Hull(d, stat.Options{}); err == nil {
		return g
	}
	return Gain{Estimate: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
}

// against compares finalist i with finalist j. worse reports that i is shown to be worse than j. near reports that i is
// shown not to be worse than j by the margin or more.
func (c *contest) against(i, j int) (worse, near bool, err error) {
	var diff []float64
	for r := range min(len(c.d[i]), len(c.d[j])) {
		if x := c.d[i][r] - c.d[j][r]; !math.IsNaN(x) {
			diff = append(diff, x)
		}
	}
	if len(diff) < 2 {
		return false, false, nil
	}
	w, err := stat.Slowed(stat.SampleOf(diff), stat.Sample{}, stat.Sample{}, c.margin)
	return w.Odds >= -math.Log(c.alpha), w.Most <= math.Log(c.alpha), err
}

// decide chooses between the present combination and the finalists that are shown to be better. If some of these are
// shown to be within the margin of all others, it chooses one of them with the fewest changes, and sure is true.
// Otherwise it chooses the best estimate. done reports that sure is true and no remaining finalist has fewer changes.
func (c *contest) decide() (best int, sure, done bool, err error) {
	var left []int
	for i := range c.combos {
		if !c.out[i] {
			left = append(left, i)
		}
	}
	beat := map[int]bool{} // shown to be better than the present combination
	for _, i := range left {
		for _, j := range left {
			if i == j || len(c.d[i]) != len(c.d[j]) || c.lost[i] && i != 0 {
				continue
			}
			worse, _, err := c.against(i, j)
			if err != nil {
				return 0, false, false, err
			}
			c.lost[i] = c.lost[i] || worse
			beat[j] = beat[j] || worse && i == 0
		}
	}
	left = slices.DeleteFunc(left, func(i int) bool { return c.lost[i] })
	slices.SortStableFunc(left, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.combos[a].changed(), c.combos[b].changed()), cmp.Compare(gain(c.d[b]).Estimate, gain(c.d[a]).Estimate))
	})
	for _, i := range left {
		near := i == 0 || beat[i]
		for _, j := range left {
			if near && j != i {
				if _, near, err = c.against(i, j); err != nil {
					return 0, false, false, err
				}
			}
		}
		if near {
			return i, true, c.combos[left[0]].changed() == c.combos[i].changed(), nil
		}
	}
	for _, i := range left { // choose the best combination that is shown to be better than the present one
		if beat[i] && (best == 0 || gain(c.d[i]).Estimate > gain(c.d[best]).Estimate) {
			best = i
		}
	}
	return best, false, false, nil
}
