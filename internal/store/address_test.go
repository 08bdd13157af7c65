package store

import (
	"os"
	"strings"
	"testing"
)

// iotax never uses a PostgreSQL address as a file name, and no error contains the password.
func TestPostgresAddresses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, address := range []string{
		"host=/nonexistent password=hunter2-in-the-clear user=me", "password=hunter2-in-the-clear", " user = me password = hunter2-in-the-clear host=/nonexistent",
		"dbname=x password='hunter2-in-the-clear' sslmode=no-such-mode", "postgres:/me:hunter2-in-the-clear@/x", "postgresql:me:hunter2-in-the-clear@/x",
		"postgres://me:hunter2-in-the-clear@/x?host=/nonexistent", "sslmode=hunter2-in-the-clear", "service=none password=hunter2-in-the-clear",
	} {
		s, err := Open(t.Context(), address)
		if err == nil {
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("made: %v, %v", left, err)
	}
	for _, path := range []string{"./user=me.db", "runs-of-host=a.db", "postgres.db", "hosts"} {
		if IsPostgres(path) {
			t.Errorf("%s is a file", path)
		}
	}
}
