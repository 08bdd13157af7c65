// Command alphatable computes the simulated constants of package stat and writes them as JSON. Run it with go generate
// ./stat. It takes some minutes.
//
// A schedule is the set of rounds after which a study makes an interim analysis. The α′ of a schedule is the largest α,
// in steps of 0.002 up to 0.05, at which a study covers the true ratio with a probability of at least 95 %, even at the
// worst ratio of noise to precision. The study has normal log ratios and stops at the first analysis whose interval
// (stat.Hull) is narrow enough, or at the last one.
//
// The log ratios are correlated. Rounds run in pairs of mirrored order, A B B A, so noise that the arms share
// correlates the two log ratios of a pair. Suppose that the correlation of the noise decays as e^(−t/τ), and that the
// trials are short and a time s apart. With u = e^(−s/τ), the log ratios then have the correlation u(1−u)/2, which is
// at most 1/8. If the measured windows fill most of the time, the correlation is at most 0.2. Trials also have
// independent noise, which lowers the correlation. The table is computed for 0.15.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"

	"iotax/stat"
)

const (
	target   = stat.Confidence
	maxFirst = 30 // a schedule with a later first analysis uses the last row
	maxLast  = 60
	maxLooks = 5

	mirrored = 0.15 // correlation of the two log ratios of a mirrored pair
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("alphatable: ")
	studies := flag.Int("studies", 100_000, "simulated studies of each set of looks")
	seed := flag.Uint64("seed", 4, "seed of the noise")
	out := flag.String("o", "", "file to write; standard output if empty")
	flag.Parse()
	src := source(*studies, *seed)
	var err error
	if *out == "" {
		_, err = os.Stdout.Write(src)
	} else {
		err = os.WriteFile(*out, src, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func source(studies int, seed uint64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"Studies\":%d,\"Seed\":%d,\n\"Alpha\":[", studies, seed)
	for first, row := range alphas(studies, seed) {
		if first == 0 {
			continue
		}
		if first > 1 {
			b.WriteByte(',')
		}
		sep := "\n["
		for k := 2; k <= maxLooks; k++ {
			if row[k] > 0 {
				fmt.Fprintf(&b, "%s%.3f", sep, row[k])
				sep = ","
			}
		}
		b.WriteByte(']')
	}
	b.WriteString("],\n\"Levels\":[")
	for i, n := range []int{6, 7, 8, 10, 12, 15, 18, 24, 30, 60} {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n[%d,%.4f]", n, levels(n, studies, seed))
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

// levels returns the DiagnosticAlpha quantile of stat.Levels.Within, the share of the sum of squares that remains
// within two groups, for n normal values.
func levels(n, samples int, seed uint64) float64 {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	within := make([]float64, samples)
	xs := make([]float64, n)
	for i := range within {
		for j := range xs {
			xs[j] = r.NormFloat64()
		}
		within[i] = stat.FindLevels(xs).Within
	}
	slices.Sort(within)
	return within[int(stat.DiagnosticAlpha*float64(samples))]
}

// firsts returns the rounds of the first analysis in the simulated schedules, and lasts the rounds of the last
// analysis. They skip some rounds, because α′ changes little between neighbours.
func firsts() []int { return []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, maxFirst} }

func lasts() []int {
	return []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 24, 30, 40, maxLast}
}

// A plan is a schedule of interim analyses.
type plan struct {
	first int
	looks []int
}

func plans() []plan {
	var ps []plan
	for _, first := range firsts() {
		for _, last := range lasts() {
			if looks := stat.Looks(first, last); len(looks) > 1 {
				ps = append(ps, plan{first, looks})
			}
		}
	}
	return ps
}

// noises returns the standard deviations of the log ratios, in units of the requested half width.
func noises() []float64 {
	var ns []float64
	for s := .02; s < 9; s *= 1.2 {
		ns = append(ns, s)
	}
	return ns
}

// alphas returns the table of α′, by first analysis and number of analyses. 0 means that there is no such schedule.
func alphas(studies int, seed uint64) [maxFirst + 1][maxLooks + 1]float64 {
	ps := plans()
	best := make([]float64, len(ps))
	open := make([]int, len(ps))
	for i := range open {
		open[i] = i
	}
	// Start at 0.05 and descend: most schedules are finished after a few steps and are removed.
	for step := 50; step > 0 && len(open) > 0; step -= 2 {
		alpha := float64(step) / 1000
		try := make([]plan, len(open))
		for i, p := range open {
			try[i] = ps[p]
		}
		worst := coverage(try, alpha, studies, seed)
		var left []int
		for i, p := range open {
			if worst[i] >= target {
				best[p] = alpha
			} else {
				left = append(left, p)
			}
		}
		open = left
		log.Printf("α %.3f: %d of %d sets of looks cover less than %.0f %%", alpha, len(open), len(ps), 100*target)
	}
	var table [maxFirst + 1][maxLooks + 1]float64
	for i, p := range ps {
		if v := &table[p.first][len(p.looks)]; *v == 0 || best[i] < *v {
			*v = best[i]
		}
	}
	for first := 1; first <= maxFirst; first++ {
		if !slices.Contains(firsts(), first) {
			table[first] = table[first-1] // safe, because an earlier first analysis needs a smaller α′
		}
	}
	return table
}

// coverage returns the coverage of each schedule at its worst noise.
func coverage(ps []plan, alpha float64, studies int, seed uint64) []float64 {
	const chunk = 1000
	sigmas := noises()
	ns := map[int]bool{}
	for _, p := range ps {
		for _, n := range p.looks {
			ns[n] = true
		}
	}
	cols := len(sigmas) + 1
	total := make([]int, len(ps)*cols) // misses by schedule and noise, as differences from the previous noise
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			misses := make([]int, len(total))
			d := make([]float64, maxLast)
			var enough [maxLast + 1]int
			var miss [maxLast + 1]bool
			for c := range work {
				r := rand.New(rand.NewPCG(seed, uint64(c)))
				for range chunk {
					for i := range d {
						d[i] = r.NormFloat64()
						if i%2 == 1 {
							d[i] = mirrored*d[i-1] + math.Sqrt(1-mirrored*mirrored)*d[i]
						}
					}
					for n := range ns {
						i, err := stat.Hull(d[:n], stat.Options{Alpha: alpha, Least: 2})
						if err != nil {
							panic(err) // normal numbers are finite
						}
						enough[n] = 0
						if i.Bounded() {
							// The interval is narrow enough for the first enough[n] elements of sigmas, which is in
							// ascending order.
							enough[n], _ = slices.BinarySearch(sigmas, 2/math.Log(i.Hi/i.Lo))
						}
						miss[n] = i.Bounded() && !i.Contains(1)
					}
					for j, p := range ps {
						m, from := misses[j*cols:(j+1)*cols], 0
						for i, n := range p.looks {
							to := enough[n]
							if i == len(p.looks)-1 {
								to = len(sigmas)
							}
							if to <= from {
								continue
							}
							if miss[n] { // for sigmas[from:to], the study ends at this analysis
								m[from]++
								m[to]--
							}
							from = to
						}
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for i, m := range misses {
				total[i] += m
			}
		})
	}
	for c := range studies / chunk {
		work <- c
	}
	close(work)
	wg.Wait()
	n := float64(studies / chunk * chunk)
	worst := make([]float64, len(ps))
	for j := range ps {
		most, sum := 0, 0
		for _, m := range total[j*cols : (j+1)*cols] {
			sum += m
			most = max(most, sum)
		}
		worst[j] = 1 - float64(most)/n
	}
	return worst
}
