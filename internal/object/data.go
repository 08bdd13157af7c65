package object

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"

	"github.com/minio/crc64nvme"
)

// Stores find blocks that they have already, and keep them once. So every block of every object is unlike all others:
// random bytes, with a stamp of the object and the place in each 4 KiB.

const (
	pool  = 1 << 20 // random bytes that are used again and again
	stamp = 4096
)

// content is the bytes of one object. It can be read at any place, by several at once.
type content struct {
	pool []byte
	seed uint64
	size int64
	at   int64
}

func newPool(seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, pool)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// objectContent is the i-th object of a batch.
func objectContent(pool []byte, seed uint64, i int, size int64) *content {
	return &content{pool: pool, seed: seed*0x9e3779b97f4a7c15 + uint64(i)*0xbf58476d1ce4e5b9 + 1, size: size}
}

func (c *content) Size() int64 { return c.size }

func (c *content) Read(p []byte) (int, error) {
	n, err := c.ReadAt(p, c.at)
	c.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	c.at = offset
	return offset, nil
}

func (c *content) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= c.size {
		return 0, io.EOF
	}
	if int64(len(p)) > c.size-off {
		p, err = p[:c.size-off], io.EOF
	}
	for n < len(p) {
		n += copy(p[n:], c.pool[(off+int64(n))%pool:])
	}
	var word [8]byte
	for at := off / stamp * stamp; at < off+int64(len(p)); at += stamp {
		binary.LittleEndian.PutUint64(word[:], c.seed^uint64(at))
		for k := range word {
			if i := at + int64(k) - off; i >= 0 && i < int64(len(p)) {
				p[i] = word[k]
			}
		}
	}
	return len(p), err
}

// sum is the checksum of the whole content.
func (c *content) sum() uint64 {
	buf := make([]byte, buffer)
	var s uint64
	for off := int64(0); off < c.size; {
		n, _ := c.ReadAt(buf, off) // only ever io.EOF
		s = crc64nvme.Update(s, buf[:n])
		off += int64(n)
	}
	return s
}
