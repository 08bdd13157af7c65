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
	// Alpha is α′ by the first look, from 1 (the last row serves later ones), and the number of looks, from 2: the
	// least over all last looks to 60.
	Alpha [][]float64
	// Levels has sample sizes, and the share of the sum of squares that remains within the two groups of the best
	// division: the 1 % quantile over normal samples.
	Levels [][2]float64
}) {
	if err := json.Unmarshal(tablesJSON, &t); err != nil {
		panic(err) // embedded
	}
	return t
})

// AlphaPerLook is α′ of the default looks, 6, 8, 12, 18 and 30 (see Alpha): the level of the interval at each look
// of the adaptive protocol.
const AlphaPerLook = 0.028

// AlphaFixed is the level of the interval if the number of rounds was fixed before the run.
const AlphaFixed = 1 - Confidence

const maxLooks = 5

var standardLooks = [maxLooks]int{6, 8, 12, 18, 30}

// Looks returns the numbers of rounds at which a study of least to most rounds examines its interval: least, most,
// and those of 6, 8, 12, 18, 30 between them. α′ was made for at most five looks: if the bounds add one, the
// second look is dropped. Bounds out of order are swapped, and bounds below 1 count as 1.
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

// Alpha returns α′, the level of the interval at each look of a study of least to most rounds. Stopping on the
// width of the interval costs coverage, because a study stops sooner if its noise happens to look small. A smaller
// α at each look restores 95 % over the whole study. With a single look it is AlphaFixed, else the simulated value
// for that number of looks from the first look on (tables.json, made by internal/testenv/alphatable).
//
// It is valid for every effect, because a study stops only on the width of its interval, which depends only on the
// noise relative to the precision, and α′ is for the worst noise. Pocock's constants (Jennison & Turnbull, Group
// Sequential Methods, ch. 2) are smaller, because they are for stopping on the effect.
func Alpha(least, most int) float64 {
	looks := Looks(least, most)
	if len(looks) == 1 {
		return AlphaFixed
	}
	table := tables().Alpha
	return table[min(looks[0], len(table))-1][len(looks)-2]
}

// AlphaDecided returns α′ for a study of least to most rounds that also stops when its interval excludes a limit:
// AlphaFixed over the number of looks (Bonferroni), which is valid for every stop rule. Pocock's constants, made
// for normal noise, are too large for rounds that are correlated in pairs (TestRatioDecided).
func AlphaDecided(least, most int) float64 { return AlphaFixed / float64(len(Looks(least, most))) }

// LeastFor returns the least number of rounds from which a median and a ratio have an interval of level 1−alpha.
func LeastFor(alpha float64) int { return max(LeastTrials, int(math.Ceil(1-math.Log2(alpha)))) }

// IsLook reports whether a study of least to most rounds examines its interval after round n.
func IsLook(n, least, most int) bool { return slices.Contains(Looks(least, most), n) }

// Next is the stop rule, called after each complete round n, counted from 1. look reports that n is a look of the
// study. Between looks the interval must not be used, and done is false. At a look, done reports that the study
// may end: the interval of the ratio r (at level Alpha) is narrow enough, (ln U − ln L)/2 ≤ ln(1+precision), or n
// has reached most. Only the width decides, never the verdict: stopping when a difference shows would find
// differences that do not exist.
//
// An interval without bounds (NaN) is not narrow.
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
