package agent

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"iotax"
)

// A Link is the session of a machine with its agent, its MachineCaps.Agent. The zero value starts the agent at the
// first call. The machine's Close calls Hangup first.
type Link struct {
	// Start starts the agent in another way than by a command of the machine.
	Start func(ctx context.Context) (*Session, error)
	// Program is the path of this iotax over there, if it need not be copied.
	Program string

	// Log receives what happens, for the user; nil is silence. Set it before the first call.
	Log func(format string, args ...any)

	// Patience is how long a machine may be silent while an agent starts there; 0 is a minute.
	Patience time.Duration

	mu      sync.Mutex
	now     *Session
	opening chan struct{} // closed when the session is there; nil when none is being opened
}

// LinkOf returns the link of m, or nil.
func LinkOf(m iotax.Machine) *Link {
	link, _ := m.Caps().Agent.(*Link)
	return link
}

// Session returns the session with the agent on m, which it starts where none runs.
func (l *Link) Session(ctx context.Context, m iotax.Machine) (*Session, error) {
	for {
		l.mu.Lock()
		if l.now != nil && !l.now.Closed() {
			defer l.mu.Unlock()
			return l.now, nil
		}
		if l.opening == nil {
			break
		}
		wait := l.opening
		l.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	l.opening = make(chan struct{})
	l.mu.Unlock()
	start := l.Start
	if start == nil {
		start = func(ctx context.Context) (*Session, error) { return l.bootstrap(ctx, m) }
	}
	s, err := start(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.now = s
	}
	close(l.opening)
	l.opening = nil
	return s, err
}

// Hangup ends the session, and with it what the agent runs. The next call would begin another one.
func (l *Link) Hangup(ctx context.Context) {
	l.mu.Lock()
	s := l.now
	l.now = nil
	l.mu.Unlock()
	if s == nil {
		return
	}
	if s.end != nil {
		s.end(ctx)
	}
	_ = s.mux.Close() // waits for the end of what it reads
}

// Program returns the path of the agent's program on m.
func Program(ctx context.Context, m iotax.Machine) (string, error) {
	if iotax.IsLocal(m) {
		return os.Executable()
	}
	link := LinkOf(m)
	if link == nil {
		link = new(Link)
		defer link.Hangup(context.WithoutCancel(ctx))
	}
	s, err := link.Session(ctx, m)
	if err != nil {
		return "", err
	}
	return s.Program, nil
}

// A program is the one that is copied to machines.
type program struct {
	path, hash string
	size       int64
}

// self is the program that runs now.
var self = sync.OnceValues(func() (p program, err error) {
	if !able {
		return p, errors.New("this program cannot be an agent: its main does not call agent.Main")
	}
	if p.path, err = os.Executable(); err != nil {
		return p, err
	}
	if runtime.GOOS == "linux" {
		p.path = "/proc/self/exe" // also when the file was replaced
	}
	f, err := os.Open(p.path)
	if err != nil {
		return p, err
	}
	defer f.Close()
	h := sha256.New()
	p.size, err = io.Copy(h, f)
	p.hash = fmt.Sprintf("%x", h.Sum(nil))
	return p, err
})

// uname is what uname -s and uname -m print where this host's programs run.
func uname() string {
	name := map[string]string{"linux/amd64": "Linux x86_64", "linux/arm64": "Linux aarch64", "darwin/arm64": "Darwin arm64", "darwin/amd64": "Darwin x86_64"}
	return name[runtime.GOOS+"/"+runtime.GOARCH]
}

// bootstrapScript starts the program whose SHA-256 is $1 as an agent. It first looks in the directories that may hold it,
// else it asks for $2 bytes on standard input and writes them to the first directory of this user that may run programs and has
// the space. $3 is the uname of the systems on which it runs.
const bootstrapScript = `
hash=$1 size=$2 system=$3
mask=$(umask)
umask 077
say() { echo "iotax bootstrap: $*"; }
die() { say "$@"; exit 1; }
run() {
	umask "$mask"
	export ` + sweepVariable + `=$$.$(date +%s)
	"$1" ` + Command + `
	c=$?
	[ $c -le 128 ] || "$1" ` + sweepCommand + `
	exit $c
}
has=$(uname -s)" "$(uname -m)
[ "$has" = "$system" ] || die "it runs $has, and this iotax $system"
id=$(id -u)
set -- "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/iotax" "/var/tmp/iotax-tools-$id" "${TMPDIR:-/tmp}/iotax-tools-$id" "/run/iotax-tools-$id"
for d; do
	if [ -O "$d" ] && [ ! -L "$d" ] && [ -x "$d/iotax-$hash" ]; then run "$d/iotax-$hash"; fi
done
why="no directory of this user may run programs and holds $((size >> 20)) MiB: $*"
for d; do
	mkdir -p -- "$d" 2>/dev/null && [ -O "$d" ] && [ ! -L "$d" ] && [ -w "$d" ] || continue
	t=$d/.iotax.$$
	printf '#!/bin/sh\nexit 0\n' >"$t" 2>/dev/null && chmod 700 "$t" && "$t" 2>/dev/null
	ok=$?
	rm -f -- "$t"
	[ $ok = 0 ] || continue
	free=$(df -Pk "$d" 2>/dev/null | while read -r _ _ _ f _; do echo "$f"; done | tail -n 1)
	case $free in *[!0-9]*|'') ;; *) [ "$free" -gt $((size >> 10)) ] || continue;; esac
	why=
	break
done
[ -z "$why" ] || die "$why"
trap 'rm -f -- "$t"' EXIT
trap 'exit 143' HUP INT TERM
say copy
head -c "$size" >"$t" 2>/dev/null || die "the disk of $d is full, or head -c fails"
[ $(($(wc -c <"$t"))) = "$size" ] || die "$(($(wc -c <"$t"))) bytes of $size came to $d"
sum=$(sha256sum "$t" 2>/dev/null || shasum -a 256 "$t" 2>/dev/null)
case $sum in "$hash "*|'') ;; *) die "the copy in $d has another SHA-256: $sum";; esac
chmod 700 "$t" && mv -f -- "$t" "$d/iotax-$hash" || die "$d cannot be written"
trap - EXIT
run "$d/iotax-$hash"
`

// A cannot is the reason for which a machine cannot have an agent. It is errors.ErrUnsupported.
type cannot string

func (c cannot) Error() string        { return string(c) }
func (c cannot) Is(target error) bool { return target == errors.ErrUnsupported }

// answerTime is how long a machine may be silent while an agent starts there.
const answerTime = time.Minute

// progress ends a silence with each write.
type progress struct {
	silence *time.Timer
	limit   time.Duration
}

func (p progress) Write(b []byte) (int, error) {
	if p.silence.Stop() { // else it has ended already
		p.silence.Reset(p.limit)
	}
	return len(b), nil
}

// bootstrap starts the agent on m by a command, and copies it there first where it is not.
func (l *Link) bootstrap(ctx context.Context, m iotax.Machine) (*Session, error) {
	const op, hint = "start the agent on", "iotax must be able to run itself there: it needs a directory that may run programs (XDG_CACHE_HOME there, or /var/tmp), and the same operating system and architecture as this host"
	fail := func(err error) (*Session, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &iotax.Error{Op: op, On: m.String(), Err: err, Hint: hint}
	}
	args := append([]string{l.Program}, strings.Fields(Command)...)
	var me program
	if l.Program == "" {
		var err error
		if me, err = self(); err != nil {
			return fail(err)
		}
		system := uname()
		if system == "" {
			return fail(cannot("programs of this host run nowhere else: it is " + runtime.GOOS + "/" + runtime.GOARCH))
		}
		args = []string{"sh", "-c", bootstrapScript, "sh", me.hash, fmt.Sprint(me.size), system}
	}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	var died error
	go func() {
		died = m.Run(life, &iotax.Cmd{Args: args, Stdin: stdin, Stdout: stdout})
		if died == nil {
			died = errors.New("it ended")
		}
		close(ended)
		stdout.Close()
		stdin.Close()
	}()
	end := func(ctx context.Context) {
		in.Close()
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(endTime):
		}
		kill()
		<-ended
		out.Close()
	}
	stop := context.AfterFunc(ctx, kill) // until the session stands
	limit := cmp.Or(l.Patience, answerTime)
	silence := time.AfterFunc(limit, kill)
	defer silence.Stop()
	abandon := func(err error) (*Session, error) {
		silent := !silence.Stop()
		stop()
		_ = out.CloseWithError(io.ErrClosedPipe)
		in.Close()
		kill()
		<-ended
		var exit *iotax.ExitError
		if silent && ctx.Err() == nil {
			err = fmt.Errorf("it did not answer within %v", limit)
		} else if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.As(died, &exit) && exit.Code != 1 && exit.Signal == "" {
			err = died
		}
		return fail(err)
	}
	from := bufio.NewReaderSize(out, 4<<10)
	var copying sync.WaitGroup
	defer copying.Wait()
	for {
		s, err := Meet(from, in, in.Close)
		var line *Refused
		switch {
		case err == nil:
			if !stop() || !silence.Stop() {
				return abandon(context.Cause(ctx))
			}
			s.end = end
			s.died = func(ctx context.Context) error {
				select {
				case <-ended:
					return died
				case <-ctx.Done():
					return nil
				}
			}
			return s, nil
		case !errors.As(err, &line):
			return abandon(err)
		}
		said, ours := strings.CutPrefix(line.Line, "iotax bootstrap: ")
		if !ours {
			return abandon(err)
		}
		if said != "copy" {
			return abandon(cannot(said))
		}
		if l.Log != nil {
			l.Log("copying iotax to %s (%d MiB, once)", m, me.size>>20)
		}
		f, err := os.Open(me.path)
		if err != nil {
			return abandon(err)
		}
		copying.Go(func() { // the script may give up before it has read all
			defer f.Close()
			n, err := io.Copy(in, io.TeeReader(io.LimitReader(f, me.size), progress{silence, limit}))
			if err == nil && n < me.size {
				_ = in.CloseWithError(fmt.Errorf("%s became shorter", me.path))
			}
		})
	}
}
