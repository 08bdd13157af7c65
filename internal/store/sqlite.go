package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"iotax"
)

// applicationID is the application_id in the header of every SQLite store: "iotx".
const applicationID = 0x696f7478

// patience is the time limit for waiting for another writer or for a database server. Only tests change it.
var patience = 10 * time.Second

// savePatience is the time limit for waiting to save results of a run, and for any write in PostgreSQL. It is longer
// than the removal of a large run takes, because a run ends if its results cannot be saved. Only tests change it.
var savePatience = 5 * time.Minute

// sqliteDriver stores runs in a SQLite file.
type sqliteDriver struct {
	path     string
	named    bool // the user named the file; its directory must exist, because the name may be mistyped
	existing bool // a named file must exist too
}

// dsn returns a "file:" URI, so that the path may contain any character.
func (d *sqliteDriver) dsn() string {
	path := filepath.ToSlash(d.path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	u := url.URL{Scheme: "file", Path: path}
	q := url.Values{"_txlock": {"immediate"}, "_error_rc": {"true"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds()),
		"foreign_keys(1)",
		// A saved trial must survive a power failure.
		"synchronous(FULL)",
	}}
	return u.String() + "?" + q.Encode()
}

func (d *sqliteDriver) open(ctx context.Context) (*sql.DB, error) {
	if err := d.makeFile(); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", d.dsn())
	if err != nil {
		return nil, d.explain("open", err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(2)
	return opened(ctx, db, d)
}

func (d *sqliteDriver) schema() (kind string, dialect goose.Dialect, on, another string) {
	return "sqlite", goose.DialectSQLite3, d.path, "PATH"
}

// makeFile creates the file if it is missing and, for the default store, its directory. Only the owner can access them,
// because plans contain host names and paths.
func (d *sqliteDriver) makeFile() error {
	switch dir := filepath.Dir(d.path); {
	case !d.named:
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return d.explain("open", err)
		}
	case missing(dir):
		return &iotax.Error{Op: "open store", On: d.path, Err: fmt.Errorf("the directory %s does not exist", dir), Hint: "name another file: --store PATH; or make the directory: mkdir -p " + iotax.Quote(dir)}
	case d.existing && missing(d.path):
		return &iotax.Error{Op: "open store", On: d.path, Err: errors.New("the file does not exist"), Hint: "name another file: --store PATH; `iotax run` and `iotax import` make one"}
	}
	f, err := os.OpenFile(d.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return d.explain("open", err)
	}
	defer f.Close()
	// SQLite treats a file of one byte as an empty database, and would overwrite it.
	var head [len(magic)]byte
	if n, err := f.ReadAt(head[:], 0); n > 0 && string(head[:]) != magic {
		return d.notADatabase()
	} else if err != nil && err != io.EOF {
		return d.explain("open", err)
	}
	return nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// magic is the start of every SQLite file.
const magic = "SQLite format 3\x00"

func (d *sqliteDriver) notADatabase() error {
	return &iotax.Error{Op: "open store", On: d.path, Err: errors.New("the file is not a database"), Hint: "name another file: --store PATH"}
}

// alone uses a separate lock file: goose has no lock for SQLite, and two processes may create a store at the same
// time. A lock on the database file could collide with SQLite's own locks.
func (d *sqliteDriver) alone(ctx context.Context, db *sql.DB, change func(prepare func(version int) error) error) error {
	lock := flock.New(d.path+".lock", flock.SetPermissions(0o600))
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if ok, err := lock.TryLockContext(wait, 10*time.Millisecond); err != nil || !ok {
		if ctx.Err() == nil && wait.Err() != nil {
			return d.locked("open store", d.path)
		}
		return err
	}
	defer func() { _ = lock.Unlock() }()
	return change(func(version int) error {
		// auto_vacuum must be set before the first table. The last pragma changes nothing, but fails on a full disk,
		// where goose would retry for seconds.
		for _, pragma := range []string{"auto_vacuum = INCREMENTAL", "journal_mode = WAL", fmt.Sprint("user_version = ", version)} {
			if _, err := db.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
				return err
			}
		}
		return nil
	})
}

// version returns the schema version of the file, or 0 if the file has no tables.
func (d *sqliteDriver) version(ctx context.Context, db *sql.DB) (int, error) {
	var id, version, tables int
	err := db.QueryRowContext(ctx, `SELECT a.application_id, u.user_version, (SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%')
		FROM pragma_application_id a, pragma_user_version u`).Scan(&id, &version, &tables)
	if err != nil {
		return 0, err
	}
	if id != applicationID && (id != 0 || version != 0 || tables != 0) {
		return 0, &iotax.Error{Op: "open store", On: d.path, Err: errors.New("it is a database of another program"), Hint: "name another file: --store PATH"}
	}
	return version, nil
}

// shrink returns free pages to the file system. It ignores errors, because SQLite reuses free pages. It frees them in
// steps. Between two steps it sleeps longer than a waiting writer does, so that the writer gets the lock.
func (d *sqliteDriver) shrink(db *sql.DB) {
	free := func() (n int) {
		_ = db.QueryRow("SELECT freelist_count FROM pragma_freelist_count").Scan(&n)
		return n
	}
	for n, before := free(), math.MaxInt; n > 0 && n < before; before, n = n, free() {
		if before < math.MaxInt {
			time.Sleep(120 * time.Millisecond)
		}
		if rows, err := db.Query("PRAGMA incremental_vacuum(4096)"); err == nil {
			for rows.Next() {
			}
			_ = errors.Join(rows.Err(), rows.Close())
		}
	}
	_, _ = db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
}

// snapshot needs no isolation level: a SQLite transaction always reads one state.
func (d *sqliteDriver) snapshot() *sql.TxOptions { return &sql.TxOptions{ReadOnly: true} }

// beat returns "": regular writes would disturb measurements of the disk that contains the file.
func (d *sqliteDriver) beat() string    { return "" }
func (d *sqliteDriver) silence() string { return "NULL" }

func (d *sqliteDriver) runner(column string) string {
	return "CASE WHEN json_valid(" + column + ") THEN json_extract(" + column + ", '$.environment." + runnerKey + "') END" // json_extract fails on damaged text
}

func (d *sqliteDriver) locked(op, on string) error {
	return &iotax.Error{Op: op, On: on, Err: fmt.Errorf("another process has locked it for more than %s", patience), Hint: "wait for the other iotax to end (`fuser " + iotax.Quote(d.path) + "` names it), or use another store: --store PATH"}
}

func (d *sqliteDriver) explain(op string, err error) error {
	out := &iotax.Error{Op: op, On: "in store " + d.path, Err: err}
	if op == "open" || op == "close" {
		out.Op, out.On = op+" store", d.path
	}
	const elsewhere = "or use another store: --store PATH"
	code := -1
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		code = e.Code()
	}
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return d.locked(out.Op, out.On)
	case sqlite3.SQLITE_FULL:
		out.Err = errors.New("the disk is full")
		out.Hint = "free space under " + filepath.Dir(d.path) + ", " + elsewhere
	case sqlite3.SQLITE_IOERR:
		out.Hint = "`dmesg` may show a failing disk; " + elsewhere[len("or "):]
		if code == sqlite3.SQLITE_IOERR_SHMSIZE { // there is no space for the shared-memory file (-shm)
			out.Err = errors.New("the disk is full")
			out.Hint = "free space under " + filepath.Dir(d.path) + ", " + elsewhere
		}
	case sqlite3.SQLITE_READONLY:
		out.Err = errors.New("it cannot be written")
		out.Hint = "allow writing to the file and its directory, " + elsewhere
	case sqlite3.SQLITE_NOTADB:
		return d.notADatabase()
	case sqlite3.SQLITE_CORRUPT:
		out.Err = fmt.Errorf("the file is damaged (%w)", err)
		out.Hint = "save a copy; `sqlite3 " + iotax.Quote(d.path) + " .recover` prints what can be read; then move the file away to begin a new store"
	case sqlite3.SQLITE_CANTOPEN:
		out.Hint = "check the permissions of " + filepath.Dir(d.path) + ", " + elsewhere
	case sqlite3.SQLITE_CONSTRAINT:
		if code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY {
			out.Err = errors.New("it exists already")
			out.Hint = "does another iotax resume the same run?"
		}
	}
	var path *fs.PathError
	switch {
	case code >= 0:
	case errors.Is(err, syscall.ENOSPC):
		out.Hint = "free space under " + filepath.Dir(d.path) + ", " + elsewhere
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		out.Hint = "allow writing to the file and its directory, " + elsewhere
	case errors.Is(err, syscall.EISDIR):
		out.Hint = "name a file: --store " + iotax.Quote(filepath.Join(d.path, "iotax.db"))
	case errors.As(err, &path):
		out.Hint = "name another file: --store PATH"
	}
	return out
}
