package lint

import (
	"regexp"
	"strings"

	"iotax"
	"iotax/fio"
	"iotax/internal/rules"
)

// dataRules check the contents of the data, the units of sizes, and whether latencies are measured.
var dataRules = []rule{
	{Rule: rules.ZeroBuffers, job: zeroBuffers},
	{Rule: rules.UnwrittenFile, file: unwritten},
	{Rule: rules.SizeUnits, job: sizeUnits},
	{Rule: rules.GtodReduce, job: gtodReduce},
}

func zeroBuffers(j *job, r *report) {
	if !j.writes() || !j.onFiles(r.facts) {
		return
	}
	if j.on("zero_buffers") {
		r.at(j, j.first("zero_buffers"), "zero_buffers: all data written is zeroes")
	}
	// With buffer_compress_percentage, only part of each block contains the pattern.
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

// whole is the minimum share of written bytes at which a file counts as fully written. It is below 1 because the end of
// a file may be unwritten.
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
			if j.reads() && !j.writes() && !written[d] && j.text("zonemode") != "zbd" { // zoned jobs read only blocks that were written
				r.as(iotax.Info, j, s, "reads %s: if it is thin, new or trimmed, blocks that were never written are answered from metadata", d)
			}
		}
		if j.writes() && !j.random() {
			for _, f := range j.paths() {
				written[f] = true
			}
		}
	}
}

// paths returns the paths of the job's files. It joins a relative path to the first name in the option `directory`.
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
		// Find a unit whose meaning in fio differs from the usual one.
		unit := binaryUnit.FindString(s.value)
		if s.base == 1000 {
			unit = bareUnit.FindString(s.value)
			if key != "bs" && key != "ba" && key != "bsrange" && key != "bssplit" {
				continue // 100k may mean 100000
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

// latencyOptions lists options that do not work without latency measurements.
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
