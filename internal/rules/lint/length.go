package lint

import (
	"time"

	"iotax"
	"iotax/internal/rules"
)

// lengthRules detect runs that are too short for a reliable result.
var lengthRules = []rule{
	{Rule: rules.ShortRun, job: shortRun, plan: shortTrials},
	{Rule: rules.EndsBySize, job: endsBySize, plan: sizedTrials},
	{Rule: rules.RampNotShorter, job: rampNotShorter},
}

const (
	// quickLook is the shortest duration of a run or trial that gives no finding.
	quickLook = 5 * time.Second
	// plausible is a throughput in B/s that common storage, such as a SATA SSD, reaches.
	plausible = 500e6
)

func shortRun(j *job, r *report) {
	d, ok := j.duration("runtime")
	if !ok || d <= 0 || d >= quickLook || j.aside(r.facts) {
		return
	}
	r.at(j, j.first("runtime"), "a run of %s", rules.Time(d))
}

// aside reports whether the job does not measure storage.
func (j *job) aside(facts Facts) bool {
	switch j.engine(facts) {
	case "cpuio", "exec", "null", "cpp_null":
		return true
	}
	return false
}

// pass estimates how long a job that ends after its size (times loops) takes on common storage. The second result is
// false if the duration cannot be estimated.
func (j *job) pass() (time.Duration, bool) {
	if j.slowed() || j.has("number_ios", "fill_device", "file_append", "zonemode", "verify", "read_iolog") || j.on("time_based") && j.has("runtime") {
		return 0, false
	}
	n, ok := j.bytes()
	if j.has("io_size") {
		n, ok = j.size("io_size", 0)
		if clones, whole := j.number("numjobs", 1); ok && whole && clones > 0 {
			n *= clones
		}
	}
	loops, whole := j.number("loops", 1)
	if !ok || !whole || n <= 0 || loops < 1 {
		return 0, false
	}
	// With a small block size, IOPS limit the throughput. Assume at most 100,000 IOPS.
	rate := plausible
	if bs, ok := j.size("bs", 4096); ok && bs > 0 && !j.has("bsrange", "bssplit") {
		rate = min(rate, 100e3*float64(bs))
	}
	s := float64(n) * float64(loops) / rate
	return time.Duration(min(s, 1e9) * float64(time.Second)), true
}

func endsBySize(j *job, r *report) {
	if !j.onFiles(r.facts) || j.mode() == "" {
		return
	}
	size := j.first("size", "filesize", "io_size")
	takes, known := j.pass()
	asked, limited := j.duration("runtime")
	if j.on("time_based") && !j.has("runtime") {
		r.at(j, j.first("time_based"), "time_based without runtime: fio ignores it, and the job ends when its size is through")
		return
	}
	if !known {
		return
	}
	switch {
	case limited && asked > takes && takes < 2*quickLook:
		r.at(j, size, "without time_based the job ends when its %s is through, after about %s of %s on a fast drive", size.value, rules.Time(takes), rules.Time(asked))
	case !j.has("runtime") && takes < quickLook:
		r.as(iotax.Info, j, size, "the job ends when its %s is through: after about %s on a fast drive", size.value, rules.Time(takes))
	}
}

// sizedTrials implements the rule ends-by-size for a plan.
func sizedTrials(p *planView, r *report) {
	for _, j := range p.jobs {
		if takes, known := j.pass(); j.sized && known && takes < quickLook {
			size := j.first("size", "filesize", "io_size")
			r.at(j, size, "a trial ends when its %s is through: after about %s on a fast drive", size.value, rules.Time(takes))
			r.hits[len(r.hits)-1].hint = "leave `by_size` out, or give it a larger `size`"
		}
	}
}

func rampNotShorter(j *job, r *report) {
	ramp, ok1 := j.duration("ramp_time")
	run, ok2 := j.duration("runtime")
	if !ok1 || ramp <= 0 {
		return
	}
	longer := ok2 && run > 0 && ramp >= run
	if takes, known := j.pass(); known && takes < ramp && !j.ran { // a result shows what was measured, and its JSON does not show every time_based
		r.at(j, j.first("ramp_time"), "the size is through after about %s on a fast drive, inside the ramp of %s: nothing is measured", rules.Time(takes), rules.Time(ramp))
		return
	}
	if longer {
		r.at(j, j.first("ramp_time"), "a ramp of %s before a run of %s", rules.Time(ramp), rules.Time(run))
	}
}
