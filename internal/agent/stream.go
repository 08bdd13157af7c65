package agent

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"math"
	"net"
	"time"

	"github.com/hashicorp/yamux"

	"iotax"
)

// A Taker is a function that also reads a stream from the caller's host.
type Taker[In, Out any] struct {
	name string
	do   func(context.Context, In, io.Reader) (Out, error)
}

// NewTaker declares a Taker, as New declares a Func.
func NewTaker[In, Out any](name string, do func(ctx context.Context, in In, from io.Reader) (Out, error)) Taker[In, Out] {
	declare(name, func(ctx context.Context, in In, from *source) (Out, error) { return do(ctx, in, from) })
	return Taker[In, Out]{name, do}
}

// On runs the function on m and sends it the data of `from`. After On returns, a goroutine may still be in a Read of
// `from`, so the caller must close a `from` that can block.
func (f Taker[In, Out]) On(ctx context.Context, m iotax.Machine, in In, from io.Reader) (out Out, err error) {
	if ctx.Err() == nil && iotax.IsLocal(m) {
		return f.do(context.WithValue(ctx, hereKey{}, here{m}), in, live{ctx, from})
	}
	err = with(ctx, m, func(s *Session) error { return result(ctx, s, m, f.name, in, from, &out) })
	return out, err
}

// live is a Reader that fails when its context is done.
type live struct {
	ctx context.Context
	io.Reader
}

func (l live) Read(p []byte) (int, error) {
	if l.ctx.Err() != nil {
		return 0, context.Cause(l.ctx)
	}
	return l.Reader.Read(p)
}

// A piece is a part of a Taker's stream. The last piece has no data.
type piece struct {
	Data []byte
	Err  string // why the stream ended early
}

// sendAll sends `from` in pieces. It returns the error from reading `from`. It ignores connection errors, because the
// call returns them.
func sendAll(enc *gob.Encoder, from io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && enc.Encode(piece{Data: buf[:n]}) != nil {
			return nil //nolint:nilerr // the call returns the error
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = enc.Encode(piece{})
			return nil
		case err != nil:
			_ = enc.Encode(piece{Err: err.Error()})
			return err
		}
	}
}

// A source reads the data of a call from the other end: the function's name, its input, and the pieces of a Taker's
// stream.
type source struct {
	*gob.Decoder
	limit  *io.LimitedReader
	stream *yamux.Stream
	cancel context.CancelCauseFunc // cancels the call
	rest   []byte
	err    error
}

func newSource(stream *yamux.Stream, cancel context.CancelCauseFunc) *source {
	limit := &io.LimitedReader{R: stream, N: maxMessage}
	return &source{Decoder: gob.NewDecoder(limit), limit: limit, stream: stream, cancel: cancel}
}

func (s *source) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		var next piece
		s.limit.N = maxMessage
		switch err := s.Decode(&next); {
		case err != nil:
			s.err = io.ErrUnexpectedEOF
			s.cancel(errClosed)
		case next.Err != "":
			s.err = errors.New(next.Err)
			s.finish()
		case len(next.Data) == 0:
			s.err = io.EOF
			s.finish()
		}
		s.rest = next.Data
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	if n > 0 {
		return n, nil
	}
	return 0, s.err
}

// finish starts a goroutine that cancels the call when the other end closes the stream. The other end must not send
// more data.
func (s *source) finish() {
	go func() {
		_, _ = io.Copy(io.Discard, s.stream)
		s.cancel(errClosed)
	}()
}

// A destination is the address to which Dial connects.
type destination struct{ Network, Address string }

// A Conn is a network connection from a machine. CloseWrite closes the sending direction; Close closes both directions.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Dial connects from m to an address. network is "tcp" or "unix". The connection ends with the session of m.
func Dial(ctx context.Context, m iotax.Machine, network, address string) (c Conn, err error) {
	if ctx.Err() == nil && iotax.IsLocal(m) {
		return dial(ctx, destination{network, address})
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	link, end := LinkOf(m), func() {}
	if link == nil { // without a link, the session lasts for this connection only
		link = new(Link)
		end = func() { link.Hangup(context.WithoutCancel(ctx)) }
	}
	s, err := link.Session(ctx, m)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (Conn, error) {
		end()
		return nil, &iotax.Error{Op: "connect to " + address, On: "from " + m.String(), Err: err}
	}
	stream, err := s.open(kindDial)
	if err != nil {
		return fail(s.gone(err))
	}
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	limit := &io.LimitedReader{R: stream, N: maxMessage} // of the reply
	from := bufio.NewReader(limit)                       // gob does not read past its values in a bufio.Reader
	var r reply
	err = Send(stream, destination{network, address})
	if err == nil {
		err = gob.NewDecoder(from).Decode(&r)
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
		err = s.gone(err)
	case len(r.Err) > 0:
		err = r.Err.error()
	default:
		limit.N = math.MaxInt64
		return &far{stream, from, end}, nil
	}
	stream.Close()
	return fail(err)
}

func dial(ctx context.Context, d destination) (Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, d.Network, d.Address)
	if err != nil {
		return nil, err
	}
	switch c := c.(type) {
	case *net.TCPConn:
		return c, nil
	case *net.UnixConn:
		return c, nil
	}
	return nil, errors.Join(errors.New("agent.Dial: "+d.Network+" connections cannot be closed in one direction"), c.Close())
}

// far is this end of a network connection that an agent opened on another machine.
type far struct {
	*yamux.Stream
	from *bufio.Reader
	end  func()
}

func (c *far) Close() error {
	defer c.end()
	_ = c.SetReadDeadline(time.Now())
	return c.Stream.Close()
}

func (c *far) Read(p []byte) (int, error) { return c.from.Read(p) }
func (c *far) CloseWrite() error          { return c.Stream.Close() }

// dialed serves a stream that Dial opened.
func dialed(ctx context.Context, stream *yamux.Stream) {
	from := bufio.NewReader(stream)
	var d destination
	if err := gob.NewDecoder(from).Decode(&d); err != nil {
		return
	}
	c, err := dial(ctx, d)
	if Send(stream, reply{toWire(err)}) != nil || err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	go func() {
		_, _ = io.Copy(c, from)
		_ = c.CloseWrite() // after an error, the copy below ends too
	}()
	_, _ = io.Copy(stream, c)
}
