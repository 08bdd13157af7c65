package check

import (
	"math"
	"slices"
	"strings"

	"iotax"
	"iotax/fio"
	"iotax/internal/rules"
	"iotax/stat"
)

// Trial examines a trial. tgt is nil for an imported result. If the trial and its round must be discarded, `discarded`
// is the reason, beginning with the id of the rule, and findings is nil. If the trial has an Err, Trial reports only
// pauses, which may be the cause.
func Trial(t *iotax.Trial, tgt *iotax.Target) (findings []iotax.Finding, discarded string) {
	if t == nil {
		return nil, ""
	}
	r := reading{t: t, tgt: tgt}
	if pauses := r.t.Facts[iotax.FactPausedBefore]; pauses != "" {
		findings = append(findings, rules.HostPaused.As(iotax.Info).Found(iotax.AboutTrial(r.t), "between two trials %s", pauses))
	}
	if s, _ := r.value(iotax.ValuePaused); s > 0 {
		pauses := "in the trial " + r.t.Facts[iotax.FactPaused]
		if t.Err == "" {
			return nil, rules.HostPaused.ID + ": " + pauses
		}
		findings = append(findings, rules.HostPaused.As(iotax.Warning).Found(iotax.AboutTrial(r.t), "%s", pauses))
	}
	if t.Err != "" {
		return findings, ""
	}
	if what := r.impossible(); what != "" {
		return nil, rules.ImpossibleValue.ID + ": " + what
	}
	if sent, _ := r.value("bandwidth"); t.Length > 0 && r.bytes() == 0 && r.ios() == 0 && sent <= 0 {
		return nil, rules.NoIO.ID + ": no I/O was done"
	}
	if f := r.clock(); f != nil {
		if f.Rule == rules.ClockInsane.ID {
			return nil, f.Rule + ": " + f.Evidence
		}
		findings = append(findings, *f)
	}
	for _, check := range []func() []iotax.Finding{
		r.device, r.lineRate, r.foreign, r.window, r.shape, r.cpu, r.submission, r.depth, r.memory,
	} {
		findings = append(findings, check()...)
	}
	facts := r.facts()
	for i := range findings {
		findings[i].Hint = facts.Unfollowed(findings[i].Hint)
	}
	return findings, ""
}

// facts returns the settings of the trial that hints refer to.
func (r reading) facts() rules.Facts {
	f := rules.Facts{"ioengine": r.fact(iotax.FactIOEngine), "--trial": r.t.Length.String(), "direct": "0"}
	yes := func(is bool, name, value string) {
		if is {
			f[name] = value
		}
	}
	command := r.fact(iotax.FactCommand)
	yes(r.direct(), "direct", "1")
	yes(noCache(r.fact(iotax.FactDiskCache)), "cache", "none")
	yes(r.warm(), "--warm", "yes")
	yes(r.flushes() || strings.Contains(command, "--end_fsync=1"), "end_fsync", "1")
	yes(strings.Contains(command, "--time_based"), "time_based", "1")
	return f
}

// directions are the prefixes of value names. The prefix "mixed" means their sum.
var directions = []string{"read", "write", "trim"}

type reading struct {
	t   *iotax.Trial
	tgt *iotax.Target
}

// value returns a value of the trial, and whether it exists and is finite.
func (r reading) value(name string) (float64, bool) {
	v, ok := r.t.Value(name)
	return v.Value, ok && !math.IsNaN(v.Value) && !math.IsInf(v.Value, 0)
}

// sum adds up a value over the directions. If no direction has the value, sum returns the value for "mixed".
func (r reading) sum(name string) float64 {
	var s float64
	found := false
	for _, d := range directions {
		if v, ok := r.value(d + "." + name); ok {
			s += v
			found = true
		}
	}
	if !found {
		s, _ = r.value("mixed." + name)
	}
	return s
}

// bytes returns the number of bytes that the workload counted, or 0.
func (r reading) bytes() float64 {
	if b := r.sum("bytes"); b > 0 {
		return b
	}
	b, _ := r.value("bytes")
	return b
}

// ios returns the number of I/Os that the workload counted. Without a count, it returns the rate or the number of
// operations, so the result only shows whether the workload did any I/O.
func (r reading) ios() float64 {
	if n := r.sum("ios"); n > 0 {
		return n
	}
	if n := r.sum("iops"); n > 0 {
		return n
	}
	n, _ := r.value(iotax.ValueOperations)
	return n
}

// seconds returns the measured time, or the planned length if the measured time is unknown.
func (r reading) seconds() float64 {
	if d, ok := r.value(iotax.ValueDuration); ok && d > 0 {
		return d
	}
	return r.t.Length.Seconds()
}

// fact returns a fact of the trial. If the trial does not have the fact, it returns the fact of the target.
func (r reading) fact(name string) string {
	if v, ok := r.t.Facts[name]; ok {
		return v
	}
	if r.tgt != nil {
		if v, ok := r.tgt.Place.Facts[name]; ok {
			return v
		}
		return r.tgt.Facts[name]
	}
	return ""
}

// clock compares the clock of the target's machine with this host's.
func (r reading) clock() *iotax.Finding {
	ratio, ok := r.value(iotax.ValueClockRatio)
	if !ok {
		return nil
	}
	off := math.Abs(ratio - 1)
	bound, _ := r.value(iotax.ValueClockError) // maximum error of the ratio, caused by the delay of the clock readings
	var f iotax.Finding
	switch {
	case off > clockWild+bound || ratio <= 0:
		f = rules.ClockInsane.Found(iotax.AboutTrial(r.t), "the target's clock ran at %.4g times the host's", ratio)
	case off > clockNote+bound:
		f = rules.ClockDrift.Found(iotax.AboutTrial(r.t), "the target's clock ran at %.5g times the host's", ratio)
	default:
		return nil
	}
	return &f
}

// device compares the bytes of the workload with the bytes at the devices below the target: first the block device of
// the target's machine, then the device of this host.
func (r reading) device() []iotax.Finding {
	if r.diskless() {
		return nil
	}
	onHost := r.tgt == nil || r.tgt.Place.Backing != ""
	var fs []iotax.Finding
	for _, c := range []struct {
		direction, verb string
		rule            rules.Rule
	}{{"read", "were read from", rules.CacheServed}, {"write", "reached", rules.WriteAbsorbed}} {
		done, ok := r.value(c.direction + ".bytes")
		if !ok || done <= 0 {
			continue
		}
		inner, seen := r.value("machine.device." + c.direction + ".bytes")
		outer, counted := r.value("device." + c.direction + ".bytes")
		// The device counters include the ramp, but the workload's own count does not. Prefer the counter of the upper
		// device, which also includes the ramp. Without that counter, assume half of the ramp's full share, because a
		// cold ramp is often slower than the window. Use the processes' I/O accounting only to lower this estimate,
		// because the accounting also counts reads of executables, and I/O on other devices.
		asked := done * (1 + r.rampShare()/2)
		if own, whole := r.account(c.direction); seen {
			asked = inner
		} else if whole {
			asked = min(asked, own)
		}
		served := func(device, of float64, name string) {
			rule := c.rule
			if r.warm() || device >= servedBelow*done {
				rule = rule.As(iotax.Warning)
			}
			fs = append(fs, rule.Found(iotax.AboutTrial(r.t), "%s of the bytes %s %s (%s of %s)", rules.Percent(device/of), c.verb, name, rules.Bytes(device), rules.Bytes(of)))
		}
		ios, _ := r.value("machine.device." + c.direction + ".ios")
		switch {
		case r.direct() && seen && inner < servedBelow*done:
			served(inner, done, r.deviceThere())
		case !onHost || !counted || outer >= servedBelow*asked:
		case r.direct():
			served(outer, asked, "the device")
		case seen && ios >= fewIOs: // a buffered job uses the guest's cache, but should not use the host's
			n, _ := r.value("device." + c.direction + ".ios")
			fs = append(fs, rules.DeviceDidLess.Found(iotax.AboutTrial(r.t), "%s: the guest's disk counted %s in %.0f I/Os, the host's device %s in %.0f", c.direction, rules.Bytes(inner), ios, rules.Bytes(outer), n))
		}
	}
	return fs
}

// account returns the bytes that the trial's own processes requested from devices. whole reports whether the account
// covers at least 95 % of the trial's bytes. If not, the account is incomplete: for example, the kernel does not count
// I/O by kernel threads.
func (r reading) account(direction string) (own float64, whole bool) {
	own, known := r.value("own." + direction + ".bytes")
	done, _ := r.value(direction + ".bytes")
	return own, known && own >= servedBelow*done
}

// deviceThere returns a name for the block device of the target's machine, for evidence.
func (r reading) deviceThere() string {
	if r.tgt != nil && r.tgt.Place.Backing != "" {
		return "the guest's own disk"
	}
	return "the device"
}

// rampShare returns the length of the ramp divided by the length of the window.
func (r reading) rampShare() float64 {
	if s := r.seconds(); s > 0 {
		return r.t.Ramp.Seconds() / s
	}
	return 0
}

// direct reports whether all jobs bypassed the page cache of their machine.
func (r reading) direct() bool {
	_, ok := r.t.Facts[iotax.FactDirect]
	return ok && !slices.ContainsFunc(r.parts(iotax.FactDirect), func(d string) bool {
		return d == "0" || d == "false" || d == "default" // an empty value means that direct is on
	})
}

// warm reports whether the plan asks for warm caches. It returns false for a cold trial whose caches could not be
// dropped.
func (r reading) warm() bool {
	if r.t.Cold {
		return false
	}
	for _, f := range r.t.Findings {
		if f.Rule == rules.CachesNotDropped.ID {
			return false
		}
	}
	return true
}

// foreign searches for I/O of other processes at the device.
func (r reading) foreign() []iotax.Finding {
	reads, writes := r.did("read"), r.did("write") || r.did("trim")
	var fs []iotax.Finding
	switch {
	case reads && !writes:
		fs = append(fs, r.foreignOther("read", "write")...)
	case writes && !reads:
		fs = append(fs, r.foreignOther("write", "read")...)
	}
	for _, d := range []string{"read", "write"} {
		if r.did(d) && len(fs) == 0 {
			fs = append(fs, r.foreignSame(d)...)
		}
	}
	return fs
}

// foreignOther searches for operations of other processes in the direction that the workload does not use. In a cold
// trial, reads during writes count only if the account of the trial's own processes is complete, because the kernel may
// read their programs from the device again.
func (r reading) foreignOther(used, other string) []iotax.Finding {
	if _, whole := r.account(used); used == "write" && r.t.Cold && !whole {
		return nil
	}
	own, _ := r.value("own." + other + ".bytes")
	strange := 1.0 // share of the bytes in the other direction that are not the trial's own; 1 if unknown
	if n, ok := r.value("device." + other + ".bytes"); ok && n > 0 {
		strange = max(0, 1-own/n)
	}
	share := func(name string) float64 {
		u, ok1 := r.value("device." + used + "." + name)
		o, ok2 := r.value("device." + other + "." + name)
		if !ok1 || !ok2 || o <= 0 {
			return 0
		}
		return strange * o / (u + o)
	}
	// If a cache served the workload, other processes may cause most of the device's few operations. So also compare
	// their operations with the workload's I/Os.
	n, _ := r.value("device." + other + ".ios")
	if share("ios") <= foreignAbove || share("bytes") <= foreignAbove || n*strange <= foreignAbove*r.sum("ios") {
		return nil
	}
	return []iotax.Finding{rules.ForeignIO.Found(iotax.AboutTrial(r.t), "%s of the device's operations were %ss, which the workload does not do", rules.Percent(share("ios")), other)}
}

// foreignSame compares the device's bytes in the workload's own direction with the bytes that the trial's own
// processes requested. Both numbers cover the time between the two readings of the device's counters.
func (r reading) foreignSame(d string) []iotax.Finding {
	dev, ok := r.value("device." + d + ".bytes")
	if !ok || !r.direct() || d == "write" && !r.writesAlone() {
		return nil
	}
	own, whole := r.account(d)
	if !whole {
		return nil
	}
	if strange := dev - own; strange > foreignAbove*dev {
		return []iotax.Finding{rules.ForeignIO.Found(iotax.AboutTrial(r.t), "%s of the bytes that the device %s were others' (%s of %s)",
			rules.Percent(strange/dev), map[string]string{"read": "read", "write": "wrote"}[d], rules.Bytes(strange), rules.Bytes(dev))}
	}
	return nil
}

// flushes reports whether an option other than end_fsync makes the job sync its writes.
func (r reading) flushes() bool {
	return slices.ContainsFunc([]string{"--fsync=", "--fdatasync=", "--sync=", "--fsync_on_close", "--sync_file_range"}, func(o string) bool {
		return strings.Contains(r.fact(iotax.FactCommand), o)
	})
}

// noCache reports whether a guest's disk with this cache mode bypasses the host's page cache.
func noCache(mode string) bool { return mode == "none" || mode == "directsync" }

// writesAlone reports whether the device should write only the data of the job. Flushes write to a journal, and
// copy-on-write file systems add writes of their own.
func (r reading) writesAlone() bool {
	if r.flushes() {
		return false
	}
	switch r.fact("filesystem") {
	case "", "ext2", "ext3", "ext4", "xfs":
		return r.fact(iotax.FactCommand) != ""
	}
	return false
}

// lineRate compares the bandwidth of each direction with the bandwidth of the network line to the storage. The line is
// full duplex, so reads and writes do not share its bandwidth.
func (r reading) lineRate() []iotax.Finding {
	line, ok := r.number(iotax.FactLineRate)
	if !ok {
		return nil
	}
	rule := rules.LineRateExceeded
	if !r.direct() || r.warm() {
		rule = rule.As(iotax.Warning)
	}
	var fs []iotax.Finding
	for _, d := range []string{"read", "write"} {
		if v, ok := r.value(d + ".bandwidth"); ok && v > lineSlack*line {
			fs = append(fs, rule.Found(iotax.AboutTrial(r.t), "%s: %s/s over a line that carries %s/s", d, rules.Bytes(v), rules.Bytes(line)))
		}
	}
	return fs
}

func (r reading) did(direction string) bool {
	b, _ := r.value(direction + ".bytes")
	n, _ := r.value(direction + ".iops")
	return b > 0 || n > 0
}

// window compares the measured time with the planned time. It also compares the planned time, or the measured time if
// none is planned, with the shortest useful time.
func (r reading) window() []iotax.Finding {
	var fs []iotax.Finding
	s := r.seconds()
	asked := r.t.Length.Seconds()
	if s > 0 && asked > 0 && s < windowShort*asked {
		fs = append(fs, rules.ShortWindow.Found(iotax.AboutTrial(r.t), "%s of %s", rules.Seconds(s), rules.Seconds(asked)))
	}
	// Writes are excluded: the time of the last flush belongs to the write rate.
	_, counted := r.value(iotax.ValueOperations) // if the workload counts operations, the time covers exactly these operations
	if over := s/asked - 1; !counted && asked > 0 && over > drainNote && !r.did("write") && !r.did("trim") {
		depth, known := r.asked()
		fs = append(fs, rules.DrainCounted.Without("iodepth", known && depth <= 1).Found(iotax.AboutTrial(r.t), "the IOPS are %s low: it took %s instead of %s", rules.Percent(over/(1+over)), rules.Seconds(s), rules.Seconds(asked)))
	}
	if asked > 0 {
		s = asked // so that all trials of a plan have the same evidence
	}
	if n, ok := r.value(iotax.ValueOperations); ok && n > 0 && asked == 0 {
		return fs // work without a fixed length has no window
	}
	if s > 0 && s < quickLook {
		f := rules.ShortTrial.Found(iotax.AboutTrial(r.t), "a window of %s", rules.Seconds(s))
		if asked == 0 { // by_size
			f.Hint = "leave `by_size` out, or give it a larger `size`"
		}
		fs = append(fs, f)
	}
	return fs
}

// shape examines the one-second series. It reports only the most specific rule, because a stall or a step also makes
// a series unsteady.
func (r reading) shape() []iotax.Finding {
	for _, d := range append([]string{"mixed"}, directions...) {
		s, ok := r.series(d)
		if !ok {
			continue
		}
		if f := r.stalled(s); f != nil {
			return []iotax.Finding{*f}
		}
		w := stat.MSER5(s)
		warming := w.Enough && !w.Over
		if st := stat.ThrottleStep(s); st.Found && !(warming && gradual(s, st)) {
			return []iotax.Finding{rules.ThrottleStep.Found(iotax.AboutTrial(r.t), "%s: %+.0f %% after %s", s.Name, 100*st.Size, rules.Seconds(st.At))}
		}
		if warming {
			return []iotax.Finding{rules.WarmUp.Found(iotax.AboutTrial(r.t), "%s: unlike the rest until second %s", s.Name, rules.Number(w.Cut))}
		}
		if st := stat.SteadyState(s); st.Enough && !st.Reached {
			return []iotax.Finding{rules.NotSteady.Found(iotax.AboutTrial(r.t), "%s: the means of five parts range over %s, their trend over %s", s.Name, rules.Percent(st.Range), rules.Percent(st.Slope))}
		}
	}
	return nil
}

// stalled searches for seconds with almost no I/O. The tool's timestamps are inexact, so an interval may contain some
// I/O of its neighbours. A series that ends early is also a stall, because fio writes no line without I/O. Slow work
// has empty seconds even without a stall, so stalled ignores rates below stallRate.
func (r reading) stalled(s iotax.Series) *iotax.Finding {
	level := stat.Median(s.V).Estimate
	if s.Unit == iotax.PerSecond && level > 0 && level < stallRate {
		return nil
	}
	bare := iotax.Series{T: s.T, V: slices.Clone(s.V)}
	for i, v := range bare.V {
		if v < stallShare*level {
			bare.V[i] = 0
		}
	}
	if st := stat.FindStalls(bare); st.Count > 0 {
		f := rules.Stall.Found(iotax.AboutTrial(r.t), "%s: no I/O for %s, from second %s on", s.Name, rules.Seconds(st.Longest), rules.Number(st.First))
		return &f
	}
	n := len(s.T)
	last, step := s.T[n-1], 1.0
	if n > 1 {
		step = max(step, math.Round(last-s.T[n-2]))
	}
	if r.seconds()-last >= stallAtEnd*step {
		f := rules.Stall.Found(iotax.AboutTrial(r.t), "%s: no I/O in the last %s", s.Name, rules.Seconds(r.seconds()-last))
		return &f
	}
	return nil
}

// gradual reports whether the level already changed before the step: the means of the two halves of the time before the
// step differ by more than a quarter of the step. Without this check, a slope could look like a step.
func gradual(s iotax.Series, st stat.Step) bool {
	var sum, n [2]float64
	for i := range min(len(s.T), len(s.V)) {
		if s.T[i] > st.At {
			break
		}
		half := 0
		if s.T[i] > st.At/2 {
			half = 1
		}
		sum[half] += s.V[i]
		n[half]++
	}
	return math.Abs(sum[1]/n[1]-sum[0]/n[0]) > math.Abs(st.After-st.Before)/4 // false if a value is NaN
}

// series returns the IOPS series of a direction. If the trial has none, it returns the bandwidth series.
func (r reading) series(direction string) (iotax.Series, bool) {
	for _, name := range []string{direction + ".iops", direction + ".bandwidth"} {
		for _, s := range r.t.Series {
			if s.Name == name && len(s.T) > 0 {
				return s, true
			}
		}
	}
	return iotax.Series{}, false
}

// cpu checks whether CPU time, and not the target, limited the trial.
func (r reading) cpu() []iotax.Finding {
	var fs []iotax.Finding
	for _, c := range []struct{ name, whose string }{{iotax.ValueCPUHostSteal, "this host's"}, {iotax.ValueCPUMachineSteal, "the target machine's"}} {
		if v, ok := r.value(c.name); ok && v > stealAbove {
			fs = append(fs, rules.Steal.Found(iotax.AboutTrial(r.t), "%s of %s CPU time was stolen", rules.Percent(v), c.whose))
		}
	}
	busy, ok := r.busy()
	host, _ := r.value(iotax.ValueCPUHostBusy)
	local := r.tgt != nil && r.tgt.Machine != nil && iotax.IsLocal(r.tgt.Machine)
	rule := rules.GeneratorBound
	switch {
	case ok && busy > busyThread:
		fs = append(fs, rule.Found(iotax.AboutTrial(r.t), "its threads used %s of a CPU each", rules.Percent(busy)))
	case ok && local && busy > busyShare && host > busyHost: // other processes used the rest
		fs = append(fs, rule.Without("numjobs", true).Found(iotax.AboutTrial(r.t), "its threads used %s of a CPU each while this host's CPUs were %s busy", rules.Percent(busy), rules.Percent(host)))
	}
	return fs
}

// busy returns the share of a CPU that each thread of the load generator used.
func (r reading) busy() (float64, bool) {
	used, ok := r.value(iotax.ValueCPUClient)
	jobs, known := r.jobs()
	s := r.seconds()
	if !ok || !known || s <= 0 {
		return 0, false
	}
	return used / (s * jobs * r.clients()), true
}

// submission checks whether an asynchronous engine blocks on submission.
func (r reading) submission() []iotax.Finding {
	if depth, ok := r.number(iotax.FactIODepth); !ok || depth <= 1 || fio.Synchronous(r.fact(iotax.FactIOEngine)) {
		return nil
	}
	var fs []iotax.Finding
	jobs, known := r.jobs()
	for _, d := range directions {
		slat, ok1 := r.value(d + ".latency.submission.mean")
		clat, ok2 := r.value(d + ".latency.completion.mean")
		iops, _ := r.value(d + ".iops")
		if !ok1 || !ok2 {
			continue
		}
		// A system call that does not block takes less than 10 µs.
		slow := slat > 10e-6 && slat > 2*clat
		// With a full queue, each completion waits for other submissions, so clat may be larger than slat. The thread
		// then spends most of its time in submission without using CPU.
		busy, measured := r.busy()
		all := known && measured && iops*slat/(jobs*r.clients()) > submitShare && busy < submitBusy
		if slow || all {
			fs = append(fs, rules.BlockingSubmit.Without("io_uring", r.fact(iotax.FactIOEngine) != "libaio").Found(iotax.AboutTrial(r.t), "%s with %s: submission takes %s, completion %s", d, r.fact(iotax.FactIOEngine), rules.Seconds(slat), rules.Seconds(clat)))
		}
	}
	return fs
}

// depth compares the reached queue depth with the requested one.
func (r reading) depth() []iotax.Finding {
	asked, ok := r.asked()
	got := r.reached()
	if !ok || asked <= 1 || !(got > 0) || r.limited() || got >= stat.DepthReached*asked {
		return nil
	}
	rule := rules.DepthNotReached
	if strings.Contains(r.fact(iotax.FactJob), iotax.PartlyKnown) {
		rule = rule.As(iotax.Info).Hinting("check whether the job has a rate or a thinktime, which this output does not show; " + rule.Hint)
	}
	return []iotax.Finding{rule.Found(iotax.AboutTrial(r.t), "%s in flight of %.0f", rules.Number(got), asked)}
}

// memory detects a virtual disk that serves single random reads faster than flash can. The data of such a disk is in
// the memory of the hypervisor that runs the target's machine. A passed-through device has another name (nvme0n1) and
// may be that fast.
func (r reading) memory() []iotax.Finding {
	asked, ok := r.asked()
	took, known := r.value(iotax.ValueReadLatencyMean)
	disk := r.fact(iotax.FactDeviceDisk)
	virtual := strings.HasPrefix(disk, "vd") || strings.HasPrefix(disk, "xvd")
	if !ok || asked != 1 || !known || !(took > 0) || took >= fasterThanFlash || !virtual || !r.direct() || r.fact("rw") != "randread" || r.tgt == nil {
		return nil
	}
	if backing := r.tgt.Place.Backing; backing != "" && backing != r.tgt.Place.Path { // the disk is a file in this host's file system
		return nil
	}
	return []iotax.Finding{rules.HostMemory.Found(iotax.AboutTrial(r.t), "a random read of %s took %s", r.fact("bs"), rules.Seconds(took))}
}

// reached returns the mean number of I/Os in flight per client, or 0 if unknown.
func (r reading) reached() float64 {
	var flows []stat.Flow
	for _, d := range directions {
		rate, ok1 := r.value(d + ".iops")
		lat, ok2 := r.value(d + ".latency.mean")
		if ok1 && ok2 {
			flows = append(flows, stat.Flow{Rate: rate, Latency: lat})
		}
	}
	if len(flows) == 0 {
		rate, ok1 := r.value(iotax.ValueMixedIOPS)
		lat, ok2 := r.value("mixed.latency.mean")
		if !ok1 || !ok2 {
			return 0
		}
		flows = []stat.Flow{{Rate: rate, Latency: lat}}
	}
	d := stat.Little(flows...) / r.clients() // each client has its own queue
	if !math.IsNaN(d) {
		return d
	}
	return 0
}

// asked returns iodepth × numjobs. A synchronous engine has depth 1. The depth is unknown if the jobs differ in their
// depth or engine.
func (r reading) asked() (float64, bool) {
	depth, ok := r.number(iotax.FactIODepth)
	ok = ok && len(r.parts(iotax.FactIOEngine)) == 1
	jobs, known := r.jobs()
	if fio.Synchronous(r.fact(iotax.FactIOEngine)) {
		depth, ok = 1, true
	}
	return depth * jobs, ok && known
}
