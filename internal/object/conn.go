package object

import (
	"context"
	"io"
	"net"
	"sync"
)

// A conn is a TCP connection that takes what is uploaded in large pieces. net/http copies a body to a connection by 32 KiB, and the
// reader that signs chunk by chunk makes 64 KiB and a header at once: a piece then takes two system calls and more, each with its own
// way through TCP. The connections of TLS make records of their own, and call Write.
type conn struct{ *net.TCPConn }

// piece is how much of a body is written at once: two chunks as they are signed. More gains nothing, and the pieces of eight clients no
// longer fit into the second cache of two cores.
const piece = 128 << 10

var pieces = sync.Pool{New: func() any { return new([piece]byte) }}

// ReadFrom is what net/http hands a body to.
func (c conn) ReadFrom(r io.Reader) (int64, error) {
	buf := pieces.Get().(*[piece]byte)
	defer pieces.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{c.TCPConn}, struct{ io.Reader }{r}, buf[:])
}

// dial makes such connections.
func dial(d net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if tcp, ok := c.(*net.TCPConn); ok {
			return conn{tcp}, err
		}
		return c, err
	}
}
