package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"iotax"
)

// What was measured in a trial stands in a row of its own: the values as JSON that SQL can take apart, a list of
// [id of the metric, number], and the histograms as bytes, which a report of 100,000 trials reads all of.

// appendPair appends a value to the JSON of values. What is not a number is null; the infinities, which JSON does not
// know, are text that both databases turn into numbers.
func appendPair(b []byte, id int64, v float64) []byte {
	b = strconv.AppendInt(append(b, '['), id, 10)
	b = append(b, ',')
	switch {
	case math.IsNaN(v):
		b = append(b, "null"...)
	case math.IsInf(v, 1):
		b = append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		b = append(b, `"-Infinity"`...)
	default:
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	return append(b, ']')
}

var errValues = errors.New("the values are damaged")

// readPairs calls f for each value of the JSON that appendPair wrote.
func readPairs(text []byte, f func(id int64, v float64) error) error {
	if len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return errValues
	}
	text = text[1 : len(text)-1]
	for len(text) > 0 {
		i := 1
		var id int64
		for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
			id = 10*id + int64(text[i]-'0')
		}
		if text[0] != '[' || i == 1 || i >= len(text) || text[i] != ',' {
			return errValues
		}
		from := i + 1
		for i = from; i < len(text) && text[i] != ']'; i++ {
		}
		if i >= len(text) {
			return errValues
		}
		v := math.NaN()
		if word := string(text[from:i]); word != "null" { // the compiler keeps this on the stack
			if len(word) > 2 && word[0] == '"' {
				word = word[1 : len(word)-1]
			}
			var err error
			if v, err = strconv.ParseFloat(word, 64); err != nil {
				return fmt.Errorf("%w: %.30q", errValues, word)
			}
		}
		if err := f(id, v); err != nil {
			return err
		}
		if text = text[i+1:]; len(text) > 0 {
			if text[0] != ',' {
				return errValues
			}
			text = text[1:]
		}
	}
	return nil
}

// grid has fio's bins (stat.c, plat_idx_to_val): the first 128 are a nanosecond each, and then 64 to a power of two,
// each at its middle.
var grid = sync.OnceValue(func() (g struct {
	value  []float64 // in seconds, by number
	number map[float64]uint64
}) {
	g.number = map[float64]uint64{}
	for i := range uint64(64 * 29) {
		n := i
		if i >= 128 {
			shift := i>>6 - 1
			n = 1<<(shift+6) + (i&63)<<shift + 1<<shift>>1
		}
		g.value = append(g.value, float64(n)*1e-9)
		g.number[g.value[i]] = i
	}
	return g
})

const histogramsVersion = 1

// packHistograms never returns nil: no bytes are no histograms.
func packHistograms(hs []iotax.Histogram) []byte {
	if len(hs) == 0 {
		return []byte{}
	}
	b := []byte{histogramsVersion}
	for _, h := range hs {
		b = appendText(appendText(b, h.Name), h.Unit)
		b = binary.AppendUvarint(b, uint64(len(h.Bins)))
		// Of fio's bins, the step on the grid takes one byte and not eight.
		numbers, onGrid, last := grid().number, byte(1), uint64(0)
		for _, bin := range h.Bins {
			n, ok := numbers[bin.Value]
			if !ok || n < last || math.Signbit(bin.Value) {
				onGrid = 0
			}
			last = n
		}
		b, last = append(b, onGrid), 0
		for _, bin := range h.Bins {
			if onGrid == 1 {
				n := numbers[bin.Value]
				b, last = binary.AppendUvarint(b, n-last), n
			} else {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(bin.Value))
			}
			b = binary.AppendUvarint(b, bin.Count)
		}
	}
	return b
}

// A reading takes packed bytes apart. After the first thing that cannot be, err is set and all else is zero.
type reading struct {
	b   []byte
	err error
}

var errCut = errors.New("the bytes end too early")

func (r *reading) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errCut)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reading) float() float64 {
	if len(r.b) < 8 {
		r.fail(errCut)
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(r.b))
	r.b = r.b[8:]
	return v
}

// length reads the number of things of which each has least bytes at least: a damaged one cannot take all memory.
func (r *reading) length(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/least) {
		r.fail(errCut)
		return 0
	}
	return int(n)
}

func (r *reading) fail(err error) {
	if r.b = nil; r.err == nil {
		r.err = err
	}
}

func (r *reading) text() string {
	n := r.length(1)
	word := r.b[:n]
	r.b = r.b[n:]
	return string(word)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// unpackHistograms appends the histograms in b to into, whose spare capacity it uses, including that of the bins.
func unpackHistograms(b []byte, into []iotax.Histogram) ([]iotax.Histogram, error) {
	if len(b) == 0 {
		return into, nil
	}
	if b[0] != histogramsVersion {
		return nil, fmt.Errorf("histograms of form %d are not known; a newer iotax wrote them", b[0])
	}
	r, values := reading{b: b[1:]}, grid().value
	for len(r.b) > 0 {
		into = slices.Grow(into, 1)[:len(into)+1]
		h := &into[len(into)-1]
		h.Name, h.Unit = r.text(), r.text()
		n := r.length(2)
		h.Bins = slices.Grow(h.Bins[:0], n)[:n]
		onGrid, last := r.uvarint() == 1, uint64(0)
		for i := range h.Bins {
			if onGrid {
				if last += r.uvarint(); last >= uint64(len(values)) {
					return nil, errors.New("a bin is beyond fio's grid")
				}
				h.Bins[i].Value = values[last]
			} else {
				h.Bins[i].Value = r.float()
			}
			h.Bins[i].Count = r.uvarint()
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return into, nil
}

// packSeries returns nil when there is nothing to keep. Numbers are kept bit by bit.
func packSeries(series []iotax.Series) ([]byte, error) {
	if len(series) == 0 {
		return nil, nil
	}
	b := []byte{seriesVersion}
	for _, s := range series {
		b = appendText(appendText(b, s.Name), s.Unit)
		for _, xs := range [][]float64{s.T, s.V} {
			b = binary.AppendUvarint(b, uint64(len(xs)))
			for _, x := range xs {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
			}
		}
	}
	return pack(b)
}

// packIntervals returns nil when there is nothing to keep.
func packIntervals(intervals []iotax.Interval) ([]byte, error) {
	if len(intervals) == 0 {
		return nil, nil
	}
	b, hs := []byte{intervalsVersion}, make([]iotax.Histogram, len(intervals))
	b = binary.AppendUvarint(b, uint64(len(intervals)))
	for i, v := range intervals {
		for _, x := range []float64{v.From, v.To} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		hs[i] = v.Histogram
	}
	return pack(append(b, packHistograms(hs)...))
}

func unpackIntervals(data []byte) ([]iotax.Interval, error) {
	b, err := unpack(data)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || b[0] != intervalsVersion {
		return nil, errors.New("intervals of this form are not known; a newer iotax wrote them")
	}
	r := reading{b: b[1:]}
	out := make([]iotax.Interval, r.length(16))
	for i := range out {
		out[i].From, out[i].To = r.float(), r.float()
	}
	if r.err != nil {
		return nil, r.err
	}
	hs, err := unpackHistograms(r.b, nil)
	if err == nil && len(hs) != len(out) {
		err = errCut
	}
	if err != nil {
		return nil, err
	}
	for i, h := range hs {
		out[i].Histogram = h
	}
	return out, nil
}

const (
	seriesVersion    = 1
	intervalsVersion = 1
)

func unpackSeries(data []byte) ([]iotax.Series, error) {
	b, err := unpack(data)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || b[0] != seriesVersion {
		return nil, errors.New("series of this form are not known; a newer iotax wrote them")
	}
	r := reading{b: b[1:]}
	var out []iotax.Series
	for len(r.b) > 0 {
		s := iotax.Series{Name: r.text(), Unit: r.text()}
		for _, to := range []*[]float64{&s.T, &s.V} {
			xs := make([]float64, r.length(8))
			for i := range xs {
				xs[i] = r.float()
			}
			*to = xs
		}
		if r.err != nil {
			return nil, r.err
		}
		out = append(out, s)
	}
	return out, nil
}
