// Package published holds figures that others have published, so that a run can be set beside them. Each
// data set is a table of one value a row, in base units, and says where it is from.
package published

import (
	"embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.csv
var files embed.FS

// A Figure is one published value, in the base units of iotax.Value.
type Figure struct {
	Suite, Source    string
	Workload, Target string
	Rep              int // from 1
	Metric           string
	Value            float64
	Unit             string
}

// Caveats are what must be known before a data set is quoted; "" where nothing is known against it.
var caveats = map[string]string{
	"tart":   "Its bandwidths were printed from KiB/s as if they were kB/s and read 2.3 % low; sizes have two digits. The page cache took the writes, depths differ between the two sides, and its sync test ran half a second.",
	"randrw": "One run a target; the places named with a colon were not measured: fio splits a path there.",
}

// Caveat is what must be known of a data set before it is quoted, or "".
func Caveat(name string) string { return caveats[name] }

// Names lists the data sets in alphabetical order.
func Names() []string {
	entries, _ := fs.ReadDir(files, ".") // an embedded directory cannot fail to be read
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".csv"))
	}
	slices.Sort(names)
	return names
}

// Figures returns a data set, and whether there is one of that name.
func Figures(name string) ([]Figure, bool) {
	f, err := files.Open(name + ".csv")
	if err != nil {
		return nil, false
	}
	defer f.Close()
	figures, err := Read(f)
	if err != nil {
		panic("published/" + name + ".csv: " + err.Error()) // a test reads them all
	}
	return figures, true
}

var columns = []string{"suite", "source", "workload", "target", "rep", "metric", "value", "unit"}

const maxFigures = 100_000

// Read reads a table with the columns suite, source, workload, target, rep, metric, value and unit, in any
// order and with any others beside them. An error names the line.
func Read(r io.Reader) ([]Figure, error) {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	head, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, name := range head {
		at[strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))] = i
	}
	for _, name := range columns {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("line 1: there is no column %q; a table of published figures has %s", name, strings.Join(columns, ", "))
		}
	}
	var out []Figure
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		get := func(name string) string { return strings.Clone(row[at[name]]) }
		f := Figure{Suite: get("suite"), Source: get("source"), Workload: get("workload"), Target: get("target"), Metric: get("metric"), Unit: get("unit")}
		if f.Rep, err = strconv.Atoi(get("rep")); err != nil {
			return nil, fmt.Errorf("line %d: rep is %q, not a number", line, get("rep"))
		}
		if f.Value, err = strconv.ParseFloat(get("value"), 64); err != nil || math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
			return nil, fmt.Errorf("line %d: value is %q, not a number", line, get("value"))
		}
		if len(out) == maxFigures {
			return nil, fmt.Errorf("line %d: more than %d figures", line, maxFigures)
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, errors.New("the file has no figures")
	}
	return out, nil
}
