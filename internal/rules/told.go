package rules

import (
	"fmt"

	"iotax"
	"iotax/stat"
)

// Other packages report these rules: while they work, and in the report beside a verdict.

var FioError = add(Rule{ID: "fio-error", Severity: iotax.Invalid, In: Work, Title: "fio reported an error",
	Why:  "A job of fio ended with an error number. The trial is kept as a failed row and has no number.",
	Hint: "read the error: it names the job and the cause; use the other values of the result; run fio again for quantiles"})

var FioVersionDiffers = add(Rule{ID: "fio-version-differs", Severity: iotax.Warning, In: Work, Title: "targets run different versions of fio",
	Why:  "Engines and defaults change between versions; a difference may be fio's.",
	Hint: "install the same version everywhere, or let iotax push this host's"})

var EngineCommon = add(Rule{ID: "engine-common", Severity: iotax.Info, In: Work, Title: "all targets use the engine that works on all of them",
	Why:  "The best engine does not work on every target (io_uring is often forbidden in containers), and unlike engines would be compared otherwise.",
	Hint: "nothing, if you can live with that engine"})

var EngineDiffers = add(Rule{ID: "engine-differs", Severity: iotax.Warning, In: Work, Title: "targets use different engines",
	Why:  "No engine works on all targets. A part of the difference is theirs.",
	Hint: "give `ioengine:` one that works on all of them"})

var SetByIotax = add(Rule{ID: "set-by-iotax", Severity: iotax.Info, In: Work, Title: "options of a job file or a command that iotax sets itself",
	Why:  "The target says where the I/O goes, the plan how long a trial is, and the run which offsets are drawn: every target and every round must get the same. So the file name, the run time, the seed, the logs and the output of a job file or a command line are not followed; the finding lists them.",
	Hint: "nothing, or say it in the plan (`measure: {trial: 60s}`)"})

var JobsRunAlone = add(Rule{ID: "jobs-run-alone", Severity: iotax.Info, In: Work, Title: "jobs that fio would run at the same time are measured one by one",
	Why:  "fio starts all jobs of a file together unless a `stonewall` stands between them; they then compete for the device, and none of their numbers can be compared with anything. Each section is a workload of its own here.",
	Hint: "nothing, if they were meant to be compared; `stonewall` in the file says so, and `jointly: true` in a plan runs them as fio would"})

var CachesNotDropped = add(Rule{ID: "caches-not-dropped", Severity: iotax.Warning, In: Work, Title: "caches could not be dropped before a cold trial",
	Why:  "A cold cell drops the page caches of guest and host, which only root may do. The trial ran warm.",
	Hint: "run as root, or measure warm (`--warm`) on all targets"})

var StoppedEarly = add(Rule{ID: "stopped-early", Severity: iotax.Warning, In: Work, Title: "a workload ended before it was precise",
	Why:  "The budget or the largest number of rounds came before the interval was as narrow as asked. The interval is right, and wide.",
	Hint: "continue with `iotax run --resume=RUN`, which has a budget of its own; use more rounds (`--rounds 12..60`); use longer trials (`--trial 30s`) or a quieter machine; see why trials failed or are discarded (`iotax show`)"})

var CellNotMeasured = add(Rule{ID: "cell-not-measured", Severity: iotax.Warning, In: Work, Title: "a workload could not run on a target",
	Why:  "The check before the measurement found that something is missing there.",
	Hint: "read the error: it says what is missing"})

var ShardsDiffer = add(Rule{ID: "shards-differ", Severity: iotax.Warning, In: Work, Title: "the shards of a run found a target in different states",
	Why:  "Shards are rounds of one run that different processes measured, perhaps on different hosts. A target could not be opened by some of them, or a flush promises more in one than in another, so that its trials come from fewer hosts than the others' or are not alike.",
	Hint: "run the shards that failed again (`--shard I/N --id ID`); run the shards on hosts that are alike"})

var AANotOne = add(Rule{ID: "aa-not-one", Severity: iotax.Warning, In: Work, Title: "the baseline differs from itself",
	Why:  "The rig was calibrated: the baseline was measured against itself, as two arms, by the code that measures targets. The interval of that ratio does not contain 1, which happens by chance in one calibration of twenty. Else something favours one of two equal places: where a file lies, what ran before.",
	Hint: "trust no difference of that size; calibrate again on a quieter machine or with longer trials (`iotax calibrate --trial 10s`)"})

var NotCalibrated = add(Rule{ID: "not-calibrated", Severity: iotax.Info, In: Work, Title: "the rig could not be calibrated",
	Why:  "The baseline was to be measured against itself before the run, and that failed. The run has no noise floor.",
	Hint: "see what `iotax calibrate` says"})

var LoadNotReached = add(Rule{ID: "load-not-reached", Severity: iotax.Warning, In: Work, Title: "the offered load was not carried",
	Why:  "In an open loop, less than 95 % of what was offered was done: the queue grows as long as the trial lasts, and so does the latency.",
	Hint: "offer less (`load: 50%`); offer less (`rate:`), or use more workers; read the latency as that of an overloaded target"})

var ArrivalsLate = add(Rule{ID: "arrivals-late", Severity: iotax.Warning, In: Work, Title: "I/Os of an open loop came late",
	Why:  "The arrivals of an open loop come from many sources with one I/O at a time. More than 5 % of them found their source busy (by Little's law: the I/Os in flight over the number of sources), so that their latency counts from later than they were meant to come.",
	Hint: "use more sources (`numjobs: N`), or a lower load"})

var NoGovernor = add(Rule{ID: "no-governor", Severity: iotax.Info, In: Work, Title: "the frequency governor could not be set",
	Why:  "A plan asked for CPUs at their full speed. This machine has no cpufreq (a virtual machine's CPUs are its host's matter), or not for all CPUs; the clocks may change during the run.",
	Hint: "nothing in a virtual machine; set it on its host"})

var StartDominates = add(Rule{ID: "start-dominates", Severity: iotax.Warning, In: Work, Title: "reaching the machine takes a good part of the time",
	Why:  "A piece of work is timed from this host. In each trial an empty command (`true`) is timed there too: the value `start`. Here it took more than 5 % of the time of the work, so that a part of the difference between targets is that between their connections.",
	Hint: "give it more to do, as in `for i in $(seq 100)` with `shell: true`, or compare targets on one machine"})

var HTTPErrors = add(Rule{ID: "http-errors", Severity: iotax.Warning, In: Work, Title: "requests failed",
	Why:  "A web server answered with an error, not at all, or with less than the file has. Rates and latencies are those of the requests that succeeded.",
	Hint: "see the facts of the trial (`iotax show`) for their kinds"})

var LeftBehind = add(Rule{ID: "left-behind", Severity: iotax.Warning, In: Work, Title: "something could not be removed",
	Why:  "Taking down what the run had made failed; the finding names it.",
	Hint: "`iotax clean --remote` lists what is left, and removes it with `--yes`"})

var RunFailed = add(Rule{ID: "run-failed", Severity: iotax.Warning, In: Work, Title: "the run ended with an error",
	Why:  "A step that all targets need failed: describing this host, choosing an engine, checking or preparing a workload at the baseline, saving a trial. The finding has the error. Trials that had finished are saved. An error of a target is under `target-not-opened`.",
	Hint: "correct what the error names, and resume with `iotax run --resume=RUN`"})

var RunnerDied = add(Rule{ID: "runner-died", Severity: iotax.Warning, In: Work, Title: "the process that measured died",
	Why:  "iotax itself was killed, or its host was: the run was cut off without an end. Every trial that had finished is saved and counts; what the run had made is left behind. A process on another host is taken to have died when a store that both share (PostgreSQL) has not heard of it for five minutes.",
	Hint: "resume the run with `iotax run --resume=RUN`; start that shard again with the same flags (`--shard I/N --id RUN`); remove its leftovers with `iotax clean --yes`"})

var ConnectionRemade = add(Rule{ID: "connection-remade", Severity: iotax.Warning, In: Work, Title: "the connection to a machine broke and was made again",
	Why:  "A command that was under way fails with its connection, and so does its trial. The next command connects anew, with the host key checked again, and what may still run over there is ended first. The trials after that count; the host or the network between may have changed (a restart, another route).",
	Hint: "look at the network to that host, and at its SSH server's log; compare the trials before and after"})

var ServerDied = add(Rule{ID: "server-died", Severity: iotax.Invalid, In: Work, Title: "what served a place ended while it was needed",
	Why:  "An export or another server that iotax had started ended by itself. Trials after that failed, and one that ran then may have measured its end.",
	Hint: "look at what ended it, and measure again"})

var CloneNotFast = add(Rule{ID: "clone-not-fast", Severity: iotax.Warning, In: Work, Title: "a second volume from an image takes the slow way",
	Why:  "The first volume from an image must come from the store and be written in full. The second can share what that left on the node: an overlay or a reflink takes milliseconds. Here it took more than a tenth of the time of the first.",
	Hint: "see that images are cached on the node, and volumes are overlays or reflinks of the cached one"})

var LazyUnmount = add(Rule{ID: "lazy-unmount", Severity: iotax.Warning, In: Work, Title: "a mount could only be detached lazily",
	Why:  "It stayed busy, so a program still uses it, or a writeback hangs. It vanishes when that ends.",
	Hint: "find what still uses it: `fuser -vm PATH`"})

var Imported = add(Rule{ID: "imported", Severity: iotax.Warning, In: Work, Title: "the trials were not measured in turns",
	Why:  "Imported results of two targets were measured at different times. A machine that warms up, throttles or has neighbours is then in the ratio, as large as it likes, and no interval shows it: the intervals know the noise inside each target's trials alone. Usual designs of this kind find differences of a third between identical systems (Abedi & Brecht, ICPE'17).",
	Hint: "measure both sides in turns: `iotax run`"})

var TargetNotOpened = add(Rule{ID: "target-not-opened", Severity: iotax.Warning, In: Report, Title: "a target could not be opened",
	Why:  "The note says why; the other targets were measured without it.",
	Hint: "do what the error says"})

var TrialFailed = add(Rule{ID: "trial-failed", Severity: iotax.Warning, In: Report, Title: "trials failed",
	Why:  "A failed trial is a row that says why. Its pair is not used; the rest of its round stands.",
	Hint: "do what the error says"})

var CPUBound = add(Rule{ID: "cpu-bound", Severity: iotax.Warning, In: Report, Title: "the result is near to what the CPU can do",
	Why: "The median number of I/Os is more than half of the null-engine ceiling: what the load generator reaches on this host with an engine that does nothing (`iotax calibrate`), times the job's threads as far as there are CPUs. " +
		"It is a number of the generator as much as of the target. `generator-bound` and `steal` say the same by other evidence.",
	Hint: "use larger blocks or more `numjobs`, and read the number as one of this host's CPU"})

var TrialDiscarded = add(Rule{ID: "trial-discarded", Severity: iotax.Warning, In: Report, Title: "trials are discarded",
	Why:  "They broke a rule that discards, and their rounds were run again; or an error stands beside them while at most 20 % of their cell's trials have one, and they are left out with their rounds. With more of them the whole cell is not comparable.",
	Hint: "see the rule that the note names"})

var RoundsDiscarded = add(Rule{ID: "rounds-discarded", Severity: iotax.Info, In: Report, Title: "the ratio with discarded rounds included",
	Why:  "Leaving rounds out changes a result; this says by how much.",
	Hint: "nothing, if the two agree"})

var TooManyDiscarded = add(Rule{ID: "too-many-discarded", Severity: iotax.Invalid, In: Report, Title: "more than 20 % of a cell's trials are discarded",
	Why:  "What discards so often is no accident: the cell is invalid.",
	Hint: "find out why before quoting any of it"})

var ComparedWithAnother = add(Rule{ID: "compared-with-another", Severity: iotax.Info, In: Report, Title: "the ratio is not to the baseline",
	Why:  "The plan says `against:` for this target: its ratio and verdict are to another target, which is the right measure for it (an object store against the network, a share against the disk it lies on). Where none of them does the same work there is no verdict, and the assessment says what share of their bandwidth was reached.",
	Hint: "nothing, if that is meant"})

var DurabilityDiffers = add(Rule{ID: "durability-differs", Severity: iotax.Warning, In: Report, Title: "a flush does not mean the same on both sides",
	Why:  "On one side it reaches the medium (`durable`), on the other the cache of the drive (`drive-cache`: fsync of macOS), or it is only acknowledged (`flush-ignored`: `cache=unsafe`) or ends in memory (`volatile`: tmpfs). The two are not ranked.",
	Hint: "compare targets or runs whose flushes promise the same (`cache: none` or `writeback` in a guest), or read the numbers without the verdict"})

var PrecisionNotReached = add(Rule{ID: "precision-not-reached", Severity: iotax.Info, In: Report, Title: "the interval is wider than asked for",
	Why:  "The interval is right, and says how much is known.",
	Hint: "use more rounds (`--rounds 6..30`); use longer trials (`--trial 30s`); use a quieter machine"})

var FewTrials = add(Rule{ID: "few-trials", Severity: iotax.Info, In: Report, Title: "too few trials for an interval and a verdict",
	Why:  fmt.Sprintf("An order-statistic interval at 95 %% needs %d values, and with fewer pairs an interval of a ratio holds only if the noise is normal. So fewer give no interval and no verdict (`too few`), in a report as in a comparison of two runs.", stat.LeastTrials),
	Hint: fmt.Sprintf("measure at least %d rounds (`--rounds %[1]d`), and give them the time (`--budget`); see why trials failed or are discarded (`iotax show`); import at least %[1]d results of it", stat.LeastTrials)})

var NoRatio = add(Rule{ID: "no-ratio", Severity: iotax.Invalid, In: Report, Title: "the ratio could not be computed",
	Why:  "A value is zero, negative or not a number, so that it has no logarithm.",
	Hint: "look at the trials (`iotax show`)"})

var EnvironmentDiffers = add(Rule{ID: "environment-differs", Severity: iotax.Warning, In: Report, Title: "two compared runs differ in more than their numbers",
	Why:  "Kernel, load generator, governor, mount options or the way of measuring are not the same in both runs. `iotax compare` lists what it knows of; what changed may be any of it.",
	Hint: "change one thing at a time; compare the ratios to the same baseline (`--by loss`)"})

var BaselineChanged = add(Rule{ID: "baseline-changed", Severity: iotax.Warning, In: Report, Title: "the baseline itself changed between two runs",
	Why:  "The host or its disk is faster or slower than it was, and that is in the value of every target. It cancels in the ratio to the baseline.",
	Hint: "read the ratios against the baseline, or judge by them (`--by loss`)"})

var WorkDiffers = add(Rule{ID: "work-differs", Severity: iotax.Warning, In: Report, Title: "a workload is not the same in two runs",
	Why: "The name is the same, and the job is not: an option of fio's (one that is absent counts as fio's default), a key of another kind of workload, or the caches. A verdict would be about the job, so there is none. " +
		"What the target, the length of trials and the seed decide is no part of the job, and neither is its name: a job that is the same under another name is compared. Of fio's text and terse output not all options are known. An option that only one side shows is reported as not recorded.",
	Hint: "compare runs that did the same"})

var NoValues = add(Rule{ID: "no-values", Severity: iotax.Warning, In: Report, Title: "a cell of a compared run has no number",
	Why:  "The target could not be opened, or every trial failed or is discarded. What the other run has stands alone.",
	Hint: "look at the run (`iotax report`)"})

var NoCommonBaseline = add(Rule{ID: "no-common-baseline", Severity: iotax.Warning, In: Report, Title: "two runs share no baseline",
	Why:  "Their ratios are to different things, or the baseline's number must not be quoted in one of them.",
	Hint: "compare by value, or measure both with the same baseline"})

var OneOfMany = add(Rule{ID: "one-of-many", Severity: iotax.Info, In: Report, Title: "a difference that is no wonder among so many cells",
	Why:  "Of 20 comparisons without any difference, one looks like one at the 5 % level. Holm's adjustment keeps the chance of even one false `worse` or `better` in a run, or in a comparison of two, at 5 %. This difference does not pass it: its interval stands as it is, and its verdict is `inconclusive`.",
	Hint: "measure that cell again, alone or more often"})

// FioErrors are the findings about a trial whose fio reported err (nil is none), and in whose output
// something is damaged, a sentence each.
func FioErrors(about iotax.Subject, err error, damaged []string) []iotax.Finding {
	var fs []iotax.Finding
	if err != nil {
		fs = append(fs, FioError.Only("read the error").Found(about, "%s", err))
	}
	for _, d := range damaged {
		fs = append(fs, FioError.As(iotax.Warning).Without("read the error", true).Found(about, "%s", d))
	}
	return fs
}
