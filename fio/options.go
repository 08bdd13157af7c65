package fio

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// tablesJSON is what fio 3.33, Debian's build of it, and the tags of fio's repository show of the options.
//
//go:generate go run ../internal/testenv/fiotables ../../fio tables.json
//go:embed tables.json
var tablesJSON []byte

type optionTables struct {
	Options   []Option          // of that build of 3.33
	Elsewhere []Option          // of other builds and later versions
	Since     map[string]string // the version in which an option appeared, if that was after 2.0
	Forms     map[string]form   // by name; for options of an engine "FILE/NAME", after its file in engines/
	Engines   map[string]string // of all versions, with their files in engines/

	byName map[string]Option
}

var tables = sync.OnceValue(func() *optionTables {
	t := &optionTables{byName: map[string]Option{}}
	if err := json.Unmarshal(tablesJSON, t); err != nil {
		panic(err) // embedded
	}
	for _, o := range slices.Concat(t.Options, hidden, t.Elsewhere) {
		for _, n := range []string{o.Name, o.Alias} {
			if _, known := t.byName[n]; n != "" && !known {
				o.Since = t.Since[n]
				t.byName[n] = o
			}
		}
	}
	return t
})

// An Option is an option of fio's job files and command line.
type Option struct {
	Name   string
	Alias  string // "" if it has none
	Type   string // "boolean value", "string with time postfix"…, as fio's help says it
	Engine string // the engine that has it; "" for those of every job
	Since  string // the version in which it appeared under this name, as "3.16"; "" for those that 2.0 had

	// The range and the words that fio 3.33 prints. Max 0 is no limit.
	Min, Max float64
	Values   []string
	Default  string // as fio prints it; "" for none
}

// NewerThan reports whether the option appeared after a version of fio, given as "fio-3.16" or "3.16".
// What cannot be told is false.
func (o Option) NewerThan(version string) bool {
	version = strings.TrimPrefix(version, "fio-") // a build between releases has a tail, which is not a number
	return o.Since != "" && numbers(version) != nil && slices.Compare(numbers(o.Since), numbers(version)) > 0
}

// numbers are those of a version, or nil where it is none.
func numbers(version string) (out []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// hidden are options that fio takes without listing them in its help.
var hidden = []Option{
	{Name: "bs_is_seq_rand", Type: "boolean value"},
	{Name: "flow_watermark", Type: "integer value"},
	{Name: "iomem_align", Alias: "mem_align", Type: "integer value"},
	{Name: "percentage_sequential", Type: "integer value"},
	{Name: "rwmixcycle", Type: "integer value"},
	{Name: "softrandommap", Type: "boolean value"},
	{Name: "verify_async_cpus", Type: "string"},
	{Name: "verifysort", Type: "boolean value"},
	{Name: "verifysort_nr", Type: "integer value"},
}

// LookupOption finds an option by name or alias, spelt exactly so: fio does not take sqthread-poll for
// sqthread_poll.
func LookupOption(name string) (Option, bool) {
	o, ok := tables().byName[name]
	return o, ok
}

// OptionNames returns the names of all options that LookupOption knows, aliases included, in no
// particular order.
func OptionNames() []string { return slices.Collect(maps.Keys(tables().byName)) }
