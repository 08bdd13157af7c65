package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"iotax"
	"iotax/internal/testenv/storetest"
)

var cluster struct {
	sync.Mutex
	*storetest.Server
}

// database returns the URL of a new, empty database. The first call starts the server of this test process.
func database(t testing.TB) string {
	t.Helper()
	cluster.Lock()
	defer cluster.Unlock()
	if cluster.Server == nil {
		s, err := storetest.Start()
		if err != nil {
			t.Fatal(err)
		}
		cluster.Server = s
	}
	url, err := cluster.Database()
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func stopCluster() error {
	if cluster.Server == nil {
		return nil
	}
	return cluster.Stop()
}

func TestPostgres(t *testing.T) {
	for name, test := range both {
		t.Run(name, func(t *testing.T) { test(t, database(t)) })
	}
}

func TestPostgresPrompt(t *testing.T) {
	ctx := context.Background()
	s := open(t, database(t))
	if err := s.Create(ctx, exampleRun("r")); err != nil {
		t.Fatal(err)
	}
	x := exampleTrial("r", 1)
	x.Findings = []iotax.Finding{{Rule: "steal", Severity: iotax.Warning, Evidence: "3 %"}}
	x.Err, x.Discarded = "bytes \xff and \x00 of a tool", "v"
	if err := s.Append(ctx, x); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct{ query, want string }{
		{`SELECT target || ' ' || unit FROM measurements WHERE metric = 'read.v3'`, "virtio-blk 1/s"},
		{`SELECT value::TEXT FROM measurements WHERE metric = 'read.v3'`, fmt.Sprint(x.Values[3].Value)},
		{`SELECT evidence FROM findings WHERE seq IS NULL`, "load 3"},
		{`SELECT evidence FROM findings WHERE rule = 'steal' AND seq = 1`, "3 %"},
		{`SELECT value FROM facts WHERE name = 'engine'`, "io_uring"},
		{`SELECT value FROM facts WHERE name = 'kernel'`, "6.1.0"},
		{`SELECT err FROM trials`, "bytes \uFFFD and  of a tool"},
		{`SELECT started::TIMESTAMPTZ AT TIME ZONE 'UTC' || '' FROM runs`, "2025-11-21 01:46:33.123457"},
	} {
		var got string
		if err := s.db.QueryRow(q.query).Scan(&got); err != nil || got != q.want {
			t.Errorf("%s: %q, %v; want %q", q.query, got, err, q.want)
		}
	}
	if err := s.Remove(ctx, "r", nil); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"runs", "trials", "measured", "blobs"} {
		var n int
		if err := s.db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d rows are left, %v", table, n, err)
		}
	}
}

// No error message contains the password, and each has a hint.
func TestPostgresErrors(t *testing.T) {
	at := database(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	if s, err := Open(t.Context(), cluster.URL(storetest.Guarded, storetest.Password, name)); err != nil {
		t.Fatal(err)
	} else if strings.Contains(s.String(), storetest.Guarded) || strings.Contains(s.String(), storetest.Password) {
		t.Errorf("the store is called %s", s)
	} else {
		s.Close()
	}
	with := func(change func(*url.URL, url.Values)) string {
		u, q := *u, u.Query()
		u.User = url.UserPassword(storetest.Guarded, storetest.Password)
		change(&u, q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for _, c := range []struct{ what, url, hint string }{
		{"wrong password", with(func(u *url.URL, _ url.Values) { u.User = url.UserPassword(storetest.Guarded, storetest.Password+"x") }), "PGPASSWORD"},
		{"no database", with(func(u *url.URL, _ url.Values) { u.Path = "/nowhere" }), "createdb"},
		{"no server", with(func(_ *url.URL, q url.Values) { q.Set("host", "/nowhere") }), "is the server up"},
		{"no such host", "postgres://guarded:" + storetest.Password + "@host.invalid/x", "is the server up"},
		{"bad address", "postgres://guarded:" + storetest.Password + "%zz@/x", "postgres://USER@HOST"},
		{"bad port", "postgres://guarded:" + storetest.Password + "@h:port/x", "postgres://USER@HOST"},
		{"bad option", with(func(_ *url.URL, q url.Values) { q.Set("connect_timeout", "maybe") }), "postgres://USER@HOST"},
	} {
		_, err := Open(t.Context(), c.url)
		if e := (*iotax.Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if strings.Contains(err.Error(), storetest.Password) || strings.Contains(err.Error(), storetest.Guarded+"@") || strings.Contains(err.Error(), "user=") {
			t.Errorf("%s: the message tells secrets: %v", c.what, err)
		}
	}
	// Open refuses a database of another program, and one with a newer schema.
	other, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.db.Exec(`CREATE SCHEMA theirs; CREATE TABLE theirs.runs (x INTEGER)`); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), at+"&search_path=theirs"); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("the tables of another program: %v", err)
	}
	if _, err := other.db.Exec(`UPDATE goose_db_version SET version_id = version_id + 100 WHERE version_id > 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), at); err == nil || !strings.Contains(err.Error(), "newer iotax") {
		t.Errorf("a newer schema: %v", err)
	}
}

// A write ends with a hint if another session holds a lock or the server does not answer, and the server ends a
// transaction whose client has stopped.
func TestPostgresLocked(t *testing.T) {
	defer func(d time.Duration) { savePatience = d }(savePatience)
	savePatience = time.Second
	s := open(t, database(t))
	r := exampleRun("r")
	if err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var idle string
	if err := tx.QueryRow(`SHOW idle_in_transaction_session_timeout`).Scan(&idle); err != nil || idle != "5min" {
		t.Errorf("idle_in_transaction_session_timeout is %q, %v", idle, err)
	}
	if _, err := tx.Exec(`UPDATE runs SET name = name`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Update(context.Background(), r) }()
	select {
	case err := <-done:
		wantHint(t, err, "save run r", "within 1s", "pg_stat_activity")
	case <-time.After(20 * time.Second):
		t.Fatal("Update still waits for the lock")
	}
	tx.Rollback()
	if err := s.Update(t.Context(), r); err != nil {
		t.Errorf("after the lock is gone: %v", err)
	}
}

// More stores write at the same time than the server allows connections.
func TestPostgresManyWriters(t *testing.T) {
	at := database(t)
	s := open(t, at)
	if err := s.Create(t.Context(), exampleRun("r")); err != nil {
		t.Fatal(err)
	}
	const writers, each = 45, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			mine, err := Open(t.Context(), at)
			if err != nil {
				t.Error(err)
				return
			}
			defer mine.Close()
			for k := range each {
				x := exampleTrial("r", w*each+k)
				x.Values = append(x.Values, iotax.Value{Name: fmt.Sprint("of.", w%7), Value: 1})
				if err := mine.Append(t.Context(), x); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	for x, err := range s.Each(t.Context(), "r", Full) {
		if err != nil {
			t.Fatal(err)
		}
		if x.Seq != n || len(x.Values) != 17 || len(x.Histograms) != 2 {
			t.Errorf("trial %d: Seq %d, %d values", n, x.Seq, len(x.Values))
		}
		n++
	}
	if n != writers*each {
		t.Errorf("%d trials, want %d", n, writers*each)
	}
}

// BenchmarkPostgresAppend saves fio-sized trials from eight concurrent writers, each with its own connections, to
// a server with fsync on:
//
//	go test -run xxx -bench PostgresAppend -benchtime 2000x ./internal/store
func BenchmarkPostgresAppend(b *testing.B) {
	server, err := storetest.Start("fsync=on")
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	at, err := server.Database()
	if err != nil {
		b.Fatal(err)
	}
	const writers = 8
	var stores [writers]*Store
	for i := range stores {
		stores[i] = open(b, at)
	}
	if err := stores[0].Create(b.Context(), exampleRun("r")); err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	b.ResetTimer()
	for w, s := range stores {
		wg.Go(func() {
			for seq := w; seq < b.N; seq += writers {
				if err := s.Append(b.Context(), exampleTrial("r", seq)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "trials/s")
}
