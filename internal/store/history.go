package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"iotax"
)

// A Query selects runs. The zero value selects all runs, newest first.
type Query struct {
	// Text contains words, separated by spaces. Each word must occur, in upper or lower case, in the run's id, name,
	// baseline or host, in the name, machine or place of a target, or in the name of a workload.
	Text   string
	Name   string       // exact name of the run; "" selects any name
	Status iotax.Status // "" selects any status

	Since, Before time.Time // the run started at or after Since, and before Before; zero means no bound

	Order   Order
	Reverse bool
	Offset  int
	Limit   int // 0 means no limit
}

// An Order is a sort order of runs.
type Order string

const (
	ByStart  Order = ""       // newest first
	ByName   Order = "name"   // from a to z
	ByStatus Order = "status" // from a to z
	ByTook   Order = "took"   // first the runs that have not ended, then the others, longest first
)

// A Summary describes a run in a list.
type Summary struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Status    iotax.Status `json:"status"`
	Start     time.Time    `json:"start"`
	End       time.Time    `json:"end,omitzero"`
	Baseline  string       `json:"baseline"`
	Host      string       `json:"host,omitempty"`
	Targets   []string     `json:"targets"`
	Workloads []string     `json:"workloads"`
	Emulated  int          `json:"emulated,omitempty"` // number of targets in emulated guests
	Tally     Tally        `json:"tally"`
}

// Took returns the duration of the run, or 0 if it has not ended.
func (s *Summary) Took() time.Duration {
	if s.End.IsZero() || s.Start.IsZero() {
		return 0
	}
	return s.End.Sub(s.Start)
}

// searched returns the text, in lower case, in which Find searches for the words of Query.Text.
func searched(r *iotax.Run) string {
	all := []string{r.ID, r.Name, r.Baseline, r.Environment[iotax.FactHostname]}
	for _, t := range r.Targets {
		all = append(all, t.Name, t.Machine, t.Place)
	}
	for _, w := range r.Workloads {
		all = append(all, w.Name)
	}
	return strings.ToLower(strings.Join(all, "\n"))
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// where returns the SQL condition of q and its arguments. `settled` is the result of Store.settled.
func (q *Query) where(settled map[string]iotax.Status) (string, []any) {
	var conds []string
	var args []any
	add := func(cond string, arg ...any) {
		for _, a := range arg {
			args = append(args, a)
			cond = strings.Replace(cond, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		conds = append(conds, cond)
	}
	for _, w := range strings.Fields(q.Text) {
		add(`words LIKE ? ESCAPE '\'`, "%"+likeEscaper.Replace(strings.ToLower(w))+"%")
	}
	if q.Name != "" {
		add("name = ?", q.Name)
	}
	if q.Status != "" {
		status, arg := "status", []any{}
		if len(settled) > 0 {
			status = "CASE id" + strings.Repeat(" WHEN ? THEN ?", len(settled)) + " ELSE status END"
			for id, st := range settled {
				arg = append(arg, id, string(st))
			}
		}
		add(status+" = ?", append(arg, string(q.Status))...)
	}
	if !q.Since.IsZero() {
		add("started >= ?", formatTime(q.Since))
	}
	if !q.Before.IsZero() {
		add("started < ?", formatTime(q.Before))
	}
	if len(conds) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(conds, " AND "), args
}

// order returns the ORDER BY clause of q. Find sorts by status and duration in Go, because a status may differ from
// the stored one, and because SQLite and PostgreSQL have different time functions.
func (q *Query) order() (string, error) {
	down, up := "DESC", "ASC"
	if q.Reverse {
		down, up = up, down
	}
	switch q.Order {
	case ByStart:
		return "started " + down + ", id " + down, nil
	case ByName:
		return "lower(name) " + up + ", started DESC, id DESC", nil
	case ByStatus, ByTook:
		return "started DESC, id DESC", nil
	}
	return "", fmt.Errorf("runs are not ordered by %q", q.Order)
}

// Find returns the runs that q selects, and their number before Offset and Limit apply.
func (s *Store) Find(ctx context.Context, q Query) (runs []Summary, total int, err error) {
	order, err := q.order()
	if err != nil {
		return nil, 0, &iotax.Error{Op: "list runs", Err: err}
	}
	err = s.read(ctx, "list runs", func(ctx context.Context, tx *sql.Tx) error {
		settled, err := s.settled(ctx, tx)
		if err != nil {
			return err
		}
		ids, err := chosen(ctx, tx, q, order, settled)
		if err != nil {
			return err
		}
		total = len(ids)
		ids = ids[min(max(0, q.Offset), len(ids)):]
		if q.Limit > 0 {
			ids = ids[:min(q.Limit, len(ids))]
		}
		runs, err = s.summaries(ctx, tx, ids)
		for i := range runs {
			runs[i].Status = cmp.Or(settled[runs[i].ID], runs[i].Status)
		}
		return err
	})
	return runs, total, err
}

// settled returns, by id, the final status of runs that are stored as running but no longer run.
func (s *Store) settled(ctx context.Context, tx *sql.Tx) (map[string]iotax.Status, error) {
	if s.settle == nil {
		return nil, nil
	}
	out := map[string]iotax.Status{}
	err := forEach(ctx, tx, s.selectRuns()+` WHERE status = $1`, []any{string(iotax.Running)}, func(rows *sql.Rows) error {
		var r iotax.Run
		_, err := s.scanRun(rows, &r)
		if r.Status != iotax.Running {
			out[r.ID] = r.Status
		}
		return err
	})
	return out, err
}

// chosen returns the ids that q selects, in the order of q, before Offset and Limit apply. order is the ORDER BY clause
// of q.
func chosen(ctx context.Context, tx *sql.Tx, q Query, order string, settled map[string]iotax.Status) (ids []string, err error) {
	where, args := q.where(settled)
	columns := "id" // an index contains the ids, so most queries need not read the runs
	if q.Order == ByStatus || q.Order == ByTook {
		columns = "id, status, started, ended"
	}
	status, took := map[string]iotax.Status{}, map[string]time.Duration{}
	err = forEach(ctx, tx, "SELECT "+columns+" FROM runs"+where+" ORDER BY "+order, args, func(rows *sql.Rows) error {
		var r Summary
		var start, end sql.NullString
		if err := rows.Scan([]any{&r.ID, (*string)(&r.Status), &start, &end}[:strings.Count(columns, ",")+1]...); err != nil {
			return spot{run: r.ID}.scanned(err)
		}
		ids = append(ids, r.ID)
		if q.Order != ByTook {
			status[r.ID] = cmp.Or(settled[r.ID], r.Status)
			return nil
		}
		var err1, err2 error
		r.Start, err1 = parseTime(start)
		r.End, err2 = parseTime(end)
		if took[r.ID] = r.End.Sub(r.Start); r.End.IsZero() {
			took[r.ID] = math.MaxInt64
		}
		return cmp.Or(spot{run: r.ID}.damaged("started", err1), spot{run: r.ID}.damaged("ended", err2))
	})
	if q.Order == ByTook || q.Order == ByStatus {
		slices.SortStableFunc(ids, func(a, b string) int {
			if q.Reverse {
				a, b = b, a
			}
			return cmp.Or(cmp.Compare(took[b], took[a]), cmp.Compare(status[a], status[b]))
		})
	}
	return ids, err
}

// summaries reads the runs with the given ids, in the same order.
func (s *Store) summaries(ctx context.Context, tx *sql.Tx, ids []string) ([]Summary, error) {
	out := make([]Summary, 0, len(ids))
	at := make(map[string]int, len(ids))
	for len(ids) > 0 { // in batches, because a statement has a limited number of parameters
		part := ids[:min(500, len(ids))]
		ids = ids[len(part):]
		list, args := marks(part)
		byID := map[string]Summary{}
		if err := forEach(ctx, tx, `SELECT id, name, status, started, ended, baseline, environment, targets, workloads FROM runs WHERE id IN (`+list+`)`, args, func(rows *sql.Rows) error {
			sum, err := scanSummary(rows)
			byID[sum.ID] = sum
			return err
		}); err != nil {
			return nil, err
		}
		for _, id := range part {
			at[id] = len(out)
			out = append(out, byID[id])
		}
		tallies, err := tally(ctx, tx, " WHERE run IN ("+list+")", args...)
		if err != nil {
			return nil, err
		}
		for id, t := range tallies {
			out[at[id]].Tally = t
		}
	}
	return out, nil
}

func scanSummary(row interface{ Scan(...any) error }) (s Summary, err error) {
	var start, end sql.NullString
	var env, targets, workloads sql.RawBytes
	if err := row.Scan(&s.ID, &s.Name, (*string)(&s.Status), &start, &end, &s.Baseline, &env, &targets, &workloads); err != nil {
		return s, spot{run: s.ID}.scanned(err)
	}
	at := spot{run: s.ID}
	if s.Start, err = parseTime(start); err != nil {
		return s, at.damaged("started", err)
	}
	if s.End, err = parseTime(end); err != nil {
		return s, at.damaged("ended", err)
	}
	var host struct{ Hostname string }
	if err := at.unmarshal("environment", env, &host); err != nil {
		return s, err
	}
	s.Host = host.Hostname
	var infos []iotax.TargetInfo
	var works []struct{ Name string }
	if err := cmp.Or(at.unmarshal("targets", targets, &infos), at.unmarshal("workloads", workloads, &works)); err != nil {
		return s, err
	}
	s.Targets, s.Workloads = []string{}, []string{} // not null in JSON
	for _, t := range infos {
		s.Targets = append(s.Targets, t.Name)
		if t.Emulated() {
			s.Emulated++
		}
	}
	for _, w := range works {
		s.Workloads = append(s.Workloads, w.Name)
	}
	return s, nil
}

// marks returns the placeholders "$1, $2, …" and the values as arguments.
func marks(values []string) (string, []any) {
	var b strings.Builder
	args := make([]any, len(values))
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", i+1)
		args[i] = v
	}
	return b.String(), args
}

// A State identifies the progress of a run. It changes when the run gets a trial with a larger Seq, a new status or an
// end time.
type State struct {
	Status iotax.Status
	Last   int // largest Seq of a trial, or −1 if there are no trials
	Ended  time.Time
}

// State returns the state of the run `id`. It is cheap enough to poll every second.
func (s *Store) State(ctx context.Context, id string) (State, error) {
	var st State
	err := s.read(ctx, "look at run "+id, func(ctx context.Context, tx *sql.Tx) error {
		var end sql.NullString
		err := tx.QueryRowContext(ctx, `SELECT status, ended, coalesce((SELECT max(seq) FROM trials WHERE run = $1), -1) FROM runs WHERE id = $1`, id).
			Scan((*string)(&st.Status), &end, &st.Last)
		if err == sql.ErrNoRows {
			return s.gone(id)
		}
		if err != nil {
			return err
		}
		if st.Ended, err = parseTime(end); err != nil || st.Status != iotax.Running || s.settle == nil {
			return spot{run: id}.damaged("ended", err)
		}
		var r iotax.Run
		_, err = s.scanRun(tx.QueryRowContext(ctx, s.selectRuns()+` WHERE id = $1`, id), &r)
		st.Status = r.Status
		return err
	})
	return st, err
}

// A Cell is a pair of workload and target.
type Cell struct {
	Workload string `json:"workload"`
	Target   string `json:"target"`
}

// Cells returns every cell that has trials, sorted by workload and target.
func (s *Store) Cells(ctx context.Context) ([]Cell, error) {
	var cells []Cell
	err := s.read(ctx, "list cells", func(ctx context.Context, tx *sql.Tx) error {
		// Step from one cell to the next through the index. DISTINCT would read every trial, and so would a row
		// comparison, (workload, target) > ($1, $2), because SQLite uses only the first column of the index for it.
		return forEach(ctx, tx, `WITH RECURSIVE cell (workload, target) AS (
				SELECT * FROM (SELECT workload, target FROM trials ORDER BY workload, target LIMIT 1) AS first
			UNION ALL
				SELECT t.workload, t.target FROM cell c, trials t WHERE t.id = coalesce(
					(SELECT n.id FROM trials n WHERE n.workload = c.workload AND n.target > c.target ORDER BY n.target LIMIT 1),
					(SELECT n.id FROM trials n WHERE n.workload > c.workload ORDER BY n.workload, n.target LIMIT 1)))
			SELECT workload, target FROM cell`, nil, func(rows *sql.Rows) error {
			var c Cell
			err := rows.Scan(&c.Workload, &c.Target)
			cells = append(cells, c)
			return err
		})
	})
	return cells, err
}

// With returns up to `limit` runs that have a trial of cell c, newest first. If name is not "", it returns only runs
// with that name.
func (s *Store) With(ctx context.Context, c Cell, name string, limit int) ([]iotax.Run, error) {
	return s.list(ctx, "list runs of a cell", s.selectRuns()+` WHERE id IN (SELECT id FROM runs r WHERE ($3 = '' OR r.name = $3)
		AND EXISTS (SELECT 1 FROM trials WHERE trials.workload = $1 AND trials.target = $2 AND trials.run = r.id)
		ORDER BY r.started DESC, r.id DESC LIMIT $4) ORDER BY started DESC, id DESC`, c.Workload, c.Target, name, limit)
}
