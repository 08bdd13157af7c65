package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"iotax"
)

// Parts reads the trials of a run piece by piece, each piece of all trials at once: what a report needs of a hundred
// thousand trials, in the memory that it needs. Its methods may be called again and again, one at a time.
type Parts struct {
	s        *Store
	ctx      context.Context // of one report; the iterators end with it
	run      string
	workload string
	depth    Depth
}

// Parts are those of the run of this id; workload "" is all of its trials. With Brief there are neither
// histograms nor series.
func (s *Store) Parts(ctx context.Context, id, workload string, depth Depth) *Parts {
	return &Parts{s, ctx, id, workload, depth}
}

// partsAtATime are read in one transaction: see Each.
const partsAtATime = 1024

// pages calls read with portion after portion of the trials. read returns how many there were, and the Seq of the last.
func (p *Parts) pages(read func(tx *sql.Tx, after int64) (n int, last int64, err error)) error {
	after, n := int64(math.MinInt64), partsAtATime
	for n == partsAtATime {
		err := p.s.read(p.ctx, "read run "+p.run, func(ctx context.Context, tx *sql.Tx) error {
			return p.s.withMetrics(ctx, tx, func() (err error) {
				var last int64
				if n, last, err = read(tx, after); n > 0 && err == nil {
					after = last
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Trials yields every trial in order of Seq: who, when and how, its facts and findings, and how it failed. Values,
// Series and Histograms are left out, and so are what no report tells: Seed, Labels, and the fact "command", which
// is long and another one in each trial. Facts and Findings that are alike are shared and must not be changed.
func (p *Parts) Trials() iter.Seq2[*iotax.Trial, error] {
	return func(yield func(*iotax.Trial, error) bool) {
		words, facts, findings := shared[string]{}, shared[map[string]string]{}, shared[[]iotax.Finding]{}
		word := func(b []byte) string {
			s, _ := words.get(b, func() (string, error) { return string(b), nil })
			return s
		}
		err := p.pages(func(tx *sql.Tx, after int64) (n int, last int64, err error) {
			page := make([]iotax.Trial, 0, partsAtATime)
			rows, err := tx.QueryContext(p.ctx, `SELECT seq, block, target, workload, ramp_ns, length_ns, cold, started, took_ns, facts, findings, err, discarded
				FROM trials WHERE run = $1 AND seq > $2 AND ($4 = '' OR workload = $4) ORDER BY seq LIMIT $3`, p.run, after, partsAtATime, p.workload)
			if err != nil {
				return 0, 0, err
			}
			defer rows.Close()
			var start sql.NullString
			var target, workload, factsJSON, findingsJSON, failed, discarded sql.RawBytes
			for rows.Next() {
				page = append(page, iotax.Trial{Run: p.run})
				t := &page[len(page)-1]
				if err := rows.Scan(&t.Seq, &t.Block, &target, &workload, &t.Ramp, &t.Length, &t.Cold, &start, &t.Took, &factsJSON, &findingsJSON, &failed, &discarded); err != nil {
					return 0, 0, spot{p.run, t.Seq}.scanned(err)
				}
				at := spot{p.run, t.Seq}
				t.Target, t.Workload, t.Err, t.Discarded = word(target), word(workload), word(failed), word(discarded)
				if t.Start, err = parseTime(start); err != nil {
					return 0, 0, at.damaged("started", err)
				}
				if t.Facts, err = facts.get(without(factsJSON, "command"), func() (m map[string]string, err error) {
					err = at.unmarshal("facts", factsJSON, &m)
					delete(m, "command")
					return m, err
				}); err != nil {
					return 0, 0, err
				}
				if t.Findings, err = findings.get(findingsJSON, func() (fs []iotax.Finding, err error) {
					err = at.unmarshal("findings", findingsJSON, &fs)
					return fs, err
				}); err != nil {
					return 0, 0, err
				}
			}
			if err := rows.Err(); err != nil || len(page) == 0 {
				return 0, 0, err
			}
			rows.Close()
			for i := range page {
				if !yield(&page[i], nil) {
					return 0, 0, errEnough
				}
			}
			return len(page), int64(page[len(page)-1].Seq), nil
		})
		end(err, yield)
	}
}

// Measured yields of every trial, in order of Seq, that and its Values and, unless the depth is Brief, its
// Histograms. What it yields is overwritten by the next one.
func (p *Parts) Measured() iter.Seq2[*iotax.Trial, error] {
	return func(yield func(*iotax.Trial, error) bool) {
		t := &iotax.Trial{Run: p.run}
		var ids []int64 // of the metrics of t.Values
		histograms := "NULL"
		if p.depth == Full {
			histograms = "m.histograms"
		}
		done := int64(math.MinInt64) // what was yielded before a page was begun again
		err := p.pages(func(tx *sql.Tx, after int64) (n int, last int64, err error) {
			rows, err := tx.QueryContext(p.ctx, `SELECT t.seq, m.vals, `+histograms+` FROM trials t JOIN measured m ON m.trial = t.id
				WHERE t.run = $1 AND t.seq > $2 AND ($4 = '' OR t.workload = $4) ORDER BY t.seq LIMIT $3`, p.run, after, partsAtATime, p.workload)
			if err != nil {
				return 0, 0, err
			}
			defer rows.Close()
			var vals, packed sql.RawBytes
			for rows.Next() {
				if err := rows.Scan(&last, &vals, &packed); err != nil {
					return 0, 0, spot{p.run, last}.scanned(err)
				}
				n++
				if last <= done {
					continue
				}
				t.Seq = int(last)
				if t.Values, err = p.s.readValues(vals, t.Values[:0], &ids); err != nil {
					return 0, 0, spot{p.run, last}.damaged("vals", err)
				}
				if t.Histograms, err = unpackHistograms(packed, t.Histograms[:0]); err != nil {
					return 0, 0, spot{p.run, last}.damaged("histograms", err)
				}
				if done = last; !yield(t, nil) {
					return 0, 0, errEnough
				}
			}
			return n, last, rows.Err()
		})
		end(err, yield)
	}
}

// Series yields the trials of these Seq, in ascending order, each with its Series alone; those that have none, or
// do not exist, are left out.
func (p *Parts) Series(seqs []int) iter.Seq2[*iotax.Trial, error] {
	return func(yield func(*iotax.Trial, error) bool) {
		if p.depth != Full {
			return
		}
		seqs = slices.Sorted(slices.Values(seqs))
		for len(seqs) > 0 {
			part := seqs[:min(200, len(seqs))]
			seqs = seqs[len(part):]
			var page []*iotax.Trial
			err := p.s.read(p.ctx, "read run "+p.run, func(ctx context.Context, tx *sql.Tx) (err error) {
				page, err = p.s.seriesOf(ctx, tx, p.run, part)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range page {
				if len(t.Series) > 0 && !yield(t, nil) {
					return
				}
			}
		}
	}
}

func (s *Store) seriesOf(ctx context.Context, tx *sql.Tx, run string, seqs []int) ([]*iotax.Trial, error) {
	args := []any{run}
	var list bytes.Buffer
	for i, seq := range seqs {
		if i > 0 {
			list.WriteString(", ")
		}
		fmt.Fprintf(&list, "$%d", i+2)
		args = append(args, seq)
	}
	rows, err := tx.QueryContext(ctx, `SELECT t.seq, b.data FROM trials t JOIN blobs b ON b.trial = t.id AND b.kind = 'series'
		WHERE t.run = $1 AND t.seq IN (`+list.String()+`) ORDER BY t.seq`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []*iotax.Trial
	for rows.Next() {
		t := &iotax.Trial{Run: run}
		var data sql.RawBytes
		if err := rows.Scan(&t.Seq, &data); err != nil {
			return nil, spot{run, t.Seq}.scanned(err)
		}
		if t.Series, err = s.codec.unpackSeries(data); err != nil {
			return nil, spot{run, t.Seq}.damaged(kindSeries, err)
		}
		page = append(page, t)
	}
	return page, rows.Err()
}

// errEnough says that who asked for trials wants no more.
var errEnough = errors.New("enough")

func end(err error, yield func(*iotax.Trial, error) bool) {
	if err != nil && !errors.Is(err, errEnough) {
		yield(nil, err)
	}
}

// shared keeps one of what is made from like bytes again and again. It forgets all when it has grown large.
type shared[T any] map[string]T

func (s shared[T]) get(b []byte, make func() (T, error)) (T, error) {
	v, ok := s[string(b)]
	if ok {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return v, err
	}
	if len(s) > 4096 {
		clear(s)
	}
	s[string(b)] = v
	return v, nil
}

// without is a JSON object of strings, as encoding/json writes it, without the member of that key, which needs no
// quoting. It may share the bytes of object. Inside of a string, a quote has a backslash before it, so that nothing there is taken for
// the key.
func without(object []byte, key string) []byte {
	at := bytes.Index(object, []byte(`"`+key+`":"`))
	if at < 1 || object[at-1] != '{' && object[at-1] != ',' {
		return object
	}
	end := at + len(key) + 4
	for end < len(object) && object[end] != '"' {
		if object[end] == '\\' {
			end++
		}
		end++
	}
	if end++; end >= len(object) {
		return object
	}
	if object[end] == ',' {
		end++
	}
	return append(slices.Clip(object[:at]), object[end:]...)
}
