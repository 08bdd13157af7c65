package report

import (
	"math"
	"slices"

	"iotax"
	"iotax/stat"
)

// A Waterfall shows the cost of each hop in a chain of layers under one workload. All its ratios are from the same
// rounds, so the product of the hops equals the total.
type Waterfall struct {
	Workload string        `json:"workload"`
	Metric   string        `json:"metric"`
	Label    string        `json:"-"`
	Unit     string        `json:"unit"`
	Chain    []string      `json:"chain"`             // targets from the device up whose values are all positive
	Missing  []string      `json:"missing,omitempty"` // other targets of the plan's chain
	Rounds   int           `json:"rounds"`            // number of rounds in which every target of the chain has a number
	Start    stat.Interval `json:"start"`             // value of the first target: the median over its trials
	Hops     []Hop         `json:"hops"`
	Total    Hop           `json:"total"` // from the first target to the last
}

// A Hop is the step from one layer to the next.
type Hop struct {
	From    string        `json:"from"`
	To      string        `json:"to"`
	Ratio   stat.Interval `json:"ratio"` // ratio of To to From, paired by round; higher is better
	Share   iotax.Number  `json:"share"` // the hop's share of the logarithm of the total ratio; NaN if the total's interval contains 1 or has no bounds
	Verdict stat.Verdict  `json:"verdict"`
	Value   stat.Interval `json:"value"` // value of To: the median over its trials
}

// waterfalls computes the waterfalls of every chain in the plan. The caller must call b.number first.
func (b *builder) waterfalls() {
	if b.Run.Presentation == nil {
		return
	}
	for _, chain := range b.Run.Presentation.Layers {
		for i := range b.Sections {
			if w, ok := b.waterfall(&b.Sections[i], chain); ok {
				b.Waterfalls = append(b.Waterfalls, w)
			}
		}
	}
}

// waterfall computes the waterfall of one chain. It returns false if fewer than two targets of the chain have only
// positive values, if no valid round includes all of these targets, if a ratio cannot be computed, or if the metric has
// no direction.
func (b *builder) waterfall(s *Section, chain []string) (Waterfall, bool) {
	w := Waterfall{Workload: s.Workload, Metric: s.Metric, Label: s.Label, Unit: s.Unit}
	if s.Better == iotax.Neither {
		return w, false
	}
	var rows []*Row
	takesPart := false
	for _, name := range chain {
		r := s.Row(name)
		takesPart = takesPart || r != nil
		if r == nil || len(r.Values()) == 0 || slices.ContainsFunc(r.Values(), func(x float64) bool { return !(x > 0) || math.IsInf(x, 0) }) {
			w.Missing = append(w.Missing, name)
			continue
		}
		rows, w.Chain = append(rows, r), append(w.Chain, name)
	}
	if !takesPart || len(rows) < 2 {
		return w, false
	}
	dots := common(rows)
	if w.Rounds = len(dots[0]); w.Rounds == 0 {
		return w, false
	}
	w.Start = rows[0].Value
	hop := func(from, to int) (h Hop, err error) {
		h = Hop{From: rows[from].Target, To: rows[to].Target, Value: rows[to].Value}
		h.Ratio, err = s.RatioOf(dots[from], dots[to], b.Options())
		h.Verdict = b.hopVerdict(h, rows[from], rows[to])
		return h, err
	}
	var err error
	if w.Total, err = hop(0, len(rows)-1); err != nil {
		return w, false
	}
	total := math.NaN() // logarithm of the total ratio, if its parts are meaningful
	if w.Total.Ratio.Bounded() && !w.Total.Ratio.Contains(1) {
		total = math.Log(w.Total.Ratio.Estimate)
	}
	share := func(h Hop) iotax.Number { return iotax.Number(math.Log(h.Ratio.Estimate) / total) }
	for i := 1; i < len(rows); i++ {
		h, err := hop(i-1, i)
		if err != nil {
			return w, false
		}
		h.Share = share(h)
		w.Hops = append(w.Hops, h)
	}
	w.Total.Share = share(w.Total)
	return w, true
}

// common returns each row's dots from the valid rounds that all rows have.
func common(rows []*Row) [][]Dot {
	seen, out := map[int]int{}, make([][]Dot, len(rows))
	for i, r := range rows {
		for j, d := range r.Dots {
			if !d.Discarded && (j+1 == len(r.Dots) || r.Dots[j+1].Round != d.Round) { // as PairDots, use the last trial of a round
				out[i] = append(out[i], d)
				seen[d.Round]++
			}
		}
	}
	for i := range out {
		out[i] = slices.DeleteFunc(out[i], func(d Dot) bool { return seen[d.Round] < len(rows) })
	}
	return out
}

// hopVerdict judges one hop. It does not apply Holm's adjustment, because a waterfall only locates a loss that the
// table has already judged.
func (b *builder) hopVerdict(h Hop, from, to *Row) stat.Verdict {
	switch {
	case b.Invalid(from) || b.Invalid(to):
		return stat.NotComparable
	case b.Target(from.Target).Durability.Unlike(b.Target(to.Target).Durability) != "":
		return stat.NotRanked
	}
	return stat.Judge(h.Ratio, b.Margin)
}
