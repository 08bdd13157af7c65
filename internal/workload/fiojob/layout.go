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

// A layout describes the test files of a job. Their names contain their size, so that workloads with files of the same
// size on one target share them.
//
// Each process of a job has its own files, because processes that share a file wait for its inode lock. They share a
// file only if the job names a file, uses offset_increment, or is an open loop.
type layout struct {
	jobs   int   // numjobs; 0 if the job uses no files
	files  int   // per process
	bytes  int64 // size of each file
	shared bool
	tag    string // suffix for files with special data
	part   int    // index of the part; the file names contain it if it is not 0
}

// one reports whether all processes of the job use one file.
func (l layout) one() bool { return l.shared && l.jobs > 0 }

func (l layout) total() int64 { return l.bytes * int64(l.count()) }

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

// format returns fio's filename_format for the files.
func (l layout) format() string { return l.stem() + ".$jobnum.$filenum.dat" }

// names lists the files. resolve limits their number.
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

// special lists the options with which a job writes data other than random bytes. Reading such data is a different
// measurement, so jobs without these options do not share the file.
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

// exactly matches the paths that fio takes literally, by kind of place. fio splits a filename at colons, cuts it at #
// and ;, and removes blanks at its ends. Directories have no pattern, because fio runs in the directory, with file
// names from layout.
var exactly = map[iotax.PlaceKind]*regexp.Regexp{
	iotax.PlaceDevice: regexp.MustCompile(`^[A-Za-z0-9/._+=@%,~-]+$`),
	iotax.PlaceURL:    regexp.MustCompile(`^[A-Za-z0-9/._+=@%,~:?&[\]-]+$`),
}

// checkExact returns an error for a place whose path fio would not take literally.
func checkExact(p iotax.Place) error {
	if ok := exactly[p.Kind]; ok == nil || ok.MatchString(p.Path) {
		return nil
	}
	return fmt.Errorf("fio would cut or split %q: %s", p.Path, map[iotax.PlaceKind]string{
		iotax.PlaceDevice: "a device's path may have only letters, digits and /._+=@%,~-",
		iotax.PlaceURL:    "an address may have only letters, digits and /._+=@%,~:?&[]-"}[p.Kind])
}

// A line holds the parts of a fio command line.
type line struct {
	fio      []string // the program; if iotax copied it, its loader may come first
	job      *resolved
	name     string
	place    string // path of a device, or URL of an export; unused for a directory
	device   bool
	export   bool
	engine   string
	seed     uint64
	runtime  int64   // ms
	ramp     int64   // ms
	keepWarm bool    // do not drop the page cache
	rate     float64 // I/Os per second of all jobs together, at random times; 0 means a closed loop
}

func (l line) args() []string {
	args := slices.Clone(l.fio)
	if l.onlyReads() {
		args = append(args, "--readonly") // fio's own guard against writing
	}
	return append(append(args, fio.Args(l.jobs())...), "--output-format=json+", "--eta=never")
}

// jobs returns the job and the jobs that run at the same time, with all their options.
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

// settings returns the options of one job: its own, and those that iotax sets.
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
		set("allow_file_create", "0") // otherwise fio creates a file if the device node is gone
	case l.export:
		set("uri", l.place)
	case r.layout.shared:
		set("filename", r.layout.names()[0])
		set("allow_file_create", "0")
	default:
		set("filename_format", r.layout.format())
		set("allow_file_create", "0") // otherwise fio creates a sparse file
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
	// Measure quantiles of the total latency: if submission blocks (9p, virtio-fs, sshfs), the completion latency is
	// close to 0. With these two options, fio keeps one histogram, as it does by default.
	set("lat_percentiles", "1")
	set("clat_percentiles", "0")
	set("group_reporting", "1")
	return settings
}

func (l line) engineOf(r *resolved) string {
	if len(l.job.beside) > 0 && !l.export {
		return cmp.Or(r.engine, l.engine)
	}
	return l.engine
}

func (l line) onlyReads() bool { return !l.job.writes() }

// fioSeed converts a seed to a value that fio accepts. fio reads a signed number, and some versions treat 0 as unset.
func fioSeed(seed uint64) uint64 {
	if seed &= 1<<63 - 1; seed == 0 {
		return 1
	}
	return seed
}

// jobName returns the workload's name with the prefix "iotax.", shortened, and without characters that are special in
// fio or in file names. With the prefix, fio does not take a name such as "global" for a section, or a name such as
// "data" for a directory in its working directory.
func jobName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, s)
	return "iotax." + s[:min(len(s), 60)]
}

// fillArgs returns the fio command line that writes the named files in the working directory, each with the given
// number of random bytes.
func fillArgs(tool []string, engine string, direct bool, names []string, bytes int64) []string {
	block := bytes & -bytes // largest power of two that divides the size, so that every byte is written
	block = min(max(block, 512), 1<<20)
	d := "0"
	if direct {
		d = "1"
	}
	if diskless(engine) { // the files belong to another job of the workload
		engine = "sync"
	}
	args := append(slices.Clone(tool), "--output-format=json", "--eta=never")
	// Options before the first --name apply to all jobs.
	args = append(args, "--rw=write", "--bs="+strconv.FormatInt(block, 10), "--size="+strconv.FormatInt(bytes, 10),
		"--ioengine="+engine, "--iodepth=8", "--direct="+d, "--refill_buffers=1", "--randrepeat=0", "--end_fsync=1", "--group_reporting=1")
	for i, n := range names {
		args = append(args, "--name=fill"+strconv.Itoa(i), "--filename="+n)
	}
	return args
}
