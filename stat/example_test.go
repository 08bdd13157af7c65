package stat_test

import (
	"fmt"

	"iotax"
	"iotax/stat"
)

func ExampleRatio() {
	host := []float64{11500, 11900, 11200, 11700, 11400, 11600} // IOPS, one value per round
	guest := []float64{5400, 5600, 5150, 5500, 5300, 5350}
	r, err := stat.Ratio(host, guest, iotax.Up, stat.AlphaPerLook)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.3f [%.3f, %.3f] of %d rounds: %s\n", r.Estimate, r.Lo, r.Hi, r.N, stat.Judge(r, 0.05))
	// Output: 0.466 [0.460, 0.472] of 6 rounds: worse
}

func ExampleMedian() {
	m := stat.Median([]float64{812, 790, 805, 1430, 801, 799})
	fmt.Printf("%.0f [%.0f, %.0f]\n", m.Estimate, m.Lo, m.Hi)
	// Output: 803 [790, 1430]
}

func ExampleNext() {
	narrow := stat.Interval{Estimate: 0.47, Lo: 0.46, Hi: 0.48, N: 8}
	for n := 6; n <= 8; n++ {
		look, done := stat.Next(n, narrow, 0.01, 6, 30)
		fmt.Println(n, look, done)
	}
	_, done := stat.Next(8, narrow, 0.05, 6, 30)
	fmt.Println(8, done)
	// Output:
	// 6 true false
	// 7 false false
	// 8 true false
	// 8 true
}

func ExampleJudge() {
	fmt.Println(stat.Judge(stat.Interval{Estimate: 0.97, Lo: 0.96, Hi: 0.98, N: 12}, 0.05))
	fmt.Println(stat.Judge(stat.Interval{Estimate: 0.97, Lo: 0.92, Hi: 1.02, N: 6}, 0.05))
	// Output:
	// differs, below margin
	// inconclusive
}

func ExampleQuantile() {
	first := iotax.Histogram{Unit: "s", Bins: []iotax.Bin{{Value: 80e-6, Count: 9_000}, {Value: 900e-6, Count: 50}}}
	second := iotax.Histogram{Unit: "s", Bins: []iotax.Bin{{Value: 90e-6, Count: 9_000}, {Value: 900e-6, Count: 150}}}
	v, ok := stat.Quantile(stat.Add(first, second), 0.99)
	fmt.Printf("%.0f µs, quotable %v\n", v*1e6, ok)
	// Output: 900 µs, quotable true
}

func ExamplePairTails() {
	// On the target, about 2 % of the I/Os take 10 ms. On the baseline, about 0.5 % do.
	var baseline, target []iotax.Histogram
	for round := range uint64(8) {
		baseline = append(baseline, iotax.Histogram{Bins: []iotax.Bin{{Value: 100e-6, Count: 20_000}, {Value: 10e-3, Count: 100 + round}}})
		target = append(target, iotax.Histogram{Bins: []iotax.Bin{{Value: 100e-6, Count: 20_000}, {Value: 10e-3, Count: 400 + round}}})
	}
	for _, q := range []float64{.5, .99, .9999} {
		var o stat.Options
		d, err := stat.PairTails([2][]stat.Tail{stat.Tails(baseline, q), stat.Tails(target, q)}, q, &o)
		if err != nil {
			fmt.Println(err)
			continue
		}
		e, err := stat.Estimate(d, o)
		fmt.Printf("%s: %.3f [%.3f, %.3f] %v %v\n", stat.QuantileName(q), e.Estimate, e.Lo, e.Hi, stat.Judge(e.Interval, 0.05), err)
	}
	// Output:
	// p50: 1.000 [0.984, 1.016] equivalent <nil>
	// p99: 0.010 [0.010, 0.010] worse <nil>
	// too few I/Os beyond p99.99: the trials of one side have 12, and 100 are needed. Trials 8.3 times as long have enough
}

func ExampleLittle() {
	// The host had 900 I/Os in flight, but the guest had only 64, so their rates are not comparable.
	fmt.Printf("%.0f and %.0f\n",
		stat.Little(stat.Flow{Rate: 300_000, Latency: 3e-3}),
		stat.Little(stat.Flow{Rate: 32_000, Latency: 2e-3}))
	// Output: 900 and 64
}

func ExampleSteadyState() {
	s := iotax.Series{Unit: "1/s", T: []float64{1, 2, 3, 4, 5}, V: []float64{1000, 1010, 990, 1005, 995}}
	st := stat.SteadyState(s)
	fmt.Printf("steady %v, range %.1f %%, slope %.1f %%\n", st.Reached, 100*st.Range, 100*st.Slope)
	// Output: steady true, range 2.0 %, slope 0.6 %
}

func ExampleHolm() {
	fmt.Println(stat.Holm([]float64{0.01, 0.04, 0.03}))
	// Output: [0.03 0.06 0.06]
}
