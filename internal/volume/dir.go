package volume

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/plan"
	"iotax/internal/probe"
)

// DirSpec is `dir: PATH`: a directory on any machine.
type DirSpec struct {
	Path    string `yaml:"path" doc:"directory that exists; everything happens in a fresh iotax-… directory inside it"`
	Create  bool   `yaml:"create" doc:"make the directory if it does not exist, and remove it at the end; without this it is refused then"`
	Network bool   `yaml:"network" doc:"the directory is meant to lie on a network file system, whose server others use too; without this it is refused there"`
}

func newDirSpec() plan.Spec { return &DirSpec{} }

// SetScalar fills the spec from `dir: PATH`.
func (s *DirSpec) SetScalar(v string) error { s.Path = v; return nil }

// Validate refuses paths that a shell would have expanded, and the root directory.
func (s *DirSpec) Validate() error { return checkPath("directory", s.Path) }

// checkPath refuses what cannot be meant as a path.
func checkPath(what, path string) error {
	fail := func(msg, hint string) error { return &plan.FieldError{Field: "path", Msg: msg, Hint: hint} }
	switch {
	case path == "":
		return fail("no "+what+" is given", "name one, as in /var/tmp")
	case strings.IndexFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
		return fail(fmt.Sprintf("%q has control characters", path), "use another "+what)
	case strings.HasPrefix(path, "~"):
		return fail(fmt.Sprintf("%q: ~ is not expanded here", path), "write the path in full, as in /home/me/"+strings.TrimLeft(path, "~/"))
	case strings.ContainsAny(path, "*?["):
		return fail(fmt.Sprintf("%q looks like a pattern that no shell has expanded", path), "name one "+what)
	case strings.Contains(path, "$"):
		return fail(fmt.Sprintf("%q: variables are not expanded here", path), "write the path in full")
	case onDrive(path) && len(path) == 3:
		return fail("the root of a drive itself is never used", "name a directory for the test, as in "+path[:2]+"/iotax")
	case filepath.Clean(path) == "/":
		return fail("/ itself is never used", "name a directory for the test, as in /var/tmp")
	}
	return nil
}

// onDrive reports whether a path begins with the drive of Windows: C:\bench, C:/bench.
func onDrive(path string) bool {
	return len(path) > 2 && path[1] == ':' && (path[2] == '/' || path[2] == '\\') && ('a' <= path[0]|0x20 && path[0]|0x20 <= 'z')
}

func (s *DirSpec) Traits() plan.Traits { return plan.Traits{Directories: []*string{&s.Path}} }

func prepareDir(_ context.Context, s *DirSpec, e Env) (iotax.Volume, error) {
	return &dir{want: s.Path, need: e.Need, users: true, own: true, network: s.Network, create: s.Create}, nil
}

// OwnDir makes a directory of iotax's own on m, inside of the directory in or, where that is "", of the machine's own one for
// such; with the guards, the label and the reserve of space that a `dir:` has, but no reserve where in is "" and need is 0. network
// lets it lie on a network file system, create makes in if it does not exist. remove removes it with everything in it, and is to be called also after an error.
func OwnDir(ctx context.Context, m iotax.Machine, in string, need int64, network, create bool) (path string, remove func(context.Context) error, err error) {
	d := guardedDir(m, in, need, network, create)
	d.empty = need == 0 && !d.users
	p, err := d.Attach(ctx, m)
	return p.Path, d.Detach, err
}

// guardedDir is where something goes for which the plan may name a directory of m.
func guardedDir(m iotax.Machine, in string, need int64, network, create bool) *dir {
	if in == "" {
		return &dir{want: homeOf(m), need: need, own: true}
	}
	return &dir{want: in, need: need, users: true, own: true, network: network, create: create}
}

// dir makes one directory of its own inside want, and never writes anywhere else.
type dir struct {
	want string
	need int64
	undo undo

	own     bool // it is on the machine's own storage, not on what iotax has attached there
	users   bool // the user named it; where iotax itself chose, no such care is needed
	network bool // it may lie on a network
	create  bool // a directory that the user named is made, too
	empty   bool // iotax puts nothing there, so no space is kept in reserve
}

func (d *dir) Caps() iotax.VolumeCaps { return iotax.VolumeCaps{} }

// marker is a file in every directory that iotax makes. It holds a word that only the maker knows, and
// the label of the run; nothing is removed without it.
const marker = leftover.Marker

// surveyDir looks without changing anything: which levels of $1 are missing (outermost first), the
// real path of the deepest one that exists, its free space, the mounts.
const surveyDir = `
p=$1; missing=
while [ ! -d "$p" ]; do
	if [ -e "$p" ] || [ -L "$p" ]; then echo "$p is not a directory" >&2; exit 41; fi
	missing="missing $p
$missing"
	case $p in */*) p=${p%/*};; *) p=.;; esac
	case $p in [A-Za-z]:) p=$p/;; esac
	p=${p:-/}
done
cd -- "$p" || exit 42
real=$(pwd -P; echo /) # a name may end with a line break
real=${real%
/}
case $real in *"
"*) echo "its real path has a line break" >&2; exit 44;; esac
printf '%s' "$missing"
printf 'real %s\n' "$real"
up= at=
[ -z "$HOME" ] || h=$(cd -- "$HOME" 2>/dev/null && pwd -P) && printf 'home %s\n' "$h"
[ ! -r /etc/passwd ] || while IFS=: read -r _ _ uid _ _ h _; do
	case $uid in 0 | [1-9][0-9][0-9][0-9]*) ;; *) continue;; esac
	case $h in /*/*) ;; *) printf 'home %s\n' "$h"; continue;; esac
	if [ "${h%/*}" != "$up" ]; then up=${h%/*}; at=$(cd -- "$up" 2>/dev/null && pwd -P) || at=$up; fi
	h=$at/${h##*/}
	printf 'home %s\n' "$h"
	# Nothing is entered that is no link: that would mount the home of each user where they are mounted when somebody comes.
	if [ -L "$h" ] && h=$(cd -- "$h" 2>/dev/null && pwd -P); then printf 'home %s\n' "$h"; fi
done </etc/passwd
for h in /home /Users; do
	if [ -L "$h" ] && h=$(cd -- "$h" 2>/dev/null && pwd -P); then printf 'homes %s\n' "$h"; fi
done
df -Pk . 2>/dev/null | while read -r _ size _ free _; do
	case $free in *[!0-9]*|'') ;; *) echo "space $size $free";; esac
done
printf 'system %s\n' "$(uname -s 2>/dev/null)"
echo mounts
cat /proc/self/mountinfo 2>/dev/null || true
`

// trusted DIRECTORY is a function of scripts. It exits with the status 45 if the script runs as root and another user may replace
// DIRECTORY or one above it: mkdir, fio and rm would follow the replacement with the rights of root. The user who called sudo, and
// that user's private group, can become root anyhow. Users other than root have the guard alone. The shell that iotax brings to
// Windows has no ls, and no such owners.
const trusted = `
trusted() {
	[ "$(id -u)" = 0 ] && command -v ls >/dev/null 2>&1 || return 0
	at=$1
	while :; do
		read -r mode _ uid gid _ <<-END
		$(ls -ldn -- "${at:-/}")
		END
		why=
		case $mode in
		d????????[tT]*) ;; # names in it can be changed by their owners alone
		d???????w*) why="other users may write to it";;
		d????w*) [ "$gid" = "$uid" ] && [ "$uid" = "${SUDO_UID:-}" ] || why="its group may write to it";;
		d*) ;;
		*) why="it is not a directory";;
		esac
		case $uid in 0 | "${SUDO_UID:-0}") ;; *) why="user $uid owns it";; esac
		if [ -n "$why" ]; then printf '%s: %s\n' "${at:-/}" "$why" >&2; exit 45; fi
		[ -n "$at" ] || return 0
		at=${at%/*}
	done
}
`

// Where the scripts below ask for trust. What mkdir -p makes must be trusted itself, whatever the umask is.
const (
	trustReal   = trusted + `trusted "$real"` + "\n"
	trustParent = trusted + `[ ! -d "$1" ] || trusted "${1%/*}"` + "\n"
	trustMade   = trusted + `umask g-w,o-w; mkdir -p -- "$1" && trusted "$1" || exit` + "\n"
)

// distrusted is what the status 45 means.
func distrusted(op, on string, err error) *iotax.Error {
	return &iotax.Error{Op: op, On: on, Err: fmt.Errorf("another user could redirect what root writes there: %w", said(err)),
		Hint: "use a directory that only root may write, as in /var/tmp/iotax,create=true, or run iotax as the owner; if no other user works on this machine, set " + iotax.AloneVariable + "=1"}
}

// trust is the part of a script for m that asks for trust, or "" where that is not needed.
func (d *dir) trust(m iotax.Machine, part string) string {
	if !d.users || alone(m) {
		return ""
	}
	return part
}

// makeDir makes the directory $1/$2 with the marker $3 that holds $4.
const makeDir = `
mkdir -p -- "$1" && umask 077 && mkdir -- "$1/$2" && printf '%s\n' "$4" >"$1/$2/$3"
`

// whichDir prints device:inode of the directory $1, if that can be had.
const whichDir = `stat -c '%d:%i' -- "$1" 2>/dev/null || true`

// sameDir fails with the status 41 if the directory $1 is another than the one of the device:inode $2, or where that is "" than the one whose
// marker $3 holds $4.
const sameDir = `
[ -d "$1" ] && [ ! -L "$1" ] || exit 41
if [ -n "$2" ]; then [ "$(stat -c '%d:%i' -- "$1")" = "$2" ] || exit 41; exit 0; fi
[ -f "$1/$3" ] && [ ! -L "$1/$3" ] && [ "$(cat "$1/$3")" = "$4" ] || exit 41
`

// removeDir removes the directory $1 if its marker $2 holds $3, and levels $4… when they are empty.
const removeDir = leftover.Guard + `
d=$1; m=$2; word=$3; shift 3
case ${d##*/} in iotax-*) ;; *) echo "$d is not a directory of iotax" >&2; exit 41;; esac
if [ -L "$d" ]; then echo "$d has become a symbolic link" >&2; exit 41; fi
if [ -d "$d" ]; then
	if [ ! -e "$d/$m" ]; then
		rmdir -- "$d" || exit 42
	elif [ "$(cat "$d/$m")" != "$word" ]; then
		echo "$d/$m is not this run's" >&2; exit 41
	else
		guard "$d"
		rm -rf -- "$d" || exit 42
	fi
fi
for p; do rmdir -- "$p" 2>/dev/null; done
true
`

// survey is what surveyDir found.
type survey struct {
	real       string
	missing    []string // outermost first
	size, free int64    // bytes; 0, -1 when df said nothing
	mounts     []probe.Mount
	system     string   // of uname
	homes      []string // real paths, of users that the machine tells of
	roots      []string // where homeRoots lead to, if that is elsewhere
}

// homeRoots are the directories that hold home directories.
var homeRoots = []string{"/home", "/Users", "/root"}

// isHome reports whether the directory is somebody's home, or holds homes.
func (s survey) isHome() bool {
	roots := slices.Concat(homeRoots, s.roots)
	return slices.Contains(roots, s.real) || slices.Contains(roots, path.Dir(s.real)) && path.Dir(s.real) != "/root" || slices.Contains(s.homes, s.real)
}

func parseSurvey(out string) survey {
	s := survey{free: -1}
	head, mounts, _ := strings.Cut(out, "\nmounts\n")
	for _, line := range strings.Split(head, "\n") {
		key, rest, _ := strings.Cut(line, " ")
		switch key {
		case "missing":
			s.missing = append(s.missing, rest)
		case "real":
			s.real = rest
		case "system":
			s.system = rest
		case "home":
			if rest != "" && rest != "/" && rest != "/nonexistent" {
				s.homes = append(s.homes, path.Clean(rest))
			}
		case "homes":
			if rest != "/" {
				s.roots = append(s.roots, rest)
			}
		case "space":
			size, free, _ := strings.Cut(rest, " ")
			a, err1 := strconv.ParseInt(size, 10, 64)
			b, err2 := strconv.ParseInt(free, 10, 64)
			if err1 == nil && err2 == nil && a > 0 { // a ramfs tells a size of 0: it has no limit
				s.size, s.free = a*1024, b*1024
			}
		}
	}
	s.mounts = probe.ParseMounts(mounts)
	return s
}

// enough says whether need bytes fit, and what to do if not.
func (s survey) enough(op, on string, need int64) error {
	if s.free < 0 {
		return nil
	}
	want := need + iotax.Reserve(s.size)
	if s.free >= want && s.free > 0 {
		return nil
	}
	if need == 0 {
		return &iotax.Error{Op: op, On: on, Err: fmt.Errorf("the file system is full: %s free, %s are kept in reserve", bytesText(s.free), bytesText(iotax.Reserve(s.size))),
			Hint: "free some space, or use another directory"}
	}
	return &iotax.Error{Op: op, On: on, Err: fmt.Errorf("not enough space: the test needs %s and leaves %s in reserve, %s are free",
		bytesText(need), bytesText(iotax.Reserve(s.size)), bytesText(s.free)), Hint: "free some space, use another directory, or a smaller --size"}
}

// bytesText writes a number of bytes with a binary unit.
func bytesText(n int64) string {
	v, unit := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for v >= 1024 && len(unit) > 1 {
		v, unit = v/1024, unit[1:]
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + " " + unit[0]
}

// Attach makes the directory on m.
//
// Its name is drawn here and not by mktemp over there: a command that is cut off before its answer
// arrives would leave a directory whose name nobody knows.
func (d *dir) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	op, on := "use directory", d.want
	var none iotax.Place
	want := d.want
	if onDrive(want) { // Windows' own separators are not a shell's
		want = strings.ReplaceAll(want, `\`, "/")
	} else if !filepath.IsAbs(want) && !strings.HasPrefix(want, "/") {
		if !iotax.IsLocal(m) {
			return none, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("a relative path means nothing on %v", m), Hint: "write the path in full, from /"}
		}
		abs, err := filepath.Abs(want)
		if err != nil {
			return none, &iotax.Error{Op: op, On: on, Err: err}
		}
		want = abs
	}
	want = filepath.ToSlash(filepath.Clean(want))

	out, err := sh(ctx, m, quick, surveyDir+d.trust(m, trustReal), want)
	switch {
	case exit(err) == 45:
		return none, distrusted(op, on, err)
	case exit(err) == 44:
		return none, &iotax.Error{Op: op, On: on, Err: said(err), Hint: "use another directory"}
	case exit(err) == 41:
		return none, &iotax.Error{Op: op, On: on, Err: said(err), Hint: "name a directory"}
	case exit(err) == 42:
		return none, &iotax.Error{Op: op, On: on, Err: said(err), Hint: "run as a user who may enter it, or use another directory"}
	case err != nil:
		return none, &iotax.Error{Op: op, On: on, Err: err}
	}
	s := parseSurvey(out)
	if s.real == "" {
		return none, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("%v did not say where it lies", m), Hint: "check that sh, cd and pwd work there"}
	}
	if s.real == "/" && len(s.missing) == 0 {
		return none, &iotax.Error{Op: op, On: on, Err: errors.New("this is /, which is never used"), Hint: "name a directory for the test, as in /var/tmp"}
	}
	if d.users && len(s.missing) == 0 && s.isHome() {
		return none, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("%s is a home directory, which is not used itself", s.real),
			Hint: "name a directory inside it, as in " + iotax.Quote(s.real+"/iotax,create=true")}
	}
	fs, known := probe.MountOf(s.mounts, s.real)
	if known {
		on = fmt.Sprintf("%s (%s on %s)", d.want, fs.Type, fs.Point)
		if pseudo(fs) {
			return none, &iotax.Error{Op: op, On: on, Err: errors.New("this file system holds no files of users"), Hint: "use another directory, as in /var/tmp"}
		}
	}
	if d.users && !d.create && len(s.missing) > 0 {
		why := errors.New("it does not exist")
		if len(s.missing) > 1 {
			why = fmt.Errorf("%s does not exist", s.missing[0])
		}
		return none, &iotax.Error{Op: op, On: on, Err: why,
			Hint: "check the path; to have it made: create: true beside it in the plan, or create=true behind it on the command line (dir:/data,create=true)"}
	}
	if known {
		if d.users && !d.network && networked(fs) {
			return none, &iotax.Error{Op: op, On: on, Err: errors.New("it lies on a network file system, whose server others may use too"),
				Hint: "if that is meant: network: true beside it in the plan, or as in dir:" + d.want + ",network=true on the command line; else name a directory on a disk"}
		}
		if fs.ReadOnly() {
			return none, readOnly(op, on, fs.Point)
		}
	}
	if err := s.enough(op, on, d.need); err != nil && (!d.empty || s.free == 0) {
		return none, err
	}

	// Below the deepest level that exists, the names are as they were asked for.
	base := s.real
	var made []string // innermost first, as rmdir wants them
	for _, p := range s.missing {
		base = strings.TrimSuffix(base, "/") + "/" + p[strings.LastIndexByte(p, '/')+1:]
		made = append([]string{base}, made...)
	}
	name, word := "iotax-"+randomHex(3), strings.TrimSpace(randomHex(16)+" "+leftover.Current().String())
	path := strings.TrimSuffix(base, "/") + "/" + name
	d.undo.push(func(ctx context.Context) error {
		_, err := sh(ctx, m, slow, d.trust(m, trustParent)+removeDir, append([]string{path, marker, word}, made...)...)
		if err != nil {
			return &iotax.Error{Op: "remove", On: fmt.Sprintf("%s on %v", path, m), Err: said(err), Hint: "look at it, and remove it by hand"}
		}
		return nil
	})
	if _, err := sh(ctx, m, quick, d.trust(m, trustMade)+makeDir, base, name, marker, word); err != nil {
		e := &iotax.Error{Op: op, On: on, Err: said(err)}
		switch {
		case exit(err) == 45:
			e = distrusted(op, on, err)
		case says(err, "read-only"):
			e = readOnly(op, on, fs.Point)
		case says(err, "no space", "quota"):
			e.Hint = "free some space, or use another directory"
		case says(err, "permission", "not permitted"):
			e.Hint = "run as a user who may write there, or use another directory"
		case says(err, "not supported"):
			e.Hint = "use a directory on a file system with the usual file modes and attributes"
		default:
			e.Hint = "use another directory"
		}
		return none, e
	}

	p := iotax.Place{Kind: iotax.PlaceDir, Path: path, Durability: iotax.Durable, Facts: facts(ctx, m, path)}
	if d.users {
		id := ""
		if known && lastingInodes(fs) {
			if out, err := sh(ctx, m, quick, whichDir, path); err == nil {
				id = strings.TrimSpace(out)
			}
		}
		p.Guard = func(ctx context.Context) error {
			_, err := sh(ctx, m, quick, d.trust(m, trustParent)+sameDir, path, id, marker, word)
			if exit(err) == 45 {
				return distrusted("write in", fmt.Sprintf("%s on %v", path, m), err)
			}
			if exit(err) == 41 {
				return &iotax.Error{Op: "write in", On: fmt.Sprintf("%s on %v", path, m), Err: errors.New("it is no longer the directory that was made there"),
					Hint: "look at who put something else in its place, and name a directory in which nobody else may write"}
			}
			return err
		}
	}
	p.Durability = fs.Durability()
	if d.own {
		p.Durability = ownDurability(m, path, fs, s.system)
	}
	if caps := m.Caps(); caps.Local {
		p.Backing = path
	} else if caps.HostPath != nil {
		p.Backing = caps.HostPath(path)
	}
	return p, nil
}

// facts are those of the path. They explain a result and decide nothing, so that a machine that
// cannot tell simply has none.
func facts(ctx context.Context, m iotax.Machine, path string) map[string]string {
	f, err := probe.Place(ctx, m, path)
	if err != nil || f == nil {
		return map[string]string{}
	}
	return f
}

func readOnly(op, on, point string) *iotax.Error {
	e := &iotax.Error{Op: op, On: on, Err: errors.New("the file system is mounted read-only"), Hint: "use another directory"}
	if point != "" {
		e.Hint = "use another directory, or make it writable: mount -o remount,rw " + iotax.Quote(point)
	}
	return e
}

// Detach removes the directory with everything in it.
func (d *dir) Detach(ctx context.Context) error { return d.undo.run(ctx) }

func (d *dir) Close(ctx context.Context) error { return d.undo.run(ctx) }

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
