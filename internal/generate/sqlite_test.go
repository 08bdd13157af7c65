package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The transaction tpcb runs with every journal, and the other transactions with wal. Selects report that they did work,
// and no writes.
func TestSQLite(t *testing.T) {
	small := SQLite{Accounts: 500, Transaction: "tpcb", Journal: "wal", Synchronous: "full", Seed: 5, Length: 100 * time.Millisecond}
	var all []SQLite
	for _, j := range Journals {
		s := small
		s.Journal = j
		all = append(all, s)
	}
	for _, tx := range SQLTransactions[1:] {
		s := small
		s.Transaction, s.Synchronous = tx, "normal"
		all = append(all, s)
	}
	selects := small
	selects.Transaction = "select"
	all = append(all, selects)
	for _, s := range all {
		t.Run(s.Journal+" "+s.Synchronous+" "+s.Transaction, func(t *testing.T) {
			s.Dir = filepath.Join(t.TempDir(), "with % and ?")
			if _, err := trySQLite(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := makeSQLite(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				out, err := doSQLite(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				v := values(out)
				if v["transactions.rate"] <= 0 || v["commit.latency.mean"] <= 0 || v["commit.latency.mean"] > v["transaction.latency.mean"] {
					t.Errorf("%v", v)
				}
				_, writes := v["write.bytes"]
				if flushed := out.Facts["direct"] != ""; flushed == (s.Synchronous == "normal" || s.Transaction == "select") || writes == (s.Transaction == "select") || v["operations"] < 1 {
					t.Errorf("%v %v", out.Facts, v)
				}
			}
		})
	}
}

// verify finds a missing transaction and a damaged page.
func TestSQLiteFindsDamage(t *testing.T) {
	s := SQLite{Dir: filepath.Join(t.TempDir(), "w"), Accounts: 5000, Transaction: "tpcb", Journal: "delete", Synchronous: "full"}
	if _, err := makeSQLite(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	verify := func(transactions, sum int64) error {
		db, conn, err := s.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		defer conn.Close()
		return s.verify(t.Context(), conn, transactions, sum)
	}
	if err := verify(0, 0); err != nil {
		t.Fatal(err)
	}
	if err := verify(1, 7); err == nil || !strings.Contains(err.Error(), "after 1 transactions with a sum of 7") {
		t.Error(err)
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, "db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 3*sqlPage), 20*sqlPage); err != nil {
		t.Fatal(err)
	}
	if err := verify(0, 0); err == nil || !strings.Contains(err.Error(), "trust nothing there") && !strings.Contains(err.Error(), "integrity check") {
		t.Error(err)
	}
}
