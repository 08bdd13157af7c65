package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"iotax"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/ssh"
)

// A link is a connection to an engine, directly or through a host over SSH.
type link struct {
	*client.Client
	way iotax.Machine // the SSH host; nil for a direct connection
}

// Close closes the connections to the engine, then the SSH connection.
func (l *link) Close() error {
	err := l.Client.Close()
	if l.way == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	return errors.Join(err, l.way.Close(ctx))
}

// behind connects over SSH to the host in ssh://[USER@]HOST[:PORT][/SOCKET]. It also returns the command that connects
// its standard streams to the engine of that host.
func behind(ctx context.Context, engine, where string) (iotax.Machine, []string, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, nil, err
	}
	spec := &ssh.Spec{Host: u.Hostname(), User: u.User.Username()}
	if p := u.Port(); p != "" {
		if spec.Port, err = strconv.Atoi(p); err != nil {
			return nil, nil, err
		}
	}
	argv := []string{engine}
	if u.Path != "" && u.Path != "/" {
		option := map[string]string{"docker": "--host", "podman": "--url"}[engine]
		argv = append(argv, option, "unix://"+u.Path)
	}
	m, err := ssh.Kind.Open(ctx, spec, kind.Options{Name: where})
	return m, append(argv, "system", "dial-stdio"), err
}

// dialer returns a dial function. Each connection runs argv on m. It lasts until argv ends or the caller closes it, and
// ignores the context of the dial call.
func dialer(m iotax.Machine, argv []string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ctx, end := context.WithCancel(context.Background())
		in, write := io.Pipe()
		read, out := io.Pipe()
		c := &commandConn{Writer: write, Reader: read, finish: write.Close, ended: make(chan struct{}), name: iotax.QuoteAll(argv)}
		c.end = sync.OnceFunc(func() { end(); read.Close(); write.Close(); <-c.ended })
		go func() {
			defer close(c.ended)
			err := m.Run(ctx, &iotax.Cmd{Args: argv, Stdin: in, Stdout: out})
			if err == nil {
				err = io.EOF
			} else {
				err = fmt.Errorf("%s on %s: %w", c.name, m, err)
			}
			in.CloseWithError(err)
			out.CloseWithError(err)
		}()
		return c, nil
	}
}

// A commandConn is a net.Conn over the standard streams of a command.
type commandConn struct {
	io.Writer
	io.Reader
	finish func() error
	end    func()
	ended  chan struct{}
	name   string
}

func (c *commandConn) CloseWrite() error                { return c.finish() }
func (c *commandConn) Close() error                     { c.end(); return nil }
func (c *commandConn) LocalAddr() net.Addr              { return commandAddr("here") }
func (c *commandConn) RemoteAddr() net.Addr             { return commandAddr(c.name) }
func (c *commandConn) SetDeadline(time.Time) error      { return nil }
func (c *commandConn) SetReadDeadline(time.Time) error  { return nil }
func (c *commandConn) SetWriteDeadline(time.Time) error { return nil }

type commandAddr string

func (a commandAddr) Network() string { return "command" }
func (a commandAddr) String() string  { return string(a) }

func isSSH(where string) bool { return strings.HasPrefix(where, "ssh://") }
