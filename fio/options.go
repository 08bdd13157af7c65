package fio

//go:generate go run ./internal/genoptions options_gen.go

// An Option is an option of fio's job files and command line.
type Option struct {
	Name   string
	Alias  string // "" when there is none
	Type   string // "boolean value", "string with time postfix"…, as fio's help says it
	Engine string // the engine that has it; "" for those of every job
}

// hidden are options that fio takes without listing them in its help.
var hidden = []Option{
	{Name: "bs_is_seq_rand", Type: "boolean value"},
	{Name: "disable_bw", Type: "boolean value"},
	{Name: "fill_fs", Type: "boolean value"},
	{Name: "flow_watermark", Type: "integer value"},
	{Name: "mem_align", Alias: "iomem_align", Type: "integer value"},
	{Name: "percentage_sequential", Type: "integer value"},
	{Name: "rwmixcycle", Type: "integer value"},
	{Name: "softrandommap", Type: "boolean value"},
	{Name: "verify_async_cpus", Type: "string"},
	{Name: "verifysort", Type: "boolean value"},
	{Name: "verifysort_nr", Type: "integer value"},
}

var byName = func() map[string]Option {
	m := make(map[string]Option, 2*len(options))
	for _, list := range [][]Option{options, hidden} {
		for _, o := range list {
			for _, n := range []string{o.Name, o.Alias} {
				if _, known := m[n]; n != "" && !known {
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
