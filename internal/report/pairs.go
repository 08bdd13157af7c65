package report

import "math"

// Logs are the natural logarithms.
func Logs(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = math.Log(x)
	}
	return out
}

// PairDots are the values of two rows, paired by round: what stat.Pairs gives, without a walk through all
// trials of a run for each of its cells. Rows have their dots in the order of the rounds. Those of discarded
// rounds are in it only with discarded.
func PairDots(base, target []Dot, discarded bool) (bs, xs []float64) {
	bs, xs = make([]float64, 0, len(target)), make([]float64, 0, len(target))
	for i, j := 0, 0; i < len(base) && j < len(target); {
		switch b, t := base[i], target[j]; {
		case b.Round < t.Round || i+1 < len(base) && base[i+1].Round == b.Round:
			i++
		case t.Round < b.Round || j+1 < len(target) && target[j+1].Round == t.Round:
			j++
		default:
			if discarded || !b.Discarded && !t.Discarded {
				bs, xs = append(bs, b.Value), append(xs, t.Value)
			}
			i, j = i+1, j+1
		}
	}
	return bs, xs
}
