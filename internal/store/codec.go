package store

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"iotax"
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

// The JSON forms of the nouns with numbers that may not be finite, which JSON does not know: they
// are null there, and read back as NaN.
type (
	valueJSON struct {
		Name   string       `json:"name"`
		Value  number       `json:"value"`
		Unit   string       `json:"unit"`
		Better iotax.Better `json:"better,omitempty"`
	}
	seriesJSON struct {
		Name string  `json:"name"`
		Unit string  `json:"unit"`
		T    numbers `json:"t"`
		V    numbers `json:"v"`
	}
	histogramJSON struct {
		Name string    `json:"name"`
		Unit string    `json:"unit"`
		Bins []binJSON `json:"bins"`
	}
	binJSON struct {
		Value number `json:"value"`
		Count uint64 `json:"count"`
	}
	number  float64
	numbers []float64
)

func (n number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

func (n *number) UnmarshalJSON(b []byte) (err error) {
	*(*float64)(n), err = parseNumber(string(b))
	return err
}

func (n numbers) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 8*len(n)+2)
	b = append(b, '[')
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumber(b, v)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON is called with valid JSON without spaces around it, says encoding/json.
func (n *numbers) UnmarshalJSON(b []byte) error {
	s := string(b)
	if s == "null" {
		*n = nil
		return nil
	}
	if len(s) < 2 || s[0] != '[' {
		return fmt.Errorf("%.20q is not a list of numbers", s)
	}
	if s = strings.TrimSpace(s[1 : len(s)-1]); s == "" {
		*n = numbers{}
		return nil
	}
	list := make(numbers, 0, strings.Count(s, ",")+1)
	for word := range strings.SplitSeq(s, ",") {
		v, err := parseNumber(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		list = append(list, v)
	}
	*n = list
	return nil
}

func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

func parseNumber(s string) (float64, error) {
	if s == "null" {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(s, 64)
}

func toSeries(in []iotax.Series) []seriesJSON {
	out := make([]seriesJSON, len(in))
	for i, s := range in {
		out[i] = seriesJSON{Name: s.Name, Unit: s.Unit, T: s.T, V: s.V}
	}
	return out
}

func toHistograms(in []iotax.Histogram) []histogramJSON {
	out := make([]histogramJSON, len(in))
	for i, h := range in {
		bins := make([]binJSON, len(h.Bins))
		for k, b := range h.Bins {
			bins[k] = binJSON{number(b.Value), b.Count}
		}
		out[i] = histogramJSON{h.Name, h.Unit, bins}
	}
	return out
}

func toValues(in []iotax.Value) []valueJSON {
	out := make([]valueJSON, len(in))
	for i, v := range in {
		out[i] = valueJSON{v.Name, number(v.Value), v.Unit, v.Better}
	}
	return out
}
