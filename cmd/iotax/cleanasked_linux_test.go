package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/store"
)

// clean accepts the same run names as other commands, and also ids that are not in the store.
func TestCleanResolvesRuns(t *testing.T) {
	died := leftover.Self()
	died.Start++
	id := store.NewID(time.Now())
	path, _ := storeOf(t, map[string]iotax.Status{id: iotax.Interrupted}, died)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	unsaved := "unsaved-" + filepath.Base(filepath.Dir(tmp))
	for _, run := range []string{id, unsaved} {
		dir := filepath.Join(tmp, "iotax-"+run)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, leftover.Marker), []byte("run="+run+" runner="+died.String()+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	others := filepath.Join(tmp, "iotax-others")
	if err := errors.Join(os.Mkdir(others, 0o700), os.WriteFile(filepath.Join(others, leftover.Marker), []byte("run=x runner="+died.String()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	foreign := ""
	if os.Geteuid() == 0 {
		if err := os.Chown(others, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		foreign = "directories of other users"
	}
	for _, c := range []struct {
		words []string
		code  int
		says  []string
	}{
		{[]string{"latest"}, exitOK, []string{"iotax-" + id, "left by run", foreign}},
		{[]string{id[:len(id)-1]}, exitOK, []string{"iotax-" + id, "left by run"}},
		{[]string{unsaved}, exitOK, []string{"iotax-" + unsaved, "left by run"}},
		{[]string{"latest", "no-such-run", "--yes"}, exitUsage, []string{"find run no-such-run", "iotax list"}},
		{[]string{unsaved[:len(unsaved)-1], "--yes"}, exitUsage, []string{"find run unsaved-"}},
		{[]string{"latest", unsaved, "--yes"}, exitOK, []string{"iotax-" + id, "iotax-" + unsaved, "removed"}},
		{[]string{"latest"}, exitOK, []string{"no leftovers found"}},
	} {
		code, out, errs := cli(t, append([]string{"clean", "--store", path}, c.words...)...)
		for _, want := range c.says {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%q: status %d, %q is not in %s%s", c.words, code, want, out, errs)
			}
		}
	}
}

// If the store cannot be read, clean still accepts the id of a leftover's run.
func TestCleanRunWithoutStore(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	died := leftover.Self()
	died.Start++
	run := "unsaved-" + filepath.Base(filepath.Dir(tmp))
	unreadable, dir := filepath.Join(tmp, "runs.db"), filepath.Join(tmp, "iotax-1")
	if err := errors.Join(os.WriteFile(unreadable, []byte(strings.Repeat("no database\n", 1000)), 0o600),
		os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, leftover.Marker), []byte("run="+run+" runner="+died.String()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := cli(t, "clean", "--store", unreadable, run); code != exitError || !strings.Contains(out, dir) || strings.Contains(errs, "find run") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	if code, out, errs := cli(t, "clean", "--store", unreadable, "latest"); code != exitUsage || !strings.Contains(errs, "find run latest") || strings.Count(errs, unreadable) != 1 {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
}
