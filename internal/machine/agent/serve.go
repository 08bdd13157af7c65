package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/hashicorp/yamux"

	"iotax"
)

// errClosed is the cause of the end of a command whose call the other end closed.
var errClosed = errors.New("the other end closed the call")

// Serve runs the commands of the other end on m, until in ends. It kills what still runs then.
func Serve(ctx context.Context, m iotax.Machine, in io.Reader, out io.Writer) error {
	if _, err := fmt.Fprintf(out, "%s%s/%s\n", greeting, runtime.GOOS, runtime.GOARCH); err != nil {
		return err
	}
	mux, err := yamux.Server(duplex{in, out, func() error { return nil }}, config())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{m: m, data: map[uint32]chan *yamux.Stream{}}
	var open sync.WaitGroup
	for {
		stream, err := mux.AcceptStreamWithContext(ctx)
		if err != nil {
			cancel(fmt.Errorf("the other end is gone: %w", err))
			open.Wait()
			return nil // the program ends now; to close mux would wait for more input
		}
		open.Go(func() { s.stream(ctx, stream) })
	}
}

type server struct {
	m    iotax.Machine
	mu   sync.Mutex
	data map[uint32]chan *yamux.Stream // by id; a call and its stream arrive in either order
}

// stream serves a new stream of the other end.
func (s *server) stream(ctx context.Context, stream *yamux.Stream) {
	var kind [1]byte
	if _, err := io.ReadFull(stream, kind[:]); err != nil {
		stream.Close()
		return
	}
	if kind[0] == kindData {
		s.slot(stream.StreamID()) <- stream // buffered
		return
	}
	defer stream.Close()
	var o order
	if err := receive(stream, &o); err != nil {
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = stream.Read(kind[:]) // nothing is sent: its end is what counts
		cancel(errClosed)
	}()
	err := s.m.Run(ctx, &iotax.Cmd{Args: o.Args, Env: o.Env, Dir: o.Dir, Stdin: data, Stdout: data, Stderr: errs})
	data.Close()
	errs.Close()
	_ = send(stream, resultOf(err, s.m))
}

// slot is where the data stream of an id is left, and taken.
func (s *server) slot(id uint32) chan *yamux.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.data[id]
	if c == nil {
		c = make(chan *yamux.Stream, 1)
		s.data[id] = c
	} else {
		delete(s.data, id) // both have come
	}
	return c
}
