package export

import (
	"io"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/report/compare"
)

type jsonComparison struct {
	Version     int                  `json:"version"`
	A           jsonRun              `json:"a"`
	B           jsonRun              `json:"b"`
	Run         jsonRun              `json:"run"`         // same as b
	Environment map[string]string    `json:"environment"` // environment of B
	Answer      string               `json:"answer"`
	Banner      string               `json:"banner,omitempty"` // a warning about the whole comparison
	By          compare.By           `json:"by"`
	Margin      number64             `json:"margin"`
	Alpha       number64             `json:"alpha"`
	Gate        *jsonGate            `json:"gate"` // null unless --fail-on is set
	Cells       []compare.Change     `json:"cells"`
	OnlyA       []compare.CellMetric `json:"only_a"`
	OnlyB       []compare.CellMetric `json:"only_b"`
	Differences []compare.Difference `json:"differences"`
	Findings    []iotax.Finding      `json:"findings"`
}

type jsonGate struct {
	FailOn  compare.FailOn `json:"fail_on"`
	Failed  bool           `json:"failed"`
	Reasons []string       `json:"reasons"`
}

func toRun(r *report.Report) jsonRun {
	return jsonRun{Run: r.Run, Precision: number64(r.Run.Precision), Margin: number64(r.Run.Margin), Alpha: number64(r.Alpha)}
}

// JSONComparison writes the comparison as one JSON object, in the format that Version identifies. The members run,
// environment and value are those of B. The members ratio and verdict compare B with A. Missing numbers are null.
func JSONComparison(w io.Writer, c *compare.Comparison) error {
	out := jsonComparison{Version: Version, A: toRun(c.A), B: toRun(c.B), Run: toRun(c.B),
		Environment: c.B.Run.Environment, Answer: c.Answer,
		Banner: compare.BannerOfAll([]*compare.Comparison{c}),
		By:     c.By, Margin: number64(c.Margin), Alpha: number64(c.Alpha), Cells: some(c.Rows), OnlyA: some(c.OnlyA), OnlyB: some(c.OnlyB),
		Differences: some(c.Differences), Findings: some(c.Findings)}
	if out.Environment == nil {
		out.Environment = map[string]string{}
	}
	if c.FailOn != compare.FailOnNothing {
		out.Gate = &jsonGate{c.FailOn, c.Failed, some(c.Reasons)}
	}
	return encode(w, out)
}

// some returns a copy of list that is never nil, so that JSON contains [] and not null.
func some[T any](list []T) []T { return append([]T{}, list...) }
