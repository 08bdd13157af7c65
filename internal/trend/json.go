package trend

import (
	"time"

	"iotax"
	"iotax/internal/report/format"
	"iotax/stat"
)

// Exports is the JSON object that iotax trend --json prints.
type Exports struct {
	Version int      `json:"version"`
	Trends  []Export `json:"trends"`
}

// An Export is one trend as JSON.
type Export struct {
	Workload string         `json:"workload"`
	Target   string         `json:"target"`
	Metric   string         `json:"metric"`
	By       string         `json:"by"`
	Unit     string         `json:"unit"`
	Better   iotax.Better   `json:"better"`
	Points   []PointExport  `json:"points"`
	Changes  []ChangeExport `json:"changes"`
}

// A PointExport is the value of the metric in one run.
type PointExport struct {
	Run     string       `json:"run"`
	Start   time.Time    `json:"start"`
	Value   iotax.Number `json:"value"`
	Lo      iotax.Number `json:"lo"`
	Hi      iotax.Number `json:"hi"`
	Outside string       `json:"outside,omitempty"` // why the point is excluded
}

// A ChangeExport describes a change of the metric.
type ChangeExport struct {
	Run      string       `json:"run"` // the first run of the new level
	Before   string       `json:"before"`
	P        float64      `json:"p"`
	Estimate iotax.Number `json:"estimate"` // new level / old level, or its inverse if lower values in the trend are better
	Lo       iotax.Number `json:"lo"`
	Hi       iotax.Number `json:"hi"`
	Verdict  stat.Verdict `json:"verdict"`
}

// Export returns the trend in its JSON form.
func (d *Trend) Export() Export {
	out := Export{d.Cell.Workload, d.Cell.Target, d.Metric, ByValue, d.Unit, d.Better, []PointExport{}, []ChangeExport{}}
	if d.ByRatio {
		out.By, out.Unit = ByRatio, iotax.RatioUnit
		if d.Better == iotax.Down {
			out.Better = iotax.Up
		}
	}
	for _, dot := range d.Dots {
		v := dot.Value
		out.Points = append(out.Points, PointExport{dot.Run.ID, dot.Run.Start, iotax.Number(v.Estimate), iotax.Number(v.Lo), iotax.Number(v.Hi), format.Clean(dot.Unlike)})
	}
	for _, c := range d.Changes {
		out.Changes = append(out.Changes, ChangeExport{d.Dots[c.After].Run.ID, d.Dots[c.Before].Run.ID, c.P,
			iotax.Number(c.Ratio.Estimate), iotax.Number(c.Ratio.Lo), iotax.Number(c.Ratio.Hi), c.Verdict})
	}
	return out
}
