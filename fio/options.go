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

// tablesJSON contains the options of Debian's fio 3.33, and those of other builds and later versions.
//
//go:generate go run ../internal/testenv/fiotables ../../fio tables.json
//go:embed tables.json
var tablesJSON []byte

type optionTables struct {
	Options   []Option          // of Debian's 3.33
	Elsewhere []Option          // of other builds and later versions
	Since     map[string]string // name → version in which the option appeared, if after 2.0
	Forms     map[string]form   // by name; "FILE/NAME" for an engine option, where FILE is the engine's file in engines/
	Engines   map[string]string // engine → its file in engines/, for all versions

	byName map[string]Option
}

var tables = sync.OnceValue(func() *optionTables {
	t := &optionTables{byName: map[string]Option{}}
	if err := json.Unmarshal(tablesJSON, t); err != nil {
		panic(err) // cannot happen: the JSON is embedded
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
	Type   string // "boolean value", "string with time postfix"…, as in fio's help
	Engine string // the engine that the option belongs to; "" for options of every job
	Since  string // version in which this name appeared, such as "3.16"; "" for 2.0 and before
	Hidden bool   `json:"-"` // fio accepts the option but does not list it

	// The range and the accepted words, as fio 3.33 prints them. Max 0 means no limit.
	Min, Max float64
	Values   []string
	Default  string // as fio prints it; "" if none
}

// NewerThan reports whether the option appeared after this version of fio ("fio-3.16" or "3.16"). It returns false
// for an unknown version.
func (o Option) NewerThan(version string) bool {
	version = strings.TrimPrefix(version, "fio-") // numbers rejects the version of a build between releases, because it has a suffix
	return o.Since != "" && numbers(version) != nil && slices.Compare(numbers(o.Since), numbers(version)) > 0
}

// numbers returns the components of version, or nil if it is not a dotted number.
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

// hidden lists options that fio accepts but does not show in its help.
var hidden = []Option{
	{Name: "bs_is_seq_rand", Type: "boolean value", Hidden: true},
	{Name: "flow_watermark", Type: "integer value", Hidden: true},
	{Name: "iomem_align", Alias: "mem_align", Type: "integer value", Hidden: true},
	{Name: "percentage_sequential", Type: "integer value", Hidden: true},
	{Name: "rwmixcycle", Type: "integer value", Hidden: true},
	{Name: "softrandommap", Type: "boolean value", Hidden: true},
	{Name: "verify_async_cpus", Type: "string", Hidden: true},
	{Name: "verifysort", Type: "boolean value", Hidden: true},
	{Name: "verifysort_nr", Type: "integer value", Hidden: true},
}

// LookupOption returns the option with this exact name or alias. Like fio, it does not treat - and _ in names as
// equal.
func LookupOption(name string) (Option, bool) {
	o, ok := tables().byName[name]
	return o, ok
}

// OptionNames returns all names and aliases, in no particular order.
func OptionNames() []string { return slices.Collect(maps.Keys(tables().byName)) }
