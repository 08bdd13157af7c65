// Package store saves runs and their trials. It saves each trial in a transaction of its own, together with the raw
// output of its tool, so a crash does not lose finished trials.
//
// A store is a SQLite file or a PostgreSQL database. The type driver hides the differences. The SQL in this file works
// with both.
package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"iotax"
)

// ErrNotFound reports that a run or trial is not in the store.
var ErrNotFound = errors.New("not found")

// A Store contains runs. Its methods may be called from several goroutines, and several processes may open the same
// store.
//
// Methods that write, except Beat, continue after their context is done, so that Ctrl-C does not lose earlier results.
// They return an error if the store stays locked.
type Store struct {
	db  *sql.DB
	drv driver
	on  string // name of the store in errors and String

	// SQLite allows one writer at a time, and other writers must poll. Writers within this process wait for this lock
	// instead.
	writing sync.Mutex

	settle func(*iotax.Run, Pulse) // see Settle; may be nil
}

// A driver is a kind of database. Its methods may be called from several goroutines.
type driver interface {
	// open connects to the database and updates the schema. It returns an error if a newer version of iotax made the
	// schema.
	open(ctx context.Context) (*sql.DB, error)
	// explain converts an error of the database into an *iotax.Error for the user, with a hint if possible.
	explain(op string, err error) error
	// snapshot returns the options of a transaction that sees a single state.
	snapshot() *sql.TxOptions
	// shrink returns free pages to the file system after runs were removed.
	shrink(db *sql.DB)
	// beat returns the statement that records that the runner $2 of the run $1 is alive, or "" if hosts cannot share
	// the store.
	beat() string
	// silence returns an expression over the table runs: the time since the last beat of each runner of the run, in the
	// form that parsePulse reads.
	silence() string
	// runner returns an expression for the runner (runnerKey) of the run whose JSON is in `column`. It is NULL if the
	// run has no runner.
	runner(column string) string
}

// runnerKey is the key in Run.Environment under which a run records the process that measures it.
const runnerKey = "runner"

// Open opens the store at url and creates it if it does not exist. url is a path, sqlite://PATH, file://PATH,
// postgres://USER@HOST/DATABASE, the equivalent libpq keywords (host=HOST dbname=DATABASE), or "" for the default
// store (see Default). The directory of a named file must exist, and so must the PostgreSQL database.
func Open(ctx context.Context, url string) (*Store, error) { return openURL(ctx, url, false) }

// OpenExisting is like Open, but a named file must exist.
func OpenExisting(ctx context.Context, url string) (*Store, error) { return openURL(ctx, url, true) }

func openURL(ctx context.Context, url string, existing bool) (*Store, error) {
	s := &Store{}
	if IsPostgres(url) {
		drv, err := newPostgres(url)
		if err != nil {
			return nil, err
		}
		s.drv, s.on = drv, drv.on
	} else {
		path, err := locate(url)
		if err != nil {
			return nil, err
		}
		s.drv, s.on = &sqliteDriver{path: path, named: url != "", existing: existing}, path
	}
	var err error
	if s.db, err = s.drv.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Settle registers f, which the store calls for every run that it reads with the status running. A process that was
// killed could not save the final status of its run, so f may set the status and add a finding. Reading a run does not
// save these changes, but Claim does. Settle must be called before the store is read.
func (s *Store) Settle(f func(*iotax.Run, Pulse)) { s.settle = f }

// Default returns the path of the user's default store: iotax/iotax.db in the state directory of the XDG Base
// Directory Specification.
func Default() (string, error) {
	// The specification requires programs to ignore a relative path here.
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "iotax", "iotax.db"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &iotax.Error{Op: "find the store", Err: err, Hint: "name one with --store PATH"}
	}
	return filepath.Join(home, ".local", "state", "iotax", "iotax.db"), nil
}

// Exists reports whether Open would find an existing store. It also returns true for every PostgreSQL address, without
// connecting, and if an error prevents the check.
func Exists(url string) bool {
	if IsPostgres(url) {
		return true
	}
	path, err := locate(url)
	if err == nil {
		_, err = os.Stat(path)
	}
	return !errors.Is(err, os.ErrNotExist)
}

func locate(url string) (string, error) {
	if url == "" {
		return Default()
	}
	path := url
	// A single letter before the colon is a Windows drive, not a scheme.
	if scheme, rest, ok := strings.Cut(url, "://"); ok && len(scheme) > 1 {
		switch scheme {
		case "sqlite", "file":
			path = rest
		default: // the address may contain a password
			return "", &iotax.Error{Op: "open store", On: scheme + "://…", Err: fmt.Errorf("unknown kind of store %q", scheme), Hint: "use a path, sqlite://PATH or postgres://USER@HOST/DATABASE"}
		}
	}
	if path == "" {
		return "", &iotax.Error{Op: "open store", On: url, Err: errors.New("the path is empty"), Hint: "use sqlite:///absolute/path or sqlite://relative/path"}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", &iotax.Error{Op: "open store", On: path, Err: err}
	}
	return abs, nil
}

// String returns the name of the store for messages.
func (s *Store) String() string { return s.on }

// Close closes the store. Iterators that are still in use return errors.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return s.drv.explain("close", err)
	}
	return nil
}

// write runs fn in one transaction. It ignores the cancellation of ctx. The limit for waiting for other writers is
// patience.
func (s *Store) write(ctx context.Context, op string, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return s.writeWithin(ctx, patience, op, fn)
}

// save is like write, but with the limit savePatience.
func (s *Store) save(ctx context.Context, op string, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return s.writeWithin(ctx, savePatience, op, fn)
}

func (s *Store) writeWithin(ctx context.Context, wait time.Duration, op string, fn func(ctx context.Context, tx *sql.Tx) error) error {
	ctx = context.WithoutCancel(ctx)
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.Shared() { // the server may stop answering, or another session may hold a lock without end
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, savePatience, &iotax.Error{Op: op, On: "in store " + s.on, Err: fmt.Errorf("the server did not complete it within %s", savePatience),
			Hint: "is the server up? the view pg_stat_activity shows sessions that hold or wait for a lock; or use another store: --store URL"})
		defer cancel()
	}
	return s.transact(ctx, wait, op, nil, fn)
}

// read runs fn in a read-only transaction that sees a single state of the store.
func (s *Store) read(ctx context.Context, op string, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return s.transact(ctx, patience, op, s.drv.snapshot(), fn)
}

func (s *Store) transact(ctx context.Context, wait time.Duration, op string, o *sql.TxOptions, fn func(ctx context.Context, tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, o)
	for p := newPauses(wait); err != nil && again(err) && p.wait(ctx); {
		tx, err = s.db.BeginTx(ctx, o) // safe, because no statement has run yet
	}
	if err != nil {
		return s.explain(ctx, op, err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := fn(ctx, tx); err != nil {
		return s.explain(ctx, op, err)
	}
	if err := tx.Commit(); err != nil {
		return s.explain(ctx, op, err)
	}
	return nil
}

// pauses computes the delays between attempts, until a time limit. The delays grow and are randomized, because
// many processes may be waiting.
type pauses struct {
	next time.Duration
	end  time.Time
}

func newPauses(limit time.Duration) *pauses {
	return &pauses{10 * time.Millisecond, time.Now().Add(limit)}
}

// wait sleeps until the next attempt. It returns false if no time is left or ctx is done.
func (p *pauses) wait(ctx context.Context) bool {
	d := p.next/2 + rand.N(p.next)
	p.next = min(2*p.next, time.Second)
	if time.Now().Add(d).After(p.end) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// forEach calls f for each row of a query.
func forEach(ctx context.Context, tx *sql.Tx, query string, args []any, f func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// explain converts a database error into one with a hint. It returns an *iotax.Error unchanged, and the cause of the
// cancellation if ctx is done.
func (s *Store) explain(ctx context.Context, op string, err error) error {
	if e := (*iotax.Error)(nil); errors.As(err, &e) {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.drv.explain(op, err)
}

const runColumns = `id, name, version, plan, seed, started, ended, status, baseline, precision, margin, alpha,
	environment, targets, workloads, findings, calibration, presentation`

const (
	insertRun = `INSERT INTO runs (` + runColumns + `, words) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`
	updateRun = `UPDATE runs SET (` + runColumns + `, words) = ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) WHERE id = $1`
)

// putRun writes r with a statement that takes runColumns and the search text. It returns the number of changed rows.
func putRun(ctx context.Context, tx *sql.Tx, statement string, r *iotax.Run) (int64, error) {
	row := []any{
		r.ID, r.Name, r.Version, nonNil(r.Plan), formatSeed(r.Seed), formatTime(r.Start), formatTime(r.End),
		string(r.Status), r.Baseline, r.Precision, r.Margin, r.Alpha,
	}
	for _, v := range []any{r.Environment, r.Targets, r.Workloads, r.Findings, r.Calibration, r.Presentation} {
		b, err := json.Marshal(v)
		if err != nil {
			return 0, err
		}
		row = append(row, string(b))
	}
	res, err := tx.ExecContext(ctx, statement, append(row, searched(r))...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Create adds the run r without trials. It returns an error if the id exists.
func (s *Store) Create(ctx context.Context, r *iotax.Run) error {
	if err := checkID(r.ID); err != nil {
		return &iotax.Error{Op: "save run", On: r.ID, Err: err}
	}
	return s.write(ctx, "save run "+r.ID, func(ctx context.Context, tx *sql.Tx) error {
		_, err := putRun(ctx, tx, insertRun, r)
		return err
	})
}

// Update replaces the run with the id r.ID. The error wraps ErrNotFound if the run does not exist.
func (s *Store) Update(ctx context.Context, r *iotax.Run) error {
	return s.save(ctx, "save run "+r.ID, func(ctx context.Context, tx *sql.Tx) error {
		n, err := putRun(ctx, tx, updateRun, r)
		if err == nil && n == 0 {
			return s.gone(r.ID)
		}
		return err
	})
}

func (s *Store) gone(id string) error {
	return &iotax.Error{Op: "find run", On: id, Err: fmt.Errorf("%w in %s", ErrNotFound, s.on), Hint: "`iotax list` shows the runs; use --store for another store"}
}

// Append saves a finished trial, completely or not at all. When it returns nil, the trial survives a crash of the
// program and of the machine. Seq must be unique within a run.
func (s *Store) Append(ctx context.Context, t *iotax.Trial) error {
	labels, err1 := json.Marshal(t.Labels)
	facts, err2 := json.Marshal(t.Facts)
	findings, err3 := json.Marshal(t.Findings)
	series, err4 := packJSON(t.Series)
	intervals, err5 := packJSON(t.Intervals)
	raw, err6 := pack(t.Raw)
	metrics, values, err7 := packValues(t.Values)
	profile, err8 := pack(t.Profile)
	if err := cmp.Or(err1, err2, err3, err4, err5, err6, err7, err8); err != nil {
		return &iotax.Error{Op: "save trial", On: t.Cell(), Err: err}
	}
	histograms := packHistograms(t.Histograms)
	return s.save(ctx, fmt.Sprintf("save trial %d of run %s", t.Seq+1, t.Run), func(ctx context.Context, tx *sql.Tx) error {
		var found int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM runs WHERE id = $1`, t.Run).Scan(&found); err != nil {
			return err
		} else if found == 0 {
			return s.gone(t.Run) // for example because another process has removed it
		}
		var id int64
		err := tx.QueryRowContext(ctx, `INSERT INTO trials (run, seq, round, start_index, target, workload, seed, ramp_ns,
				length_ns, cold, started, took_ns, labels, facts, findings, err, discarded)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) RETURNING id`,
			t.Run, t.Seq, t.Round, t.StartIndex, t.Target, t.Workload, formatSeed(t.Seed), int64(t.Ramp), int64(t.Length), t.Cold,
			formatTime(t.Start), int64(t.Took), string(labels), string(facts), string(findings), text(t.Err), text(t.Discarded)).Scan(&id)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO measured (trial, metrics, vals, histograms) VALUES ($1, $2, $3, $4)`, id, string(metrics), string(values), histograms); err != nil {
			return err
		}
		for kind, data := range map[string][]byte{kindSeries: series, kindIntervals: intervals, kindRaw: raw, kindProfile: profile} {
			if data == nil {
				continue
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO blobs (trial, kind, data) VALUES ($1, $2, $3)`, id, kind, data); err != nil {
				return err
			}
		}
		return nil
	})
}

const kindSeries, kindIntervals, kindRaw, kindProfile = "series", "intervals", "raw", "profile"

// Runs returns every run, oldest first.
func (s *Store) Runs(ctx context.Context) ([]iotax.Run, error) {
	return s.list(ctx, "list runs", s.selectRuns()+` ORDER BY started, id`)
}

// list returns the runs of a query built with selectRuns.
func (s *Store) list(ctx context.Context, op, query string, args ...any) (runs []iotax.Run, err error) {
	err = s.read(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		return forEach(ctx, tx, query, args, func(rows *sql.Rows) error {
			var r iotax.Run
			_, err := s.scanRun(rows, &r)
			runs = append(runs, r)
			return err
		})
	})
	return runs, err
}

// runTexts lists the columns of a run that contain JSON.
var runTexts = [...]string{"environment", "targets", "workloads", "findings", "calibration", "presentation"}

func (s *Store) scanRun(row interface{ Scan(...any) error }, r *iotax.Run) (heard Pulse, err error) {
	var seed string
	var start, end, silent, open sql.NullString
	var texts [len(runTexts)][]byte
	if err := row.Scan(&r.ID, &r.Name, &r.Version, &r.Plan, &seed, &start, &end, (*string)(&r.Status), &r.Baseline,
		&r.Precision, &r.Margin, &r.Alpha, &texts[0], &texts[1], &texts[2], &texts[3], &texts[4], &texts[5], &silent, &open); err != nil {
		return heard, spot{run: r.ID}.scanned(err)
	}
	at := spot{run: r.ID}
	// Continue after a damaged column: Remove needs the other columns to decide whether the run is still running.
	r.Seed, err = parseSeed(seed)
	errs := []error{at.damaged("seed", err)}
	r.Start, err = parseTime(start)
	errs = append(errs, at.damaged("started", err))
	r.End, err = parseTime(end)
	errs = append(errs, at.damaged("ended", err))
	for i, v := range []any{&r.Environment, &r.Targets, &r.Workloads, &r.Findings, &r.Calibration, &r.Presentation} {
		errs = append(errs, at.unmarshal(runTexts[i], texts[i], v))
	}
	heard = parsePulse(silent, open)
	if s.settle != nil && r.Status == iotax.Running {
		s.settle(r, heard)
	}
	return heard, cmp.Or(errs...)
}

// A Tally counts the trials of a run.
type Tally struct {
	Trials    int `json:"trials"`    // all trials
	Failed    int `json:"failed"`    // trials with an error
	Discarded int `json:"discarded"` // discarded trials, except failed ones
}

// Tallies counts the trials of every run that has trials.
func (s *Store) Tallies(ctx context.Context) (map[string]Tally, error) {
	var tallies map[string]Tally
	err := s.read(ctx, "count trials", func(ctx context.Context, tx *sql.Tx) (err error) {
		tallies, err = tally(ctx, tx, "")
		return err
	})
	return tallies, err
}

func tally(ctx context.Context, tx *sql.Tx, where string, args ...any) (map[string]Tally, error) {
	tallies := map[string]Tally{}
	err := forEach(ctx, tx, `SELECT run, count(*), sum(CASE WHEN err <> '' THEN 1 ELSE 0 END),
		sum(CASE WHEN err = '' AND discarded <> '' THEN 1 ELSE 0 END) FROM trials`+where+` GROUP BY run`, args, func(rows *sql.Rows) error {
		var id string
		var t Tally
		err := rows.Scan(&id, &t.Trials, &t.Failed, &t.Discarded)
		tallies[id] = t
		return err
	})
	return tallies, err
}

// Get returns the run that ref names. ref is one of:
//
//   - an id, or a unique prefix of an id
//   - "latest": the newest run with trials, or the newest run if no run has trials
//   - "newest": the newest run, with or without trials
//   - NAME: the newest run with this name that has trials
//   - "latest~N" or NAME~N: the run N places before that one, among the runs with trials (and this name)
//
// If the error wraps ErrDamaged, Get also returns the readable fields.
func (s *Store) Get(ctx context.Context, ref string) (*iotax.Run, error) {
	r := new(iotax.Run)
	err := s.read(ctx, "find run "+ref, func(ctx context.Context, tx *sql.Tx) error {
		id, err := s.resolve(ctx, tx, ref)
		if err != nil {
			return err
		}
		_, err = s.scanRun(tx.QueryRowContext(ctx, s.selectRuns()+` WHERE id = $1`, id), r)
		return err
	})
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	return r, err
}

func (s *Store) resolve(ctx context.Context, tx *sql.Tx, ref string) (string, error) {
	var id string
	if ref == "" {
		return "", &iotax.Error{Op: "find run", Err: errors.New("its name is empty"), Hint: "name a run that `iotax list` shows, or latest"}
	}
	if ref == "latest" || ref == "newest" {
		empty := "CASE WHEN EXISTS (SELECT 1 FROM trials WHERE trials.run = runs.id) THEN 0 ELSE 1 END, "
		if ref == "newest" {
			empty = ""
		}
		err := tx.QueryRowContext(ctx, `SELECT id FROM runs ORDER BY `+empty+`started DESC, id DESC LIMIT 1`).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return "", &iotax.Error{Op: "find run", On: ref, Err: fmt.Errorf("%w: there is no run in %s", ErrNotFound, s.on), Hint: "make one with `iotax run`, or name another store with --store"}
		}
		return id, err
	}
	const most = 8
	var ids, lines []string
	if err := forEach(ctx, tx, `SELECT id, name FROM runs WHERE substr(id, 1, length($1)) = $1
		ORDER BY CASE WHEN id = $1 THEN 0 ELSE 1 END, id DESC LIMIT $2`, []any{ref, most + 1}, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&id, &name)
		ids, lines = append(ids, id), append(lines, strings.TrimSpace(id+" "+name))
		return err
	}); err != nil {
		return "", err
	}
	switch {
	case len(ids) == 0:
		return s.byHistory(ctx, tx, ref)
	case len(ids) == 1 || ids[0] == ref:
		return ids[0], nil
	}
	if len(lines) > most {
		lines = append(lines[:most], "…")
	}
	return "", &iotax.Error{Op: "find run", On: ref, Err: fmt.Errorf("several ids begin so:\n    %s", strings.Join(lines, "\n    ")), Hint: "give more of the id"}
}

// Depth selects how much of a trial is read. No depth includes profiles (see Profile and Parts.Profiles) or raw output
// (see Raw).
type Depth int

const (
	Full  Depth = iota // with series, intervals and histograms
	Brief              // without series, intervals and histograms; several times faster to read
)

// Trials returns all trials of a run in the order of Seq, without raw output and profiles.
func (s *Store) Trials(ctx context.Context, ref string) ([]*iotax.Trial, error) {
	var trials []*iotax.Trial
	for t, err := range s.Each(ctx, ref, Full) {
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
	}
	return trials, nil
}

// Each iterates over the trials of a run in the order of Seq, without raw output and profiles. It may include trials
// that are added during the iteration. An error ends the iteration.
func (s *Store) Each(ctx context.Context, ref string, depth Depth) iter.Seq2[*iotax.Trial, error] {
	return s.each(ctx, ref, depth.selection(math.MinInt64))
}

// After is like Each, but starts after the trial with the given Seq.
func (s *Store) After(ctx context.Context, ref string, seq int, depth Depth) iter.Seq2[*iotax.Trial, error] {
	return s.each(ctx, ref, depth.selection(int64(seq)))
}

// A selection selects trials of a run and the parts of them to read.
type selection struct {
	after      int64  // read trials with a larger Seq
	workload   string // "" means all
	seqs       []int  // nil means all
	head       bool   // everything except the parts below
	values     bool
	histograms bool
	series     bool
	intervals  bool
	profiles   bool
	share      *shared                   // used with head; see shared
	metrics    *map[string][]iotax.Value // see readValues
}

func (d Depth) selection(after int64) selection {
	return selection{after: after, head: true, values: true, histograms: d == Full, series: d == Full, intervals: d == Full}
}

func (s *Store) each(ctx context.Context, ref string, sel selection) iter.Seq2[*iotax.Trial, error] {
	// Read in pages: with one long query, a slow reader would keep SQLite from truncating its log, and PostgreSQL's
	// driver allows only one open query per connection.
	size := 512
	if sel.series {
		size = 16
	}
	return func(yield func(*iotax.Trial, error) bool) {
		var id string
		err := s.read(ctx, "find run "+ref, func(ctx context.Context, tx *sql.Tx) (err error) {
			id, err = s.resolve(ctx, tx, ref)
			return err
		})
		sel := sel
		sel.metrics = new(map[string][]iotax.Value)
		var page []*iotax.Trial
		for err == nil {
			if sel.head { // the caller may keep these trials
				page = nil
			}
			err = s.read(ctx, "read run "+id, func(ctx context.Context, tx *sql.Tx) (err error) {
				page, err = s.page(ctx, tx, id, sel, size, page)
				return err
			})
			if err != nil {
				break
			}
			for _, t := range page {
				if !yield(t, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			sel.after = int64(page[len(page)-1].Seq)
		}
		yield(nil, err)
	}
}

// page reads up to `size` trials of a selection. It reuses the memory of the values and histograms of the trials in
// `spare`.
func (s *Store) page(ctx context.Context, tx *sql.Tx, run string, sel selection, size int, spare []*iotax.Trial) ([]*iotax.Trial, error) {
	columns, from := "t.seq", "trials t"
	if sel.head {
		columns += ", t.round, t.start_index, t.target, t.workload, t.seed, t.ramp_ns, t.length_ns, t.cold, t.started, t.took_ns, t.labels, t.facts, t.findings, t.err, t.discarded"
	}
	if sel.values || sel.histograms {
		from += " JOIN measured m ON m.trial = t.id"
	}
	if sel.values {
		columns += ", m.metrics, m.vals"
	}
	if sel.histograms {
		columns += ", m.histograms"
	}
	where, args := `t.run = $1 AND t.seq > $2`, []any{run, sel.after, size}
	if sel.seqs != nil {
		where += ` AND t.seq IN (` + list(sel.seqs) + `)`
	}
	if sel.workload != "" { // without this condition, the index on seq suffices
		where, args = where+` AND t.workload = $4`, append(args, sel.workload)
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+columns+` FROM `+from+` WHERE `+where+` ORDER BY t.seq LIMIT $3`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	page, bySeq := make([]*iotax.Trial, 0, size), make(map[int]*iotax.Trial, size)
	var seed string
	var start sql.NullString
	var labels, facts, findings, metrics, vals, packed sql.RawBytes
	for rows.Next() {
		t := &iotax.Trial{Run: run}
		if n := len(page); n < len(spare) {
			t.Values, t.Histograms = spare[n].Values[:0], spare[n].Histograms[:0]
		}
		into := []any{&t.Seq}
		if sel.head {
			into = append(into, &t.Round, &t.StartIndex, &t.Target, &t.Workload, &seed, &t.Ramp, &t.Length, &t.Cold, &start, &t.Took, &labels, &facts, &findings, &t.Err, &t.Discarded)
		}
		if sel.values {
			into = append(into, &metrics, &vals)
		}
		if sel.histograms {
			into = append(into, &packed)
		}
		if err := rows.Scan(into...); err != nil {
			return nil, spot{run, t.Seq}.scanned(err)
		}
		at := spot{run, t.Seq}
		if sel.head {
			if t.Seed, err = parseSeed(seed); err != nil {
				return nil, at.damaged("seed", err)
			}
			if t.Start, err = parseTime(start); err != nil {
				return nil, at.damaged("started", err)
			}
			if sel.share != nil {
				err = sel.share.fill(t, at, facts, findings)
			} else {
				err = cmp.Or(at.unmarshal("labels", labels, &t.Labels), at.unmarshal("facts", facts, &t.Facts), at.unmarshal("findings", findings, &t.Findings))
			}
			if err != nil {
				return nil, err
			}
		}
		if sel.values {
			if t.Values, err = readValues(sel.metrics, metrics, vals, t.Values); err != nil {
				return nil, at.damaged("vals", err)
			}
		}
		if sel.histograms {
			if t.Histograms, err = unpackHistograms(packed, t.Histograms); err != nil {
				return nil, at.damaged("histograms", err)
			}
		}
		page, bySeq[t.Seq] = append(page, t), t
	}
	if err := rows.Err(); err != nil || len(page) == 0 {
		return page, err
	}
	rows.Close()
	for kind, wanted := range map[string]bool{kindSeries: sel.series, kindIntervals: sel.intervals, kindProfile: sel.profiles} {
		if wanted {
			err = cmp.Or(err, s.readBlobs(ctx, tx, run, kind, bySeq))
		}
	}
	return page, err
}

// list formats xs as a comma-separated list for SQL.
func list(xs []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(xs), " ", ","), "[]") }

// readBlobs reads the blobs of one kind (series, intervals or profiles) into trials, whose keys are Seq numbers.
func (s *Store) readBlobs(ctx context.Context, tx *sql.Tx, run, kind string, trials map[int]*iotax.Trial) error {
	return forEach(ctx, tx, `SELECT t.seq, b.data FROM trials t JOIN blobs b ON b.trial = t.id AND b.kind = $2
		WHERE t.run = $1 AND t.seq IN (`+list(slices.Collect(maps.Keys(trials)))+`)`, []any{run, kind}, func(rows *sql.Rows) (err error) {
		var seq int
		var data sql.RawBytes
		if err := rows.Scan(&seq, &data); err != nil {
			return spot{run, seq}.scanned(err)
		}
		switch t := trials[seq]; kind {
		case kindSeries:
			err = unpackJSON(data, &t.Series)
		case kindIntervals:
			err = unpackJSON(data, &t.Intervals)
		case kindProfile:
			t.Profile, err = unpack(data)
		}
		return spot{run, seq}.damaged(kind, err)
	})
}

// Raw returns the raw output of the tool in a trial, or nil if the trial has none.
func (s *Store) Raw(ctx context.Context, ref string, seq int) ([]byte, error) {
	return s.blob(ctx, ref, seq, kindRaw)
}

// Profile returns the profile of a profiled trial, or nil if the trial has none.
func (s *Store) Profile(ctx context.Context, ref string, seq int) ([]byte, error) {
	return s.blob(ctx, ref, seq, kindProfile)
}

func (s *Store) blob(ctx context.Context, ref string, seq int, kind string) ([]byte, error) {
	var raw []byte
	err := s.read(ctx, fmt.Sprintf("read the %s output of trial %d of run %s", kind, seq+1, ref), func(ctx context.Context, tx *sql.Tx) error {
		id, err := s.resolve(ctx, tx, ref)
		if err != nil {
			return err
		}
		var data []byte
		err = tx.QueryRowContext(ctx, `SELECT b.data FROM trials t LEFT JOIN blobs b ON b.trial = t.id AND b.kind = $3
			WHERE t.run = $1 AND t.seq = $2`, id, seq, kind).Scan(&data)
		if errors.Is(err, sql.ErrNoRows) {
			return &iotax.Error{Op: "find trial", On: fmt.Sprintf("%d of run %s", seq+1, id), Err: ErrNotFound, Hint: fmt.Sprintf("`iotax show %s` lists its trials", id)}
		}
		if err != nil || data == nil {
			return err
		}
		raw, err = unpack(data)
		return spot{id, seq}.damaged(kind, err)
	})
	return raw, err
}

// Claim lets `runner` take over the run `id`: it passes the run to f, saves the changes that f makes, and returns the
// run. No other process can change the run meanwhile. If f returns an error, Claim changes nothing and returns that
// error.
func (s *Store) Claim(ctx context.Context, id, runner string, f func(*iotax.Run, Pulse) error) (*iotax.Run, error) {
	var r *iotax.Run
	err := s.write(ctx, "take over run "+id, func(ctx context.Context, tx *sql.Tx) error {
		var heard Pulse
		var err error
		if r, heard, err = s.alone(ctx, tx, id); err != nil {
			return err
		}
		if err := f(r, heard); err != nil {
			return err
		}
		if _, err := putRun(ctx, tx, updateRun, r); err != nil || !s.Shared() {
			return err
		}
		_, err = tx.ExecContext(ctx, s.drv.beat(), id, runner) // so that other hosts see an active runner
		return err
	})
	return r, err
}

// alone locks the run `id` and reads it. No other process can change the run until the transaction ends.
func (s *Store) alone(ctx context.Context, tx *sql.Tx, id string) (*iotax.Run, Pulse, error) {
	if _, err := tx.ExecContext(ctx, `UPDATE runs SET status = status WHERE id = $1`, id); err != nil {
		return nil, Pulse{}, err
	}
	r := new(iotax.Run)
	heard, err := s.scanRun(tx.QueryRowContext(ctx, s.selectRuns()+` WHERE id = $1`, id), r)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.gone(id)
	}
	return r, heard, err
}

// Remove deletes the run `id` with all its trials and frees their space. It first passes the current run to `check`,
// unless that is nil. If `check` returns an error, nothing is deleted.
func (s *Store) Remove(ctx context.Context, id string, check func(*iotax.Run, Pulse) error) error {
	err := s.write(ctx, "remove run "+id, func(ctx context.Context, tx *sql.Tx) error {
		r, heard, err := s.alone(ctx, tx, id)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		if check != nil {
			if err := check(r, heard); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM runs WHERE id = $1`, id)
		return err
	})
	if err != nil {
		return err
	}
	s.drv.shrink(s.db)
	return nil
}

// text replaces invalid UTF-8 and removes null bytes, because PostgreSQL rejects both in a text column.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// stamp is RFC 3339 with a fixed width, so that timestamps sort as text.
const stamp = "2006-01-02T15:04:05.000000000Z"

func formatTime(t time.Time) sql.NullString {
	return sql.NullString{String: t.UTC().Format(stamp), Valid: !t.IsZero()}
}

func parseTime(s sql.NullString) (time.Time, error) {
	if !s.Valid {
		return time.Time{}, nil
	}
	return time.Parse(stamp, s.String)
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
