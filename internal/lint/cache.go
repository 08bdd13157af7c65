package lint

import (
	"fmt"

	"iotax"
)

// cacheRules are about memory that answers in place of the storage.
var cacheRules = []Rule{
	{ID: "file-fits-memory", Severity: iotax.Warning, Title: "buffered reads of a file that fits into memory",
		Why: "What was read once stays in the page cache. When a buffered job comes back to the same blocks (a run by time, several loops or clones, random reads without a map) and the file is smaller than the memory, " +
			"it measures the memory of the machine, or of the host below it. One single pass is only noted: fio drops the file from the cache of its own machine first (`invalidate=1`), but a host or a server below still has what fio has just laid out.",
		Hint: "use `direct=1`, or a file of at least twice the memory",
		Bad:  "[read]\nrw=randread\nbs=4k\nsize=1g\ntime_based\nruntime=60",
		Good: "[read]\nrw=randread\nbs=4k\nsize=1g\ntime_based\nruntime=60\ndirect=1",
		in:   inFile | inPlan, job: fitsMemory},
	{ID: "buffered-write-unsynced", Severity: iotax.Warning, Title: "buffered writes that nothing waits for",
		Why:  "A buffered write is done when the page cache has the data. Without a flush at the end (or every so often) the time until it is on the storage is not measured: the number is that of memory, for as long as memory lasts.",
		Hint: "add `end_fsync=1` (or `fsync`, `fdatasync`, `sync`), or use `direct=1`",
		Bad:  "[write]\nrw=write\nbs=1m\nsize=8g",
		Good: "[write]\nrw=write\nbs=1m\nsize=8g\nend_fsync=1",
		in:   inFile | inPlan | inResult, absent: true, job: unsynced},
	{ID: "overwritten-in-cache", Severity: iotax.Warning, Title: "buffered writes to the same blocks again and again",
		Why: "A trial by time that writes a file through the page cache comes back to blocks that still wait there to be written. What is overwritten in memory never reaches the storage, which gets the last version of each block, by the flush at the end: " +
			"that flush is in the rate, but it is a flush of the file's size at most, however much was written. The number is that of memory, and so is the ratio of two of them.",
		Hint: "use `direct: 1`, a flush every so often (`fsync: 32`), or a file of several times the memory",
		Bad:  "targets:\n  a: {dir: /var/tmp}\nworkloads:\n  w: {fio: {rw: randwrite, bs: 4k, size: 1GiB, direct: 0, end_fsync: 1}}",
		Good: "targets:\n  a: {dir: /var/tmp}\nworkloads:\n  w: {fio: {rw: randwrite, bs: 4k, size: 1GiB, direct: 1, end_fsync: 1}}",
		in:   inFile | inPlan, job: overwritten},
	{ID: "randrepeat", Severity: iotax.Info, Title: "every run reads the same offsets",
		Why: "`randrepeat` is on by default: the random offsets of a job are the same in every run. Run again, it asks for what a cache of the host, the server or the drive has just seen. " +
			"A job that sets it explicitly (`randrepeat=1`, `allrandrepeat=1`) gets a warning, all others a note. iotax itself gives every block of trials a seed of its own.",
		Hint: "add `randrepeat=0`, or a `randseed` that is the same for all targets and new for each repetition",
		Bad:  "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\nrandrepeat=1",
		Good: "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\nrandrepeat=0",
		in:   inFile | inResult, absent: true, job: randrepeat},
}

// returns reports whether the job comes back to blocks that it has read.
func (j *job) returns() (string, bool) {
	loops, ok := j.number("loops", 1)
	clones, whole := j.number("numjobs", 1)
	switch {
	case j.ours:
		return "the trial goes on for its time", true
	case j.on("time_based") && j.has("runtime"):
		return "time_based", true
	case ok && loops > 1:
		return fmt.Sprintf("loops=%d", loops), true
	case whole && clones > 1 && j.has("filename") && !j.has("offset_increment"):
		return fmt.Sprintf("%d clones on one file", clones), true
	case j.random() && j.on("norandommap"):
		return "norandommap", true
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
		r.as(iotax.Info, j, s, "buffered reads of %s, and the machine has %s of memory: fio drops the file from its cache, but not from that of a host or a server below", bytesText(size), bytesText(r.facts.Memory))
	case !again:
	case r.facts.Memory == 0:
		r.as(iotax.Info, j, s, "buffered reads come back to the same %s (%s): they come from memory, if the machine has more than that", bytesText(size), why)
	case size < r.facts.Memory:
		r.at(j, s, "buffered reads come back to the same %s (%s), and the machine has %s of memory", bytesText(size), why, bytesText(r.facts.Memory))
	}
}

// flushes are the options that make a job wait for the storage.
var flushes = []string{"end_fsync", "fsync", "fdatasync", "sync", "fsync_on_close", "sync_file_range", "write_barrier"}

func unsynced(j *job, r *report) {
	if !j.writes() || j.direct() || j.verifies() || !j.onFiles(r.facts) {
		return
	}
	for _, f := range flushes {
		if s, ok := j.get(f); ok && s.value != "0" && s.value != "none" {
			return
		}
	}
	r.at(j, j.first("rw"), "rw=%s is buffered, and no fsync is asked for", j.mode())
}

// flushed are the options by which a job waits for the storage while it writes.
var flushed = []string{"fsync", "fdatasync", "sync", "sync_file_range", "write_barrier"}

func overwritten(j *job, r *report) {
	size, known := j.covered()
	if j.sized || !j.writes() || j.direct() || j.verifies() || !known || !j.onFiles(r.facts) || r.facts.Memory > 0 && size > r.facts.Memory {
		return
	}
	for _, f := range flushed {
		if s, ok := j.get(f); ok && s.value != "0" && s.value != "none" {
			return
		}
	}
	if !j.ours { // without any flush it is buffered-write-unsynced
		_, again := j.returns()
		if !again || !j.on("end_fsync") && !j.on("fsync_on_close") || r.facts.Memory == 0 {
			return
		}
		r.at(j, j.first("rw"), "rw=%s is buffered, and writes the same %s again and again: what is overwritten in the page cache never reaches the storage", j.mode(), bytesText(size))
		return
	}
	r.at(j, j.first("rw"), "rw=%s is buffered, and writes the same %s for the time of the trial: what is overwritten in the page cache never reaches the storage", j.mode(), bytesText(size))
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
