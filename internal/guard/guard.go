// Package guard checks whether a block device may be overwritten. Inspect collects facts from /proc, /sys and the
// device, on the machine that has the device. Facts.Judge returns the reasons against overwriting the device. It does
// no I/O.
package guard

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ErrNotRoot reports that Inspect does not run as root.
var ErrNotRoot = fmt.Errorf("%w: only root sees what uses a device and what is on it", fs.ErrPermission)

const opLook = "look at block device"

// A Query asks Inspect about the block device at Path.
type Query struct {
	Path string
	Held bool // this process has the device open exclusively
	Read bool // search for signatures even if wipefs or blkid has done so, unless the device is in use or open
}

// A SurveyQuery asks Survey about the block device at Path.
type SurveyQuery struct {
	Path  string
	Trust bool // refuse a path that another user could redirect to another device
}

// A Device is the result of Survey.
type Device struct {
	Path      string // real path
	Number    string // major:minor
	Size      int64  // bytes
	MountedOn string // in this mount namespace; "" if it is not mounted
}

// Facts are the machine's information about a block device, its related devices, and their users.
type Facts struct {
	Path   string // real path
	Number string // major:minor
	Size   int64  // bytes
	Serial string
	Model  string

	ReadOnly  bool
	Exclusive bool // another holder has the device open with O_EXCL

	Nodes   []Node    // the device itself first
	Files   []Backing // backing files of the loop devices in Nodes
	Loops   []Backing // backing files of all loop devices of the machine
	Swaps   []Backing
	Exports []Backing // files and devices that the kernel exports through NVMe-oF and LIO
	Btrfs   []string  // names of the members of mounted btrfs file systems
	Mounts  []Mount   // mounts in all mount namespaces
	Open    []Open    // block devices and backing files that are open
	Own     int       // id of the process that collected the facts

	Looked bool     // wipefs or blkid has searched for signatures
	Signs  []string // names of signatures, from wipefs, blkid or the function signatures
	Traces []Trace
}

// A Relation is the relation of a node to the queried device.
type Relation string

const (
	Self      Relation = "self"
	Partition Relation = "partition"
	Holder    Relation = "holder" // a device, such as LVM or RAID, that is built on the queried or a related device
	Slave     Relation = "slave"  // a device on which the queried or a related device is built
	Whole     Relation = "whole"  // the disk that contains the queried partition
)

// A Node is a block device in /sys.
type Node struct {
	Relation Relation
	Number   string // major:minor
	Name     string // in /sys
	Kind     string // name in the device mapper, or level of the RAID
}

// A Backing is a file or block device that the kernel uses: behind a loop device, as swap, or as an export.
type Backing struct {
	User string // name of the loop device, otherwise ""
	ID   string // major:minor:inode; "b" and major:minor for a block device; "" if unknown, as for a host's file seen from a pod
	Path string
}

// same reports whether a and b are the same file. If either ID is unknown, it compares the paths.
func (a Backing) same(b Backing) bool {
	if a.ID == "" || b.ID == "" {
		return a.Path == b.Path
	}
	return a.ID == b.ID
}

// A Mount is a line of mountinfo.
type Mount struct {
	Number string // major:minor
	Source string
	Point  string
}

// An Open is a file that a process has open. ID is in the format of Backing.ID.
type Open struct {
	PID int
	ID  string
}

// A Verdict lists the reasons against overwriting a device.
type Verdict struct {
	InUse  []string // the device is in use or read-only
	Busy   []string // another process has the device, a related device or a backing file open, possibly only briefly
	OnIt   []string // the device contains signatures
	Traces []Trace  // remains of a structure whose main signature may be gone
}

// Used reports whether the device is in use or open.
func (v Verdict) Used() bool { return len(v.InUse)+len(v.Busy) > 0 }

// Reasons returns all reasons as text.
func (v Verdict) Reasons() []string {
	return slices.Concat(v.InUse, v.Busy, v.OnIt, traceTexts(v.Traces))
}

// HeldText is the reason against overwriting a device that cannot be opened exclusively.
const HeldText = "something in the system holds it (a mount, RAID, LVM, a file system's member…)"

// prefixes contains the first words of the reasons about related devices.
var prefixes = map[Relation]string{
	Partition: "its partition ", Holder: "its holder ", Slave: "what it is made of, ", Whole: "the disk it is a part of, ",
}

// Judge returns the reasons against overwriting the device.
func (f *Facts) Judge() Verdict {
	v := Verdict{Traces: f.Traces}
	nodes := map[string]Node{} // by number
	names := map[string]Node{} // by path, such as "/dev/sda"
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
	// use adds a reason if b is one of f.Nodes (by number or path) or of f.Files.
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
		} else if path, ours := file(Backing{Path: m.Source}); ours { // the kernel can mount erofs from a file
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

// devPath returns the path of a device with this name in /sys.
func devPath(name string) string { return "/dev/" + strings.ReplaceAll(name, "!", "/") }

// traceTexts describes each kind of trace by its first position and the number of its further positions.
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

// firstLine returns the first line of a file without surrounding blanks, or "" if it cannot be read.
func firstLine(file string) string {
	b, _ := os.ReadFile(file)
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first)
}
