package stat

import (
	"cmp"
	"slices"

	"iotax"
)

// A Pairing takes the trials of one workload as they come and keeps of each only what Pairs needs, some ten bytes: a run
// that goes on for thousands of blocks asks for its pairs after each. The trials may come in any order.
type Pairing struct {
	Metric   string // whose values are paired
	SetAside bool   // leave out the blocks that SetAside makes discarded

	rows  []row            // ascending by block
	sides map[string]*side // by target
}

// A row is a block.
type row struct {
	block     int
	at        int  // the place of its values in each side
	discarded bool // a trial of it is
}

// A side is what one target measured; the slices are as long as the last block that it was tried in.
type side struct {
	values     []float64
	marks      []mark
	better     iotax.Better
	valid, bad int // trials that count, and those of them that have an error beside their number
}

type mark uint8

const (
	measured  mark = 1 << iota // the value is there
	condemned                  // an error stands beside it
)

// Add takes a trial, which it does not hold on to.
func (p *Pairing) Add(t *iotax.Trial) {
	i, ok := slices.BinarySearchFunc(p.rows, t.Block, func(r row, block int) int { return cmp.Compare(r.block, block) })
	if !ok {
		p.rows = slices.Insert(p.rows, i, row{block: t.Block, at: len(p.rows)})
	}
	r := &p.rows[i]
	r.discarded = r.discarded || t.Discarded != ""
	s := p.sides[t.Target]
	if s == nil {
		if p.sides == nil {
			p.sides = map[string]*side{}
		}
		s = &side{}
		p.sides[t.Target] = s
	}
	for len(s.marks) <= r.at {
		s.values, s.marks = append(s.values, 0), append(s.marks, 0)
	}
	if t.Err != "" {
		return
	}
	if t.Discarded == "" {
		s.valid++
		if _, wrong := errorOf(t); wrong {
			s.bad++
			s.marks[r.at] |= condemned
		}
	}
	if v, ok := t.Value(p.Metric); ok {
		s.values[r.at], s.better = v.Value, v.Better
		s.marks[r.at] |= measured
	}
}

// Pairs returns the values for the baseline and for the target as the function Pairs does.
func (p *Pairing) Pairs(baseline, target string) (base, other []float64, better iotax.Better) {
	b, t := p.sides[baseline], p.sides[target]
	if t != nil {
		better = t.better
	}
	if b == nil || t == nil {
		return nil, nil, better
	}
	var aside []*side
	for _, s := range p.sides {
		if p.SetAside && s.bad > 0 && few(s.bad, s.valid) {
			aside = append(aside, s)
		}
	}
	n := min(b.count(measured), t.count(measured))
	if n == 0 {
		return nil, nil, better
	}
	base, other = make([]float64, 0, n), make([]float64, 0, n)
	for _, r := range p.rows {
		if !r.discarded && b.is(measured, r) && t.is(measured, r) && !slices.ContainsFunc(aside, func(s *side) bool { return s.is(condemned, r) }) {
			base, other = append(base, b.values[r.at]), append(other, t.values[r.at])
		}
	}
	return base, other, better
}

func (s *side) is(m mark, r row) bool { return r.at < len(s.marks) && s.marks[r.at]&m != 0 }

func (s *side) count(m mark) (n int) {
	for _, has := range s.marks {
		if has&m != 0 {
			n++
		}
	}
	return n
}
