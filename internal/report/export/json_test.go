package export

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"iotax/internal/report"
	"iotax/internal/report/compare"
	"iotax/internal/testenv/reporttest"
)

func comparedAsJSON(o compare.Options) *compare.Comparison {
	return compare.Of(report.New(reporttest.EarlierRun()), report.New(reporttest.Later()), o)
}

func TestCompareJSON(t *testing.T) {
	var b bytes.Buffer
	if err := JSONComparison(&b, comparedAsJSON(compare.Options{FailOn: compare.FailOnWorse, Margin: .05})); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Version int
		Run     struct{ ID string }
		Gate    struct {
			Failed  bool
			Reasons []string
		}
		Cells []struct {
			Target, Workload, Metric, Unit, Verdict string
			Value, Before                           struct{ Estimate, Lo, Hi *float64 }
			Ratio                                   *struct{ Estimate, Lo, Hi *float64 }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if out.Version != 1 || out.Run.ID != "20260321-081500-m4q1" || !out.Gate.Failed || len(out.Gate.Reasons) == 0 || len(out.Cells) == 0 {
		t.Errorf("%+v", out)
	}
	for _, c := range out.Cells {
		if c.Target == reporttest.VirtioBlk && c.Workload == "4k random read" && (c.Verdict != "worse" || c.Unit != "1/s" || *c.Ratio.Hi > .8 || *c.Before.Estimate < *c.Value.Estimate) {
			t.Errorf("%+v", c)
		}
	}
}

func TestJSONContract(t *testing.T) {
	run, trials := reporttest.Fixture()
	// JSON cannot represent these numbers.
	trials[0].Values[0].Value = math.Inf(1)
	trials[5].Values[0].Value = math.NaN()
	run.Margin = math.NaN()
	var b bytes.Buffer
	if err := JSON(&b, report.New(run, trials)); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"version", "run", "environment", "cells"} {
		if out[k] == nil {
			t.Errorf("%s is missing", k)
		}
	}
	if _, twice := out["run"].(map[string]any)["environment"]; twice {
		t.Error("the environment stands twice")
	}
	cells := out["cells"].([]any)
	if len(cells) != 24 { // 6 targets and 3 workloads, one of them with 2 metrics
		t.Errorf("%d cells", len(cells))
	}
	for _, c := range cells {
		for _, k := range []string{"target", "workload", "metric", "unit", "better", "value", "ratio", "verdict", "findings"} {
			if _, ok := c.(map[string]any)[k]; !ok {
				t.Errorf("a cell has no %s: %v", k, c)
			}
		}
	}
}

// The report does not depend on the order in which trials are read.
func TestOrderOfTrials(t *testing.T) {
	run, trials := reporttest.Fixture()
	var want, got bytes.Buffer
	if err := JSON(&want, report.New(run, trials)); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(trials)
	if err := JSON(&got, report.New(run, trials)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.String(), got.String()); d != "" {
		t.Error(d)
	}
}
