// Package proc contains the parts of running a command that all machines share. It checks the command, keeps the end of
// its standard error, and passes its streams so that an error of the caller's reader or writer ends the command.
package proc

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"iotax"
	"iotax/internal/secret"
)

const (
	// Grace is the time between SIGTERM and SIGKILL. fio needs a moment to stop its jobs and write its results.
	Grace = 2 * time.Second

	// Patience is the time that a killed process gets to exit. A process that waits in the kernel may take longer.
	Patience = 10 * time.Second

	// TagName is the environment variable that marks the processes of one command. The process group does not include
	// them all, because each fio job starts its own session.
	TagName = "IOTAX_COMMAND"

	// TailSize is the number of bytes of standard error that an ExitError keeps.
	TailSize = 4 << 10
)

// NewTag returns a fresh random value for TagName.
func NewTag() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Check returns an error if no machine could run c. `on` is the machine's name for the error.
func Check(c *iotax.Cmd, on string) error {
	bad := func(format string, args ...any) error {
		return &iotax.Error{Op: "run a command", On: "on " + on, Err: fmt.Errorf(format, args...)}
	}
	if c == nil || len(c.Args) == 0 {
		return bad("there is no command")
	}
	if c.Args[0] == "" {
		return bad("the program has an empty name")
	}
	for i, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			return bad("argument %d holds a NUL byte: %q", i, a)
		}
	}
	for _, e := range c.Env {
		name, _, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "":
			// The value may be a secret, so only the name is shown.
			return bad("environment entry %q is not NAME=value", name)
		case strings.ContainsRune(e, 0):
			return bad("environment variable %q holds a NUL byte", strings.ReplaceAll(name, "\x00", ""))
		}
	}
	if strings.ContainsRune(c.Dir, 0) {
		return bad("the directory %q holds a NUL byte", c.Dir)
	}
	return nil
}

// Name returns the quoted name of c's program for errors.
func Name(c *iotax.Cmd) string { return iotax.Quote(c.Args[0]) }

// A Tail is a writer that keeps the last TailSize bytes.
type Tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n > TailSize {
		p, t.cut = p[n-TailSize:], true
	}
	if over := len(t.buf) + len(p) - TailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
		t.cut = true
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// String returns the kept bytes without secrets. If earlier bytes were dropped, the text begins with a complete
// character.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	if t.cut {
		for i := 0; i < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
			b = b[1:]
		}
	}
	return secret.Text(string(b))
}

// A Gate passes writes to a writer of the caller until Shut, or until a write fails. A process that outlives its
// command must not change a buffer that the caller already reads.
type Gate struct {
	mu   *sync.Mutex
	w    io.Writer
	shut bool
	fail func(error)
}

func (g *Gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || g.w == nil {
		return len(p), nil
	}
	n, err := g.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		g.shut = true
		g.fail(err)
	}
	return n, err
}

// Shut makes later writes return without effect. It waits at most one second for a Write in progress.
func (g *Gate) Shut() {
	done := make(chan struct{})
	go func() {
		g.mu.Lock()
		g.shut = true
		g.mu.Unlock()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// A StreamError reports that the caller's reader or writer failed while a command ran.
type StreamError struct {
	Stream string // "standard input", "standard output", "standard error"
	Err    error
}

func (e *StreamError) Error() string { return e.Stream + ": " + e.Err.Error() }
func (e *StreamError) Unwrap() error { return e.Err }

// Gates returns the gates in front of c's two outputs. If both are the same writer, only one gate calls it at a time,
// as with os/exec. `fail` gets a *StreamError.
func Gates(c *iotax.Cmd, fail func(error)) (out, err *Gate) {
	gate := func(w io.Writer, name string, mu *sync.Mutex) *Gate {
		return &Gate{mu: mu, w: w, fail: func(e error) { fail(&StreamError{name, e}) }}
	}
	mu := new(sync.Mutex)
	out = gate(c.Stdout, "standard output", mu)
	if !same(c.Stdout, c.Stderr) {
		mu = new(sync.Mutex)
	}
	return out, gate(c.Stderr, "standard error", mu)
}

func same(a, b io.Writer) bool {
	if a == nil || b == nil {
		return false
	}
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Comparable() && a == b
}

// Feed copies r to w and closes w. If r fails, Feed first calls `fail`, which must end the command before it returns:
// otherwise the command would treat the truncated input as complete. Feed ignores errors of w, because a command need
// not read all of its input.
func Feed(w io.WriteCloser, r io.Reader, fail func(error)) {
	if r != nil {
		src := &source{r: r}
		_, _ = io.Copy(w, src) // src records the reader's error
		if src.err != nil {
			fail(&StreamError{"standard input", src.err})
		}
	}
	w.Close()
}

// A source records an error of the reader, which io.Copy does not distinguish from an error of the writer. It hides the
// reader's WriterTo for the same reason.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Reason returns the text of err without the operation and the path that package os adds.
func Reason(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}

// Survivors returns the error for a command that could not be ended. `who` describes its remaining processes, and
// `cause` is the reason for ending it.
func Survivors(c *iotax.Cmd, on, who string, cause error) error {
	return &iotax.Error{
		Op: "end " + Name(c), On: "on " + on,
		Err:  fmt.Errorf("still alive %v after it was killed: %s (wanted because: %v)", Patience, who, cause),
		Hint: "a process that cannot be killed waits for a device or a server that does not answer; look at its state with ps",
	}
}
