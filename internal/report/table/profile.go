package table

import (
	"fmt"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/format"
	"iotax/stat"
)

// Profile returns a table that lists the functions of each target with their CPU time and their difference from the
// target's reference.
func Profile(x report.Profile) block.Table {
	t := block.Table{Title: "Where the CPU time goes · " + x.Workload, Head: []string{"function, without those it calls", "CPU time per " + x.Per, "difference", "program"}, Wraps: []int{0, 3}, Least: 3}
	for _, p := range x.Targets {
		heading := p.Target
		switch {
		case p.Unknown != "":
			heading += ": not known"
		case p.Against != "":
			heading += ", difference to " + p.Against
		}
		t.Rows = append(t.Rows, block.Row{Heading: heading})
		if p.Unknown != "" {
			continue
		}
		add := func(name, file string, time, more stat.Interval) {
			row := block.Words(name, format.Value(time, iotax.Seconds), "", file)
			if more.N > 0 {
				row.Cells[2].Text = format.Around(more, iotax.Seconds)
			}
			t.Rows = append(t.Rows, row)
		}
		for _, f := range p.Functions {
			add(f.Name, f.File, f.Time, f.Difference)
		}
		add("= all functions", "", p.Total, p.Difference)
	}
	return t
}

// ProfileFoot returns sentences about unknown profiles, the speed of profiled trials compared with other trials, the
// command that writes a profile, and the number of trials that an interval needs.
func ProfileFoot(x report.Profile, run, counted string) (out []string) {
	speeds, show, least := "", "", stat.LeastTrials
	for _, p := range x.Targets {
		if p.Unknown != "" {
			out = append(out, p.Target+": not known. "+format.Capital(strings.TrimSuffix(p.Unknown, "."))+".")
			continue
		}
		if p.Speed.N > 0 {
			speeds += "; " + p.Target + " " + format.Ratio(p.Speed)
		}
		show, least = fmt.Sprintf("`iotax show %s --trial %d --profile > cpu.pb.gz`", run, p.Trials[0]), min(least, len(p.Trials))
	}
	if speeds != "" {
		out = append(out, "Profiled trials are separate, and count their ramp. Their speed as a ratio to the other trials: "+speeds[2:]+".")
	}
	if show != "" {
		out = append(out, show+" writes the profile of a trial for `go tool pprof`.")
	}
	if least < stat.LeastTrials {
		out = append(out, fmt.Sprintf("An interval needs %d %ss.", stat.LeastTrials, counted))
	}
	return out
}
