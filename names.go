package iotax

// The names of values and facts are the contract between what measures (workloads, probes, machines, volumes), what judges
// (rules) and what shows (reports). A name that two packages use is here, and nowhere else as a literal. What only its maker
// names (and reports print as any other) is not.

// A ValueName is the name of a Value, a Series or a Histogram. One of I/O begins with its direction: read, write, trim or
// mixed.
type ValueName = string

// A FactKey is the key of a fact of a trial, a target or a run's environment. What a target's machine reports of itself begins
// with "machine.".
type FactKey = string

// Values of any workload.
const (
	ValueDuration     ValueName = "duration"      // s, of a piece of work
	ValueSyncDuration ValueName = "sync.duration" // s, until it is on the device
	ValueOperations   ValueName = "operations"    // how many pieces
	ValueBandwidth    ValueName = "bandwidth"     // B/s
	ValueFairnessJain ValueName = "fairness.jain" // of several clients: (Σx)² ÷ (n·Σx²) of their rates
)

// Values of fio.
const (
	ValueReadIOPS        ValueName = "read.iops"         // 1/s
	ValueWriteIOPS       ValueName = "write.iops"        // 1/s
	ValueMixedIOPS       ValueName = "mixed.iops"        // 1/s, of both directions
	ValueReadBandwidth   ValueName = "read.bandwidth"    // B/s
	ValueWriteBandwidth  ValueName = "write.bandwidth"   // B/s
	ValueReadLatency     ValueName = "read.latency"      // s, a histogram
	ValueMixedLatency    ValueName = "mixed.latency"     // s, a histogram of all directions
	ValueReadLatencyMean ValueName = "read.latency.mean" // s
	ValueLoadOffered     ValueName = "load.offered"      // 1/s, of an open loop
	ValueLimitIOPS       ValueName = "limit.iops"        // 1/s, the highest load that met a condition
	ValueLoadLate        ValueName = "load.late"         // share of the arrivals that found their source busy
)

// Values of other workloads.
const (
	ValueUploadBandwidth ValueName = "upload.bandwidth" // B/s, of objects
	ValuePutRate         ValueName = "put.rate"         // 1/s
	ValueGetRate         ValueName = "get.rate"         // 1/s
	ValueHTTPRequests    ValueName = "http.requests"    // 1/s
	ValueArchiveFiles    ValueName = "archive.files"    // 1/s
	ValueFirstIO         ValueName = "first.io"         // s, until a volume answers
	ValueFirstDuration   ValueName = "first.duration"   // s, of a volume made from an image
	ValueSecondDuration  ValueName = "second.duration"  // s, of another one, made with what the first one left
)

// Values that are observed during a trial; see probe.Watcher.
const (
	ValueCPUClient        ValueName = "cpu.client"        // s, of the load generator
	ValueCPUServing       ValueName = "cpu.serving"       // s, of the processes that serve the target
	ValueCPUHostUsed      ValueName = "cpu.host.used"     // s of CPU a second, of everything on this host
	ValueCPUHost          ValueName = "cpu.host"          // s of CPU a second, of the same processes
	ValueCPUHostBusy      ValueName = "cpu.host.busy"     // share of the time of all CPUs of this host
	ValueCPUHostSteal     ValueName = "cpu.host.steal"    // the same
	ValueCPUMachineSteal  ValueName = "cpu.machine.steal" // the same, of the target's machine
	ValueMemoryServing    ValueName = "memory.serving"    // B, of the processes that serve the target
	ValueMemoryHostRSS    ValueName = "memory.host.rss"   // B, of the same, sampled
	ValueMemoryHostPSS    ValueName = "memory.host.pss"   // B
	ValueMemoryHostUSS    ValueName = "memory.host.uss"   // B
	ValueMemoryHostPeak   ValueName = "memory.host.peak"  // B
	ValueDeviceReadBytes  ValueName = "device.read.bytes" // by the counters of the block device below the place
	ValueDeviceReadIOs    ValueName = "device.read.ios"
	ValueDeviceWriteBytes ValueName = "device.write.bytes"
	ValueDeviceWriteIOs   ValueName = "device.write.ios"
	ValueClockRatio       ValueName = "clock.ratio" // of the machine's clock to this host's
	ValueClockError       ValueName = "clock.error" // of clock.ratio, from the delay of the readings
	ValuePaused           ValueName = "paused"      // s in which iotax itself did not run
	ValueWatchCost        ValueName = "watch.cost"  // share of a core, of the observation itself
)

// Values that follow from others; see metric.Derive.
const (
	ValueCPUPerIO        ValueName = "cpu.per-io"         // s, of everything on this host
	ValueCPUClientPerIO  ValueName = "cpu.client.per-io"  // s
	ValueCPUServingPerIO ValueName = "cpu.serving.per-io" // s
	ValueIOPerCore       ValueName = "io.per-core"        // 1/s, for each busy CPU of this host
)

// Facts of a trial.
const (
	// FactJob is the work as a JSON object: the options of the job without those that have their default and those that iotax
	// sets itself. Trials that do the same have the same.
	FactJob          FactKey = "job"
	FactCommand      FactKey = "command" // as a POSIX shell takes it, of a trial; of a run what started it, if that holds no name of a user
	FactFio          FactKey = "fio"     // version
	FactIOEngine     FactKey = "ioengine"
	FactDirect       FactKey = "direct"
	FactIODepth      FactKey = "iodepth"
	FactNumJobs      FactKey = "numjobs"
	FactClients      FactKey = "clients"  // how many targets did the work at the same moment; also of the target
	FactLoad         FactKey = "load"     // of an open loop, as the plan has it
	FactLoadJob      FactKey = "load.job" // the job of an open loop without its rate
	FactTried        FactKey = "tried"    // of a search: the loads, and what the condition was about at each
	FactPart         FactKey = "part"     // size of the parts of a multipart upload
	FactConcurrency  FactKey = "concurrency"
	FactPayload      FactKey = "payload"  // how what was sent is protected: "signed chunk by chunk"
	FactVerified     FactKey = "verified" // by which checksum what came was compared, or "no"
	FactVersioning   FactKey = "versioning"
	FactLazy         FactKey = "lazy"          // yes where a volume is used before all of it is there
	FactPaused       FactKey = "paused"        // pauses of iotax itself in the trial, in words
	FactPausedBefore FactKey = "paused.before" // the same since the trial before
	FactWatchDevice  FactKey = "watch.device"  // block devices whose counters were read
	FactExplains     FactKey = "explains"      // of an explained trial, whose name of the workload differs: the workload
	FactStages       FactKey = "stages"        // of an explained trial: a JSON array of Stage
	// FactMachineOpened is how long opening the trial's own machine took, as in 3.2s.
	FactMachineOpened FactKey = "machine.opened"
)

// Facts of a target: of its machine.
const (
	FactAccel           FactKey = "accel" // of QEMU: kvm, hvf, tcg, …
	FactAccelWhy        FactKey = "accel.why"
	FactKernel          FactKey = "kernel"      // release
	FactKernelFile      FactKey = "kernel.file" // that the guest booted
	FactImageID         FactKey = "image.id"
	FactLimitCPUs       FactKey = "limit.cpus"
	FactLimitMemory     FactKey = "limit.memory"
	FactMachineCPUModel FactKey = "machine.cpu.model"
	FactMachineHostname FactKey = "machine.hostname"
	FactMachineKernel   FactKey = "machine.kernel"
)

// Facts of a target: of its place.
const (
	FactFilesystem          FactKey = "filesystem" // type
	FactFilesystemMount     FactKey = "filesystem.mount"
	FactFilesystemOptions   FactKey = "filesystem.options"
	FactFilesystemSource    FactKey = "filesystem.source"
	FactFilesystemUnmounted FactKey = "filesystem.unmounted" // mount point of fstab at which nothing is mounted
	FactDeviceName          FactKey = "device.name"
	FactDeviceModel         FactKey = "device.model"
	FactDeviceSize          FactKey = "device.size" // B
	FactDeviceDisk          FactKey = "device.disk" // the whole disk of a partition
	FactQueueScheduler      FactKey = "queue.scheduler"
	FactDiskBus             FactKey = "disk.bus" // of a guest's disk
	FactDiskCache           FactKey = "disk.cache"
	FactDiskSerial          FactKey = "disk.serial"
	FactDiskSize            FactKey = "disk.size"   // B
	FactShareType           FactKey = "share.type"  // virtiofs, 9p, nfs, sshfs
	FactHostDirect          FactKey = "host.direct" // no where the page cache of the host serves a share
	FactClaimType           FactKey = "claim.type"
	FactClaimServer         FactKey = "claim.server"
	FactLineRate            FactKey = "line.rate" // B/s, of the network to the storage
	FactS3Copies            FactKey = "s3.copies" // how many machines keep each block, and which
)

// Facts of a run's environment.
const (
	FactHostname    FactKey = "hostname"
	FactContainer   FactKey = "container" // in which iotax runs
	FactCPUModel    FactKey = "cpu.model"
	FactCPUCount    FactKey = "cpu.count"
	FactCPULimit    FactKey = "cpu.limit" // cores, of the control group
	FactCPUGovernor FactKey = "cpu.governor"
	FactMemoryBytes FactKey = "memory.bytes"
	FactMemoryLimit FactKey = "memory.limit"
	FactOrigin      FactKey = "origin" // OriginImport, where iotax did not measure
	// FactSetupTime is how long the last process took to open, prepare and close, as in 12.5s, without a calibration and
	// without the pause before a resume.
	FactSetupTime FactKey = "setup.time"
)
