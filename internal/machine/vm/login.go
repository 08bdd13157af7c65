package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"iotax"
	session "iotax/internal/agent"
	"iotax/internal/machine/agent"
	"iotax/internal/machine/ssh"
	"iotax/internal/plan"
)

// meet connects to the agent of a micro-guest. The agent is also the guest's init.
func meet(ctx context.Context, p *port) (*agent.Machine, error) {
	const program = "/proc/1/exe" // works even if another root hides /init
	m := agent.New(p, program)
	m.Bound = true
	s, err := session.LinkOf(m).Session(ctx, m)
	if err != nil {
		return nil, err
	}
	s.Program = program
	return m, nil
}

// A port is the Transport to an agent that a guest starts at boot. It can connect only once, because the guest ends
// with the connection.
type port struct {
	name string
	dial func(context.Context) (net.Conn, error)
	done <-chan struct{} // closed when the guest has ended
	why  func() error    // the reason for the guest's end; called after done is closed
}

func (p *port) String() string { return p.name }

func (p *port) Close(context.Context) error { return nil }

// Start connects to the agent.
func (p *port) Start(ctx context.Context, _ []string) (*session.Running, error) {
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	hangup := sync.OnceFunc(func() { c.Close() })
	wait := func() error {
		hangup()
		select {
		case <-p.done:
			return p.why()
		case <-time.After(time.Second):
			return errors.New("its agent has ended")
		}
	}
	return &session.Running{Stdin: c, Stdout: c, Wait: wait, Kill: hangup}, nil
}

// loginConfig is the ssh configuration for images: without prompts, and with one key.
const loginConfig = "BatchMode yes\nIdentitiesOnly yes\n"

// login starts an agent in an image over SSH. It retries until the image's SSH server answers, the guest ends, or ctx
// is done.
func (b *booting) login(ctx context.Context) (*agent.Machine, error) {
	forwarded, err := b.vm.Forward(ctx, 22)
	if err != nil {
		return nil, b.vm.Fail(err)
	}
	config, known := filepath.Join(b.dir, "ssh_config"), filepath.Join(b.dir, "known_hosts")
	if err := os.WriteFile(config, []byte(loginConfig), 0o600); err != nil {
		return nil, err
	}
	// QEMU accepts connections before the guest listens, and may lose early data. So the first attempts have short
	// timeouts.
	for patience := 2 * time.Second; ; patience = min(patience*3/2, 30*time.Second) {
		t, err := ssh.Transport(ctx, &ssh.Spec{Host: "127.0.0.1", Port: forwarded, User: b.spec.User, Identity: b.identity, Config: config,
			KnownHosts: known, AcceptNew: true, ConnectTimeout: plan.Duration(patience)}, b.o.Logf)
		if err != nil {
			return nil, err
		}
		m := agent.New(named{t, b.name}, "")
		link := session.LinkOf(m)
		link.Log = b.o.Log
		if _, err = link.Session(ctx, m); err == nil {
			return m, nil
		}
		_ = m.Close(ctx)
		if e := new(iotax.Error); errors.As(err, &e) {
			err = fmt.Errorf("%s %s: %w", e.Op, e.On, e.Err) // drop the hint, which is for kind ssh
		}
		select {
		case <-b.vm.Done():
			return nil, b.vm.Err()
		case <-ctx.Done():
			return nil, b.vm.Fail(fmt.Errorf("%w: %w", context.Cause(ctx), err))
		case <-time.After(200 * time.Millisecond):
		}
		// Only this QEMU listens on the port, so any host key is the image's. The image may replace its key during its
		// first boot.
		_ = os.Remove(known)
	}
}

// A named is a transport with the name of the guest.
type named struct {
	session.Transport
	name string
}

func (n named) String() string { return n.name }

// keygen runs ssh-keygen and returns its trimmed output.
func keygen(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	text, err := session.Exec(ctx, append([]string{"ssh-keygen"}, args...)...)
	return strings.TrimSpace(text), err
}

// publicKey returns the public key for a private key file without a passphrase.
func publicKey(ctx context.Context, file string) (string, error) {
	return keygen(ctx, "-y", "-P", "", "-f", file)
}
