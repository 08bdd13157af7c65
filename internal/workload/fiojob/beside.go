package fiojob

import (
	"cmp"
	"slices"
	"strings"

	"iotax"
	"iotax/fio"
)

// fio runs the jobs of a file at the same time unless a stonewall separates them. With `jointly: true`, iotax runs such
// jobs with one fio command, as one workload.

// A part is one of several jobs that run at the same time.
type part struct {
	name     string
	index    int // 0 for the first job, whose options are in fioJob itself
	settings []fio.Setting
	file     string // filename in the job file, or ""
}

// all returns r, followed by the jobs that run at the same time.
func (r *resolved) all() []*resolved { return append([]*resolved{r}, r.beside...) }

func (r *resolved) writes() bool { return r.some(func(o *resolved) bool { return writes(o.rw) }) }

func (r *resolved) anyDirect() bool { return r.some(func(o *resolved) bool { return o.direct }) }

func (r *resolved) some(is func(*resolved) bool) bool {
	for _, o := range r.all() {
		if is(o) {
			return true
		}
	}
	return false
}

// asked returns the engine of the first job, or "" if any job leaves the choice to iotax. Jobs may set different
// engines: see line.engineOf.
func (r *resolved) asked() string {
	for _, o := range r.all() {
		if o.engine == "" {
			return ""
		}
	}
	return r.engine
}

// files returns the number of test files. A file that several jobs share counts once for each of them.
func (r *resolved) files() (n int) {
	for _, o := range r.all() {
		n += o.layout.count()
	}
	return n
}

// sizes returns the size of each test file in bytes, by name.
func (r *resolved) sizes() map[string]int64 {
	out := map[string]int64{}
	for _, o := range r.all() {
		for _, name := range o.layout.names() {
			out[name] = o.layout.bytes
		}
	}
	return out
}

// total returns the total size of the test files, in bytes.
func (r *resolved) total() (n int64) {
	if len(r.beside) == 0 {
		return r.layout.total()
	}
	for _, size := range r.sizes() {
		n += size
	}
	return n
}

// facts returns the main options as facts of the trial. It joins the values of several jobs, as in "4k + default". If
// all jobs use the same engine, facts names this engine once.
func (r *resolved) facts(engine string) map[string]string {
	l := line{job: r, engine: engine, export: engine == nbdEngine}
	var engines []string
	for _, o := range r.all() {
		engines = append(engines, l.engineOf(o))
	}
	if len(slices.Compact(slices.Clone(engines))) == 1 {
		engines = engines[:1]
	}
	out := map[string]string{iotax.FactIOEngine: strings.Join(engines, " + ")}
	for _, key := range []string{"rw", "bs", "bssplit", "bsrange", "iodepth", "numjobs", "direct", "size"} {
		var values []string
		isSet := false
		for _, o := range r.all() {
			value := map[string]string{"rw": o.rw, "iodepth": "1", "numjobs": "1"}[key]
			for _, s := range o.settings {
				switch {
				case key == "direct" && (s.Key == "direct" || s.Key == "buffered"):
					value = map[bool]string{true: "1", false: "0"}[o.direct]
				case s.Key == key && key != "rw":
					value = s.Value
				}
			}
			isSet = isSet || value != ""
			values = append(values, cmp.Or(value, "default"))
		}
		if isSet {
			out[key] = strings.Join(values, " + ")
		}
	}
	return out
}
