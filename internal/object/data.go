package object

import (
	"encoding/binary"
	"io"
	"math/rand/v2"

	"github.com/minio/crc64nvme"
)

// Stores may deduplicate blocks. So every 4 KiB of an object contains a stamp that depends on the object and the
// offset. The other bytes are random.

const (
	pool  = 1 << 20 // bytes of random data that all objects share
	stamp = 4096    // bytes from one stamp to the next
)

// content is the data of one object. ReadAt may be called concurrently.
type content struct {
	pool []byte
	seed uint64
	size int64
}

func newPool(seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, pool)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

// objectContent returns the content of object i of a batch.
func objectContent(pool []byte, seed uint64, i int, size int64) *content {
	return &content{pool: pool, seed: seed*0x9e3779b97f4a7c15 + uint64(i)*0xbf58476d1ce4e5b9 + 1, size: size}
}

// reader returns a reader of the whole content.
func (c *content) reader() *io.SectionReader { return io.NewSectionReader(c, 0, c.size) }

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

// sum returns the checksum of the whole content.
func (c *content) sum() uint64 {
	h := crc64nvme.New()
	_, _ = io.CopyBuffer(h, c.reader(), make([]byte, buffer)) // neither the reader nor the hash returns an error
	return h.Sum64()
}
