package store

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// codec packs blobs with zstd. The zero codec is ready; its encoder and decoder are made when they
// are first needed, because a program that lists runs needs neither.
type codec struct {
	mu  sync.Mutex
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// maxBlob bounds what one blob may unpack to: a damaged or hostile file cannot take all memory.
const maxBlob = 1 << 30

func (c *codec) pack(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) > maxBlob {
		return nil, fmt.Errorf("%d bytes of output are more than the %d that a store keeps", len(b), maxBlob)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.enc == nil {
		// One goroutine and a small window: the store must not be seen by what is measured.
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
		if err != nil {
			return nil, err
		}
		c.enc = enc
	}
	return c.enc.EncodeAll(b, nil), nil
}

// unpack fails when b was damaged: the frames carry a checksum.
func (c *codec) unpack(b []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBlob))
		if err != nil {
			return nil, err
		}
		c.dec = dec
	}
	return c.dec.DecodeAll(b, nil)
}

func (c *codec) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.enc != nil {
		c.enc.Close()
	}
	if c.dec != nil {
		c.dec.Close()
	}
	c.enc, c.dec = nil, nil
}
