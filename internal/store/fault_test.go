package store

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"iotax"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("STORE_TEST_WRITER"); path != "" {
		writer(path)
		return
	}
	code := m.Run()
	if err := stopCluster(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// writer is the main function of the process that the tests kill. It appends trials until it is killed, and prints the
// Seq of each trial after the store has saved it.
func writer(path string) {
	ctx := context.Background()
	s, err := Open(ctx, path)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	id := os.Getenv("STORE_TEST_RUN")
	if err := s.Create(ctx, exampleRun(id)); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	for seq := 0; ; seq++ {
		if err := s.Append(ctx, exampleTrial(id, seq)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(seq)
	}
}

func TestKilledWriter(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "s.db")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	saved := map[string]int{}
	for round := range 20 {
		id := fmt.Sprintf("run%02d", round)
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+path, "STORE_TEST_RUN="+id)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The first rounds kill the process while it creates the store, the later rounds while it saves trials.
		const making = 6
		wait := time.Duration(round) * 4 * time.Millisecond
		if round >= making {
			wait = 2 * time.Minute
		}
		kill := time.AfterFunc(wait+rand.N(10*time.Millisecond), func() { cmd.Process.Kill() })
		saved[id] = -1
		for lines := bufio.NewScanner(out); lines.Scan(); {
			seq, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Error(lines.Text())
				break
			}
			if saved[id] = seq; seq == round-making {
				kill.Reset(rand.N(10 * time.Millisecond))
			}
		}
		kill.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	}
	s := open(t, path)
	var ok string
	if err := s.db.QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Fatalf("integrity_check: %q, %v", ok, err)
	}
	total := 0
	for id, last := range saved {
		if last < 0 {
			continue
		}
		trials, err := s.Trials(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		// The process may have saved one more trial than it printed.
		if n := len(trials); n != last+1 && n != last+2 {
			t.Errorf("%s: %d trials, the writer had been told of %d", id, n, last+1)
		}
		for i, x := range trials {
			want := exampleTrial(id, i)
			raw, err := s.Raw(ctx, id, i)
			if err != nil || !bytes.Equal(raw, want.Raw) || len(x.Values) != len(want.Values) || len(x.Series) != len(want.Series) {
				t.Fatalf("%s: trial %d is not whole: %v", id, i, err)
			}
		}
		total += len(trials)
	}
	if total < 20 {
		t.Errorf("only %d trials in all: the kills came too early to show anything", total)
	}
	if err := s.Create(ctx, exampleRun("after")); err != nil {
		t.Error(err)
	}
}

// Killed writers do not disturb a live writer or a reader.
func TestKilledBesideWriter(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	if err := s.Create(ctx, exampleRun("alive")); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seq := 0
	for round := range 8 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+path, fmt.Sprint("STORE_TEST_RUN=victim", round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			lines := bufio.NewScanner(out)
			lines.Scan() // the writer has saved a trial
			time.Sleep(rand.N(50 * time.Millisecond))
			cmd.Process.Kill()
			for lines.Scan() { // until the process has exited, which closes the pipe
			}
		}()
		for after := 0; after < 10; seq++ {
			select {
			case <-killed:
				after++
			default:
			}
			if err := s.Append(ctx, exampleTrial("alive", seq)); err != nil {
				t.Fatal(err)
			}
		}
		cmd.Wait()
		if trials, err := s.Trials(ctx, "alive"); err != nil || len(trials) != seq {
			t.Fatalf("%d trials of %d, %v", len(trials), seq, err)
		}
	}
	var ok string
	if err := s.db.QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("integrity_check: %q, %v", ok, err)
	}
	if runs, err := s.Runs(ctx); err != nil || len(runs) != 9 {
		t.Errorf("%d runs, %v, want 9", len(runs), err)
	}
}

// This process reads and writes while another process writes.
func TestTwoProcesses(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+path, "STORE_TEST_RUN=other")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	for n := 0; n < 100 && lines.Scan(); n += 10 {
		for range 9 {
			lines.Scan()
		}
		last, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(lines.Text())
		}
		seen := 0
		for _, err := range s.Each(ctx, "other", Full) { // the writer may add trials faster than this loop reads them
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen > last {
				break
			}
		}
		if seen <= last {
			t.Fatalf("%d trials after trial %d was saved", seen, last)
		}
	}
	mine := exampleRun("mine")
	if err := s.Create(ctx, mine); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := s.Append(ctx, exampleTrial("mine", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantHint checks that err names the operation, contains the words, and has a hint.
func wantHint(t *testing.T, err error, words ...string) {
	t.Helper()
	e := (*iotax.Error)(nil)
	if !errors.As(err, &e) || e.Hint == "" || e.Op == "" {
		t.Errorf("no hint in: %v", err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is missing in: %v", w, err)
		}
	}
}

func TestNotAStore(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := filepath.Join(dir, "foreign.db")
	newer := filepath.Join(dir, "newer.db")
	open(t, newer).Close()
	for path, query := range map[string]string{foreign: "CREATE TABLE bookmarks (url TEXT)", newer: "PRAGMA user_version = 4711"} {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
	for _, x := range []struct{ path, word string }{
		{file("text.db", strings.Repeat("this is a text\n", 1000)), "not a database"},
		{file("short.db", "x"), "not a database"},
		{foreign, "another program"},
		{newer, "made by a newer iotax: its schema is version 4711"},
		{dir, "is a directory"},
		{filepath.Join(dir, "text.db", "x.db"), "not a directory"},
	} {
		before, _ := os.ReadFile(x.path)
		_, err := Open(ctx, x.path)
		if err == nil {
			t.Errorf("%s was opened", x.path)
			continue
		}
		wantHint(t, err, x.word, x.path)
		if after, _ := os.ReadFile(x.path); !bytes.Equal(before, after) {
			t.Errorf("%s was changed", x.path)
		}
	}
	if s, err := Open(ctx, file("empty.db", "")); err != nil {
		t.Errorf("an empty file: %v", err)
	} else {
		s.Close()
	}
}

func TestDamagedFile(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	if err := s.Create(ctx, exampleRun("r")); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := s.Append(ctx, exampleTrial("r", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	failed := 0
	for round := range 40 {
		bad := bytes.Clone(whole)
		for range 1 + round {
			at := 100 + r.IntN(len(bad)-100) // after the header
			for k := range min(512, len(bad)-at) {
				bad[at+k] = byte(r.Uint32())
			}
		}
		if round%4 == 3 {
			bad = bad[:4096+r.IntN(len(bad)-4096)]
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		err := func() error {
			s, err := Open(ctx, path)
			if err != nil {
				return err
			}
			defer s.Close()
			if _, err := s.Trials(ctx, "r"); err != nil {
				return err
			}
			for i := range 200 {
				raw, err := s.Raw(ctx, "r", i)
				if err != nil {
					return err
				}
				if raw != nil && !bytes.Equal(raw, exampleTrial("r", i).Raw) {
					t.Errorf("trial %d: damaged output was returned as if whole", i)
				}
			}
			return nil
		}()
		if err != nil {
			failed++
			if e := (*iotax.Error)(nil); !errors.As(err, &e) {
				t.Errorf("bare error: %v", err)
			}
		}
	}
	if failed < 30 {
		t.Errorf("only %d of 40 damaged files were noticed", failed)
	}
	if err := os.WriteFile(path, append(bytes.Clone(whole[:4096]), make([]byte, len(whole)-4096)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(ctx, path); err == nil {
		defer s.Close()
		_, err = s.Get(ctx, "r")
	}
	wantHint(t, err, "damaged", ".recover")
}

func TestLocked(t *testing.T) {
	defer func(d, s time.Duration) { patience, savePatience = d, s }(patience, savePatience)
	patience, savePatience = 500*time.Millisecond, 2*time.Second
	ctx := context.Background()
	s := fresh(t)
	r := exampleRun("r")
	if err := s.Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", s.on+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	// Saving the results of a run waits longer for the lock than the commands of a user do.
	for what, c := range map[string]struct {
		write func() error
		wait  time.Duration
	}{
		"append": {func() error { return s.Append(ctx, exampleTrial("r", 0)) }, savePatience},
		"update": {func() error { return s.Update(ctx, r) }, savePatience},
		"create": {func() error { return s.Create(ctx, exampleRun("other")) }, patience},
		"remove": {func() error { return s.Remove(ctx, "r", nil) }, patience},
	} {
		start := time.Now()
		wantHint(t, c.write(), "locked", "fuser")
		if took := time.Since(start); took < c.wait/2 || took > c.wait+time.Minute {
			t.Errorf("%s gave up after %s", what, took)
		}
	}
	if _, err := s.Get(ctx, "r"); err != nil {
		t.Errorf("reading beside a writer: %v", err)
	}
	tx.Rollback()
	if err := s.Append(ctx, exampleTrial("r", 0)); err != nil {
		t.Errorf("after the lock is gone: %v", err)
	}
}

// After a removal, the store frees pages in steps, so that another process can save a trial between them.
func TestShrinkInSteps(t *testing.T) {
	s := fresh(t)
	free := func() (n int) {
		if err := s.db.QueryRow("SELECT freelist_count FROM pragma_freelist_count").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	if _, err := s.db.Exec("CREATE TABLE big AS SELECT zeroblob(50 << 20) AS x; DROP TABLE big"); err != nil {
		t.Fatal(err)
	}
	all := free()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.drv.shrink(s.db)
	}()
	steps := map[int]bool{}
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-time.After(5 * time.Millisecond):
		}
		steps[free()] = true
	}
	if !steps[0] || len(steps) < 3 || all < 10_000 {
		t.Errorf("of %d free pages, these numbers were left: %v", all, steps)
	}
}
