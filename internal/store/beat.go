package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// A Pulse is what the store itself knows of those who measure a run that stands as running. What the run says of them
// is as old as the run was last saved.
type Pulse struct {
	Silent Silence
	Open   map[int]string // the shards that have begun and not ended, where several processes measure the run: their numbers, and who is at each
}

// Silence is how long nothing was heard of the processes that measure a run, by their names; of one that never said
// Beat it tells nothing.
type Silence map[string]time.Duration

// Shared reports whether several hosts may use the store: only there Beat does something.
func (s *Store) Shared() bool { return s.drv.beat() != "" }

// Beat says that runner, which measures the run of that id, is at work. known is false where the run was not saved yet.
// A name has no blanks. Unlike what saves results it ends with its context, gives up by itself, and waits for no writer: who
// waits for it would wait for a server that has vanished.
func (s *Store) Beat(ctx context.Context, id, runner string) (known bool, err error) {
	if !s.Shared() {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = s.transact(ctx, "save run "+id, nil, func(ctx context.Context, tx *sql.Tx) error {
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

// Pulse returns what is known of those who measure the run of that id; nothing where it does not stand as running.
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

// selectRuns reads what scanRun takes.
func (s *Store) selectRuns() string {
	return `SELECT ` + runColumns + `, ` + s.pulseColumns() + ` FROM runs`
}

// pulseColumns are what parsePulse reads.
func (s *Store) pulseColumns() string {
	open := `p.shard || '=' || coalesce(` + s.drv.runner("p.data") + `, '')`
	return s.drv.silence() + `, CASE WHEN status = 'running' THEN (SELECT ` + words(open) + ` FROM shards p WHERE p.run = runs.id AND NOT p.ended) END`
}

// words is an aggregate of text, with a blank between any two.
func words(text string) string { return `string_agg(CAST(` + text + ` AS TEXT), ' ')` }

// parsePulse reads words RUNNER=MILLISECONDS and SHARD=RUNNER.
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
