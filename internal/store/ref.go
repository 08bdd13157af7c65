package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"iotax"
)

// back splits a reference such as "latest~2" into "latest" and 2. If `ref` does not end in "~N", `from` is `ref` and
// `ok` is false.
func back(ref string) (from string, n int, ok bool) {
	i := strings.LastIndexByte(ref, '~')
	if i <= 0 {
		return ref, 0, false
	}
	steps := ref[i+1:]
	n, err := strconv.Atoi(steps)
	if err != nil || n < 0 || steps[0] == '+' {
		return ref, 0, false
	}
	return ref[:i], n, true
}

// earlier returns the id of the n-th newest run, counted from 0, that has this name and has trials, or "" if there are
// fewer. The name "latest" matches every run.
func earlier(ctx context.Context, tx *sql.Tx, name string, n int) (id string, err error) {
	err = tx.QueryRowContext(ctx, `SELECT id FROM runs WHERE (name = $1 OR $1 = 'latest') AND EXISTS (SELECT 1 FROM trials WHERE trials.run = runs.id)
		ORDER BY started DESC, id DESC LIMIT 1 OFFSET $2`, name, n).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// byHistory resolves a name, "latest~N" or "NAME~N".
func (s *Store) byHistory(ctx context.Context, tx *sql.Tx, ref string) (string, error) {
	name, n, counted := back(ref)
	id, err := earlier(ctx, tx, name, n)
	if err != nil || id != "" {
		return id, err
	}
	if counted {
		newest, err := earlier(ctx, tx, name, 0)
		if err != nil {
			return "", err
		}
		if newest != "" {
			return "", &iotax.Error{Op: "find run", On: ref, Err: fmt.Errorf("%w: there are not so many runs with trials in %s", ErrNotFound, s.on),
				Hint: "`iotax list` shows the runs"}
		}
	}
	return "", s.gone(ref)
}
