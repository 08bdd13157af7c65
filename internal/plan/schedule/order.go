package schedule

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// Order returns the order of n targets in a round. It draws a random permutation of 0…n−1 for each pair of
// rounds, 2i and 2i+1. The second round of the pair uses it in reverse. A drift that is linear in time then
// has the same mean effect on every target and cancels. The order depends only on the arguments. Use a
// different seed for each workload.
func Order(seed uint64, n, round int) []int {
	if n <= 0 {
		return nil
	}
	// Each pair has its own random stream, so that the orders of two pairs are independent.
	order := rand.New(rand.NewPCG(seed, uint64(round)>>1)).Perm(n)
	if round&1 == 1 {
		slices.Reverse(order)
	}
	return order
}

// RoundSeed returns the seed of the random offsets of one round of a workload. It is the same for all targets and
// differs between rounds. Its range is 1 to 2⁵³−1, so that JSON readers that store numbers as doubles keep it exact. It
// is never 0, because 0 requests a random seed.
func RoundSeed(seed uint64, workload string, round int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(workload)) // never fails
	r := rand.New(rand.NewPCG(seed^h.Sum64(), uint64(round)))
	return 1 + r.Uint64N(1<<53-1)
}
