package schedule

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// Order returns the order of n targets in a round: a random permutation for each pair of rounds, which the second round
// reverses. A drift that is linear in time then has the same mean effect on every target. The order depends only on the
// arguments. Use a different seed for each workload.
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

// RoundSeed returns the seed of the random offsets of one round of a workload, for all targets. It is above 0, because
// 0 requests a random seed, and below 2⁵³, because some JSON readers store numbers as doubles.
func RoundSeed(seed uint64, workload string, round int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(workload)) // never fails
	r := rand.New(rand.NewPCG(seed^h.Sum64(), uint64(round)))
	return 1 + r.Uint64N(1<<53-1)
}
