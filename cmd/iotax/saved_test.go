package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/run"
	"iotax/internal/store"
)

// storeOf makes a store with the given runs, a map from ids to statuses. Each run records the given runner.
func storeOf(t *testing.T, runs map[string]iotax.Status, runner leftover.Runner) (path string, db *store.Store) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "iotax.db")
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for id, status := range runs {
		r := &iotax.Run{ID: id, Name: "of " + id, Status: status, Start: time.Now(), Environment: map[string]string{run.RunnerKey: runner.String()},
			Plan: []byte("targets: {a: {dir: /var/tmp}, b: {dir: /var/tmp}}\nworkloads: {w: {fio: {rw: randread, bs: 4k}}}\n")}
		if err := db.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return path, db
}

func cli(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a command that iotax does not refuse may serve or measure for a long time
	defer cancel()
	var out, errs bytes.Buffer
	code = Main(ctx, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// A quoted variable that is not set becomes an empty argument. iotax refuses empty arguments and empty values of flags.
func TestEmptyWords(t *testing.T) {
	path, db := storeOf(t, map[string]iotax.Status{"a1": iotax.Done}, leftover.Self())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, args := range [][]string{
		{"rm", ""}, {"rm", "--yes", ""}, {"rm", "a1", "", "--yes"}, {"show", ""}, {"report", ""}, {"export", ""}, {"compare", "a1", ""}, {"run", "--resume="},
		{"list", ""}, {"list", "--name", ""}, {"list", "--store", ""}, {"report", "-o", ""}, {"export", "-o", ""}, {"import", ""}, {"import", "--run", "", "x.json"},
		{"run", "dir:/nonexistent", "--destroy", ""}, {"run", "dir:/nonexistent", "--id", ""}, {"run", "-w", ""}, {"run", "-w", "a,", "-w", ""}, {"plan", ""}, {"lint", ""}, {"serve", "--token-file", ""},
		{"serve", "--host", "a", "--host", ""}, {"lab", "down", "--name", ""}, {"run", "--pod-store", ""},
	} {
		if !slices.Contains(args, "--store") {
			args = append(args, "--store", path)
		}
		if code, out, errs := cli(t, args...); code != exitUsage || out != "" || !strings.Contains(errs, "empty") {
			t.Errorf("%q: status %d, %s%s", args, code, out, errs)
		}
	}
	if _, err := db.Get(t.Context(), "a1"); err != nil {
		t.Error(err)
	}
	if code, out, errs := cli(t, "__complete", "rm", ""); code != exitOK {
		t.Errorf("completion: %d, %s%s", code, out, errs)
	}
}

// rm lists the runs that it would remove. Without a terminal it needs --yes. It does not remove a run whose process is
// alive. If the process is on another host, it needs --force.
func TestRemovalIsMeant(t *testing.T) {
	died := leftover.Self()
	died.Start++ // an earlier process with the same process id
	far := leftover.Runner{PID: 7, Start: 1, Boot: "b", Host: "elsewhere.invalid"}
	for _, c := range []struct {
		what   string
		runner leftover.Runner
		status iotax.Status
		args   []string
		code   int
		says   string
	}{
		{"without a terminal", died, iotax.Done, []string{"latest"}, exitUsage, "--yes"},
		{"without a terminal, as JSON", died, iotax.Done, []string{"latest", "--json"}, exitUsage, "--yes"},
		{"with --yes", died, iotax.Done, []string{"latest", "a1", "--yes"}, exitOK, "removed a1"},
		{"of a run that goes on", leftover.Self(), iotax.Running, []string{"latest", "--yes"}, exitError, "still runs"},
		{"of a run that goes on, by force", leftover.Self(), iotax.Running, []string{"latest", "--yes", "--force"}, exitError, "still runs"},
		{"of a run elsewhere", far, iotax.Running, []string{"a1", "--yes"}, exitError, "process 7 on elsewhere.invalid may still measure it\n  hint: if that process has ended: iotax rm --force a1"},
		{"of a run elsewhere, by force", far, iotax.Running, []string{"a1", "--yes", "--force"}, exitOK, "removed a1"},
		{"of a run that was killed", died, iotax.Running, []string{"a1", "--yes"}, exitOK, "removed a1"},
	} {
		path, db := storeOf(t, map[string]iotax.Status{"a1": c.status}, c.runner)
		code, out, errs := cli(t, append([]string{"rm", "--store", path}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) || c.code == exitUsage && !strings.Contains(errs, "of a1") || c.code == exitOK && strings.Count(out, "removed") != 1 {
			t.Errorf("%s: status %d, %s%s", c.what, code, out, errs)
		}
		if _, err := db.Get(t.Context(), "a1"); (err == nil) != (c.code != exitOK) {
			t.Errorf("%s: it is there: %v", c.what, err)
		}
	}
}

// rm --yes refuses "latest" if the newest run has no trials, because latest is then an older run.
func TestRemoveLatest(t *testing.T) {
	path, db := storeOf(t, map[string]iotax.Status{"a1": iotax.Done}, leftover.Self())
	if err := db.Append(t.Context(), &iotax.Trial{Run: "a1", Target: "a", Workload: "w", Seq: 1}); err != nil {
		t.Fatal(err)
	}
	if err := db.Create(t.Context(), &iotax.Run{ID: "b2", Status: iotax.Running, Start: time.Now().Add(time.Second), Plan: []byte("targets: {}\n")}); err != nil {
		t.Fatal(err)
	}
	code, out, errs := cli(t, "rm", "latest", "--yes", "--store", path)
	if code != exitUsage || out != "" || !strings.Contains(errs, "b2") || !strings.Contains(errs, "hint: name the run by its id: a1") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	if code, out, errs := cli(t, "rm", "a1", "--yes", "--store", path); code != exitOK {
		t.Errorf("by its id: status %d, %s%s", code, out, errs)
	}
}

// rm removes a run whose status stays running because a shard never began, a process was killed, or the rows of the run
// in the database are damaged. If its process may still exist, rm needs --force. If the process is alive, rm refuses.
func TestRemoveStuck(t *testing.T) {
	died := leftover.Self()
	died.Start++ // an earlier process with the same process id
	far := leftover.Runner{PID: 7, Start: 1, Boot: "b", Host: "elsewhere.invalid"}
	path, db := storeOf(t, map[string]iotax.Status{"seed": iotax.Running, "environment": iotax.Running}, died)
	for id, part := range map[string]iotax.Run{
		"half":  {Status: iotax.Done},
		"dead":  {Status: iotax.Running, Environment: map[string]string{run.RunnerKey: died.String()}},
		"away":  {Status: iotax.Running, Environment: map[string]string{run.RunnerKey: far.String()}},
		"alive": {Status: iotax.Running, Environment: map[string]string{run.RunnerKey: leftover.Self().String()}},
		"torn":  {Status: iotax.Running, Environment: map[string]string{run.RunnerKey: died.String()}},
	} {
		part.ID, part.Start, part.Plan = id, time.Now(), []byte("targets: {}\n")
		if err := db.SavePart(t.Context(), &part, store.Part{Index: 0, Count: 2}, func(parts []*iotax.Run) *iotax.Run { return run.Merge(parts, 2) }); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for _, damage := range []string{"UPDATE runs SET seed = 'xyz' WHERE id IN ('seed', 'alive')", "UPDATE runs SET environment = 'xyz' WHERE id = 'environment'", "UPDATE shards SET data = 'xyz' WHERE run = 'torn'"} {
		if _, err := raw.Exec(damage); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ id, refused, forced string }{
		{"half", "", ""},
		{"dead", "", ""},
		{"seed", "", ""},
		{"environment", "an unknown process may still measure it", ""},
		{"torn", "an unknown process may still measure it", ""},
		{"away", "process 7 on elsewhere.invalid may still measure it", ""},
		{"alive", "it still runs, as process", "it still runs, as process"},
	} {
		args := []string{"rm", "--store", path, "--yes", c.id}
		code, out, errs := cli(t, args...)
		if c.refused != "" {
			if code != exitError || !strings.Contains(errs, c.refused) {
				t.Errorf("%s: status %d, %s%s", c.id, code, out, errs)
			}
			code, out, errs = cli(t, append(args, "--force")...)
		}
		if c.forced == "" && (code != exitOK || out != "removed "+c.id+"\n") || c.forced != "" && (code != exitError || !strings.Contains(errs, c.forced)) {
			t.Errorf("%s: status %d, %s%s", c.id, code, out, errs)
		}
	}
}

// iotax writes a report to a temporary file first. While that file exists, a signal does not end iotax before the
// cleanup. After an error, no file is left.
func TestReportIsStreamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	o := &outlet{formats: []string{"txt"}, files: []string{path}}
	_, err := o.write(&app{}, func(w io.Writer, _ string) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		begun, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".iotax-*"))
		if len(begun) != 1 {
			t.Fatalf("temporary files: %q", begun)
		}
		undoing.Lock()
		defer undoing.Unlock()
		if b, err := os.ReadFile(begun[0]); string(b) != "half" || !undoing.begun {
			t.Errorf("the file holds %q, %v; a signal leaves it: %v", b, err, !undoing.begun)
		}
		return context.Canceled
	})
	if left, _ := os.ReadDir(filepath.Dir(path)); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("%v leaves %v", err, left)
	}
}
