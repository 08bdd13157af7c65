package stat

import (
	"math"
	"math/rand/v2"
)

// A Search finds the highest load that meets a condition, by trying one load after another. Low loads meet the
// condition and high loads miss it, but any answer may be wrong: during a stall, a low load misses the condition.
// Search is therefore a probabilistic bisection (Horstein 1963; Waeber, Frazier and Henderson 2013). It divides the
// logarithm of the load into many cells and stores, for each cell, the probability that the cell contains the limit. It
// tries the median of this distribution and assumes that an answer is correct with probability searchTrust. Unlike in
// plain bisection, later answers can correct a wrong one.
type Search struct {
	from, cell   float64 // logarithms: lower end of the cells, and cell width
	mass         []float64
	met, missed  bool // whether any load met or missed the condition
	lowest, most float64
}

const (
	// SearchSteps is the number of loads that a search tries.
	SearchSteps = 10
	searchCells = 256
	searchTrust = .95
)

// NewSearch starts a search between the loads lo and hi. It multiplies both by the same factor from 1/1.33 to 1.33,
// which depends on seed, so that the grid of loads causes no bias over several searches.
func NewSearch(lo, hi float64, seed uint64) *Search {
	shift := math.Log(1.33) * (2*rand.New(rand.NewPCG(seed, 0)).Float64() - 1)
	s := &Search{from: math.Log(lo) + shift, cell: math.Log(hi/lo) / searchCells, mass: make([]float64, searchCells), lowest: math.Inf(1)}
	for i := range s.mass {
		s.mass[i] = 1. / searchCells
	}
	return s
}

// Next returns the load to try: the current estimate of the limit.
func (s *Search) Next() float64 {
	sum := 0.
	for i, m := range s.mass {
		if sum+m >= .5 {
			return math.Exp(s.from + s.cell*(float64(i)+(.5-sum)/m))
		}
		sum += m
	}
	return math.Exp(s.from + s.cell*searchCells)
}

// Tried records whether a load met the condition.
func (s *Search) Tried(load float64, met bool) {
	s.met, s.missed = s.met || met, s.missed || !met
	s.lowest, s.most = min(s.lowest, load), max(s.most, load)
	below, above := 1-searchTrust, searchTrust
	if !met {
		below, above = above, below
	}
	at, sum := (math.Log(load)-s.from)/s.cell, 0.
	for i := range s.mass {
		lower := min(max(at-float64(i), 0), 1) // part of the cell that is below the load
		s.mass[i] *= lower*below + (1-lower)*above
		sum += s.mass[i]
	}
	for i := range s.mass {
		s.mass[i] /= sum
	}
}

// Limit returns the result. If no load met the condition, limit is the lowest load that was tried, and noneMet is
// true. If no load missed it, limit is the highest load that was tried, and noneMissed is true.
func (s *Search) Limit() (limit float64, noneMet, noneMissed bool) {
	switch {
	case !s.met:
		return s.lowest, true, false
	case !s.missed:
		return s.most, false, true
	}
	return s.Next(), false, false
}
