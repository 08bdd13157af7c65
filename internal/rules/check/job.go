package check

import (
	"slices"
	"strconv"
	"strings"

	"iotax"
)

// comparedFacts lists facts that must be equal on all targets, unless the plan varies them.
var comparedFacts = []string{iotax.FactFio, iotax.FactIOEngine, iotax.FactDirect, iotax.FactIODepth, iotax.FactNumJobs, "bs", "rw", "size"}

// RunValues names the values of trials that Run reads in addition to the workload's metrics.
func RunValues() []string {
	names := []string{"duration", iotax.ValueMixedIOPS, "mixed.latency.mean"}
	for _, d := range directions {
		names = append(names, d+".bytes", d+".iops", d+".latency.mean", "device."+d+".bytes", "device."+d+".ios")
	}
	return names
}

// RunFacts returns the facts of a trial that Run reads. Commands differ between trials, so RunFacts keeps only their
// options that limit the rate.
func RunFacts(t *iotax.Trial) map[string]string {
	out := map[string]string{}
	for _, name := range append([]string{iotax.FactClients}, comparedFacts...) {
		if v, ok := t.Facts[name]; ok {
			out[name] = v
		}
	}
	for _, l := range limits {
		if strings.Contains(t.Facts[iotax.FactCommand], l) {
			out[iotax.FactCommand] += l
		}
	}
	return out
}

// limits lists the fio options that limit the rate of a job.
var limits = []string{"--rate=", "--rate_iops=", "--thinktime="}

// parts returns the values of a fact, one for each job that runs at the same time.
func (r reading) parts(fact string) []string { return strings.Split(r.fact(fact), " + ") }

// diskless reports whether the counted bytes include bytes of fio's engine null, which does not access storage.
func (r reading) diskless() bool { return slices.Contains(r.parts(iotax.FactIOEngine), "null") }

// number returns the value of a fact if it is a positive number.
func (r reading) number(fact string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(r.fact(fact)), 64)
	return v, err == nil && v > 0
}

// jobs returns the number of the generator's threads per client, and whether it is known. If the job does not set
// numjobs, the number is 1, and it is known if the I/O engine is known.
func (r reading) jobs() (float64, bool) {
	if r.fact(iotax.FactNumJobs) == "" {
		return 1, r.fact(iotax.FactIOEngine) != ""
	}
	var sum float64
	for _, part := range r.parts(iotax.FactNumJobs) {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil || !(n > 0) {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// clients returns the number of targets that did the work at the same time, each with its own jobs.
func (r reading) clients() float64 {
	if n, err := strconv.Atoi(r.fact(iotax.FactClients)); err == nil && n > 1 {
		return float64(n)
	}
	return 1
}

func (r reading) limited() bool {
	for _, l := range limits {
		if strings.Contains(r.fact(iotax.FactCommand), l) {
			return true
		}
	}
	return false
}
