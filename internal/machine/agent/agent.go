// Package agent runs commands on a machine through an iotax there. One program starts it (an SSH server, for now), and
// the standard streams of that program carry everything: a line that names the agent, then streams that yamux
// multiplexes. A command takes three streams: the call itself, standard input and output, and standard error.
package agent

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"iotax"
)

// Command is the argument vector of an agent, behind the name of the program.
const Command = "agent commands"

// greeting is the start of the agent's first line. The number changes when the two ends no longer understand each other.
const greeting = "iotax agent 2 "

// The first byte of a stream is its kind.
const (
	kindCall = 'c'
	kindData = 'd'
)

// An order is what a call asks for. A missing Cmd field is as in iotax.Cmd.
type order struct {
	Args, Env []string
	Dir       string
	Data, Err uint32 // the streams of standard input and output, and of standard error
}

// A result is what became of an order. Without Exit and Msg it succeeded.
type result struct {
	Exit              *iotax.ExitError
	Canceled          bool   // because the other end closed the call
	Op, On, Msg, Hint string // of an error of the machine
}

// resultOf describes err, which m.Run returned.
func resultOf(err error, m iotax.Machine) (r result) {
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

// config has no keep-alive: an agent uses no CPU while a trial runs, and SSH has its own. A stream may stay half closed
// for as long as its command runs.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive, c.StreamCloseTimeout, c.LogOutput = false, 0, io.Discard
	// A caller that takes its time with the output must not end the session.
	c.ConnectionWriteTimeout = time.Hour
	return c
}

// A duplex is the byte stream of a session.
type duplex struct {
	io.Reader
	io.Writer
	close func() error
}

func (d duplex) Close() error { return d.close() }

// send writes v at the start of a call, or in answer to it.
func send(s *yamux.Stream, v any) error { return gob.NewEncoder(s).Encode(v) }

// maxMessage bounds what the other end may have this one keep.
const maxMessage = 4 << 20

// receive reads what send wrote.
func receive(s *yamux.Stream, v any) error {
	return gob.NewDecoder(io.LimitReader(s, maxMessage)).Decode(v)
}
