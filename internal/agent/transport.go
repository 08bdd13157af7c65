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

// A Transport starts programs on a machine and carries their streams. Start is safe for concurrent use.
type Transport interface {
	fmt.Stringer

	// Start starts argv on the machine. If the error wraps ErrUnreachable, the caller may retry.
	Start(ctx context.Context, argv []string) (*Running, error)

	// Close ends the programs that Start started, and removes everything that the transport created.
	Close(ctx context.Context) error
}

// Running is a program that a Transport started. The caller reads Stdout to its end, then calls Wait.
type Running struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Wait   func() error // returns nil, an *iotax.ExitError with the end of standard error, or the reason why the program is unreachable
	Kill   func()       // closes the connection; Wait then returns soon
}

// ErrUnreachable reports that a machine refuses or drops connections, for example while it reboots.
var ErrUnreachable = errors.New("unreachable")

// Over starts the agent over t. If the agent is missing on the machine, Over copies it first.
func (l *Link) Over(ctx context.Context, t Transport) (*Session, error) {
	return l.bootstrap(ctx, carrier{t})
}

// A carrier is a machine that can run only the agent: a Transport cannot end other programs.
type carrier struct{ Transport }

func (carrier) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (c carrier) Run(ctx context.Context, cmd *iotax.Cmd) error {
	conn, err := c.Start(ctx, cmd.Args)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, conn.Kill)()
	go func() { // ends when the caller closes its end of cmd.Stdin
		_, _ = io.Copy(conn.Stdin, cmd.Stdin) // if this fails, Wait returns the reason
		conn.Stdin.Close()
	}()
	if _, err := io.Copy(cmd.Stdout, conn.Stdout); err != nil {
		conn.Kill()
	}
	return conn.Wait()
}

// Lost returns the reason why the agent's program ended, or err if the reason is unknown. It waits up to reasonTime.
// The result wraps no error: callers must not mistake the agent's exit status for that of a command.
func (s *Session) Lost(err error) error { return errors.New(s.gone(err).Error()) }

// Some machines keep running after the connection is lost. Their agent receives heartbeats, so that it can end its
// commands if the connection is cut without notice or the other end is killed.
const (
	kindAlive   = 'a'
	aliveEvery  = 10 * time.Second
	aliveMisses = 6
)

// KeepAlive sends heartbeats until the session ends. After a minute without a heartbeat, the agent ends its commands
// and exits.
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
			_, _ = stream.Write([]byte{1}) // the loop notices when the session has ended
		}
	}()
	return nil
}

// Limits of Watch. One missed ping is not enough, because a guest that is short of CPU answers late.
const (
	watchEvery  = 5 * time.Second
	watchMisses = 4
)

// Watch ends the session when the agent stops answering, for example because its machine hangs.
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
					_, _ = s.mux.Ping() // an error means that the session has ended
					answers <- struct{}{}
				}()
			} else if missed++; missed == watchMisses {
				s.silent.Store(true)
				_ = s.mux.Close()
			}
		}
	}
}

// alive ends the session if no heartbeat arrives for a minute.
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
			return // the session has ended
		}
	}
	s.end(fmt.Errorf("no sign of life for %v", aliveMisses*aliveEvery))
}
