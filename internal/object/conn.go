package object

import (
	"context"
	"io"
	"net"
	"sync"
)

// A conn is a TCP connection that writes uploads in large pieces. net/http copies a body in pieces of 32 KiB, so a
// signed chunk (a header and 64 KiB) would take several system calls, each with its own pass through TCP. A conn
// does not change TLS connections, because crypto/tls calls Write with complete TLS records.
type conn struct{ *net.TCPConn }

// piece is the number of bytes of a body that are written at once: two signed chunks. Larger pieces are not faster, and
// the pieces of eight clients would no longer fit into the L2 caches of two cores.
const piece = 128 << 10

var pieces = sync.Pool{New: func() any { return new([piece]byte) }}

// ReadFrom implements io.ReaderFrom. net/http passes a body to it.
func (c conn) ReadFrom(r io.Reader) (int64, error) {
	buf := pieces.Get().(*[piece]byte)
	defer pieces.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{c.TCPConn}, struct{ io.Reader }{r}, buf[:])
}

// dial returns a dial function whose TCP connections have type conn.
func dial(d net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if tcp, ok := c.(*net.TCPConn); ok {
			return conn{tcp}, err
		}
		return c, err
	}
}
