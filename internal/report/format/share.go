package format

import "strings"

// Of stands between a share and what it is a share of, where that is not the baseline.
const Of = " of "

// OfAnother is the head of a column of shares of what is not the baseline.
const OfAnother = "of another"

// SharedWhole is how all shares in a column end, " of tcp node04 to node01"; "" where they are of different things.
func SharedWhole(rows [][]string, k int) string {
	shared := ""
	for _, r := range rows {
		_, whole, found := strings.Cut(r[k], Of)
		switch {
		case r[k] == "":
		case !found || strings.Contains(r[k], ", ") || shared != "" && shared != Of+whole:
			return ""
		default:
			shared = Of + whole
		}
	}
	return shared
}
