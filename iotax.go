// Package iotax defines the basic types of the program: the Machine that runs commands, the Place and the Target of the
// I/O, the Workload that does the I/O, and the Trial, which is one execution of a workload. It imports only the
// standard library.
package iotax

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Machine is a place where commands run: this host, a host over SSH, a guest.
//
// Run may be called from several goroutines at once. Close is called once, after every Run has returned.
type Machine interface {
	// String returns the name of the machine for reports and errors: "host", "ssh://db1", "guest".
	fmt.Stringer

	// Run runs cmd and waits until it ends. It returns *ExitError if the command ran and failed. Any other error
	// means that the machine could not run the command, or failed while it ran. If ctx is done, Run ends the
	// command and its children on the machine, and returns the error of ctx after they have ended.
	Run(ctx context.Context, cmd *Cmd) error

	// Close removes everything that opening the machine created. It must work after a cancel, so callers pass a
	// separate context with a deadline.
	Close(ctx context.Context) error

	// Caps returns the properties and optional functions of the machine. It does no I/O.
	Caps() MachineCaps
}

// A Cmd is one command: an argument vector, never a shell command line.
type Cmd struct {
	Args   []string  // Args[0] is looked up in the machine's PATH
	Env    []string  // "NAME=value", added to the machine's environment
	Dir    string    // working directory; "" means the machine's default
	Stdin  io.Reader // nil means empty input
	Stdout io.Writer // nil discards the output
	Stderr io.Writer // nil discards the output; ExitError contains the last 4 KiB in any case

	// Started is called with the process ID on this host. Other machines ignore it.
	Started func(pid int)
}

// Command returns a Cmd that runs args.
func Command(args ...string) *Cmd { return &Cmd{Args: args} }

// String returns the command quoted for a POSIX shell.
func (c *Cmd) String() string { return QuoteAll(c.Args) }

// ExitError reports that a command ran and failed.
type ExitError struct {
	Args   []string
	Code   int    // exit status; 128+n if signal n ended the command
	Signal string // name of that signal without "SIG" ("KILL"), or ""
	Stderr string // the last 4 KiB of standard error
}

func (e *ExitError) Error() string {
	name := "command"
	if len(e.Args) > 0 {
		name = e.Args[0]
	}
	how := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		how = "signal " + e.Signal
	}
	if s := strings.TrimSpace(e.Stderr); s != "" {
		return fmt.Sprintf("%s: %s: %s", name, how, s)
	}
	return name + ": " + how
}

// MachineCaps describes the properties and optional functions of a Machine. The zero value of a field means that the
// machine does not have the property or function. A machine that wraps another one copies the Caps of that machine and
// changes only the fields that differ, so that no capability is lost.
type MachineCaps struct {
	// Local reports whether commands run on this host and see its files.
	Local bool

	// Outside is the machine that contains this one, if they share a kernel: for example a guest that runs a
	// container.
	Outside Machine

	// Alone reports whether no other user works on the machine, as in a container. If so, root may use any directory,
	// even one that another user could replace.
	Alone bool

	// Perishes reports whether all files that a run leaves on the machine disappear when the machine ends, however it
	// ends.
	Perishes bool

	// Facts describes the machine: acceleration, version, device options.
	Facts map[FactKey]string

	// Agent manages the machine's session with its agent. It is an *agent.Link. If it is nil, each call starts an agent.
	Agent interface{ Hangup(ctx context.Context) }

	// Boot is the boot timeline of a machine that was started for this run, for example start, kernel, init, network,
	// ready. It begins at Started.
	Boot    []Phase
	Started time.Time

	// Restart boots a second machine with the same command line and the same shares, and returns it when it is ready.
	// Of the volumes' disks, it attaches only the one that contains root, because two guests must not write to the same
	// disk. If root is set, the second machine switches to it, and the timeline ends with the first HTTP response of
	// root.Run. The caller closes the second machine.
	Restart func(ctx context.Context, root *Root) (Machine, error)

	// BootFiles returns the files on this host that booting reads, such as the kernel, the initramfs and the image. It
	// is set if Restart is set.
	BootFiles func() []string

	// RunOnConsole boots the machine for one command and returns when the guest has ended. It returns *ExitError if the
	// command ran and failed. With an error, it also returns the output up to that point. It is set only for a
	// unikernel: a machine without a shell and without accessible files, whose Run always fails.
	RunOnConsole func(ctx context.Context, args []string) (ConsoleRun, error)

	// Processes returns the processes on this host that serve the machine (QEMU, virtiofsd): process IDs by label,
	// children included. Their CPU time and memory are the cost of the machine.
	Processes func() map[string][]int

	// DeviceBytes returns the number of bytes that the machine's processes, including ended ones, have requested from
	// block devices of this host. The counters may start at any value. ok is false if the numbers are not known.
	DeviceBytes func() (read, written uint64, ok bool)

	// DiskTimes returns the total time and number of requests at a disk of the machine so far, from the counters of
	// the virtual machine monitor. disk is the ID of its Device.
	DiskTimes func(ctx context.Context, disk string) (Passed, error)

	// Weakens returns the strongest durability that an acknowledged flush at path can have. It is weaker than Durable
	// if, for example, the image of the machine's disk is in memory. fs is the type of the file system at path, or ""
	// for a block device or an unknown file system.
	Weakens func(path, fs string) Durability

	// HostPath returns the path on this host of the data that a container stores at path. It returns "" if the data is
	// in memory or not on this host.
	HostPath func(path string) string

	// VolumeFacts contains the facts of the volume behind each Device, such as a claim, by Device ID.
	VolumeFacts map[string]map[FactKey]string

	// Home is the directory for files if the plan does not name one. "" means /var/tmp.
	Home string

	// Reconnected returns a sentence for each connection to the machine that failed and was re-established since
	// the last call.
	Reconnected func() []string

	// Address is the network address of this machine for other machines in its network.
	Address string

	// LinkRate is the rate of the machine's network link in bytes per second, headers included.
	LinkRate float64

	// HostAddress is the address at which the machine reaches the loopback interface of this host: "10.0.2.2".
	HostAddress string

	// Forward forwards a port on this host to a TCP port of the machine, until the machine is closed. addr is the
	// address on this host ("127.0.0.1:40123").
	Forward func(ctx context.Context, port int) (addr string, err error)
}

// Passed contains counters of a layer that I/Os pass through. They may start at any value.
type Passed struct {
	Time     time.Duration // sum over Requests of the time that each spent in this layer or below
	Requests uint64        // number of completed requests
	Handed   uint64        // requests passed to the layer below: fewer than Requests if the layer merges them, more if it splits them
}

// Outside returns the machine that contains m, or m if no machine contains it. m may be nil.
func Outside(m Machine) Machine {
	if m != nil {
		if on := m.Caps().Outside; on != nil {
			return on
		}
	}
	return m
}

// AloneVariable is the environment variable that declares that no other user works on this host, as in a pod whose
// volumes every user may write to. If it is set, root may use any directory.
const AloneVariable = "IOTAX_ALONE"

// IsLocal reports whether m runs its commands on this host. m may be nil.
func IsLocal(m Machine) bool { return m != nil && m.Caps().Local }

// A ConsoleRun is the result of RunOnConsole.
type ConsoleRun struct {
	Output []byte        // output of the command on the console
	Boot   time.Duration // boot time that the guest reported; 0 if unknown
	Took   time.Duration // from the start of the virtual machine to its end
	CPU    time.Duration // CPU time that the virtual machine's process used
}

// A Root is the root file system that a machine switches to after its kernel has booted, and the program that it
// starts there.
type Root struct {
	Type    string   // type of the file system: virtiofs, 9p, nfs4, ext4, squashfs, erofs
	Source  string   // mount source; "serial:NUMBER" means the disk with this serial number
	Options string   // mount options in kernel syntax
	Path    string   // directory of the file system that becomes /
	Run     []string // program to start, with its arguments
	Port    int      // TCP port on which the program serves HTTP
}

// A Phase is one step of a timeline. At is the time since the start of the timeline.
type Phase struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"`
}

// A Device is a disk, a share or a claim that a guest, a container or a pod must have when it starts. Exactly one of
// Disk, Share and Claim is set.
type Device struct {
	ID    string // serial number of a disk, mount tag of a share: [a-z0-9-], at most 20 bytes
	Disk  *Disk
	Share *Share
	Claim *Claim
}

// A Claim is storage that the cluster provides for a pod.
type Claim struct {
	Class  string // storage class; "" means the cluster's default
	Size   int64  // bytes
	Device string // path of the raw block device in the pod; "" requests a file system
	NFS    string // SERVER:/PATH of an export that the node mounts instead of a claim; "" means none
	Name   string // name of an existing claim, which outlives the pod; "" creates one
}

// A Disk is a file, a block device or an NBD export that a guest uses as a disk.
type Disk struct {
	Path     string // on the host, or the URL of the export
	Format   string // raw, qcow2
	Bus      string // virtio-blk, virtio-scsi, nvme
	Cache    string // none, writeback, writethrough, directsync, unsafe
	AIO      string // threads, native, io_uring
	NoFlush  bool   // flushes are acknowledged but not performed
	IOThread bool
	ReadOnly bool

	// Drive contains additional properties of QEMU's drive, such as discard=unmap. Device contains those of QEMU's
	// device or controller.
	Drive, Device []string
	// IOThreads is the number of I/O threads that share the queues of a virtio-blk disk. 0 means that IOThread
	// decides.
	IOThreads int

	IOPS int   // limit of I/Os per second, reads plus writes; 0 means no limit
	Hot  bool  // hot-plug the disk after the machine has started
	Root int64 // size in bytes of a disk that the guest's root file system is written to; 0 for other disks
}

// A Share is a host directory that a guest mounts, or a mount of a container.
type Share struct {
	Path     string // on the host; "" for the types volume and tmpfs
	Type     string // of a guest: virtiofs, 9p; of a container: bind, volume, tmpfs
	Binary   string // virtiofs daemon: program or path; "" means the installed one
	Cache    string // virtiofs daemon: none, metadata, auto, always
	Window   int64  // virtiofs: bytes of the guest's address space that map the host's page cache (DAX); 0 means none
	Security string // 9p: mapped-xattr, mapped-file, passthrough, none
	ReadOnly bool

	Options map[string]string // virtiofs daemon: options by name, such as thread-pool-size
	Args    []string          // virtiofs daemon: additional arguments
}

// PlaceKind is the kind of path of a Place.
type PlaceKind string

const (
	PlaceDir    PlaceKind = "dir"    // a directory that belongs to iotax: everything in it may be overwritten
	PlaceDevice PlaceKind = "device" // a block device
	PlaceURL    PlaceKind = "url"    // a URL that a client library or a load generator connects to
)

// A Place is the directory, device or URL that the I/O of a target uses, as seen by the target's machine.
type Place struct {
	Kind     PlaceKind
	Path     string // absolute path, or URL
	ReadOnly bool   // writing is not possible

	// Backing is the path on this host that stores the data (the directory itself, a disk image, the shared directory),
	// or "" if this host does not store it. The counters of the block device below Backing show whether the device did
	// the I/O.
	Backing string

	// Guard is called directly before a workload does I/O at the place. An error prevents the I/O. Guard is set for a
	// device that trials write to and that other processes may use, and for a directory that iotax created in a user's
	// directory, because another user may have replaced it.
	Guard func(ctx context.Context) error

	// Durability is the meaning of an acknowledged flush at this place.
	Durability Durability

	Facts map[FactKey]string // such as file system, mount options and I/O scheduler
}

// Durability is a class of guarantees for acknowledged flushes. Places with different classes are not ranked
// against each other.
type Durability string

const (
	Durable      Durability = "durable"       // a flush reaches the medium of the device
	DriveCache   Durability = "drive-cache"   // a flush reaches the drive, which may keep the data in its cache (fsync of macOS)
	FlushIgnored Durability = "flush-ignored" // flushes are acknowledged but not performed (cache=unsafe)
	Volatile     Durability = "volatile"      // memory (tmpfs, ramfs, null engine)
)

// unknown begins the classes of UnknownDurability.
const unknown Durability = "unknown: "

// UnknownDurability returns the class of places for which no guarantee is known, because file systems of this type may
// or may not pass a flush on.
func UnknownDurability(filesystem string) Durability { return unknown + Durability(filesystem) }

// Known reports whether the class states a guarantee.
func (d Durability) Known() bool { return d != "" && !strings.HasPrefix(string(d), string(unknown)) }

// Unlike returns "" if places of the two classes can be ranked against each other, or if one class was not recorded.
// Otherwise, it returns "is not", or "may not be" if one guarantee is unknown.
func (d Durability) Unlike(o Durability) string {
	switch {
	case d == o || d == "" || o == "":
		return ""
	case d.Known() && o.Known():
		return "is not"
	}
	return "may not be"
}

// Weakest returns the weakest of the classes. It ignores classes that were not recorded ("").
func Weakest(classes ...Durability) Durability {
	for _, d := range []Durability{Volatile, FlushIgnored, unknown, DriveCache, Durable} {
		if i := slices.IndexFunc(classes, func(c Durability) bool { return c == d || d == unknown && c != "" && !c.Known() }); i >= 0 {
			return classes[i]
		}
	}
	return ""
}

// A Target is a named place on a machine.
type Target struct {
	Name    string
	Machine Machine
	Place   Place
	Device  string             // the plan's block device in the form that run --destroy takes; "" means none
	Labels  map[string]string  // labels in the plan, and axis values of this target, by key
	Facts   map[FactKey]string // facts that were detected

	// Together contains the targets at which the workload runs at the same time. It is nil for a single target.
	// Otherwise, Machine and Place.Path are copies from Together[0]. Noise is other work during the trial, or nil.
	Together []*Target
	Noise    *Noise

	// Serving contains the functions VolumeCaps.Processes of the place's volume and of the volumes below it. It does
	// not include the processes of the machine.
	Serving []func() map[string][]int
}

// Noise is work that runs at the same time as the measured workload, to disturb it.
type Noise struct {
	Name string // name of the workload
	Work Workload
	At   []*Target
}

// Processes returns the processes on this host that serve the target, by label: those of its machine, of its place, and
// of the targets in Together.
func (t *Target) Processes() map[string][]int {
	all := map[string][]int{}
	serving := t.Serving
	if t.Machine != nil {
		if processes := t.Machine.Caps().Processes; processes != nil {
			serving = append([]func() map[string][]int{processes}, serving...)
		}
	}
	for _, processes := range serving {
		for label, pids := range processes() {
			all[label] = append(all[label], pids...)
		}
	}
	for _, o := range t.Together {
		for label, pids := range o.Processes() {
			for _, pid := range pids {
				if !slices.Contains(all[label], pid) { // several targets may share a machine
					all[label] = append(all[label], pid)
				}
			}
		}
	}
	return all
}

// A Volume creates a place and removes it. A machine may use a place that another machine serves. Caps is first called
// before the machine that uses the place starts. Attach is called after it has started, Detach while it is still
// running, and Close after it has ended. Calls come from one goroutine. Detach and Close are also called after a
// failure, and must then undo the completed steps.
type Volume interface {
	Caps() VolumeCaps
	Attach(ctx context.Context, m Machine) (Place, error)
	Detach(ctx context.Context) error
	Close(ctx context.Context) error
}

// VolumeCaps describes the needs and optional functions of a Volume. A nil field means that the volume does not have
// the need or function.
type VolumeCaps struct {
	// Devices lists the devices that the machine must be started with.
	Devices []Device

	// Processes returns the processes on this host that serve the volume (an NFS server): process IDs by label,
	// children included. Their CPU time and memory are the cost of the volume.
	Processes func() map[string][]int

	// Findings returns the problems that the volume has detected so far.
	Findings func() []Finding
}

// A Workload is work that is done at a place.
//
// Calls come from one goroutine. For each target the order is Check, Prepare, Run (many times), Cleanup. Cleanup is
// called after every Prepare, even if Prepare failed.
type Workload interface {
	// Metrics returns the names of the headline values, most important first ("read.iops"). The first one decides
	// when a cell has been measured precisely enough, unless the user chose other metrics.
	Metrics() []string
	// Check returns an error if t lacks something that the workload needs: a tool, an engine, free space.
	Check(ctx context.Context, t *Target) error
	// Prepare creates everything that the trials of the cell share: the test file, written once.
	Prepare(ctx context.Context, t *Target) error
	// Run does the work once and fills in out. An error means that the trial failed. out then keeps the data
	// collected up to that point (Raw, Facts).
	Run(ctx context.Context, t *Target, out *Trial) error
	// Cleanup removes everything that Prepare created.
	Cleanup(ctx context.Context, t *Target) error
	// Caps returns the optional functions of the workload.
	Caps() WorkloadCaps
}

// WorkloadCaps describes the optional functions of a Workload. A nil or zero field means that the workload does not
// have or need the function. Calls come from the goroutine that calls the workload.
type WorkloadCaps struct {
	// Space returns the number of bytes that the workload stores at a place. Guest disks are created large enough for
	// them.
	Space func() int64

	// Files returns the files that the workload reads. A read-only place is created with these files in it. A
	// workload that writes returns nil.
	Files func() []File

	// Look returns an error if the workload cannot run on m. It is called before any target is opened, so that the run
	// fails before a guest boots.
	Look func(ctx context.Context, m Machine) error

	// Settle makes the workload the same on every target, for example with one fio engine for all. It is called after
	// all targets are open and before the first Check. The findings report its choice and the differences that remain.
	Settle func(ctx context.Context, targets []*Target) ([]Finding, error)

	// Preparation is the total time limit for the user's commands in Prepare, in addition to the time to write
	// Space bytes.
	Preparation time.Duration

	// Pilot chooses settings that depend on the slowest target, such as a load that all targets can sustain. It is
	// called after all targets are prepared, and returns facts of the workload. length is the length of the trials. In a
	// resumed run and in a later start, `known` contains the facts that Pilot returned before. Pilot then makes the same
	// choice without measuring again.
	Pilot func(ctx context.Context, targets []*Target, length time.Duration, known map[string]string) (map[string]string, error)

	// Joins returns nil if the workload can run at several targets at the same time (Target.Together). Otherwise the
	// error is the reason.
	Joins func() error

	// Limit is the time limit of a trial, for a workload that completes a piece of work (a command, a boot) instead of
	// filling a window. A trial that takes longer counts as hung. Trials of such a workload have neither Ramp nor
	// Length.
	Limit time.Duration

	// ColdFiles returns files on this host that the workload reads in addition to those at the place. They are also
	// dropped from the page cache before a cold trial.
	ColdFiles func(t *Target) []string

	// Stage prepares a trial and Unstage ends it. Neither is observed or timed, and each may take up to StageTime.
	// If Stage returns an error, the trial fails, but Unstage is still called. After a cancel, Unstage is not called, and
	// Cleanup removes the leftovers. Stage and Unstage are either both set or both nil.
	Stage, Unstage func(ctx context.Context, t *Target, out *Trial) error
}

// StageTime is the time limit for Stage and for Unstage.
const StageTime = 10 * time.Minute

// A File is a file with Size bytes of incompressible data, or a directory.
type File struct {
	Name string // base name
	Size int64
	Tree string // directory on this host to copy, with Size bytes in total; "" for a file
}

// A Trial is one execution of a workload on a target, even if it failed. The fields of the first group describe the
// requested trial and are set before Workload.Run.
type Trial struct {
	Run        string            `json:"run"`
	Target     string            `json:"target"`
	Workload   string            `json:"workload"`
	Round      int               `json:"round"`                 // from 0; a round has one trial of every target for one workload
	Seq        int               `json:"seq"`                   // from 0; order in the run
	StartIndex int               `json:"start_index,omitempty"` // from 1; each start opens machines, volumes and files again; 0 if unknown
	Seed       uint64            `json:"seed"`                  // same for all trials of a round
	Ramp       time.Duration     `json:"ramp"`
	Length     time.Duration     `json:"length"` // length of the measured window, without the ramp
	Cold       bool              `json:"cold"`   // caches were dropped before the trial
	Labels     map[string]string `json:"labels,omitempty"`

	Start      time.Time          `json:"start"`
	Took       time.Duration      `json:"took"` // wall time of the whole trial, including setup
	Facts      map[FactKey]string `json:"facts,omitempty"`
	Values     []Value            `json:"values,omitempty"`
	Series     []Series           `json:"series,omitempty"`
	Histograms []Histogram        `json:"histograms,omitempty"`
	Intervals  []Interval         `json:"intervals,omitempty"` // in time order for each histogram
	Findings   []Finding          `json:"findings,omitempty"`
	Raw        []byte             `json:"-"` // unmodified output of the tool
	Profile    []byte             `json:"-"` // of a profiled trial: the CPU time of the target's processes, in the format of pprof
	Err        string             `json:"err,omitempty"`
	Discarded  string             `json:"discarded,omitempty"` // why the trial, and therefore its round, does not count
}

// PartlyKnown is a key that FactJob contains if imported results do not show all options.
const PartlyKnown = "partly known"

// JobText returns job encoded for FactJob.
func JobText(job map[string]string) string {
	text, _ := json.Marshal(job) // a map of strings always encodes
	return string(text)
}

// Cell returns the name of the trial's cell: one workload at one target.
func (t *Trial) Cell() string { return t.Target + " / " + t.Workload }

// Value returns the value with this name. The bool is false if the trial does not contain it.
func (t *Trial) Value(name ValueName) (Value, bool) {
	for _, v := range t.Values {
		if v.Name == name {
			return v, true
		}
	}
	return Value{}, false
}

// Better is the direction in which a value improves.
type Better string

const (
	Up      Better = "up"
	Down    Better = "down"
	Neither Better = ""
)

// Base units. Values are stored in these units and scaled for display.
const (
	BytesPerSecond = "B/s"
	PerSecond      = "1/s"
	Seconds        = "s"
	Bytes          = "B"
	RatioUnit      = "ratio"
	Count          = "1"
)

// A Value is one measured number in a base unit.
type Value struct {
	Name   ValueName `json:"name"` // "read.iops", "write.latency.p99"
	Value  float64   `json:"value"`
	Unit   string    `json:"unit"`
	Better Better    `json:"better,omitempty"`
}

// A Series is one value over time. V[i] was measured in the interval that ends T[i] seconds after the start of the
// measured window.
type Series struct {
	Name string    `json:"name"`
	Unit string    `json:"unit"`
	T    []float64 `json:"t"`
	V    []float64 `json:"v"`
}

// A Histogram counts observations by value. Bins are in ascending order, and no bin is empty.
type Histogram struct {
	Name string `json:"name"` // "read.latency"
	Unit string `json:"unit"`
	Bins []Bin  `json:"bins"`
}

// An Interval contains the observations from a part of the measured window. The part extends from From to To, in
// seconds after the start of the window. Intervals without observations are omitted.
type Interval struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Histogram
}

// Quantile splits the name of a quantile, such as "read.latency.p99.9", into the name of its histogram and the
// quantile q. ok is false if name is not the name of a quantile.
func Quantile(name ValueName) (histogram ValueName, q float64, ok bool) {
	i := strings.LastIndex(name, ".p")
	if i < 0 {
		return "", 0, false
	}
	percent, err := strconv.ParseFloat(name[i+2:], 64)
	return name[:i], percent / 100, err == nil && percent > 0 && percent < 100
}

// Seen contains data that was observed during a trial, in addition to the data of the trial itself. In Series, T counts
// from the start of the observation.
type Seen struct {
	Values []Value
	Series []Series
	Facts  map[FactKey]string

	Profile []byte
}

// A Stage is a section of the path of an I/O, between two points at which time is measured, called clocks. FactStages
// contains the stages of a trial, from the application down. The time that an I/O spends in a stage is the difference
// between the clock above it and the clock at its End. The first stage begins at the application.
type Stage struct {
	Name    string `json:"name"`
	End     string `json:"end,omitempty"`     // the clock below the stage, with values ValueStage(End, …); "" for the last stage
	Missing string `json:"missing,omitempty"` // why End has no values, and what is needed to measure the end of the stage
}

// ValueStage returns the name of a value of the clock named end, which is at the end of a stage. what selects the
// value: the time that requests spent below the clock (StageBelow), the number of requests that it counted
// (StageRequests), or the number that were passed on below it (StageHanded).
func ValueStage(end, what string) ValueName { return "stage." + end + "." + what }

// Values of the parameter what of ValueStage, with their units. See Passed.
const (
	StageBelow    = "below"    // s
	StageRequests = "requests" // 1
	StageHanded   = "handed"   // 1
)

// Explains returns the workload that an explained trial belongs to, or "" for other trials.
func (t *Trial) Explains() string { return t.Facts[FactExplains] }

// Profiles returns the workload that a profiled trial belongs to, or "" for other trials.
func (t *Trial) Profiles() string { return t.Facts[FactProfiles] }

// Separate reports whether the trial was explained or profiled. The results of the run do not include such trials.
func (t *Trial) Separate() bool { return t.Explains() != "" || t.Profiles() != "" }

// A Bin is Count observations at about Value.
type Bin struct {
	Value float64 `json:"value"`
	Count uint64  `json:"count"`
}

// Severity is the severity of a finding.
type Severity string

const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Invalid Severity = "error" // the result that the finding is about is invalid
)

// A Finding describes what was detected and what the user can do. Package rules creates findings.
type Finding struct {
	Rule     string   `json:"rule"` // stable id: "cache-served"
	Severity Severity `json:"severity"`
	Subject  Subject  `json:"subject"`
	Evidence string   `json:"evidence"`
	Hint     string   `json:"hint,omitempty"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
}

// A Subject identifies what a finding is about.
type Subject struct {
	Kind     SubjectKind `json:"kind"`
	Target   string      `json:"target,omitempty"`
	Workload string      `json:"workload,omitempty"`
}

// A SubjectKind determines which fields of a Subject are set.
type SubjectKind string

const (
	SubjectText     SubjectKind = "text"     // a job file, a command line or a plan: the finding's File, Line and Column
	SubjectRun      SubjectKind = "run"      // the run as a whole
	SubjectTarget   SubjectKind = "target"   // a target, for all workloads
	SubjectWorkload SubjectKind = "workload" // a workload, at all targets
	SubjectCell     SubjectKind = "cell"     // one workload at one target
	SubjectTrial    SubjectKind = "trial"    // one trial of a cell: the trial whose Findings contain the finding
)

// AboutRun returns the run as the subject of a finding.
func AboutRun() Subject { return Subject{Kind: SubjectRun} }

// AboutTarget returns a target as the subject of a finding.
func AboutTarget(target string) Subject { return Subject{Kind: SubjectTarget, Target: target} }

// AboutWorkload returns a workload as the subject of a finding.
func AboutWorkload(workload string) Subject {
	return Subject{Kind: SubjectWorkload, Workload: workload}
}

// AboutCell returns a workload at a target as the subject of a finding.
func AboutCell(target, workload string) Subject {
	return Subject{Kind: SubjectCell, Target: target, Workload: workload}
}

// AboutTrial returns a trial as the subject of a finding. The finding must be in that trial.
func AboutTrial(t *Trial) Subject {
	return Subject{Kind: SubjectTrial, Target: t.Target, Workload: t.Workload}
}

// Concerns reports whether a finding about s applies to this cell. It does unless s names a different target or
// workload.
func (s Subject) Concerns(target, workload string) bool {
	return (s.Target == "" || s.Target == target) && (s.Workload == "" || s.Workload == workload)
}

// Status is the state of a run.
type Status string

const (
	Running     Status = "running"
	Done        Status = "done"
	Incomplete  Status = "incomplete"  // rounds, precision or targets of the plan are missing
	Interrupted Status = "interrupted" // by the user
	Failed      Status = "failed"      // an error ended the run
)

// A Run is one execution of a plan, without its trials.
type Run struct {
	ID          string             `json:"id"` // sorts by start time
	Name        string             `json:"name"`
	Version     string             `json:"version"` // version of iotax
	Plan        []byte             `json:"-"`       // the resolved plan, YAML
	Seed        uint64             `json:"seed"`
	Start       time.Time          `json:"start"`
	End         time.Time          `json:"end"`
	Status      Status             `json:"status"`
	Baseline    string             `json:"baseline"`  // name of a target
	Precision   float64            `json:"precision"` // 0.05: stop at ± 5 %
	Margin      float64            `json:"margin"`    // 0.05: the verdict treats differences within ± 5 % as equivalent
	Alpha       float64            `json:"alpha"`     // 1 − confidence level of each interval; smaller if the run has several interim analyses
	Environment map[FactKey]string `json:"environment"`
	Targets     []TargetInfo       `json:"targets"`
	Workloads   []WorkloadInfo     `json:"workloads"`
	Calibration *Calibration       `json:"calibration,omitempty"` // of the test bed; nil if not known
	Findings    []Finding          `json:"findings,omitempty"`    // without the findings of targets and trials

	Presentation *Presentation `json:"presentation,omitempty"` // the plan's settings for the report; nil means none
}

// A Presentation contains the plan's settings for the report.
type Presentation struct {
	Expect    []Expectation `json:"expect,omitempty"`
	Layers    [][]string    `json:"layers,omitempty"`    // chains of targets, from the device up to the application
	Layout    string        `json:"layout,omitempty"`    // a classic table layout, one of Layouts
	Reference *Reference    `json:"reference,omitempty"` // published figures to show as a reference
}

// An Expectation is a limit for a metric. The report evaluates it.
type Expectation struct {
	Text string `json:"text"`           // names one workload, in the syntax of expect.Parse
	File string `json:"file,omitempty"` // plan file that contains it; "" for the command line
	Line int    `json:"line,omitempty"` // from 1
}

// Layouts lists the classic table layouts for a report. They are named after the publications that used them.
var Layouts = []string{"tart", "repetitions", "generated", "directions"}

// A Reference selects published figures to compare a run with. Targets, Workloads and Metrics translate names in this
// run to published names. Names of targets and workloads that are not in a map match published names that differ only in
// case or in the separators of words.
type Reference struct {
	Published string            `json:"published"` // name of a data set: "lima-mounts"
	Targets   map[string]string `json:"targets,omitempty"`
	Workloads map[string]string `json:"workloads,omitempty"`
	Metrics   map[string]string `json:"metrics,omitempty"`
	Values    map[string]string `json:"values,omitempty"` // single figures by "TARGET / WORKLOAD / METRIC"
}

// A Calibration describes the noise of a test bed (a host, a device, a load generator). It comes from measuring the
// baseline against itself, as two arms, with the code that also compares targets. Numbers that could not be measured
// are 0.
type Calibration struct {
	Ratio    float64       `json:"ratio"`         // ratio of the baseline to itself; the true value is 1
	Lo       float64       `json:"lo"`            // lower bound of the 95 % interval of Ratio
	Hi       float64       `json:"hi"`            // upper bound
	Rounds   int           `json:"rounds"`        // rounds used for Ratio, without discarded ones
	CV       float64       `json:"cv"`            // coefficient of variation of the trials of both arms: standard deviation / mean
	Lag1     float64       `json:"lag1"`          // φ, lag-one autocorrelation of the differences of successive rounds
	Phi      float64       `json:"phi,omitempty"` // the φ that widens intervals; 0 unless Lag1 is significant
	NullIOPS float64       `json:"null_iops"`     // IOPS of the load generator with one thread and fio's null engine
	Trial    time.Duration `json:"trial"`         // optimal trial length, from the variance components
	At       time.Time     `json:"at"`            // time of the measurement

	Workload string        `json:"workload"` // workload that was measured
	Length   time.Duration `json:"length"`   // length of the trials used
	Brief    bool          `json:"brief"`    // measured quickly before a run: too short to estimate φ and Trial
}

// Floor returns the noise floor: the half width of the A/A interval on the logarithmic scale, as a ratio. 0.02
// means ± 2 %. It is 0 if there is no interval.
func (c *Calibration) Floor() float64 {
	if c == nil || !(c.Lo > 0) || !(c.Hi >= c.Lo) {
		return 0
	}
	return math.Expm1((math.Log(c.Hi) - math.Log(c.Lo)) / 2)
}

// Autocorrelation returns the φ that widens intervals, or 0 without a calibration.
func (c *Calibration) Autocorrelation() float64 {
	if c == nil {
		return 0
	}
	return c.Phi
}

// OriginImport is the FactOrigin of a run that was not measured by iotax.
const OriginImport = "import"

// Imported reports whether r contains imported results, which iotax did not measure. Their trials were not interleaved,
// so rounds must not be paired. r may be nil.
func (r *Run) Imported() bool { return r != nil && r.Environment[FactOrigin] == OriginImport }

// BaselineOf returns the target that the other targets are compared with under a workload. This is the run's baseline,
// or, if the workload does not run at it, the first target that the plan lists for the workload.
func (r *Run) BaselineOf(workload string) string {
	for _, w := range r.Workloads {
		if w.Name == workload && len(w.At) > 0 && !slices.Contains(w.At, r.Baseline) {
			return w.At[0]
		}
	}
	return r.Baseline
}

// TargetInfo is the stored part of a Target.
type TargetInfo struct {
	Name       string             `json:"name"`
	Machine    string             `json:"machine"`
	Place      string             `json:"place"`
	Durability Durability         `json:"durability"`
	Labels     map[string]string  `json:"labels,omitempty"`
	Facts      map[FactKey]string `json:"facts,omitempty"` // at the last start
	Findings   []Finding          `json:"findings,omitempty"`
	Err        string             `json:"err,omitempty"` // why the target could not be opened

	// Starts has, for each start (Trial.StartIndex - 1), the facts that are not the same at all starts. It is empty if all
	// are.
	Starts []map[FactKey]string `json:"starts,omitempty"`

	// Against lists the targets that this target is compared with instead of the run's baseline. The ratio and the
	// verdict refer to the first one at which the workload runs. For the others, the report only shows the ratio.
	Against []string `json:"against,omitempty"`
}

// Emulated reports whether the target is in a guest with emulated CPUs (QEMU's TCG). It uses the accelerator that
// the machine reports, or the CPU model that the guest sees ("QEMU TCG CPU version 2.5+").
func (t TargetInfo) Emulated() bool {
	return t.Facts[FactAccel] == "tcg" || strings.Contains(t.Facts[FactMachineCPUModel], "TCG CPU")
}

// Reference returns the target that t is compared with under one workload: the first target of Against at which the
// workload runs, or the baseline (Run.BaselineOf) if Against is empty. It returns "" for the baseline itself, and if
// the workload does not run at any of these targets.
func (t TargetInfo) Reference(baseline string, takesPart func(target string) bool) string {
	if t.Name == baseline {
		return ""
	}
	if len(t.Against) == 0 {
		if takesPart(baseline) {
			return baseline
		}
		return ""
	}
	for _, name := range t.Against {
		if takesPart(name) {
			return name
		}
	}
	return ""
}

// WorkloadInfo is the stored part of a Workload.
type WorkloadInfo struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Metrics []string `json:"metrics"`          // headline values, most important first
	Chosen  bool     `json:"chosen,omitempty"` // the user chose Metrics, and each of them decides when to stop; otherwise only the first does
	Cold    bool     `json:"cold"`

	Facts   map[FactKey]string `json:"facts,omitempty"`   // facts that Pilot returned
	At      []string           `json:"at,omitempty"`      // targets at which it runs; nil means all
	Section string             `json:"section,omitempty"` // report heading for this workload
}

// Error is an error message for the user: the operation, its object, the cause, and a hint.
type Error struct {
	Op   string // "open guest", "read plan"
	On   string // the object: a path, a target, a host
	Err  error
	Hint string // what the user can do; "" if unknown
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.On != "" {
		b.WriteString(" " + e.On)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString("\n  hint: " + e.Hint)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// WithoutHint returns a copy of e for an error that has a better hint.
func (e *Error) WithoutHint() *Error { return &Error{Op: e.Op, On: e.On, Err: e.Err} }

// ErrGone reports that a machine no longer exists: the system that manages machines was queried and does not list it.
// If that system cannot be reached, the error is a different one.
var ErrGone = errors.New("it is not there")

// Gone wraps err so that errors.Is(err, ErrGone) is true. The message does not change.
func Gone(err error) error { return gone{err} }

type gone struct{ error }

func (g gone) Is(target error) bool { return target == ErrGone }
func (g gone) Unwrap() error        { return g.error }

// ErrUsage reports a mistake in the user's command line or plan. Nothing was measured.
var ErrUsage = errors.New("usage")

// Usage wraps err so that errors.Is(err, ErrUsage) is true.
func Usage(err error) error { return usage{err} }

type usage struct{ error }

func (u usage) Is(target error) bool { return target == ErrUsage }
func (u usage) Unwrap() error        { return u.error }
