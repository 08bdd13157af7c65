package ssh

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/sshtest"
)

// The test binary also serves as the agent that is copied to other machines.
func TestMain(m *testing.M) {
	Askpass()
	agent.Main(host.Local())
	cache, err := os.MkdirTemp("", "iotax-ssh-test-")
	if err != nil {
		panic(err)
	}
	// The test servers store the copied agent in this cache directory. The user's SSH_ASKPASS program must not answer
	// for a test.
	err = errors.Join(os.Setenv("XDG_CACHE_HOME", cache), os.Unsetenv("SSH_ASKPASS"))
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(cache)
	os.Exit(code)
}

// A delayed is a TCP proxy that delays the data in both directions.
type delayed struct {
	net.Listener
	to    string
	delay time.Duration

	mu      sync.Mutex
	conns   []net.Conn
	refuses int // number of further connections to refuse
	silent  []chan struct{}
	count   int
}

func delay(t testing.TB, to string, d time.Duration) *delayed {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &delayed{Listener: l, to: to, delay: d}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.count++
			p.refuses--
			refused := p.refuses >= 0
			p.mu.Unlock()
			far, err := net.Dial("tcp", to)
			if err != nil || refused {
				near.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, near, far)
			silent := make(chan struct{})
			p.silent = append(p.silent, silent)
			p.mu.Unlock()
			all.Go(func() { p.pass(far, near, silent) })
			all.Go(func() { p.pass(near, far, silent) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		all.Wait()
	})
	return p
}

func (p *delayed) port() int { return p.Addr().(*net.TCPAddr).Port }

// refuse makes the proxy refuse the next n connections.
func (p *delayed) refuse(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = n
}

// accepted returns the number of connections so far, including refused ones.
func (p *delayed) accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// silence makes the open connections drop all data. They also do not forward the end of a connection.
func (p *delayed) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.silent {
		close(c)
	}
	p.silent = nil
}

// cut ends every connection.
func (p *delayed) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

// pass copies data from one end to the other after the delay.
func (p *delayed) pass(to, from net.Conn, silent chan struct{}) {
	type piece struct {
		at   time.Time
		data []byte
	}
	pieces := make(chan piece, 10000)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if n > 0 {
				pieces <- piece{time.Now().Add(p.delay), b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for x := range pieces {
		time.Sleep(time.Until(x.at))
		select {
		case <-silent:
			continue
		default:
		}
		if _, err := to.Write(x.data); err != nil {
			from.Close()
		}
	}
	select {
	case <-silent: // cut closes the connection
	default:
		to.Close()
	}
}

// BenchmarkSSHDelayed measures one trial on a host with a round-trip time of 50 ms, from opening to closing the
// machine. The agent is already on the host.
func BenchmarkSSHDelayed(b *testing.B) {
	server := &sshtest.Server{Shell: []string{"sh", "-c"}, MaxSessions: 10}
	addr, key := server.Start(b)
	known := filepath.Join(b.TempDir(), "known")
	write(b, known, knownLine(addr, key))
	home := b.TempDir()
	for _, d := range []time.Duration{0, 25 * time.Millisecond} { // each way
		proxy := delay(b, addr, d)
		write(b, known, knownLine(net.JoinHostPort("127.0.0.1", strconv.Itoa(proxy.port())), key))
		if d == 0 {
			OneTrial(b, &Spec{Host: "127.0.0.1", Port: proxy.port(), Config: "none", KnownHosts: known}, home)
			continue
		}
		for b.Loop() {
			OneTrial(b, &Spec{Host: "127.0.0.1", Port: proxy.port(), Config: "none", KnownHosts: known}, home)
		}
	}
}

// OneTrial opens the machine, prepares a directory and a workload, runs a trial of 100 ms, removes the files of the
// trial, and closes the machine. Package ssh_test sets this variable.
var OneTrial func(t testing.TB, spec *Spec, home string)

func knownLine(addr string, key ssh.PublicKey) string {
	return knownhosts.Line([]string{addr}, key) + "\n"
}
