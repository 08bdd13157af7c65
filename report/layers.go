package report

import (
	"iotax"
	"iotax/stat"
)

// A Waterfall is what each hop of a chain of layers costs under one workload. All its ratios are from
// the same blocks, so that the product of the hops is the total.
type Waterfall struct {
	Workload string
	Metric   string
	Label    string
	Unit     string
	Better   iotax.Better
	Chain    []string      // targets, from the device up, those without a number left out
	Missing  []string      // targets of the chain that have no number here
	Start    stat.Interval // the first target's value: the median over its trials
	Hops     []Hop
	Total    Hop // from the first target to the last
	Blocks   int // in which every target of the chain has a number
}

// A Hop is one layer on top of another.
type Hop struct {
	From, To string
	Ratio    stat.Interval // of To to From, paired by block, higher is better
	Verdict  stat.Verdict
	Share    float64       // of the total on the logarithmic scale; NaN where the total is next to nothing
	Value    stat.Interval // of To: the median over its trials
	Notes    []int         // what the checks said of either side
}
