package store

import (
	"encoding/json"
	"io"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"iotax"
)

// parquetRow is a row that WriteParquet writes. Its columns are those of Columns. A missing value is null.
type parquetRow struct {
	Run       string     `parquet:"run,dict"`
	Name      string     `parquet:"name,dict"`
	Target    string     `parquet:"target,dict"`
	Workload  string     `parquet:"workload,dict"`
	Round     int32      `parquet:"round"`
	Seq       int32      `parquet:"seq"`
	Seed      uint64     `parquet:"seed"`
	Cold      bool       `parquet:"cold"`
	Start     *time.Time `parquet:"start,timestamp(microsecond)"`
	Took      float64    `parquet:"took_s"`
	Metric    *string    `parquet:"metric,dict"`
	Value     *float64   `parquet:"value"`
	Unit      *string    `parquet:"unit,dict"`
	Better    *string    `parquet:"better,dict"`
	Labels    string     `parquet:"labels,dict"`
	Err       string     `parquet:"err,dict"`
	Discarded string     `parquet:"discarded,dict"`
	Emulated  bool       `parquet:"emulated"`

	StartIndex int32  `parquet:"start_index"`
	Invalid    string `parquet:"invalid,dict"`
}

// rowsPerGroup limits the size of a row group, which the writer buffers in memory, to some tens of MiB.
const rowsPerGroup = 100_000

// WriteParquet writes one row for each value (tidy data), with the columns of WriteCSV. A trial without values gets one
// row with a null metric, so that failures are visible. The file metadata contains the run as JSON under "iotax.run",
// and the version of the columns under "iotax.export".
func WriteParquet(w io.Writer, run *iotax.Run, trials iter.Seq2[*iotax.Trial, error]) error {
	about, err := json.Marshal(run)
	if err != nil {
		return err
	}
	p := parquet.NewGenericWriter[parquetRow](w, parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(rowsPerGroup),
		parquet.CreatedBy("iotax", run.Version, ""),
		parquet.KeyValueMetadata("iotax.run", string(about)), parquet.KeyValueMetadata("iotax.export", strconv.Itoa(ExportVersion)))
	var rows []parquetRow
	for t, err := range trials {
		if err != nil {
			return err // without the footer, readers reject the incomplete file
		}
		row := parquetRow{Run: t.Run, Name: run.Name, Target: t.Target, Workload: t.Workload, Round: int32(t.Round), Seq: int32(t.Seq),
			Seed: t.Seed, Cold: t.Cold, Took: t.Took.Seconds(), Labels: joinLabels(t.Labels), Err: t.Err, Discarded: t.Discarded, Emulated: inEmulated(run, t), StartIndex: int32(t.StartIndex), Invalid: invalidBy(run, t)}
		if !t.Start.IsZero() {
			at := t.Start.UTC()
			row.Start = &at
		}
		rows = rows[:0]
		for _, v := range t.Values {
			r, better := row, string(v.Better)
			r.Metric, r.Unit, r.Better = &v.Name, &v.Unit, &better
			if !math.IsNaN(v.Value) && !math.IsInf(v.Value, 0) {
				r.Value = &v.Value
			}
			rows = append(rows, r)
		}
		if len(t.Values) == 0 {
			rows = append(rows, row)
		}
		if _, err := p.Write(rows); err != nil {
			return err
		}
	}
	return p.Close()
}
