package report

import (
	"encoding/json"
	"io"
	"math"

	"iotax"
	"iotax/stat"
)

// Version is the version of the JSON contract. Fields are added under the same version; one that
// changes its meaning or goes away raises it.
const Version = 1

type jsonReport struct {
	Version     int               `json:"version"`
	Run         jsonRun           `json:"run"`
	Environment map[string]string `json:"environment"`
	Answer      string            `json:"answer"`
	Assessment  []jsonSentence    `json:"assessment"`
	Cells       []jsonCell        `json:"cells"`
	Waterfalls  []jsonWaterfall   `json:"waterfalls,omitempty"`
	Clients     []jsonScaling     `json:"clients,omitempty"`
	Beside      *jsonBeside       `json:"beside,omitempty"`
	Layout      *jsonLayout       `json:"layout,omitempty"`
	Objects     []objectFact      `json:"objects,omitempty"` // how the bytes of objects were kept from harm
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
	WithVoided    *jsonBounds `json:"with_voided,omitempty"`
}

type jsonBounds struct {
	Estimate number64 `json:"estimate"`
	Lo       number64 `json:"lo"`
	Hi       number64 `json:"hi"`
	N        int      `json:"n"`
}

type jsonTrials struct {
	Ran    int `json:"ran"`
	Failed int `json:"failed"`
	Voided int `json:"voided"`
}

type jsonFigure struct {
	Name   string       `json:"name"`
	Unit   string       `json:"unit"`
	Better iotax.Better `json:"better"`
	Value  jsonValue    `json:"value"`
	Merged bool         `json:"merged,omitempty"`
	Beyond *int         `json:"beyond,omitempty"` // of a merged quantile: observations beyond it; below 100 its value is null
}

// number64 is null where JSON has no number.
type number64 float64

func (n number64) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func toBounds(i stat.Interval) *jsonBounds {
	return &jsonBounds{number64(i.Estimate), number64(i.Lo), number64(i.Hi), i.N}
}

func toJSON(i stat.Interval) jsonValue {
	return jsonValue{number64(i.Estimate), number64(i.Lo), number64(i.Hi), i.N}
}

// JSON writes the report as one JSON object, the contract that scripts rely on: {version, run,
// environment, cells}. A bound or estimate that does not exist is null.
func (r *Report) JSON(w io.Writer) error {
	out := jsonReport{Version: Version, Environment: r.Run.Environment, Answer: r.Answer, Assessment: r.jsonAssessment(), Waterfalls: r.jsonWaterfalls(), Clients: r.jsonScalings(), Beside: r.jsonBeside(), Layout: r.jsonLayout(), Objects: r.objectFacts(), Cells: []jsonCell{},
		Run: jsonRun{Run: r.Run, Precision: number64(r.Run.Precision), Margin: number64(r.Run.Margin), Alpha: number64(r.Alpha)}}
	if out.Environment == nil {
		out.Environment = map[string]string{}
	}
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			c := jsonCell{Target: row.Target, Workload: s.Workload, Metric: s.Metric, Unit: s.Unit, Better: s.Better,
				Baseline: row.Baseline, Value: toJSON(row.Value), Verdict: row.Verdict, Error: row.Err,
				Trials: jsonTrials{row.Ran, row.Failed, row.Voided}, Findings: r.findings(s, row), Secondary: []jsonFigure{}}
			if e := row.Ratio; e != nil {
				c.Ratio = &jsonRatio{Estimate: number64(e.Estimate), Lo: number64(e.Lo), Hi: number64(e.Hi), N: e.N,
					HodgesLehmann: number64(e.HodgesLehmann), P: number64(e.P)}
				if h := row.Holm; h != nil {
					c.Ratio.PMargin, c.Ratio.PHolm = (*number64)(&h.P), (*number64)(&h.Adjusted)
					if h.Alone != row.Verdict {
						c.Alone = h.Alone
					}
				}
				if v := row.WithVoided; v != nil {
					c.Ratio.WithVoided = &jsonBounds{number64(v.Estimate), number64(v.Lo), number64(v.Hi), v.N}
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
