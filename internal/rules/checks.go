package rules

import "iotax"

// These rules look at one trial as soon as it is over, or at all trials of a run at its end. A rule that
// discards never looks at the ratio of a target to the baseline: throwing away what does not fit would
// make any result come true.

var NoIO = add(Rule{ID: "no-io", Severity: iotax.Invalid, In: Trial, Discards: true, Title: "the workload did nothing",
	Why:  "The tool ended without an error and without a single I/O: a device of size 0, a file of no length, a ramp as long as the run.",
	Hint: "look at the tool's own output (`iotax show`), and at the size of the file or device"})

var ImpossibleValue = add(Rule{ID: "impossible-value", Severity: iotax.Invalid, In: Trial, Discards: true, Title: "a value that no machine can reach",
	Why: "A rate, a count or a latency of the tool is negative, is not a number, or is beyond what any machine can do: more than 10 billion I/Os or 1 PB a second, or a mean latency of less than a nanosecond, which no clock shows. " +
		"The tool is broken, or is another program, and no other value of this trial can be trusted either. Bytes of an engine that moves none (`null`) have no bound.",
	Hint: "look at the tool's own output (`iotax show --raw --trial N`), and at which program it is"})

var HostPaused = add(Rule{ID: "host-paused", Severity: iotax.Invalid, In: Trial, Discards: true, Title: "iotax or its host was paused",
	Why: "For a second or more iotax did not run while it measured. Either its host was suspended, which its clocks tell (on Linux CLOCK_BOOTTIME against CLOCK_MONOTONIC), or iotax was stopped: by a signal, in a container that was frozen, on a virtual machine that got no CPU. " +
		"The load generator may have stood still as well, and what was counted beside the trial is of another time than its window. Waiting for a CPU on a busy host is no pause: the kernel accounts for it (`schedstat`), and it is left out. " +
		"A pause between two trials is told as well, as a note, and discards nothing; of a trial that failed it may be the cause, and is told as a warning. " +
		"A virtual machine whose clocks were stopped together with it cannot tell; that of a target shows as `clock-insane`.",
	Hint: "nothing, the round is run again; keep the host awake while it measures (`systemd-inhibit`, `caffeinate`)"})

var ClockInsane = add(Rule{ID: "clock-insane", Severity: iotax.Invalid, In: Trial, Discards: true, Title: "the clock over there runs at another speed",
	Why:  "Rates and latencies are wrong by as much as the clock is. Seen by reading the target's clock and this host's on both sides of the window; here they part by more than 1 %. Emulated guests sometimes calibrate their clock wrongly at boot, and a guest that was paused in the trial has a clock that stood still.",
	Hint: "restart the guest; give its kernel the right `tsc_early_khz=`, or `clocksource=`"})

var ClockDrift = add(Rule{ID: "clock-drift", Severity: iotax.Warning, In: Trial, Title: "the clock over there drifts",
	Why:  "The same reading as `clock-insane`, at more than 0.1 % and beyond what the delay of the reading explains: rates are wrong by that much.",
	Hint: "trust no difference smaller than this; use longer trials, or another clock source in the guest"})

var CacheServed = add(Rule{ID: "cache-served", Severity: iotax.Invalid, In: Trial, Title: "a cache answered, not the device",
	Why: "The workload asked for uncached (direct) reads, but less than 95 % of its bytes were read from the device under the target, as this host counts them or as the target's own machine does: the page cache of the guest, of the host or of the server gave the rest. " +
		"The number stays printed, is labelled, and is not ranked: it is not a number of the device. The counters also saw the ramp. Where they are below 95 % even without counting it, the finding is an error; " +
		"where they are so only of what was asked for in ramp and window together (by the count of the guest's disk; else the ramp is taken to have run at half the rate, or slower if the trial's own processes asked for less), and in a run that asked for warm caches, it is a warning. " +
		"What the kernel adds to the account of the trial's own processes never makes a trial invalid: it misses the I/O of servers and kernel threads. So reads by another process can hide a cache.",
	Hint: "use a file larger than the cache; use `cache: none`; let both sides use the cache (`--warm`, `direct: 0`) and say so"})

var WriteAbsorbed = add(Rule{ID: "write-absorbed", Severity: iotax.Invalid, In: Trial, Title: "a cache took the writes",
	Why: "The workload asked for direct writes, but less than 95 % of its bytes reached the device under the target while it ran: they lie in the memory of the host or the server. " +
		"That is its memory's speed, and for as long as it lasts. The same two degrees as for `cache-served`.",
	Hint: "add `end_fsync: 1` or `fsync`; write more than the cache holds; use `cache: none`"})

var DeviceDidLess = add(Rule{ID: "device-did-less", Severity: iotax.Warning, In: Trial, Title: "the host's device did less than the guest's disk claims",
	Why: "The disk that the guest sees counted more bytes than the device under it on the host; fewer than 95 % of them arrived, over the same time. A cache of the host or holes of the image answered the rest. " +
		"Told of buffered jobs, about which `cache-served` and `write-absorbed` keep silent: they ask for a cache, but not for the host's.",
	Hint: "use `cache: none` and `preallocation: full` for the disk; read the number as one of the host's cache"})

var LineRateExceeded = add(Rule{ID: "line-rate-exceeded", Severity: iotax.Invalid, In: Trial, Title: "faster than the line to the storage",
	Why: "The bandwidth in one direction is more than 5 % above that of the network between the target and its storage (the fact `line.rate`, in B/s): a cache on the near side answered, or the data were compressed on their way. " +
		"A warning where the job is buffered or warm caches were asked for.",
	Hint: "use `direct: 1`; use files larger than the client's memory and data that do not compress; mount with the cache off"})

var ForeignIO = add(Rule{ID: "foreign-io", Severity: iotax.Warning, In: Trial, Title: "someone else used the device",
	Why: "During a workload that only reads, more than 2 % of the device's operations and bytes were writes (or the other way round). In the workload's own direction, the device did more than 2 % more bytes than the trial's own processes asked for " +
		"(`read_bytes` and `write_bytes` in their /proc/PID/io, where these hold all of the workload); writes are only compared so where nothing adds writes of its own (direct I/O on ext4 or xfs, no flush per write).",
	Hint: "find who it is (`iotop`, `pidstat -d`) and stop it while measuring"})

var ShortTrial = add(Rule{ID: "short-trial", Severity: iotax.Warning, In: Trial, Title: "a quick look",
	Why:  "The measured window is shorter than 5 s: caches, burst credit and background work have had no time to show. Fine for a first look, too short to quote.",
	Hint: "give trials of 10 s or more (`--trial 10s`)"})

var ShortWindow = add(Rule{ID: "short-window", Severity: iotax.Warning, In: Trial, Title: "the trial ended before its time",
	Why:  "The tool ran for less than 95 % of the window asked for, usually because its file was through.",
	Hint: "use `time_based: 1`; use a larger `size`"})

var DrainCounted = add(Rule{ID: "drain-counted", Severity: iotax.Warning, In: Trial, Title: "the end of the queue was counted as time",
	Why: "At the end of its window fio waits for the I/Os in flight. It counts that time, and not those I/Os, so that its IOPS are too low by the share of the wait, about latency ÷ window. More than 1 % is told. " +
		"Its bandwidth is not: the bytes of those I/Os are counted (fio 3.33). Deep queues on slow targets in short trials suffer most, and the ratio of a slow target to a fast one is then too low as well.",
	Hint: "use longer trials (`--trial 10s`); use a smaller `iodepth`"})

var Stall = add(Rule{ID: "stall", Severity: iotax.Warning, In: Trial, Title: "nothing was done for a while",
	Why:  "The series has seconds with no I/O, or next to none (1 % of the usual rate), or ends 3 s (three steps, where those are longer) before the window does: a flush that blocks everything, a lost interrupt, a paused guest, a reconnect.",
	Hint: "look at the series and at the kernel's log of both sides at that time"})

var ThrottleStep = add(Rule{ID: "throttle-step", Severity: iotax.Warning, In: Trial, Title: "the level changed for good in the middle of a trial",
	Why:  "The series has two levels that differ by 10 % or more, each for at least 3 s: burst credit used up, a thermal limit, a cache that became full.",
	Hint: "use a longer ramp or longer trials, so that what is measured is one level; look for a limit of the provider"})

var WarmUp = add(Rule{ID: "warm-up", Severity: iotax.Warning, In: Trial, Title: "the warm-up was not over",
	Why:  "By the MSER-5 rule, more than the first half of the window is unlike the rest.",
	Hint: "use a longer ramp (`--ramp`)"})

var NotSteady = add(Rule{ID: "not-steady", Severity: iotax.Warning, In: Trial, Title: "no steady state",
	Why:  "Of five equal parts of the window the means range over more than 20 % of their mean, or their trend rises or falls by more than 10 % (SNIA SSS PTS 2.0.2).",
	Hint: "use longer trials and a longer ramp; for writes to flash, overwrite the file first"})

var Steal = add(Rule{ID: "steal", Severity: iotax.Warning, In: Trial, Title: "the CPU was taken away",
	Why:  "More than 2 % of the CPU time of this host, or of the target's own machine, went to another virtual machine (steal): the result is bound by the CPU (`cpu-bound`), and by a neighbour.",
	Hint: "use a host of its own, or dedicated CPUs"})

var GeneratorBound = add(Rule{ID: "generator-bound", Severity: iotax.Warning, In: Trial, Title: "the load generator was the limit",
	Why:  "Its threads used more than 95 % of a CPU each, or more than half of one while this host's CPUs were more than 90 % busy: the result is bound by the CPU (`cpu-bound`), and the target could perhaps do more.",
	Hint: "use more `numjobs`; use larger blocks; use a cheaper engine (`ioengine: io_uring`); use a host with more CPUs"})

var BlockingSubmit = add(Rule{ID: "blocking-submit", Severity: iotax.Warning, In: Trial, Title: "the asynchronous engine blocks at submission",
	Why: "Submission takes more than twice as long as completion, or nearly all of the generator's time without using its CPU: I/Os go out one after the other, whatever `iodepth` says. " +
		"libaio does so on buffered files, and every engine on 9p, virtio-fs and sshfs.",
	Hint: "use `numjobs` in place of `iodepth`, on all targets; use `ioengine: io_uring`, which may not block where libaio does"})

var DepthNotReached = add(Rule{ID: "depth-not-reached", Severity: iotax.Warning, In: Trial, Title: "the queue was not as deep as asked",
	Why:  "By Little's law, the sum of IOPS × mean latency is the number of I/Os in flight. It is less than 80 % of iodepth × numjobs.",
	Hint: "see whether the engine blocks at submission or its CPU is the limit; compare targets at the depth they reach"})

var HostMemory = add(Rule{ID: "host-memory", Severity: iotax.Info, In: Trial, Title: "the disk is the memory of the machine below",
	Why: "One random read at a time took less than 25 µs on average, on the disk of a virtual machine (vda, xvda). To read a cell of flash alone takes longer (some 40 to 100 µs), and the way through a hypervisor comes on top: " +
		"so the page cache of the machine below answered, which no one can drop from here. The numbers are right, as those of memory; and a ratio to such a baseline is harder on the others than one to a device.",
	Hint: "use a machine with a device of its own, or a file larger than the memory below; else read the ratios with that in mind"})

var SameDevice = add(Rule{ID: "same-device", Severity: iotax.Warning, In: Run, Title: "targets lie on the same device",
	Why: "Two directories or devices of one machine lie on the same disk, pool or export: they share its speed, its queue and its cache, and a difference between them is not one between devices. " +
		"It is a note with different file systems (two partitions of a disk), in containers and pods, and where no directory is a mount point or looks like one (/etc/fstab, /mnt, /media, /run/media, /Volumes, /srv). Targets that are made on another target (`of:`), and one directory given twice, are not reported.",
	Hint: "look at the path of each target: is the other disk mounted? Nothing, if two directories or file systems of one device are compared"})

var NotMounted = add(Rule{ID: "not-mounted", Severity: iotax.Warning, In: Run, Title: "a target's directory looks like a mount point, and nothing is mounted there",
	Why: "The directory is at or below one that /etc/fstab of its machine names, or below /mnt, /media, /run/media or /Volumes, and it lies on the file system above: the disk that was meant is not mounted. " +
		"What was measured is the device of the root file system.",
	Hint: "mount it (`findmnt --target DIRECTORY` prints what the directory lies on), and measure again; nothing, if the directory itself is meant"})

var UnlikeFacts = add(Rule{ID: "unlike-facts", Severity: iotax.Warning, In: Run, Title: "targets differ in something the plan does not vary",
	Why:  "A version of the tool, its engine or its job differ between targets (or between trials of one) and no label says so. The difference measured may be theirs.",
	Hint: "use the same on all targets, or make it an axis of the plan"})

var UnlikeDepth = add(Rule{ID: "unlike-depth", Severity: iotax.Warning, In: Run, Title: "target and baseline ran at different depths",
	Why:  "The depths really reached (Little's law) differ by a factor of 1.5 or more: this is not like for like. A published table had the host at 898 and the guest at 64.",
	Hint: "use an engine and a depth that both sides reach"})

var UnlikeMerging = add(Rule{ID: "unlike-merging", Severity: iotax.Warning, In: Run, Title: "I/Os are merged or split differently",
	Why:  "The mean size of an I/O at the device differs by a factor of 1.25 or more between target and baseline under the same workload, while the device's bytes are the workload's: a scheduler, a cache or a read-ahead joins or splits them. Their IOPS are not those of the device.",
	Hint: "compare bandwidth rather than IOPS, or use the same scheduler and block limits"})

var GuestBeatsHost = add(Rule{ID: "guest-beats-host", Severity: iotax.Warning, In: Run, Title: "a guest is faster than its host on the same disk",
	Why:  "The whole interval lies above 1 + margin, and the guest's disk or share stands on the host's own directory. Usually a cache answered, or the host's side was held back (its engine, its depth).",
	Hint: "read the target's other findings; use `cache: none`; use a larger file, and the same depth on both sides"})

var HostCache = add(Rule{ID: "host-cache", Severity: iotax.Info, In: Run, Title: "direct I/O in the guest is not direct on the host",
	Why:  "virtiofsd (without `--allow-direct-io`), QEMU's 9p server and disks with `cache` writeback, writethrough or unsafe read through the host's page cache, whatever `direct=1` says in the guest. Whether it answered is told by `cache-served`.",
	Hint: "for disks use `cache: none`; for shares drop caches (cold cells do) and use files larger than the host's memory"})

var Emulated = add(Rule{ID: "emulated", Severity: iotax.Warning, In: Run, Title: "guests were emulated",
	Why: "QEMU translated the guest's instructions (TCG), because no accelerator (KVM, HVF) could be used or the plan asks for it: a guest's CPU is then many times slower, and what its storage seems to cost is mostly that. " +
		"Seen by the accelerator of machines that iotax starts, and by the CPU's name elsewhere (`QEMU TCG CPU`). An emulated guest is not compared with an accelerated one of another run.",
	Hint: "do not publish these numbers; measure on a host with KVM (`iotax doctor` says what is missing); compare runs whose guests both had an accelerator"})

var NoisyBaseline = add(Rule{ID: "noisy-baseline", Severity: iotax.Warning, In: Run, Title: "the baseline is noisy",
	Why:  "The standard deviation of the logarithm over the baseline's trials is more than 10 %. Pairing removes what the trials of a round share; the rest needs more rounds.",
	Hint: "use longer trials (`--trial 30s`); use more rounds (`--rounds 12..60`); use a quieter machine"})

var RoundsCorrelated = add(Rule{ID: "rounds-correlated", Severity: iotax.Warning, In: Run, Title: "successive rounds resemble each other",
	Why: "The ratio of a round is like that of the round before (lag-one autocorrelation, beyond what chance does once in a hundred runs): something changes slowly on one side alone, or the target had not warmed up. " +
		"Such rounds tell less than their number says, so the interval is too narrow. Few rounds show it rarely, however strong it is.",
	Hint: "look at the order of the rounds in the report; let the target warm up (`--ramp`); use longer trials (`--trial 30s`); use more rounds (`--rounds 12..60`); calibrate (`iotax calibrate`)"})

var TwoLevels = add(Rule{ID: "two-levels", Severity: iotax.Warning, In: Run, Title: "trials fall into two groups",
	Why: "The trials of one place, or their ratios, fall into two groups 5 % or more apart, more clearly than noise would let them in one run of a hundred: a disk in one of two moods, a guest on the right or the wrong memory node, one trial that was unlike the rest. " +
		"How often each group occurs decides the mean, and few rounds say little about that: the interval may be too narrow.",
	Hint: "look at the dots in the report and find what the groups have in common (order, time, place in memory); use more rounds (`--rounds 12..60`)"})
