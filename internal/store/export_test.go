package store

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"iotax"
)

func each(trials ...*iotax.Trial) iter.Seq2[*iotax.Trial, error] {
	return func(yield func(*iotax.Trial, error) bool) {
		for _, t := range trials {
			if !yield(t, nil) {
				return
			}
		}
	}
}

var errBroken = errors.New("broken")

func broken(yield func(*iotax.Trial, error) bool) {
	if yield(exampleTrial("r", 0), nil) {
		yield(nil, errBroken)
	}
}

func TestWriteCSV(t *testing.T) {
	run := exampleRun("r")
	run.Name = "=cmd|'/c calc'!A1"
	run.Targets = append(run.Targets, iotax.TargetInfo{Name: "9p", Facts: map[string]string{iotax.FactAccel: "tcg"}})
	trials := []*iotax.Trial{
		{Run: "r", Target: "@host", Workload: "4k, \"random\"", Round: 1, Seq: 2, StartIndex: 3, Seed: math.MaxUint64, Cold: true,
			Start: time.Date(2025, 1, 2, 3, 4, 5, 6e6, time.UTC), Took: 1500 * time.Millisecond, Labels: map[string]string{"b": "2", "a": "1"},
			Values: []iotax.Value{{Name: "read.iops", Value: 0.1, Unit: "1/s", Better: iotax.Up}, {Name: "+x", Value: -1e21, Unit: "s"}, {Name: "nan", Value: math.NaN()}}},
		{Run: "r", Target: "9p", Workload: "w", Seq: 3, Err: "-failed\nbadly", Discarded: "failed"},
		{Run: "r", Target: "9p", Workload: "v", Seq: 4, Findings: []iotax.Finding{{Rule: "noisy", Severity: iotax.Warning}, {Rule: "cache-served", Severity: iotax.Invalid}}},
		{Run: "r", Target: "9p", Workload: "x", Seq: 5},
		{Run: "r", Target: "nbd", Workload: "x", Seq: 6},
	}
	run.Findings = append(run.Findings, iotax.Finding{Rule: "work-shrank", Severity: iotax.Invalid, Subject: iotax.AboutCell("9p", "x")})
	run.Targets = append(run.Targets, iotax.TargetInfo{Name: "nbd", Findings: []iotax.Finding{{Rule: "cached-here", Severity: iotax.Invalid, Subject: iotax.AboutTarget("nbd")}}})
	var b bytes.Buffer
	if err := WriteCSV(&b, run, each(trials...)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b.Bytes())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		strings.Join(Columns, "|"),
		`r|'=cmd|'/c calc'!A1|'@host|4k, "random"|1|2|18446744073709551615|true|2025-01-02T03:04:05.006Z|1.5|read.iops|0.1|1/s|up|a=1;b=2|||false|3|`,
		`r|'=cmd|'/c calc'!A1|'@host|4k, "random"|1|2|18446744073709551615|true|2025-01-02T03:04:05.006Z|1.5|'+x|-1e+21|s||a=1;b=2|||false|3|`,
		`r|'=cmd|'/c calc'!A1|'@host|4k, "random"|1|2|18446744073709551615|true|2025-01-02T03:04:05.006Z|1.5|nan||||a=1;b=2|||false|3|`,
		"r|'=cmd|'/c calc'!A1|9p|w|0|3|0|false||0||||||'-failed\nbadly|failed|true|0|",
		"r|'=cmd|'/c calc'!A1|9p|v|0|4|0|false||0||||||||true|0|cache-served",
		"r|'=cmd|'/c calc'!A1|9p|x|0|5|0|false||0||||||||true|0|work-shrank",
		"r|'=cmd|'/c calc'!A1|nbd|x|0|6|0|false||0||||||||false|0|cached-here",
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d:\n%s", len(rows), len(want), b.String())
	}
	for i, row := range rows {
		if got := strings.Join(row, "|"); got != want[i] {
			t.Errorf("row %d:\n got %s\nwant %s", i, got, want[i])
		}
	}
	if err := WriteCSV(&b, run, broken); !errors.Is(err, errBroken) {
		t.Errorf("broken iterator: %v", err)
	}
}

func TestWriteJSON(t *testing.T) {
	run := exampleRun("r")
	odd := exampleTrial("r", 1)
	odd.Values[0].Value = math.Inf(-1)
	odd.Series[0].V[0] = math.NaN()
	odd.Facts["html"] = "<a&b>"
	failed := &iotax.Trial{Run: "r", Target: "t", Seq: 2, Err: "x"}
	for _, trials := range [][]*iotax.Trial{nil, {failed}, {exampleTrial("r", 0), odd, failed}} {
		var b bytes.Buffer
		if err := WriteJSON(&b, run, each(trials...)); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Version int
			Run     struct {
				iotax.Run
				Plan string `json:"plan"`
			}
			Trials []struct {
				iotax.Trial
				Values []struct {
					Name  string
					Value *float64
				} `json:"values"`
			}
		}
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		if got.Version != 1 || got.Run.ID != "r" || got.Run.Plan != "name: shares\n" || got.Run.Seed != math.MaxUint64 || len(got.Trials) != len(trials) {
			t.Errorf("got %+v", got)
		}
		if len(trials) < 3 {
			continue
		}
		if v := got.Trials[0].Values[3]; v.Name != "read.v3" || *v.Value != trials[0].Values[3].Value {
			t.Errorf("value %v", v)
		}
		if v := got.Trials[1].Values[0].Value; v != nil {
			t.Errorf("infinite value is %v", *v)
		}
		if len(got.Trials[0].Histograms[1].Bins) != 200 || got.Trials[0].Took != trials[0].Took || got.Trials[2].Err != "x" {
			t.Error("a trial is not whole")
		}
		if !strings.Contains(b.String(), "<a&b>") {
			t.Error("text is escaped for HTML")
		}
	}
	if err := WriteJSON(new(bytes.Buffer), run, broken); !errors.Is(err, errBroken) {
		t.Errorf("broken iterator: %v", err)
	}
	if err := WriteJSON(failingWriter{}, run, each(odd)); !errors.Is(err, errBroken) {
		t.Errorf("broken writer: %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errBroken }
