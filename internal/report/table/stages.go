package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/stat"
)

// barOfStages is the number of letters in the bar of the largest mean latency.
const barOfStages = 32

// StageLines returns a table with one line for each target: the mean latency, and the stages as a bar of letters. key
// lists the letters with the names of their stages.
func StageLines(x report.Explanation) (t block.Table, key string) {
	t = block.Table{Title: "Where the time goes · " + x.Workload, Head: []string{"target", "mean latency", "by stage"}, Wraps: []int{0}, Least: 3}
	var names, named []string
	most := 0.
	for _, e := range x.Targets {
		for _, s := range e.Stages {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
				named = append(named, letter(len(names)-1)+" "+s.Name)
			}
		}
		if e.Known() {
			most = math.Max(most, e.Total.Estimate)
		}
	}
	for _, e := range x.Targets {
		if !e.Known() {
			t.Rows = append(t.Rows, block.Words(e.Target, format.Dash, "not known"))
			continue
		}
		row := block.Words(e.Target, format.Spread(e.Total, iotax.Seconds), "")
		row.Cells[2].Text, row.Cells[2].Short = letters(e, names, most, barOfStages), letters(e, names, most, barOfStages/2)
		t.Rows = append(t.Rows, row)
	}
	return t, strings.Join(named, ", ")
}

func letter(i int) string {
	const all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return all[i%len(all):][:1]
}

// letters returns a bar in which each stage has its letter. Lengths are proportional to times: a bar of `width`
// letters represents the time `most`.
func letters(e report.Explained, names []string, most float64, width int) string {
	s, at := "", 0.
	for _, stage := range e.Stages {
		at += stage.Time.Estimate
		n := int(math.Round(at/most*float64(width))) - len(s)
		s += strings.Repeat(letter(slices.Index(names, stage.Name)), max(0, n))
	}
	if s == "" && len(e.Stages) > 0 { // the mean latency is too small for a bar: show only the longest stage
		longest := slices.MaxFunc(e.Stages, func(a, b report.Stage) int { return int(math.Copysign(1, a.Time.Estimate-b.Time.Estimate)) })
		s = letter(slices.Index(names, longest.Name))
	}
	return s
}

// Stages returns a table of the stages of each target, with their differences from the target's reference.
func Stages(x report.Explanation) block.Table {
	t := block.Table{Title: "Where the time goes · " + x.Workload, Head: []string{"stage", "time of an I/O", "difference", "requests per I/O"}, Wraps: []int{0}, Right: []int{3}, Least: 2}
	for _, e := range x.Targets {
		head := block.Row{Heading: e.Target}
		if e.Against != "" && e.Known() {
			head.Heading += ", difference to " + e.Against
		}
		if !e.Known() {
			head.Heading += ": not known"
			t.Rows = append(t.Rows, head)
			continue
		}
		t.Rows = append(t.Rows, head)
		add := func(name string, time, more stat.Interval, requests float64) {
			row := block.Words(name, format.Value(time, iotax.Seconds), "", "")
			if e.Against != "" && more.N > 0 {
				row.Cells[2].Text = format.Around(more, iotax.Seconds)
			}
			if !math.IsNaN(requests) {
				row.Cells[3].Text = format.Number(format.Lone(requests), iotax.Count)
			}
			t.Rows = append(t.Rows, row)
		}
		for _, s := range e.Stages {
			add(s.Name, s.Time, s.Difference, float64(s.Requests))
		}
		if e.Rest.N > 0 {
			add("not explained", e.Rest, e.RestMore, math.NaN())
		}
		add("= mean latency", e.Total, e.Difference, math.NaN())
	}
	return t
}

// StagesFoot returns sentences about unknown stages, unexplained time, the speed of explained trials compared with other
// trials, and the number of rounds that an interval needs.
func StagesFoot(x report.Explanation, counted string) (out []string) {
	for _, e := range x.Targets {
		if !e.Known() {
			out = append(out, e.Target+": not known, because "+e.Unknown+".")
			continue
		}
		for _, m := range e.Missing {
			why := ""
			if m.Why != "" {
				why = ": " + m.Why
			}
			out = append(out, fmt.Sprintf("%s: the end of the stage “%s” is not known%s.", e.Target, m.Stage, why))
		}
		if e.Rest.N > 0 {
			out = append(out, fmt.Sprintf("%s: %s are not explained. Time that no I/O waited for was counted, such as read-ahead, write-back, the parts of a split request that ran at the same time, or slower requests of other processes at the device.",
				e.Target, format.Number(e.Rest, iotax.Seconds)))
		}
	}
	var speeds []string
	for _, e := range x.Targets {
		if e.Speed.N > 0 {
			speeds = append(speeds, e.Target+" "+format.Ratio(e.Speed))
		}
	}
	if speeds != nil {
		out = append(out, "Explained trials are separate, and count their ramp. Their speed as a ratio to the other trials: "+strings.Join(speeds, "; ")+".")
	}
	for _, e := range x.Targets {
		if e.Known() && e.Rounds < stat.LeastTrials {
			return append(out, fmt.Sprintf("An interval needs %d %ss.", stat.LeastTrials, counted))
		}
	}
	return out
}
