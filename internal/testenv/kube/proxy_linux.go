package kube

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Proxy forwards connections between this machine and the network of a cluster. It can cut connections, to simulate a
// failing network.
type Proxy struct {
	Address string // address at which it listens

	mu    sync.Mutex
	conns map[net.Conn]bool
	deaf  bool
}

// newProxy forwards each connection that l accepts to a connection that `dial` opens. The proxy ends with the test.
func newProxy(t *testing.T, l net.Listener, dial func() (net.Conn, error)) *Proxy {
	p := &Proxy{Address: l.Addr().String(), conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.carry(here, dial) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		all.Wait()
	})
	return p
}

func (p *Proxy) carry(here net.Conn, dial func() (net.Conn, error)) {
	defer here.Close()
	if !p.keep(here) {
		return
	}
	defer p.drop(here)
	there, err := dial()
	if err != nil {
		return
	}
	defer there.Close()
	if !p.keep(there) {
		return
	}
	defer p.drop(there)
	var both sync.WaitGroup
	both.Go(func() { io.Copy(there, here); there.Close() })
	both.Go(func() { io.Copy(here, there); here.Close() })
	both.Wait()
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.deaf {
		p.conns[c] = true
	}
	return !p.deaf
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// Cut closes all current connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Deaf makes the proxy close new connections immediately if `yes` is true, and forward them again otherwise.
func (p *Proxy) Deaf(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = yes
}
