package fio

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// aside lists the options that do not change the work of a job.
var aside = []string{
	"name", "description", "filename", "directory", "filename_format", "unique_filename", "opendir", "uri", "allow_file_create", "allow_mounted_write",
	"runtime", "time_based", "ramp_time", "startdelay", "randseed", "randrepeat", "allrandrepeat",
	"stonewall", "wait_for", "new_group", "exitall", "exit_what", "exitall_on_error",
	"group_reporting", "per_job_logs", "write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log", "bwavgtime", "iopsavgtime",
	"log_avg_msec", "log_hist_msec", "log_hist_coarseness", "log_max_value", "log_offset", "log_prio", "log_compression", "log_compression_cpus",
	"log_store_compressed", "log_unix_epoch", "log_alternate_epoch", "log_alternate_epoch_clock_id", "log_entries", "stats", "disk_util",
	"clat_percentiles", "lat_percentiles", "slat_percentiles", "percentile_list", "significant_figures", "unified_rw_reporting",
	"block_error_percentiles", "error_dump", "kb_base", "unit_base", "unlink", "unlink_each_loop", "verify_state_save",
}

// microseconds lists options that are in µs although fio's help calls them integers.
var microseconds = []string{"thinktime", "thinktime_spin", "thinktime_iotime", "max_latency", "latency_target", "latency_window"}

// synonyms maps OPTION=VALUE to the canonical value with the same meaning.
var synonyms = map[string]string{"rw=readwrite": "rw", "sync=0": "none", "sync=1": "sync", "fallocate=0": "none", "fallocate=1": "posix",
	"ioengine=aio": "libaio", "ioengine=linuxaio": "libaio"}

// defaults returns fio's defaults for the options of every job, by primary name.
var defaults = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, o := range tables().Options {
		if o.Default != "" && o.Engine == "" {
			out[o.Name] = o.Default
		}
	}
	return out
})

// always lists the options that Normal includes even if they have the default value.
var always = []string{"rw", "bs", "iodepth", "numjobs", "direct"}

// Normal returns a canonical form of a job's options, so that jobs that do the same work have equal forms. It uses
// primary option names, sizes in bytes, and times in µs. It omits defaults and options that do not change the work.
// The options in `always` are included, with fio's default if the job does not set them. The caller must have replaced
// all variables.
func Normal(settings []Setting) map[string]string {
	out := written(settings)
	for _, k := range always {
		if out[k] == "" {
			out[k] = defaults()[k]
		}
	}
	return out
}

// Partly is like Normal, but for settings that may be only a part of a job's options. It does not add options that
// are not in settings.
func Partly(settings []Setting) map[string]string {
	out := written(settings)
	for _, s := range settings {
		if k := Canonical(s.Key); slices.Contains(always, k) && out[k] == "" {
			out[k] = defaults()[k]
		}
	}
	return out
}

func written(settings []Setting) map[string]string {
	out := map[string]string{}
	for _, s := range settings {
		key, value := Canonical(s.Key), canonicalValue(s)
		switch key {
		case "buffered":
			key, value = "direct", map[string]string{"0": "1", "1": "0"}[value]
		case "rwmixwrite":
			if n, err := strconv.Atoi(value); err == nil {
				key, value = "rwmixread", strconv.Itoa(100-n)
			}
		}
		out[key] = value
	}
	rw := out["rw"]
	if rw == "" {
		rw = defaults()["rw"]
	}
	mode, _, _ := strings.Cut(rw, ":")
	mixed := strings.HasSuffix(mode, "rw")
	if read, write, trim, ok := directions(out["bs"]); ok {
		switch {
		case mixed && read != write:
			out["bs"] = read + "," + write
		case mixed || strings.HasSuffix(mode, "read"):
			out["bs"] = read
		case strings.HasSuffix(mode, "trim"):
			out["bs"] = trim
		case mode == "write" || mode == "randwrite":
			out["bs"] = write
		}
	}
	for k, v := range out {
		if slices.Contains(aside, k) || v == "" || v == usual(k) || k == "rwmixread" && !mixed {
			delete(out, k)
		}
	}
	return out
}

// usual returns the default value of an option. If fio defines no default, usual returns "0" for a numeric option, and
// "" for text.
func usual(key string) string {
	if v, ok := defaults()[key]; ok {
		return canonicalValue(Setting{Key: key, Value: v})
	}
	if o, _ := LookupOption(key); numeric(key, o) {
		return "0"
	}
	return ""
}

// numeric reports whether the values of an option are numbers, sizes, times or booleans. Unknown options count as
// numeric.
func numeric(key string, o Option) bool {
	return o.Type == "" || strings.Contains(o.Type, "integer") || strings.Contains(o.Type, "boolean") || strings.Contains(o.Type, "postfix") ||
		slices.Contains([]string{"filesize", "number_ios", "verify_backlog", "trim_backlog"}, key)
}

func canonicalValue(s Setting) string {
	key, v := Canonical(s.Key), strings.TrimSpace(s.Value)
	if w := synonyms[key+"="+v]; w != "" {
		return w
	}
	base := s.KBBase
	if base == 0 {
		base = 1024
	}
	if mode, step, ok := strings.Cut(v, ":"); ok && key == "rw" {
		return canonicalMode(mode, step, base)
	}
	o, _ := LookupOption(key)
	if v == "" && strings.Contains(o.Type, "boolean") {
		return "1"
	}
	unit := time.Duration(0)
	switch {
	case slices.Contains(microseconds, key):
		unit = time.Microsecond
	case o.Type == "string with time postfix":
		unit = time.Second
	}
	if unit > 0 {
		if d, err := ParseTime(v, unit); err == nil {
			return strconv.FormatInt(d.Microseconds(), 10)
		}
		return v
	}
	if !numeric(key, o) || v == "" {
		return v
	}
	if n, unit, err := ParseShare(v, base); err == nil {
		if unit != 0 {
			return fmt.Sprintf("%d%c", n, unit)
		}
		return strconv.FormatInt(n, 10)
	}
	if !strings.Contains(v, ",") {
		return v
	}
	parts := [3]string{}
	parts[0], parts[1], parts[2] = PerDirection(v)
	for i, p := range parts {
		if n, err := ParseSize(p, base); err == nil {
			parts[i] = strconv.FormatInt(n, 10)
		}
	}
	if parts[0] == parts[1] && parts[1] == parts[2] {
		return parts[0]
	}
	return strings.Join(parts[:], ",")
}

// canonicalMode normalizes an rw value with a colon. `step` is the number of bytes to skip after each sequential I/O,
// or the number of I/Os per random offset.
func canonicalMode(mode, step string, base int) string {
	if w := synonyms["rw="+mode]; w != "" {
		mode = w
	}
	n, err := ParseSize(step, base)
	off := int64(0)
	if strings.HasPrefix(mode, "rand") {
		n, err = strconv.ParseInt(step, 10, 64)
		off = 1
	}
	switch {
	case err != nil:
		return mode + ":" + step
	case n == off:
		return mode
	}
	return mode + ":" + strconv.FormatInt(n, 10)
}

// directions splits a canonical value that has a number for each direction.
func directions(v string) (read, write, trim string, ok bool) {
	parts := strings.Split(v, ",")
	if len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}
