// Package export writes reports and comparisons for programs: as JSON, and in the format of Go benchmarks.
package export

import (
	"encoding/json"
	"io"
	"math"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
	"iotax/stat"
)

type jsonSentence struct {
	Kind    assess.SentenceKind `json:"kind"`
	Text    string              `json:"text"`
	Figures []jsonAssess        `json:"figures,omitempty"`
	Causes  []jsonCause         `json:"causes,omitempty"`
	Rules   []string            `json:"rules,omitempty"` // of the notes behind it
}

type jsonAssess struct {
	Target   string      `json:"target"`
	Workload string      `json:"workload"`
	Metric   string      `json:"metric"`
	Against  string      `json:"against,omitempty"`
	Ratio    *jsonBounds `json:"ratio,omitempty"`
}

type jsonCause struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
}

func assessment(r *report.Report, a assess.Assessment) []jsonSentence {
	out := []jsonSentence{}
	for _, s := range a.Sentences {
		j := jsonSentence{Kind: s.Kind, Text: s.Text}
		for _, f := range s.Figures {
			a := jsonAssess{Target: f.Target, Workload: f.Workload, Metric: f.Metric, Against: f.Against}
			if f.Ratio != nil {
				a.Ratio = toBounds(*f.Ratio)
			}
			j.Figures = append(j.Figures, a)
		}
		for _, c := range s.Causes {
			j.Causes = append(j.Causes, jsonCause(c))
		}
		for _, n := range s.Notes {
			j.Rules = append(j.Rules, r.Notes[n-1].Rule)
		}
		out = append(out, j)
	}
	return out
}

type jsonReference struct {
	Name      string             `json:"name"`
	Source    string             `json:"source"`
	Reference string             `json:"reference,omitempty"`
	Published string             `json:"published_reference,omitempty"`
	Rows      []jsonReferenceRow `json:"rows"`
	Unmatched []string           `json:"unmatched,omitempty"`
	Unused    []string           `json:"unused,omitempty"`
	Notes     []string           `json:"notes,omitempty"`
}

type jsonReferenceRow struct {
	Target    string                 `json:"target"`
	Workload  string                 `json:"workload"`
	Metric    string                 `json:"metric"`
	Unit      string                 `json:"unit"`
	Value     jsonValue              `json:"value"`
	Ratio     *jsonBounds            `json:"ratio"`
	Published jsonReferencePublished `json:"published"`
	Agree     report.Agreement       `json:"agree,omitempty"`
}

type jsonReferencePublished struct {
	Target   string      `json:"target"`
	Workload string      `json:"workload"`
	Value    jsonValue   `json:"value"`
	Ratio    *jsonBounds `json:"ratio"`
}

func reference(r *report.Report) *jsonReference {
	b := r.Reference
	if b == nil {
		return nil
	}
	bounds := func(i *stat.Interval) *jsonBounds {
		if i == nil {
			return nil
		}
		return toBounds(*i)
	}
	out := &jsonReference{Name: b.Name, Source: b.Source, Reference: b.Reference, Published: b.Theirs, Rows: []jsonReferenceRow{}, Unmatched: b.Unmatched, Unused: b.Unused, Notes: b.Notes}
	for _, row := range b.Rows {
		out.Rows = append(out.Rows, jsonReferenceRow{row.Target, row.Workload, row.Metric, row.Unit, toJSON(row.Value), bounds(row.Ratio),
			jsonReferencePublished{row.TheirTarget, row.TheirWorkload, toJSON(row.TheirValue), bounds(row.TheirRatio)}, row.Agree})
	}
	return out
}

// Version is the version of the JSON contract. Fields are added under the same version; one that
// changes its meaning or goes away raises it.
const Version = 1

type jsonReport struct {
	Version     int                 `json:"version"`
	Run         jsonRun             `json:"run"`
	Environment map[string]string   `json:"environment"`
	Answer      string              `json:"answer"`
	Banner      string              `json:"banner,omitempty"`   // a caveat about the whole report
	Emulated    []string            `json:"emulated,omitempty"` // targets in emulated guests
	Assessment  []jsonSentence      `json:"assessment"`
	Cells       []jsonCell          `json:"cells"`
	Waterfalls  []jsonWaterfall     `json:"waterfalls,omitempty"`
	Clients     []jsonScaling       `json:"clients,omitempty"`
	Reference   *jsonReference      `json:"reference,omitempty"`
	Layout      *jsonLayout         `json:"layout,omitempty"`
	Objects     []report.ObjectFact `json:"objects,omitempty"` // how the bytes of objects were kept from harm
}

// jsonRun is the run without its environment, which stands beside it.
type jsonRun struct {
	*iotax.Run
	Environment any      `json:"environment,omitempty"`
	Precision   number64 `json:"precision"`
	Margin      number64 `json:"margin"`
	Alpha       number64 `json:"alpha"`
}

type jsonCell struct {
	Target    string          `json:"target"`
	Storage   string          `json:"storage,omitempty"` // file system and device of the target, where they are known
	Workload  string          `json:"workload"`
	Metric    string          `json:"metric"`
	Unit      string          `json:"unit"`
	Better    iotax.Better    `json:"better"`
	Baseline  bool            `json:"baseline"`
	Value     jsonValue       `json:"value"`
	Ratio     *jsonRatio      `json:"ratio"` // null for the baseline and where there is none
	Verdict   stat.Verdict    `json:"verdict"`
	Alone     stat.Verdict    `json:"verdict_alone,omitempty"` // by the interval itself, where Holm's adjustment took it back
	Error     string          `json:"error,omitempty"`
	Trials    jsonTrials      `json:"trials"`
	Findings  []iotax.Finding `json:"findings"`
	Secondary []jsonFigure    `json:"secondary"`
}

type jsonValue struct {
	Median number64 `json:"median"`
	Lo     number64 `json:"lo"`
	Hi     number64 `json:"hi"`
	N      int      `json:"n"`
}

type jsonRatio struct {
	Estimate      number64    `json:"estimate"`
	Lo            number64    `json:"lo"`
	Hi            number64    `json:"hi"`
	N             int         `json:"n"`
	HodgesLehmann number64    `json:"hodges_lehmann"`
	P             number64    `json:"p"`
	PMargin       *number64   `json:"p_margin,omitempty"` // that the ratio is within the margin; where a verdict was drawn
	PHolm         *number64   `json:"p_holm,omitempty"`   // p_margin after Holm's adjustment over the run
	WithDiscarded *jsonBounds `json:"with_discarded,omitempty"`
}

type jsonBounds struct {
	Estimate number64 `json:"estimate"`
	Lo       number64 `json:"lo"`
	Hi       number64 `json:"hi"`
	N        int      `json:"n"`
}

type jsonTrials struct {
	Ran       int `json:"ran"`
	Failed    int `json:"failed"`
	Discarded int `json:"discarded"`
}

type jsonFigure struct {
	Name   string       `json:"name"`
	Unit   string       `json:"unit"`
	Better iotax.Better `json:"better"`
	Value  jsonValue    `json:"value"`
	Merged bool         `json:"merged,omitempty"`
	Beyond *int         `json:"beyond,omitempty"` // of a merged quantile: observations beyond it; below 100 its value is null
}

type number64 = iotax.Number

func toBounds(i stat.Interval) *jsonBounds {
	return &jsonBounds{number64(i.Estimate), number64(i.Lo), number64(i.Hi), i.N}
}

func toJSON(i stat.Interval) jsonValue {
	return jsonValue{number64(i.Estimate), number64(i.Lo), number64(i.Hi), i.N}
}

// JSON writes the report as one JSON object, the contract that scripts rely on: {version, run,
// environment, cells}. A bound or estimate that does not exist is null.
func JSON(w io.Writer, r *report.Report) error {
	a := assess.Of(r)
	out := jsonReport{Version: Version, Environment: r.Run.Environment, Answer: a.Answer(), Banner: r.Banner(), Emulated: r.Emulated(), Assessment: assessment(r, a), Waterfalls: waterfalls(r), Clients: scalings(r), Reference: reference(r), Layout: layout(r), Objects: r.ObjectFacts(), Cells: []jsonCell{},
		Run: jsonRun{Run: r.Run, Precision: number64(r.Run.Precision), Margin: number64(r.Run.Margin), Alpha: number64(r.Alpha)}}
	if out.Environment == nil {
		out.Environment = map[string]string{}
	}
	storage := map[string]string{}
	for _, t := range r.Targets() {
		storage[t.Name] = t.Storage()
	}
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			c := jsonCell{Target: row.Target, Storage: storage[row.Target], Workload: s.Workload, Metric: s.Metric, Unit: s.Unit, Better: s.Better,
				Baseline: row.Baseline, Value: toJSON(row.Value), Verdict: row.Verdict, Error: row.Err,
				Trials: jsonTrials{row.Ran, row.Failed, row.Discarded}, Findings: r.Findings(s, row), Secondary: []jsonFigure{}}
			if e := row.Ratio; e != nil {
				c.Ratio = &jsonRatio{Estimate: number64(e.Estimate), Lo: number64(e.Lo), Hi: number64(e.Hi), N: e.N,
					HodgesLehmann: number64(e.HodgesLehmann), P: number64(e.P)}
				if h := row.Holm; h != nil {
					c.Ratio.PMargin, c.Ratio.PHolm = (*number64)(&h.P), (*number64)(&h.Adjusted)
					if h.Alone != row.Verdict {
						c.Alone = h.Alone
					}
				}
				if v := row.WithDiscarded; v != nil {
					c.Ratio.WithDiscarded = &jsonBounds{number64(v.Estimate), number64(v.Lo), number64(v.Hi), v.N}
				}
			}
			for _, f := range row.Secondary {
				j := jsonFigure{Name: f.Name, Unit: f.Unit, Better: f.Better, Value: toJSON(f.Value), Merged: f.Merged}
				if f.Merged {
					j.Beyond = &f.Beyond
				}
				c.Secondary = append(c.Secondary, j)
			}
			out.Cells = append(out.Cells, c)
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

type jsonWaterfall struct {
	Workload string    `json:"workload"`
	Metric   string    `json:"metric"`
	Unit     string    `json:"unit"`
	Chain    []string  `json:"chain"`
	Missing  []string  `json:"missing,omitempty"`
	Rounds   int       `json:"rounds"`
	Start    jsonValue `json:"start"`
	Hops     []jsonHop `json:"hops"`
	Total    jsonHop   `json:"total"`
}

type jsonHop struct {
	From    string     `json:"from"`
	To      string     `json:"to"`
	Ratio   jsonBounds `json:"ratio"`
	Share   number64   `json:"share"` // of the logarithm of the total; null where the total is not sure
	Verdict string     `json:"verdict"`
	Value   jsonValue  `json:"value"`
}

func waterfalls(r *report.Report) []jsonWaterfall {
	hop := func(h report.Hop) jsonHop {
		return jsonHop{h.From, h.To, *toBounds(h.Ratio), number64(h.Share), string(h.Verdict), toJSON(h.Value)}
	}
	var out []jsonWaterfall
	for _, w := range r.Waterfalls {
		j := jsonWaterfall{Workload: w.Workload, Metric: w.Metric, Unit: w.Unit, Chain: w.Chain, Missing: w.Missing, Rounds: w.Rounds, Start: toJSON(w.Start), Total: hop(w.Total)}
		for _, h := range w.Hops {
			j.Hops = append(j.Hops, hop(h))
		}
		out = append(out, j)
	}
	return out
}

type jsonTable struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

type jsonLayout struct {
	Name   string      `json:"name"`
	Tables []jsonTable `json:"tables"`
}

func layout(r *report.Report) *jsonLayout {
	tables := table.Layout(r)
	if tables == nil {
		return nil
	}
	out := &jsonLayout{Name: r.Layout}
	for _, t := range tables {
		j := jsonTable{Title: t.Title, Head: t.Head}
		for _, row := range t.Rows {
			var cells []string
			for _, c := range row.Cells {
				cells = append(cells, strings.TrimSpace(format.Clean(c.Text)+" "+format.Marks(c.Notes)))
			}
			j.Rows = append(j.Rows, cells)
		}
		out.Tables = append(out.Tables, j)
	}
	return out
}

type jsonScaling struct {
	Target   string             `json:"target"`
	Workload string             `json:"workload"`
	Label    string             `json:"label"`
	Unit     string             `json:"unit"`
	Points   []jsonScalingPoint `json:"points"`
}

type jsonScalingPoint struct {
	Target  string      `json:"target"`
	Clients int         `json:"clients"`
	Value   jsonValue   `json:"value"`
	Ratio   *jsonBounds `json:"ratio,omitempty"` // to the first point
	MinMax  *jsonBounds `json:"min_max,omitempty"`
	Jain    *jsonBounds `json:"jain,omitempty"`
}

func scalings(r *report.Report) []jsonScaling {
	known := func(i stat.Interval) *jsonBounds {
		if math.IsNaN(i.Estimate) {
			return nil
		}
		return toBounds(i)
	}
	var out []jsonScaling
	for _, c := range r.Scalings {
		j := jsonScaling{Target: c.Target, Workload: c.Workload, Label: c.Label, Unit: c.Unit}
		for _, p := range c.Points {
			j.Points = append(j.Points, jsonScalingPoint{p.Target, p.Clients, toJSON(p.Value), known(p.Ratio), known(p.MinMax), known(p.Jain)})
		}
		out = append(out, j)
	}
	return out
}
