package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"iotax"
	"iotax/report/format"
)

// says returns the sentences of a kind.
func says(r *Report, k SentenceKind) []Sentence {
	var out []Sentence
	for _, s := range r.Assessment.Sentences {
		if s.Kind == k {
			out = append(out, s)
		}
	}
	return out
}

func warn(rule string) iotax.Finding {
	return iotax.Finding{Rule: rule, Severity: iotax.Warning, Evidence: "seen"}
}

func reads(target string, iops float64, more func(*cellSpec)) cellSpec {
	c := cellSpec{target: target, workload: "4k read", values: map[string]float64{"read.iops": iops, "read.bandwidth": iops * 4096}}
	if more != nil {
		more(&c)
	}
	return c
}

var readMetrics = map[string][]string{"4k read": {"read.iops"}, "network": {"bandwidth"}}

// An assessCase is a run and what its assessment says of it.
type assessCase struct {
	blocks  int // 8 where it is 0
	cells   []cellSpec
	change  func(*iotax.Run, []*iotax.Trial)
	kind    SentenceKind // of the sentence wanted; "" is the answer
	want    string       // a part of it; with a kind, "" means there must be none of that kind
	without string       // not in any sentence
}

func (c assessCase) report() *Report {
	run, trials := runOf(cmp.Or(c.blocks, 8), readMetrics, c.cells...)
	if c.change != nil {
		c.change(run, trials)
	}
	return New(run, trials)
}

// causeCases are about the causes in the answer.
func causeCases() map[string]assessCase {
	disk := reads("disk", 10000, nil)
	finding := func(target string, iops float64, rule string) cellSpec {
		return reads(target, iops, func(c *cellSpec) { c.findings = []iotax.Finding{warn(rule)} })
	}
	line := func(rate string) cellSpec {
		return reads("export", 1000, func(c *cellSpec) { c.facts = map[string]string{"line.rate": rate} })
	}
	network := cellSpec{target: "tcp", workload: "network", values: map[string]float64{"bandwidth": 1000 * 4096 / .93}}
	replicated := func(metric string) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) {
			r.Workloads[0].Metrics, r.Workloads[1].Kind = []string{metric}, "network"
			r.Targets[1].Facts = map[string]string{"s3.copies": "3, of which 2 must have a write"}
			against(r, "three", "s3", "tcp")
		}
	}
	depth := func(c *cellSpec) {
		c.facts = map[string]string{"iodepth": "8", "numjobs": "4"}
		c.values["read.latency.mean"] = .001 // 1.0 in flight at 1000/s
	}
	return map[string]assessCase{
		"line rate": {cells: []cellSpec{disk, line(fmt.Sprint(1000 * 4096 / .93))}, want: "; it is at 93 % of the line rate, so the network is the limit"},
		"line rate of a target": {cells: []cellSpec{disk, reads("export", 1000, nil)}, want: "; it is at 93 % of the line rate, so the network is the limit",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Targets[1].Facts = map[string]string{"line.rate": fmt.Sprint(1000 * 4096 / .93)}
			}},
		"measured network": {cells: []cellSpec{disk, reads("export", 1000, nil), network}, want: "; it is at 93 % of the measured line rate (tcp), so the network is the limit",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Workloads[1].Kind = "network"
				against(r, "export", "disk", "tcp")
			}},
		"other work of no network": {cells: []cellSpec{disk, reads("export", 1000, nil), network}, without: "limit",
			change: func(r *iotax.Run, _ []*iotax.Trial) { against(r, "export", "disk", "tcp") }},
		"line not used":        {cells: []cellSpec{disk, line("41000000")}, want: "; it is at 10 % of the line rate, so the network is not the limit"},
		"line half used":       {cells: []cellSpec{disk, line(fmt.Sprint(1000 * 4096 / .7))}, without: "network"},
		"faster than the line": {cells: []cellSpec{disk, line(fmt.Sprint(1000 * 4096 / 1.2))}, without: "limit"},
		"copies on the line": {cells: []cellSpec{{target: "s3", workload: "put", values: map[string]float64{"upload.bandwidth": 1000}}, {target: "three", workload: "put", values: map[string]float64{"upload.bandwidth": 460}}, cellSpec{target: "tcp", workload: "network", values: map[string]float64{"bandwidth": 1000}}},
			want: "; with the 2 copies that the server sends on it is at 92 % of the measured line rate (tcp), so the network is the limit", without: "not the limit", change: replicated("upload.bandwidth")},
		"reads are not sent on": {cells: []cellSpec{{target: "s3", workload: "put", values: map[string]float64{"download.bandwidth": 1000}}, {target: "three", workload: "put", values: map[string]float64{"download.bandwidth": 460}}, cellSpec{target: "tcp", workload: "network", values: map[string]float64{"bandwidth": 1000}}},
			want: "; it is at 46 % of the measured line rate (tcp), so the network is not the limit", without: "copies", change: replicated("download.bandwidth")},
		"no line":                 {cells: []cellSpec{disk, line("")}, without: "line"},
		"blocking":                {cells: []cellSpec{disk, reads("share", 1000, func(c *cellSpec) { depth(c); c.findings = []iotax.Finding{warn("blocking-submit")} })}, want: "; submission blocks there, with 1 in flight where 32 were asked for"},
		"blocking, depth unknown": {cells: []cellSpec{disk, finding("share", 1000, "blocking-submit")}, want: "; submission blocks there, whatever the queue depth"},
		"blocking on both":        {cells: []cellSpec{finding("disk", 10000, "blocking-submit"), finding("share", 1000, "blocking-submit")}, without: "submission"},
		"depth":                   {cells: []cellSpec{disk, reads("share", 1000, func(c *cellSpec) { depth(c); c.findings = []iotax.Finding{warn("depth-not-reached")} })}, want: "; by Little's law 1 were in flight where 32 were asked for"},
		"depth, no finding":       {cells: []cellSpec{disk, reads("share", 1000, depth)}, without: "Little"},
		"generator":               {cells: []cellSpec{disk, finding("share", 1000, "generator-bound")}, want: "; its load generator had no more CPU, so the CPU is the limit"},
		"generator of the baseline": {cells: []cellSpec{finding("disk", 10000, "generator-bound"), reads("share", 1000, nil)},
			want: "; disk was itself limited by its CPU, so that the loss may be larger"},
		"generator of both": {cells: []cellSpec{finding("disk", 10000, "generator-bound"), finding("share", 1000, "generator-bound")}, want: "disk's 4k read IOPS", without: "CPU"},
		"near the ceiling": {cells: []cellSpec{disk, reads("share", 6000, nil)}, want: "; disk was itself limited by its CPU, so that the loss may be larger",
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Calibration = &iotax.Calibration{NullIOPS: 15000} }},
		"at the ceiling itself": {cells: []cellSpec{disk, reads("share", 6000, nil)}, want: "; it is near to what the CPU can do at all",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Calibration = &iotax.Calibration{NullIOPS: 11000}
				r.Targets[0].Facts = map[string]string{"machine.kernel": "6.1"} // elsewhere: the ceiling is not its own
			}},
		"both at the ceiling": {cells: []cellSpec{disk, reads("share", 6000, nil)}, want: "disk's 4k read IOPS", without: "CPU",
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Calibration = &iotax.Calibration{NullIOPS: 11000} }},
		"far from the ceiling": {cells: []cellSpec{disk, reads("share", 6000, nil)}, without: "CPU",
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Calibration = &iotax.Calibration{NullIOPS: 1e6} }},
		"steal":         {cells: []cellSpec{disk, finding("share", 1000, "steal")}, want: "; CPU time was stolen from it"},
		"steal of both": {cells: []cellSpec{finding("disk", 10000, "steal"), finding("share", 1000, "steal")}, want: "disk's 4k read IOPS", without: "stolen"},
		"throttle":      {cells: []cellSpec{disk, finding("share", 1000, "throttle-step")}, want: "; a limit set in during its trials"},
		"drain":         {cells: []cellSpec{disk, finding("share", 1000, "drain-counted")}, want: "; the end of its queue was counted as time"},
		"drain, bandwidth": {cells: []cellSpec{disk, finding("share", 1000, "drain-counted")}, want: "4k read bandwidth", without: "queue",
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Workloads[0].Metrics = []string{"read.bandwidth"} }},
		"few trials said so": {cells: []cellSpec{disk, finding("share", 1000, "steal")}, without: "stolen",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts[:len(ts)-4] {
					x.Findings = nil
				}
			}},
		"cache, gain":                  {cells: []cellSpec{disk, finding("share", 20000, "cache-served")}, want: "; a cache answered a part"},
		"writes, gain":                 {cells: []cellSpec{disk, finding("share", 20000, "write-absorbed")}, want: "; a cache took a part of the writes"},
		"host, gain":                   {cells: []cellSpec{disk, finding("share", 20000, "device-did-less")}, want: "; the host's cache did a part of it"},
		"baseline held":                {cells: []cellSpec{finding("disk", 10000, "generator-bound"), reads("share", 20000, nil)}, want: "; disk was limited by the CPU of its load generator"},
		"both held":                    {cells: []cellSpec{finding("disk", 10000, "generator-bound"), finding("share", 20000, "generator-bound")}, want: "disk's 4k read IOPS", without: "CPU"},
		"a loss is no work of a cache": {cells: []cellSpec{disk, finding("share", 1000, "cache-served")}, without: "answered a part"},
		"silence":                      {cells: []cellSpec{disk, reads("share", 1000, nil)}, without: ";"},
	}
}

// Every cause is told where a check supports it, and is not told where the check is silent, where it
// spoke in a few trials only, or where it holds for both sides.
func TestCauses(t *testing.T) {
	for name, c := range causeCases() {
		r := c.report()
		if !strings.Contains(r.Answer, c.want) {
			t.Errorf("%s: %q, want %q in it", name, r.Answer, c.want)
		}
		for _, s := range r.Assessment.Sentences {
			if c.without != "" && strings.Contains(s.Text, c.without) {
				t.Errorf("%s: %q, with %q", name, s.Text, c.without)
			}
			for _, cause := range s.Causes {
				if !strings.Contains(s.Text, cause.Text) || cause.Rule == "" {
					t.Errorf("%s: %q does not tell %+v", name, s.Text, cause)
				}
			}
		}
	}
}

// sentenceCases are about the sentences behind the answer.
func sentenceCases() map[string]assessCase {
	disk, loss := reads("disk", 10000, nil), reads("a", 5000, nil)
	bad := iotax.Finding{Rule: "cache-served", Severity: iotax.Invalid, Evidence: "3 %"}
	cond := func(f iotax.Finding) cellSpec {
		return reads("b", 5000, func(c *cellSpec) { c.findings = []iotax.Finding{f} })
	}
	condemned := func(rule string) cellSpec {
		return cond(iotax.Finding{Rule: rule, Severity: iotax.Invalid, Evidence: "seen"})
	}
	noisy := func(target string, sd float64) cellSpec {
		return reads(target, 5000, func(c *cellSpec) { c.noise = sd })
	}
	clone := func(first, second float64) cellSpec {
		return cellSpec{target: "a", workload: "clone", values: map[string]float64{"volume.first.duration": first, "volume.second.duration": second}}
	}
	s3 := func(bandwidth float64) []cellSpec {
		return []cellSpec{disk, loss, {target: "s3", workload: "get", values: map[string]float64{"download.bandwidth": bandwidth}},
			{target: "tcp", workload: "network", values: map[string]float64{"bandwidth": 1e6}}}
	}
	line := func(r *iotax.Run, _ []*iotax.Trial) {
		against(r, "s3", "tcp")
		for i := range r.Workloads {
			if r.Workloads[i].Name == "network" {
				r.Workloads[i].Kind = "network"
			}
		}
	}
	s3put := func(bandwidth float64) []cellSpec {
		out := s3(bandwidth)
		out[2].values = map[string]float64{"upload.bandwidth": bandwidth}
		return out
	}
	copied := func(copies string) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, ts []*iotax.Trial) {
			line(r, ts)
			r.Targets[2].Facts = map[string]string{"s3.copies": copies}
		}
	}
	durability := func(d iotax.Durability) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) { r.Targets[2].Durability = d }
	}
	both := func(target string, read, write float64) []cellSpec {
		return []cellSpec{reads(target, read, nil), {target: target, workload: "4k write", values: map[string]float64{"write.iops": write}}}
	}
	parts := func(noise float64, mibs ...float64) []cellSpec {
		out := []cellSpec{disk, loss}
		for i, x := range mibs {
			part := fmt.Sprintf("%dMiB", 8<<i)
			out = append(out, cellSpec{target: "s3", workload: "multipart part=" + part, values: map[string]float64{"upload.bandwidth": x * (1 << 20)}, noise: noise,
				facts: map[string]string{"size": "64MiB", "count": "1", "part": part, "concurrency": "4"}})
		}
		return out
	}
	volume := func(lazyFirst float64, size string) []cellSpec {
		one := func(name, lazy, size string, first, whole, steady float64) cellSpec {
			return cellSpec{target: "export", workload: name, values: map[string]float64{"first.io": first, "duration": whole, "steady.read.bandwidth": steady}, facts: map[string]string{"lazy": lazy, "size": size}}
		}
		return []cellSpec{disk, loss, one("copy", "no", "1", 3, 3, 1e9), one("overlay", "yes", size, lazyFirst, 6, 5e8)}
	}
	kinds := func(name, kind string) func(*iotax.Run, []*iotax.Trial) {
		return func(r *iotax.Run, _ []*iotax.Trial) {
			for i := range r.Workloads {
				if strings.HasPrefix(r.Workloads[i].Name, name) || name == "*" && r.Workloads[i].Name != "4k read" {
					r.Workloads[i].Kind = kind
					if kind == "materialise" {
						r.Workloads[i].Metrics = []string{"duration", "first.io", "steady.read.bandwidth"}
					}
				}
			}
		}
	}
	return map[string]assessCase{
		"loss beside the answer": {cells: []cellSpec{disk, loss, reads("b", 2000, nil)}, kind: SaysLoss, want: "a keeps 50"},
		"losses of a target":     {cells: slices.Concat(both("disk", 10000, 8000), both("b", 2000, 1000), both("a", 5000, 4800)), kind: SaysLoss, want: "a keeps 50.0 % [49.5–50.5] of disk's 4k read IOPS and 60.0 % [59.4–60.6] of its 4k write IOPS."},
		"the answer's target":    {cells: slices.Concat(both("disk", 10000, 8000), both("a", 5000, 4800)), kind: SaysLoss, want: "a also keeps 59.8 % [59.4–60.3] of disk's 4k write IOPS."},
		"no loss":                {cells: []cellSpec{disk, reads("a", 10000, nil)}, kind: SaysLoss},
		"gain":                   {cells: []cellSpec{disk, loss, reads("b", 20000, nil)}, kind: SaysGain, want: "b reaches 2.0"},
		"no gain":                {cells: []cellSpec{disk, loss}, kind: SaysGain},
		"same":                   {cells: []cellSpec{disk, loss, reads("b", 10000, nil)}, kind: SaysSame, want: "Nothing lost, within ± 5 %: b / 4k read."},
		"all the same":           {cells: []cellSpec{disk, reads("a", 10000, nil)}, kind: SaysSame, want: "Nothing is lost: the comparison with disk is within ± 5 %."},
		"not the same":           {cells: []cellSpec{disk, loss, reads("b", 9000, nil)}, kind: SaysSame},
		"invalid":                {cells: []cellSpec{disk, loss, cond(bad)}, kind: SaysInvalid, want: "Not to be quoted: b / 4k read: a cache answered, not the device."},
		"writes absorbed":        {cells: []cellSpec{disk, loss, condemned("write-absorbed")}, kind: SaysInvalid, want: "Not to be quoted: b / 4k read: a cache took the writes, not the device."},
		"above the line":         {cells: []cellSpec{disk, loss, condemned("line-rate-exceeded")}, kind: SaysInvalid, want: "it is faster than the line to the storage, so a cache answered."},
		"never measured":         {cells: []cellSpec{disk, loss, condemned("cell-not-measured")}, kind: SaysInvalid, want: "the workload could not run there."},
		"another error":          {cells: []cellSpec{disk, loss, condemned("fio-error")}, kind: SaysInvalid, want: "Not to be quoted: b / 4k read: fio-error."},
		"many void": {cells: []cellSpec{disk, loss, reads("b", 5000, nil)}, kind: SaysInvalid, want: "more than 20 % of the trials are void.",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts {
					if x.Target == "b" && x.Block < 3 {
						x.Void = "clock-insane: 3 %"
					}
				}
			}},
		"no logarithm": {cells: []cellSpec{disk, loss, reads("b", 5000, nil)}, kind: SaysInvalid, want: "a value has no logarithm.",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts {
					if x.Target == "b" && x.Block == 3 {
						x.Values[0].Value, x.Values[1].Value = 0, 0
					}
				}
			}},
		"only a warning": {cells: []cellSpec{disk, loss, cond(warn("cache-served"))}, kind: SaysInvalid},
		"failed": {cells: []cellSpec{disk, loss, reads("b", 5000, nil)}, kind: SaysFailed, want: "b / 4k read has no result: none of its 8 trials counts.",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts {
					if x.Target == "b" {
						x.Err, x.Values = "fio: exit status 1", nil
					}
				}
			}},
		"not opened": {cells: []cellSpec{disk, loss}, kind: SaysFailed, want: "b could not be opened: no such device.",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Targets = append(r.Targets, iotax.TargetInfo{Name: "b", Err: "open b: no such device\n  mend: buy one"})
			}},
		"nothing failed": {cells: []cellSpec{disk, loss}, kind: SaysFailed},
		"takes no part": {cells: []cellSpec{disk, loss}, kind: SaysFailed,
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Targets = append(r.Targets, iotax.TargetInfo{Name: "b"}) }},
		"unsure": {cells: []cellSpec{disk, loss, reads("b", 9500, func(c *cellSpec) { c.noise = .3 })}, kind: SaysUnsure, want: "Not decided, more blocks would tell: b / 4k read, between 0."},
		"sure":   {cells: []cellSpec{disk, loss}, kind: SaysUnsure},
		"unlike": {cells: []cellSpec{disk, loss, reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since its flushes are acknowledged and not done: b.", change: durability(iotax.FlushIgnored)},
		"memory": {cells: []cellSpec{disk, loss, reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since it is memory: b.", change: durability(iotax.Volatile)},
		"durable": {cells: []cellSpec{disk, loss, reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since its flushes reach the device: b.",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Targets[0].Durability, r.Targets[1].Durability, r.Targets[2].Durability = iotax.Volatile, iotax.Volatile, iotax.Durable
			}},
		"another promise": {cells: []cellSpec{disk, loss, reads("b", 5000, nil)}, kind: SaysUnlike, want: "Not ranked against disk, since a flush promises something else there: b.", change: durability("later")},
		"alike":           {cells: []cellSpec{disk, loss, reads("b", 5000, nil)}, kind: SaysUnlike, change: durability(iotax.Durable)},
		"noise":           {cells: []cellSpec{disk, loss, noisy("b", .3)}, kind: SaysNoise, want: "Noisy, trials vary by more than 10 %: b / 4k read ("},
		"noise of one of several": {cells: append(both("disk", 1, 1), cellSpec{target: "a", workload: "vm", values: map[string]float64{"disk.attached": 1, "write.bandwidth": 1e9}, noise: .3}), kind: SaysNoise, want: "a / vm disk attached (",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Workloads[2].Kind, r.Workloads[2].Metrics = "guest", []string{"disk.attached", "write.bandwidth"}
			}},
		"memory below": {cells: []cellSpec{reads("disk", 10000, func(c *cellSpec) {
			c.findings = []iotax.Finding{{Rule: "host-memory", Severity: iotax.Info, Evidence: "14 µs"}}
			c.values["read.latency.mean"] = 14e-6
		}), loss}, kind: SaysMemory, want: "disk is the memory of the machine below, not a device (4k read: one at a time takes 14 µs): of a device's speed the others would keep more."},
		"memory of the others": {cells: []cellSpec{disk, cond(iotax.Finding{Rule: "host-memory", Severity: iotax.Info, Evidence: "14 µs"})}, kind: SaysMemory},
		"a device":             {cells: []cellSpec{disk, loss}, kind: SaysMemory},
		"quiet":                {cells: []cellSpec{disk, loss, noisy("b", .05)}, kind: SaysNoise},
		"share":                {cells: s3(9e5), kind: SaysShare, want: "s3 / get reaches 90", change: line},
		"share, too large":     {cells: s3(1.2e6), kind: SaysShare, want: "more than the line carries: a cache answered, or the line was slower when it was measured.", change: line},
		"shares of a line": {cells: append(s3(9e5), cellSpec{target: "s3", workload: "put, twice", values: map[string]float64{"upload.bandwidth": 9.2e5}}), kind: SaysShare,
			want: "of tcp's network bandwidth (get and \"put, twice\"): the network is the limit.", change: line},
		"share undecided": {blocks: 6, cells: func() []cellSpec {
			out := s3(9e5)
			out[2].noise = .8
			return out
		}(), kind: SaysShare, want: ": whether the network is the limit is not decided.", change: line},
		"share of unknown size": {blocks: 3, cells: func() []cellSpec {
			out := s3(9e5)
			out[2].noise = 6
			return out
		}(), kind: SaysUnsure, want: "Not decided, what share is reached, more blocks would tell: s3 / get of tcp.", change: line},
		"share, small":     {cells: s3(3e5), kind: SaysShare, want: "s3 / get reaches 30", change: line},
		"no share":         {cells: s3(9e5), kind: SaysShare},
		"fast path":        {cells: append(both("disk", 1, 1), clone(17, .12)), kind: SaysPath, want: "a / clone: the second is 14"},
		"fast path missed": {cells: append(both("disk", 1, 1), clone(17, 4)), kind: SaysPath, want: "a / clone: the second is 4.2"},
		"best parts":       {cells: parts(.01, 30, 43, 36), kind: SaysBest, want: "s3: of 3 ways to upload 64MiB in parts, 16MiB × 4 uploads fastest, 42.9 [41.8, 43.9] MiB/s; the next, 32MiB × 4, reaches 83.9 %", change: kinds("multipart", "object")},
		"parts alike":      {cells: parts(.05, 43, 43.2), kind: SaysBest, want: "that it is the fastest is not sure", change: kinds("multipart", "object")},
		"parts the same":   {cells: parts(.005, 43, 43.2, 42.9), kind: SaysBest, want: "MiB/s; it makes no difference: all are within 5 % of it.", change: kinds("multipart", "object")},
		"copies sent on":   {cells: s3put(4.6e5), kind: SaysShare, want: ": 92 % [90–95] with the 2 copies that the server sends on: the network is the limit.", change: copied("3, of which 2 must have a write")},
		"no copies":        {cells: s3put(4.6e5), kind: SaysShare, want: "network bandwidth: the network is not the limit.", change: copied("")},
		"one part size":    {cells: parts(.01, 43), kind: SaysBest, change: kinds("multipart", "object")},
		"no object":        {cells: parts(.01, 30, 43), kind: SaysBest},
		"other objects": {cells: parts(.01, 30, 43), kind: SaysBest, change: func(r *iotax.Run, ts []*iotax.Trial) {
			kinds("multipart", "object")(r, ts)
			for _, x := range ts {
				if strings.HasSuffix(x.Workload, "16MiB") {
					x.Facts = map[string]string{"size": "1GiB", "part": "16MiB", "concurrency": "4"}
				}
			}
		}},
		"lazy":             {cells: volume(.03, "1"), kind: SaysLazy, want: "export, used lazily: its first I/O comes in 0.997 %", change: kinds("*", "materialise")},
		"lazy, whole":      {cells: volume(.03, "1"), kind: SaysLazy, want: "all of it is there in 199.3 %", change: kinds("*", "materialise")},
		"lazy, reads":      {cells: volume(.03, "1"), kind: SaysLazy, want: "reads then reach 49.8 %", change: kinds("*", "materialise")},
		"another volume":   {cells: volume(.03, "2"), kind: SaysLazy, change: kinds("*", "materialise")},
		"no volume":        {cells: volume(.03, "1"), kind: SaysLazy},
		"fast path unsure": {cells: append(both("disk", 1, 1), cellSpec{target: "a", workload: "clone", values: map[string]float64{"volume.first.duration": 10, "volume.second.duration": 1}, noise: .3}), kind: SaysPath, want: "; whether that is 10 times is not decided."},
		"no two things":    {cells: []cellSpec{disk, loss}, kind: SaysPath},
		"doubt":            {cells: []cellSpec{disk, loss, cond(warn("not-steady"))}, kind: SaysDoubt, want: "Checks that warn, see the notes: not-steady (b / 4k read)."},
		"doubt of the run": {cells: []cellSpec{disk, loss}, kind: SaysDoubt, want: "Checks that warn, see the notes: unlike-depth.",
			change: func(r *iotax.Run, _ []*iotax.Trial) { r.Findings = []iotax.Finding{warn("unlike-depth")} }},
		"a cause is no doubt besides": {cells: []cellSpec{disk, loss, cond(warn("steal"))}, kind: SaysDoubt},
		"doubt of all": {cells: []cellSpec{disk, loss}, kind: SaysDoubt, want: "not-steady (all)",
			change: func(_ *iotax.Run, ts []*iotax.Trial) {
				for _, x := range ts {
					x.Findings = []iotax.Finding{warn("not-steady")}
				}
			}},
		"no doubt":              {cells: []cellSpec{disk, loss}, kind: SaysDoubt},
		"fair":                  {cells: []cellSpec{disk, loss}, kind: SaysSum, want: "Fair, as far as checks can tell: none has a word against these figures."},
		"not fair":              {cells: []cellSpec{disk, loss, cond(warn("not-steady"))}, kind: SaysSum, want: "Of 2 comparisons: 2 worse. Checks warn of not-steady."},
		"condemned":             {cells: []cellSpec{disk, loss, cond(bad)}, kind: SaysSum, want: "Of 2 comparisons: 1 worse, 1 without a verdict. Checks condemn some figures: cache-served."},
		"condemned and doubted": {cells: []cellSpec{disk, reads("a", 5000, func(c *cellSpec) { c.findings = []iotax.Finding{warn("not-steady")} }), cond(bad)}, kind: SaysSum, want: "Checks condemn some figures (cache-served) and warn of not-steady."},
		"the sum of all": {cells: []cellSpec{disk, loss, reads("b", 10000, nil), reads("c", 20000, nil), reads("d", 9500, func(c *cellSpec) { c.noise = .3 })}, kind: SaysSum,
			want: "Of 4 comparisons: 1 worse, 1 better, 1 the same within ± 5 %, 1 not decided. "},
		"nothing known": {cells: []cellSpec{disk, loss, reads("b", 9500, func(c *cellSpec) { c.noise = 4 })}, kind: SaysUnsure, want: "Not decided, more blocks would tell: next to nothing is known of b / 4k read."},
		"imported is not fair": {cells: []cellSpec{disk, loss}, kind: SaysSum, want: "Whether it was fair cannot be told: it was measured elsewhere, and not in turns.",
			change: func(r *iotax.Run, _ []*iotax.Trial) {
				r.Environment = map[string]string{iotax.Origin: iotax.OriginImport}
			}},
	}
}

// Each kind of sentence stands where its data are, and nowhere else.
func TestSentences(t *testing.T) {
	for name, c := range sentenceCases() {
		r := c.report()
		got := says(r, c.kind)
		if len(got) > 0 && got[0].Text == r.Answer && len(says(r, c.kind)) > 0 && c.kind != SaysSame {
			got = got[1:] // the answer has tests of its own
		}
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q", name, got[0].Text)
		case c.want != "" && !slices.ContainsFunc(got, func(s Sentence) bool { return strings.Contains(s.Text, c.want) }):
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

// What the sentences about a line and a fast path conclude.
func TestLimitsAndPaths(t *testing.T) {
	for share, want := range map[float64]string{.9: "the network is the limit.", .3: "the network is not the limit.", .7: "bandwidth.", 1.2: "more than the line carries"} {
		run, trials := runOf(8, readMetrics, reads("disk", 1, nil), cellSpec{target: "s3", workload: "get", values: map[string]float64{"download.bandwidth": 1e6 * share}},
			cellSpec{target: "tcp", workload: "network", values: map[string]float64{"bandwidth": 1e6}})
		against(run, "s3", "tcp")
		run.Workloads[2].Kind = "network"
		got := says(New(run, trials), SaysShare)
		if len(got) != 1 || !strings.Contains(got[0].Text, want) {
			t.Errorf("%v: %+v, want %q", share, got, want)
		}
	}
	// What an interval does not hold apart is not concluded.
	for share, noise := range map[float64]float64{.9: 1.5, 1.2: 1.5, .3: 2} {
		run, trials := runOf(3, readMetrics, reads("disk", 1, nil), cellSpec{target: "s3", workload: "get", noise: noise, values: map[string]float64{"download.bandwidth": 1e6 * share}},
			cellSpec{target: "tcp", workload: "network", values: map[string]float64{"bandwidth": 1e6}})
		against(run, "s3", "tcp")
		run.Workloads[2].Kind = "network"
		got := says(New(run, trials), SaysShare)
		if len(got) != 1 || !strings.Contains(got[0].Text, "is not decided.") || len(got[0].Causes) != 0 {
			t.Errorf("%v ± %v: %+v", share, noise, got)
		}
	}
	for second, want := range map[float64]string{.1: "so the fast path is taken.", 1: "not decided.", 5: "the fast path is missed."} {
		run, trials := runOf(8, map[string][]string{"clone": {"first.duration"}}, cellSpec{target: "image", workload: "clone", noise: .02, values: map[string]float64{"first.duration": 10, "second.duration": second}})
		got := says(New(run, trials), SaysPath)
		if len(got) != 1 || !strings.Contains(got[0].Text, want) {
			t.Errorf("%v: %+v, want %q", second, got, want)
		}
	}
}

func TestAssessmentOrder(t *testing.T) {
	r := New(fixture())
	last := -1
	for i, s := range r.Assessment.Sentences {
		at := slices.Index(sentenceOrder, s.Kind)
		if at < 0 || i > 1 && at < last {
			t.Errorf("%q stands behind what is less bad", s.Text)
		}
		last = at
		if s.Text != r.Answer && strings.Count(r.Answer, s.Text) > 0 {
			t.Errorf("said twice: %q", s.Text)
		}
	}
	// Of the losses the largest comes first.
	var worst []float64
	for _, s := range says(r, SaysLoss) {
		worst = append(worst, s.Figures[0].Ratio.Estimate)
	}
	if len(worst) < 4 || worst[0] != slices.Min(worst) || !slices.IsSorted(worst[1:]) {
		t.Errorf("losses in the order of %v", worst)
	}
}

// However large the run, the first screen holds the beginning, nothing is lost, and no sentence is longer
// than a few lines.
func TestAssessmentFitsAScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cells []cellSpec
		targets := rapid.IntRange(2, 12).Draw(t, "targets")
		for i := range targets {
			for w := range rapid.IntRange(1, 6).Draw(t, "workloads") {
				rule := rapid.SampledFrom([]string{"", "steal", "not-steady", "cache-served", "blocking-submit"}).Draw(t, "rule")
				c := cellSpec{target: fmt.Sprintf("a target of a long name %d", i), workload: fmt.Sprintf("workload %d", w),
					values: map[string]float64{"read.iops": rapid.Float64Range(10, 1e6).Draw(t, "iops")}, noise: rapid.Float64Range(.001, .4).Draw(t, "noise")}
				if rule != "" {
					c.findings = []iotax.Finding{{Rule: rule, Severity: rapid.SampledFrom([]iotax.Severity{iotax.Warning, iotax.Invalid}).Draw(t, "severity"), Evidence: "seen"}}
				}
				cells = append(cells, c)
			}
		}
		r := New(runOf(6, nil, cells...))
		for _, width := range []int{60, 80, 100} {
			var out strings.Builder
			if err := r.Text(&out, TextOptions{Width: width}); err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(out.String(), "\n\nworkload 0")
			if n := strings.Count(head, "\n"); n > 24 {
				t.Errorf("%d columns: %d lines before the table", width, n)
			}
			if n := r.Assessment.Fit(width-2, assessmentLines-1); n < len(r.Assessment.Sentences) != strings.Contains(out.String(), "The assessment goes on") {
				t.Errorf("%d columns: %d of %d sentences on the first screen, and no heading", width, n, len(r.Assessment.Sentences))
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, s := range r.Assessment.Sentences {
				if !strings.Contains(text, strings.Join(strings.Fields(s.Text), " ")) {
					t.Errorf("%d columns: lost %q", width, s.Text)
				}
			}
		}
		for _, s := range r.Assessment.Sentences {
			if n := len(format.Wrap(s.Text, 80)); n > 8 {
				t.Errorf("%d lines: %q", n, s.Text)
			}
		}
	})
}
