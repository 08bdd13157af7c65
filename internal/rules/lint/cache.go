package lint

import (
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/rules"
)

// cacheRules detect I/O that memory serves instead of the storage.
var cacheRules = []rule{
	{Rule: rules.FileFitsMemory, job: fitsMemory},
	{Rule: rules.BufferedWriteUnsynced, absent: true, job: unsynced},
	{Rule: rules.OverwrittenInCache, job: overwritten},
	{Rule: rules.Randrepeat, absent: true, job: randrepeat},
}

const (
	timeBased   = "time_based"
	clonesOnOne = " clones on one file"
)

// `returns` reports whether the job may access blocks that an earlier access left in the cache, and the reason.
func (j *job) returns() (string, bool) {
	loops, ok := j.number("loops", 1)
	clones, whole := j.number("numjobs", 1)
	switch {
	case j.ours && !j.sized:
		return "a trial repeats until its time is over", true
	case j.on("time_based") && j.has("runtime"):
		return timeBased, true
	case ok && loops > 1:
		return fmt.Sprintf("loops=%d", loops), true
	case whole && clones > 1 && j.has("filename") && !j.has("offset_increment"):
		return fmt.Sprintf("%d%s", clones, clonesOnOne), true
	case j.random() && j.on("norandommap"):
		return "norandommap", true
	case !j.reads(): // the options below are about blocks that a job reads
	case j.set["invalidate"].value == "0" && j.has("invalidate"):
		return "invalidate=0", true
	case j.on("pre_read"):
		return "pre_read", true
	}
	return "", false
}

func fitsMemory(j *job, r *report) {
	why, again := j.returns()
	size, known := j.covered()
	if !j.reads() || j.direct() || j.verifies() || !known || !j.onFiles(r.facts) || j.engine(r.facts) == "mmap" {
		return
	}
	s := j.first("size", "filesize")
	switch {
	case !again && size < r.facts.Memory:
		r.as(iotax.Info, j, s, "buffered reads of %s, and the machine has %s of memory: fio drops the file from its cache, but not from that of a host or a server below", rules.Bytes(size), rules.Bytes(r.facts.Memory))
	case !again:
	case r.facts.Memory == 0:
		r.as(iotax.Info, j, s, "buffered reads read the same %s again (%s): they come from memory if the machine has more than that", rules.Bytes(size), why)
	case size < r.facts.Memory:
		r.at(j, s, "buffered reads read the same %s again (%s), and the machine has %s of memory", rules.Bytes(size), why, rules.Bytes(r.facts.Memory))
	}
}

// flushes lists the options that make a job wait for the storage.
var flushes = []string{"end_fsync", "fsync", "fdatasync", "sync", "fsync_on_close", "sync_file_range", "write_barrier"}

// waits reports whether any of the given options is on.
func (j *job) waits(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		s, ok := j.get(o)
		return ok && s.value != "0" && s.value != "none"
	})
}

func unsynced(j *job, r *report) {
	if !j.writes() || j.direct() || j.verifies() || !j.onFiles(r.facts) || j.waits(flushes) {
		return
	}
	r.at(j, j.first("rw"), "rw=%s is buffered, without fsync", j.mode())
}

// flushed lists the options that make a job wait for the storage during its writes.
var flushed = []string{"fsync", "fdatasync", "sync", "sync_file_range", "write_barrier"}

func overwritten(j *job, r *report) {
	size, known := j.covered()
	if j.sized || !j.writes() || j.direct() || j.verifies() || !known || !j.onFiles(r.facts) || r.facts.Memory > 0 && size > r.facts.Memory {
		return
	}
	if j.waits(flushed) {
		return
	}
	if !j.ours {
		why, _ := j.returns()
		again := why == timeBased || strings.HasSuffix(why, clonesOnOne) // each pass of loops= ends with the flush
		// Skip jobs without any flush, because buffered-write-unsynced reports them.
		if !again || !j.on("end_fsync") && !j.on("fsync_on_close") || r.facts.Memory == 0 {
			return
		}
		r.at(j, j.first("rw"), "rw=%s is buffered, and writes the same %s again and again: what is overwritten in the page cache never reaches the storage", j.mode(), rules.Bytes(size))
		return
	}
	r.at(j, j.first("rw"), "rw=%s is buffered, and writes the same %s for the time of the trial: what is overwritten in the page cache never reaches the storage", j.mode(), rules.Bytes(size))
}

func randrepeat(j *job, r *report) {
	if !j.random() || !j.reads() || j.verifies() || !j.onFiles(r.facts) || j.has("randseed") {
		return
	}
	for _, key := range []string{"randrepeat", "allrandrepeat"} {
		s, ok := j.get(key)
		switch {
		case !ok:
		case j.on(key):
			r.as(iotax.Warning, j, s, "%s is on: every run reads the same offsets", key)
			return
		default:
			return
		}
	}
	r.at(j, j.first("rw"), "rw=%s reads the same offsets in every run: randrepeat is on by default", j.mode())
}
