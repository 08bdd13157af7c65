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
	Run         jsonRun              `json:"run"`         // B, the run that is judged
	Environment map[string]string    `json:"environment"` // of B
	Answer      string               `json:"answer"`
	Banner      string               `json:"banner,omitempty"` // a caveat about the whole comparison
	By          compare.By           `json:"by"`
	Margin      number64             `json:"margin"`
	Alpha       number64             `json:"alpha"`
	Gate        *jsonGate            `json:"gate"` // null without --fail-on
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

// JSONComparison writes the comparison as one JSON object, a contract like that of JSON. run, environment, value, ratio and
// verdict are B's, relative to A. Missing numbers are null.
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

// some returns list, or an empty one instead of nil.
func some[T any](list []T) []T { return append([]T{}, list...) }
