// Package inside runs commands in a container on a machine that is itself reached by commands: in a virtual
// machine, on a host over SSH, here. The container is started and entered by the command line that Docker, Podman
// and nerdctl share, or it is made of namespaces alone.
package inside

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/agent"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/internal/made"
	"iotax/internal/machine/internal/proc"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
)

// namespaces is the engine that is none: the machine's own files, or a directory of it, as the root of a process tree
// with mounts, processes, IPC and host name of its own, made by unshare(1). It has no control group.
const namespaces = "namespaces"

// Spec is that of kind container.
type Spec struct {
	Engine string   `yaml:"engine" doc:"command that starts the container there, as in nerdctl, podman, docker or 'sudo nerdctl'; namespaces needs no engine and uses the machine's own files"`
	Image  string   `yaml:"image" doc:"image with a POSIX shell; for namespaces a directory of the machine, or empty for its root"`
	Args   []string `yaml:"args" doc:"arguments to add to the engine's run command, as in [--security-opt, seccomp=unconfined]"`
}

// Kind is kind container.
var Kind = kind.Of("container", "a container on another machine, around the place of each target, made there by nerdctl, Podman or Docker, or from namespaces",
	Spec{Engine: namespaces}, open).WithoutDevices()

func (s *Spec) Traits() plan.Traits { return plan.Traits{Encloses: true} }

// SetScalar fills the spec from `container: podman debian:12`.
func (s *Spec) SetScalar(v string) error {
	words := strings.Fields(v)
	if n := len(words); n > 1 {
		s.Image, words = words[n-1], words[:n-1]
	}
	s.Engine = strings.Join(words, " ")
	return nil
}

// Validate finds what no container can be made of.
func (s *Spec) Validate() error {
	switch {
	case len(s.words()) == 0:
		return &plan.FieldError{Field: "engine", Msg: "nothing starts the container", Hint: "engine: podman, or namespaces"}
	case s.Engine == namespaces && len(s.Args) > 0:
		return &plan.FieldError{Field: "args", Msg: "there is no engine that takes them, nor a control group that would limit anything", Hint: "leave them out, or name an engine"}
	case s.Engine == namespaces && s.Image != "" && !strings.HasPrefix(s.Image, "/"):
		return &plan.FieldError{Field: "image", Msg: fmt.Sprintf("%q is not a directory", s.Image), Hint: "write its path in full, or name an engine"}
	case s.Engine != namespaces && (s.Image == "" || strings.HasPrefix(s.Image, "-")):
		return &plan.FieldError{Field: "image", Msg: fmt.Sprintf("%q is not an image", s.Image), Hint: "image: one with a POSIX shell, as in debian:12"}
	}
	return nil
}

// named reports whether an engine starts the container.
func (s *Spec) named() bool { return s.Engine != namespaces }

// words returns the command line of the engine, with more appended.
func (s *Spec) words(more ...string) []string { return append(strings.Fields(s.Engine), more...) }

// sharesNetwork reports whether the container has the network of its machine. The namespaces that are made without an
// engine are others than the network's.
func (s *Spec) sharesNetwork() bool {
	if !s.named() {
		return true
	}
	for i, a := range s.Args {
		for _, flag := range []string{"--network", "--net"} {
			if a == flag+"=host" || a == flag && i+1 < len(s.Args) && s.Args[i+1] == "host" {
				return true
			}
		}
	}
	return false
}

const (
	startTime = 10 * time.Minute // an image may have to be fetched
	endTime   = 10 * time.Second
)

// A container is the machine in which the work is done.
type container struct {
	*remote.Machine
	on      iotax.Machine
	network bool     // it has that of its machine
	prefix  []string // before the words of a command
	facts   map[string]string
	remove  []string // what removes it when its end does not

	hold  *io.PipeWriter // its standard input: it lives until that ends
	done  chan struct{}  // closed when it has ended
	end   error          // why it did
	said  *proc.Tail
	leave context.CancelFunc
}

// Caps are those of its machine but for its boot, its files and, in most containers, its network.
func (c *container) Caps() iotax.MachineCaps {
	caps, own := c.on.Caps(), c.Machine.Caps()
	switch {
	case !c.network:
		caps.HostAddress, caps.Address, caps.LinkRate, caps.Forward = "", "", 0, nil
	case caps.Local && caps.Forward == nil: // this host reaches its own ports
		caps.Forward = func(_ context.Context, port int) (string, error) {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
		}
	}
	if c.remove != nil { // an engine made its control group, which may be outside of the machine's
		caps.DeviceBytes = nil
	}
	caps.Local, caps.Outside, caps.Alone, caps.Agent, caps.Facts = false, c.on, true, own.Agent, c.facts
	caps.Reconnected = func() []string {
		all := own.Reconnected()
		if outer := c.on.Caps().Reconnected; outer != nil {
			all = append(outer(), all...)
		}
		return all
	}
	// The place is removed from outside. Without an engine, the root is that of the machine or a directory there.
	caps.Perishes = c.remove != nil
	caps.Started, caps.Boot, caps.Restart, caps.BootFiles, caps.RunOnConsole = time.Time{}, nil, nil, nil, nil
	caps.Home, caps.HostPath = "", nil
	return caps
}

// open starts a container on o.On in which o.Place has the path that it has there. It ends with its standard input, which is
// held open from here: also when this program is killed nothing of it stays.
func open(ctx context.Context, s *Spec, o kind.Options) (_ iotax.Machine, err error) {
	const op = "start container"
	m, p := o.On, o.Place
	if m == nil {
		return nil, &iotax.Error{Op: op, On: o.Name, Err: errors.New("it is on no machine"), Hint: "on: the machine that it is started on"}
	}
	on := "on " + m.String()
	if p.Kind != iotax.PlaceDir && p.Kind != iotax.PlaceDevice || strings.ContainsAny(p.Path, ":,\n") {
		return nil, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("a container cannot be given the %s %s", p.Kind, p.Path), Hint: "use a target with a directory or a block device"}
	}
	life, leave := context.WithCancel(context.WithoutCancel(ctx))
	in, hold := io.Pipe()
	c := &container{on: m, network: s.sharesNetwork(), hold: hold, done: make(chan struct{}), said: &proc.Tail{}, leave: leave,
		facts: map[string]string{"container.engine": strings.Join(s.words(), " ")}}
	args := c.namespaces(ctx, p, s)
	if s.named() {
		args = c.engine(p, s)
	}
	ready := newLine()
	go func() {
		defer close(c.done)
		c.end = m.Run(life, &iotax.Cmd{Args: args, Stdin: in, Stdout: ready, Stderr: c.said})
		in.CloseWithError(io.ErrClosedPipe)
	}()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop(context.WithoutCancel(ctx)))
		}
	}()
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-ready.whole:
	case <-c.done:
		return nil, &iotax.Error{Op: op, On: on, Err: c.why(), Hint: "try it there by hand: " + iotax.QuoteAll(args)}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-late.C:
		return nil, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("it was not ready within %v", startTime), Hint: "try it there by hand: " + iotax.QuoteAll(args)}
	}
	if s.named() {
		version, err := iotax.Output(ctx, m, s.words("--version")...)
		if err != nil {
			return nil, &iotax.Error{Op: "ask engine", On: on, Err: err}
		}
		c.facts["container.version"], c.facts["container.image"] = strings.TrimSpace(string(version)), s.Image
		if len(s.Args) > 0 {
			c.facts["container.args"] = iotax.QuoteAll(s.Args)
		}
	} else {
		c.enter(ready.text(), s)
	}
	var program string
	if !s.named() && s.Image == "" { // the machine's files are there, but for those of /tmp
		if program, err = agent.Program(ctx, m); err != nil {
			return nil, err
		}
		if strings.HasPrefix(program, "/tmp/") {
			program = ""
		}
		if strings.HasPrefix(program, "/proc/") { // the container has other processes
			file, err := iotax.Output(ctx, m, "realpath", program)
			if err != nil {
				return nil, &iotax.Error{Op: "find the agent's program", On: on, Err: err, Hint: "put realpath there (coreutils or busybox)"}
			}
			program = strings.TrimSpace(string(file))
		}
	}
	c.Machine = remote.New(&remote.Exec{Name: m.String() + ", container of " + o.Name, Run: remote.Through(m, c.prefix, c.ended),
		Hint: made.NoShell, Remove: c.stop}, program)
	if err := c.Begin(ctx, nil); err != nil {
		return nil, err
	}
	return c, nil
}

// wait is what the first process of the container does.
const wait = `echo ready; read -r iotax_x`

// engine is the command line that starts a container, and sets how it is entered.
func (c *container) engine(p iotax.Place, s *Spec) []string {
	raw := make([]byte, 4)
	rand.Read(raw) // never fails
	name := "iotax-" + hex.EncodeToString(raw)
	c.prefix = s.words("exec", "-i", name)
	c.remove = s.words("rm", "-f", name)
	args := s.words("run", "--rm", "-i", "--name", name, "--entrypoint", "sh")
	if !slices.ContainsFunc(s.Args, func(a string) bool { return strings.HasPrefix(a, "--net") }) {
		args = append(args, "--network", "none")
	}
	if p.Kind == iotax.PlaceDevice {
		args = append(args, "--device", p.Path)
	} else {
		args = append(args, "-v", p.Path+":"+p.Path)
	}
	return append(append(args, s.Args...), s.Image, "-c", wait)
}

// unshare makes the namespaces and, in them, the root: $1 is the directory that becomes /, or "", $2 the place. It
// prints the number of its first process as the machine knows it, which its proc file system still tells.
const unshare = `
b=$(mktemp -d "${TMPDIR:-/tmp}/iotax-XXXXXX") || exit
trap 'rm -f -- "$b/.iotax"; rmdir -- "$b"' EXIT
[ -z "$IOTAX_RUN" ] || printf 'run=%s runner=%s\n' "$IOTAX_RUN" "$IOTAX_RUNNER" >"$b/.iotax" || exit # so that it is found when all of this was killed
unshare -m -p -i -u -f sh -c '
set -e
read -r pid _ </proc/self/stat
root=$1 from=$2 place=$3
mount --rbind "${from:-/}" "$root"
mkdir -p "$root/dev" "$root/proc" "$root/sys" "$root/tmp"
if [ -n "$from" ]; then mount --rbind /dev "$root/dev"; mount --rbind /sys "$root/sys"; fi
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
if [ -d "$place" ]; then mkdir -p "$root$place"; mount --rbind "$place" "$root$place"; fi
echo "$pid $root"
read -r x || true
' sh "$b" "$1" "$2"
`

// namespaces is the command line that makes a container without an engine.
func (c *container) namespaces(ctx context.Context, p iotax.Place, s *Spec) []string {
	if id, err := iotax.Output(ctx, c.on, "id", "-u"); err == nil && strings.TrimSpace(string(id)) != "0" {
		c.prefix = []string{"sudo", "-n"}
	}
	return slices.Concat(c.prefix, []string{"sh", "-c", unshare, "sh", s.Image, p.Path})
}

// enter sets how the namespaces are entered: told is the number of the first process, and the root.
func (c *container) enter(told string, s *Spec) {
	pid, root, _ := strings.Cut(strings.TrimSpace(told), " ")
	c.facts["container.root"] = s.Image
	if s.Image == "" {
		c.facts["container.root"] = "/ of the machine"
	}
	c.facts["container.limits"] = "none: namespaces have no control group"
	c.prefix = append(c.prefix, "nsenter", "-t", pid, "-m", "-p", "-i", "-u", "chroot", root)
}

// ended returns why the container ended, if it has: that shows a moment after the end of its programs.
func (c *container) ended(ctx context.Context) error {
	select {
	case <-c.done:
		return fmt.Errorf("the container ended: %w", c.why())
	case <-time.After(time.Second / 2):
	case <-ctx.Done():
	}
	return nil
}

// why says what ended the container.
func (c *container) why() error {
	if said := strings.TrimSpace(c.said.String()); said != "" {
		return errors.New(said)
	}
	if c.end != nil {
		return c.end
	}
	return errors.New("its first process is gone")
}

// stop ends the container, and with it everything in it.
func (c *container) stop(ctx context.Context) error {
	defer c.leave()
	c.hold.Close()
	select {
	case <-c.done:
		return nil
	case <-time.After(endTime):
	case <-ctx.Done():
	}
	// What does not go by itself is removed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	var err error
	if c.remove != nil {
		_, err = iotax.Output(ctx, c.on, c.remove...)
	}
	c.leave()
	select {
	case <-c.done:
	case <-ctx.Done():
		err = errors.Join(err, errors.New("its first process does not end"))
	}
	if err != nil {
		return &iotax.Error{Op: "remove container", On: "on " + c.on.String(), Err: err, Hint: "remove it by hand: " + iotax.QuoteAll(c.remove)}
	}
	return nil
}

// A line is a writer that knows when its first line is whole.
type line struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	whole chan struct{}
}

// lineLimit is how much is kept of the line, in bytes.
const lineLimit = 64 << 10

func newLine() *line { return &line{whole: make(chan struct{})} }

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := bytes.ContainsRune(l.buf.Bytes(), '\n')
	if !had {
		l.buf.Write(p[:min(len(p), max(0, lineLimit-l.buf.Len()))])
		if bytes.ContainsRune(l.buf.Bytes(), '\n') {
			close(l.whole)
		}
	}
	return len(p), nil
}

func (l *line) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
