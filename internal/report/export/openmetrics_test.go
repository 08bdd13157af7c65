package export

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/report"
	"iotax/internal/rules"
	"iotax/internal/testenv/reporttest"
)

// parsed returns the samples that Prometheus's own parser finds, with value and timestamp as the parser prints them.
func parsed(t *testing.T, text []byte) map[string]string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "openmetrics")
	build := exec.Command("go", "build", "-C", "../../testenv/openmetrics", "-o", tool, ".")
	build.Env = append(build.Environ(), "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.Command(tool)
	c.Stdin = bytes.NewReader(text)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	samples := map[string]string{}
	for line := range strings.Lines(string(out)) {
		labels, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		samples[labels+"}"] = value
	}
	return samples
}

func TestOpenMetrics(t *testing.T) {
	r := report.New(reporttest.Fixture())
	r.Run.Name = "a \"plan\"\nin two \\ lines"
	other := report.New(reporttest.Quick())
	for _, stamped := range []bool{false, true} {
		var b bytes.Buffer
		if err := OpenMetrics(&b, []*report.Report{r, other}, stamped); err != nil {
			t.Fatal(err)
		}
		samples := parsed(t, b.Bytes())
		at := ""
		if stamped {
			at = " " + strconv.FormatInt(r.Run.End.UnixMilli(), 10)
		}
		plan := ", plan=" + strconv.Quote(r.Run.Name)
		for _, s := range r.Sections {
			if s.Metric != "read.iops" {
				continue
			}
			for _, row := range s.Rows {
				cell := plan + ", target=" + strconv.Quote(row.Target) + ", workload=" + strconv.Quote(s.Workload) + "}"
				for name, want := range map[string]float64{"value": row.Value.Estimate, "lower": row.Value.Lo, "upper": row.Value.Hi} {
					key := `{__name__="iotax_` + name + `_read_iops"` + cell
					if got, ok := samples[key]; ok != (want == want) || ok && got != strconv.FormatFloat(want, 'g', -1, 64)+at {
						t.Errorf("%s: %q, want %v", key, got, want)
					}
				}
			}
		}
		for _, want := range []string{"iotax_value_read_latency_p99_seconds", "iotax_comparison_ratio", "iotax_verdict_info", "iotax_trials", "iotax_target_info"} {
			if n := strings.Count(b.String(), "\n"+want+"{"); n < 3 {
				t.Errorf("%d samples of %s", n, want)
			}
		}
	}
}

// Invalid numbers are marked, even those of a baseline, which has no verdict.
func TestOpenMetricsOfInvalidNumbers(t *testing.T) {
	run, trials := reporttest.RunOf(6, map[string][]string{"4k read": {"read.iops", "read.bandwidth"}}, reporttest.Reads("disk", 10000, nil), reporttest.Reads("guest", 5000, nil))
	for _, x := range trials {
		if x.Target == "disk" {
			x.Findings = []iotax.Finding{rules.CacheServed.Found(iotax.AboutCell("disk", "4k read"), "half of it")}
		}
	}
	var b bytes.Buffer
	if err := OpenMetrics(&b, []*report.Report{report.New(run, trials)}, false); err != nil {
		t.Fatal(err)
	}
	var invalid []string
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "iotax_invalid_info{") {
			invalid = append(invalid, line)
		}
	}
	if want := `iotax_invalid_info{plan="made",target="disk",workload="4k read",rule="cache-served"} 1.0` + "\n"; len(invalid) != 1 || invalid[0] != want {
		t.Errorf("%q, want %q", invalid, want)
	}
}
