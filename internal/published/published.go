// Package published contains published figures to compare runs with. Each data set is a table with one value per
// row, in base units, and names its source.
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

// caveats contains the problems of data sets that a reader must know before quoting them.
var caveats = map[string]string{
	"tart":   "Its bandwidths are KiB/s labelled as kB/s, so they are 2.3 % too low. Sizes have two digits. The page cache took the writes, the two sides have different queue depths, and the sync test ran for half a second.",
	"randrw": "One run for each target. Places with a colon in their names were not measured, because fio splits a path there.",
}

// Caveat returns the problems of a data set that a reader must know before quoting it, or "" if none are known.
func Caveat(name string) string { return caveats[name] }

// Names returns the names of the data sets in alphabetical order.
func Names() []string {
	entries, _ := fs.ReadDir(files, ".") // reading an embedded directory cannot fail
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".csv"))
	}
	slices.Sort(names)
	return names
}

// Figures returns the figures of a data set. The bool is false if the data set does not exist.
func Figures(name string) ([]Figure, bool) {
	f, err := files.Open(name + ".csv")
	if err != nil {
		return nil, false
	}
	defer f.Close()
	figures, err := Read(f)
	if err != nil {
		panic("published/" + name + ".csv: " + err.Error()) // a test reads all data sets
	}
	return figures, true
}

var columns = []string{"suite", "source", "workload", "target", "rep", "metric", "value", "unit"}

const maxFigures = 100_000

// Read reads a table with the columns suite, source, workload, target, rep, metric, value and unit. The columns may be
// in any order, and other columns are ignored. Errors about a line contain its number.
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
