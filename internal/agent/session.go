package agent

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"iotax"
)

// Command contains the command-line arguments that start an agent session, without the program's name.
const Command = "agent session"

// greeting starts the agent's first line. The agent's system and path follow. The number changes with every
// incompatible change of the protocol.
const greeting = "iotax agent 5 "

// The first byte of a stream is its kind.
const (
	kindCommand = 'c'
	kindData    = 'd'
	kindFunc    = 'f'
	kindDial    = 'n'
	kindEnd     = 'e' // asks the agent to end, for transports that do not forward the end of standard input
)

// An Order requests a command. Args, Env and Dir are those of iotax.Cmd.
type Order struct {
	Args, Env []string
	Dir       string
	Data, Err uint32 // ids of the streams for standard input and output, and for standard error
}

// A Result answers an Order. Its zero value means that the command succeeded.
type Result struct {
	Exit              *iotax.ExitError
	Canceled          bool   // the other end closed the call
	Op, On, Msg, Hint string // describe an error from the machine
}

// resultOf returns the Result for err, the error of m.Run.
func resultOf(err error, m iotax.Machine) (r Result) {
	var e *iotax.Error
	switch {
	case err == nil:
	case errors.Is(err, errClosed):
		r.Canceled = true
	case errors.As(err, &r.Exit):
	case errors.As(err, &e):
		r.Op, r.On, r.Msg, r.Hint = e.Op, strings.TrimSuffix(e.On, m.String()), fmt.Sprint(e.Err), e.Hint
	default:
		r.Msg = err.Error()
	}
	return r
}

// config returns the yamux configuration of both ends. Keep-alive is off, so that an agent uses no CPU while a trial
// runs. Machines that need keep-alive messages call Session.KeepAlive. A stream may stay half closed for as long as its
// command runs.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive, c.StreamCloseTimeout, c.LogOutput = false, 0, io.Discard
	// A caller that reads the output slowly must not end the session.
	c.ConnectionWriteTimeout = time.Hour
	c.MaxStreamWindowSize = 1 << 20 // keeps file copies fast over links with a round-trip time of 50 ms
	return c
}

// A duplex is the byte stream of a session.
type duplex struct {
	io.Reader
	io.Writer
	close func() error
}

func (d duplex) Close() error { return d.close() }

// Send encodes v with gob and writes it to the stream.
func Send(s *yamux.Stream, v any) error { return gob.NewEncoder(s).Encode(v) }

// maxMessage is the maximum size, in bytes, of a message that either end reads.
const maxMessage = 64 << 20

// Receive decodes a value that Send wrote.
func Receive(s *yamux.Stream, v any) error {
	return gob.NewDecoder(io.LimitReader(s, maxMessage)).Decode(v)
}

// A Session is this end of the connection to an agent.
type Session struct {
	System  string // "linux/amd64"
	Program string // path of the agent's program on the machine

	mux  *yamux.Session
	end  func(ctx context.Context)       // ends the program; nil if closing the connection ends it
	died func(ctx context.Context) error // waits until the program ends, and returns why; may be nil

	silent atomic.Bool // Watch has ended the session
}

// Refused is the error for a program that is not an agent of this version. Line is the first line that the program
// printed.
type Refused struct{ Line string }

func (r *Refused) Error() string { return "no iotax of this version answers: " + r.Line }

// Meet reads the agent's first line from `in` and returns the session. The session calls `closes` when it ends. The
// error is a *Refused if the first line is not that of an agent of this version.
func Meet(in io.Reader, out io.Writer, closes func() error) (*Session, error) {
	from, ok := in.(*bufio.Reader)
	if !ok {
		from = bufio.NewReaderSize(in, 4<<10)
	}
	line, err := from.ReadSlice('\n')
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), greeting)
	if !ok {
		if len(line) > 0 {
			return nil, &Refused{strings.TrimSpace(string(line))}
		}
		return nil, err
	}
	s := &Session{}
	s.System, s.Program, _ = strings.Cut(rest, " ")
	s.mux, err = yamux.Client(duplex{from, out, closes}, config())
	return s, err
}

// Closed reports whether the connection has ended.
func (s *Session) Closed() bool { return s.mux.IsClosed() }

// open opens a stream and sends its kind.
func (s *Session) open(kind byte) (*yamux.Stream, error) {
	stream, err := s.mux.OpenStream()
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write([]byte{kind}); err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// sendEnd asks the agent to end. It waits at most one second, because the connection may be stuck.
func (s *Session) sendEnd(ctx context.Context) {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if stream, err := s.open(kindEnd); err == nil { // an error means that the session has ended
			stream.Close()
		}
	}()
	select {
	case <-sent:
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

// Streams opens the streams of a command: for the call, the data, and standard error. The caller closes the returned
// streams, even after an error.
func (s *Session) Streams() (all []*yamux.Stream, err error) {
	for _, kind := range []byte{kindCommand, kindData, kindData} {
		stream, err := s.open(kind)
		if err != nil {
			return all, err
		}
		all = append(all, stream)
	}
	return all, nil
}

// reasonTime limits how long a transport may take to find out why the agent ended, for example that its pod was
// deleted.
const reasonTime = 5 * time.Second

// gone returns the error of a lost session: the reason why the agent ended if it is known, otherwise err.
func (s *Session) gone(err error) error {
	if s.silent.Load() {
		return fmt.Errorf("no sign of life for %v", watchMisses*watchEvery)
	}
	if s.died != nil {
		ctx, cancel := context.WithTimeout(context.Background(), reasonTime)
		defer cancel()
		if why := s.died(ctx); why != nil {
			err = why
		}
	}
	return fmt.Errorf("the agent is gone: %w", err)
}
