// Package export writes reports and comparisons for other programs: as JSON, in the Go benchmark format, as
// OpenMetrics, and as test results for CI.
package export

import (
	"encoding/json"
	"io"
	"strings"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
	"iotax/stat"
)

type jsonSentence struct {
	assess.Sentence
	Rules []string `json:"rules,omitempty"` // rules of the notes that support the sentence
}

func assessment(r *report.Report, a assess.Assessment) []jsonSentence {
	out := []jsonSentence{}
	for _, s := range a.Sentences {
		j := jsonSentence{Sentence: s}
		for _, n := range s.Notes {
			j.Rules = append(j.Rules, r.Notes[n-1].Rule)
		}
		out = append(out, j)
	}
	return out
}

// Version is the version of the JSON format. It changes if a field is removed or changes its meaning, but not if a
// field is added.
const Version = 1

type jsonReport struct {
	Version     int                  `json:"version"`
	Run         jsonRun              `json:"run"`
	Environment map[string]string    `json:"environment"`
	Answer      string               `json:"answer"`
	Banner      string               `json:"banner,omitempty"`   // a warning about the whole report
	Emulated    []string             `json:"emulated,omitempty"` // names of targets in emulated guests
	Assessment  []jsonSentence       `json:"assessment"`
	Expected    []jsonExpected       `json:"expectations,omitempty"`
	Cells       []jsonCell           `json:"cells"`
	Waterfalls  []report.Waterfall   `json:"waterfalls,omitempty"`
	Stages      []report.Explanation `json:"stages,omitempty"`   // stages of the I/Os, for workloads with explained trials
	Profiles    []report.Profile     `json:"profiles,omitempty"` // functions that use CPU time, for workloads with profiled trials
	Clients     []report.Scaling     `json:"clients,omitempty"`
	Reference   *report.Reference    `json:"reference,omitempty"`
	Layout      *jsonLayout          `json:"layout,omitempty"`
	Objects     []report.ObjectFact  `json:"objects,omitempty"` // how object data was protected and verified
}

// jsonRun is a run without its environment, which is a separate member of the document.
type jsonRun struct {
	*iotax.Run
	Environment any      `json:"environment,omitempty"`
	Precision   number64 `json:"precision"`
	Margin      number64 `json:"margin"`
	Alpha       number64 `json:"alpha"`
}

type jsonCell struct {
	Target    string          `json:"target"`
	Storage   string          `json:"storage,omitempty"` // file system and device of the target, if known
	Workload  string          `json:"workload"`
	Metric    string          `json:"metric"`
	Unit      string          `json:"unit"`
	Better    iotax.Better    `json:"better"`
	Baseline  bool            `json:"baseline"`
	Value     stat.Interval   `json:"value"`
	Ratio     *jsonRatio      `json:"ratio"` // null for the baseline and for cells without a ratio
	Verdict   stat.Verdict    `json:"verdict"`
	Alone     stat.Verdict    `json:"verdict_alone,omitempty"` // verdict from the interval alone, if Holm's adjustment changed it
	Error     string          `json:"error,omitempty"`
	Trials    jsonTrials      `json:"trials"`
	Findings  []iotax.Finding `json:"findings"`
	Secondary []jsonFigure    `json:"secondary"`
}

type jsonRatio struct {
	Estimate      number64       `json:"estimate"`
	Lo            number64       `json:"lo"`
	Hi            number64       `json:"hi"`
	N             int            `json:"n"`
	HodgesLehmann number64       `json:"hodges_lehmann"`
	P             number64       `json:"p"`
	PMargin       *number64      `json:"p_margin,omitempty"` // p value of the hypothesis that the ratio is within the margin; only if the cell was judged
	PHolm         *number64      `json:"p_holm,omitempty"`   // p_margin after Holm's adjustment over the run
	WithDiscarded *stat.Interval `json:"with_discarded,omitempty"`

	Starts *stat.StartSpread `json:"starts,omitempty"` // standard deviations of the log ratio between and within starts, for a run with several starts
}

type jsonTrials struct {
	Ran       int `json:"ran"`
	Failed    int `json:"failed"`
	Discarded int `json:"discarded"`
}

type jsonFigure struct {
	Name   string        `json:"name"`
	Unit   string        `json:"unit"`
	Better iotax.Better  `json:"better"`
	Value  stat.Interval `json:"value"`
	Merged bool          `json:"merged,omitempty"`
	Beyond *int          `json:"beyond,omitempty"` // number of observations beyond a merged quantile; if it is below 100, the estimate in Value is null
}

type number64 = iotax.Number

// JSON writes the report as one JSON object, in the format that Version identifies. Missing estimates and bounds are
// null.
func JSON(w io.Writer, r *report.Report) error {
	a := assess.Of(r)
	out := jsonReport{Version: Version, Environment: r.Run.Environment, Answer: a.Answer(), Banner: r.Banner(), Emulated: r.Emulated(), Assessment: assessment(r, a), Expected: expected(r), Waterfalls: r.Waterfalls, Stages: r.Explanations, Profiles: r.Profiles, Clients: r.Scalings, Reference: r.Reference, Layout: layout(r), Objects: r.ObjectFacts(), Cells: []jsonCell{}, Run: toRun(r)}
	if out.Environment == nil {
		out.Environment = map[string]string{}
	}
	for s, row := range r.Rows() {
		c := jsonCell{Target: row.Target, Storage: r.Target(row.Target).Storage(), Workload: s.Workload, Metric: s.Metric, Unit: s.Unit, Better: s.Better,
			Baseline: row.Baseline, Value: row.Value, Verdict: row.Verdict, Error: row.Err,
			Trials: jsonTrials{row.Ran, row.Failed, row.Discarded}, Findings: r.Findings(s.Workload, row), Secondary: []jsonFigure{}}
		if e := row.Ratio; e != nil {
			c.Ratio = &jsonRatio{Estimate: number64(e.Estimate), Lo: number64(e.Lo), Hi: number64(e.Hi), N: e.N,
				HodgesLehmann: number64(e.HodgesLehmann), P: number64(e.P), Starts: e.Starts}
			if h := row.Holm; h != nil {
				c.Ratio.PMargin, c.Ratio.PHolm = (*number64)(&h.P), (*number64)(&h.Adjusted)
				if h.Alone != row.Verdict {
					c.Alone = h.Alone
				}
			}
			c.Ratio.WithDiscarded = row.WithDiscarded
		}
		for _, f := range row.Secondary {
			j := jsonFigure{Name: f.Name, Unit: f.Unit, Better: f.Better, Value: f.Value, Merged: f.Merged}
			if f.Merged {
				j.Beyond = &f.Beyond
			}
			c.Secondary = append(c.Secondary, j)
		}
		out.Cells = append(out.Cells, c)
	}
	return encode(w, out)
}

func encode(w io.Writer, out any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
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
