package store

import (
	"bytes"
	"context"
	"database/sql"
	"iter"
	"math"
	"slices"

	"iotax"
)

// A Parts reads the trials of a run in several passes. Each pass reads only some fields, so that a report of 100,000
// trials does not keep all data in memory. The methods may be called repeatedly, but not concurrently.
type Parts struct {
	s        *Store
	ctx      context.Context // context of one report
	run      string
	workload string
	depth    Depth
}

// Parts returns a reader for the trials of the run `id`. workload "" selects all trials. With Brief, the reader omits
// histograms, series, intervals and profiles.
func (s *Store) Parts(ctx context.Context, id, workload string, depth Depth) *Parts {
	return &Parts{s, ctx, id, workload, depth}
}

// Trials yields the trials in the order of Seq, without Values, Series, Intervals, Histograms, Profile, Labels and raw
// output, and without the fact "command", which is long and differs in each trial. Trials may share Facts and Findings,
// so callers must not change them.
func (p *Parts) Trials() iter.Seq2[*iotax.Trial, error] {
	return p.s.each(p.ctx, p.run, selection{after: math.MinInt64, workload: p.workload, head: true, share: &shared{}})
}

// Measured yields the trials in the order of Seq, with only their Values and, unless the depth is Brief, their
// Histograms. It reuses the memory of both for later trials.
func (p *Parts) Measured() iter.Seq2[*iotax.Trial, error] {
	return p.s.each(p.ctx, p.run, selection{after: math.MinInt64, workload: p.workload, values: true, histograms: p.depth == Full})
}

// Histograms yields the trials with the given Seq numbers, in ascending order, with only their Histograms. It reuses
// the memory of the histograms for later trials.
func (p *Parts) Histograms(seqs []int) iter.Seq2[*iotax.Trial, error] {
	return p.some(seqs, 200, selection{histograms: true})
}

// Series yields the trials with the given Seq numbers, in ascending order, with only their Series.
func (p *Parts) Series(seqs []int) iter.Seq2[*iotax.Trial, error] {
	return p.some(seqs, 200, selection{series: true})
}

// Intervals yields the trials with the given Seq numbers, in ascending order, with only their Intervals.
func (p *Parts) Intervals(seqs []int) iter.Seq2[*iotax.Trial, error] {
	return p.some(seqs, 10, selection{intervals: true})
}

// Profiles yields the trials with the given Seq numbers, in ascending order, with only their Profile.
func (p *Parts) Profiles(seqs []int) iter.Seq2[*iotax.Trial, error] {
	return p.some(seqs, 50, selection{profiles: true})
}

func (p *Parts) some(seqs []int, atOnce int, sel selection) iter.Seq2[*iotax.Trial, error] {
	return func(yield func(*iotax.Trial, error) bool) {
		if p.depth != Full {
			return
		}
		sel, page := sel, []*iotax.Trial(nil)
		sel.metrics = new(map[string][]iotax.Value)
		sel.after = math.MinInt64
		for part := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(seqs))), atOnce) {
			sel.seqs = part
			err := p.s.read(p.ctx, "read run "+p.run, func(ctx context.Context, tx *sql.Tx) (err error) {
				page, err = p.s.page(ctx, tx, p.run, sel, len(part), page)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range page {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}

// shared caches decoded facts, findings and strings, because 100,000 copies of equal values would need too much memory.
type shared struct {
	words    map[string]string
	facts    map[string]map[string]string
	findings map[string][]iotax.Finding
}

func (s *shared) fill(t *iotax.Trial, at spot, facts, findings []byte) (err error) {
	for _, word := range []*string{&t.Target, &t.Workload, &t.Err, &t.Discarded} {
		if *word, err = one(&s.words, []byte(*word), func() (string, error) { return *word, nil }); err != nil {
			return err
		}
	}
	if t.Facts, err = one(&s.facts, without(facts, "command"), func() (m map[string]string, err error) {
		err = at.unmarshal("facts", facts, &m)
		delete(m, "command")
		return m, err
	}); err != nil {
		return err
	}
	t.Findings, err = one(&s.findings, findings, func() (fs []iotax.Finding, err error) {
		err = at.unmarshal("findings", findings, &fs)
		return fs, err
	})
	return err
}

// one returns the cached value for b, or calls `make` and caches its result. It clears a cache that has become too
// large.
func one[T any](known *map[string]T, b []byte, make func() (T, error)) (T, error) {
	if v, ok := (*known)[string(b)]; ok {
		return v, nil
	}
	v, err := make()
	if err == nil {
		if *known == nil || len(*known) > 4096 {
			*known = map[string]T{}
		}
		(*known)[string(b)] = v
	}
	return v, err
}

// without removes the member `key` from object, a JSON object of strings written by encoding/json. The result may have
// a comma before its closing brace. Quotes inside strings follow a backslash, so the search does not match them.
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
