package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// A blockDevice is what was found of a device that somebody wants overwritten.
type blockDevice struct {
	path   string // real path
	number string // major:minor
	size   int64  // bytes
	serial string
	model  string

	inUse  []string // why writing would hurt somebody who uses it
	busy   []string // the same, but by what may pass: a process that has it open
	onIt   []string // what is on it
	traces []trace  // what is left on it of something whose signature may have gone
	looked bool     // whether a tool over there knows signatures
}

// String names the device as its owner would recognise it.
func (b *blockDevice) String() string {
	s := b.path + ", " + bytesText(b.size)
	if b.model != "" {
		s += ", " + b.model
	}
	if b.serial != "" {
		return s + ", serial " + b.serial
	}
	return s + ", without a serial number"
}

// refusal is why the device must not be written, or nil.
func (b *blockDevice) refusal() error {
	all := slices.Concat(b.inUse, b.busy, b.onIt, traceTexts(b.traces))
	if len(all) == 0 {
		return nil
	}
	e := &iotax.Error{Op: "overwrite block device", On: b.path, Err: errors.New(strings.Join(all, "; "))}
	switch {
	case len(b.inUse)+len(b.busy) > 0:
		e.Hint = "name a device that nothing uses; iotax takes nothing out of use"
	default:
		var erase []string
		if len(b.onIt) > 0 {
			erase = append(erase, "wipefs --all "+iotax.Quote(b.path))
		}
		if len(b.traces) > 0 {
			erase = append(erase, eraseTraces(b.path, b.traces))
		}
		e.Hint = "name an empty device; if nothing on this one is needed, remove the signatures yourself: " + strings.Join(erase, "; ")
	}
	return e
}

// inspectDevice prints what the device $1 is, what stands above, below and beside it, who uses any of
// these, and which signatures are on it. $2 is "held" when iotax itself holds it exclusively. It asks no
// more of a machine than a busybox and Linux's /proc and /sys; what there is beyond that is used too.
//
// The number of a device counts, not its name: a node may be called anything.
const inspectDevice = `
[ -e "$1" ] || { echo "there is no such file" >&2; exit 41; }
[ -b "$1" ] || { echo "it is not a block device" >&2; exit 42; }
p=$(readlink -f -- "$1") || exit 43
number() { # of the block device $1, in decimal
	t=$(stat -L -c '%t %T' -- "$1") && set -- $t && echo "$((0x$1)):$((0x$2))"
}
at() { # where /sys has the device of the number $1: Podman hides /sys/dev/block from its containers
	if [ -e "/sys/dev/block/$1/dev" ]; then readlink -f "/sys/dev/block/$1"; return; fi
	for x in /sys/class/block/*; do
		if [ -r "$x/dev" ] && [ "$(cat "$x/dev")" = "$1" ]; then readlink -f "$x"; return; fi
	done
	return 1
}
loops=$(losetup -l -n -O NAME,BACK-MAJ:MIN,BACK-INO 2>/dev/null)
behind() { # which file is behind the loop device $1: the kernel knows it by inode also where its path $2 leads nowhere, or to another by now
	if [ -b "$2" ]; then echo "b$(number "$2")"; return; fi
	while read -r n dev ino; do
		[ "$n" = "/dev/$1" ] && [ "${ino:-0}" != 0 ] || continue
		case $dev:$ino in *[!0-9:]*) break;; esac
		echo "$((${dev%:*} << 8 | ${dev#*:} & 255 | (${dev#*:} & ~255) << 12)):$ino" # as stat has it
		return
	done <<-END
	$loops
	END
	stat -L -c '%d:%i' -- "$2" 2>/dev/null || echo -
}
num=$(number "$p") || exit 43
d=$(at "$num") && [ -r "$d/size" ] || { echo "what uses it cannot be told: there is no /sys/dev/block/$num" >&2; exit 45; }
read -r size <"$d/size"
echo "path $p"
echo "number $num"
echo "size $((size * 512))"
whole=$d
[ ! -e "$d/partition" ] || whole=${d%/*}
for f in serial device/serial device/vpd_pg80 wwid device/wwid loop/backing_file; do
	if [ -r "$whole/$f" ]; then
		s=$(tr -dc '[:print:]' <"$whole/$f")
		[ -z "$s" ] || { echo "serial $s"; break; }
	fi
done
[ ! -r "$whole/device/model" ] || echo "model $(tr -dc '[:print:]' <"$whole/device/model")"
[ ! -r "$d/ro" ] || echo "ro $(cat "$d/ro")"

seen=
walk() { # walk RELATION DIRECTORY: this device, and those it has to do with
	case " $seen " in *" $2 "*) return;; esac
	seen="$seen $2"
	[ -r "$2/dev" ] || return
	dm=
	[ ! -r "$2/dm/name" ] || dm=$(cat "$2/dm/name")
	[ ! -r "$2/md/level" ] || dm="RAID $(cat "$2/md/level")"
	echo "node $1 $(cat "$2/dev") ${2##*/} $dm"
	for x in "$2"/holders/*; do [ ! -e "$x" ] || walk holder "$(readlink -f "$x")"; done
	for x in "$2"/slaves/*; do [ ! -e "$x" ] || walk slave "$(readlink -f "$x")"; done
	[ "$1" = whole ] || for x in "$2"/*/partition; do [ ! -e "$x" ] || walk partition "${x%/partition}"; done
	if [ -r "$2/loop/backing_file" ]; then
		IFS= read -r x <"$2/loop/backing_file"
		printf 'file %s %s %s\n' "${2##*/}" "$(behind "${2##*/}" "$x")" "$x"
		if [ -b "$x" ]; then
			under=$(number "$x") && under=$(at "$under") || { echo "what uses $x, which lies under ${2##*/}, cannot be told from here" >&2; exit 47; }
			walk slave "$under"
		else
			case $x in /dev/shm/*) ;; /dev/*) [ -f "$x" ] || { echo "$x, which lies under ${2##*/}, cannot be seen from here" >&2; exit 47; };; esac
		fi
	fi
}
walk self "$d"
[ "$whole" = "$d" ] || walk whole "$whole"
for x in /sys/block/loop*/loop/backing_file; do
	[ -r "$x" ] || continue
	b=${x#/sys/block/}
	IFS= read -r f <"$x" && printf 'loop %s %s %s\n' "${b%%/*}" "$(behind "${b%%/*}" "$f")" "$f"
done
for x in /sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path /sys/kernel/config/target/core/*/*/udev_path; do
	[ -r "$x" ] && IFS= read -r f <"$x" || continue
	case $f in /*) printf 'export %s %s\n' "$(behind - "$f")" "$f";; esac
done
for x in /sys/fs/btrfs/*/devices/*; do [ ! -e "$x" ] || echo "btrfs ${x##*/}"; done
while read -r s _; do
	case $s in /*\\*) s=$(printf '%b' "$s");; /*) ;; *) continue;; esac # the kernel writes blanks as \040
	printf 'swap %s %s\n' "$(behind - "$s")" "$s"
done </proc/swaps 2>/dev/null
if [ "$2" != held ] && command -v perl >/dev/null 2>&1; then
	perl -e 'use Fcntl; exit(0) if sysopen(F, $ARGV[0], O_RDONLY | O_EXCL); exit($!{EBUSY} ? 16 : 1)' "$p"
	[ $? -ne 16 ] || echo "exclusive"
fi
if command -v wipefs >/dev/null 2>&1 && wipefs --version >/dev/null 2>&1; then
	out=$(wipefs --no-act --parsable "$p") || exit 46
	echo "tool wipefs"
	printf '%s\n' "$out" | grep -v '^#' | while IFS= read -r s; do [ -z "$s" ] || echo "sign $s"; done
fi
if command -v blkid >/dev/null 2>&1; then
	if out=$(blkid -p -o export "$p" 2>/dev/null); then echo "tool blkid"; else
		case $? in
		2) echo "tool blkid";;
		8) echo "tool blkid"; echo "sign -,several signatures that contradict each other";;
		*) out=$(blkid "$p" 2>/dev/null);; # busybox
		esac
	fi
	printf '%s\n' "$out" | tr ' ' '\n' | while IFS= read -r s; do case $s in TYPE=* | PTTYPE=*) echo "sign -,${s#*=}";; esac; done
fi
echo "mounts"
cat /proc/[0-9]*/mountinfo 2>/dev/null | sort -u
echo "open"
# What is open, and not what it is called: a node may have several names, and a file too, in other namespaces and by hard links.
# Last comes the shell's own /dev/null, as a proof that all could be looked at. Its number is asked of /proc, which may be that of another namespace.
read -r me _ </proc/self/stat
exec 9</dev/null
find /proc/[0-9]*/fd "/proc/./$me/fd/9" -type l -exec env LC_ALL=C stat -L -c '%n %t %T %d:%i %F' {} + 2>/dev/null
true
`

// inspect looks at the device path on m, and changes nothing.
func inspect(ctx context.Context, m iotax.Machine, path string, held bool) (*blockDevice, error) {
	hold := ""
	if held {
		hold = "held"
	}
	// Whoever reacts to a new device (udev) has it open for a moment.
	for try := 0; ; try++ {
		out, err := root(ctx, m, quick, inspectDevice, path, hold)
		if err != nil {
			e := &iotax.Error{Op: "look at block device", On: path, Err: said(err)}
			switch exit(err) {
			case 40:
				e.Hint = "run as root: who uses a device, and what is on it, only root can tell"
			case 41:
				e.Hint = "list the devices of that machine: lsblk -p"
			case 42:
				e.Hint = "name a block device: lsblk -p"
			case 46:
				e.Hint = "see what wipefs says of it, as root: wipefs --no-act " + iotax.Quote(path) + "; iotax overwrites nothing of which it does not know what is on it"
			case 47:
				e.Hint = "give the device up on the machine itself, and not in a container there"
			case 45:
				e.Hint = "block devices can be written on Linux, with /sys mounted"
			}
			return nil, e
		}
		b, err := parseInspection(out, ownPID(m))
		if err != nil {
			e := &iotax.Error{Op: "look at block device", On: path, Err: err}
			if errors.Is(err, errOpenUnseen) {
				e.Hint = "see what fails over there, as root: find /proc/self/fd -type l -exec env LC_ALL=C stat -L -c '%n %t %T %d:%i %F' {} +"
			}
			return nil, e
		}
		if len(b.busy) == 0 || len(b.inUse) > 0 || try == 3 {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return nil, &iotax.Error{Op: "look at block device", On: path, Err: context.Cause(ctx)}
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// ownPID is the process that may hold devices of m for this run.
func ownPID(m iotax.Machine) string {
	if iotax.IsLocal(m) {
		return strconv.Itoa(os.Getpid())
	}
	return ""
}

// relations say what a device of this relation is to the one that was asked for.
var relations = map[string]string{
	"self": "", "partition": "its partition ", "holder": "its holder ", "slave": "what it is made of, ", "whole": "the disk it is a part of, ",
}

// errOpenUnseen is that find, env or stat is missing or failed, or knows other forms: then no process seems to have anything open.
var errOpenUnseen = errors.New("which processes have it open cannot be told: find, env and stat over there do not even tell what is open in their own shell")

// parseInspection reads what inspectDevice printed. Files that the process own has open do not count.
func parseInspection(out, own string) (*blockDevice, error) {
	b := &blockDevice{}
	head, rest, ok1 := strings.Cut(out, "\nmounts\n")
	mounts, fds, ok2 := strings.Cut(rest, "open\n")
	if !ok1 || !ok2 {
		return nil, errors.New("the answer is cut off")
	}
	type node struct{ relation, name string }
	nodes := map[string]node{} // by number
	names := map[string]node{}
	loops := map[string]backing{}  // among the nodes
	others := map[string]backing{} // loop devices of the machine
	file := func(f backing) (path string, ours bool) {
		for _, own := range loops {
			if own.same(f) {
				return own.path, true
			}
		}
		return "", false
	}
	add := func(text string) {
		if !slices.Contains(b.inUse, text) {
			b.inUse = append(b.inUse, text)
		}
	}
	say := func(n node, format string, args ...any) {
		text := relations[n.relation] + n.name + " " + fmt.Sprintf(format, args...)
		if n.relation == "self" {
			text = "it " + fmt.Sprintf(format, args...)
		}
		add(text)
	}
	sayFile := func(f backing, use string) {
		if path, ours := file(f); ours {
			add("its file " + path + " " + use)
		}
	}
	var lines []string
	for line := range strings.Lines(head) {
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	for _, line := range lines {
		key, v, _ := strings.Cut(line, " ")
		f := strings.SplitN(v, " ", 4)
		switch {
		case key == "path":
			b.path = v
		case key == "number":
			b.number = v
		case key == "size":
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("its size is not known (%q)", v)
			}
			b.size = n
		case key == "serial":
			b.serial = strings.TrimSpace(v)
		case key == "model":
			b.model = strings.TrimSpace(v)
		case key == "ro" && v == "1":
			b.inUse = append(b.inUse, "it is read-only")
		case key == "tool":
			b.looked = true
		case key == "exclusive":
			b.inUse = append(b.inUse, "something in the system holds it (a mount, RAID, LVM, a file system's member…)")
		case key == "node" && len(f) >= 3:
			n := node{f[0], "/dev/" + strings.ReplaceAll(f[2], "!", "/")}
			nodes[f[1]], names[n.name] = n, n
			kind := ""
			if len(f) == 4 && f[3] != "" {
				kind = " (" + f[3] + ")"
				names["/dev/mapper/"+f[3]] = n
			}
			switch n.relation {
			case "holder":
				say(node{"self", ""}, "is a part of %s%s", n.name, kind)
			case "slave":
				say(node{"self", ""}, "is made of %s%s, which may hold others' data", n.name, kind)
			}
		case key == "file" && len(f) >= 3:
			loops[f[0]] = backing{f[1], strings.Join(f[2:], " ")}
		case key == "loop" && len(f) >= 3:
			others[f[0]] = backing{f[1], strings.Join(f[2:], " ")}
		}
	}
	if b.path == "" || b.number == "" || len(nodes) == 0 {
		return nil, errors.New("it did not say which device it is")
	}
	for _, line := range lines {
		key, v, _ := strings.Cut(line, " ")
		switch key {
		case "btrfs":
			if n, ours := names["/dev/"+v]; ours {
				say(n, "belongs to a mounted btrfs")
			}
		case "swap", "export":
			id, as, _ := strings.Cut(v, " ")
			use := "is in use as swap"
			if key == "export" {
				use = "is exported by this kernel as " + as + " (NVMe-oF, LIO)"
			}
			var n node
			number, ours := strings.CutPrefix(id, "b")
			if ours {
				n, ours = nodes[number]
			}
			if !ours {
				n, ours = names[as]
			}
			if ours {
				say(n, "%s", use)
			} else {
				sayFile(backing{id, as}, use)
			}
		case "sign":
			_, what, _ := strings.Cut(v, ",")
			b.onIt = appendSign(b.onIt, signName(what))
		}
	}
	for _, other := range slices.Sorted(maps.Keys(others)) {
		path, ours := file(others[other])
		if _, self := loops[other]; ours && !self {
			b.inUse = append(b.inUse, fmt.Sprintf("its file %s is behind /dev/%s too", path, other))
		}
	}
	for line := range strings.Lines(mounts) {
		// 36 35 98:0 /root /point options [tags] - type source superoptions
		f := strings.Fields(line)
		sep := slices.Index(f, "-")
		if len(f) < 6 || sep < 0 || sep+2 >= len(f) {
			continue
		}
		n, ours := nodes[f[2]]
		if !ours {
			n, ours = names[path.Clean(unescapeMount(f[sep+2]))]
		}
		// That the file of a loop device lies on a mounted disk is no use of the loop device. A file may itself be mounted: erofs needs no loop device.
		if ours {
			say(n, "is mounted on %s", unescapeMount(f[4]))
		} else {
			sayFile(backing{"-", unescapeMount(f[sep+2])}, "is mounted on "+unescapeMount(f[4]))
		}
	}
	proof := false
	for line := range strings.Lines(fds) {
		// /proc/1234/fd/5 7 1 64769:131 block special file
		f := strings.SplitN(strings.TrimRight(line, "\n"), " ", 5)
		if len(f) != 5 {
			continue
		}
		if strings.HasPrefix(f[0], "/proc/./") {
			proof = f[1] == "1" && f[2] == "3" && f[4] == "character special file" // null(4)
			continue
		}
		pid, _, _ := strings.Cut(strings.TrimPrefix(f[0], "/proc/"), "/")
		if pid == own {
			continue
		}
		text := ""
		if n, ours := nodes[openNumber(f[1], f[2])]; ours && n.relation != "whole" && f[4] == "block special file" {
			text = n.name + " is open in process " + pid
		}
		if path, ours := file(backing{id: f[3]}); ours {
			text = "its file " + path + " is open in process " + pid
		}
		if text != "" && !slices.Contains(b.busy, text) {
			b.busy = append(b.busy, text)
		}
	}
	if !proof {
		return nil, errOpenUnseen
	}
	return b, nil
}

// A backing is the file of a loop device: device:inode, "-" where it is not known, as with the files of the node in a pod; and its path.
type backing struct{ id, path string }

// same reports whether they are the same file: by their paths where it is not known of both which they are.
func (a backing) same(b backing) bool {
	if a.id == "-" || b.id == "-" {
		return a.path == b.path
	}
	return a.id == b.id
}

// openNumber is major:minor of a device, from the two in hexadecimal as stat prints them.
func openNumber(major, minor string) string {
	a, err1 := strconv.ParseUint(major, 16, 32)
	b, err2 := strconv.ParseUint(minor, 16, 32)
	if err1 != nil || err2 != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", a, b)
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// signName is the name of a signature in a line of wipefs: offset,uuid,label,type.
func signName(line string) string {
	f := strings.Split(line, ",")
	return strings.Trim(cmp.Or(f[len(f)-1], line), `"`)
}

func appendSign(all []string, name string) []string {
	text := "it carries a signature of " + name
	if name == "" || slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}
