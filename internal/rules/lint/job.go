package lint

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"iotax/fio"
	"iotax/internal/plan"
)

// A job contains the options of a job as fio runs it, each with its position.
type job struct {
	name  string
	head  setting // the section header; in a plan or result, the position of the job
	set   map[string]setting
	order []setting     // as written, options of [global] first
	group int           // jobs of the same group run at the same time
	ours  bool          // iotax runs the job and sets its duration, files, seed and, by default, engine
	sized bool          // with ours: a trial ends when the job has processed its size
	ran   bool          // the job comes from a result; its machine is unknown
	part  bool          // with ran: only some of its options are known
	apart time.Duration // with ran: the maximum time between fio's readings of two counters
	json  bool          // with ran: the result is JSON, whose rows may be sums of several sections

	alone     bool   // the job is in a file, and the command line of fio is unknown
	readonly  bool   // fio runs with --readonly
	command   bool   // for a section: it is on a command line
	inherited string // for a section: engine of the global sections before it; "" means fio's default
}

// A setting is an option with its position.
type setting struct {
	key, value string // key is the option's canonical name
	bare       bool
	base       int // multiplier of k in the value, 1000 or 1024; 0 uses the plan's units
	at         position
}

// add sets an option and replaces its earlier value.
func (j *job) add(s setting) {
	j.set[s.key] = s
	j.order = append(j.order, s)
	switch s.key { // inverse names of the same option
	case "buffered":
		delete(j.set, "direct")
	case "direct":
		delete(j.set, "buffered")
	}
}

func (j *job) get(key string) (setting, bool) {
	s, ok := j.set[key]
	return s, ok
}

// text returns the value of an option, or "" if it is not set or depends on a variable.
func (j *job) text(key string) string {
	s := j.set[key]
	if strings.Contains(s.value, "$") {
		return ""
	}
	return s.value
}

// first returns the first of these options that the job sets. If the job sets none of them, first returns the header.
func (j *job) first(keys ...string) setting {
	for _, k := range keys {
		if s, ok := j.set[k]; ok {
			return s
		}
	}
	return j.head
}

func (j *job) has(keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { _, ok := j.set[k]; return ok })
}

// on reports whether a boolean option is set and not 0 or false.
func (j *job) on(key string) bool {
	s, ok := j.set[key]
	return ok && (s.bare || s.value != "0" && s.value != "false")
}

// number returns the value of a numeric option, or `otherwise` if the option is not set. The second result is false
// if the value contains a variable or is not a number.
func (j *job) number(key string, otherwise int64) (int64, bool) {
	s, ok := j.set[key]
	if !ok {
		return otherwise, true
	}
	n, err := fio.ParseSize(s.value, 1024)
	return n, err == nil && !strings.Contains(s.value, "$")
}

// size returns the value of an option in bytes, or `otherwise` if the option is not set. The second result is false
// if the value is not a size, such as a share ("20%").
func (j *job) size(key string, otherwise int64) (int64, bool) {
	s, ok := j.set[key]
	if !ok {
		return otherwise, true
	}
	v := s.value
	if key == "bs" {
		read, write, _ := fio.PerDirection(v) // if the job reads and writes, use the size of the reads
		if v = read; !j.reads() {
			v = write
		}
		if v == "" {
			return otherwise, true
		}
	}
	if s.base == 0 {
		n, err := plan.ParseSize(v)
		return int64(n), err == nil
	}
	n, err := fio.ParseSize(v, s.base)
	return n, err == nil && n >= 0
}

// duration returns the value of a time option. A number without a unit is in seconds. The second result is false if
// the option is not set or not a time.
func (j *job) duration(key string) (time.Duration, bool) {
	s, ok := j.set[key]
	if !ok {
		return 0, false
	}
	d, err := fio.ParseTime(s.value, time.Second)
	return d, err == nil
}

// mode returns the value of rw without a suffix such as ":8k". It returns "read" if rw is not set, and "" if the value
// contains a variable.
func (j *job) mode() string {
	s, ok := j.set["rw"]
	if !ok {
		return "read"
	}
	if strings.Contains(s.value, "$") {
		return ""
	}
	m, _, _ := strings.Cut(s.value, ":")
	return m
}

func (j *job) reads() bool {
	m := j.mode()
	return m == "read" || m == "randread" || j.mixes() && j.readShare() > 0
}

func (j *job) writes() bool {
	m := j.mode()
	return strings.Contains(m, "write") && m != "readwrite" || j.mixes() && j.readShare() < 100
}

func (j *job) mixes() bool {
	return slices.Contains([]string{"rw", "readwrite", "randrw"}, j.mode())
}

// readShare returns the percentage of reads of a mixed job. The later of rwmixread and rwmixwrite applies.
func (j *job) readShare() int64 {
	share := int64(50)
	for _, s := range j.order {
		n, err := fio.ParseSize(s.value, 1024)
		switch {
		case err != nil:
		case s.key == "rwmixread":
			share = n
		case s.key == "rwmixwrite":
			share = 100 - n
		}
	}
	return share
}

func (j *job) trims() bool  { return strings.Contains(j.mode(), "trim") }
func (j *job) random() bool { return strings.HasPrefix(j.mode(), "rand") }

// direct reports whether the job bypasses the page cache.
func (j *job) direct() bool {
	if b, ok := j.set["buffered"]; ok { // the inverse of direct: only the later of the two is set
		return !b.bare && b.value == "0"
	}
	return j.on("direct") || j.on("atomic")
}

// engine returns the I/O engine, or fio's default if none is set. It returns "" if iotax selects the engine, if the
// value contains a variable, or if the job has an option of engines but no engine, which --ioengine must then set.
func (j *job) engine(facts Facts) string {
	if _, ok := j.set["ioengine"]; ok {
		return fio.EngineName(j.text("ioengine"))
	}
	ofEngine := func(s setting) bool {
		o, ok := fio.LookupOption(s.key)
		return ok && o.Engine != "" || s.key == "fdp" || s.key == "dataplacement" // which only engines for raw NVMe commands have
	}
	if j.ours || slices.ContainsFunc(j.order, ofEngine) {
		return ""
	}
	return defaultEngine(Facts{OS: j.system(facts)})
}

// system returns the operating system that the job's paths or its engine indicate. If they do not indicate one, it
// returns facts.OS.
func (j *job) system(facts Facts) string {
	names := append(j.files(), split(j.set["directory"].value)...)
	switch {
	case slices.ContainsFunc(names, windowsPath.MatchString), j.text("ioengine") == "windowsaio":
		return "windows"
	case slices.ContainsFunc(names, macDisk.MatchString):
		return "darwin"
	}
	return facts.OS
}

var (
	windowsPath = regexp.MustCompile(`^(?:\\\\[.?]\\|[A-Za-z]\\?:\\)`)
	macDisk     = regexp.MustCompile(`^/dev/r?disk[0-9]`)
)

// defaultEngine returns fio's default engine (FIO_PREFERRED_ENGINE in the os/ directory of fio's source).
func defaultEngine(facts Facts) string {
	if facts.OS == "windows" {
		return "windowsaio"
	}
	return "psync"
}

// sectionEngine returns the engine that the section sets. If it sets none, sectionEngine returns the engine that the
// global sections before it set, or fio's default.
func (j *job) sectionEngine(facts Facts) string {
	if s, ok := j.get("ioengine"); ok {
		return fio.EngineName(s.value)
	}
	if j.inherited != "" {
		return j.inherited
	}
	return defaultEngine(facts)
}

// fileEngines lists the engines that access files and block devices through the kernel, so their I/O may use the page
// cache.
var fileEngines = []string{"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "libaio", "io_uring", "posixaio", "windowsaio", "solarisaio"}

// onFiles reports whether the job does I/O on files or block devices.
func (j *job) onFiles(facts Facts) bool {
	if e := j.engine(facts); !slices.Contains(fileEngines, e) && !(e == "" && j.ours) {
		return false
	}
	return !slices.ContainsFunc(j.files(), func(f string) bool {
		return f == "/dev/null" || f == "/dev/zero" || strings.HasPrefix(f, "/dev/dax") || strings.HasPrefix(f, "/dev/ng")
	})
}

// files returns the file names in filename, without escapes.
func (j *job) files() []string {
	var out []string
	for _, p := range split(j.set["filename"].value) {
		out = append(out, strings.ReplaceAll(p, `\:`, ":"))
	}
	return out
}

// split splits a list of names at unescaped colons.
func split(s string) []string {
	if s == "" {
		return nil
	}
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ':':
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// device reports whether name is the name of a block device.
func device(name string) bool {
	j := job{set: map[string]setting{"filename": {value: strings.ReplaceAll(name, ":", `\:`)}}}
	return len(j.devices()) > 0
}

// devices returns the files that have the name of a block device with contents. A null_blk device has none.
func (j *job) devices() []string {
	var out []string
	for _, f := range j.files() {
		disk := strings.HasPrefix(f, "/dev/") && !slices.Contains([]string{"/dev/null", "/dev/zero", "/dev/full"}, f) && !strings.HasPrefix(f, "/dev/shm/") && !strings.HasPrefix(f, "/dev/nullb")
		if disk || strings.HasPrefix(f, `\\.\PhysicalDrive`) {
			out = append(out, f)
		}
	}
	return out
}

// bytes returns the size of one pass of the job, summed over its clones. The second result is false if the size is
// unknown.
func (j *job) bytes() (int64, bool) {
	size, ok := j.size("size", 0)
	if n, known := j.size("filesize", 0); ok && size == 0 && known {
		files, whole := j.number("nrfiles", 1)
		size, ok = n*files, whole
	}
	clones, whole := j.number("numjobs", 1)
	if !ok || !whole || size <= 0 || clones < 1 || size > (1<<62)/clones {
		return 0, false
	}
	return size * clones, true
}

// covered returns how many bytes of storage one pass touches. Clones on one file touch the same bytes. The second
// result is false if the number is unknown.
func (j *job) covered() (int64, bool) {
	if j.has("filename") && !j.has("offset_increment") {
		n, ok := j.size("size", 0)
		return n, ok && n > 0
	}
	return j.bytes()
}

// slowed reports whether the job limits its rate, so its duration cannot be predicted.
func (j *job) slowed() bool {
	return j.has("rate", "rate_iops", "thinktime", "flow", "latency_target", "rate_process")
}

// verifies reports whether the job verifies data instead of measuring speed.
func (j *job) verifies() bool {
	s, ok := j.set["verify"]
	return ok && s.value != "0" && s.value != "none"
}
