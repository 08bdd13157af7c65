package store

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"iotax"
)

func TestWriteParquet(t *testing.T) {
	run := exampleRun("r")
	run.Name = "=shares"
	start := time.Date(2025, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))
	var b bytes.Buffer
	err := WriteParquet(&b, run, each(
		&iotax.Trial{Run: "r", Target: "@host", Workload: "4k, \"random\"", Round: 1, Seq: 2, StartIndex: 3, Seed: math.MaxUint64, Cold: true,
			Start: start, Took: 1500 * time.Millisecond, Labels: map[string]string{"b": "2", "a": "1"},
			Values: []iotax.Value{{Name: "read.iops", Value: .1, Unit: "1/s", Better: iotax.Up}, {Name: "nan", Value: math.NaN()}, {Name: "inf", Value: math.Inf(1)}}},
		&iotax.Trial{Run: "r", Target: "9p Größe", Workload: "w", Seq: 3, Err: "failed\nbadly", Discarded: "failed",
			Findings: []iotax.Finding{{Rule: "cache-served", Severity: iotax.Invalid}}},
	))
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range f.Schema().Columns() {
		columns = append(columns, c...)
	}
	if !slices.Equal(columns, Columns) {
		t.Fatalf("columns %q, the CSV has %q", columns, Columns)
	}
	if about, ok := f.Lookup("iotax.run"); !ok || !bytes.Contains([]byte(about), []byte(`"baseline":"`+run.Baseline+`"`)) {
		t.Errorf("the run is not in the metadata: %q", about)
	}
	rows, err := parquet.Read[parquetRow](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	r := rows[0]
	if r.Name != "=shares" || r.Target != "@host" || r.Workload != "4k, \"random\"" || r.Round != 1 || r.Seq != 2 || r.StartIndex != 3 || r.Seed != math.MaxUint64 || !r.Cold ||
		!r.Start.Equal(start) || r.Took != 1.5 || *r.Metric != "read.iops" || *r.Value != .1 || *r.Unit != "1/s" || *r.Better != "up" || r.Labels != "a=1;b=2" {
		t.Errorf("%+v", r)
	}
	if rows[1].Value != nil || *rows[1].Metric != "nan" || rows[2].Value != nil {
		t.Errorf("values that are none: %+v, %+v", rows[1], rows[2])
	}
	if f := rows[3]; f.Metric != nil || f.Value != nil || f.Start != nil || f.Err != "failed\nbadly" || f.Target != "9p Größe" || f.Invalid != "cache-served" || r.Invalid != "" {
		t.Errorf("a failed trial: %+v", f)
	}
	var cut bytes.Buffer
	if err := WriteParquet(&cut, run, broken); !errors.Is(err, errBroken) {
		t.Errorf("broken iterator: %v", err)
	}
	if _, err := parquet.OpenFile(bytes.NewReader(cut.Bytes()), int64(cut.Len())); err == nil {
		t.Error("what was cut short passes for a whole file")
	}
	var none bytes.Buffer
	if err := WriteParquet(&none, run, each()); err != nil {
		t.Fatal(err)
	}
	if rows, err := parquet.Read[parquetRow](bytes.NewReader(none.Bytes()), int64(none.Len())); err != nil || len(rows) != 0 {
		t.Errorf("no trials: %d rows, %v", len(rows), err)
	}
}

// WriteParquet writes large runs in several row groups.
func TestParquetInPortions(t *testing.T) {
	var b bytes.Buffer
	const trials = 30_000
	err := WriteParquet(&b, exampleRun("r"), func(yield func(*iotax.Trial, error) bool) {
		for i := range trials {
			if !yield(&iotax.Trial{Run: "r", Target: "t", Workload: "w", Seq: i, Values: []iotax.Value{
				{Name: "a", Value: float64(i)}, {Name: "b", Value: 2}, {Name: "c", Value: 3}, {Name: "d", Value: 4}}}, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || f.NumRows() != 4*trials || len(f.RowGroups()) != 2 {
		t.Errorf("%d rows in %d groups, %v", f.NumRows(), len(f.RowGroups()), err)
	}
}
