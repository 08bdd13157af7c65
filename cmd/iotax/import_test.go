package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/store"
)

// An import that does not save every trial leaves an incomplete run. --run refuses that run.
func TestImportCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, result := filepath.Join(dir, "db"), filepath.Join(dir, "host.json")
	if err := os.WriteFile(result, []byte(`{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "error": 0, "read": {"io_bytes": 4096000, "total_ios": 1000, "runtime": 1000, "iops": 1000}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(code int, want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if got := Main(t.Context(), append(args, "--store", file), nil, &out, &out); got != code || !strings.Contains(out.String(), want) {
			t.Fatalf("iotax %v: status %d, want %d and %q in\n%s", args, got, code, want, &out)
		}
	}
	status := func(want iotax.Status) string {
		t.Helper()
		db, err := store.OpenExisting(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		r, err := db.Get(t.Context(), "latest")
		if err != nil || r.Status != want {
			t.Fatalf("the run is %v, want %s; %v", r, want, err)
		}
		return r.ID
	}
	do(exitOK, "saved 1 trial", "import", result)
	whole := status(iotax.Done)
	raw, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec("CREATE TRIGGER cut BEFORE INSERT ON trials WHEN NEW.seq = 2 BEGIN SELECT RAISE(ABORT, 'cut'); END"); err != nil {
		t.Fatal(err)
	}
	do(exitError, "cut", "import", result, result, result)
	part := status(iotax.Incomplete)
	if part == whole {
		t.Fatal("no run was saved")
	}
	do(exitOK, "Stopped early: the import has not ended.", "report", part)
	do(exitOK, "saved 1 trial", "import", "--run", whole, result)
	do(exitError, "cut", "import", "--run", whole, result)
	do(exitError, "another import into it has not ended", "import", "--run", whole, result)
}
