package lint

import (
	"iotax"
	"iotax/fio"
	"iotax/internal/rules"
)

// depthRules detect queue depths that are requested but not reached.
var depthRules = []rule{
	{Rule: rules.LibaioBuffered, absent: true, job: libaioBuffered},
	{Rule: rules.DepthOfSyncEngine, job: depthOfSync},
	{Rule: rules.PosixaioDepth, job: posixaioDepth},
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
	if !fio.Synchronous(e) || !ok || depth < 2 || j.text("io_submit_mode") == "offload" {
		return
	}
	if j.has("ioengine") {
		r.at(j, j.first("iodepth"), "iodepth=%d with %s, which does one I/O at a time", depth, e)
	} else if j.alone {
		r.as(iotax.Info, j, j.first("iodepth"), "iodepth=%d and no ioengine: unless the command line has --ioengine, fio takes %s, which does one I/O at a time", depth, e)
	} else if !j.ran && j.system(r.facts) == "" {
		r.at(j, j.first("iodepth"), "iodepth=%d and no ioengine: fio takes %s, which does one I/O at a time; on Windows it takes windowsaio, which reaches the depth", depth, e)
	} else if !j.ran { // the options of a result may not include the engine
		r.at(j, j.first("iodepth"), "iodepth=%d and no ioengine: fio takes %s, which does one I/O at a time", depth, e)
	}
}

// aioMax is the macOS limit on asynchronous I/Os per process.
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
