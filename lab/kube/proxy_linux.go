package kube

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A Proxy carries connections from this machine's loopback into the network of a cluster. It can cut them, as
// a network does that fails.
type Proxy struct {
	Address string // where it listens

	mu    sync.Mutex
	conns map[net.Conn]bool
	deaf  bool
}

// newProxy leads to an address as the process pid sees it; it ends with the test.
func newProxy(t *testing.T, pid int, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &Proxy{Address: l.Addr().String(), conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.carry(here, pid, to) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		all.Wait()
	})
	return p
}

func (p *Proxy) carry(here net.Conn, pid int, to string) {
	defer here.Close()
	if !p.keep(here) {
		return
	}
	defer p.drop(here)
	there, err := dialInside(pid, to)
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

// Cut breaks all connections there are.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Deaf makes it refuse new connections, or take them again.
func (p *Proxy) Deaf(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = yes
}

// dialInside connects in the network namespace of a process.
func dialInside(pid int, to string) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never back: a thread in another namespace ends with its goroutine
		fd, oerr := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if oerr != nil {
			err = oerr
			return
		}
		defer unix.Close(fd)
		if err = unix.Setns(fd, unix.CLONE_NEWNET); err == nil {
			c, err = net.Dial("tcp", to)
		}
	}()
	<-done
	return c, err
}
