package stat

import (
	_ "embed"
	"encoding/json"
	"math"
	"slices"
	"sync"
)

//go:generate go run ../internal/testenv/alphatable -o tables.json
//go:embed tables.json
var tablesJSON []byte

// tables are simulated constants.
var tables = sync.OnceValue(func() (t struct {
	// Alpha is α′ by first look, from 1 (the last row serves later ones), and number of looks, from 2: the least over all
	// last looks to 60.
	Alpha [][]float64
	// Levels are sizes of samples, and the share of the sum of squares that remains within the two groups of the best
	// split: the 1 % quantile over normal samples.
	Levels [][2]float64
}) {
	if err := json.Unmarshal(tablesJSON, &t); err != nil {
		panic(err) // embedded
	}
	return t
})

// AlphaPerLook is α′ of the default looks, 6, 8, 12, 18 and 30 (see Alpha): the level of the interval at
// each look of the adaptive protocol.
const AlphaPerLook = 0.028

// AlphaFixed is the level of the interval when the number of rounds was fixed before the run.
const AlphaFixed = 1 - Confidence

const maxLooks = 5

var standardLooks = [maxLooks]int{6, 8, 12, 18, 30}

// Looks returns the numbers of rounds at which a study of least to most rounds looks at its
// interval: 6, 8, 12, 18, 30 where they lie inside, the least and the most. There are never more than
// five, since α′ was made for five: where the bounds add one, the look that follows the first gives
// way. Bounds out of order are put in order, and below 1 they count as 1.
func Looks(least, most int) []int {
	least = max(least, 1)
	most = max(least, most)
	looks := []int{least}
	for _, n := range standardLooks {
		if n > least && n < most {
			looks = append(looks, n)
		}
	}
	if most > least {
		looks = append(looks, most)
	}
	for len(looks) > maxLooks {
		looks = slices.Delete(looks, 1, 2)
	}
	return looks
}

// Alpha returns α′, the level of the interval at each look of a study of least to most rounds. Looking
// several times and stopping on the width costs coverage, because a study stops sooner when its noise
// happens to look small; a smaller α at each look restores 95 % over the whole study. Where there is a
// single look it is AlphaFixed, else the simulated value for that number of looks from that first look on
// (tables.json; internal/testenv/alphatable, which makes it, explains how).
//
// It holds whatever is measured: a study only stops on the width of its interval, so all that matters is
// the noise over the precision, and α′ covers at the worst of those. Compare Pocock's constants (Jennison
// & Turnbull, Group Sequential Methods, ch. 2), which are harsher because they stop on the effect; this
// rule never does.
func Alpha(least, most int) float64 {
	looks := Looks(least, most)
	if len(looks) == 1 {
		return AlphaFixed
	}
	table := tables().Alpha
	return table[min(looks[0], len(table))-1][len(looks)-2]
}

// AlphaDecided returns α′ for a study of least to most rounds that may also stop because its interval leaves a limit out:
// AlphaFixed over the number of looks (Bonferroni), which holds whatever the study stops on. Pocock's constants, made for normal
// noise, are too mild for rounds that are correlated in pairs (TestRatioDecided).
func AlphaDecided(least, most int) float64 { return AlphaFixed / float64(len(Looks(least, most))) }

// LeastFor is the least number of rounds of which both a median and a ratio have an interval of level 1−alpha.
func LeastFor(alpha float64) int { return max(LeastTrials, int(math.Ceil(1-math.Log2(alpha)))) }

// IsLook reports whether a study of least to most rounds looks at its interval after round n.
func IsLook(n, least, most int) bool { return slices.Contains(Looks(least, most), n) }

// Next is the stop rule, asked after each complete round n, counted from 1. look says that n is one
// of the study's looks; between them the interval must not be used, and done is false. At a look,
// done says that the study may end: the interval of the ratio r (at level Alpha) is narrow enough,
// (ln U − ln L)/2 ≤ ln(1+precision), or n has reached most. Only the width decides, never the
// verdict: stopping when a difference shows would find differences that are not there.
//
// An interval that is narrow because it has no bounds (NaN) is not narrow.
func Next(n int, r Interval, precision float64, least, most int) (look, done bool) {
	looks := Looks(least, most)
	if n >= looks[len(looks)-1] {
		return true, true
	}
	if !IsLook(n, least, most) {
		return false, false
	}
	return true, Precise(r, precision)
}

// Precise reports whether the interval of a ratio is within ± precision on the logarithmic scale:
// (ln U − ln L)/2 ≤ ln(1+precision).
func Precise(r Interval, precision float64) bool {
	return (math.Log(r.Hi)-math.Log(r.Lo))/2 <= math.Log1p(precision)
}
