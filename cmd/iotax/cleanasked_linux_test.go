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

// A machine that nobody could be asked about is not one that is gone: clean says so, and does not call it clean.
func TestCleanTellsWhatWasNotAsked(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct{ machine, says string }{
		"a kubeconfig that is missing": {"k8s: {pod: n/x, kubeconfig: " + missing + "}", missing},
		"an engine that is stopped":    {"podman: {ref: x, host: unix://" + missing + "}", missing},
		"a program that is missing":    {"lima: {instance: x, program: " + missing + "}", missing},
	} {
		a := &app{store: filepath.Join(t.TempDir(), "runs.db")}
		db, err := store.Open(t.Context(), a.store)
		if err != nil {
			t.Fatal(err)
		}
		text := "machines: {m: {" + c.machine + "}}\ntargets: {one: {on: m, dir: /data}}\nworkloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}\n"
		r := &iotax.Run{ID: store.NewID(time.Now()), Status: iotax.Interrupted, Plan: []byte(text)}
		if err := errors.Join(db.Create(t.Context(), r), db.Close()); err != nil {
			t.Fatal(err)
		}
		machines, places, err := a.whereRunsWere(t.Context(), true)
		if err == nil || errors.Is(err, iotax.ErrGone) || !strings.Contains(err.Error(), c.says) || len(machines) > 0 || len(places) != 1 {
			t.Errorf("%s: %v, %v, %v", name, err, machines, places)
		}
	}
}

// A word for a run means to clean what it means to other commands. A run that the store does not know may have left something, too.
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
		{[]string{"latest"}, exitOK, []string{"nothing was left behind"}},
	} {
		code, out, errs := cli(t, append([]string{"clean", "--store", path}, c.words...)...)
		for _, want := range c.says {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%q: status %d, %q is not in %s%s", c.words, code, want, out, errs)
			}
		}
	}
}

// A run of leftovers can be named while the store cannot be read.
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

// A store that cannot be read hides nothing of what lies on this host.
func TestLeftoversWithoutStore(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	unreadable := filepath.Join(tmp, "runs.db")
	if err := os.WriteFile(unreadable, []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	died := leftover.Self()
	died.Start++
	dir := filepath.Join(tmp, "iotax-1")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, ".iotax"), []byte("run=r runner="+died.String()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	here, _, err := (&app{store: unreadable}).leftovers(t.Context())
	if err == nil || !strings.Contains(here, "director") {
		t.Errorf("%q, %v", here, err)
	}
}
