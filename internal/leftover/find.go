package leftover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// An Item is one thing that carries the label of a run.
type Item struct {
	Kind    string // "process", "mount", "loop device", "directory", or that of another finder
	Name    string // process id, device, path
	Detail  string // command line, backing file
	Machine string // where it is
	Label   Label
	State   State  // of the runner
	Why     string // it is not known

	// End removes it; that it is gone already is no error. Callers use Remove, which asks first whose it is.
	End func(ctx context.Context) error
}

// Found is an item that another finder than those of this package has found: in a cluster, say, where no command
// can be run. remove removes it; it is not called while the runner lives.
func Found(kind, name, detail, machine string, l Label, remove func(ctx context.Context) error) Item {
	i := Item{Kind: kind, Name: name, Detail: strings.TrimSpace(detail), Machine: machine, Label: l, End: remove}
	i.State, i.Why = l.Runner.look()
	return i
}

// A Finder finds the items of one kind on a machine.
type Finder struct {
	Kind   string
	Plural string
	Find   func(ctx context.Context, p Place) ([]Item, error)
}

// A Place is where finders look.
type Place struct {
	Machine iotax.Machine
	Dirs    []string // in which runs make their iotax-… directories; those that are missing are passed over
	Also    []Finder // of kinds that no command finds everywhere: containers, labs. See machine.Leftovers
}

// Finders lists every kind, in the order in which items must go: who uses a thing before the thing. A
// new kind is one file and one line here, or in machine.Leftovers when only a machine's own client finds it.
func (p Place) Finders() []Finder {
	return slices.Concat(p.Also, []Finder{
		{"process", "processes", processes},
		{"mount", "mounts", mounts},
		{"loop device", "loop devices", loops},
		{"NBD device", "NBD devices", nbds},
		{"directory", "directories", directories},
	})
}

// Find asks all finders. What one of them cannot tell is in the error; the others are heard all the same.
func Find(ctx context.Context, p Place) ([]Item, error) {
	var all []Item
	var errs []error
	for _, f := range p.Finders() {
		items, err := f.Find(ctx, p)
		for i := range items {
			items[i].Kind, items[i].Machine = f.Kind, p.Machine.String()
			if items[i].State != Foreign {
				items[i].State, items[i].Why = items[i].Label.Runner.look()
			}
		}
		all = append(all, items...)
		if err != nil {
			errs = append(errs, &iotax.Error{Op: "look for leftovers", On: f.Kind + " on " + p.Machine.String(), Err: err})
		}
	}
	return all, errors.Join(errs...)
}

// Left returns those of items whose runner is dead.
func Left(items []Item) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return i.State != Dead })
}

// Remove removes i, unless its runner lives or nobody knows.
func (i Item) Remove(ctx context.Context) error {
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "remove " + i.Kind, On: i.Name + " on " + i.Machine, Err: err, Hint: hint}
	}
	switch i.State {
	case Alive:
		return fail(errors.New("its run still runs, as process "+strconv.Itoa(i.Label.Runner.PID)), "interrupt that run; it removes what it made")
	case Dead:
	default:
		return fail(fmt.Errorf("this host cannot tell whether its run, of process %d on %s, still runs: %s", i.Label.Runner.PID, i.Label.Runner.Host, i.Why),
			"run iotax clean there, or remove it by hand when that run is over")
	}
	if i.End == nil {
		return fail(errors.New("nothing is known that removes it"), "remove it by hand")
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if err := i.End(ctx); err != nil {
		return fail(err, "look at it, and remove it by hand")
	}
	return nil
}

const (
	lookTime   = 30 * time.Second
	removeTime = 5 * time.Minute // rm -rf of many files on a slow disk
)

// run runs a POSIX script on m with args as $1, $2… and returns what it printed.
func run(ctx context.Context, m iotax.Machine, limit time.Duration, script string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out iotax.Capture
	c := iotax.Command(append([]string{"sh", "-c", Prologue + script, "sh"}, args...)...)
	c.Stdout = &out
	err := m.Run(ctx, c)
	return out.String(), err
}

// Prologue makes messages readable by code and finds the tools of root where a plain user's PATH does not. Windows parts a PATH
// otherwise, and has no such directories.
const Prologue = `export LC_ALL=C
case $PATH in *';'*) ;; *) export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin";; esac
`

// listProcesses prints, for each process with a label, its id, its runner, its run and its command line.
// head names each file before what is in it; tr, because busybox's grep stops at NUL. A process that has
// ended has no environment any more.
const listProcesses = `
p=
head -c 1000000 /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n' | grep -e '^==> /proc/' -e '^IOTAX_RUN=' -e '^IOTAX_RUNNER=' |
while IFS= read -r w; do
	case $w in
	'==> /proc/'*) p=${w#==> /proc/} p=${p%%/*} run= runner= ;;
	IOTAX_RUN=*) run=${w#*=}; [ -z "$runner" ] || { echo "$p $runner $run"; runner=; } ;;
	IOTAX_RUNNER=*) if [ -n "$run" ]; then echo "$p ${w#*=} $run"; else runner=${w#*=}; fi ;;
	esac
done | while read -r p runner run; do
	case $p in '' | *[!0-9]*) continue ;; esac
	# A value with line breaks can look like the entries of another process: its own must be exactly these.
	own() { tr '\n\000' '\001\n' <"/proc/$p/environ" | grep -qxF -e "$1"; } 2>/dev/null
	own "IOTAX_RUN=$run" && own "IOTAX_RUNNER=$runner" && s=$(cat "/proc/$p/stat" 2>/dev/null) || continue
	set -- ${s##*) }
	printf '%s %s %s %s ' "$p" "$runner" "$run" "${20}"
	head -c 200 "/proc/$p/cmdline" 2>/dev/null | tr '\000\n' '  '
	echo
done
true
`

// endProcess ends the process $1 if it is still the one that started at $2, and waits until it is gone.
const endProcess = `
same() {
	s=$(cat "/proc/$p/stat" 2>/dev/null) || return 1
	set -- ${s##*) }
	case $1 in Z | X) return 1 ;; esac
	[ "${20}" = "$start" ]
}
p=$1 start=$2 n=0
while same; do
	if [ $n -eq 0 ]; then kill -s TERM "$p" 2>/dev/null; elif [ $n -ge 20 ]; then kill -s KILL "$p" 2>/dev/null; fi
	if [ $n -ge 120 ]; then echo "process $p is still alive" >&2; exit 41; fi
	n=$((n + 1))
	sleep 0.1 2>/dev/null || sleep 1
done
`

func processes(ctx context.Context, pl Place) ([]Item, error) {
	if iotax.IsLocal(pl.Machine) && here.labels != nil {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		return here.labels(ctx)
	}
	out, err := run(ctx, pl.Machine, lookTime, listProcesses)
	var items []Item
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 5)
		if len(f) < 4 {
			continue
		}
		runner, perr := ParseRunner(f[1])
		if perr != nil {
			continue // another program's variable
		}
		pid, start := f[0], f[3]
		item := Item{Name: pid, Label: Label{Run: f[2], Runner: runner}}
		if len(f) == 5 {
			item.Detail = strings.TrimSpace(f[4])
		}
		if iotax.IsLocal(pl.Machine) && pid == strconv.Itoa(Self().PID) {
			continue
		}
		item.End = func(ctx context.Context) error {
			_, err := run(ctx, pl.Machine, lookTime, endProcess, pid, start)
			return err
		}
		items = append(items, item)
	}
	return items, err
}

// marker has two functions of the POSIX shell. mine FILE succeeds if FILE belongs to this user; Windows has a temporary directory for each
// user. marker DIR sets line to the first line of what this user marked DIR with, at most 4 KiB of it. Any user can make such a directory
// in /tmp, name any run in it, and put a FIFO there.
const marker = `
case $(uname -s) in Windows* | MINGW* | MSYS* | CYGWIN*) mine() { true; } ;; *) mine() { [ -O "$1" ]; } ;; esac
marker() {
	line=
	[ ! -L "$1" ] && [ -d "$1" ] && mine "$1" && [ -f "$1/.iotax" ] && [ ! -L "$1/.iotax" ] && mine "$1/.iotax" || return 0
	if line=$(head -c 4096 <"$1/.iotax") 2>/dev/null; then
		line=${line%%"
"*}
	else IFS= read -r line <"$1/.iotax"; fi # no head, as in the shell that iotax brings
}
`

// foreign is the line that listDirs prints for a directory of another user.
const foreign = "of another user"

// listDirs prints the path and the marker's line of each iotax-… directory in $1, $2…, and where that machine itself keeps what
// is temporary. The path is the real one, as the kernel writes those of mounts and backing files.
const listDirs = marker + `
for d in "$@" "${TMPDIR:-/tmp}"; do
	d=$(cd -- "$d" 2>/dev/null && pwd -P) || continue
	d=${d%/}
	for p in "$d"/iotax-*; do
		case $p in *"
"*) continue;; esac
		marker "$p"
		if [ -n "$line" ]; then printf '%s\n' "$p" "$line"
		elif [ -d "$p" ] && [ ! -L "$p" ] && ! mine "$p"; then printf '%s\n' "$p" '` + foreign + `'
		fi
	done
done
true
`

// Guard is a function of the POSIX shell for scripts that remove a directory: guard DIR ends the script, with the status 43, while
// something is mounted in DIR or a device is attached as NBDFile there tells. It does not follow DIR itself if that is a link.
const Guard = `
attached() {
	[ -f "$1/` + NBDFile + `" ] && read -r dev pid boot <"$1/` + NBDFile + `" && read -r now </proc/sys/kernel/random/boot_id && [ "$boot" = "$now" ] &&
		read -r is <"/sys/block/${dev#/dev/}/pid" && [ "$is" = "$pid" ]
} 2>/dev/null
guard() {
	if attached "$1"; then echo "$dev, which is noted in it, is still attached: nbd-client -d $dev" >&2; exit 43; fi
	real=$(cd -- "${1%/*}/" && pwd -P) || exit 43
	real=${real%/}/${1##*/}
	if [ -r /proc/self/mountinfo ]; then
		while read -r _ _ _ _ p _; do
			case $p in *\\*) p=$(printf '%b' "$p");; esac # the kernel writes blanks as \040
			case $p in "$real" | "$real"/*) echo "$p is still mounted" >&2; exit 43;; esac
		done </proc/self/mountinfo
		return 0
	fi
	case $(uname -s) in Windows*) return 0;; esac # what is mounted in a directory there is a link, and goes as one
	mounted=$(mount) || { echo "no mount tells whether something is mounted in $real" >&2; exit 43; }
	case $mounted in *" on $real "* | *" on $real/"*) echo "something in $real is still mounted" >&2; exit 43;; esac
}
`

// removeDir removes the directory $1 if its marker still holds $2 and nothing is mounted below it, and ends the server whose it is. It stays
// in the parent directory, so that another user who owns a directory above cannot lead it elsewhere.
const removeDir = marker + Guard + `
case ${1##*/} in iotax-*) ;; *) echo "$1 is not a directory of iotax" >&2; exit 41;; esac
cd -- "${1%/*}/" 2>/dev/null || exit 0
d=./${1##*/}
[ -d "$d" ] || exit 0
if [ -L "$d" ]; then echo "$1 has become a symbolic link" >&2; exit 41; fi
marker "$d"
if [ "$line" != "$2" ]; then echo "$1 is not the directory that was listed" >&2; exit 41; fi
for p in "$d"/made-*; do
	[ ! -e "$p" ] || { echo "what is noted in $p has not been removed" >&2; exit 41; }
done
guard "$d"
# nginx overwrites its environment, and the label in it, with its title. It is this user's process with the id in the file, and one of
# its arguments, which the title separates by blanks, is a path in the directory.
args() { if [ -r /proc/self/cmdline ]; then [ -O "/proc/$p" ] && tr '\000' '\n' <"/proc/$p/cmdline"; else ps -o command= -p "$p"; fi | tr ' ' '\n'; } 2>/dev/null
at() { args | ( while IFS= read -r w || [ -n "$w" ]; do case $w in "$1"/*) exit 0 ;; esac; done; exit 1 ); }
if [ -f "$d/pid" ] && { read -r p <"$d/pid"; } 2>/dev/null; then
	n=0
	while at "$1"; do
		if [ $n -eq 0 ]; then kill -s TERM "$p"; elif [ $n -ge 50 ]; then kill -s KILL "$p"; fi
		if [ $n -ge 100 ]; then echo "process $p is still alive" >&2; exit 41; fi
		n=$((n + 1))
		sleep 0.1 2>/dev/null || sleep 1
	done
fi
case ${1%/*} in /mnt | /run) # made with the rights of root
	if [ "$(id -u 2>/dev/null || echo 0)" != 0 ] && sudo -n sh -c : 2>/dev/null; then exec sudo -n sh -c 'rm -rf -- "$1"' sh "$d"; fi
esac
rm -rf -- "$d"
`

// AsRoot runs the script $1 with the arguments that follow as root, where the user is root or sudo asks for no password for sh, which
// is tried before: it may let nothing else through. What else is to become of it stands behind.
const AsRoot = `if [ "$(id -u 2>/dev/null || echo 0)" = 0 ]; then unset SUDO_UID; exec sh -c "$@"; fi
if sudo -n sh -c : 2>/dev/null; then exec sudo -n sh -c "$@"; fi
`

// maybeRoot runs it as this user where it cannot be had as root: they may unmount what FUSE has mounted for them.
const maybeRoot = AsRoot + `exec sh -c "$@"`

// root is run with the rights of root.
func root(ctx context.Context, m iotax.Machine, limit time.Duration, script string, args ...string) (string, error) {
	return run(ctx, m, limit, maybeRoot, append([]string{Prologue + script, "sh"}, args...)...)
}

// marked returns the marked directories by path, with the line of their markers.
func marked(ctx context.Context, pl Place) (map[string]string, error) {
	dirs := slices.Clone(pl.Dirs)
	for i := range dirs {
		dirs[i] = path.Clean(dirs[i])
	}
	slices.Sort(dirs)
	out, err := run(ctx, pl.Machine, lookTime, listDirs, slices.Compact(dirs)...)
	found := map[string]string{}
	lines := strings.Split(out, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		dir := lines[i]
		if len(dir) > 2 && dir[1:3] == `:\` { // Windows: the shell's patterns give its own separators, and scripts take names apart at others
			dir = strings.ReplaceAll(dir, `\`, "/")
		}
		found[dir] = lines[i+1]
	}
	return found, err
}

func directories(ctx context.Context, pl Place) ([]Item, error) {
	found, err := marked(ctx, pl)
	var items []Item
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		line := found[dir]
		if line == foreign {
			items = append(items, Item{Name: dir, State: Foreign})
			continue
		}
		l, ok := ParseLabel(line)
		if !ok {
			continue // made by an iotax that wrote no label, or by this one outside of a run
		}
		items = append(items, Item{Name: dir, Label: l, End: func(ctx context.Context) error {
			_, err := run(ctx, pl.Machine, removeTime, removeDir, dir, line)
			return err
		}})
	}
	return items, err
}

// inside returns the label of the marked directory that p lies in, of the innermost where one lies in another.
func inside(found map[string]string, p string) (Label, bool) {
	in := ""
	for dir := range found {
		if len(dir) > len(in) && (p == dir || strings.HasPrefix(p, dir+"/")) {
			in = dir
		}
	}
	return ParseLabel(found[in])
}

// listMounts prints the mount points of this namespace, octal escapes undone, the last first. iotax makes none with a line break.
const listMounts = `
while read -r _ _ _ _ p _; do case $p in *\\012*) ;; *) l="$p
$l";; esac; done </proc/self/mountinfo 2>/dev/null
printf '%b' "$l"
`

func mounts(ctx context.Context, pl Place) ([]Item, error) {
	found, err := marked(ctx, pl)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	out, err := run(ctx, pl.Machine, lookTime, listMounts)
	var items []Item
	for line := range strings.Lines(out) {
		point := strings.TrimSuffix(line, "\n")
		l, ok := inside(found, point)
		if !ok {
			continue
		}
		items = append(items, Item{Name: point, Label: l, End: func(ctx context.Context) error {
			_, err := root(ctx, pl.Machine, lookTime, `umount "$1" 2>/dev/null || umount -l "$1"`, point)
			return err
		}})
	}
	return items, err
}

// listLoops prints the name and the backing file of each loop device.
const listLoops = `
for f in /sys/block/loop*/loop/backing_file; do
	[ -r "$f" ] || continue
	b=${f#/sys/block/} b=${b%%/*}
	IFS= read -r file <"$f" && printf '/dev/%s %s\n' "$b" "$file"
done
true
`

// detachLoop detaches the loop device $1 if its file still is $2.
const detachLoop = `IFS= read -r file <"/sys/block/${1#/dev/}/loop/backing_file" && [ "$file" = "$2" ] || exit 0
losetup -d "$1"`

func loops(ctx context.Context, pl Place) ([]Item, error) {
	found, err := marked(ctx, pl)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	out, err := run(ctx, pl.Machine, lookTime, listLoops)
	var items []Item
	for line := range strings.Lines(out) {
		dev, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		l, ok := inside(found, strings.TrimSuffix(file, " (deleted)"))
		if !ok {
			continue
		}
		items = append(items, Item{Name: dev, Detail: file, Label: l, End: func(ctx context.Context) error {
			_, err := root(ctx, pl.Machine, lookTime, detachLoop, dev, file)
			return err
		}})
	}
	return items, err
}
