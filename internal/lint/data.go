package lint

import (
	"regexp"
	"strings"

	"iotax"
	"iotax/fio"
)

// dataRules are about what is read and written, and in which units it is said.
var dataRules = []Rule{
	{ID: "zero-buffers", Severity: iotax.Warning, Title: "the data is too easy to store",
		Why: "Zeroes, a repeated pattern and data that compresses or repeats itself flatter storage that is thin, compresses or deduplicates: it stores little of what was written, and a file of zeroes is read from metadata. " +
			"A share of compressible or repeated data that the job asks for in per cent is told as a note: it may be the point of the job.",
		Hint: "leave the option out (fio writes random data), or add `refill_buffers`, and say so beside the number when it is meant",
		Bad:  "[write]\nrw=write\nbs=1m\ndirect=1\nsize=16g\nzero_buffers",
		Good: "[write]\nrw=write\nbs=1m\ndirect=1\nsize=16g\nrefill_buffers",
		in:   inFile | inPlan | inResult, job: zeroBuffers},
	{ID: "unwritten-file", Severity: iotax.Warning, Title: "reads of blocks that nobody wrote",
		Why: "Blocks that were never written are not on the storage: a sparse file, a thin volume or a new or trimmed SSD answers with zeroes from its metadata, faster than it ever could. " +
			"fio writes a file that does not exist before it reads it, but not a device, and not a file that is there and long enough. Told where the file here has holes; of devices with an \"if\".",
		Hint: "write all of it once with incompressible data before reading (rw=write, bs=1m, refill_buffers)",
		Bad:  "[read]\nrw=randread\ndirect=1\nsize=64g\nfilename=/dev/nvme0n1",
		Good: "[fill]\nrw=write\nbs=1m\ndirect=1\nfilename=/dev/nvme0n1\n[read]\nstonewall\nrw=randread\ndirect=1\nsize=64g\nfilename=/dev/nvme0n1",
		in:   inFile, file: unwritten},
	{ID: "size-units", Severity: iotax.Warning, Title: "the unit is not the size it says",
		Why: "In fio's default mode (`kb_base=1024`) the units are the wrong way round: `4k`, `4KB` and `4Ki` are 4096 bytes, and `4KiB` is 4000. With `kb_base=1000` they are as the standard has them: `4KiB` is 4096 and `4k` is 4000. " +
			"Sizes are then off by 2.4 % (k), 4.9 % (m) or 7.4 % (g), and a block of 4000 bytes cannot be used with O_DIRECT at all.",
		Hint: "write k, m, g without kb_base: all versions of fio take them as powers of 1024",
		Bad:  "[read]\nrw=randread\nbs=4KiB\nsize=64g\ndirect=1",
		Good: "[read]\nrw=randread\nbs=4k\nsize=64g\ndirect=1",
		in:   inFile | inResult, job: sizeUnits},
	{ID: "gtod-reduce", Severity: iotax.Warning, Title: "latencies that are not measured",
		Why:  "`gtod_reduce=1` saves the clock readings that latencies are made of: all latencies are then 0 or missing. A note where the job does not ask for latencies; a warning where it does, or where a report would show them.",
		Hint: "leave out `gtod_reduce` where latencies are wanted, or quote nothing but IOPS and bandwidth",
		Bad:  "[read]\nrw=randread\ndirect=1\nsize=64g\ngtod_reduce=1\nwrite_lat_log=read",
		Good: "[read]\nrw=randread\ndirect=1\nsize=64g\nwrite_lat_log=read",
		in:   inFile | inPlan | inResult, job: gtodReduce},
}

func zeroBuffers(j *job, r *report) {
	if !j.writes() || !j.onFiles(r.facts) {
		return
	}
	if j.on("zero_buffers") {
		r.at(j, j.first("zero_buffers"), "zero_buffers: all data written is zeroes")
	}
	// With a share of data that compresses, the pattern is only that share.
	if s, ok := j.get("buffer_pattern"); ok && !j.has("verify") && !j.has("buffer_compress_percentage") {
		r.at(j, s, "every block written is the same pattern (%s)", s.value)
	}
	for _, c := range []struct{ key, does string }{{"buffer_compress_percentage", "compresses"}, {"dedupe_percentage", "repeats itself"}} {
		switch n, ok := j.number(c.key, 0); {
		case !ok || n <= 0:
		case n >= 100:
			r.at(j, j.first(c.key), "%s=%d: all data %s", c.key, n, c.does)
		default:
			r.as(iotax.Info, j, j.first(c.key), "%d %% of the data %s", n, c.does)
		}
	}
	if s, ok := j.get("scramble_buffers"); ok && s.value == "0" && !j.on("refill_buffers") {
		r.at(j, s, "the same data is written again and again: neither scramble_buffers nor refill_buffers is on")
	}
}

// whole is a file that counts as written: the rest may be a tail shorter than a block.
const whole = 0.95

func unwritten(jobs []*job, r *report) {
	written := map[string]bool{}
	for _, j := range jobs {
		if !j.onFiles(r.facts) {
			continue
		}
		s, _ := j.get("filename")
		for _, f := range j.paths() {
			if r.facts.Written != nil && j.reads() && !written[f] {
				if share, ok := r.facts.Written(f); ok && share < whole {
					r.at(j, s, "only %.0f %% of %s are on the storage: the rest is read from metadata", 100*share, f)
				}
			}
		}
		for _, d := range j.devices() {
			if j.reads() && !j.writes() && !written[d] && j.text("zonemode") != "zbd" { // zoned jobs keep to what was written
				r.as(iotax.Info, j, s, "reads %s: if it is thin, new or trimmed, what was never written is answered from metadata", d)
			}
		}
		if j.writes() && !j.random() {
			for _, f := range j.paths() {
				written[f] = true
			}
		}
	}
}

// paths are the files with the directory that they are in.
func (j *job) paths() []string {
	dirs := split(j.text("directory"))
	var out []string
	for _, f := range j.files() {
		if len(dirs) > 0 && !strings.HasPrefix(f, "/") {
			f = strings.TrimSuffix(dirs[0], "/") + "/" + f
		}
		out = append(out, f)
	}
	return out
}

var (
	binaryUnit = regexp.MustCompile(`(?i)\d([kmgtp]ib)\b`)
	bareUnit   = regexp.MustCompile(`(?i)\d([kmgtp])b?\b`)
	sizeKeys   = []string{"bs", "ba", "size", "filesize", "io_size", "offset", "offset_increment", "bsrange", "bssplit"}
)

func sizeUnits(j *job, r *report) {
	for _, key := range sizeKeys {
		s, ok := j.get(key)
		if !ok {
			continue
		}
		// The word that stands for the other thing than what it says.
		unit := binaryUnit.FindString(s.value)
		if s.base == 1000 {
			unit = bareUnit.FindString(s.value)
			if key != "bs" && key != "ba" && key != "bsrange" && key != "bssplit" {
				continue // 100k of something may well be meant
			}
		}
		if unit == "" {
			continue
		}
		word := numbered.FindString(s.value)
		n, err := fio.ParseSize(word, s.base)
		if err != nil {
			continue
		}
		if s.base == 1000 {
			r.at(j, s, "%s=%s with kb_base=1000: %s is %d bytes", key, s.value, word, n)
			r.hint("write %s with i (KiB), or leave out kb_base", key)
		} else {
			r.at(j, s, "%s=%s: to fio %s is %d bytes", key, s.value, word, n)
		}
	}
}

var numbered = regexp.MustCompile(`(?i)\d+[kmgtp](?:ib|b)?\b`)

// latencyOptions ask for latencies explicitly.
var latencyOptions = []string{"write_lat_log", "write_hist_log", "lat_percentiles", "clat_percentiles", "slat_percentiles", "percentile_list", "latency_target", "max_latency", "log_hist_msec"}

func gtodReduce(j *job, r *report) {
	if !j.on("gtod_reduce") || j.aside(r.facts) {
		return
	}
	s := j.first("gtod_reduce")
	for _, key := range latencyOptions {
		if l, ok := j.get(key); ok && l.value != "0" {
			r.at(j, s, "gtod_reduce is on, and %s asks for latencies", key)
			return
		}
	}
	if j.ours || j.ran {
		r.at(j, s, "gtod_reduce is on: latencies are not measured, and those reported are 0")
		return
	}
	r.as(iotax.Info, j, s, "gtod_reduce is on: latencies are not measured")
}
