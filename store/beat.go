package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// Silence is how long nothing was heard of the processes that measure a run, by their names; of one that never said
// Beat it tells nothing.
type Silence map[string]time.Duration

// Beat says that runner, which measures the run of that id, is at work. It is for stores that several hosts share, and
// does nothing where the store is a file; nor where the run was not saved yet. A name has no blanks.
func (s *Store) Beat(ctx context.Context, id, runner string) error {
	text := s.drv.beat()
	if text == "" {
		return nil
	}
	return s.write(ctx, "save run "+id, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text, id, runner)
		return err
	})
}

// selectRuns reads what scanRun takes.
func (s *Store) selectRuns() string {
	return `SELECT ` + runColumns + `, ` + s.drv.silence() + ` FROM runs`
}

// parseSilence reads words RUNNER=MILLISECONDS.
func parseSilence(text string) Silence {
	out := Silence{}
	for word := range strings.FieldsSeq(text) {
		if at := strings.LastIndexByte(word, '='); at > 0 {
			if ms, err := strconv.ParseInt(word[at+1:], 10, 64); err == nil {
				out[word[:at]] = time.Duration(ms) * time.Millisecond
			}
		}
	}
	return out
}
