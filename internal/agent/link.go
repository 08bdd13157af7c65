package agent

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"iotax"
)

// A Link manages the session of a machine with its agent. The machine returns the Link in MachineCaps.Agent. The zero
// value starts the agent at the first call. The machine's Close must call Hangup first.
type Link struct {
	// Start starts the agent. If it is nil, a command on the machine starts the agent.
	Start func(ctx context.Context) (*Session, error)
	// Program is the path of the agent's program if the machine already has it. If Program is "", iotax copies the
	// agent if the machine lacks it.
	Program string

	// Log receives progress messages for the user; nil discards them. Set Log before the first call.
	Log func(format string, args ...any)

	// Patience limits how long the agent may take to start; 0 means two minutes. While iotax copies the agent, each
	// write restarts the time.
	Patience time.Duration

	programs func() ([]program, error) // replaces carried if not nil

	mu      sync.Mutex
	now     *Session
	opening chan struct{} // closed when the attempt to open a session ends; nil if no attempt is under way
}

// LinkOf returns the link of m, or nil if m has no link.
func LinkOf(m iotax.Machine) *Link {
	link, _ := m.Caps().Agent.(*Link)
	return link
}

// Session returns the session with the agent on m. It starts the agent if no session is open.
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

// Hangup ends the session and everything that the agent runs. The next call starts a new session.
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
	_ = s.mux.Close() // waits for the receive loop to end
}

// Program returns the path of the agent's program on m.
func Program(ctx context.Context, m iotax.Machine) (path string, err error) {
	if iotax.IsLocal(m) {
		return os.Executable()
	}
	err = with(ctx, m, func(s *Session) error { path = s.Program; return nil })
	return path, err
}

// System returns the system of m, such as "linux/amd64".
func System(ctx context.Context, m iotax.Machine) (system string, err error) {
	if iotax.IsLocal(m) {
		return runtime.GOOS + "/" + runtime.GOARCH, nil
	}
	err = with(ctx, m, func(s *Session) error { system = s.System; return nil })
	return system, err
}

// bootstrapScript starts an agent. Its arguments are the programs that iotax can copy, as SYSTEM:SHA256:SIZE. SYSTEM is
// the output of uname -s and uname -m, joined with a slash. If none of four directories contains the program for this
// system, the script requests it on standard output and reads it from standard input. It writes the program to the
// first directory that belongs to this user, allows programs to run, and has enough space. It then removes other copies
// from that directory if no iotax has started them for a week.
const bootstrapScript = `
mask=$(umask)
umask 077
say() { echo "iotax bootstrap: $*"; }
die() { say "$@"; exit 1; }
run() {
	umask "$mask"
	export ` + sweepVariable + `=$$.$(date +%s)
	"$1" ` + Command + `
	c=$?
	[ $c -le 128 ] || "$1" agent sweep
	exit $c
}
has=$(uname -s)/$(uname -m)
hash=
for a; do case $a in "$has":*) a=${a#*:}; hash=${a%:*} size=${a#*:};; esac; done
[ -n "$hash" ] || die "none for $has"
id=$(id -u)
set -- "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/iotax" "/var/tmp/iotax-tools-$id" "${TMPDIR:-/tmp}/iotax-tools-$id" "/run/iotax-tools-$id"
for d; do
	if [ -O "$d" ] && [ ! -L "$d" ] && [ -x "$d/iotax-$hash" ]; then
		touch -c "$d/iotax-$hash" 2>/dev/null
		run "$d/iotax-$hash"
	fi
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
say "copy $hash"
head -c "$size" >"$t" 2>/dev/null || die "the disk of $d is full, or head -c fails"
[ $(($(wc -c <"$t"))) = "$size" ] || die "$(($(wc -c <"$t"))) bytes of $size came to $d"
sum=$(sha256sum "$t" 2>/dev/null || shasum -a 256 "$t" 2>/dev/null)
case $sum in "$hash "*|'') ;; *) die "the copy in $d has another SHA-256: $sum";; esac
chmod 700 "$t" && mv -f -- "$t" "$d/iotax-$hash" || die "$d cannot be written"
trap - EXIT
for f in "$d"/iotax-* "$d"/.iotax.*; do
	[ -f "$f" ] && [ -n "$(find "$f" -mtime +6 2>/dev/null)" ] && rm -f -- "$f"
done
run "$d/iotax-$hash"
`

// A cannot is the reason why a machine cannot run an agent. It matches errors.ErrUnsupported.
type cannot string

func (c cannot) Error() string        { return string(c) }
func (c cannot) Is(target error) bool { return target == errors.ErrUnsupported }

// answerTime is the default of Link.Patience. A pod on an emulated node once needed more than a minute to check and
// start the copied program.
const answerTime = 2 * time.Minute

// progress restarts the silence timer at each write.
type progress struct {
	silence *time.Timer
	limit   time.Duration
}

func (p progress) Write(b []byte) (int, error) {
	if p.silence.Stop() { // otherwise the timer has already fired
		p.silence.Reset(p.limit)
	}
	return len(b), nil
}

// bootstrap starts the agent on m with a command. If the agent is missing there, bootstrap copies it first.
func (l *Link) bootstrap(ctx context.Context, m iotax.Machine) (*Session, error) {
	const op = "start the agent on"
	hint := "iotax runs a part of itself there: it needs a directory that may run programs (XDG_CACHE_HOME there, or /var/tmp)"
	fail := func(err error) (*Session, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &iotax.Error{Op: op, On: m.String(), Err: err, Hint: hint}
	}
	var programs []program
	args := append([]string{l.Program}, strings.Fields(Command)...)
	if l.Program == "" {
		list := l.programs
		if list == nil {
			list = carried
		}
		var err error
		if programs, err = list(); err != nil {
			return fail(err)
		}
		args = []string{"sh", "-c", bootstrapScript, "sh"}
		for _, p := range programs {
			if uname := unames[p.system]; uname != "" {
				args = append(args, fmt.Sprintf("%s:%s:%d", uname, p.hash, p.size))
			}
		}
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
	stop := context.AfterFunc(ctx, kill) // applies only until the session is open
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
		var failed *iotax.Error // an error from the machine
		if silent && ctx.Err() == nil {
			err = fmt.Errorf("it did not answer within %v", limit)
		} else if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.As(died, &failed) ||
			errors.As(died, &exit) && exit.Code != 1 && exit.Signal == "" {
			if err = died; !errors.As(died, &exit) {
				hint = "" // usually the machine failed, not the agent
			}
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
			s.end = func(ctx context.Context) {
				s.sendEnd(ctx)
				end(ctx)
			}
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
		message, ours := strings.CutPrefix(line.Line, "iotax bootstrap: ")
		if !ours {
			return abandon(err)
		}
		if system, none := strings.CutPrefix(message, "none for "); none {
			var why cannot
			why, hint = lacking(system, programs)
			return abandon(why)
		}
		hash, wants := strings.CutPrefix(message, "copy ")
		i := slices.IndexFunc(programs, func(p program) bool { return p.hash == hash })
		if !wants || i < 0 {
			select { // let the script remove its partial copy
			case <-ended:
			case <-ctx.Done():
			case <-time.After(endTime):
			}
			return abandon(cannot(message))
		}
		p := programs[i]
		programs = nil // the machine may request only one copy
		if l.Log != nil {
			l.Log("copying the agent to %s (%d MiB, once)", m, p.size>>20)
		}
		f, err := p.open()
		if err != nil {
			return abandon(err)
		}
		copying.Go(func() { // the script may exit before it has read everything
			defer f.Close()
			n, err := io.Copy(in, io.TeeReader(io.LimitReader(f, p.size), progress{silence, limit}))
			if err == nil && n < p.size {
				err = fmt.Errorf("the agent for %s has %d bytes in place of %d", p.system, n, p.size)
			}
			if err != nil {
				_ = in.CloseWithError(err)
			}
		})
	}
}
