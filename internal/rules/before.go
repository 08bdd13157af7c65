package rules

import "iotax"

// Rules about where the I/O of jobs goes, and what else goes there.

var FilenameColon = add(Rule{ID: "filename-colon", Severity: iotax.Invalid, In: JobFile | Result, Title: "a colon splits the file name",
	Why: "`filename` and `directory` are lists, separated by colons. `192.168.11.100:/srv/nfs/x` is not a file on an NFS server: it is two local files, " +
		"`192.168.11.100` and `/srv/nfs/x`. A URL, a drive letter and a port are split in the same way. Seen where one of the parts looks like a host, a scheme, a drive or a port.",
	Hint: `write \: for a colon that belongs to the name; mount an NFS export and name a file under the mount point`,
	Bad:  "[read]\nrw=randread\nfilename=192.168.11.100:/srv/nfs/x\nsize=8g",
	Good: "[read]\nrw=randread\nfilename=/srv/a/x:/srv/b/x\nsize=8g"})

var DeviceOverwritten = add(Rule{ID: "device-overwritten", Severity: iotax.Warning, In: JobFile, Title: "the job writes to a block device",
	Why:  "Writing to a device destroys what is on it: files, partition tables, LVM and RAID members, swap. Without knowing the device this is a warning; where it is mounted, or holds any of these, it is an error.",
	Hint: "write to a file instead, or make sure that the device is the one you mean and that nobody needs what it holds",
	Bad:  "[fill]\nrw=write\nbs=1m\ndirect=1\nfilename=/dev/nvme0n1",
	Good: "[scan]\nrw=read\nbs=1m\ndirect=1\nfilename=/dev/nvme0n1"})

var JobsCompete = add(Rule{ID: "jobs-compete", Severity: iotax.Warning, In: JobFile | Result, Title: "sections run at the same time",
	Why: "fio starts all sections of a job file together, unless `stonewall` or `wait_for` says otherwise. Sections that do different things then share the device, and none of their numbers is its own. " +
		"Where they differ only in depth, number, engine or direct it is a note. Sections that differ in nothing but their place, and those that hold back (`rate`, `flow`, `thinktime`), start one after the other (`startdelay`) or end each other (`exitall`) are assumed to be intended. With `group_reporting` the sections are one row of the output as well.",
	Hint: "add `stonewall` to every section that has to wait for those before it, or run one with --section=NAME",
	Bad:  "[global]\ndirect=1\nsize=8g\n[seq-read]\nrw=read\nbs=1m\n[rand-read]\nrw=randread\nbs=4k",
	Good: "[global]\ndirect=1\nsize=8g\nstonewall\n[seq-read]\nrw=read\nbs=1m\n[rand-read]\nrw=randread\nbs=4k"})

var JobsOverwrite = add(Rule{ID: "jobs-overwrite", Severity: iotax.Warning, In: JobFile | Result, Title: "the clones of a job write to the same blocks",
	Why: "With `filename` all `numjobs` clones use one file. Sequential writers then write the same blocks at the same time: one copy is merged or overwritten in a cache, and with `verify` the check fails. " +
		"Random writers meet less often, so for them this is only told.",
	Hint: "leave out `filename` (each clone gets a file of its own), or share the file out: `size` of one part and `offset_increment` of as much",
	Bad:  "[log]\nrw=write\nbs=64k\ndirect=1\nnumjobs=4\nfilename=/srv/x\nsize=16g",
	Good: "[log]\nrw=write\nbs=64k\ndirect=1\nnumjobs=4\nfilename=/srv/x\nsize=4g\noffset_increment=4g"})

// Rules about queue depths that are asked for and not reached.

var LibaioBuffered = add(Rule{ID: "libaio-buffered", Severity: iotax.Warning, In: JobFile | Plan | Result, Title: "libaio on buffered files",
	Why: "libaio is asynchronous only with O_DIRECT. On buffered files the submission itself waits for the I/O, so that they go out one after the other, and `iodepth` is only a number in the output. " +
		"After a run the same is seen as `blocking-submit`. A note where no depth is asked for.",
	Hint: "add `direct=1`; for buffered I/O at a depth use `ioengine=io_uring`, or psync with `numjobs`",
	Bad:  "[read]\nioengine=libaio\niodepth=32\nrw=randread\nsize=64g",
	Good: "[read]\nioengine=libaio\niodepth=32\nrw=randread\nsize=64g\ndirect=1"})

var DepthOfSyncEngine = add(Rule{ID: "depth-of-sync-engine", Severity: iotax.Warning, In: JobFile | Plan | Result | Work, Title: "a queue depth given to a synchronous engine",
	Why: "sync, psync, vsync, mmap and their kin finish each I/O before the next: fio only prints a note, and the depth stays 1. psync is also the engine of a job that names none, except on Windows, where it is windowsaio. " +
		"`io_submit_mode=offload` keeps the depth, with threads.",
	Hint: "use an asynchronous engine (io_uring, libaio with `direct=1`), or `numjobs`",
	Bad:  "[read]\nioengine=psync\niodepth=32\nrw=randread\ndirect=1\nsize=64g",
	Good: "[read]\nioengine=psync\niodepth=1\nnumjobs=32\nrw=randread\ndirect=1\nsize=64g"})

var PosixaioDepth = add(Rule{ID: "posixaio-depth", Severity: iotax.Warning, In: JobFile | Plan | Result, Title: "posixaio does not reach the depth",
	Why: "macOS lets a process have 16 asynchronous I/Os (kern.aiomax, kern.aioprocmax): a deeper queue is cut there without a word, and host and guest run at different depths. " +
		"On Linux, glibc plays posixaio with threads and works off the I/Os of a file one after the other. Where the system is not known this is told with an \"if\".",
	Hint: "on Linux use io_uring or libaio; on macOS use an iodepth of at most 16, or more `numjobs`, and the same on all sides",
	Bad:  "[read]\nioengine=posixaio\niodepth=32\nrw=randread\ndirect=1\nsize=64g",
	Good: "[read]\nioengine=posixaio\niodepth=1\nnumjobs=16\nrw=randread\ndirect=1\nsize=64g"})

// Rules about memory that answers in place of the storage.

var FileFitsMemory = add(Rule{ID: "file-fits-memory", Severity: iotax.Warning, In: JobFile | Plan, Title: "buffered reads of a file that fits into memory",
	Why: "What was read once stays in the page cache. When a buffered job comes back to the same blocks (a run by time, several loops or clones, random reads without a map) and the file is smaller than the memory, " +
		"it measures the memory of the machine, or of the host below it. One single pass is only noted: fio drops the file from the cache of its own machine first (`invalidate=1`), but a host or a server below still has what fio has just laid out.",
	Hint: "use `direct=1`, or a file of at least twice the memory",
	Bad:  "[read]\nrw=randread\nbs=4k\nsize=1g\ntime_based\nruntime=60",
	Good: "[read]\nrw=randread\nbs=4k\nsize=1g\ntime_based\nruntime=60\ndirect=1"})

var BufferedWriteUnsynced = add(Rule{ID: "buffered-write-unsynced", Severity: iotax.Warning, In: JobFile | Plan | Result, Title: "buffered writes that nothing waits for",
	Why:  "A buffered write is done when the page cache has the data. Without a flush at the end (or every so often) the time until it is on the storage is not measured: the number is that of memory, for as long as memory lasts.",
	Hint: "add `end_fsync=1` (or `fsync`, `fdatasync`, `sync`), or use `direct=1`",
	Bad:  "[write]\nrw=write\nbs=1m\nsize=8g",
	Good: "[write]\nrw=write\nbs=1m\nsize=8g\nend_fsync=1"})

var OverwrittenInCache = add(Rule{ID: "overwritten-in-cache", Severity: iotax.Warning, In: JobFile | Plan, Title: "buffered writes to the same blocks again and again",
	Why: "A trial by time that writes a file through the page cache comes back to blocks that still wait there to be written. What is overwritten in memory never reaches the storage, which gets the last version of each block, by the flush at the end: " +
		"that flush is in the rate, but it is a flush of the file's size at most, however much was written. The number is that of memory, and so is the ratio of two of them.",
	Hint: "use `direct: 1`, a flush every so often (`fsync: 32`), or a file of several times the memory",
	Bad:  "targets:\n  a: {dir: /var/tmp}\nworkloads:\n  w: {fio: {rw: randwrite, bs: 4k, size: 1GiB, direct: 0, end_fsync: 1}}",
	Good: "targets:\n  a: {dir: /var/tmp}\nworkloads:\n  w: {fio: {rw: randwrite, bs: 4k, size: 1GiB, direct: 1, end_fsync: 1}}"})

var Randrepeat = add(Rule{ID: "randrepeat", Severity: iotax.Info, In: JobFile | Result, Title: "every run reads the same offsets",
	Why: "`randrepeat` is on by default: the random offsets of a job are the same in every run. Run again, it asks for what a cache of the host, the server or the drive has just seen. " +
		"A job that sets it explicitly (`randrepeat=1`, `allrandrepeat=1`) gets a warning, all others a note. iotax itself gives every round of trials a seed of its own.",
	Hint: "add `randrepeat=0`, or a `randseed` that is the same for all targets and new for each repetition",
	Bad:  "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\nrandrepeat=1",
	Good: "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\nrandrepeat=0"})

// Rules about runs too short to say anything.

var ShortRun = add(Rule{ID: "short-run", Severity: iotax.Warning, In: JobFile | Plan, Title: "a run of less than five seconds",
	Why:  "In a few seconds nothing is steady: caches fill, burst credit is spent, drives wake up. After a run the same is seen as `short-trial`.",
	Hint: "use 10 s or more, after a ramp (`ramp_time`)",
	Bad:  "[read]\nrw=randread\ndirect=1\nsize=64g\ntime_based\nruntime=2",
	Good: "[read]\nrw=randread\ndirect=1\nsize=64g\ntime_based\nruntime=20"})

var EndsBySize = add(Rule{ID: "ends-by-size", Severity: iotax.Warning, In: JobFile | Plan, Title: "the job ends before its time",
	Why: "`runtime` is only an upper bound: without `time_based` a job ends when its `size` is through, and a result such as \"512MiB/1963msec\" is a run of two seconds. " +
		"Told where one pass takes less than ten seconds of a longer `runtime` on a drive of 500 MB/s and 100,000 IOPS; as a note where no run time is given and it takes less than five.",
	Hint: "add `time_based` with a `runtime` of 10 s or more, or a larger `size`",
	Bad:  "[read]\nrw=read\nbs=1m\ndirect=1\nsize=512m\nruntime=60",
	Good: "[read]\nrw=read\nbs=1m\ndirect=1\nsize=512m\nruntime=60\ntime_based"})

var RampNotShorter = add(Rule{ID: "ramp-not-shorter", Severity: iotax.Warning, In: JobFile | Result, Title: "the ramp is as long as the run",
	Why: "`ramp_time` is not measured. Longer than what is, it is usually a slip in a unit. A job without `time_based` is worse off: when its size is through inside the ramp, the result is that of the ramp, " +
		"or nothing; where that is to be expected this is an error.",
	Hint: "use a `ramp_time` well below `runtime`, and `time_based`",
	Bad:  "[read]\nrw=randread\ndirect=1\nsize=64g\ntime_based\nruntime=10\nramp_time=10",
	Good: "[read]\nrw=randread\ndirect=1\nsize=64g\ntime_based\nruntime=10\nramp_time=2"})

// Rules about what is read and written, and in which units it is said.

var ZeroBuffers = add(Rule{ID: "zero-buffers", Severity: iotax.Warning, In: JobFile | Plan | Result, Title: "the data is too easy to store",
	Why: "Zeroes, a repeated pattern and data that compresses or repeats itself flatter storage that is thin, compresses or deduplicates: it stores little of what was written, and a file of zeroes is read from metadata. " +
		"A share of compressible or repeated data that the job asks for in per cent is told as a note: it may be the point of the job.",
	Hint: "leave the option out (fio writes random data), or add `refill_buffers`, and say so beside the number when it is meant",
	Bad:  "[write]\nrw=write\nbs=1m\ndirect=1\nsize=16g\nzero_buffers",
	Good: "[write]\nrw=write\nbs=1m\ndirect=1\nsize=16g\nrefill_buffers"})

var UnwrittenFile = add(Rule{ID: "unwritten-file", Severity: iotax.Warning, In: JobFile, Title: "reads of blocks that nobody wrote",
	Why: "Blocks that were never written are not on the storage: a sparse file, a thin volume or a new or trimmed SSD answers with zeroes from its metadata, faster than it ever could. " +
		"fio writes a file that does not exist before it reads it, but not a device, and not a file that is there and long enough. Told where the file here has holes; of devices with an \"if\".",
	Hint: "write all of it once with incompressible data before reading (rw=write, bs=1m, refill_buffers)",
	Bad:  "[read]\nrw=randread\ndirect=1\nsize=64g\nfilename=/dev/nvme0n1",
	Good: "[fill]\nrw=write\nbs=1m\ndirect=1\nfilename=/dev/nvme0n1\n[read]\nstonewall\nrw=randread\ndirect=1\nsize=64g\nfilename=/dev/nvme0n1"})

var SizeUnits = add(Rule{ID: "size-units", Severity: iotax.Warning, In: JobFile | Result, Title: "the unit is not the size it says",
	Why: "In fio's default mode (`kb_base=1024`) the units are the wrong way round: `4k`, `4KB` and `4Ki` are 4096 bytes, and `4KiB` is 4000. With `kb_base=1000` they are as the standard has them: `4KiB` is 4096 and `4k` is 4000. " +
		"Sizes are then off by 2.4 % (k), 4.9 % (m) or 7.4 % (g), and a block of 4000 bytes cannot be used with O_DIRECT at all.",
	Hint: "write k, m, g without kb_base: all versions of fio take them as powers of 1024",
	Bad:  "[read]\nrw=randread\nbs=4KiB\nsize=64g\ndirect=1",
	Good: "[read]\nrw=randread\nbs=4k\nsize=64g\ndirect=1"})

var GtodReduce = add(Rule{ID: "gtod-reduce", Severity: iotax.Warning, In: JobFile | Plan | Result, Title: "latencies that are not measured",
	Why:  "`gtod_reduce=1` saves the clock readings that latencies are made of: all latencies are then 0 or missing. A note where the job does not ask for latencies; a warning where it does, or where a report would show them.",
	Hint: "leave out `gtod_reduce` where latencies are wanted, or quote nothing but IOPS and bandwidth",
	Bad:  "[read]\nrw=randread\ndirect=1\nsize=64g\ngtod_reduce=1\nwrite_lat_log=read",
	Good: "[read]\nrw=randread\ndirect=1\nsize=64g\nwrite_lat_log=read"})

// Rules about options that fio refuses or misreads.

var UnknownOption = add(Rule{ID: "unknown-option", Severity: iotax.Invalid, In: JobFile, Title: "fio has no such option",
	Why: "fio stops at an option that it does not know, and at one of another engine than the section has: [global] needs the engine as well, and a command line needs --ioengine before its options. " +
		"Where the fio that will run is known, an option that came with a later version is found as well. Where it is not, a name that no version up to 3.42 has is only noted, unless it looks like a slip. " +
		"Options of engines that are not fio's own are left alone. " +
		"A few names are taken in every job and do nothing (`threads`: it belongs to a built-in profile); they are warned of.",
	Hint: "see `fio --cmdhelp` for the options of your version",
	Bad:  "[read]\nrw=randread\niodpeth=32\nsize=64g\ndirect=1",
	Good: "[read]\nrw=randread\niodepth=32\nioengine=io_uring\nsize=64g\ndirect=1"})

var BadValue = add(Rule{ID: "bad-value", Severity: iotax.Invalid, In: JobFile, Title: "a value that fio does not take",
	Why:  "fio stops at it: a direction or an engine that does not exist, a depth of 0, a share of 150 %, `direct=yes`. The types, ranges and words are those of fio 3.33, from its own tables; a word that a later version has is left alone unless the fio that will run is known not to have it.",
	Hint: "write the value as fio's HOWTO has it",
	Bad:  "[read]\nrw=randraed\nbs=4k\nsize=64g\ndirect=1",
	Good: "[read]\nrw=randread\nbs=4k\nsize=64g\ndirect=1"})

var OptionsRefused = add(Rule{ID: "options-refused", Severity: iotax.Invalid, In: JobFile, Title: "options that fio refuses together",
	Why:  "Each of the options is right, and fio stops at the job all the same: `rate` with `rate_iops`, a `size` below one block, zones without a `zonesize`, writes under `--readonly`, and on Windows `direct` with a synchronous engine.",
	Hint: "change or leave out one of them",
	Bad:  "[read]\nrw=read\ndirect=1\nbs=4m\nsize=1m",
	Good: "[read]\nrw=read\ndirect=1\nbs=4m\nsize=64g"})

var MisreadValue = add(Rule{ID: "misread-value", Severity: iotax.Warning, In: JobFile, Title: "fio takes a value for something else",
	Why:  "fio reads numbers up to the first letter that it does not understand and says nothing: `runtime=0.5` is 0 and so no limit at all, `size=1.5g` is a single byte, `runtime=10sec` is 10 µs.",
	Hint: "use whole numbers with a unit that fio knows: `runtime=500ms`, `size=1536m`",
	Bad:  "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\ntime_based\nruntime=7.5",
	Good: "[read]\nrw=randread\nbs=4k\ndirect=1\nsize=64g\ntime_based\nruntime=7500ms"})

// Rules about the targets of a plan beside each other.

var GuestDiskCache = add(Rule{ID: "guest-disk-cache", Severity: iotax.Warning, In: Plan, Title: "a guest's disk uses the host's cache, and the baseline does not",
	Why: "With `cache=writeback` and `writethrough` the guest's disk is read from the page cache of the host, while direct I/O on the host goes to the device: the guest looks faster than it is. " +
		"With `unsafe` flushes are acknowledged and not done, so that nothing written is safe; the report does not rank that. In a run `cache-served` and `durability-differs` say whether it happened.",
	Hint: "use `cache: none` (or directsync), or make both sides buffered (`direct: 0`) and say so",
	Bad:  "machines: {guest: {qemu: {}}}\ntargets:\n  host: {dir: /var/tmp}\n  disk: {on: guest, disk: {cache: unsafe}}\nworkloads:\n  4k: {fio: {rw: randwrite, bs: 4k}}",
	Good: "machines: {guest: {qemu: {}}}\ntargets:\n  host: {dir: /var/tmp}\n  disk: {on: guest, disk: {cache: none}}\nworkloads:\n  4k: {fio: {rw: randwrite, bs: 4k}}"})

var MemoryTarget = add(Rule{ID: "memory-target", Severity: iotax.Warning, In: JobFile | Plan, Title: "a target that is memory",
	Why:  "What is below /dev/shm or /run is memory: a flush does nothing there, and no storage is measured. It is a fine upper bound, and no rival: the report shows it and does not rank it.",
	Hint: "use a directory on a disk, such as /var/tmp, or read the row as the ceiling that it is",
	Bad:  "targets:\n  disk: {dir: /var/tmp}\n  other: {dir: /dev/shm/x}\nworkloads:\n  4k: {fio: {rw: randwrite, bs: 4k}}",
	Good: "targets:\n  disk: {dir: /var/tmp}\n  other: {dir: /srv}\nworkloads:\n  4k: {fio: {rw: randwrite, bs: 4k}}"})

// Rules about numbers of a result that do not fit together, whatever was measured.

var RateMismatch = add(Rule{ID: "rate-mismatch", Severity: iotax.Invalid, In: Result, Title: "bandwidth is not IOPS times block size",
	Why: "Bandwidth is the number of I/Os in a second times their size. Where the two differ by more than 5 %, one of them was mistyped, rounded away or taken in another unit (KiB for KB, MiB/s for MB/s, k for nothing): " +
		"a published line has 2.4k IOPS of 4 KiB beside 0.99 MB/s. Seen from the printed rates, the totals and the block size of the job where it has only one, less what fio rounds away: below 20 IOPS it cuts up to 5 %, and until 3.25 it printed 11.96 MiB/s as 11.0MiB/s. " +
		"Where no block size is known, I/Os of less than 512 bytes give it away.",
	Hint: "take both from the same raw output; compute IOPS and bandwidth from the totals and the run time"})

var NoLatency = add(Rule{ID: "no-latency", Severity: iotax.Info, In: Result, Title: "a result without latencies",
	Why:  "The job did I/O and no latency was recorded: `gtod_reduce`, `disable_lat` and their kin leave them out, and some outputs print 0 in their place.",
	Hint: "do not quote a latency from it; run again without `gtod_reduce` and `disable_…` where one is needed"})

var NotAJob = add(Rule{ID: "not-a-job", Severity: iotax.Invalid, In: JobFile, Title: "a line that is no part of a job",
	Why:  "fio stops at a line that is no section, no option and no comment, at a file that it cannot include, and at a command line without a job.",
	Hint: "write [name] for a section, option=value below it, and ; or # before a comment",
	Bad:  "rw=randread\n[read]\ndirect=1\nsize=64g",
	Good: "[read]\nrw=randread\ndirect=1\nsize=64g"})

var NotAPlan = add(Rule{ID: "not-a-plan", Severity: iotax.Invalid, In: Plan, Title: "the plan cannot be read",
	Why:  "Nothing is measured from a plan with a mistake in it: an unknown key, a unit that does not exist, a target that is not there.",
	Hint: "see docs/reference/plan.md, or let an editor check the file by `iotax schema`",
	Bad:  "targets:\n  a: {dir: /var/tmp}\nworkloads:\n  w: {fio: {rw: randread, iodpeth: 4}}",
	Good: "targets:\n  a: {dir: /var/tmp}\nworkloads:\n  w: {fio: {rw: randread, iodepth: 4}}"})
