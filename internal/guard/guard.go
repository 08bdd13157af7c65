// Package guard finds out whether a block device may be overwritten. Inspect collects facts from /proc, /sys and the device, on the
// machine that has it. Facts.Judge, which is pure, returns the reasons against.
package guard

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ErrNotRoot reports that only root sees what uses a device.
var ErrNotRoot = fmt.Errorf("%w: only root sees what uses a device and what is on it", fs.ErrPermission)

const opLook = "look at block device"

// A Query is about the block device that Path leads to.
type Query struct {
	Path string
	Held bool // this process has it open exclusively
	Read bool // look for signatures also where a tool has, unless the device is in use
}

// A SurveyQuery is about the block device that Path leads to.
type SurveyQuery struct {
	Path  string
	Trust bool // refuse a path that another user may lead to another device
}

// A Device is what Survey found.
type Device struct {
	Path      string // real path
	Number    string // major:minor
	Size      int64  // bytes
	MountedOn string // in this mount namespace; "" if it is not mounted
}

// Facts are what the machine reports about a block device, the devices above, below and beside it, and their users.
type Facts struct {
	Path   string // real path
	Number string // major:minor
	Size   int64  // bytes
	Serial string
	Model  string

	ReadOnly  bool
	Exclusive bool // another holder keeps it open with O_EXCL

	Nodes   []Node    // the device itself first
	Files   []Backing // behind the loop devices among the nodes
	Loops   []Backing // behind all loop devices of the machine
	Swaps   []Backing
	Exports []Backing // what the kernel serves by NVMe-oF and LIO
	Btrfs   []string  // names of the members of mounted btrfs
	Mounts  []Mount   // of all mount namespaces
	Open    []Open    // block devices and backing files that processes have open
	Own     int       // id of the process that collected the facts

	Looked bool     // wipefs or blkid has looked for signatures
	Signs  []string // signatures, as wipefs, blkid or Signatures name them
	Traces []Trace
}

// A Relation is what a node is to the device that was asked for.
type Relation string

const (
	Self      Relation = "self"
	Partition Relation = "partition"
	Holder    Relation = "holder" // made of the device: LVM, RAID, multipath
	Slave     Relation = "slave"  // the device is made of it
	Whole     Relation = "whole"  // the disk that the device is a partition of
)

// A Node is a block device in /sys.
type Node struct {
	Relation Relation
	Number   string // major:minor
	Name     string // in /sys
	Kind     string // name of the device mapper, or level of the RAID
}

// A Backing is a file that the kernel uses: behind a loop device, as swap, or as an export.
type Backing struct {
	User string // name of the loop device, "" of others
	ID   string // major:minor:inode; "b" and major:minor of a block device; "" where it is not known, as of the node's files in a pod
	Path string
}

// same reports whether both are one file. It compares paths if the identity of one of them is not known.
func (a Backing) same(b Backing) bool {
	if a.ID == "" || b.ID == "" {
		return a.Path == b.Path
	}
	return a.ID == b.ID
}

// A Mount is a line of a mountinfo.
type Mount struct {
	Number string // major:minor
	Source string
	Point  string
}

// An Open is a file that a process has open. ID is that of a Backing.
type Open struct {
	PID int
	ID  string
}

// A Verdict lists the reasons against overwriting a device.
type Verdict struct {
	InUse  []string // it has a user
	Busy   []string // a process has it open, which may pass
	OnIt   []string // it carries signatures
	Traces []Trace  // remains of something whose main signature may be gone
}

// Used reports whether the device has a user.
func (v Verdict) Used() bool { return len(v.InUse)+len(v.Busy) > 0 }

// Reasons are all reasons, in words.
func (v Verdict) Reasons() []string {
	return slices.Concat(v.InUse, v.Busy, v.OnIt, traceTexts(v.Traces))
}

// HeldText is the reason when an exclusive open fails.
const HeldText = "something in the system holds it (a mount, RAID, LVM, a file system's member…)"

// prefixes begin a reason that is about a related device.
var prefixes = map[Relation]string{
	Partition: "its partition ", Holder: "its holder ", Slave: "what it is made of, ", Whole: "the disk it is a part of, ",
}

// Judge returns the reasons against overwriting the device.
func (f *Facts) Judge() Verdict {
	v := Verdict{Traces: f.Traces}
	nodes := map[string]Node{} // by number
	names := map[string]Node{} // by path below /dev
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(v.InUse, text) {
			v.InUse = append(v.InUse, text)
		}
	}
	say := func(n Node, use string) {
		if n.Relation == Self {
			add("it %s", use)
		} else {
			add("%s%s %s", prefixes[n.Relation], devPath(n.Name), use)
		}
	}
	loops := map[string]bool{}
	for _, b := range f.Files {
		loops[b.User] = true
	}
	file := func(b Backing) (path string, ours bool) {
		for _, own := range f.Files {
			if own.same(b) {
				return own.Path, true
			}
		}
		return "", false
	}
	// use adds a reason if the backing is a node, by number or by path, or the file of a loop device.
	use := func(b Backing, text string) {
		number, isBlock := strings.CutPrefix(b.ID, "b")
		n, ours := nodes[number]
		if !isBlock || !ours {
			n, ours = names[b.Path]
		}
		if ours {
			say(n, text)
		} else if path, ours := file(b); ours {
			add("its file %s %s", path, text)
		}
	}

	if f.ReadOnly {
		add("it is read-only")
	}
	for _, n := range f.Nodes {
		nodes[n.Number], names[devPath(n.Name)] = n, n
		kind := ""
		if n.Kind != "" {
			kind = " (" + n.Kind + ")"
			names["/dev/mapper/"+n.Kind] = n
		}
		switch n.Relation {
		case Holder:
			add("it is a part of %s%s", devPath(n.Name), kind)
		case Slave:
			add("it is made of %s%s, which may hold others' data", devPath(n.Name), kind)
		}
	}
	for _, b := range f.Exports {
		use(b, "is exported by this kernel as "+b.Path+" (NVMe-oF, LIO)")
	}
	for _, name := range f.Btrfs {
		if n, ours := names[devPath(name)]; ours {
			say(n, "belongs to a mounted btrfs")
		}
	}
	for _, b := range f.Swaps {
		use(b, "is in use as swap")
	}
	if f.Exclusive {
		add("%s", HeldText)
	}
	for _, s := range f.Signs {
		if s = "it carries a signature of " + s; !slices.Contains(v.OnIt, s) {
			v.OnIt = append(v.OnIt, s)
		}
	}
	for _, other := range f.Loops {
		if path, ours := file(other); ours && !loops[other.User] {
			add("its file %s is behind /dev/%s too", path, other.User)
		}
	}
	for _, m := range f.Mounts {
		text := "is mounted on " + m.Point
		if n, ours := nodes[m.Number]; ours {
			say(n, text)
		} else if n, ours := names[path.Clean(m.Source)]; ours {
			say(n, text)
		} else if path, ours := file(Backing{Path: m.Source}); ours { // the kernel mounts erofs from a file, too
			add("its file %s %s", path, text)
		}
	}
	for _, o := range f.Open {
		text := ""
		if n, ours := nodes[strings.TrimPrefix(o.ID, "b")]; ours && strings.HasPrefix(o.ID, "b") && n.Relation != Whole {
			text = fmt.Sprintf("%s is open in process %d", devPath(n.Name), o.PID)
		} else if path, ours := file(Backing{ID: o.ID}); ours {
			text = fmt.Sprintf("its file %s is open in process %d", path, o.PID)
		}
		if text != "" && o.PID != f.Own && !slices.Contains(v.Busy, text) {
			v.Busy = append(v.Busy, text)
		}
	}
	return v
}

// devPath is the path of a device that /sys calls name.
func devPath(name string) string { return "/dev/" + strings.ReplaceAll(name, "!", "/") }

// traceTexts names the first place of each kind of trace.
func traceTexts(all []Trace) (texts []string) {
	places := map[string][]int64{}
	var names []string
	for _, t := range all {
		if places[t.Name] == nil {
			names = append(names, t.Name)
		}
		places[t.Name] = append(places[t.Name], t.At)
	}
	for _, name := range names {
		at := places[name]
		text := fmt.Sprintf("%s at %d bytes", name, at[0])
		if at[0]%1024 == 0 {
			text = fmt.Sprintf("%s at %d KiB", name, at[0]/1024)
		}
		if more := len(at) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, text)
	}
	return texts
}

// firstLine returns the first line of a file without blanks around it, "" if it cannot be read.
func firstLine(file string) string {
	b, _ := os.ReadFile(file)
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first)
}
