package document

import (
	"math"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/chart"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
)

// mostExplained is the maximum number of workloads whose stages the short document shows.
const mostExplained = 2

// stageLines returns a table of stages for each of the first mostExplained workloads, with one line for each target.
func stageLines(r *report.Report) (out []block.Block) {
	for i, x := range r.Explanations {
		if i == mostExplained {
			return append(out, remarks(format.Plural(len(r.Explanations)-i, "more workload")+": --details")...)
		}
		t, key := table.StageLines(x)
		out = append(out, titled(t)...)
		if key != "" {
			out = append(out, remarks("Stages: "+key+".")...)
		}
	}
	return out
}

// stagesChart draws a bar for each stage of each target. Each bar starts at the end of the target's previous one.
func stagesChart(x report.Explanation) (out block.Chart) {
	d := chart.Rows{Title: "Where the time of an I/O goes, " + x.Workload, Zero: math.NaN()}
	most := 0.
	var said []string
	for _, e := range x.Targets {
		if !e.Known() {
			continue
		}
		heading, at := e.Target+", mean latency "+format.Number(e.Total, iotax.Seconds), 0.
		for i, s := range e.Stages {
			row := chart.Row{Heading: heading, Name: s.Name, Tone: chart.Hue(1 + i%6), Mark: chart.Bar, Joined: i > 0,
				From: at, At: at + s.Time.Estimate, Lo: at + s.Time.Lo, Hi: at + s.Time.Hi}
			row.Figure, row.Bounds = format.Split(format.Value(s.Time, iotax.Seconds))
			if e.Against != "" && s.Difference.N > 0 {
				row.Word = format.Around(s.Difference, iotax.Seconds)
			}
			said = append(said, e.Target+", "+s.Name+": "+row.Figure)
			heading, at = "", row.At
			for _, v := range []float64{row.At, row.Hi} {
				if v > most && !math.IsInf(v, 0) {
					most = v
				}
			}
			d.Rows = append(d.Rows, row)
		}
	}
	if d.Rows == nil || !(most > 0) {
		return out
	}
	d.Heads = [3]string{"time", "95 % interval", "difference"}
	d.Axis, d.Desc = chart.Linear("", most, iotax.Seconds), strings.Join(said, "; ")
	return block.Chart{Name: "stages", Drawing: d, Caption: "Time of an I/O in each stage, from the application to the device. Bars follow one another, up to the mean latency."}
}
