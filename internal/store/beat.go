package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// A Pulse describes the processes that measure a run.
type Pulse struct {
	Silent Silence
	Open   map[int]string // by Part.Index, the runner of each shard that has started but not ended
}

// Silence maps the name of each process with a beat to the time since its last beat.
type Silence map[string]time.Duration

// Shared reports whether several hosts can use the store. Only a shared store records beats.
func (s *Store) Shared() bool { return s.drv.beat() != "" }

// Beat records that `runner`, a name without spaces, is measuring the run `id`. `known` is false if the store does not
// contain the run, or on an error. If the store is not shared, Beat does nothing and returns true. Unlike the methods
// that save results, Beat has a deadline and stops when ctx is done, because the server may be unreachable.
func (s *Store) Beat(ctx context.Context, id, runner string) (known bool, err error) {
	if !s.Shared() {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = s.transact(ctx, patience, "save run "+id, nil, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, s.drv.beat(), id, runner)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		known = n > 0
		return err
	})
	return known && err == nil, err
}

// Pulse returns the pulse of the run `id`. The pulse is empty if the run is not running.
func (s *Store) Pulse(ctx context.Context, id string) (p Pulse, err error) {
	err = s.read(ctx, "look at run "+id, func(ctx context.Context, tx *sql.Tx) error {
		var silent, open sql.NullString
		err := tx.QueryRowContext(ctx, `SELECT `+s.pulseColumns()+` FROM runs WHERE id = $1`, id).Scan(&silent, &open)
		if err == sql.ErrNoRows {
			return s.gone(id)
		}
		p = parsePulse(silent, open)
		return err
	})
	return p, err
}

// selectRuns returns a query for the columns that scanRun reads.
func (s *Store) selectRuns() string {
	return `SELECT ` + runColumns + `, ` + s.pulseColumns() + ` FROM runs`
}

// pulseColumns returns the SQL for the columns that parsePulse reads.
func (s *Store) pulseColumns() string {
	open := `p.shard || '=' || coalesce(` + s.drv.runner("p.data") + `, '')`
	return s.drv.silence() + `, CASE WHEN status = 'running' THEN (SELECT ` + words(open) + ` FROM shards p WHERE p.run = runs.id AND NOT p.ended) END`
}

// words returns an SQL aggregate that joins the values of `text` with spaces.
func words(text string) string { return `string_agg(CAST(` + text + ` AS TEXT), ' ')` }

// parsePulse parses silent (RUNNER=MILLISECONDS) and open (SHARD=RUNNER). Both are lists with spaces between the items.
func parsePulse(silent, open sql.NullString) Pulse {
	p := Pulse{Silent: Silence{}, Open: map[int]string{}}
	for word := range strings.FieldsSeq(silent.String) {
		if at := strings.LastIndexByte(word, '='); at > 0 {
			if ms, err := strconv.ParseInt(word[at+1:], 10, 64); err == nil {
				p.Silent[word[:at]] = time.Duration(ms) * time.Millisecond
			}
		}
	}
	for word := range strings.FieldsSeq(open.String) {
		number, who, _ := strings.Cut(word, "=")
		if n, err := strconv.Atoi(number); err == nil {
			p.Open[n] = who
		}
	}
	return p
}
