package lint

import (
	"slices"

	"iotax"
)

// depthRules are about queue depths that are asked for and not reached.
var depthRules = []Rule{
	{ID: "libaio-buffered", Severity: iotax.Warning, Title: "libaio on buffered files",
		Why: "libaio is asynchronous only with O_DIRECT. On buffered files the submission itself waits for the I/O, so that they go out one after the other, and `iodepth` is only a number in the output. " +
			"After a run the same is seen as `blocking-submit`. A note where no depth is asked for.",
		Hint: "add `direct=1`; for buffered I/O at a depth use `ioengine=io_uring`, or psync with `numjobs`",
		Bad:  "[read]\nioengine=libaio\niodepth=32\nrw=randread\nsize=64g",
		Good: "[read]\nioengine=libaio\niodepth=32\nrw=randread\nsize=64g\ndirect=1",
		in:   inFile | inPlan | inResult, absent: true, job: libaioBuffered},
	{ID: "depth-of-sync-engine", Severity: iotax.Warning, Title: "a queue depth given to a synchronous engine",
		Why: "sync, psync, vsync, mmap and their kin finish each I/O before the next: fio only prints a note, and the depth stays 1. psync is also the engine of a job that names none, except on Windows, where it is windowsaio. " +
			"`io_submit_mode=offload` keeps the depth, with threads.",
		Hint: "use an asynchronous engine (io_uring, libaio with `direct=1`), or `numjobs`",
		Bad:  "[read]\nioengine=psync\niodepth=32\nrw=randread\ndirect=1\nsize=64g",
		Good: "[read]\nioengine=psync\niodepth=1\nnumjobs=32\nrw=randread\ndirect=1\nsize=64g",
		in:   inFile | inPlan | inResult, job: depthOfSync},
	{ID: "posixaio-depth", Severity: iotax.Warning, Title: "posixaio does not reach the depth",
		Why: "macOS lets a process have 16 asynchronous I/Os (kern.aiomax, kern.aioprocmax): a deeper queue is cut there without a word, and host and guest run at different depths. " +
			"On Linux, glibc plays posixaio with threads and works off the I/Os of a file one after the other. Where the system is not known this is told with an \"if\".",
		Hint: "on Linux use io_uring or libaio; on macOS use an iodepth of at most 16, or more `numjobs`, and the same on all sides",
		Bad:  "[read]\nioengine=posixaio\niodepth=32\nrw=randread\ndirect=1\nsize=64g",
		Good: "[read]\nioengine=posixaio\niodepth=1\nnumjobs=16\nrw=randread\ndirect=1\nsize=64g",
		in:   inFile | inPlan | inResult, job: posixaioDepth},
}

func libaioBuffered(j *job, r *report) {
	e := j.engine(r.facts)
	depth, ok := j.number("iodepth", 1)
	if e != "libaio" && e != "linuxaio" || !ok || j.direct() || j.verifies() || !j.reads() && !j.writes() || !j.onFiles(r.facts) {
		return
	}
	at := j.first("ioengine")
	if j.has("direct", "buffered") {
		at = j.first("direct", "buffered")
	}
	if depth < 2 {
		r.as(iotax.Info, j, at, "libaio on buffered files waits for each I/O, as psync does")
		return
	}
	r.at(j, at, "iodepth=%d with libaio, and the I/O is buffered: the depth is not reached", depth)
}

func depthOfSync(j *job, r *report) {
	e := j.engine(r.facts)
	depth, ok := j.number("iodepth", 1)
	if !slices.Contains(syncEngines, e) || !ok || depth < 2 || j.text("io_submit_mode") == "offload" {
		return
	}
	if j.has("ioengine") {
		r.at(j, j.first("iodepth"), "iodepth=%d with %s, which does one I/O at a time", depth, e)
	} else if !j.ran && j.system(r.facts) == "" {
		r.at(j, j.first("iodepth"), "iodepth=%d and no ioengine: fio takes %s, which does one I/O at a time; on Windows it takes windowsaio, which reaches the depth", depth, e)
	} else if !j.ran { // a result says elsewhere which engine it was
		r.at(j, j.first("iodepth"), "iodepth=%d and no ioengine: fio takes %s, which does one I/O at a time", depth, e)
	}
}

// aioMax is the number of asynchronous I/Os that macOS allows a process.
const aioMax = 16

func posixaioDepth(j *job, r *report) {
	depth, ok := j.number("iodepth", 1)
	if j.engine(r.facts) != "posixaio" || !ok || depth < 2 {
		return
	}
	inProcess := depth
	if clones, ok := j.number("numjobs", 1); ok && j.on("thread") {
		inProcess *= clones
	}
	s, system := j.first("iodepth"), j.system(r.facts)
	switch {
	case system == "linux":
		r.at(j, s, "iodepth=%d with posixaio: on Linux the I/Os of a file are worked off one after the other", depth)
	case system == "darwin" && inProcess > aioMax:
		r.at(j, s, "%d I/Os in flight in one process, of which macOS allows %d", inProcess, aioMax)
	case system == "" && inProcess > aioMax:
		r.as(iotax.Info, j, s, "%d I/Os in flight in one process: if this runs on macOS, %d are allowed; if on Linux, one a file", inProcess, aioMax)
	}
}
