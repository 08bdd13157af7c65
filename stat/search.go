package stat

import (
	"math"
	"math/rand/v2"
)

// A Search finds the highest load that meets a condition, from the answers to one load after the other. Low loads meet the
// condition and high ones miss it; near the limit an answer may be either, and now and then it is wrong anywhere (a stall of the
// machine makes a low load miss). So it is a probabilistic bisection (Horstein 1963; Waeber, Frazier and Henderson 2013): it
// keeps the probability that the limit is in each of many cells of the logarithm of the load, asks at their median, and trusts an
// answer by searchTrust. A wrong answer is corrected by the ones after it, where a plain bisection never returns.
//
// A Search knows no more than its own answers: the interval of a limit comes from several searches, as from other values.
type Search struct {
	from, cell   float64 // logarithms: the lower end of the cells, and their width
	mass         []float64
	met, missed  bool // whether any load was
	lowest, most float64
}

const (
	// SearchSteps is how many loads a search tries.
	SearchSteps = 10
	searchCells = 256
	searchTrust = .95
)

// NewSearch begins a search between two loads. The seed shifts both by up to a third, so that searches with other seeds try
// other loads, and the grid of the loads takes no side.
func NewSearch(lo, hi float64, seed uint64) *Search {
	shift := math.Log(1.33) * (2*rand.New(rand.NewPCG(seed, 0)).Float64() - 1)
	s := &Search{from: math.Log(lo) + shift, cell: math.Log(hi/lo) / searchCells, mass: make([]float64, searchCells), lowest: math.Inf(1)}
	for i := range s.mass {
		s.mass[i] = 1. / searchCells
	}
	return s
}

// Next is the load to try: the limit, as far as it is known.
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

// Tried takes in whether a load met the condition.
func (s *Search) Tried(load float64, met bool) {
	s.met, s.missed = s.met || met, s.missed || !met
	s.lowest, s.most = min(s.lowest, load), max(s.most, load)
	below, above := 1-searchTrust, searchTrust
	if !met {
		below, above = above, below
	}
	at, sum := (math.Log(load)-s.from)/s.cell, 0.
	for i := range s.mass {
		lower := min(max(at-float64(i), 0), 1) // the part of the cell below the load
		s.mass[i] *= lower*below + (1-lower)*above
		sum += s.mass[i]
	}
	for i := range s.mass {
		s.mass[i] /= sum
	}
}

// Limit is what was found. Without a load that met the condition, or one that missed it, limit is the lowest or the highest load
// that was tried, and the other results say which.
func (s *Search) Limit() (limit float64, noneMet, noneMissed bool) {
	switch {
	case !s.met:
		return s.lowest, true, false
	case !s.missed:
		return s.most, false, true
	}
	return s.Next(), false, false
}
