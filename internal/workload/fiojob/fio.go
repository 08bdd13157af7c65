// Package fiojob implements the fio workload: the options, test files and trials of a job, and jobs that run at several
// targets at the same time.
package fiojob

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// Fio is the spec of `fio: {rw: randread, bs: 4k}`. It is a fio job given by fio's own options, or the jobs of a job
// file or a command line. Options in the plan override the options of these jobs.
//
// Sizes in the plan have standard units: 1MiB is 1048576 bytes, and 1MB is 1000000. In a job file or a command, fio's
// own rules apply. `size` is per process (numjobs), as in fio, and is rounded down to whole blocks.
//
// A job of plan options ends with a flush by default if it writes (end_fsync=1). The flush is part of the measurement.
type Fio struct {
	File    string            `yaml:"file" doc:"fio job file on this host"`
	Command string            `yaml:"command" doc:"fio command line, as in a shell; each --name is a workload"`
	Section string            `yaml:"section" doc:"section of the job file; without it, each section is a workload"`
	Jointly bool              `yaml:"jointly" doc:"run sections without a stonewall between them at the same time, as fio does, and measure them as one workload"`
	Binary  string            `yaml:"binary" doc:"fio to run: a program, or a path on the target's machine; {NAME} in it is a label of the target or of the workload; empty means the installed one"`
	Env     map[string]string `yaml:"env" doc:"values of ${NAME} in the job file or command, and of fio's $ncpus, $mb_memory and $pagesize"`
	Load    string            `yaml:"load" doc:"open loop with the same offered load on all targets: a share of what the slowest target can do, as in 60%; open means 60%"`
	Rate    string            `yaml:"rate" doc:"open loop with this load on all targets: I/Os per second, as in 5000/s or 12k/s"`
	Find    Find              `yaml:"find" doc:"open loop that looks for the highest load up to which a condition holds, at each target"`
	ScaleBy float64           `yaml:"scale" doc:"factor for every size of the job, as in 0.1 to try a long protocol; 0 means 1"`
	Times   float64           `yaml:"times" doc:"length of its trials, as a multiple of the plan's; 0 means 1"`
	BySize  bool              `yaml:"by_size" doc:"end a trial when the job has done its size, however long that takes, like a job without time_based; times: is then the expected length"`
	Install bool              `yaml:"install" doc:"install fio with the package manager of a target that has none; otherwise this host's fio is copied there"`

	settings []fio.Setting
	source   *source // nil before Split, and for a job of plan options
}

func newFio() plan.Spec { return &Fio{} }

func (f *Fio) Traits() plan.Traits {
	can := plan.Traits{Options: &plan.Options{Names: fio.OptionNames, Set: f.SetOption, List: f.Options, Scaled: f.scaledOptions}, Lasts: f.lasts(), Scale: f.Scale, Split: f.Split, Metrics: f.metrics}
	if !f.Install && !strings.Contains(f.Binary, "{") {
		can.Tools = []string{cmp.Or(f.Binary, "fio")}
	}
	return can
}

// Scale multiplies the sizes of the job by the factor.
func (f *Fio) Scale(by float64) {
	if f.ScaleBy == 0 {
		f.ScaleBy = 1
	}
	f.ScaleBy *= by
}

// scaled lists the options that ScaleBy applies to.
var scaled = []string{"size", "filesize", "io_size", "offset", "offset_increment"}

// Scaling does not shrink a file below scaledBlocks blocks. A block counts as at least scaledBlock bytes, so that jobs
// with smaller blocks still have files of the same size and share them.
const (
	scaledBlocks = 4
	scaledBlock  = 1 << 20
)

// sized returns the value of an option, multiplied by ScaleBy if the option is in `scaled`. `files` is the job's nrfiles,
// `block` its block size in bytes, and `base` fio's kb_base.
//
// Unless the job runs by size, sized rounds file sizes down to whole blocks. If a file ended with a partial block, fio
// would do no I/O in that block, but would end its pass over the files and flush them (end_fsync). If the ramp ends
// during such a flush, fio ends the job without a result.
func (f *Fio) sized(key, value string, base int, files string, block int64) string {
	n, err := fio.ParseSize(value, base)
	if err != nil || !slices.Contains(scaled, key) {
		return value // the code that reads the option reports the error
	}
	if f.ScaleBy != 0 {
		block = max(block, scaledBlock)
	}
	least := scaledBlocks * block // only for scaled sizes
	switch key {
	case "size", "io_size":
		if n, err := strconv.ParseInt(files, 10, 32); err == nil && n > 0 {
			least, block = least*n, block*n
		}
	case "offset":
		least = scaledBlock
	}
	size := n
	if f.ScaleBy != 0 {
		size = support.ScaledSize(n, f.ScaleBy, least)
	}
	if (key == "size" || key == "filesize") && !f.BySize && block > 0 && size > block {
		size -= size % block
	}
	if size == n {
		return value
	}
	return strconv.FormatInt(size, 10)
}

// defaultTotal is the total size of the test files if the plan gives no size.
const defaultTotal = 1 << 30

// decided lists the options that iotax sets itself or does not allow, each with an alternative or the reason.
var decided = map[string]string{
	"name":                "the workload's name in the plan",
	"filename":            "the target sets the place",
	"directory":           "the target sets the place",
	"uri":                 "the target sets the place",
	"filename_format":     "the target sets the place",
	"opendir":             "the target sets the place",
	"unique_filename":     "the target sets the place",
	"runtime":             "measure: {trial: 10s}",
	"time_based":          "measure: {trial: 10s}",
	"ramp_time":           "measure: {ramp: 2s}",
	"startdelay":          "measure: {settle: 1s}",
	"loops":               "measure: {rounds: {min: 6}}",
	"randseed":            "measure: {seed: 1}",
	"randrepeat":          "measure: {seed: 1}",
	"allrandrepeat":       "measure: {seed: 1}",
	"group_reporting":     "it is always on",
	"per_job_logs":        "the one-second series are always kept",
	"write_bw_log":        "the one-second series are always kept",
	"write_iops_log":      "the one-second series are always kept",
	"write_lat_log":       "the one-second series are always kept",
	"write_hist_log":      "the histograms are always kept",
	"log_avg_msec":        "the one-second series are always kept",
	"log_hist_msec":       "the histograms are always kept",
	"log_offset":          "the one-second series are always kept",
	"log_unix_epoch":      "the one-second series are always kept",
	"log_alternate_epoch": "the one-second series are always kept",
	"log_compression":     "the one-second series are always kept",
	"stats":               "nothing could be measured without",
	"lat_percentiles":     "quantiles of the total latency are always kept",
	"clat_percentiles":    "quantiles of the total latency are always kept",
	"percentile_list":     "quantiles come from the histogram",
	"unlink":              "the test file is shared by the trials, and removed at the end",
	"unlink_each_loop":    "the test file is shared by the trials, and removed at the end",
	"create_only":         "files are written before the first trial",
	"file_append":         "the test file has a fixed size",
	"fill_device":         "iotax never fills a place",
	"fill_fs":             "iotax never fills a place",
	"read_iolog":          "replaying a log is not supported",
	"verify_only":         "it does no timed I/O",
	"verify_state_save":   "nothing is kept of a trial but what it measured",
	"allow_mounted_write": "a device is given up with iotax run --destroy, and not while it is mounted",
	"kb_base":             "sizes in a plan are in standard units",
	"allow_file_create":   "files are written before the first trial",
}

// order lists the options that order jobs, and the description. They have no effect on a job that runs alone.
var order = []string{"stonewall", "wait_for", "new_group", "exitall", "exitall_on_error", "exit_what", "description"}

var directions = []string{"read", "write", "trim", "randread", "randwrite", "randtrim", "rw", "readwrite", "randrw", "trimwrite", "randtrimwrite"}

// secretOptions lists the options that hold a secret. fio's command line is visible to every user of the machine, and a
// report shows it.
var secretOptions = []string{"http_pass", "http_s3_key", "http_s3_security_token", "http_s3_sse_customer_key", "http_swift_auth_token", "rbd_encryption_passphrase"}

func keepsSecret(name string) *plan.FieldError {
	if !slices.Contains(secretOptions, name) {
		return nil
	}
	return &plan.FieldError{Field: name, Msg: "a secret would be in fio's command line, which all see, and in the report",
		Hint: "measure an object store with a bucket: target and the workload object, whose keys come from the environment"}
}

// SetOption sets one of fio's options. It returns an error for an option that the plan must not set. An empty value
// sets the option without "=value".
func (f *Fio) SetOption(key, value string) error {
	s := fio.Setting{Key: fio.Canonical(key), Value: strings.TrimSpace(value)}
	if instead, no := decided[s.Key]; no {
		return &plan.FieldError{Field: key, Msg: "iotax sets this option itself", Hint: "instead: " + instead}
	}
	o, _ := fio.LookupOption(key)
	if strings.Contains(o.Type, "boolean") {
		switch strings.ToLower(s.Value) {
		case "true", "yes", "on":
			s.Value = "1"
		case "false", "no", "off":
			s.Value = "0"
		}
	}
	s.Bare = s.Value == ""
	if err := checkOption(s.Key, s.Value); err != nil {
		return fieldError(key, err)
	}
	if e := refuse(s); e != nil {
		e.Field = key
		return e
	}
	f.set(s)
	return nil
}

// fieldError returns err as an error of the field `key`.
func fieldError(key string, err error) *plan.FieldError {
	fe := &plan.FieldError{Field: key, Msg: err.Error()}
	var ve *plan.ValueError
	if errors.As(err, &ve) {
		fe.Msg, fe.Hint = ve.Msg, ve.Hint
	}
	return fe
}

func (f *Fio) set(s fio.Setting) {
	if i := slices.IndexFunc(f.settings, func(o fio.Setting) bool { return o.Key == s.Key }); i >= 0 {
		f.settings[i] = s
		return
	}
	f.settings = append(f.settings, s)
}

// checkOption returns an error for mistakes that can be found without running fio.
func checkOption(name, value string) error {
	switch name {
	case "rw":
		mode, _, _ := strings.Cut(value, ":")
		if slices.Contains(directions, mode) {
			return nil
		}
		e := &plan.ValueError{Msg: fmt.Sprintf("%q is not a direction", value), Hint: "it is one of " + strings.Join(directions, ", ")}
		if n := plan.Nearest(mode, directions); n != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", n)
		}
		return e
	case "iodepth", "numjobs", "nrfiles":
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > 1<<20 {
			return fmt.Errorf("%q is not a whole number from 1 to 1048576", value)
		}
	case "bs", "size", "filesize", "io_size", "offset", "offset_increment":
		if strings.HasSuffix(value, "%") {
			return &plan.ValueError{Msg: fmt.Sprintf("%q is a share of something that differs between targets", value), Hint: "give a size, as in 1GiB"}
		}
		separators := "" // only bs takes a list: reads,writes,trims
		if name == "bs" {
			separators = ","
		}
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			n, err := plan.ParseSize(part)
			if err != nil {
				return err
			}
			if n == 0 && !strings.HasPrefix(name, "offset") {
				return errors.New("it can't be 0")
			}
		}
		if value == "" {
			return errors.New("it needs a value")
		}
	}
	return nil
}

var standardSize = regexp.MustCompile(`\b(?:[0-9]+(?:\.[0-9]+)?(?:[KMGTkmgt]i?)?B|[0-9]+\.[0-9]+[KMGTkmgt])\b`)

// standardSizes converts sizes in standard units, and fractions with a unit, to bytes. fio reads MiB as a power of 1000
// and MB as a power of 1024, and does not accept fractions. standardSizes leaves whole numbers with a bare k, m or g
// unchanged, because the plan and fio read them in the same way.
func standardSizes(s string) string {
	return standardSize.ReplaceAllStringFunc(s, func(m string) string {
		n, err := plan.ParseSize(m)
		if err != nil {
			return m
		}
		return strconv.FormatInt(int64(n), 10)
	})
}

// Validate checks the spec. For a job of plan options, it also fills in the defaults.
func (f *Fio) Validate() error {
	if err := plan.CheckTimes(f.Times); err != nil {
		return err
	}
	switch {
	case f.ScaleBy < 0 || f.ScaleBy > 1000:
		return &plan.FieldError{Field: "scale", Msg: fmt.Sprintf("%g is out of range", f.ScaleBy), Hint: "write a factor, as in 0.1"}
	case f.File != "" && f.Command != "":
		return &plan.FieldError{Field: "command", Msg: "a workload has a job file or a command, not both", Hint: "make two workloads of it"}
	case f.Rate != "" && f.Load != "":
		return &plan.FieldError{Field: "rate", Msg: "an open loop has a load or a rate, not both", Hint: "leave out load: or rate:"}
	case f.finds() && (f.Rate != "" || f.Load != ""):
		return &plan.FieldError{Field: "find", Msg: "what looks for a load cannot have one", Hint: "leave out " + f.openField() + ": or find:"}
	case f.open() && (f.File != "" || f.Command != ""):
		return &plan.FieldError{Field: f.openField(), Msg: "an open loop is made of the plan's own keys, not of a job file or a command", Hint: "write the job as rw:, bs:, …; a limit of fio's own goes into the job file or the command"}
	case f.BySize && f.open():
		return &plan.FieldError{Field: "by_size", Msg: "an open loop is offered for a time", Hint: "leave it out, or " + f.openField() + ":"}
	case f.File != "" || f.Command != "":
		if f.source != nil { // otherwise, Split checks each job
			if e := f.outOfBounds(); e != nil {
				return e
			}
		}
		return nil
	case f.Jointly:
		return &plan.FieldError{Field: "jointly", Msg: "only the jobs of a job file or a command can run together, and none is given", Hint: "add file: NAME.fio"}
	case f.Section != "":
		return &plan.FieldError{Field: "section", Msg: "a section needs a job file", Hint: "add file: NAME.fio"}
	case len(f.Env) > 0:
		return &plan.FieldError{Field: "env", Msg: "the values are for a job file or a command, and none is given", Hint: "add file: NAME.fio"}
	}
	f.fillDefaults()
	if err := f.checkLoad(); err != nil {
		return err
	}
	if e := f.outOfBounds(); e != nil {
		return e
	}
	return nil
}

// outOfBounds returns an error for a job that exceeds maxJobs, maxFiles or maxTotal, or whose files or io_size are
// smaller than a block. It ignores other errors of the job, because some variables have values only on the target.
func (f *Fio) outOfBounds() *plan.FieldError {
	_, err := f.jobs().resolve(nil)
	var over *tooMuch
	var under *tooLittle
	switch {
	case errors.As(err, &over):
		return &plan.FieldError{Field: over.key, Msg: over.msg, Hint: "at most " + over.most}
	case errors.As(err, &under):
		return &plan.FieldError{Field: under.key, Msg: under.msg, Hint: under.hint}
	}
	return nil
}

// jobs returns the jobs of the spec without replacing their variables.
func (f *Fio) jobs() *fioJob {
	j := &fioJob{spec: f, sharedFile: f.open()}
	if f.source != nil {
		j.take(f.source)
		return j
	}
	for _, s := range f.settings {
		s.Value = standardSizes(s.Value)
		j.settings = append(j.settings, s)
	}
	return j
}

// A tooLittle reports a job whose files or io_size are smaller than one block.
type tooLittle struct{ key, msg, hint string }

func (e *tooLittle) Error() string { return e.msg }

// A tooMuch reports a job beyond maxJobs, maxFiles or maxTotal.
type tooMuch struct{ key, msg, most string }

func (e *tooMuch) Error() string { return e.msg + "; the limit is " + e.most }

// headline lists the options that are shown first, in this order.
var headline = []string{"rw", "bs", "iodepth", "numjobs", "size", "direct", "ioengine", "end_fsync"}

func (f *Fio) fillDefaults() {
	def := func(key, value string, unless ...string) {
		if !slices.ContainsFunc(f.settings, func(s fio.Setting) bool { return s.Key == key || slices.Contains(unless, s.Key) }) {
			f.settings = append(f.settings, fio.Setting{Key: key, Value: value})
		}
	}
	def("rw", "randread")
	def("bs", "4k", "bsrange", "bssplit")
	def("iodepth", "1")
	if f.open() {
		f.fillOpen(def)
	}
	def("numjobs", "1")
	def("size", plan.Size(f.defaultSize()).String(), "filesize")
	def("direct", "1", "buffered")
	if mode, _ := f.get("rw"); writes(mode) {
		def("end_fsync", "1", "fsync", "fdatasync", "sync", "fsync_on_close")
	}
	place := func(s fio.Setting) int {
		if i := slices.Index(headline, s.Key); i >= 0 {
			return i
		}
		return len(headline)
	}
	slices.SortStableFunc(f.settings, func(a, b fio.Setting) int { return place(a) - place(b) })
}

func (f *Fio) get(key string) (string, bool) {
	for _, s := range f.settings {
		if s.Key == key {
			return s.Value, true
		}
	}
	return "", false
}

// defaultSize divides defaultTotal among the processes, in whole MiB.
func (f *Fio) defaultSize() int64 {
	v, _ := f.get("numjobs")
	if f.open() {
		v = "1" // the sources share one file
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		n = 1
	}
	return max(defaultTotal/n>>20, 1) << 20
}

// Options lists the options that were set and, after Validate, the defaults.
func (f *Fio) Options() []plan.Option {
	var out []plan.Option
	for _, s := range f.settings {
		out = append(out, plan.Option{Key: s.Key, Value: s.Value})
	}
	return out
}

// scaledOptions returns Options with the scaled sizes.
func (f *Fio) scaledOptions() []plan.Option {
	get, base := map[string]string{}, map[string]int{}
	for _, s := range f.settings {
		get[s.Key], base[s.Key] = standardSizes(s.Value), 1024
	}
	out, block := f.Options(), surestBlock(get, base)
	for i, o := range out {
		if scaled := f.sized(o.Key, get[o.Key], 1024, get["nrfiles"], block); scaled != get[o.Key] {
			out[i].Value = scaled
		}
	}
	return out
}

// Kind is the workload kind fio.
var Kind = support.KindOf(plan.Kind{Name: "fio", Doc: "a fio job, by fio's own options or from a job file", New: newFio}, openFio)

func openFio(w plan.Workload, spec *Fio, e support.Env) (iotax.Workload, error) {
	j := &fioJob{name: w.Name, env: e, shared: support.Of[sharedState](e.Shared), spec: spec, states: map[*iotax.Target]*fioState{}, prepared: map[*iotax.Target]int{}, unready: map[*iotax.Target]error{}}
	if spec.File == "" && spec.Command == "" {
		copied := &Fio{settings: slices.Clone(spec.settings), Load: spec.Load, Rate: spec.Rate, Find: spec.Find, ScaleBy: spec.ScaleBy} // Validate may not have been called
		copied.fillDefaults()
		if err := copied.checkLoad(); err != nil {
			return nil, &iotax.Error{Op: "make workload", On: w.Name, Err: err}
		}
		j.share, _ = parseLoad(spec.Load)
		j.rate, _ = parseRate(spec.Rate)
		j.sharedFile = spec.open()
		for _, s := range copied.settings {
			s.Value = standardSizes(s.Value)
			j.settings = append(j.settings, s)
		}
		return j, nil
	}
	if spec.source == nil {
		parts, err := spec.Split(filepath.Dir(w.Pos.File))
		if err == nil && len(parts) > 1 {
			names := make([]string, len(parts))
			for i, p := range parts {
				names[i] = p.Name
			}
			err = &plan.FieldError{Field: "section", Msg: "there are several: " + strings.Join(names, ", "), Hint: "section: " + names[0]}
		}
		if err != nil {
			e := &iotax.Error{Op: "make workload", On: w.Name, Err: err}
			var fe *plan.FieldError
			if errors.As(err, &fe) {
				e.Err, e.Hint = errors.New(fe.Msg), fe.Hint
			}
			return nil, e
		}
		copied := *spec
		copied.source = parts[0].Spec.(*Fio).source
		j.spec = &copied
	}
	j.take(j.spec.source)
	return j, nil
}

// sizeTime limits a trial that ends by size.
const sizeTime = time.Hour

// Caps returns the capabilities of the workload. They depend on how a trial ends (after a window, or by size), and on
// whether the load needs a pilot.
func (j *fioJob) Caps() iotax.WorkloadCaps {
	can := iotax.WorkloadCaps{Space: j.Space, Files: j.Files, Look: j.Look, Settle: j.Settle, Joins: j.Joins}
	switch {
	case j.share > 0 || j.spec.finds():
		can.Pilot = j.Pilot
	case j.spec.BySize:
		can.Limit = sizeTime
	}
	return can
}

// take sets the jobs from a job file or a command. The plan's keys override their options.
func (j *fioJob) take(src *source) {
	for i, job := range src.jobs {
		p := part{settings: nil, index: i}
		if i > 0 {
			p.name = job.Name
		}
		for _, s := range job.Settings {
			s.Key = fio.Canonical(s.Key)
			_, ours := decided[s.Key]
			switch {
			case s.Key == "kb_base" || s.Key == "name": // each setting contains its kb_base, and iotax names the jobs
			case ours:
				if s.Key == "filename" {
					p.file = s.Value
				}
				j.overridden = append(j.overridden, s)
			case slices.Contains(order, s.Key):
			default:
				p.settings = append(p.settings, s)
			}
		}
		for _, s := range j.spec.settings {
			s.Value = standardSizes(s.Value)
			p.settings = append(slices.DeleteFunc(p.settings, func(o fio.Setting) bool { return o.Key == s.Key }), s)
		}
		if i == 0 {
			j.settings, j.sharedFile, j.file = p.settings, p.file != "", p.file
		} else {
			j.beside = append(j.beside, p)
		}
	}
}

func writes(rw string) bool {
	mode, _, _ := strings.Cut(rw, ":")
	return strings.Contains(mode, "write") || strings.Contains(mode, "trim") || mode == "rw" || mode == "randrw"
}

func reads(rw string) bool {
	mode, _, _ := strings.Cut(rw, ":")
	return strings.Contains(mode, "read") || mode == "rw" || mode == "randrw"
}

// maxJobs limits the processes of a workload and the files of a process, because iotax names all files before fio
// starts. maxTotal limits the total size of the files, in bytes.
const (
	maxJobs        = 4096
	maxTotal int64 = 1 << 50
)

// A resolved is a job with all its variables replaced.
type resolved struct {
	settings []fio.Setting
	layout   layout
	rw       string
	bs       int64 // smallest block size
	direct   bool
	engine   string // from ioengine; "" leaves the choice to iotax

	processes int // numjobs

	name   string      // set in each job after the first
	beside []*resolved // jobs that run at the same time; set only in the first job
}

// resolve returns the job with its variables replaced. The plan's env takes precedence over `vars`.
func (j *fioJob) resolve(vars map[string]string) (*resolved, error) {
	r, err := j.resolvePart(part{settings: j.settings, file: j.file}, vars)
	if err != nil {
		return nil, err
	}
	files := map[string]*resolved{j.file: r}
	for _, p := range j.beside {
		o, err := j.resolvePart(p, vars)
		if err != nil {
			return nil, err
		}
		o.name = p.name
		// Jobs that name the same file share it.
		switch first := files[p.file]; {
		case p.file == "" || !o.layout.one():
		case first != nil && first.layout.one():
			first.layout.bytes = max(first.layout.bytes, o.layout.bytes)
			first.layout.tag = cmp.Or(first.layout.tag, o.layout.tag)
			o.layout = first.layout
		default:
			files[p.file] = o
		}
		r.beside = append(r.beside, o)
	}
	for i, o := range r.beside { // a later job may have enlarged a shared file
		if file := j.beside[i].file; file != "" && o.layout.one() {
			o.layout = files[file].layout
		}
	}
	over := func(key, msg, most string) error {
		return &iotax.Error{Op: "read " + key + " of", On: j.name, Err: &tooMuch{key, msg, most}}
	}
	left, jobs, several := maxTotal, 0, 0
	for _, o := range r.all() {
		if o.layout.total() > left {
			return nil, over("size", "the test files would be too large", plan.Size(maxTotal).String())
		}
		left -= o.layout.total()
		jobs += o.layout.jobs
		if o.layout.files > 1 && o.layout.jobs > 0 {
			several += o.layout.count()
		}
	}
	if several > maxFiles {
		return nil, over("nrfiles", fmt.Sprintf("%d files are too many", several), fmt.Sprint(maxFiles))
	}
	if jobs > maxJobs {
		return nil, over("numjobs", fmt.Sprintf("%d processes are too many", jobs), fmt.Sprint(maxJobs))
	}
	return r, nil
}

func (j *fioJob) resolvePart(p part, vars map[string]string) (*resolved, error) {
	vars = maps.Clone(vars)
	if vars == nil {
		vars = map[string]string{}
	}
	maps.Copy(vars, j.spec.Env)
	r := &resolved{settings: slices.Clone(p.settings), rw: "read", bs: 4096}
	get, base := map[string]string{}, map[string]int{}
	for i := range r.settings {
		s := &r.settings[i]
		v, err := fio.Expand(s.Value, func(n string) (string, bool) { v, ok := vars[n]; return v, ok })
		if err != nil {
			e := &iotax.Error{Op: "resolve " + s.Key + " of", On: j.name, Err: err}
			if s.Line > 0 {
				e.Err = &fio.JobError{Line: s.Line, Msg: err.Error()}
			}
			e.Hint = "give it under env: in the plan"
			return nil, e
		}
		s.Value = v
		get[s.Key], base[s.Key] = v, cmp.Or(s.KBBase, 1024)
	}
	block := surestBlock(get, base)
	for i := range r.settings {
		s := &r.settings[i]
		s.Value = j.spec.sized(s.Key, s.Value, cmp.Or(s.KBBase, 1024), get["nrfiles"], block)
		get[s.Key] = s.Value
		if e := unclear(*s); e != nil {
			return nil, &iotax.Error{Op: "resolve " + s.Key + " of", On: j.name, Err: errors.New(e.Msg), Hint: e.Hint}
		}
	}
	fail := func(key string, err error) error {
		return &iotax.Error{Op: "read " + key + " of", On: j.name, Err: err}
	}
	large := func(key string) error {
		return fail(key, &tooMuch{key, "the test files would be too large", plan.Size(maxTotal).String()})
	}
	size := func(key string) (n int64, err error) {
		v, ok := get[key]
		if !ok {
			return 0, nil
		}
		if strings.HasSuffix(v, "%") {
			return 0, fail(key, fmt.Errorf("%q is a share of something that differs between targets: give a size", v))
		}
		var misread *fio.MisreadError
		if n, err = fio.ParseSize(v, base[key]); errors.As(err, &misread) {
			return 0, fail(key, err)
		} else if err != nil || n < 0 {
			return 0, fail(key, fmt.Errorf("%q is not a size", v))
		}
		if n > maxTotal {
			return 0, large(key)
		}
		return n, nil
	}
	whole := func(key string) (int, error) {
		v, ok := get[key]
		if !ok {
			return 1, nil
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return 0, fail(key, fmt.Errorf("%q is not a whole number above 0", v))
		}
		if n > maxJobs {
			return 0, fail(key, &tooMuch{key, fmt.Sprintf("%d is too many", n), fmt.Sprint(maxJobs)})
		}
		return n, nil
	}
	if v, ok := get["rw"]; ok {
		r.rw = v
	}
	r.engine = get["ioengine"]
	r.direct = isOn(get, "direct")
	if v, ok := get["buffered"]; ok && v == "0" {
		r.direct = true
	}
	if v := get["bs"]; v != "" {
		read, write, trim := fio.PerDirection(v)
		for _, part := range []string{read, write, trim} {
			if _, err := fio.ParseSize(part, base["bs"]); err != nil && part != "" {
				return nil, fail("bs", err)
			}
		}
	}
	for _, key := range []string{"bs", "bsrange", "bssplit"} {
		if v := get[key]; v != "" {
			r.bs = smallest(v, base[key], r.bs)
		}
	}

	l := &r.layout
	l.part = p.index
	var err error
	var perJob, fileSize, offset, increment int64
	if l.jobs, err = whole("numjobs"); err != nil {
		return nil, err
	}
	r.processes = l.jobs
	if l.files, err = whole("nrfiles"); err != nil {
		return nil, err
	}
	if strings.ContainsAny(get["filesize"], "-,:") {
		return nil, fail("filesize", errors.New("a range of sizes is not supported: give one size"))
	}
	var amount int64
	for key, dst := range map[string]*int64{"size": &perJob, "filesize": &fileSize, "offset": &offset, "offset_increment": &increment, "io_size": &amount} {
		if *dst, err = size(key); err != nil {
			return nil, err
		}
	}
	if perJob == 0 {
		perJob = fileSize * int64(l.files)
	}
	switch {
	case diskless(r.engine):
		l.jobs = 0
	case perJob == 0:
		return nil, &iotax.Error{Op: "read size of", On: j.name, Err: errors.New("the job has no size"), Hint: "add size: 1GiB, or --size 1GiB on the command line"}
	}
	sizeKey := "filesize"
	if fileSize == 0 {
		sizeKey, fileSize = "size", perJob/int64(l.files)
	}
	small := func(key, format string, n int64, args ...any) error {
		msg := fmt.Sprintf(format, args...) + fmt.Sprintf("%v is less than one block of %v", plan.Size(n), plan.Size(block))
		under := &tooLittle{key, msg, "give a larger " + key + ", or smaller blocks (bs)"}
		return &iotax.Error{Op: "read " + key + " of", On: j.name, Err: under, Hint: under.hint}
	}
	switch {
	case l.jobs == 0:
	case fileSize < block && l.files > 1:
		return nil, small(sizeKey, "each of the %d files: ", fileSize, l.files)
	case fileSize < block:
		return nil, small(sizeKey, "", fileSize)
	case amount > 0 && amount < block:
		return nil, small("io_size", "", amount)
	}
	l.shared = (j.sharedFile && p.index == 0 || p.file != "" || increment > 0) && l.files == 1
	if l.shared && l.jobs > 0 {
		if increment > maxTotal/int64(l.jobs) {
			return nil, large("offset_increment")
		}
		fileSize += increment * int64(l.jobs-1)
	}
	l.bytes = (fileSize + offset + 4095) &^ 4095
	if l.jobs > 0 && l.bytes > maxTotal/int64(l.count()) {
		return nil, large("size")
	}
	if writes(r.rw) {
		l.tag = dataTag(r.settings)
	}
	return r, nil
}

func isOn(get map[string]string, key string) bool {
	v, ok := get[key]
	return ok && v != "0"
}

// smallest returns the smallest size in a list or range such as "4k,8k", "4k-64k" or "4k/50:64k/50". It returns
// `otherwise` if no size is valid.
func smallest(v string, kbBase int, otherwise int64) int64 {
	least := int64(0)
	for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return strings.ContainsRune(",-:", r) }) {
		part, _, _ = strings.Cut(part, "/")
		if n, err := fio.ParseSize(part, kbBase); err == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if least == 0 {
		return otherwise
	}
	return least
}

// surestBlock returns the smallest block size of the job. If the job has several directions, it returns the largest of
// their smallest sizes. A test file must contain at least one block of this size.
func surestBlock(get map[string]string, base map[string]int) int64 {
	mode, _, _ := strings.Cut(cmp.Or(get["rw"], "read"), ":")
	block := int64(4096)
	for _, key := range []string{"bs", "bsrange", "bssplit"} {
		if get[key] == "" {
			continue
		}
		block = 0
		parts := strings.Split(get[key], ",")
		read, write, trim := parts[0], parts[min(1, len(parts)-1)], parts[min(2, len(parts)-1)]
		if key == "bs" {
			read, write, trim = fio.PerDirection(get[key])
		}
		for _, d := range []struct {
			used bool
			size string
		}{{reads(mode), read}, {strings.Contains(mode, "write") || mode == "rw" || mode == "randrw", write}, {strings.Contains(mode, "trim"), trim}} {
			if d.used {
				block = max(block, smallest(d.size, base[key], 4096))
			}
		}
	}
	return block
}

// diskless reports whether the engine uses no files.
func diskless(engine string) bool { return engine == "null" || engine == "cpuio" }

// Space returns the total size of the test files, in bytes.
func (j *fioJob) Space() int64 {
	r, err := j.resolve(task.Vars())
	if err != nil {
		return 0 // Check reports the error
	}
	return r.total()
}
