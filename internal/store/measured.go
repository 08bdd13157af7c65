package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"iotax"
)

// The table "measured" contains the results of trials: the values as JSON, for SQL queries, and the histograms in a
// binary format, because a report of 100,000 trials reads all of them.

// packValues returns the metrics, [[name, unit, better], …], and their numbers, both as JSON. Numbers that are not
// finite become null. The metrics are separate because most trials of a run have the same ones, which a reader decodes
// only once.
func packValues(values []iotax.Value) (metrics, numbers []byte, err error) {
	of, ns := make([][3]string, len(values)), make([]iotax.Number, len(values))
	for i, v := range values {
		of[i], ns[i] = [3]string{v.Name, v.Unit, string(v.Better)}, iotax.Number(v.Value)
	}
	if metrics, err = json.Marshal(of); err == nil {
		numbers, err = json.Marshal(ns)
	}
	return metrics, numbers, err
}

var errValues = errors.New("the values are damaged")

// readValues decodes the result of packValues and appends the values to `into`. `known` caches the decoded metrics by
// their JSON.
func readValues(known *map[string][]iotax.Value, metrics, numbers []byte, into []iotax.Value) ([]iotax.Value, error) {
	of, err := one(known, metrics, func() (values []iotax.Value, err error) {
		var all [][3]string
		err = json.Unmarshal(metrics, &all)
		for _, m := range all {
			values = append(values, iotax.Value{Name: m[0], Unit: m[1], Better: iotax.Better(m[2])})
		}
		return values, err
	})
	if err != nil {
		return nil, err
	}
	inner, ok := bytes.CutPrefix(numbers, []byte("["))
	inner, closed := bytes.CutSuffix(inner, []byte("]"))
	if !ok || !closed || len(of) == 0 != (len(inner) == 0) || len(of) > 0 && bytes.Count(inner, []byte(",")) != len(of)-1 {
		return nil, errValues
	}
	into = append(into, of...)
	for i := len(into) - len(of); i < len(into); i++ {
		var number []byte
		number, inner, _ = bytes.Cut(inner, []byte(","))
		into[i].Value = math.NaN()
		if string(number) != "null" {
			if into[i].Value, err = strconv.ParseFloat(string(number), 64); err != nil {
				return nil, fmt.Errorf("%w: %.30q", errValues, number)
			}
		}
	}
	return into, nil
}

// grid returns fio's histogram bins (plat_idx_to_val in stat.c). The first 128 are one nanosecond wide, and each
// further power of two is divided into 64 bins. The value of a wider bin is its midpoint.
var grid = sync.OnceValue(func() (g struct {
	value  []float64 // in seconds, by bin number
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

// packHistograms packs histograms into bytes. It returns an empty slice, not nil, if hs is empty.
func packHistograms(hs []iotax.Histogram) []byte {
	if len(hs) == 0 {
		return []byte{}
	}
	b := []byte{histogramsVersion}
	for _, h := range hs {
		b = appendText(appendText(b, h.Name), h.Unit)
		b = binary.AppendUvarint(b, uint64(len(h.Bins)))
		// If all bins are on fio's grid in ascending order, each is stored as the step from the previous bin: usually
		// one byte instead of eight.
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

// A reading decodes packed bytes. After the first error, err is set and all further results are zero.
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

// length reads a number of items, each of which needs at least `least` bytes. It fails if the remaining bytes are
// too few, so that damaged data cannot cause a huge allocation.
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

// unpackHistograms decodes b and appends the histograms to `into`. It reuses spare capacity, including that of the
// bins.
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
