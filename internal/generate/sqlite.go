package generate

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"iotax"
	"iotax/internal/agent"
)

// A SQLite runs transactions in a SQLite database, one after the other on one connection. The tables and the
// transaction tpcb follow those of pgbench.
type SQLite struct {
	Dir          string // MakeSQLite creates it, replacing an old one
	Accounts     int
	Transaction  string
	Journal      string
	Synchronous  string
	Seed         uint64
	Ramp, Length time.Duration
}

var (
	// Journals are the journal modes of SQLite that store the journal in a file.
	Journals = []string{"wal", "delete", "truncate", "persist"}
	// Synchronous are the values of PRAGMA synchronous with which SQLite flushes.
	Synchronous = []string{"full", "normal", "extra"}
	// SQLTransactions are the names of the transactions: tpcb contains all statements, and each of the others contains
	// one of them.
	SQLTransactions = []string{"tpcb", "insert", "update", "select"}
)

var (
	// TrySQLite returns an error if SQLite cannot use the journal in Dir.
	TrySQLite = agent.New("try a database of SQLite", trySQLite)
	// MakeSQLite creates the database in Dir, replacing an old Dir.
	MakeSQLite = agent.New("make a database of SQLite", makeSQLite)
	// DoSQLite runs transactions for Ramp, without measuring them, and then for Length. Then it verifies the database.
	DoSQLite = agent.New("run transactions in SQLite", doSQLite)
)

const (
	sqlPage    = 4096
	sqlTellers = 10
)

// A sqlStatement is one statement of a transaction.
type sqlStatement struct {
	kind  string
	table string // table that it changes, or ""
	text  string // ?1 is the account, ?2 the teller, ?3 the amount
}

var sqlStatements = []sqlStatement{
	{"update", "accounts", "UPDATE accounts SET balance = balance + ?3 WHERE aid = ?1"},
	{"select", "", "SELECT balance FROM accounts WHERE aid = ?1"},
	{"update", "tellers", "UPDATE tellers SET balance = balance + ?3 WHERE tid = ?2"},
	{"update", "branches", "UPDATE branches SET balance = balance + ?3 WHERE bid = 1"},
	{"insert", "history", "INSERT INTO history (tid, aid, balance, mtime) VALUES (?2, ?1, ?3, CURRENT_TIMESTAMP)"},
}

// SQLiteSchema returns the statements that create the tables for a number of accounts.
func SQLiteSchema(accounts int) string {
	return fmt.Sprintf(`CREATE TABLE branches (bid INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
CREATE TABLE tellers (tid INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
CREATE TABLE accounts (aid INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
CREATE TABLE history (tid INTEGER, aid INTEGER, balance INTEGER, mtime TEXT);
INSERT INTO branches VALUES (1, 0, printf('%%88s', ''));
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) INSERT INTO tellers SELECT i, 0, printf('%%84s', '') FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) INSERT INTO accounts SELECT i, 0, printf('%%84s', '') FROM n;
`, sqlTellers, accounts)
}

func (s SQLite) statements() (all []sqlStatement) {
	for _, st := range sqlStatements {
		if s.Transaction == "tpcb" || s.Transaction == st.kind && (st.table == "" || st.table == "accounts" || st.table == "history") {
			all = append(all, st)
		}
	}
	return all
}

// Space returns the size of the database with its journal, and of a history of two million transactions, in bytes.
func (s SQLite) Space() int64 { return int64(s.Accounts)*110*2 + 80<<20 }

// open opens the database with one connection.
func (s SQLite) open(ctx context.Context) (*sql.DB, *sql.Conn, error) {
	path := filepath.ToSlash(filepath.Join(s.Dir, "db"))
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // on Windows, the path is C:/…
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path}).String())
	if err != nil {
		return nil, nil, err
	}
	conn, err := db.Conn(ctx)
	var mode string
	if err == nil {
		if err = conn.QueryRowContext(ctx, "PRAGMA journal_mode="+s.Journal).Scan(&mode); err == nil && mode != s.Journal {
			err = fmt.Errorf("SQLite uses the journal %q in place of %q", mode, s.Journal)
		}
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "PRAGMA synchronous="+s.Synchronous)
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, conn, nil
}

func trySQLite(ctx context.Context, s SQLite) (none struct{}, err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(s.Dir)) }()
	if err := os.Mkdir(s.Dir, 0o700); err != nil {
		return none, err
	}
	db, conn, err := s.open(ctx)
	if err != nil {
		return none, err
	}
	_, err = conn.ExecContext(ctx, "CREATE TABLE t (x)")
	return none, errors.Join(err, conn.Close(), db.Close())
}

func makeSQLite(ctx context.Context, s SQLite) (none struct{}, err error) {
	if err := errors.Join(os.RemoveAll(s.Dir), os.Mkdir(s.Dir, 0o700)); err != nil {
		return none, err
	}
	db, conn, err := s.open(ctx)
	if err != nil {
		return none, err
	}
	_, err = conn.ExecContext(ctx, "PRAGMA synchronous=off; BEGIN; "+SQLiteSchema(s.Accounts)+"COMMIT") // the caller flushes
	return none, errors.Join(err, conn.Close(), db.Close())
}

func doSQLite(ctx context.Context, s SQLite) (_ *Result, err error) {
	fail := func(op string, err error) error {
		return &iotax.Error{Op: op, On: s.Dir, Err: err}
	}
	db, conn, err := s.open(ctx)
	if err != nil {
		return nil, fail("open the database", err)
	}
	defer func() { err = errors.Join(err, conn.Close(), db.Close()) }()
	var opened []*sql.Stmt
	defer func() { // SQLite does not close a database that has open statements
		for _, st := range opened {
			err = errors.Join(err, st.Close())
		}
	}()
	prepare := func(text string) *sql.Stmt {
		st, failed := conn.PrepareContext(ctx, text)
		if failed == nil {
			opened = append(opened, st)
		}
		err = cmp.Or(err, failed)
		return st
	}
	begin, commit := prepare("BEGIN"), prepare("COMMIT")
	statements, written := s.statements(), 0
	prepared := make([]*sql.Stmt, len(statements))
	for i, st := range statements {
		prepared[i] = prepare(st.text)
		if st.table != "" {
			written++
		}
	}
	if err != nil {
		return nil, fail("open the database", err)
	}
	random := rand.New(rand.NewPCG(s.Seed, 1))
	var commits, transactions recorder
	var done, sum int64 // number of transactions and sum of their amounts, including those in the ramp
	begun := time.Now()
	measured, end := begun.Add(s.Ramp), begun.Add(s.Ramp+s.Length)
	now := begun
	for now.Before(end) {
		account, teller, amount := 1+random.IntN(s.Accounts), 1+random.IntN(sqlTellers), random.IntN(10001)-5000
		_, err := begin.ExecContext(ctx)
		for i, st := range prepared {
			if err != nil {
				break
			}
			if statements[i].kind == "select" {
				var balance int64
				err = st.QueryRowContext(ctx, account).Scan(&balance)
			} else {
				_, err = st.ExecContext(ctx, account, teller, amount)
			}
		}
		last := time.Now()
		if err == nil {
			_, err = commit.ExecContext(ctx)
		}
		if err != nil {
			return nil, fail("run a transaction", cmp.Or(context.Cause(ctx), err))
		}
		done, sum = done+1, sum+int64(amount)
		before := now
		if now = time.Now(); !before.Before(measured) {
			commits.add(now.Sub(last))
			transactions.add(now.Sub(before))
		}
	}
	if transactions.n == 0 {
		return nil, fail("measure", errors.New("no transaction ended in the window"))
	}
	out := &Result{Facts: map[string]string{}}
	out.value("transactions.rate", 1/(transactions.sum.Seconds()/float64(transactions.n)), iotax.PerSecond, iotax.Up)
	out.value(iotax.ValueOperations, float64(transactions.n), iotax.Count, iotax.Neither)
	// With WAL and NORMAL, only checkpoints flush, so the bytes need not reach the device.
	if written > 0 && (s.Journal != "wal" || s.Synchronous != "normal") {
		out.Facts[iotax.FactDirect] = "by flushes" // the rules then require that these bytes reach the device
	}
	if written > 0 {
		// Each table is a separate B-tree, so a transaction writes at least one page of each table that it changes.
		out.value("write.bytes", float64(transactions.n)*float64(written)*sqlPage, iotax.Bytes, iotax.Neither)
	}
	commits.into(out, "commit")
	transactions.into(out, "transaction")
	return out, s.verify(ctx, conn, done, sum)
}

// verify checks the structure of the database, the sum of each table that the transactions change, and the number of
// rows in the history.
func (s SQLite) verify(ctx context.Context, conn *sql.Conn, transactions, sum int64) error {
	path := filepath.Join(s.Dir, "db")
	var found string
	if err := conn.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&found); err != nil || found != "ok" {
		return lost(path, cmp.Or(err, fmt.Errorf("integrity check: %s", found)))
	}
	for _, st := range s.statements() {
		if st.table == "" {
			continue
		}
		var total, rows int64
		if err := conn.QueryRowContext(ctx, "SELECT coalesce(sum(balance), 0), count(*) FROM "+st.table).Scan(&total, &rows); err != nil {
			return lost(path, err)
		}
		if total != sum || st.table == "history" && rows != transactions {
			return lost(path, fmt.Errorf("the table %s has %d rows with a sum of %d after %d transactions with a sum of %d", st.table, rows, total, transactions, sum))
		}
	}
	return nil
}
