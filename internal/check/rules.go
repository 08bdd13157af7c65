// Package check says whether numbers may be believed: rules on the results of one trial (Trial) and
// on those of a whole run (Run). It only reads; what it has to say are findings, data beside the
// result.
package check

import (
	"fmt"
	"slices"
	"strings"

	"iotax"
	"iotax/stat"
)

// A Rule is one mistake or mishap that a program can see.
type Rule struct {
	ID       string // stable; findings carry it
	Severity iotax.Severity
	Scope    Scope
	Discarded     bool   // a trial that breaks it does not count, and neither does its block
	Title    string // what is wrong, in a few words
	Why      string // why it matters, and how it is seen
	Hint     string // what to do
}

// Scope says what a rule looks at.
type Scope string

const (
	OfTrial   Scope = "trial"   // one trial, as soon as it is over
	OfRun     Scope = "run"     // all trials together, at the end
	OfRunning Scope = "running" // told by the package that meets it while it works
	OfReport  Scope = "report"  // told by the report, beside the verdict
)

// Rules lists every rule, in the order of docs/rules.md. A rule that discards never looks at the ratio
// of a target to the baseline: throwing away what does not fit would make any result come true.
func Rules() []Rule {
	return append([]Rule{
		noIO, impossibleValue, hostPaused, clockInsane, clockDrift,
		cacheServed, writeAbsorbed, deviceDidLess, lineRateExceeded, foreignIO,
		shortTrial, shortWindow, drainCounted, stall, throttleStep, warmUp, notSteady,
		steal, generatorBound, blockingSubmit, depthNotReached, hostMemory,
		sameDevice, notMounted, unlikeFacts, unlikeDepth, unlikeMerging, guestBeatsHost, hostCache, emulated, noisyBaseline, blocksCorrelated, twoLevels,
	}, told...)
}

// told are the rules of other packages: what they meet while they work, and what the report tells
// beside a verdict. They stand here so that every id has its page.
var told = []Rule{
	{ID: "fio-error", Severity: iotax.Invalid, Scope: OfRunning, Title: "fio reported an error",
		Why: "A job of fio ended with an error number. The trial is kept as a failed row and has no number.", Hint: "read the error: it names the job and the cause; use the other values of the result; run fio again for quantiles"},
	{ID: "fio-version-differs", Severity: iotax.Warning, Scope: OfRunning, Title: "targets run different versions of fio",
		Why: "Engines and defaults change between versions; a difference may be fio's.", Hint: "install the same version everywhere, or let iotax push this host's"},
	{ID: "engine-common", Severity: iotax.Info, Scope: OfRunning, Title: "all targets use the engine that works on all of them",
		Why: "The best engine does not work on every target (io_uring is often forbidden in containers), and unlike engines would be compared otherwise.", Hint: "nothing, if you can live with that engine"},
	{ID: "engine-differs", Severity: iotax.Warning, Scope: OfRunning, Title: "targets use different engines",
		Why: "No engine works on all targets. A part of the difference is theirs.", Hint: "give `ioengine:` one that works on all of them"},
	{ID: "depth-of-sync-engine", Severity: iotax.Warning, Scope: OfRunning, Title: "a queue depth given to a synchronous engine",
		Why: "sync, psync and their kin finish each I/O before the next: fio only prints a note, and the depth stays 1.", Hint: "use an asynchronous engine (io_uring, libaio with `direct=1`), or `numjobs`"},
	{ID: "set-by-iotax", Severity: iotax.Info, Scope: OfRunning, Title: "options of a job file or a command that iotax sets itself",
		Why: "The target says where the I/O goes, the plan how long a trial is, and the run which offsets are drawn: every target and every block must get the same. So the file name, the run time, the seed, the logs and the output of a job file or a command line are not followed; the finding lists them.", Hint: "nothing, or say it in the plan (`measure: {trial: 60s}`)"},
	{ID: "jobs-run-alone", Severity: iotax.Info, Scope: OfRunning, Title: "jobs that fio would run at the same time are measured one by one",
		Why: "fio starts all jobs of a file together unless a `stonewall` stands between them; they then compete for the device, and none of their numbers can be compared with anything. Each section is a workload of its own here.", Hint: "nothing, if they were meant to be compared; `stonewall` in the file says so, and `jointly: true` in a plan runs them as fio would"},
	{ID: "caches-not-dropped", Severity: iotax.Warning, Scope: OfRunning, Title: "caches could not be dropped before a cold trial",
		Why: "A cold cell drops the page caches of guest and host, which only root may do. The trial ran warm.", Hint: "run as root, or measure warm (`--warm`) on all targets"},
	{ID: "stopped-early", Severity: iotax.Warning, Scope: OfRunning, Title: "a workload ended before it was precise",
		Why: "The budget or the largest number of blocks came before the interval was as narrow as asked. The interval is right, and wide.", Hint: "continue with `iotax run --resume=RUN`, which has a budget of its own; use more blocks (`--blocks 12..60`); use longer trials (`--trial 30s`) or a quieter machine; see why trials failed or are discarded (`iotax show`)"},
	{ID: "cell-not-measured", Severity: iotax.Warning, Scope: OfRunning, Title: "a workload could not run on a target",
		Why: "The check before the measurement found that something is missing there.", Hint: "read the error: it says what is missing"},
	{ID: "shards-differ", Severity: iotax.Warning, Scope: OfRunning, Title: "the shards of a run found a target in different states",
		Why: "Shards are blocks of one run that different processes measured, perhaps on different hosts. A target could not be opened by some of them, or a flush promises more in one than in another, so that its trials come from fewer hosts than the others' or are not alike.", Hint: "run the shards that failed again (`--shard I/N --id ID`); run the shards on hosts that are alike"},
	{ID: "aa-not-one", Severity: iotax.Warning, Scope: OfRunning, Title: "the baseline differs from itself",
		Why:  "The rig was calibrated: the baseline was measured against itself, as two arms, by the code that measures targets. The interval of that ratio does not contain 1, which happens by chance in one calibration of twenty. Else something favours one of two equal places: where a file lies, what ran before.",
		Hint: "trust no difference of that size; calibrate again on a quieter machine or with longer trials (`iotax calibrate --trial 10s`)"},
	{ID: "not-calibrated", Severity: iotax.Info, Scope: OfRunning, Title: "the rig could not be calibrated",
		Why: "The baseline was to be measured against itself before the run, and that failed. The run has no noise floor.", Hint: "see what `iotax calibrate` says"},
	{ID: "load-not-reached", Severity: iotax.Warning, Scope: OfRunning, Title: "the offered load was not carried",
		Why: "In an open loop, less than 95 % of what was offered was done: the queue grows as long as the trial lasts, and so does the latency.", Hint: "offer less (`load: 50%`); offer less (`rate:`), or use more workers; read the latency as that of an overloaded target"},
	{ID: "arrivals-late", Severity: iotax.Warning, Scope: OfRunning, Title: "I/Os of an open loop came late",
		Why:  "The arrivals of an open loop come from many sources with one I/O at a time. More than 5 % of them found their source busy (by Little's law: the I/Os in flight over the number of sources), so that their latency counts from later than they were meant to come.",
		Hint: "use more sources (`numjobs: N`), or a lower load"},
	{ID: "no-governor", Severity: iotax.Info, Scope: OfRunning, Title: "the frequency governor could not be set",
		Why: "A plan asked for CPUs at their full speed. This machine has no cpufreq (a virtual machine's CPUs are its host's matter), or not for all CPUs; the clocks may change during the run.", Hint: "nothing in a virtual machine; set it on its host"},
	{ID: "start-dominates", Severity: iotax.Warning, Scope: OfRunning, Title: "reaching the machine takes a good part of the time",
		Why:  "A piece of work is timed from this host. In each trial an empty command (`true`) is timed there too: the value `start`. Here it took more than 5 % of the time of the work, so that a part of the difference between targets is that between their connections.",
		Hint: "give it more to do, as in `for i in $(seq 100)` with `shell: true`, or compare targets on one machine"},
	{ID: "http-errors", Severity: iotax.Warning, Scope: OfRunning, Title: "requests failed",
		Why: "A web server answered with an error, not at all, or with less than the file has. Rates and latencies are those of the requests that succeeded.", Hint: "see the facts of the trial (`iotax show`) for their kinds"},
	{ID: "left-behind", Severity: iotax.Warning, Scope: OfRunning, Title: "something could not be removed",
		Why: "Taking down what the run had made failed; the finding names it.", Hint: "`iotax clean --remote` lists what is left, and removes it with `--yes`"},
	{ID: "run-failed", Severity: iotax.Warning, Scope: OfRunning, Title: "the run ended with an error",
		Why: "A step that all targets need failed: describing this host, choosing an engine, checking or preparing a workload at the baseline, saving a trial. The finding has the error. Trials that had finished are saved. An error of a target is under `target-not-opened`.", Hint: "correct what the error names, and resume with `iotax run --resume=RUN`"},
	{ID: "runner-died", Severity: iotax.Warning, Scope: OfRunning, Title: "the process that measured died",
		Why:  "iotax itself was killed, or its host was: the run was cut off without an end. Every trial that had finished is saved and counts; what the run had made is left behind. A process on another host is taken to have died when a store that both share (PostgreSQL) has not heard of it for five minutes.",
		Hint: "resume the run with `iotax run --resume=RUN`; start that shard again with the same flags (`--shard I/N --id RUN`); remove its leftovers with `iotax clean --yes`"},
	{ID: "connection-remade", Severity: iotax.Warning, Scope: OfRunning, Title: "the connection to a machine broke and was made again",
		Why:  "A command that was under way fails with its connection, and so does its trial. The next command connects anew, with the host key checked again, and what may still run over there is ended first. The trials after that count; the host or the network between may have changed (a restart, another route).",
		Hint: "look at the network to that host, and at its SSH server's log; compare the trials before and after"},
	{ID: "server-died", Severity: iotax.Invalid, Scope: OfRunning, Title: "what served a place ended while it was needed",
		Why: "An export or another server that iotax had started ended by itself. Trials after that failed, and one that ran then may have measured its end.", Hint: "look at what ended it, and measure again"},
	{ID: "clone-not-fast", Severity: iotax.Warning, Scope: OfRunning, Title: "a second volume from an image takes the slow way",
		Why:  "The first volume from an image must come from the store and be written in full. The second can share what that left on the node: an overlay or a reflink takes milliseconds. Here it took more than a tenth of the time of the first.",
		Hint: "see that images are cached on the node, and volumes are overlays or reflinks of the cached one"},
	{ID: "lazy-unmount", Severity: iotax.Warning, Scope: OfRunning, Title: "a mount could only be detached lazily",
		Why: "It stayed busy, so a program still uses it, or a writeback hangs. It vanishes when that ends.", Hint: "find what still uses it: `fuser -vm PATH`"},

	{ID: "imported", Severity: iotax.Warning, Scope: OfRunning, Title: "the trials were not measured in turns",
		Why:  "Imported results of two targets were measured at different times. A machine that warms up, throttles or has neighbours is then in the ratio, as large as it likes, and no interval shows it: the intervals know the noise inside each target's trials alone. Usual designs of this kind find differences of a third between identical systems (Abedi & Brecht, ICPE'17).",
		Hint: "measure both sides in turns: `iotax run`"},
	{ID: "target-not-opened", Severity: iotax.Warning, Scope: OfReport, Title: "a target could not be opened",
		Why: "The note says why; the other targets were measured without it.", Hint: "do what the error says"},
	{ID: "trial-failed", Severity: iotax.Warning, Scope: OfReport, Title: "trials failed",
		Why: "A failed trial is a row that says why. Its pair is not used; the rest of its block stands.", Hint: "do what the error says"},
	{ID: "cpu-bound", Severity: iotax.Warning, Scope: OfReport, Title: "the result is near to what the CPU can do",
		Why: "The median number of I/Os is more than half of the null-engine ceiling: what the load generator reaches on this host with an engine that does nothing (`iotax calibrate`), times the job's threads as far as there are CPUs. " +
			"It is a number of the generator as much as of the target. `generator-bound` and `steal` say the same by other evidence.", Hint: "use larger blocks or more `numjobs`, and read the number as one of this host's CPU"},
	{ID: "trial-discarded", Severity: iotax.Warning, Scope: OfReport, Title: "trials are discarded",
		Why: "They broke a rule that discards, and their blocks were run again; or an error stands beside them while at most 20 % of their cell's trials have one, and they are left out with their blocks. With more of them the whole cell is not comparable.", Hint: "see the rule that the note names"},
	{ID: "rounds-discarded", Severity: iotax.Info, Scope: OfReport, Title: "the ratio with discarded blocks included",
		Why: "Leaving blocks out changes a result; this says by how much.", Hint: "nothing, if the two agree"},
	{ID: "too-many-discarded", Severity: iotax.Invalid, Scope: OfReport, Title: "more than 20 % of a cell's trials are discarded",
		Why: "What discards so often is no accident: the cell is invalid.", Hint: "find out why before quoting any of it"},
	{ID: "compared-with-another", Severity: iotax.Info, Scope: OfReport, Title: "the ratio is not to the baseline",
		Why: "The plan says `against:` for this target: its ratio and verdict are to another target, which is the right measure for it (an object store against the network, a share against the disk it lies on). Where none of them does the same work there is no verdict, and the assessment says what share of their bandwidth was reached.", Hint: "nothing, if that is meant"},
	{ID: "durability-differs", Severity: iotax.Warning, Scope: OfReport, Title: "a flush does not mean the same on both sides",
		Why: "On one side it reaches the medium (`durable`), on the other the cache of the drive (`drive-cache`: fsync of macOS), or it is only acknowledged (`flush-ignored`: `cache=unsafe`) or ends in memory (`volatile`: tmpfs). The two are not ranked.", Hint: "compare targets or runs whose flushes promise the same (`cache: none` or `writeback` in a guest), or read the numbers without the verdict"},
	{ID: "precision-not-reached", Severity: iotax.Info, Scope: OfReport, Title: "the interval is wider than asked for",
		Why: "The interval is right, and says how much is known.", Hint: "use more blocks (`--blocks 6..30`), longer trials (`--trial 30s`), or a quieter machine"},
	{ID: "few-trials", Severity: iotax.Info, Scope: OfReport, Title: "too few trials for an interval and a verdict",
		Why:  fmt.Sprintf("An order-statistic interval at 95 %% needs %d values, and with fewer pairs an interval of a ratio holds only if the noise is normal. So fewer give no interval and no verdict (`too few`), in a report as in a comparison of two runs.", stat.LeastTrials),
		Hint: fmt.Sprintf("measure at least %d blocks (`--blocks %[1]d`), and give them the time (`--budget`); import at least %[1]d results of it", stat.LeastTrials)},
	{ID: "no-ratio", Severity: iotax.Invalid, Scope: OfReport, Title: "the ratio could not be computed",
		Why: "A value is zero, negative or not a number, so that it has no logarithm.", Hint: "look at the trials (`iotax show`)"},
	{ID: "environment-differs", Severity: iotax.Warning, Scope: OfReport, Title: "two compared runs differ in more than their numbers",
		Why: "Kernel, load generator, governor, mount options or the way of measuring are not the same in both runs. `iotax compare` lists what it knows of; what changed may be any of it.", Hint: "change one thing at a time; compare the ratios to the same baseline (`--by loss`)"},
	{ID: "baseline-changed", Severity: iotax.Warning, Scope: OfReport, Title: "the baseline itself changed between two runs",
		Why: "The host or its disk is faster or slower than it was, and that is in the value of every target. It cancels in the ratio to the baseline.", Hint: "read the ratios against the baseline, or judge by them (`--by loss`)"},
	{ID: "work-differs", Severity: iotax.Warning, Scope: OfReport, Title: "a workload is not the same in two runs",
		Why: "The name is the same, and the job is not: an option of fio's (one that is absent counts as fio's default), a key of another kind of workload, or the caches. A verdict would be about the job, so there is none. " +
			"What the target, the length of trials and the seed decide is no part of the job, and neither is its name: a job that is the same under another name is compared. Of fio's text and terse output not all options are known. An option that only one side shows is reported as not recorded.", Hint: "compare runs that did the same"},
	{ID: "no-values", Severity: iotax.Warning, Scope: OfReport, Title: "a cell of a compared run has no number",
		Why: "The target could not be opened, or every trial failed or is discarded. What the other run has stands alone.", Hint: "look at the run (`iotax report`)"},
	{ID: "no-common-baseline", Severity: iotax.Warning, Scope: OfReport, Title: "two runs share no baseline",
		Why: "Their ratios are to different things, or the baseline's number must not be quoted in one of them.", Hint: "compare by value, or measure both with the same baseline"},
	{ID: "one-of-many", Severity: iotax.Info, Scope: OfReport, Title: "a difference that is no wonder among so many cells",
		Why: "Of 20 comparisons without any difference, one looks like one at the 5 % level. Holm's adjustment keeps the chance of even one false `worse` or `better` in a run, or in a comparison of two, at 5 %. This difference does not pass it: its interval stands as it is, and its verdict is `inconclusive`.", Hint: "measure that cell again, alone or more often"},
}

// Explain returns the rule of that id.
func Explain(id string) (Rule, bool) {
	for _, r := range Rules() {
		if r.ID == id {
			return r, true
		}
	}
	return Rule{}, false
}

// finding is what r found.
func (r Rule) finding(format string, args ...any) iotax.Finding {
	return iotax.Finding{Rule: r.ID, Severity: r.Severity, Evidence: fmt.Sprintf(format, args...), Hint: r.Hint}
}

// without is r without those parts of its hint (between semicolons) that contain a word, if followed: the job does that already.
func (r Rule) without(word string, followed bool) Rule {
	if followed {
		r.Hint = strings.Join(slices.DeleteFunc(strings.Split(r.Hint, "; "), func(part string) bool { return strings.Contains(part, word) }), "; ")
	}
	return r
}

// as is r with another severity.
func (r Rule) as(s iotax.Severity) Rule { r.Severity = s; return r }

// Limits of the rules. Their sources are in docs/method.md.
const (
	servedBelow     = 0.95  // bytes at the device ÷ bytes of the workload
	foreignAbove    = 0.02  // share of the device's operations
	fewIOs          = 100   // fewer say nothing about how many of them a layer passes on
	lineSlack       = 1.05  // bandwidth ÷ that of the line: it was measured too
	stealAbove      = 0.02  // share of the host's CPU time
	clockNote       = 0.001 // |rate of the guest's clock − 1|
	clockWild       = 0.01
	quickLook       = 5.0   // seconds
	fasterThanFlash = 25e-6 // s, of one random read
	stallShare      = 0.01  // of the usual rate: less is nothing
	stallRate       = 10.0  // 1/s: slower work has pauses of its own
	stallAtEnd      = 3.0   // steps (1 s) without a line; fio leaves out the last one or two
	drainNote       = 0.01  // share of the window's length by which it may be longer than asked for
	windowShort     = 0.95  // window ÷ window asked for
	busyThread      = 0.95  // CPU seconds of the generator ÷ thread seconds
	busyShare       = 0.50  // the same, where the host has hardly any CPU left
	busyHost        = 0.90  // share of the host's CPU time: it was watched for longer than the window
	submitShare     = 0.80  // time of a thread spent in submission
	submitBusy      = 0.75  // CPU share of a thread that really waits, at most
	depthShort      = 0.80  // depth reached ÷ depth asked for
	depthUnlike     = 1.5   // depth on one side ÷ depth on the other
	mergeUnlike     = 1.25  // size of an I/O at the device, one side ÷ the other
	noisySpread     = 0.10  // standard deviation of the logarithm over the baseline's trials
)

var (
	noIO = Rule{ID: "no-io", Severity: iotax.Invalid, Scope: OfTrial, Discarded: true, Title: "the workload did nothing",
		Why:  "The tool ended without an error and without a single I/O: a device of size 0, a file of no length, a ramp as long as the run.",
		Hint: "look at the tool's own output (`iotax show`), and at the size of the file or device"}
	hostPaused = Rule{ID: "host-paused", Severity: iotax.Invalid, Scope: OfTrial, Discarded: true, Title: "iotax or its host was paused",
		Why: "For a second or more iotax did not run while it measured. Either its host was suspended, which its clocks tell (on Linux CLOCK_BOOTTIME against CLOCK_MONOTONIC), or iotax was stopped: by a signal, in a container that was frozen, on a virtual machine that got no CPU. " +
			"The load generator may have stood still as well, and what was counted beside the trial is of another time than its window. Waiting for a CPU on a busy host is no pause: the kernel accounts for it (`schedstat`), and it is left out. " +
			"A pause between two trials is told as well, as a note, and discards nothing; of a trial that failed it may be the cause, and is told as a warning. " +
			"A virtual machine whose clocks were stopped together with it cannot tell; that of a target shows as `clock-insane`.",
		Hint: "nothing, the block is run again; keep the host awake while it measures (`systemd-inhibit`, `caffeinate`)"}
	clockInsane = Rule{ID: "clock-insane", Severity: iotax.Invalid, Scope: OfTrial, Discarded: true, Title: "the clock over there runs at another speed",
		Why:  "Rates and latencies are wrong by as much as the clock is. Seen by reading the target's clock and this host's on both sides of the window; here they part by more than 1 %. Emulated guests sometimes calibrate their clock wrongly at boot, and a guest that was paused in the trial has a clock that stood still.",
		Hint: "restart the guest; give its kernel the right `tsc_early_khz=`, or `clocksource=`"}
	clockDrift = Rule{ID: "clock-drift", Severity: iotax.Warning, Scope: OfTrial, Title: "the clock over there drifts",
		Why:  "The same reading as `clock-insane`, at more than 0.1 % and beyond what the delay of the reading explains: rates are wrong by that much.",
		Hint: "trust no difference smaller than this; use longer trials, or another clock source in the guest"}

	cacheServed = Rule{ID: "cache-served", Severity: iotax.Invalid, Scope: OfTrial, Title: "a cache answered, not the device",
		Why: "The workload asked for uncached (direct) reads, but less than 95 % of its bytes were read from the device under the target, as this host counts them or as the target's own machine does: the page cache of the guest, of the host or of the server gave the rest. " +
			"The number stays printed, is labelled, and is not ranked: it is not a number of the device. The counters also saw the ramp. Where they are below 95 % even without counting it, the finding is an error; " +
			"where they are so only of what was asked for in ramp and window together (by the count of the guest's disk; else the ramp is taken to have run at half the rate, or slower if the trial's own processes asked for less), and in a run that asked for warm caches, it is a warning. " +
			"What the kernel adds to the account of the trial's own processes never makes a trial invalid: it misses the I/O of servers and kernel threads. So reads by another process can hide a cache.",
		Hint: "use a file larger than the cache; use `cache: none`; let both sides use the cache (`--warm`, `direct: 0`) and say so"}
	writeAbsorbed = Rule{ID: "write-absorbed", Severity: iotax.Invalid, Scope: OfTrial, Title: "a cache took the writes",
		Why: "The workload asked for direct writes, but less than 95 % of its bytes reached the device under the target while it ran: they lie in the memory of the host or the server. " +
			"That is its memory's speed, and for as long as it lasts. The same two degrees as for `cache-served`.",
		Hint: "add `end_fsync: 1` or `fsync`; write more than the cache holds; use `cache: none`"}
	deviceDidLess = Rule{ID: "device-did-less", Severity: iotax.Warning, Scope: OfTrial, Title: "the host's device did less than the guest's disk claims",
		Why: "The disk that the guest sees counted more bytes than the device under it on the host; fewer than 95 % of them arrived, over the same time. A cache of the host or holes of the image answered the rest. " +
			"Told of buffered jobs, about which `cache-served` and `write-absorbed` keep silent: they ask for a cache, but not for the host's.",
		Hint: "use `cache: none` and `preallocation: full` for the disk; read the number as one of the host's cache"}
	lineRateExceeded = Rule{ID: "line-rate-exceeded", Severity: iotax.Invalid, Scope: OfTrial, Title: "faster than the line to the storage",
		Why: "The bandwidth in one direction is more than 5 % above that of the network between the target and its storage (the fact `line.rate`, in B/s): a cache on the near side answered, or the data were compressed on their way. " +
			"A warning where the job is buffered or warm caches were asked for.",
		Hint: "use `direct: 1`; use files larger than the client's memory and data that do not compress; mount with the cache off"}
	foreignIO = Rule{ID: "foreign-io", Severity: iotax.Warning, Scope: OfTrial, Title: "someone else used the device",
		Why: "During a workload that only reads, more than 2 % of the device's operations and bytes were writes (or the other way round). In the workload's own direction, the device did more than 2 % more bytes than the trial's own processes asked for " +
			"(`read_bytes` and `write_bytes` in their /proc/PID/io, where these hold all of the workload); writes are only compared so where nothing adds writes of its own (direct I/O on ext4 or xfs, no flush per write).",
		Hint: "find who it is (`iotop`, `pidstat -d`) and stop it while measuring"}

	shortTrial = Rule{ID: "short-trial", Severity: iotax.Warning, Scope: OfTrial, Title: "a quick look",
		Why:  "The measured window is shorter than 5 s: caches, burst credit and background work have had no time to show. Fine for a first look, too short to quote.",
		Hint: "give trials of 10 s or more (`--trial 10s`)"}
	drainCounted = Rule{ID: "drain-counted", Severity: iotax.Warning, Scope: OfTrial, Title: "the end of the queue was counted as time",
		Why: "At the end of its window fio waits for the I/Os in flight. It counts that time, and not those I/Os, so that its IOPS are too low by the share of the wait, about latency ÷ window. More than 1 % is told. " +
			"Its bandwidth is not: the bytes of those I/Os are counted (fio 3.33). Deep queues on slow targets in short trials suffer most, and the ratio of a slow target to a fast one is then too low as well.",
		Hint: "use longer trials (`--trial 10s`); use a smaller `iodepth`"}
	shortWindow = Rule{ID: "short-window", Severity: iotax.Warning, Scope: OfTrial, Title: "the trial ended before its time",
		Why:  "The tool ran for less than 95 % of the window asked for, usually because its file was through.",
		Hint: "use `time_based: 1`; use a larger `size`"}
	stall = Rule{ID: "stall", Severity: iotax.Warning, Scope: OfTrial, Title: "nothing was done for a while",
		Why:  "The series has seconds with no I/O, or next to none (1 % of the usual rate), or ends 3 s (three steps, where those are longer) before the window does: a flush that blocks everything, a lost interrupt, a paused guest, a reconnect.",
		Hint: "look at the series and at the kernel's log of both sides at that time"}
	throttleStep = Rule{ID: "throttle-step", Severity: iotax.Warning, Scope: OfTrial, Title: "the level changed for good in the middle of a trial",
		Why:  "The series has two levels that differ by 10 % or more, each for at least 3 s: burst credit used up, a thermal limit, a cache that became full.",
		Hint: "use a longer ramp or longer trials, so that what is measured is one level; look for a limit of the provider"}
	warmUp = Rule{ID: "warm-up", Severity: iotax.Warning, Scope: OfTrial, Title: "the warm-up was not over",
		Why:  "By the MSER-5 rule, more than the first half of the window is unlike the rest.",
		Hint: "use a longer ramp (`--ramp`)"}
	notSteady = Rule{ID: "not-steady", Severity: iotax.Warning, Scope: OfTrial, Title: "no steady state",
		Why:  "Of five equal parts of the window the means range over more than 20 % of their mean, or their trend rises or falls by more than 10 % (SNIA SSS PTS 2.0.2).",
		Hint: "use longer trials and a longer ramp; for writes to flash, overwrite the file first"}

	steal = Rule{ID: "steal", Severity: iotax.Warning, Scope: OfTrial, Title: "the CPU was taken away",
		Why:  "More than 2 % of the CPU time of this host, or of the target's own machine, went to another virtual machine (steal): the result is bound by the CPU (`cpu-bound`), and by a neighbour.",
		Hint: "use a host of its own, or dedicated CPUs"}
	generatorBound = Rule{ID: "generator-bound", Severity: iotax.Warning, Scope: OfTrial, Title: "the load generator was the limit",
		Why:  "Its threads used more than 95 % of a CPU each, or more than half of one while this host's CPUs were more than 90 % busy: the result is bound by the CPU (`cpu-bound`), and the target could perhaps do more.",
		Hint: "use more `numjobs`; use larger blocks; use a cheaper engine (io_uring); use a host with more CPUs"}
	blockingSubmit = Rule{ID: "blocking-submit", Severity: iotax.Warning, Scope: OfTrial, Title: "the asynchronous engine blocks at submission",
		Why: "Submission takes more than twice as long as completion, or nearly all of the generator's time without using its CPU: I/Os go out one after the other, whatever `iodepth` says. " +
			"libaio does so on buffered files, and every engine on 9p, virtio-fs and sshfs.",
		Hint: "use `numjobs` in place of `iodepth`, on all targets; use `ioengine: io_uring`, which may not block where libaio does"}
	depthNotReached = Rule{ID: "depth-not-reached", Severity: iotax.Warning, Scope: OfTrial, Title: "the queue was not as deep as asked",
		Why:  "By Little's law, the sum of IOPS × mean latency is the number of I/Os in flight. It is less than 80 % of iodepth × numjobs.",
		Hint: "see whether the engine blocks at submission or its CPU is the limit; compare targets at the depth they reach"}

	hostMemory = Rule{ID: "host-memory", Severity: iotax.Info, Scope: OfTrial, Title: "the disk is the memory of the machine below",
		Why: "One random read at a time took less than 25 µs on average, on the disk of a virtual machine (vda, xvda). To read a cell of flash alone takes longer (some 40 to 100 µs), and the way through a hypervisor comes on top: " +
			"so the page cache of the machine below answered, which no one can drop from here. The numbers are right, as those of memory; and a ratio to such a baseline is harder on the others than one to a device.",
		Hint: "use a machine with a device of its own, or a file larger than the memory below; else read the ratios with that in mind"}

	sameDevice = Rule{ID: "same-device", Severity: iotax.Warning, Scope: OfRun, Title: "targets lie on the same device",
		Why: "Two directories or devices of one machine lie on the same disk, pool or export: they share its speed, its queue and its cache, and a difference between them is not one between devices. " +
			"It is a note with different file systems (two partitions of a disk), in containers and pods, and where no directory is a mount point or looks like one (/etc/fstab, /mnt, /media, /run/media, /Volumes, /srv). Targets that are made on another target (`of:`), and one directory given twice, are not reported.",
		Hint: "look at the path of each target: is the other disk mounted? Nothing, if two directories or file systems of one device are compared"}
	notMounted = Rule{ID: "not-mounted", Severity: iotax.Warning, Scope: OfRun, Title: "a target's directory looks like a mount point, and nothing is mounted there",
		Why: "The directory is at or below one that /etc/fstab of its machine names, or below /mnt, /media, /run/media or /Volumes, and it lies on the file system above: the disk that was meant is not mounted. " +
			"What was measured is the device of the root file system.",
		Hint: "mount it (`findmnt --target DIRECTORY` prints what the directory lies on), and measure again; nothing, if the directory itself is meant"}

	unlikeFacts = Rule{ID: "unlike-facts", Severity: iotax.Warning, Scope: OfRun, Title: "targets differ in something the plan does not vary",
		Why:  "A version of the tool, its engine or its job differ between targets (or between trials of one) and no label says so. The difference measured may be theirs.",
		Hint: "use the same on all targets, or make it an axis of the plan"}
	unlikeDepth = Rule{ID: "unlike-depth", Severity: iotax.Warning, Scope: OfRun, Title: "target and baseline ran at different depths",
		Why:  "The depths really reached (Little's law) differ by a factor of 1.5 or more: this is not like for like. A published table had the host at 898 and the guest at 64.",
		Hint: "use an engine and a depth that both sides reach"}
	unlikeMerging = Rule{ID: "unlike-merging", Severity: iotax.Warning, Scope: OfRun, Title: "I/Os are merged or split differently",
		Why:  "The mean size of an I/O at the device differs by a factor of 1.25 or more between target and baseline under the same workload, while the device's bytes are the workload's: a scheduler, a cache or a read-ahead joins or splits them. Their IOPS are not those of the device.",
		Hint: "compare bandwidth rather than IOPS, or use the same scheduler and block limits"}
	guestBeatsHost = Rule{ID: "guest-beats-host", Severity: iotax.Warning, Scope: OfRun, Title: "a guest is faster than its host on the same disk",
		Why:  "The whole interval lies above 1 + margin, and the guest's disk or share stands on the host's own directory. Usually a cache answered, or the host's side was held back (its engine, its depth).",
		Hint: "read the target's other findings; use `cache: none`; use a larger file, and the same depth on both sides"}
	hostCache = Rule{ID: "host-cache", Severity: iotax.Info, Scope: OfRun, Title: "direct I/O in the guest is not direct on the host",
		Why:  "virtiofsd (without `--allow-direct-io`), QEMU's 9p server and disks with `cache` writeback, writethrough or unsafe read through the host's page cache, whatever `direct=1` says in the guest. Whether it answered is told by `cache-served`.",
		Hint: "for disks use `cache: none`; for shares drop caches (cold cells do) and use files larger than the host's memory"}
	emulated = Rule{ID: "emulated", Severity: iotax.Warning, Scope: OfRun, Title: "guests were emulated",
		Why: "QEMU translated the guest's instructions (TCG), because no accelerator (KVM, HVF) could be used or the plan asks for it: a guest's CPU is then many times slower, and what its storage seems to cost is mostly that. " +
			"Seen by the accelerator of machines that iotax starts, and by the CPU's name elsewhere (`QEMU TCG CPU`). An emulated guest is not compared with an accelerated one of another run.",
		Hint: "do not publish these numbers; measure on a host with KVM (`iotax doctor` says what is missing); compare runs whose guests both had an accelerator"}
	noisyBaseline = Rule{ID: "noisy-baseline", Severity: iotax.Warning, Scope: OfRun, Title: "the baseline is noisy",
		Why:  "The standard deviation of the logarithm over the baseline's trials is more than 10 %. Pairing removes what the trials of a block share; the rest needs more blocks.",
		Hint: "use longer trials (`--trial 30s`), more blocks (`--blocks 12..60`), or a quieter machine"}
)
