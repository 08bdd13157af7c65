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

// Command is the argument vector of an agent, behind the name of the program.
const Command = "agent session"

// greeting is the start of the agent's first line; its system and its path follow. The number changes when the two ends
// no longer understand each other.
const greeting = "iotax agent 4 "

// The first byte of a stream is its kind.
const (
	kindCommand = 'c'
	kindData    = 'd'
	kindFunc    = 'f'
	kindDial    = 'n'
	kindEnd     = 'e' // asks the agent to end, for transports that do not carry the end of standard input
)

// An Order asks for a command. A missing Cmd field is as in iotax.Cmd.
type Order struct {
	Args, Env []string
	Dir       string
	Data, Err uint32 // the streams of standard input and output, and of standard error
}

// A Result is the answer to an Order. Without Exit and Msg the command succeeded.
type Result struct {
	Exit              *iotax.ExitError
	Canceled          bool   // because the other end closed the call
	Op, On, Msg, Hint string // of an error of the machine
}

// resultOf describes err, which m.Run returned.
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

// config has no keep-alive: an agent uses no CPU while a trial runs. Session.KeepAlive is for machines that need one. A stream
// may stay half closed for as long as its command runs.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive, c.StreamCloseTimeout, c.LogOutput = false, 0, io.Discard
	// A caller that takes its time with the output must not end the session.
	c.ConnectionWriteTimeout = time.Hour
	c.MaxStreamWindowSize = 1 << 20 // a file on its way over 50 ms
	return c
}

// A duplex is the byte stream of a session.
type duplex struct {
	io.Reader
	io.Writer
	close func() error
}

func (d duplex) Close() error { return d.close() }

// Send writes v at the start of a stream of a command, or in answer to it.
func Send(s *yamux.Stream, v any) error { return gob.NewEncoder(s).Encode(v) }

// maxMessage bounds what the other end may have this one keep.
const maxMessage = 64 << 20

// Receive reads what Send wrote.
func Receive(s *yamux.Stream, v any) error {
	return gob.NewDecoder(io.LimitReader(s, maxMessage)).Decode(v)
}

// A Session is this end of the connection with an agent.
type Session struct {
	System  string // "linux/amd64"
	Program string // path of the agent's program over there

	mux  *yamux.Session
	end  func(ctx context.Context)       // ends the program; nil if closing the streams does
	died func(ctx context.Context) error // why the program ended, waiting for that

	silent atomic.Bool // Watch has ended it
}

// A Refused is the first line of a program that is not an agent of this version.
type Refused struct{ Line string }

func (r *Refused) Error() string { return "no iotax of this version answers: " + r.Line }

// Meet reads the agent's first line from in and returns the session. closes is called when the session ends.
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

// open begins a stream of a kind.
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

// sendEnd asks the agent to end. It waits no longer than a second for a connection that is stuck.
func (s *Session) sendEnd(ctx context.Context) {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if stream, err := s.open(kindEnd); err == nil { // else it has ended
			stream.Close()
		}
	}()
	select {
	case <-sent:
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

// Streams opens the three streams of a command, the call first. The caller closes those that it returns, also with an error.
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

// reasonTime is how long a transport may look for the reason for which the agent ended: that the pod is gone.
const reasonTime = 5 * time.Second

// gone is err with the reason for which the agent ended, if it has.
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
