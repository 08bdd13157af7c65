package export

import (
	"encoding/json"
	"io"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/stat"
)

type jsonComparison struct {
	Version     int               `json:"version"`
	A           jsonRun           `json:"a"`
	B           jsonRun           `json:"b"`
	Run         jsonRun           `json:"run"`         // B, the run that is judged
	Environment map[string]string `json:"environment"` // of B
	Answer      string            `json:"answer"`
	Banner      string            `json:"banner,omitempty"` // a caveat about the whole comparison
	By          compare.By        `json:"by"`
	Margin      number64          `json:"margin"`
	Alpha       number64          `json:"alpha"`
	Gate        *jsonGate         `json:"gate"` // null without --fail-on
	Cells       []jsonChange      `json:"cells"`
	OnlyA       []jsonCellName    `json:"only_a"`
	OnlyB       []jsonCellName    `json:"only_b"`
	Differences []jsonDifference  `json:"differences"`
	Findings    []iotax.Finding   `json:"findings"`
}

type jsonGate struct {
	FailOn  compare.FailOn `json:"fail_on"`
	Failed  bool           `json:"failed"`
	Reasons []string       `json:"reasons"`
}

type jsonCellName struct {
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
}

type jsonChange struct {
	jsonCellName
	Unit     string          `json:"unit"`
	Better   iotax.Better    `json:"better"`
	Baseline bool            `json:"baseline"`
	Before   jsonValue       `json:"before"`           // of A
	Value    jsonValue       `json:"value"`            // of B
	Ratio    *jsonEffect     `json:"ratio"`            // B to A, oriented; null where there is none
	Loss     *jsonEffect     `json:"against_baseline"` // the same of the ratios to the baseline; null where there is none
	P        number64        `json:"p"`                // of a change within the margin
	Adjusted number64        `json:"p_adjusted"`       // after Holm
	Verdict  stat.Verdict    `json:"verdict"`
	Lost     bool            `json:"lost"` // A has a number, and B none to hold against it
	Findings []iotax.Finding `json:"findings"`
}

type jsonEffect struct {
	Estimate      number64 `json:"estimate"`
	Lo            number64 `json:"lo"`
	Hi            number64 `json:"hi"`
	N             int      `json:"n"` // of the smaller sample
	HodgesLehmann number64 `json:"hodges_lehmann"`
	P             number64 `json:"p"`
}

type jsonDifference struct {
	Where []string `json:"where"` // targets; empty for the host and the run as a whole
	Key   string   `json:"key"`
	A     string   `json:"a"`
	B     string   `json:"b"`
}

func toEffect(c *stat.Change) *jsonEffect {
	if c == nil {
		return nil
	}
	return &jsonEffect{number64(c.Estimate), number64(c.Lo), number64(c.Hi), c.N, number64(c.HodgesLehmann), number64(c.P)}
}

func toRun(r *report.Report) jsonRun {
	return jsonRun{Run: r.Run, Precision: number64(r.Run.Precision), Margin: number64(r.Run.Margin), Alpha: number64(r.Alpha)}
}

// JSONComparison writes the comparison as one JSON object, a contract like that of Report.JSON; run, environment,
// value, ratio and verdict mean B, held against A. What does not exist is null.
func JSONComparison(w io.Writer, c *compare.Comparison) error {
	out := jsonComparison{Version: Version, A: toRun(c.A), B: toRun(c.B), Run: toRun(c.B), Environment: c.B.Run.Environment, Answer: c.Answer, Banner: compare.BannerOfAll([]*compare.Comparison{c}),
		By: c.By, Margin: number64(c.Margin), Alpha: number64(c.Alpha), Cells: []jsonChange{}, OnlyA: []jsonCellName{}, OnlyB: []jsonCellName{},
		Differences: []jsonDifference{}, Findings: append([]iotax.Finding{}, c.Findings...)}
	if out.Environment == nil {
		out.Environment = map[string]string{}
	}
	if c.FailOn != compare.FailOnNothing {
		out.Gate = &jsonGate{c.FailOn, c.Failed, append([]string{}, c.Reasons...)}
	}
	for _, r := range c.Rows {
		out.Cells = append(out.Cells, jsonChange{jsonCellName: jsonCellName(r.CellMetric), Unit: r.Unit, Better: r.Better, Baseline: r.Baseline,
			Before: toJSON(r.A), Value: toJSON(r.B), Ratio: toEffect(r.Ratio), Loss: toEffect(r.Loss), P: number64(r.P), Adjusted: number64(r.Adjusted),
			Verdict: r.Verdict, Lost: r.Lost, Findings: append([]iotax.Finding{}, r.Findings...)})
	}
	for _, k := range c.OnlyA {
		out.OnlyA = append(out.OnlyA, jsonCellName(k))
	}
	for _, k := range c.OnlyB {
		out.OnlyB = append(out.OnlyB, jsonCellName(k))
	}
	for _, d := range c.Differences {
		out.Differences = append(out.Differences, jsonDifference{append([]string{}, d.Where...), d.Key, d.A, d.B})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}
