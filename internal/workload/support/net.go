package support

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"

	"iotax"
)

// guestPort is the last port that was given out on a machine that is not this host.
var guestPort atomic.Int32

// NoWay says why this host does not Reach the ports of m, and what can be done; otherwise is what helps with any machine.
func NoWay(m iotax.Machine, otherwise string) (hint string, err error) {
	if iotax.Outside(m) == m {
		return otherwise, errors.New("this host has no way to its ports")
	}
	return "engine: namespaces or args: [--network=host] gives it the network of its machine, where that is this host or a guest; or " + otherwise,
		errors.New("the container has a network of its own, or one that this host has no way to")
}

// FreePort finds a TCP port on m that nobody listens on.
func FreePort(m iotax.Machine) (int, error) {
	if !iotax.IsLocal(iotax.Outside(m)) {
		return 18000 + int(guestPort.Add(1)%10000), nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Reach tells on which address a program on m is to listen, and the one by which this host then reaches that port.
func Reach(ctx context.Context, m iotax.Machine, port int) (listen, addr string, err error) {
	listen = "127.0.0.1"
	addr = net.JoinHostPort(listen, strconv.Itoa(port))
	if forward := m.Caps().Forward; forward != nil {
		addr, err = forward(ctx, port)
		if !iotax.IsLocal(iotax.Outside(m)) { // what is forwarded comes in from outside there; here it must not be offered to others
			listen = "0.0.0.0"
		}
	}
	return listen, addr, err
}
