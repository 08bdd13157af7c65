package fio

import (
	"slices"
	"strconv"
	"strings"
)

//go:generate go run ./internal/genoptions options_gen.go
//go:generate go run ./internal/gensince ../../fio since_gen.go

// An Option is an option of fio's job files and command line.
type Option struct {
	Name   string
	Alias  string // "" when there is none
	Type   string // "boolean value", "string with time postfix"…, as fio's help says it
	Engine string // the engine that has it; "" for those of every job
	Since  string // the version in which it appeared under this name, as "3.16"; "" for those that 2.0 had

	// What the fio behind options_gen.go prints as its range and its words. Max 0 is no limit.
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

var byName = func() map[string]Option {
	m := make(map[string]Option, 2*len(options))
	for _, list := range [][]Option{options, hidden, elsewhere} {
		for _, o := range list {
			for _, n := range []string{o.Name, o.Alias} {
				if _, known := m[n]; n != "" && !known {
					o.Since = since[n]
					m[n] = o
				}
			}
		}
	}
	return m
}()

// LookupOption finds an option by name or alias, spelt exactly so: fio does not take sqthread-poll for
// sqthread_poll.
func LookupOption(name string) (Option, bool) {
	o, ok := byName[name]
	return o, ok
}

// OptionNames returns the names of all options that LookupOption knows, aliases included, in no
// particular order.
func OptionNames() []string {
	names := make([]string, 0, len(byName))
	for n := range byName {
		names = append(names, n)
	}
	return names
}
