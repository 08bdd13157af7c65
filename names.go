package iotax

// The names of values and facts are the contract between the code that measures (workloads, probes, machines, volumes),
// the code that evaluates (rules) and the code that displays (reports). A name that two packages use is defined here. A
// name that only one package uses is a literal in that package.

// A ValueName is the name of a Value, a Series or a Histogram. Names of I/O values begin with the direction: read,
// write, trim or mixed.
type ValueName = string

// A FactKey is the key of a fact of a trial, a target or a run's environment. Facts that a target's machine reports
// about itself begin with "machine.".
type FactKey = string

// Values of any workload.
const (
	ValueDuration     ValueName = "duration"      // s, of the measured work of a trial: the window of fio or HTTP, or the time of all operations
	ValueSyncDuration ValueName = "sync.duration" // s, until the data is on the device
	ValueOperations   ValueName = "operations"    // number of units of work
	ValueBandwidth    ValueName = "bandwidth"     // B/s
	ValueFairnessJain ValueName = "fairness.jain" // Jain's fairness index of several clients: (Σx)² ÷ (n·Σx²) of their rates
)

// Values of fio.
const (
	ValueReadIOPS        ValueName = "read.iops"         // 1/s
	ValueWriteIOPS       ValueName = "write.iops"        // 1/s
	ValueMixedIOPS       ValueName = "mixed.iops"        // 1/s, of all directions
	ValueReadBandwidth   ValueName = "read.bandwidth"    // B/s
	ValueWriteBandwidth  ValueName = "write.bandwidth"   // B/s
	ValueReadLatency     ValueName = "read.latency"      // s, a histogram
	ValueMixedLatency    ValueName = "mixed.latency"     // s, a histogram of all directions
	ValueReadLatencyMean ValueName = "read.latency.mean" // s
	ValueLoadOffered     ValueName = "load.offered"      // 1/s, of an open loop
	ValueLimitIOPS       ValueName = "limit.iops"        // 1/s, the highest load that met a condition
	ValueLoadLate        ValueName = "load.late"         // share of the arrivals that were late, because the fio job that submits them was busy
)

// Values of other workloads.
const (
	ValueUploadBandwidth ValueName = "upload.bandwidth" // B/s, of objects
	ValuePutRate         ValueName = "put.rate"         // 1/s
	ValueGetRate         ValueName = "get.rate"         // 1/s
	ValueHTTPRequests    ValueName = "http.requests"    // 1/s
	ValueArchiveFiles    ValueName = "archive.files"    // 1/s
	ValueFirstIO         ValueName = "first.io"         // s, until a volume completes its first I/O
	ValueFirstDuration   ValueName = "first.duration"   // s, for the first volume created from an image
	ValueSecondDuration  ValueName = "second.duration"  // s, for a second volume, which can reuse data that the first one left
)

// Values that are observed during a trial; see probe.Watcher.
const (
	ValueCPUClient        ValueName = "cpu.client"        // s, of the load generator
	ValueCPUServing       ValueName = "cpu.serving"       // s, of the processes that serve the target
	ValueCPUHostUsed      ValueName = "cpu.host.used"     // CPU seconds per second, of everything on this host
	ValueCPUHost          ValueName = "cpu.host"          // CPU seconds per second, of the processes that serve the target
	ValueCPUHostBusy      ValueName = "cpu.host.busy"     // share of the time of all CPUs of this host
	ValueCPUHostSteal     ValueName = "cpu.host.steal"    // share of the time of all CPUs of this host that a hypervisor took
	ValueCPUMachineSteal  ValueName = "cpu.machine.steal" // the same share, for the CPUs of the target's machine
	ValueMemoryServing    ValueName = "memory.serving"    // B, of the processes that serve the target
	ValueMemoryHostRSS    ValueName = "memory.host.rss"   // B, of the same processes, sampled
	ValueMemoryHostPSS    ValueName = "memory.host.pss"   // B
	ValueMemoryHostUSS    ValueName = "memory.host.uss"   // B
	ValueMemoryHostPeak   ValueName = "memory.host.peak"  // B
	ValueDeviceReadBytes  ValueName = "device.read.bytes" // from the counters of the block device below the place
	ValueDeviceReadIOs    ValueName = "device.read.ios"
	ValueDeviceWriteBytes ValueName = "device.write.bytes"
	ValueDeviceWriteIOs   ValueName = "device.write.ios"
	ValueClockRatio       ValueName = "clock.ratio" // rate of the machine's clock relative to this host's clock
	ValueClockError       ValueName = "clock.error" // error of clock.ratio, from the delay of the readings
	ValuePaused           ValueName = "paused"      // s in which iotax itself did not run
	ValueWatchCost        ValueName = "watch.cost"  // share of a core, for the observation itself
)

// Values that are derived from others; see metric.Derive.
const (
	ValueCPUPerIO        ValueName = "cpu.per-io"         // s, of everything on this host
	ValueCPUClientPerIO  ValueName = "cpu.client.per-io"  // s
	ValueCPUServingPerIO ValueName = "cpu.serving.per-io" // s
	ValueIOPerCore       ValueName = "io.per-core"        // 1/s, per busy CPU of this host
)

// Facts of a trial.
const (
	// FactJob is the work as a JSON object: the options of the job without defaults and without options that iotax
	// sets itself. It is equal for trials that do the same work.
	FactJob            FactKey = "job"
	FactCommand        FactKey = "command" // of a trial: a POSIX shell command; of a run: its command line, unless that may contain a password
	FactFio            FactKey = "fio"     // version
	FactIOEngine       FactKey = "ioengine"
	FactDirect         FactKey = "direct"
	FactIODepth        FactKey = "iodepth"
	FactNumJobs        FactKey = "numjobs"
	FactClients        FactKey = "clients"  // number of targets that did the work at the same time, also a fact of the target; of an object workload, the number of objects in flight
	FactLoad           FactKey = "load"     // of an open loop, as written in the plan
	FactLoadJob        FactKey = "load.job" // the job of an open loop without its rate
	FactTried          FactKey = "tried"    // of a search: the tried loads, with the tested value and the outcome of each
	FactPart           FactKey = "part"     // size of the parts of a multipart upload
	FactConcurrency    FactKey = "concurrency"
	FactPayload        FactKey = "payload"  // how the request body is protected: "signed chunk by chunk"
	FactVerified       FactKey = "verified" // checksum that verified the received data, or "no"
	FactVersioning     FactKey = "versioning"
	FactLazy           FactKey = "lazy"            // "yes" if a volume is used before it is complete
	FactPaused         FactKey = "paused"          // pauses of iotax itself during the trial, as text
	FactPausedBefore   FactKey = "paused.before"   // the same, for the time between the previous trial and this one
	FactWatchDevice    FactKey = "watch.device"    // block devices whose counters were read
	FactExtents        FactKey = "file.extents"    // of the test files, before a cold trial
	FactBackingExtents FactKey = "backing.extents" // of the files of this host that hold a place of another machine
	FactExplains       FactKey = "explains"        // of an explained trial: its original workload, which has a different name
	FactStages         FactKey = "stages"          // of an explained trial: a JSON array of Stage
	FactProfiles       FactKey = "profiles"        // of a profiled trial: its original workload, which has a different name
	FactNoProfile      FactKey = "profile.none"    // of a profiled trial: why it has no profile
	// FactMachineOpened is the time that opening the trial's own machine took, such as 3.2s.
	FactMachineOpened FactKey = "machine.opened"
)

// Facts of a target about its machine.
const (
	FactAccel           FactKey = "accel" // of QEMU: kvm, hvf, tcg, …
	FactAccelWhy        FactKey = "accel.why"
	FactKernel          FactKey = "kernel"      // release
	FactKernelFile      FactKey = "kernel.file" // kernel file that the guest booted
	FactImageID         FactKey = "image.id"
	FactLimitCPUs       FactKey = "limit.cpus"
	FactLimitMemory     FactKey = "limit.memory"
	FactMachineCPUModel FactKey = "machine.cpu.model"
	FactMachineHostname FactKey = "machine.hostname"
	FactMachineKernel   FactKey = "machine.kernel"
)

// Facts of a target about its place.
const (
	FactFilesystem          FactKey = "filesystem" // type
	FactFilesystemMount     FactKey = "filesystem.mount"
	FactFilesystemOptions   FactKey = "filesystem.options"
	FactFilesystemSource    FactKey = "filesystem.source"
	FactFilesystemUnmounted FactKey = "filesystem.unmounted" // mount point in fstab at which nothing is mounted
	FactDeviceName          FactKey = "device.name"
	FactDeviceModel         FactKey = "device.model"
	FactDeviceSize          FactKey = "device.size"     // B
	FactDeviceDisk          FactKey = "device.disk"     // the whole disk that contains a partition
	FactDeviceVolatile      FactKey = "device.volatile" // "yes" if the device stores in memory
	FactQueueScheduler      FactKey = "queue.scheduler"
	FactDiskBus             FactKey = "disk.bus" // of a guest's disk
	FactDiskCache           FactKey = "disk.cache"
	FactDiskSerial          FactKey = "disk.serial"
	FactDiskSize            FactKey = "disk.size"   // B
	FactShareType           FactKey = "share.type"  // virtiofs, 9p, nfs, sshfs
	FactNBD                 FactKey = "nbd"         // server of an export
	FactNBDAIO              FactKey = "nbd.aio"     // of qemu-nbd: threads, native, io_uring
	FactHostDirect          FactKey = "host.direct" // "no" if the host's page cache may serve direct reads of a share
	FactClaimType           FactKey = "claim.type"
	FactClaimServer         FactKey = "claim.server"
	FactLineRate            FactKey = "line.rate" // B/s, of the network to the storage
	FactS3Copies            FactKey = "s3.copies" // number of copies of each block, and the machines of the replicas
)

// Facts of a run's environment.
const (
	FactHostname    FactKey = "hostname"
	FactContainer   FactKey = "container" // container in which iotax runs
	FactCPUModel    FactKey = "cpu.model"
	FactCPUCount    FactKey = "cpu.count"
	FactCPULimit    FactKey = "cpu.limit" // cores, from the cgroup
	FactCPUGovernor FactKey = "cpu.governor"
	FactMemoryBytes FactKey = "memory.bytes"
	FactMemoryLimit FactKey = "memory.limit"
	FactOrigin      FactKey = "origin" // OriginImport if iotax did not measure the run
	// FactSetupTime is the time that the run's last process needed to open, prepare and close the targets, such as
	// 12.5s. It excludes calibration and the pause before a resume.
	FactSetupTime FactKey = "setup.time"
	FactResumed   FactKey = "resumed" // when the run's last process began, in RFC 3339; only if the run was resumed
)
