package assess

import (
	"cmp"
	"slices"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// mostStages is the maximum number of stages that a sentence names.
const mostStages = 3

// ruleStages is the rule of causes that come from explained trials instead of a check.
const ruleStages = "stages"

// stages adds a sentence for each cell whose I/Os take longer than on the reference. The sentence names a stage only if
// the whole interval of the stage's difference is above 0.
func (a *assessing) stages() {
	for _, x := range a.Explanations {
		for _, e := range x.Targets {
			if text := longer(e); text != "" {
				a.say(Sentence{Kind: SaysStages, Text: e.Target + ", " + x.Workload + ": " + text + ".",
					Figures: []Figure{{Target: e.Target, Workload: x.Workload, Metric: "latency.mean", Against: e.Against}},
					Causes:  []Cause{{ruleStages, text}}})
			}
		}
	}
}

func longer(e report.Explained) string {
	if !e.Known() || !(e.Difference.Lo > 0) {
		return ""
	}
	sure := slices.DeleteFunc(slices.Clone(e.Stages), func(s report.Stage) bool { return !(s.Difference.Lo > 0) })
	slices.SortStableFunc(sure, func(a, b report.Stage) int { return cmp.Compare(b.Difference.Estimate, a.Difference.Estimate) })
	text := "of the " + format.Number(e.Difference, iotax.Seconds) + " that an I/O takes longer than on " + e.Against + ", "
	var parts []string
	in := " are in “"
	for _, s := range sure[:min(len(sure), mostStages)] {
		parts = append(parts, format.Around(s.Difference, iotax.Seconds)+in+s.Name+"”")
		in = " in “"
	}
	if parts == nil {
		return text + "no stage has a sure part"
	}
	if r := e.RestMore; r.N > 0 && -r.Estimate > stat.SteadyRange/2*e.Difference.Estimate {
		parts = append(parts, format.Number(r, iotax.Seconds)+" are not explained")
	}
	return text + format.Enumerate(parts, len(parts), "stage")
}
