package schedule

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// Order returns the order of n targets in a round: a random permutation of 0…n−1 for each pair of
// rounds, 2i and 2i+1, which the second of the pair runs backwards. A drift that is linear in time
// then has the same mean position on every target of the pair and cancels. The order depends on the
// arguments alone; give each workload a seed of its own.
func Order(seed uint64, n, round int) []int {
	if n <= 0 {
		return nil
	}
	// The stream is the pair: orders of two pairs are independent.
	order := rand.New(rand.NewPCG(seed, uint64(round)>>1)).Perm(n)
	if round&1 == 1 {
		slices.Reverse(order)
	}
	return order
}

// RoundSeed returns the seed of the random offsets of one round of a workload: the same for all its
// targets, another for every round. It is from 1 to 2⁵³−1, so it is exact in a JSON reader that
// holds numbers as doubles, and never the 0 that asks for a seed to be drawn.
func RoundSeed(seed uint64, workload string, round int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(workload)) // never fails
	r := rand.New(rand.NewPCG(seed^h.Sum64(), uint64(round)))
	return 1 + r.Uint64N(1<<53-1)
}
