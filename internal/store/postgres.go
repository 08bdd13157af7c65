package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"iotax"
)

// postgresDriver stores runs in a PostgreSQL database, which many hosts can write to.
type postgresDriver struct {
	config *pgx.ConnConfig
	on     string // the address without user, password and options
}

// schemaName is the schema of the tables if the address does not set search_path.
const schemaName = "iotax"

// postgresAddress matches the start of a PostgreSQL address: a URL or a libpq keyword. It also matches a URL that
// lacks a slash, because a mistyped address with a password must not become a file name.
var postgresAddress = regexp.MustCompile(`^\s*(?:(?:postgres|postgresql):|(?:application_name|channel_binding|client_encoding|connect_timeout|dbname|` +
	`fallback_application_name|gss\w+|host|hostaddr|keepalives\w*|krbsrvname|load_balance_hosts|options|passfile|password|port|replication|require\w+|` +
	`service|ssl\w+|target_session_attrs|tcp_user_timeout|user)\s*=)`)

// IsPostgres reports whether an address names a PostgreSQL database rather than a file. To name a file that looks
// like an address, write its path: ./user=x.
func IsPostgres(address string) bool { return postgresAddress.MatchString(address) }

func newPostgres(url string) (*postgresDriver, error) {
	scheme := "host=…"
	if before, _, ok := strings.Cut(url, ":"); ok && strings.HasPrefix(strings.TrimSpace(url), "postgres") {
		scheme = before + "://…"
		if !strings.HasPrefix(url, before+"://") {
			return nil, badAddress(scheme)
		}
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The library's message may contain the address with its password.
		return nil, badAddress(scheme)
	}
	if config.RuntimeParams["search_path"] == "" {
		config.RuntimeParams["search_path"] = schemaName
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "iotax"
	}
	if config.RuntimeParams["idle_in_transaction_session_timeout"] == "" {
		config.RuntimeParams["idle_in_transaction_session_timeout"] = "5min" // a stopped iotax must not keep its locks
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = patience
	}
	host := config.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, fmt.Sprint(config.Port))
	}
	return &postgresDriver{config, "postgres://" + strings.TrimPrefix(host, "/") + "/" + config.Database}, nil
}

func badAddress(on string) error {
	return &iotax.Error{Op: "open store", On: on, Err: errors.New("the address cannot be read"),
		Hint: "write postgres://USER@HOST:PORT/DATABASE; a password is best kept in PGPASSWORD or ~/.pgpass, and % signs and slashes in one are written %25 and %2F"}
}

func (d *postgresDriver) open(ctx context.Context) (*sql.DB, error) {
	db := stdlib.OpenDB(*d.config)
	// A server accepts a hundred connections by default, and a fleet may have more writers. Each writer therefore
	// releases its connection between trials.
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(1)
	db.SetConnMaxIdleTime(2 * time.Second)
	return opened(ctx, db, d)
}

func (d *postgresDriver) schema() (kind string, dialect goose.Dialect, on, another string) {
	return "postgres", goose.DialectPostgres, d.on, "URL"
}

// migrationLock is the key of the advisory lock for schema changes: "iotx" twice.
const migrationLock = applicationID<<32 | applicationID

func (d *postgresDriver) alone(ctx context.Context, db *sql.DB, change func(prepare func(version int) error) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
		return err
	}
	defer func() { // the end of the session also unlocks
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(migrationLock))
	}()
	return change(func(int) error { return d.makeSchema(ctx, conn) })
}

// makeSchema creates the schema for the tables if it is missing. CREATE SCHEMA IF NOT EXISTS would need the privilege
// to create schemas even if the schema exists.
func (d *postgresDriver) makeSchema(ctx context.Context, conn *sql.Conn) error {
	var there bool
	if err := conn.QueryRowContext(ctx, `SELECT current_schema() IS NOT NULL`).Scan(&there); err != nil || there {
		return err
	}
	name, _, _ := strings.Cut(d.config.RuntimeParams["search_path"], ",")
	_, err := conn.ExecContext(ctx, `CREATE SCHEMA `+pgx.Identifier{strings.Trim(strings.TrimSpace(name), `"`)}.Sanitize())
	return err
}

// version returns the schema version, or 0 if the database has no tables of iotax.
func (d *postgresDriver) version(ctx context.Context, db *sql.DB) (int, error) {
	var ours, others bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL AND to_regclass('measured') IS NOT NULL,
		to_regclass('runs') IS NOT NULL AND to_regclass('measured') IS NULL`).Scan(&ours, &others); err != nil {
		return 0, err
	}
	if others { // iotax creates both tables together, so another program made "runs"
		return 0, &iotax.Error{Op: "open store", On: d.on, Err: errors.New("it holds the tables of another program"),
			Hint: "leave search_path out of the address, so that the tables come into a schema of their own"}
	}
	if !ours {
		return 0, nil
	}
	var version int
	err := db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	return version, err
}

// snapshot returns options that let all statements of a reader see the same state.
func (d *postgresDriver) snapshot() *sql.TxOptions {
	return &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
}

// postgresNow is an expression for the server's time in milliseconds.
const postgresNow = `(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT`

func (d *postgresDriver) beat() string {
	return `INSERT INTO runners (run, runner, seen) SELECT id, $2, ` + postgresNow + ` FROM runs WHERE id = $1 ON CONFLICT (run, runner) DO UPDATE SET seen = excluded.seen`
}

func (d *postgresDriver) silence() string {
	return `CASE WHEN status = 'running' THEN (SELECT ` + words(`b.runner || '=' || (`+postgresNow+` - b.seen)`) + ` FROM runners b WHERE b.run = runs.id) END`
}

// runner replaces escaped null bytes, which PostgreSQL cannot convert to text.
func (d *postgresDriver) runner(column string) string {
	return `replace(` + column + `, '\u0000', '\u0001')::json #>> '{environment,` + runnerKey + `}'`
}

const (
	pgTooManyConnections = "53300"
	pgDiskFull           = "53100"
	pgUnique             = "23505"
	pgNoDatabase         = "3D000"
	pgNoRight            = "42501"
	pgStarting           = "57P03" // cannot_connect_now
	pgShutdown           = "57P01"
	pgWrongPassword      = "28P01"
	pgWrongLogin         = "28000"
)

func pgCode(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// shrink does nothing, because autovacuum frees space.
func (d *postgresDriver) shrink(*sql.DB) {}

// again reports whether another attempt may succeed after err. SQLite itself waits up to its busy timeout before it
// returns SQLITE_BUSY.
func again(err error) bool {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code()&0xff == sqlite3.SQLITE_BUSY
	}
	switch pgCode(err) {
	case pgTooManyConnections, pgStarting, pgShutdown:
		return true
	}
	return false
}

func (d *postgresDriver) explain(op string, err error) error {
	out := &iotax.Error{Op: op, On: "in store " + d.on, Err: err}
	if op == "open" || op == "close" {
		out.Op, out.On = op+" store", d.on
	}
	const elsewhere = "or use another store: --store URL"
	var refused *pgconn.ConnectError
	var broken net.Error
	switch pgCode(err) {
	case "":
		switch {
		case errors.As(err, &refused):
			// The library's message contains the user and the database. The cause is enough.
			out.Err = cmp.Or(causeOf(refused), errors.New("no connection"))
			out.Hint = "is the server up, and does it listen there? try `psql` with the same address; " + elsewhere
		case errors.As(err, &broken), errors.Is(err, net.ErrClosed):
			out.Hint = "the connection broke; is the server up? " + elsewhere
		}
	case pgTooManyConnections:
		out.Err = fmt.Errorf("the server has no connection left for %s", patience)
		out.Hint = "raise max_connections of the server, put a pooler (pgbouncer) before it, or run fewer at once"
	case pgDiskFull:
		out.Err = errors.New("the disk of the server is full")
		out.Hint = "free space there, " + elsewhere
	case pgUnique:
		out.Err = errors.New("it exists already")
		out.Hint = "does another iotax resume the same run, or has another one the same shard?"
	case pgNoDatabase:
		out.Err = fmt.Errorf("the database %s does not exist", d.config.Database)
		out.Hint = "make it: createdb " + iotax.Quote(d.config.Database) + ", " + elsewhere
	case pgWrongPassword, pgWrongLogin:
		out.Err = errors.New("the server refuses this user or password")
		out.Hint = "check the user in the address, and PGPASSWORD or ~/.pgpass"
	case pgNoRight:
		out.Hint = "GRANT CREATE ON DATABASE " + d.config.Database + " to the user for the first start, and USAGE on the schema " + schemaName + " with rights on its tables later"
	case pgStarting, pgShutdown:
		out.Hint = "wait until the server is up"
	}
	return out
}

// causeOf returns the innermost error. If several addresses failed, it follows the error of the last one.
func causeOf(err error) error {
	for {
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			next := e.Unwrap()
			if next == nil {
				return err
			}
			err = next
		case interface{ Unwrap() []error }:
			all := e.Unwrap()
			if len(all) == 0 {
				return err
			}
			err = all[len(all)-1]
		default:
			return err
		}
	}
}
