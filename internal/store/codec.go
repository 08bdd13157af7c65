package store

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxBlob limits the unpacked size of a blob, in bytes, so that damaged files cannot exhaust memory.
const maxBlob = 1 << 30

// The store compresses blobs with zstd. It creates the codecs on first use, because listing runs does not need them.
var (
	// One goroutine and a small window limit the load on a machine that is being measured.
	encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
	})
	decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBlob))
	})
)

func pack(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) > maxBlob {
		return nil, fmt.Errorf("%d bytes of output are more than the %d that a store keeps", len(b), maxBlob)
	}
	enc, err := encoder()
	if err != nil {
		return nil, err
	}
	return enc.EncodeAll(b, nil), nil
}

// unpack decompresses b and verifies its checksum.
func unpack(b []byte) ([]byte, error) {
	dec, err := decoder()
	if err != nil {
		return nil, err
	}
	return dec.DecodeAll(b, nil)
}

// packJSON packs series or intervals, in the same JSON as in exports. It returns nil for an empty slice.
func packJSON[T any](all []T) ([]byte, error) {
	if len(all) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return pack(b)
}

func unpackJSON(data []byte, into any) error {
	b, err := unpack(data)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}
