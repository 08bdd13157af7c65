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

// This program also plays the iotax that is copied to other machines.
func TestMain(m *testing.M) {
	Askpass()
	agent.Main(host.Local())
	cache, err := os.MkdirTemp("", "iotax-ssh-test-")
	if err != nil {
		panic(err)
	}
	// The servers keep there what is carried to them. No program of the user's answers for a test.
	err = errors.Join(os.Setenv("XDG_CACHE_HOME", cache), os.Unsetenv("SSH_ASKPASS"))
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(cache)
	os.Exit(code)
}

// A delayed TCP proxy passes each piece of data on after a delay, in both directions.
type delayed struct {
	net.Listener
	to    string
	delay time.Duration

	mu      sync.Mutex
	conns   []net.Conn
	refuses int // of the next connections
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

// refuse drops the next n connections.
func (p *delayed) refuse(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = n
}

// accepted is how many connections were made.
func (p *delayed) accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// silence has the connections of now carry nothing more, not even their end.
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

// pass copies from one end to the other, late.
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
	case <-silent: // cut closes it
	default:
		to.Close()
	}
}

// BenchmarkSSHDelayed is one trial on a host that is 50 ms away: preparing, running and evicting. What is carried there is
// there already.
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

// OneTrial opens the machine, prepares a directory and a workload, runs a trial of 100 ms, and removes what it made. It is set by the
// package ssh_test: workloads start guests, which this package reaches.
var OneTrial func(t testing.TB, spec *Spec, home string)

func knownLine(addr string, key ssh.PublicKey) string {
	return knownhosts.Line([]string{addr}, key) + "\n"
}
