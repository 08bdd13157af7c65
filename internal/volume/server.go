package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"iotax"
)

// A server is a program that runs on the serving machine for as long as a volume stands.
type server struct {
	name string // of the program: its label as a cost
	host iotax.Machine
	pid  int

	said  syncBuffer
	input *io.PipeWriter // its end ends the program
	kill  context.CancelFunc
	done  chan struct{}
	err   error // how it ended; valid once done is closed

	stopped bool // by stop, and not by itself
}

// keepServed writes its own process's id to $1 and runs the program that follows until that ends or
// standard input does, which this process holds: a server does not outlive whoever started it, however
// that came about.
const keepServed = `
export LC_ALL=C
case $PATH in *';'*) ;; *) PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin";; esac
exec 3<&0 </dev/null
at=$1; shift
"$@" 3<&- &
p=$!
echo "$p" >"$at" || { kill "$p"; exit 41; }
{ read -r _ <&3; kill "$p"; } 2>/dev/null & w=$!
wait "$p"; rc=$?
kill "$w" 2>/dev/null
exit $rc
`

// startServer starts args on host and returns once its process id, kept in the file at, is known.
func startServer(ctx context.Context, host iotax.Machine, at string, args ...string) (*server, error) {
	r, w := io.Pipe()
	s := &server{input: w}
	c := iotax.Command(append([]string{"sh", "-c", keepServed, "sh", at}, args...)...)
	c.Stdin, c.Stdout, c.Stderr = r, &s.said, &s.said
	return s, s.start(ctx, host, at, args[0], c)
}

// start runs c, which writes its process id to the file at.
func (s *server) start(ctx context.Context, host iotax.Machine, at, name string, c *iotax.Cmd) error {
	s.name, s.host, s.done = name[strings.LastIndexByte(name, '/')+1:], host, make(chan struct{})
	run, kill := context.WithCancel(context.WithoutCancel(ctx))
	s.kill = kill
	go func() {
		s.err = host.Run(run, c)
		close(s.done)
	}()
	for {
		f, err := on(ctx, quick, readFile.On, host, at)
		if pid, perr := strconv.Atoi(strings.TrimSpace(f.Text)); err == nil && perr == nil {
			s.pid = pid
			return nil
		}
		select {
		case <-s.done:
			return s.ended()
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), s.stop(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// alive reports whether the program still runs.
func (s *server) alive() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// ended says how a program ended that should have gone on.
func (s *server) ended() error {
	err := s.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	var exit *iotax.ExitError
	if text := s.said.tail(); text != "" && !(errors.As(err, &exit) && exit.Stderr != "") {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return fmt.Errorf("%s ended: %w", s.name, err)
}

// stop ends the program and waits until it is gone.
func (s *server) stop(ctx context.Context) error {
	defer s.kill()
	s.stopped = s.stopped || s.alive()
	if s.input != nil {
		s.input.Close()
	} else {
		s.kill()
	}
	for _, wait := range []time.Duration{5 * time.Second, 20 * time.Second} {
		select {
		case <-s.done:
			return nil
		case <-ctx.Done():
		case <-time.After(wait):
		}
		s.kill() // the machine's own way: with its children, and with force in the end
	}
	select {
	case <-s.done:
		return nil
	default:
		return &iotax.Error{Op: "end " + s.name, On: fmt.Sprintf("process %d on %v", s.pid, s.host), Err: errors.New("it does not go"), Hint: "end it by hand"}
	}
}

func (s *server) processes() map[string][]int {
	if s == nil || s.pid == 0 || !iotax.IsLocal(s.host) || !s.alive() {
		return nil
	}
	return map[string][]int{s.name: {s.pid}}
}

// syncBuffer keeps the end of what a program says.
type syncBuffer struct {
	mu  sync.Mutex
	buf []byte
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if len(b.buf) > 16<<10 {
		b.buf = append([]byte(nil), b.buf[len(b.buf)-8<<10:]...)
	}
	return len(p), nil
}

// tail is its last lines.
func (b *syncBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(b.buf), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-5):], []byte("\n")))
}
