package document

import (
	"maps"
	"math"
	"slices"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/chart"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
	"iotax/stat"
)

// Profiles returns a page of the CPU profiles alone.
func Profiles(r *report.Report) block.Document {
	return block.Document{Title: r.Run.Name + ": CPU profiles", About: when(r), Source: "iotax " + r.Run.Version + ", run " + r.Run.ID, Blocks: profiles(r, &page{})}
}

// Flames returns the flame graphs of all profiles for a file.
func Flames(r *report.Report) chart.File { return chart.File{Drawing: flame(wideFlame, r.Profiles...)} }

const wideFlame = 860

func profiles(r *report.Report, p *page) (out []block.Block) {
	for _, x := range r.Profiles {
		c := block.Chart{}
		if wide := flame(wideFlame, x); wide.Panels != nil {
			c = block.Chart{Name: "profile", Drawing: wide, Narrow: flame(chart.Width, x),
				Caption: "CPU time per " + x.Per + " by function. A function is above its caller, and as wide as its share of the target’s CPU time. Red functions take more CPU time than on the reference, green ones less. " +
					"The stronger the colour, the larger the difference, as a share of the target’s CPU time: from 1, 3, 10, 30 and 50 %."}
		}
		out = append(out, p.with(c, titled(table.Profile(x)))...)
		out = append(out, remarks(table.ProfileFoot(x, r.Run.ID, r.Counted())...)...)
	}
	return out
}

// flame draws the stacks of each target with a profile.
func flame(width float64, all ...report.Profile) chart.Flame {
	f := chart.Flame{Title: "Where the CPU time goes", Width: width}
	for _, x := range all {
		for _, t := range x.Targets {
			if t.Unknown == "" {
				f.Panels = append(f.Panels, chart.Panel{Heading: x.Workload + ", " + t.Target + ": " + format.Number(t.Total, iotax.Seconds) + " of CPU time per " + x.Per, Frames: frames(t.Stacks, t)})
			}
		}
	}
	return f
}

// shades contains the minimum difference for each shade of a flame graph, as a share of the target's CPU time.
var shades = []float64{.01, .03, .1, .3, .5}

func frames(all map[string]*report.Frame, t report.Profiled) (out []chart.Frame) {
	time := func(v float64) string {
		return format.Number(stat.Interval{Estimate: v, Lo: v * .995, Hi: v * 1.005}, iotax.Seconds)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		x := chart.Frame{Name: name, Share: f.Time / t.Total.Estimate, Above: frames(f.Below, t)}
		x.Title = name + ": " + time(f.Time) + ", " + format.Percent(x.Share)
		if !math.IsNaN(f.More) {
			for _, least := range shades {
				if math.Abs(f.More)/t.Total.Estimate >= least {
					x.Level++
				}
			}
			word := " more than on "
			if f.More < 0 {
				word, x.Level = " less than on ", -x.Level
			}
			x.Title += "; all its calls take " + time(math.Abs(f.More)) + word + t.Against
		}
		out = append(out, x)
	}
	return out
}
