package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/machine/internal/proc"
)

// An authenticator holds the ways in which one hop may log in, and remembers what it tried, for the
// error that says why none worked.
type authenticator struct {
	h       *hop
	methods []ssh.AuthMethod

	withheld bool // the password was asked for and not given

	socket    net.Conn
	agentErr  error
	agentKeys int
	tried     []string // key files that were offered
	encrypted []string // key files that need a passphrase, and whose key is not in the agent
	broken    []string // key files that cannot be read, with the reason
}

// auth prepares to log in to h.
func (h *hop) auth() *authenticator {
	a := &authenticator{h: h}
	a.methods = append(a.methods, ssh.PublicKeysCallback(a.signers))
	if h.password != "" {
		a.methods = append(a.methods, ssh.PasswordCallback(a.password),
			ssh.KeyboardInteractive(func(_, _ string, questions []string, echos []bool) ([]string, error) {
				if _, err := a.password(); err != nil {
					return nil, err
				}
				answers := make([]string, len(questions))
				for i := range questions {
					if !echos[i] { // a question whose answer is shown does not ask for a password
						answers[i] = h.password
					}
				}
				return answers, nil
			}))
	}
	return a
}

// password is given to the host that it is for alone: not to one that shows another key than the known one, whatever
// StrictHostKeyChecking says of connecting (so does OpenSSH).
func (a *authenticator) password() (string, error) {
	if a.h.impostor {
		a.withheld = true
		return "", errors.New("the password is not given to a host whose key has changed")
	}
	return a.h.password, nil
}

func (a *authenticator) close() {
	if a.socket != nil {
		a.socket.Close()
	}
}

// signers returns the keys in the order in which ssh offers them: the agent's that are also named
// as identities, the agent's others, the files'. Servers count offers, so the order matters.
func (a *authenticator) signers() ([]ssh.Signer, error) {
	var held []ssh.Signer
	if a.h.agent != "" && a.h.agent != "none" {
		if a.socket, a.agentErr = net.DialTimeout("unix", a.h.agent, 2*time.Second); a.agentErr == nil {
			_ = a.socket.SetDeadline(time.Now().Add(a.h.timeout)) // the handshake takes no longer
			held, a.agentErr = agent.NewClient(a.socket).Signers()
		}
	}
	inAgent := func(pub ssh.PublicKey) ssh.Signer {
		for _, s := range held {
			if pub != nil && bytes.Equal(s.PublicKey().Marshal(), pub.Marshal()) {
				return s
			}
		}
		return nil
	}
	var named, files []ssh.Signer
	taken := map[ssh.Signer]bool{}
	for i, file := range a.h.identities {
		src, err := iotax.ReadFile(file, iotax.MaxOutput)
		if errors.Is(err, os.ErrNotExist) {
			// The key may be in the agent alone, with its public half here.
			if pub := publicKey(file); pub != nil {
				if s := inAgent(pub); s != nil && !taken[s] {
					taken[s] = true
					named = append(named, s)
				}
			} else if i < a.h.explicit {
				a.broken = append(a.broken, file+" does not exist")
			}
			continue
		}
		var signer ssh.Signer
		if err == nil {
			signer, err = ssh.ParsePrivateKey(src)
		}
		var locked *ssh.PassphraseMissingError
		pub := publicKey(file)
		switch {
		case errors.As(err, &locked):
			if locked.PublicKey != nil {
				pub = locked.PublicKey
			}
		case err != nil:
			a.broken = append(a.broken, fmt.Sprintf("%s: %s", file, proc.Reason(err)))
			continue
		default:
			pub = signer.PublicKey()
		}
		if s := inAgent(pub); s != nil {
			if !taken[s] {
				taken[s] = true
				named = append(named, s)
			}
			continue
		}
		if signer == nil {
			a.encrypted = append(a.encrypted, file)
			continue
		}
		a.tried = append(a.tried, file)
		if cert, ok := publicKey(file + "-cert").(*ssh.Certificate); ok {
			if s, err := ssh.NewCertSigner(cert, signer); err == nil {
				files = append(files, s)
			}
		}
		files = append(files, signer)
	}
	all := named
	if !a.h.only {
		for _, s := range held {
			if !taken[s] {
				all = append(all, s)
			}
		}
	}
	a.agentKeys = len(all)
	return append(all, files...), nil
}

// publicKey reads the public half beside a private key, nil when there is none.
func publicKey(file string) ssh.PublicKey {
	src, err := iotax.ReadFile(file+".pub", iotax.MaxOutput)
	if err != nil {
		return nil
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(src)
	if err != nil {
		return nil
	}
	return pub
}

// refused is the error of a login that the server did not accept.
func (a *authenticator) refused(err error) error {
	var tried []string
	if a.agentKeys > 0 {
		tried = append(tried, fmt.Sprintf("%d of the agent's keys", a.agentKeys))
	}
	tried = append(tried, a.tried...)
	if a.h.password != "" && !a.withheld {
		tried = append(tried, "a password")
	}
	msg := "the login was refused"
	if len(tried) > 0 {
		msg += "; tried " + strings.Join(tried, ", ")
	} else {
		msg += "; there was no key to try"
	}
	if a.agentErr != nil {
		msg += fmt.Sprintf("; the agent at %s does not answer", a.h.agent)
	}
	for _, b := range a.broken {
		msg += "; " + b
	}
	e := &iotax.Error{Op: "log in to", On: a.h.user + "@" + a.h.address()}
	line := a.h.sshLine()
	switch {
	case a.withheld:
		msg += "; the password was not given, for the host shows another key than the known one"
		e.Hint = "if the host was set up anew, forget the old key: ssh-keygen -R " + iotax.Quote(knownhosts.Normalize(a.h.knownAs()))
	case strings.Contains(err.Error(), "Too many authentication failures"):
		msg += "; the server lets no more be tried"
		e.Hint = "name the right key (identity, or IdentityFile with IdentitiesOnly in the ssh configuration)"
	case len(a.encrypted) > 0:
		msg += "; " + strings.Join(a.encrypted, ", ") + " is encrypted and not in the agent"
		e.Hint = "ssh-add " + iotax.Quote(a.encrypted[0])
		if a.h.agent == "" || a.agentErr != nil {
			e.Hint = `eval "$(ssh-agent)" && ` + e.Hint
		}
	case a.h.password != "":
		e.Hint = "check the password and the user name"
	default:
		e.Hint = "make this work without a question: " + line + " (or put a password into " + passwordEnv + " or password_file)"
	}
	e.Err = errors.New(msg)
	return e
}

// A commandConn is the connection that a ProxyCommand makes.
type commandConn struct {
	io.ReadCloser
	io.WriteCloser
	tail *proc.Tail
	stop context.CancelFunc
	done chan struct{}
}

// proxyCommand starts the command and speaks over its standard input and output.
func proxyCommand(command string) (net.Conn, error) {
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return nil, err
	}
	// It lives as long as the connection, which is longer than the context of opening it.
	ctx, stop := context.WithCancel(context.Background())
	c := &commandConn{outR, inW, new(proc.Tail), stop, make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = host.Local().Run(ctx, &iotax.Cmd{Args: []string{"sh", "-c", "exec " + command}, Stdin: inR, Stdout: outW, Stderr: c.tail})
		inR.Close()
		outW.Close()
	}()
	return c, nil
}

// said returns what the command wrote to standard error.
func (c *commandConn) said() string { return strings.TrimSpace(c.tail.String()) }

// Close ends the command and waits for it.
func (c *commandConn) Close() error {
	c.WriteCloser.Close()
	c.ReadCloser.Close()
	c.stop()
	<-c.done
	return nil
}

type commandAddr struct{}

func (commandAddr) Network() string { return "pipe" }
func (commandAddr) String() string  { return "ProxyCommand" }

func (*commandConn) LocalAddr() net.Addr              { return commandAddr{} }
func (*commandConn) RemoteAddr() net.Addr             { return commandAddr{} }
func (*commandConn) SetDeadline(time.Time) error      { return nil }
func (*commandConn) SetReadDeadline(time.Time) error  { return nil }
func (*commandConn) SetWriteDeadline(time.Time) error { return nil }
