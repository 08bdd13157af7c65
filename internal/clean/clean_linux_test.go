package clean

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

// If clean cannot contact a machine, Missed reports the error. clean does not treat the machine as gone.
func TestCleanTellsWhatWasNotAsked(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct{ machine, says string }{
		"a kubeconfig that is missing": {"k8s: {pod: n/x, kubeconfig: " + missing + "}", missing},
		"an engine that is stopped":    {"podman: {ref: x, host: unix://" + missing + "}", missing},
		"a program that is missing":    {"lima: {instance: x, program: " + missing + "}", missing},
	} {
		url := filepath.Join(t.TempDir(), "runs.db")
		db, err := store.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		text := "machines: {m: {" + c.machine + "}}\ntargets: {one: {on: m, dir: /data}}\nworkloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}\n"
		r := &iotax.Run{ID: store.NewID(time.Now()), Status: iotax.Interrupted, Plan: []byte(text)}
		if err := errors.Join(db.Create(t.Context(), r), db.Close()); err != nil {
			t.Fatal(err)
		}
		s := Open(t.Context(), url, true, nil, nil)
		err = s.Missed()
		if err == nil || errors.Is(err, iotax.ErrGone) || !strings.Contains(err.Error(), c.says) || len(s.machines) > 0 || len(s.places) != 1 {
			t.Errorf("%s: %v, %+v", name, err, s)
		}
	}
}

// If the store cannot be read, the leftovers on this host are still found.
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
	here, _, err := Leftovers(t.Context(), unreadable)
	if err == nil || !strings.Contains(here, "director") {
		t.Errorf("%q, %v", here, err)
	}
}

// In a store to which other users can write, a plan may name any machine. Open uses it only if the user names its run,
// and otherwise reports the run if it is among the wanted ones.
func TestMachinesOfOtherUsers(t *testing.T) {
	url, asked := filepath.Join(t.TempDir(), "runs.db"), filepath.Join(t.TempDir(), "asked")
	db, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	text := "machines: {m: {lima: {instance: x, program: " + asked + ".sh}}, e: {podman: {image: x, host: unix://" + asked + ".sock}}}\n" +
		"targets: {one: {on: m, dir: /data}, two: {on: e, dir: /data}}\nworkloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}\n"
	r := &iotax.Run{ID: store.NewID(time.Now()), Status: iotax.Interrupted, Plan: []byte(text)}
	done := &iotax.Run{ID: store.NewID(time.Now().Add(-time.Hour)), Status: iotax.Done, Plan: []byte("targets: {one: {dir: /data}}\nworkloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}\n")}
	if err := errors.Join(os.WriteFile(asked+".sh", []byte("#!/bin/sh\ntouch "+asked+"\n"), 0o700), db.Create(t.Context(), done), db.Create(t.Context(), r), db.Close(), os.Chmod(url, 0o660)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		refs, runs []string
		want       bool // whether the run is reported
	}{{nil, nil, true}, {[]string{"latest"}, []string{r.ID}, true}, {[]string{r.ID[:8]}, []string{r.ID}, true},
		{[]string{done.ID, "latest"}, []string{done.ID, r.ID}, true}, {[]string{done.ID}, []string{done.ID}, false}, {[]string{"oldest"}, []string{"other"}, false}} {
		s := Open(t.Context(), url, true, c.refs, c.runs)
		_, lost := os.Stat(asked)
		err := s.Missed()
		if (err != nil) != c.want || err != nil && (!strings.Contains(err.Error(), "other users can write to the store") || !strings.Contains(err.Error(), r.ID)) || lost == nil {
			t.Errorf("%q: %v, asked: %v", c.refs, err, lost == nil)
		}
		s.Close(t.Context())
	}
	s := Open(t.Context(), url, true, []string{r.ID}, []string{r.ID})
	defer s.Close(t.Context())
	if _, err := os.Stat(asked); err != nil {
		t.Errorf("the machine of the named run was not asked: %v, %v", err, s.Missed())
	}
}
