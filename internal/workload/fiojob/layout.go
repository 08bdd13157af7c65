package fiojob

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/fio"
	"iotax/internal/plan"
)

// A layout says which test files a job has. They are named by their size, so that workloads with
// files of one size on one target share them, and written once.
//
// Each of fio's jobs has files of its own, as fio would do it: jobs that shared one would wait for
// each other's inode lock and write over each other's blocks. Only a job that names a file for all of
// them, or uses offset_increment, gets one file.
type layout struct {
	jobs   int // 0: the job uses no files
	files  int // of each job
	bytes  int64
	shared bool
	tag    string // of files that are filled with special data
	part   int    // of several jobs that run at the same time, each has files of its own
}

func (l layout) total() int64 { return l.bytes * int64(l.count()) }

// count is the number of files, without naming them.
func (l layout) count() int {
	switch {
	case l.jobs == 0:
		return 0
	case l.shared:
		return 1
	}
	return l.jobs * l.files
}

func (l layout) stem() string {
	size := plan.Size(l.bytes).String()
	if strings.ContainsAny(size, "./ ") {
		size = strconv.FormatInt(l.bytes, 10)
	}
	if l.part > 0 {
		size += "-beside" + strconv.Itoa(l.part)
	}
	return "iotax-" + size + l.tag
}

// format is fio's filename_format for the files.
func (l layout) format() string { return l.stem() + ".$jobnum.$filenum.dat" }

// names lists the files; resolve bounds their number.
func (l layout) names() []string {
	switch {
	case l.jobs == 0:
		return nil
	case l.shared:
		return []string{l.stem() + ".dat"}
	}
	names := make([]string, 0, l.count())
	for j := range l.jobs {
		for f := range l.files {
			names = append(names, fmt.Sprintf("%s.%d.%d.dat", l.stem(), j, f))
		}
	}
	return names
}

// special are options that fill a file with data of another sort than the random bytes it was
// written with. Whoever reads such a file measures something else, so it is not shared.
var special = []string{"zero_buffers", "buffer_pattern", "buffer_compress_percentage", "dedupe_percentage", "scramble_buffers", "verify", "verify_pattern"}

func dataTag(settings []fio.Setting) string {
	var used []string
	for _, s := range settings {
		if slices.Contains(special, s.Key) || s.Key == "rw" && strings.Contains(s.Value, "trim") {
			used = append(used, s.String())
		}
	}
	if len(used) == 0 {
		return ""
	}
	slices.Sort(used)
	sum := sha256.Sum256([]byte(strings.Join(used, "\x00")))
	return fmt.Sprintf("-%x", sum[:4])
}

// fio reads more than a name in a path: it splits filename at colons, cuts it at # and ;, and drops blanks at its ends. In a job
// file it replaces variables too. So fio never gets the path of a directory: it runs in it, with names that layout makes. The path
// of a device and the address of an export cannot be avoided. They may have only characters that fio takes as they are.
var exactly = map[iotax.PlaceKind]*regexp.Regexp{
	iotax.PlaceDevice: regexp.MustCompile(`^[A-Za-z0-9/._+=@%,~-]+$`),
	iotax.PlaceURL:    regexp.MustCompile(`^[A-Za-z0-9/._+=@%,~:?&[\]-]+$`),
}

// checkExact refuses a place that fio would take for another one.
func checkExact(p iotax.Place) error {
	if ok := exactly[p.Kind]; ok == nil || ok.MatchString(p.Path) {
		return nil
	}
	return fmt.Errorf("fio would cut or split %q: %s", p.Path, map[iotax.PlaceKind]string{
		iotax.PlaceDevice: "a device's path may have only letters, digits and /._+=@%,~-",
		iotax.PlaceURL:    "an address may have only letters, digits and /._+=@%,~:?&[]-"}[p.Kind])
}

// A line is what a fio command line is assembled from.
type line struct {
	fio      []string // the program, with its loader where it was pushed
	job      *resolved
	name     string
	place    string // device, or URL of an export; fio runs in a directory
	device   bool
	export   bool
	engine   string
	seed     uint64
	runtime  int64   // ms
	ramp     int64   // ms
	keepWarm bool    // leave the page cache alone
	rate     float64 // I/Os per second of all jobs together, at random times; 0 is as many as they can
}

// args assembles the command line of one trial.
func (l line) args() []string {
	args := slices.Clone(l.fio)
	if l.onlyReads() {
		args = append(args, "--readonly") // fio's own guard against writing
	}
	return append(append(args, fio.Args(l.jobs())...), "--output-format=json+", "--eta=never")
}

// jobs are the job and those that run beside it, with all their options.
func (l line) jobs() (jobs []fio.JobSpec) {
	for _, r := range l.job.all() {
		name := l.name
		if r.name != "" {
			name += "." + r.name
		}
		jobs = append(jobs, fio.JobSpec{Name: jobName(name), Settings: l.settings(r)})
	}
	return jobs
}

// settings are the options of one job: its own, and iotax's.
func (l line) settings(r *resolved) (settings []fio.Setting) {
	engine := l.engineOf(r)
	set := func(key, value string) { settings = append(settings, fio.Setting{Key: key, Value: value}) }
	has := map[string]bool{}
	for _, s := range r.settings {
		if s.Key == "ioengine" || l.rate > 0 && s.Key == "numjobs" || (l.device || l.export) && s.Key == "nrfiles" {
			continue
		}
		has[s.Key] = true
		settings = append(settings, s)
	}
	set("ioengine", engine)
	switch {
	case diskless(engine):
	case l.device:
		set("filename", l.place)
		set("allow_file_create", "0") // of a node that has gone, fio would make a file
	case l.export:
		set("uri", l.place)
	case r.layout.shared:
		set("filename", r.layout.names()[0])
		set("allow_file_create", "0")
	default:
		set("filename_format", r.layout.format())
		set("allow_file_create", "0") // a file that fio makes would be sparse
	}
	if l.keepWarm && !has["invalidate"] {
		set("invalidate", "0")
	}
	if l.runtime > 0 {
		set("runtime", strconv.FormatInt(l.runtime, 10)+"ms")
		set("time_based", "1")
	}
	if l.ramp > 0 {
		set("ramp_time", strconv.FormatInt(l.ramp, 10)+"ms")
	}
	if l.rate > 0 {
		jobs, each := l.sources()
		set("numjobs", strconv.Itoa(jobs))
		set("rate_iops", strconv.Itoa(each))
		set("rate_process", "poisson")
		set("startdelay", fmt.Sprintf("0-%dms", l.starts(jobs)))
	}
	if has["verify"] {
		set("verify_state_save", "0")
	}
	set("randrepeat", "0")
	set("randseed", strconv.FormatUint(fioSeed(l.seed), 10))
	// Quantiles of the total latency: where submitting blocks (9p, virtio-fs, sshfs), the completion
	// latency is close to nothing. One histogram is as many as fio keeps by itself.
	set("lat_percentiles", "1")
	set("clat_percentiles", "0")
	set("group_reporting", "1")
	return settings
}

// engineOf is the engine of one job.
func (l line) engineOf(r *resolved) string {
	if len(l.job.beside) > 0 && !l.export {
		return cmp.Or(r.engine, l.engine)
	}
	return l.engine
}

func (l line) onlyReads() bool { return !l.job.writes() }

// fioSeed maps a seed into what fio takes: it reads a signed number, and takes 0 for not set in some
// versions.
func fioSeed(seed uint64) uint64 {
	if seed &= 1<<63 - 1; seed == 0 {
		return 1
	}
	return seed
}

// jobName is the workload's name without what fio or a file name would trip over. The prefix keeps
// fio from taking a name such as "global" for a section, and from testing the directory "data" below
// its working directory, if there is one, when the workload is called data.
func jobName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, s)
	return "iotax." + s[:min(len(s), 60)]
}

// fillArgs assembles the command line that writes the files names of its working directory, each once, with random data.
func fillArgs(tool []string, engine string, direct bool, names []string, bytes int64) []string {
	block := bytes & -bytes // the largest power of two in it: every byte must be written
	block = min(max(block, 512), 1<<20)
	d := "0"
	if direct {
		d = "1"
	}
	args := append(slices.Clone(tool), "--output-format=json", "--eta=never")
	// Before the first --name, options are for all jobs.
	args = append(args, "--rw=write", "--bs="+strconv.FormatInt(block, 10), "--size="+strconv.FormatInt(bytes, 10),
		"--ioengine="+engine, "--iodepth=8", "--direct="+d, "--refill_buffers=1", "--randrepeat=0", "--end_fsync=1", "--group_reporting=1")
	for i, n := range names {
		args = append(args, "--name=fill"+strconv.Itoa(i), "--filename="+n)
	}
	return args
}
