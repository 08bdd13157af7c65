package document

import (
	"cmp"
	"slices"

	"iotax/internal/expect"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
)

// expectations returns the expectations with the measured intervals: about `most` of them, or all if most is 0.
func expectations(r *report.Report, most int) []block.Block {
	if r.Expected == nil || len(r.Trials) == 0 {
		return nil
	}
	shown := slices.Clone(r.Expected)
	left := len(shown) - most
	if most == 0 || left < 2 {
		left = 0
	}
	shown = shown[:len(shown)-left]
	var workloads []string
	for _, x := range shown {
		workloads = append(workloads, x.Workload)
	}
	slices.SortStableFunc(shown, func(x, y report.Expected) int {
		return cmp.Compare(slices.Index(workloads, x.Workload), slices.Index(workloads, y.Workload))
	})
	tones := map[expect.Outcome]block.Tone{expect.Missed: block.Bad, expect.Undecided: block.Unsure, expect.Met: block.Good}
	t := block.Table{Head: []string{"", "", "", ""}, Wraps: []int{0, 1, 2}}
	for i, x := range shown {
		measured := block.Cell{Text: format.Value(x.Value, x.Unit), Short: format.Spread(x.Value, x.Unit)}
		if x.Why != "" {
			measured = block.Cell{Text: x.Why}
		}
		row := block.Row{Cells: []block.Cell{{Text: x.Condition()}, {Text: x.Target}, measured, {Text: string(x.Outcome), Tone: tones[x.Outcome]}}}
		if i == 0 || x.Workload != shown[i-1].Workload {
			row.Heading, row.Head = x.Workload, []string{"expectation", "target", "measured", "verdict"}
		}
		t.Rows = append(t.Rows, row)
	}
	out := []block.Block{block.Heading{Text: "Expectations", ID: "expectations"}, t}
	if left > 0 {
		out = append(out, block.Paragraph{Text: format.Plural(left, "more row") + ": --details", Joined: true})
	}
	return out
}
