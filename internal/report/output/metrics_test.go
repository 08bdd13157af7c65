package output

import (
	"bytes"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/testenv/reporttest"
)

// A report of requested metrics can be written in every format, even with a quantile that only pooled trials have.
func TestFormatsOfChosenMetrics(t *testing.T) {
	run, trials := reporttest.Detailed()
	run.Presentation = &iotax.Presentation{Expect: []iotax.Expectation{{Text: run.Workloads[0].Name + ": iops > 1"}}} // some formats contain only expectations
	for _, metrics := range [][]string{{"latency.p99"}, {"iops", "latency.p99.9", "cpu.per-io"}, {"latency.p99.99"}, {"latency.max", "memory.serving"}} {
		r, err := report.From(run, report.Held(trials), metrics...)
		if err != nil {
			t.Fatalf("%v: %v", metrics, err)
		}
		pooled := 0
		for _, s := range r.Sections {
			if !s.Decides {
				t.Errorf("%s %s does not decide", s.Workload, s.Metric)
			}
			for _, row := range s.Rows {
				if _, _, ok := iotax.Quantile(s.Metric); ok && row.Dots == nil && row.Ratio != nil {
					pooled++
				}
			}
		}
		if metrics[0] == "latency.p99.99" && pooled == 0 {
			t.Errorf("%v: nothing is pooled", metrics)
		}
		for _, format := range Formats() {
			for _, details := range []bool{false, true} {
				var b bytes.Buffer
				if err := Write(&b, r, format, details); err != nil || b.Len() == 0 {
					t.Errorf("%v as %s: %d bytes, %v", metrics, format, b.Len(), err)
				}
				if format == "txt" {
					for _, m := range metrics {
						if words := strings.Split(m, "."); !details && !strings.Contains(strings.ToLower(b.String()), strings.TrimSuffix(words[0], "iops")) {
							t.Errorf("%v: no %s in\n%s", metrics, words[0], b.String())
						}
					}
				}
			}
		}
	}
}
