package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"

	"iotax"
)

// A Transport starts programs on a machine and carries their streams. Start may be called from several goroutines at once.
type Transport interface {
	fmt.Stringer

	// Start starts argv there. An error that wraps ErrUnreachable may pass.
	Start(ctx context.Context, argv []string) (*Running, error)

	// Close ends what Start started, and removes what the transport made.
	Close(ctx context.Context) error
}

// Running is a program that a Transport started. The caller reads Stdout to its end, then calls Wait.
type Running struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Wait   func() error // *iotax.ExitError with the end of standard error, or why the program is out of reach
	Kill   func()       // ends the connection; Wait then returns soon
}

// ErrUnreachable is wrapped by the error of a machine that refuses or drops connections, as one does that starts again.
var ErrUnreachable = errors.New("unreachable")

// Over starts the agent over t, and copies it there first where it is not.
func (l *Link) Over(ctx context.Context, t Transport) (*Session, error) {
	return l.bootstrap(ctx, carrier{t})
}

// A carrier runs the agent alone: a Transport has nothing that ends other programs.
type carrier struct{ Transport }

func (carrier) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (c carrier) Run(ctx context.Context, cmd *iotax.Cmd) error {
	conn, err := c.Start(ctx, cmd.Args)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, conn.Kill)()
	go func() { // ends when the caller closes its end
		_, _ = io.Copy(conn.Stdin, cmd.Stdin) // Wait has the reason
		conn.Stdin.Close()
	}()
	if _, err := io.Copy(cmd.Stdout, conn.Stdout); err != nil {
		conn.Kill()
	}
	return conn.Wait()
}

// Lost waits a moment for the agent's program to end, and returns the reason, or err where there is none. The exit status of
// the agent is only in its text: it is not that of a command.
func (s *Session) Lost(err error) error { return errors.New(s.gone(err).Error()) }

// Signs of life go to the agent of a machine that runs on without its connection: one that is cut without a word, or whose
// other end was killed, would leave commands there.
const (
	kindAlive   = 'a'
	aliveEvery  = 10 * time.Second
	aliveMisses = 6
)

// KeepAlive sends signs of life until the session ends. The agent ends with its commands when none comes for a minute.
func (s *Session) KeepAlive() error {
	stream, err := s.open(kindAlive)
	if err != nil {
		return s.gone(err)
	}
	go func() {
		defer stream.Close()
		for t := time.NewTicker(aliveEvery); ; {
			select {
			case <-s.mux.CloseChan():
				t.Stop()
				return
			case <-t.C:
			}
			_, _ = stream.Write([]byte{1}) // a session that has ended is seen above
		}
	}()
	return nil
}

// How often Watch asks, and how many times in a row an answer may be missing. A guest that is short of CPU answers late.
const (
	watchEvery  = 5 * time.Second
	watchMisses = 4
)

// Watch ends the session when the agent stops answering, as that of a machine that hangs.
func (s *Session) Watch() { go s.watch(watchEvery) }

func (s *Session) watch(every time.Duration) {
	answers := make(chan struct{}, 1)
	waiting, missed := false, 0
	for t := time.NewTicker(every); ; {
		select {
		case <-s.mux.CloseChan():
			t.Stop()
			return
		case <-answers:
			waiting, missed = false, 0
		case <-t.C:
			if !waiting {
				waiting = true
				go func() {
					_, _ = s.mux.Ping() // an error comes with the end of the session
					answers <- struct{}{}
				}()
			} else if missed++; missed == watchMisses {
				s.silent.Store(true)
				_ = s.mux.Close()
			}
		}
	}
}

// alive ends the session when the signs of life stay away.
func (s *server) alive(stream *yamux.Stream) {
	defer stream.Close()
	var b [16]byte
	for missed := 0; missed < aliveMisses; {
		_ = stream.SetReadDeadline(time.Now().Add(aliveEvery))
		switch _, err := stream.Read(b[:]); {
		case err == nil:
			missed = 0
		case errors.Is(err, yamux.ErrTimeout):
			missed++
		default:
			return // with the session
		}
	}
	s.end(fmt.Errorf("no sign of life for %v", aliveMisses*aliveEvery))
}
