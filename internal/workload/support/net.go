package support

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"

	"iotax"
)

// guestPort counts the ports that FreePort has returned without a check.
var guestPort atomic.Int32

// NoWay returns the reason why this host cannot reach the ports of m, and a hint. `otherwise` is the hint that applies
// to every machine.
func NoWay(m iotax.Machine, otherwise string) (hint string, err error) {
	if iotax.Outside(m) == m {
		return otherwise, errors.New("this host has no way to its ports")
	}
	return "engine: namespaces or args: [--network=host] gives it the network of its machine, where that is this host or a guest; or " + otherwise,
		errors.New("the container has a network of its own, or one that this host has no way to")
}

// FreePort returns a TCP port for a server on m. If m is this host or a container on it, the port is free on this host.
// Otherwise it is the next port from 18000 to 27999, and FreePort does not check that it is free.
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

// Reach returns the address on which a program on m must listen, and the address at which this host then reaches that
// port.
func Reach(ctx context.Context, m iotax.Machine, port int) (listen, addr string, err error) {
	listen = "127.0.0.1"
	addr = net.JoinHostPort(listen, strconv.Itoa(port))
	if forward := m.Caps().Forward; forward != nil {
		addr, err = forward(ctx, port)
		if !iotax.IsLocal(iotax.Outside(m)) { // forwarded connections enter the machine through its network; on this host, only local programs may connect
			listen = "0.0.0.0"
		}
	}
	return listen, addr, err
}
