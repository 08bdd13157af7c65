// Package iotax holds the nouns of the program: where commands run (Machine), what the I/O hits
// (Place, Target), what is done there (Workload), and one run of it (Trial). It imports only the
// standard library; every other package imports it, and it imports none of them.
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
// Run may be called from several goroutines at once; Close is called once, after every Run has
// returned.
type Machine interface {
	// String names the machine in reports and errors: "host", "ssh://db1", "guest".
	fmt.Stringer

	// Run runs cmd to its end. A command that ran and failed yields *ExitError; any other error
	// means that the machine could not run it, or died under it. Once ctx is done, Run ends the
	// command (and its children) over there, and returns ctx's error only after they are gone.
	Run(ctx context.Context, cmd *Cmd) error

	// Close removes whatever opening the machine made. It must work after a cancel, so callers
	// pass a context of its own with a deadline.
	Close(ctx context.Context) error

	// Caps returns what the machine is and can do beyond the methods above. It does not round.
	Caps() MachineCaps
}

// A Cmd is one command: an argument vector, never a shell line.
type Cmd struct {
	Args   []string  // Args[0] is looked up in the machine's PATH
	Env    []string  // "NAME=value", added to the environment the machine gives
	Dir    string    // working directory; "" is the machine's own choice
	Stdin  io.Reader // nil is an empty input
	Stdout io.Writer // nil discards
	Stderr io.Writer // nil discards; its end is kept for ExitError either way

	// Started is called with the process id on this host; other machines ignore it.
	Started func(pid int)
}

// Command returns the Cmd that runs args.
func Command(args ...string) *Cmd { return &Cmd{Args: args} }

// String quotes the command as a POSIX shell would need it.
func (c *Cmd) String() string { return QuoteAll(c.Args) }

// ExitError says that a command ran and did not succeed.
type ExitError struct {
	Args   []string
	Code   int    // exit status; 128+n when signal n ended it
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

// MachineCaps is what a Machine is and can do beyond running commands. The zero value of a field means that it is not or
// cannot. A machine that wraps another starts from the Caps of that one and changes what differs, so that it loses nothing.
type MachineCaps struct {
	// Local reports that commands run on this host and have its files.
	Local bool

	// Outside is the machine that this one is on, if they share a kernel: a container in a guest.
	Outside Machine

	// Alone reports that no other user works on the machine, as in a container. Root then uses any directory.
	Alone bool

	// Perishes reports that everything a run leaves in the machine disappears when the machine ends, however it ends: no file
	// in it is on storage that outlives it.
	Perishes bool

	// Facts describe the machine: acceleration, version, device lines.
	Facts map[FactKey]string

	// Agent is the machine's session with its agent: an *agent.Link. With nil, each call starts an agent.
	Agent interface{ Hangup(ctx context.Context) }

	// Boot is the timeline of a machine that was started for this run: start, kernel, init, network, ready. It begins at Started.
	Boot    []Phase
	Started time.Time

	// Restart boots a second machine with the same command line and the same shares, and returns it once it can be used. The
	// first one keeps its mounts. Disks of volumes are left out: two guests must not write to one. With a root, which may be
	// a copy of such a disk, the machine switches to it, and its timeline ends with the first answer of root.Run. The caller
	// closes the machine.
	Restart func(ctx context.Context, root *Root) (Machine, error)

	// BootFiles returns the files of this host that booting reads: kernel, initial RAM disk, image. It is set where Restart is.
	BootFiles func() []string

	// RunOnConsole is set for a machine without a shell and without reachable files: a unikernel, whose Run always fails. It
	// boots the machine for one command and returns when the guest has ended. A command that ran and failed yields
	// *ExitError. An error comes with the output until then.
	RunOnConsole func(ctx context.Context, args []string) (ConsoleRun, error)

	// Processes returns the processes of this host that serve the machine (QEMU, virtiofsd): a label and the process ids
	// behind it, children included. Their CPU time and memory are its cost.
	Processes func() map[string][]int

	// DeviceBytes returns the bytes that the machine's processes, ended ones included, have requested from block devices of
	// this host since the machine was opened. ok is false if that is not known.
	DeviceBytes func() (read, written uint64, ok bool)

	// DiskTimes returns how long requests at a disk of the machine took so far, by the counters of the virtual machine
	// monitor. disk is the ID of its Device.
	DiskTimes func(ctx context.Context, disk string) (Passed, error)

	// Weakens returns the most that an acknowledged flush at path can mean: the image of the machine's disk may be in memory,
	// or the virtual machine may ignore flushes. fs is the type of the file system; "" is a block device or unknown.
	Weakens func(path, fs string) Durability

	// HostPath returns the path on this host that holds the bytes of a path of the machine (a container), or "" if they are
	// elsewhere or in memory.
	HostPath func(path string) string

	// VolumeFacts are the facts of the volumes that Devices became, by ID of the Device.
	VolumeFacts map[string]map[FactKey]string

	// Home is the directory for files whose directory the plan does not name. "" is /var/tmp.
	Home string

	// Reconnected returns a sentence for each connection to the machine that broke and was made again since the last call.
	Reconnected func() []string

	// Address is where other machines of its network reach this one.
	Address string

	// LinkRate is the rate of its network link in bytes per second, headers included.
	LinkRate float64

	// HostAddress is the address under which the machine reaches the loopback interface of this host: "10.0.2.2".
	HostAddress string

	// Forward returns the address on this host ("127.0.0.1:40123") that leads to a TCP port of the machine until the machine
	// is closed.
	Forward func(ctx context.Context, port int) (addr string, err error)
}

// Passed are counters of a layer that I/Os pass through, from any start.
type Passed struct {
	Time     time.Duration // sum over Requests, of the time that each of them was in this layer or below
	Requests uint64        // that completed
	Handed   uint64        // to the layer below: less than Requests where the layer merges them, more where it splits them
}

// Outside is the machine that m is on, or m if it is on none.
func Outside(m Machine) Machine {
	if m != nil {
		if on := m.Caps().Outside; on != nil {
			return on
		}
	}
	return m
}

// AloneVariable declares that no other user works on this host, as in a pod whose volumes every user may write to: root then
// uses any directory.
const AloneVariable = "IOTAX_ALONE"

// IsLocal reports whether m, which may be nil, runs its commands on this host.
func IsLocal(m Machine) bool { return m != nil && m.Caps().Local }

// A ConsoleRun is what came of one command.
type ConsoleRun struct {
	Output []byte        // of the command, as its console showed it
	Boot   time.Duration // as the guest told it; 0 where it does not
	Took   time.Duration // from the start of the virtual machine to its end
	CPU    time.Duration // that the virtual machine's process used
}

// A Root is the root file system that a machine goes on with once its kernel has booted, and the program
// that it starts there.
type Root struct {
	Type    string   // of its file system: virtiofs, 9p, nfs4, ext4, squashfs, erofs
	Source  string   // of the mount; the disk with a serial number is "serial:NUMBER"
	Options string   // of the mount, as the kernel takes them
	Path    string   // directory of that file system that becomes /
	Run     []string // started there
	Port    int      // TCP port on which it answers HTTP
}

// A Phase is one step of a timeline. At counts from the timeline's start.
type Phase struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"`
}

// A Device is virtual hardware that a guest must be started with, because a volume needs it there.
// Exactly one of Disk, Share and Claim is set.
type Device struct {
	ID    string // serial of a disk, mount tag of a share: [a-z0-9-], at most 20 bytes
	Disk  *Disk
	Share *Share
	Claim *Claim
}

// A Claim is storage that a pod's cluster provides.
type Claim struct {
	Class  string // storage class; "" is the cluster's default
	Size   int64  // bytes
	Device string // path in the pod at which it is a raw block device; "" makes it a file system
	NFS    string // SERVER:/PATH of an export that the node mounts in place of a claim; "" is none
	Name   string // of an existing claim, which outlives the pod; "" makes one
}

// A Disk is a file, a block device or an NBD export, given to a guest as a disk.
type Disk struct {
	Path     string // on the host, or the URL of the export
	Format   string // raw, qcow2
	Bus      string // virtio-blk, virtio-scsi, nvme
	Cache    string // none, writeback, writethrough, directsync, unsafe
	AIO      string // threads, native, io_uring
	NoFlush  bool   // flushes are acknowledged and not done
	IOThread bool
	ReadOnly bool

	// Drive and Device are further properties, as in discard=unmap: of QEMU's drive, and of its device or controller.
	Drive, Device []string
	// IOThreads is how many I/O threads share the queues of a virtio-blk disk; 0 leaves that to IOThread.
	IOThreads int

	IOPS int   // limit of I/Os per second, reads and writes together; 0 is none
	Hot  bool  // plugged in as soon as the machine runs, and not there before
	Root int64 // bytes of a disk that the guest's root file system is written to; 0 is another disk
}

// A Share is a directory of the host that a guest mounts.
type Share struct {
	Path     string // on the host
	Type     string // virtiofs, 9p
	Binary   string // virtiofs daemon: program or path; "" is the installed one
	Cache    string // virtiofs daemon: none, metadata, auto, always
	Window   int64  // virtiofs: bytes of the guest's address space that map the host's page cache (DAX); 0 is none
	Security string // 9p: mapped-xattr, mapped-file, passthrough, none
	ReadOnly bool

	Options map[string]string // virtiofs daemon: by name, as in thread-pool-size
	Args    []string          // virtiofs daemon: further arguments
}

// PlaceKind says what a Place's path is.
type PlaceKind string

const (
	PlaceDir    PlaceKind = "dir"    // a directory of iotax's own: everything in it may be overwritten
	PlaceDevice PlaceKind = "device" // a block device
	PlaceURL    PlaceKind = "url"    // what a client library or a load generator connects to
)

// A Place is where the I/O of a target goes, as its machine sees it.
type Place struct {
	Kind     PlaceKind
	Path     string // absolute path, or URL
	ReadOnly bool   // writing is refused

	// Backing is the path on this host under which the bytes end (the directory itself, a disk
	// image, the shared directory), or "" when they end elsewhere. It finds the block device whose
	// counters say whether the I/O really happened.
	Backing string

	// Guard is asked right before each trial that writes to a device which others may have a use for, and before each at a
	// directory that iotax made in one of the user's, in whose place others may have put something else: an error forbids
	// it. It is nil where nobody else comes.
	Guard func(ctx context.Context) error

	// Durability is what an acknowledged flush means here. Places of unlike durability are not
	// ranked beside each other.
	Durability Durability

	Facts map[FactKey]string // file system, mount options, scheduler, device line…
}

// Durability is a class of promise about acknowledged flushes. Places of different classes are not ranked.
type Durability string

const (
	Durable      Durability = "durable"       // a flush reaches the device, and its medium
	DriveCache   Durability = "drive-cache"   // a flush reaches the drive, which may keep it in its cache (fsync of macOS)
	FlushIgnored Durability = "flush-ignored" // flushes are acknowledged and not done (cache=unsafe)
	Volatile     Durability = "volatile"      // memory (tmpfs, ramfs, null engine)
)

// Weakest is the weakest of the classes. One that is not known ("") weakens nothing.
func Weakest(classes ...Durability) Durability {
	for _, d := range []Durability{Volatile, FlushIgnored, DriveCache, Durable} {
		if slices.Contains(classes, d) {
			return d
		}
	}
	return ""
}

// A Target is a named machine with a place on it.
type Target struct {
	Name    string
	Machine Machine
	Place   Place
	Device  string             // what run --destroy calls the plan's block device, or ""
	Labels  map[string]string  // what the plan varied
	Facts   map[FactKey]string // what was found

	// Together are the targets at which the work is done at the same moment, where this one stands for
	// several; its Machine and Place are then the first's, and Noise what others do meanwhile. Nil is the
	// target alone.
	Together []*Target
	Noise    *Noise

	// Serving returns, each, the processes that serve the place besides the machine's own: those of its volume and of the
	// volumes below (VolumeCaps.Processes).
	Serving []func() map[string][]int
}

// Noise is work that is done beside the measured work, to disturb it.
type Noise struct {
	Name string // of the workload
	Work Workload
	At   []*Target
}

// Processes returns the processes of this host that serve the target, by label: those of its machine and
// of what serves its place.
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
				if !slices.Contains(all[label], pid) { // of a machine that several are on
					all[label] = append(all[label], pid)
				}
			}
		}
	}
	return all
}

// A Volume makes a place, and undoes it. Its life is: made by volume.Prepare on the machine that
// serves it, Caps read before the using machine starts, Attach once that machine runs, Detach
// while it still runs, Close when it is gone. Every method is called at most once and from one
// goroutine; Detach and Close also after a failure half way, and must then undo what was done.
type Volume interface {
	Caps() VolumeCaps
	Attach(ctx context.Context, m Machine) (Place, error)
	Detach(ctx context.Context) error
	Close(ctx context.Context) error
}

// VolumeCaps is what a Volume needs or can do beyond attaching. A nil field is nothing.
type VolumeCaps struct {
	// Devices are what the guest must be started with.
	Devices []Device

	// Processes returns the processes of this host that serve the volume (an NFS server): a label and the process ids behind it,
	// children included. Their CPU time and memory are its cost.
	Processes func() map[string][]int

	// Findings returns what the volume noticed during its calls so far.
	Findings func() []Finding
}

// A Workload is what is done at a place.
//
// Calls come from one goroutine. For a target the order is Check, Prepare, Run (many times),
// Cleanup; Cleanup is called whenever Prepare was, also when it failed.
type Workload interface {
	// Metrics names the headline values in order of importance ("read.iops"). The first decides
	// when a cell has been measured precisely enough.
	Metrics() []string
	// Check finds what t lacks before anything is measured: the tool, the engine, the space.
	Check(ctx context.Context, t *Target) error
	// Prepare makes what all trials of the cell share: the test file, written once.
	Prepare(ctx context.Context, t *Target) error
	// Run does the work once and fills out. An error means the trial failed; what was learnt until
	// then (Raw, Facts) stays in out.
	Run(ctx context.Context, t *Target, out *Trial) error
	// Cleanup removes what Prepare made.
	Cleanup(ctx context.Context, t *Target) error
	// Caps returns what the workload can do beyond the methods above.
	Caps() WorkloadCaps
}

// WorkloadCaps is what a Workload can do beyond the minimum. A nil or zero field is something that it cannot do or does not
// need. Calls come from the goroutine that calls the workload.
type WorkloadCaps struct {
	// Space returns how many bytes the workload puts at a place. Guest disks are made to fit.
	Space func() int64

	// Files returns the files that the workload reads. A place that cannot be written is made with them in it. A workload that
	// writes returns none.
	Files func() []File

	// Look returns an error if the workload cannot run on m, before any target is open. The user then learns what this host
	// lacks before a guest boots.
	Look func(ctx context.Context, m Machine) error

	// Settle makes the workload do the same on every target, as with one fio engine. It is called once, after every target is
	// open and before the first Check. The findings report what it chose and what it could not make equal.
	Settle func(ctx context.Context, targets []*Target) ([]Finding, error)

	// Preparation is how long the user's commands in Prepare may take in all, on top of the time to write Space bytes.
	Preparation time.Duration

	// Pilot chooses what depends on the slowest target, as a load that all of them can carry. It is called once, after every
	// Prepare, and returns facts of the workload. Trials will have that length. A resumed run passes these facts as known; Pilot
	// then chooses the same and does not measure again.
	Pilot func(ctx context.Context, targets []*Target, length time.Duration, known map[string]string) (map[string]string, error)

	// Joins returns nil if the workload can run at several targets at the same moment (Target.Together), else the reason.
	Joins func() error

	// Limit is for a workload that does a piece of work to its end (a command, a boot) and does not fill a window: a trial that
	// takes longer has hung. Its trials have neither Ramp nor Length.
	Limit time.Duration

	// ColdFiles returns files of this host that the workload reads besides those at the place. They too leave the page cache
	// before a cold trial.
	ColdFiles func(t *Target) []string

	// Stage prepares a trial and Unstage ends it. Neither is observed or timed, and each may take StageTime. An error of Stage
	// fails the trial; Unstage is called all the same, except after a cancel, where Cleanup removes what is left. Both are set
	// or both are nil.
	Stage, Unstage func(ctx context.Context, t *Target, out *Trial) error
}

// StageTime is how long Stage, and Unstage, may take.
const StageTime = 10 * time.Minute

// A File is a file of Size bytes, filled with data that does not compress; or a directory.
type File struct {
	Name string // without directories
	Size int64
	Tree string // directory of this host that it is a copy of, Size bytes in all; "" for a file
}

// A Trial is one run of one workload on one target, also when it failed. The fields of the first
// group are set before Workload.Run and say what was asked.
type Trial struct {
	Run        string            `json:"run"`
	Target     string            `json:"target"`
	Workload   string            `json:"workload"`
	Round      int               `json:"round"`                 // from 0; one trial of every target for one workload
	Seq        int               `json:"seq"`                   // from 0; order in the run
	StartIndex int               `json:"start_index,omitempty"` // from 1; a start opens machines, volumes and files anew; 0 is unknown
	Seed       uint64            `json:"seed"`                  // the same for all trials of a round
	Ramp       time.Duration     `json:"ramp"`
	Length     time.Duration     `json:"length"` // of the measured window, without the ramp
	Cold       bool              `json:"cold"`   // caches were dropped first
	Labels     map[string]string `json:"labels,omitempty"`

	Start      time.Time          `json:"start"`
	Took       time.Duration      `json:"took"` // wall time of the whole trial, set-up included
	Facts      map[FactKey]string `json:"facts,omitempty"`
	Values     []Value            `json:"values,omitempty"`
	Series     []Series           `json:"series,omitempty"`
	Histograms []Histogram        `json:"histograms,omitempty"`
	Intervals  []Interval         `json:"intervals,omitempty"` // of the histograms, in order of time for each
	Findings   []Finding          `json:"findings,omitempty"`
	Raw        []byte             `json:"-"` // the tool's own output, kept whole
	Err        string             `json:"err,omitempty"`
	Discarded  string             `json:"discarded,omitempty"` // why the trial, and so its round, does not count
}

// PartlyKnown is a key of FactJob where results of others do not show all options.
const PartlyKnown = "partly known"

// JobText is the value of FactJob.
func JobText(job map[string]string) string {
	text, _ := json.Marshal(job) // of strings: it cannot fail
	return string(text)
}

// Cell names the trial's cell.
func (t *Trial) Cell() string { return t.Target + " / " + t.Workload }

// Value returns the value of that name, and whether the trial has it.
func (t *Trial) Value(name ValueName) (Value, bool) {
	for _, v := range t.Values {
		if v.Name == name {
			return v, true
		}
	}
	return Value{}, false
}

// Better says which direction of a value is good.
type Better string

const (
	Up      Better = "up"
	Down    Better = "down"
	Neither Better = ""
)

// Base units. Values are stored in these and scaled when printed.
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

// A Series is one value over time: V[i] was seen in the interval that ends T[i] seconds after the
// start of the measured window.
type Series struct {
	Name string    `json:"name"`
	Unit string    `json:"unit"`
	T    []float64 `json:"t"`
	V    []float64 `json:"v"`
}

// A Histogram counts observations by value; bins are in ascending order and none is empty.
type Histogram struct {
	Name string `json:"name"` // "read.latency"
	Unit string `json:"unit"`
	Bins []Bin  `json:"bins"`
}

// An Interval has the observations of a part of the measured window, From until To seconds after its start. An interval without
// any is left out.
type Interval struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Histogram
}

// Quantile splits the name of a quantile, "read.latency.p99.9", into that of its histogram and the share of the observations at or
// below it.
func Quantile(name ValueName) (histogram ValueName, q float64, ok bool) {
	i := strings.LastIndex(name, ".p")
	if i < 0 {
		return "", 0, false
	}
	percent, err := strconv.ParseFloat(name[i+2:], 64)
	return name[:i], percent / 100, err == nil && percent > 0 && percent < 100
}

// Seen is what was observed besides a trial. T of its series counts from when watching began.
type Seen struct {
	Values []Value
	Series []Series
	Facts  map[FactKey]string
}

// A Stage is a part of the way of an I/O, between two clocks. FactStages has the stages of a trial from the application
// down. The time of a stage is the difference between the clock above it and its End; the first begins at the application.
type Stage struct {
	Name    string `json:"name"`
	End     string `json:"end,omitempty"`     // the clock below the stage: values ValueStage(End, …); "" is the last stage
	Missing string `json:"missing,omitempty"` // why End has no values, and what would show the end of the stage
}

// ValueStage names a value of the clock at the end of a stage: its time below (StageBelow), and the requests that it counted
// (StageRequests) and handed on (StageHanded).
func ValueStage(end, what string) ValueName { return "stage." + end + "." + what }

// What a clock at the end of a stage has counted during the trial; see Passed.
const (
	StageBelow    = "below"    // s
	StageRequests = "requests" // 1
	StageHanded   = "handed"   // 1
)

// Explains returns the workload that an explained trial belongs to, or "" for any other trial.
func (t *Trial) Explains() string { return t.Facts[FactExplains] }

// A Bin is Count observations at about Value.
type Bin struct {
	Value float64 `json:"value"`
	Count uint64  `json:"count"`
}

// Severity orders findings.
type Severity string

const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Invalid Severity = "error" // the number it is attached to must not be quoted
)

// A Finding is a warning as data: what was seen and what to do. Why it matters is on the rule's page.
// Package rules builds findings.
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

// A Subject is what a finding is about.
type Subject struct {
	Kind     SubjectKind `json:"kind"`
	Target   string      `json:"target,omitempty"`
	Workload string      `json:"workload,omitempty"`
}

// A SubjectKind says which fields of a Subject are set.
type SubjectKind string

const (
	SubjectText     SubjectKind = "text"     // a job file, a command line or a plan: the finding's File, Line and Column
	SubjectRun      SubjectKind = "run"      // the run as a whole
	SubjectTarget   SubjectKind = "target"   // a target, whatever is done there
	SubjectWorkload SubjectKind = "workload" // a workload, wherever it is done
	SubjectCell     SubjectKind = "cell"     // one workload at one target
	SubjectTrial    SubjectKind = "trial"    // the trial of that cell that holds the finding
)

// AboutRun is the run as the subject of a finding.
func AboutRun() Subject { return Subject{Kind: SubjectRun} }

// AboutTarget is a target as the subject of a finding.
func AboutTarget(target string) Subject { return Subject{Kind: SubjectTarget, Target: target} }

// AboutWorkload is a workload as the subject of a finding.
func AboutWorkload(workload string) Subject {
	return Subject{Kind: SubjectWorkload, Workload: workload}
}

// AboutCell is a workload at a target as the subject of a finding.
func AboutCell(target, workload string) Subject {
	return Subject{Kind: SubjectCell, Target: target, Workload: workload}
}

// AboutTrial is a trial as the subject of a finding that the trial holds.
func AboutTrial(t *Trial) Subject {
	return Subject{Kind: SubjectTrial, Target: t.Target, Workload: t.Workload}
}

// Concerns reports whether a finding about s applies to a cell: s names no other target and no other workload.
func (s Subject) Concerns(target, workload string) bool {
	return (s.Target == "" || s.Target == target) && (s.Workload == "" || s.Workload == workload)
}

// Status is how far a run came.
type Status string

const (
	Running     Status = "running"
	Done        Status = "done"
	Incomplete  Status = "incomplete"  // budget or precision not reached, or cells failed
	Interrupted Status = "interrupted" // by the user
	Failed      Status = "failed"      // nothing could be measured
)

// A Run is one execution of a plan: everything but its trials.
type Run struct {
	ID          string             `json:"id"` // sortable by start
	Name        string             `json:"name"`
	Version     string             `json:"version"` // of iotax
	Plan        []byte             `json:"-"`       // the resolved plan, YAML
	Seed        uint64             `json:"seed"`
	Start       time.Time          `json:"start"`
	End         time.Time          `json:"end"`
	Status      Status             `json:"status"`
	Baseline    string             `json:"baseline"`  // name of a target
	Precision   float64            `json:"precision"` // 0.05: stop at ± 5 %
	Margin      float64            `json:"margin"`    // 0.05: the verdict's δ
	Alpha       float64            `json:"alpha"`     // 1 − level of each interval, made smaller where the run looks several times
	Environment map[FactKey]string `json:"environment"`
	Targets     []TargetInfo       `json:"targets"`
	Workloads   []WorkloadInfo     `json:"workloads"`
	Calibration *Calibration       `json:"calibration,omitempty"` // of the rig; nil when it is not known
	Findings    []Finding          `json:"findings,omitempty"`    // about the run as a whole

	Presentation *Presentation `json:"presentation,omitempty"` // what its plan asks of the report; nil is nothing
}

// A Presentation is what a plan asks of the report beyond its cells.
type Presentation struct {
	Expect    []Expectation `json:"expect,omitempty"`
	Layers    [][]string    `json:"layers,omitempty"`    // chains of targets, from the device up to the application
	Layout    string        `json:"layout,omitempty"`    // a classic table, one of Layouts
	Reference *Reference    `json:"reference,omitempty"` // published figures that belong beside this run's
}

// An Expectation is one that the report decides.
type Expectation struct {
	Text string `json:"text"`           // of one workload, as expect.Parse reads it
	File string `json:"file,omitempty"` // of the plan that has it, "" for the command line
	Line int    `json:"line,omitempty"` // from 1
}

// Layouts are the classic tables that a report can be laid out as, after the publications in which
// they stood.
var Layouts = []string{"tart", "repetitions", "generated", "directions"}

// A Reference says which published figures a run is to be held against, and what they call things. The maps
// are from this run's names to the published ones; a name that is in neither is looked for as it is.
type Reference struct {
	Published string            `json:"published"` // name of a data set: "lima-mounts"
	Targets   map[string]string `json:"targets,omitempty"`
	Workloads map[string]string `json:"workloads,omitempty"`
	Metrics   map[string]string `json:"metrics,omitempty"`
	Values    map[string]string `json:"values,omitempty"` // single figures, as "TARGET / WORKLOAD / METRIC"
}

// A Calibration is what a rig (a host, a device, a load generator) does when nothing differs: the
// baseline measured against itself, as two arms, by the very code that measures targets. A number that
// could not be had is 0.
type Calibration struct {
	Ratio    float64       `json:"ratio"`         // of the baseline to itself; the truth is 1
	Lo       float64       `json:"lo"`            // 95 % interval of Ratio
	Hi       float64       `json:"hi"`            //
	Rounds   int           `json:"rounds"`        // behind Ratio, the discarded ones left out
	CV       float64       `json:"cv"`            // of the trials of one arm: standard deviation over mean
	Lag1     float64       `json:"lag1"`          // φ, autocorrelation of the differences of successive rounds
	Phi      float64       `json:"phi,omitempty"` // the φ that intervals are widened for: 0 unless Lag1 is more than chance
	NullIOPS float64       `json:"null_iops"`     // of the load generator on one thread with an engine that does nothing, 1/s
	Trial    time.Duration `json:"trial"`         // the length that wastes the least time, from the variance components
	At       time.Time     `json:"at"`            // when it was measured

	Workload string        `json:"workload"` // that was done
	Length   time.Duration `json:"length"`   // of the trials behind it
	Brief    bool          `json:"brief"`    // done by the way, before a run: too short to tell φ and Trial
}

// Floor is the noise floor, the half width of the A/A interval on the logarithmic scale as a ratio:
// 0.02 is ± 2 %. It is 0 where there is no interval.
func (c *Calibration) Floor() float64 {
	if c == nil || !(c.Lo > 0) || !(c.Hi >= c.Lo) {
		return 0
	}
	return math.Expm1((math.Log(c.Hi) - math.Log(c.Lo)) / 2)
}

// Autocorrelation is the φ that intervals are widened for; 0 when the rig is not calibrated.
func (c *Calibration) Autocorrelation() float64 {
	if c == nil {
		return 0
	}
	return c.Phi
}

// OriginImport is the FactOrigin of a run that iotax did not measure.
const OriginImport = "import"

// Imported reports whether r holds results that were measured elsewhere. They were not taken in turns, so
// its rounds pair nothing.
func (r *Run) Imported() bool { return r != nil && r.Environment[FactOrigin] == OriginImport }

// BaselineOf is the target that the others are held against under a workload: the run's baseline, or, where
// that takes no part in it, the first that the plan lists. (A host is not booted; guests are held against the
// first of them.)
func (r *Run) BaselineOf(workload string) string {
	for _, w := range r.Workloads {
		if w.Name == workload && len(w.At) > 0 && !slices.Contains(w.At, r.Baseline) {
			return w.At[0]
		}
	}
	return r.Baseline
}

// TargetInfo is what is kept of a Target.
type TargetInfo struct {
	Name       string             `json:"name"`
	Machine    string             `json:"machine"`
	Place      string             `json:"place"`
	Durability Durability         `json:"durability"`
	Labels     map[string]string  `json:"labels,omitempty"`
	Facts      map[FactKey]string `json:"facts,omitempty"`
	Findings   []Finding          `json:"findings,omitempty"`
	Err        string             `json:"err,omitempty"` // why it could not be opened

	// Against are the targets that this one is held against in place of the run's baseline. The ratio and
	// the verdict are to the first; to the others, what share of them it reaches.
	Against []string `json:"against,omitempty"`
}

// Emulated reports whether the target is in a guest whose CPUs were emulated (QEMU's TCG): by the accelerator that its machine
// reports, or else by its CPU as the guest sees it, "QEMU TCG CPU version 2.5+".
func (t TargetInfo) Emulated() bool {
	return t.Facts[FactAccel] == "tcg" || strings.Contains(t.Facts[FactMachineCPUModel], "TCG CPU")
}

// Reference is what the target is compared with under one workload: the first of Against that takes part
// in it, or the baseline (Run.BaselineOf) where Against is empty. It is "" for the baseline itself, and where none of
// Against takes part.
func (t TargetInfo) Reference(baseline string, takesPart func(target string) bool) string {
	if t.Name == baseline {
		return ""
	}
	if len(t.Against) == 0 {
		if takesPart(baseline) {
			return baseline
		}
		return "" // the workload is not done there
	}
	for _, name := range t.Against {
		if takesPart(name) {
			return name
		}
	}
	return ""
}

// WorkloadInfo is what is kept of a Workload.
type WorkloadInfo struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Metrics []string `json:"metrics"`          // headline values, most important first
	Chosen  bool     `json:"chosen,omitempty"` // they were asked for: each of them decides when to stop, else the first alone
	Cold    bool     `json:"cold"`

	Facts   map[FactKey]string `json:"facts,omitempty"`   // what its pilot found
	At      []string           `json:"at,omitempty"`      // targets that it is done at; nil is all
	Section string             `json:"section,omitempty"` // heading of the report under which it stands
}

// Error is an error a user reads: what was attempted, on what, why it failed, and what mends it.
type Error struct {
	Op   string // "open guest", "read plan"
	On   string // the object: a path, a target, a host
	Err  error
	Hint string // what the user can do; "" when nothing is known
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

// ErrGone is of a machine that those who would have it were asked for, and have not. That they could not be asked is another error.
var ErrGone = errors.New("it is not there")

// Gone is err, which says what it said, as ErrGone to errors.Is.
func Gone(err error) error { return gone{err} }

type gone struct{ error }

func (g gone) Is(target error) bool { return target == ErrGone }
func (g gone) Unwrap() error        { return g.error }

// ErrUsage reports a mistake in what the user wrote: a command line or a plan. Nothing was measured.
var ErrUsage = errors.New("usage")

// Usage makes err an ErrUsage to errors.Is.
func Usage(err error) error { return usage{err} }

type usage struct{ error }

func (u usage) Is(target error) bool { return target == ErrUsage }
func (u usage) Unwrap() error        { return u.error }
