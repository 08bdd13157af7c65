package agent

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	"iotax"
)

// errClosed is the cancellation cause of a call that the other end closed.
var errClosed = errors.New("the other end closed the call")

// endTime limits how long an agent may take to end its calls and exit after its session has ended. Commands are killed
// earlier: see Grace and Patience in package internal/machine/internal/proc.
const endTime = 15 * time.Second

// host is the machine passed to Main. It is nil if the program's main does not call Main. Such a program cannot be an
// agent.
var host iotax.Machine

type (
	hereKey struct{}
	here    struct{ iotax.Machine }
)

// Here returns the machine on which a function runs, so that the function can run commands. On another machine, the
// commands do not inherit the label of the caller's run: see leftover.Environ. Here returns nil if ctx is not the
// context of a function.
func Here(ctx context.Context) iotax.Machine {
	h, _ := ctx.Value(hereKey{}).(here)
	return h.Machine
}

// Main serves calls and exits if the program was started as an agent; otherwise it returns. Commands run on m, which
// must be this host. Every program that calls functions on other machines must call Main first.
func Main(m iotax.Machine) {
	host = m
	if len(os.Args) < 3 || os.Args[1] != "agent" {
		return
	}
	status, err := 0, error(nil)
	switch args := os.Args[3:]; os.Args[2] {
	case "session":
		if len(args) == 1 && args[0] == bySudo {
			callerID = os.Getenv("SUDO_UID")
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		context.AfterFunc(ctx, stop) // a second signal kills at once
		err = Serve(ctx, m, os.Stdin, os.Stdout)
	case "sweep":
		err = sweep(context.Background(), os.Getenv(sweepVariable))
	case "enclose", "enclosed":
		if len(args) != 2 {
			return
		}
		do := enclose
		if os.Args[2] == "enclosed" {
			do = enclosed
		}
		status, err = do(args[0], args[1])
	case "confine":
		if len(args) < 2 {
			return
		}
		err = confine(args[0], args[1:])
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "iotax:", err)
		status = 1
	}
	os.Exit(status)
}

// EnclosedProgram is the path of the agent's program in the container of Enclose. The container's first process runs
// this program, so no copy is needed.
const EnclosedProgram = "/proc/1/exe"

// Enclose returns the command that starts a session in a container on Linux: in new mount, PID, IPC and UTS namespaces,
// with its own /tmp. root is the directory that becomes /, or "" for the current root. place is a directory that stays
// visible in the container, even below /tmp. program is the path of the agent. The command needs root privileges.
func Enclose(program, root, place string) []string {
	return []string{program, "agent", "enclose", root, place}
}

// InProcess returns a session with an agent in this process. Tests use it for fake machines. The agent runs commands on
// this host.
func InProcess(ctx context.Context) (*Session, error) {
	here, there := net.Pipe()
	go func() {
		_ = Serve(context.WithoutCancel(ctx), host, there, there)
		there.Close()
	}()
	return Meet(here, here, here.Close)
}

// Serve answers the calls of the other end, and runs its commands on m. It returns when `in` ends, ctx is done, the
// other end asks it to end, or heartbeats stop. Before it returns, it cancels the running calls and waits at most
// endTime for them.
func Serve(ctx context.Context, m iotax.Machine, in io.Reader, out io.Writer) error {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	if _, err := fmt.Fprintf(out, "%s%s/%s %s\n", greeting, runtime.GOOS, runtime.GOARCH, path); err != nil {
		return err
	}
	mux, err := yamux.Server(duplex{in, out, func() error { return nil }}, config())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{m: m, end: cancel, data: map[uint32]chan *yamux.Stream{}}
	for {
		stream, err := mux.AcceptStreamWithContext(ctx)
		if err != nil {
			cancel(fmt.Errorf("the other end is gone: %w", err))
			all := make(chan struct{})
			go func() { s.calls.Wait(); close(all) }()
			select {
			case <-all:
			case <-time.After(endTime):
			}
			return nil // do not close mux, because that would wait for more input; usually the program exits now
		}
		s.calls.Go(func() { s.stream(ctx, stream) })
	}
}

type server struct {
	m     iotax.Machine
	end   context.CancelCauseFunc // ends the session
	calls sync.WaitGroup
	mu    sync.Mutex
	data  map[uint32]chan *yamux.Stream // by stream id; a command and its data streams may arrive in any order
}

// stream serves a new stream from the other end.
func (s *server) stream(ctx context.Context, stream *yamux.Stream) {
	var kind [1]byte
	_, err := io.ReadFull(stream, kind[:])
	switch {
	case err != nil:
		stream.Close()
	case kind[0] == kindData:
		s.slot(stream.StreamID()) <- stream // does not block, because the channel is buffered
	case kind[0] == kindAlive:
		go s.alive(stream) // ends with the session, which does not wait for it
	case kind[0] == kindEnd:
		stream.Close()
		s.end(errClosed)
	case kind[0] == kindCommand:
		defer stream.Close()
		s.command(ctx, stream)
	case kind[0] == kindFunc:
		defer stream.Close()
		call(context.WithValue(ctx, hereKey{}, here{s.m}), stream)
	case kind[0] == kindDial:
		defer stream.Close()
		dialed(ctx, stream)
	}
}

// closing returns a context that is canceled when the other end closes stream. The other end must not send anything
// more on it.
func closing(ctx context.Context, stream *yamux.Stream) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stream)
		cancel(errClosed)
	}()
	return ctx, cancel
}

// call runs the function that the stream requests.
func call(ctx context.Context, stream *yamux.Stream) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in, out := newSource(stream, cancel), gob.NewEncoder(stream)
	var name string
	if err := in.Decode(&name); err != nil {
		return // the other end is gone
	}
	f, ok := functions[name]
	if !ok {
		_ = out.Encode(reply{toWire(fmt.Errorf("this agent has no function %q", name))})
		return
	}
	run, err := f(in)
	if err != nil {
		_ = out.Encode(reply{toWire(fmt.Errorf("read what the function is called with: %w", err))})
		return
	}
	result, err := run(ctx)
	if out.Encode(reply{toWire(err)}) == nil && err == nil {
		_ = encode(out, result)
	}
}

// command runs the command that the stream requests.
func (s *server) command(ctx context.Context, stream *yamux.Stream) {
	var o Order
	if err := Receive(stream, &o); err != nil {
		return // the other end is gone, which ends ctx
	}
	var data, errs *yamux.Stream
	for _, p := range []struct {
		id uint32
		to **yamux.Stream
	}{{o.Data, &data}, {o.Err, &errs}} {
		select {
		case *p.to = <-s.slot(p.id):
			defer (*p.to).Close()
		case <-ctx.Done():
			return
		}
	}
	ctx, cancel := closing(ctx, stream)
	defer cancel(nil)
	err := s.m.Run(ctx, &iotax.Cmd{Args: o.Args, Env: o.Env, Dir: o.Dir, Stdin: data, Stdout: data, Stderr: errs})
	data.Close()
	errs.Close()
	_ = Send(stream, resultOf(err, s.m))
}

// slot returns the channel that passes the data stream `id` to the command that uses it.
func (s *server) slot(id uint32) chan *yamux.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.data[id]
	if c == nil {
		c = make(chan *yamux.Stream, 1)
		s.data[id] = c
	} else {
		delete(s.data, id) // the stream and its command have both arrived
	}
	return c
}
