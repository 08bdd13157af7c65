package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	"iotax"
)

// errAsked is the cause of an end that the other side asked for.
var errAsked = errors.New("its end was asked for")

// Serve runs one command of the other end on m. When the other end goes without a word, the command is ended.
func Serve(ctx context.Context, m iotax.Machine, in io.Reader, out io.Writer) error {
	to := &sender{w: out}
	if err := to.say(frameReady, hello{version, runtime.GOOS, runtime.GOARCH}); err != nil {
		return err
	}
	kind, rest, err := receive(in)
	if err != nil {
		return fmt.Errorf("read the command: %w", err)
	}
	var o order
	if err := json.Unmarshal(rest, &o); err != nil || kind != frameCommand {
		return fmt.Errorf("read the command: a frame %q: %w", kind, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	input := newBuffer()
	go func() {
		for {
			kind, rest, err := receive(in)
			switch {
			case err != nil:
				input.close()
				cancel(fmt.Errorf("the other end is gone: %w", err))
				return
			case kind == frameEnd:
				cancel(errAsked)
			case kind == frameInput && len(rest) == 0:
				input.close()
			case kind == frameInput:
				input.put(rest)
			}
		}
	}()
	taken := func(n int) {
		// Who is gone needs no credit; the reader above ends the command.
		_ = to.send(frameTaken, binary.BigEndian.AppendUint32(nil, uint32(n)))
	}
	err = m.Run(ctx, &iotax.Cmd{Args: wordsOf(o.Args), Env: wordsOf(o.Env), Dir: string(o.Dir), Stdin: &credited{input, taken}, Stdout: stream{to, frameOutput}, Stderr: stream{to, frameError}})
	var r result
	var e *iotax.Error
	switch {
	case err == nil:
	case errors.Is(err, errAsked):
		r.Ended = true
	case errors.As(err, &r.Exit):
	case errors.As(err, &e):
		r.Op, r.On, r.Error, r.Mend = e.Op, strings.TrimSuffix(e.On, m.String()), fmt.Sprint(e.Err), e.Mend
	default:
		r.Error = err.Error()
	}
	return to.say(frameResult, r)
}

// A buffer is a pipe whose writer never waits: what it holds is bounded by the window.
type buffer struct {
	mu     sync.Mutex
	more   *sync.Cond
	data   []byte
	closed bool
}

func newBuffer() *buffer {
	b := &buffer{}
	b.more = sync.NewCond(&b.mu)
	return b
}

func (b *buffer) put(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p...)
	b.more.Broadcast()
}

func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.more.Broadcast()
}

func (b *buffer) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 && !b.closed {
		b.more.Wait()
	}
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

// credited tells how much was read.
type credited struct {
	io.Reader
	taken func(int)
}

func (c *credited) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if n > 0 {
		c.taken(n)
	}
	return n, err
}
