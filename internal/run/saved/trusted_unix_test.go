//go:build unix

package saved

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/run"
	"iotax/internal/store"
)

// A run in a store to which other users can write is resumed only by its id, because its plan contains commands.
func TestResumeOfOtherUsers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	text := "targets: {one: {dir: /data}}\nworkloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}\n"
	r := &iotax.Run{ID: store.NewID(time.Now()), Name: "nightly", Status: iotax.Interrupted, Plan: []byte(text)}
	if err := db.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		mode os.FileMode
		want bool // whether the newest run is resumed
	}{{path, 0o600, true}, {path, 0o644, true}, {path, 0o660, false}, {path, 0o602, false}, {path + "-wal", 0o666, false}} {
		_ = os.Chmod(path, 0o600)
		if err := os.Chmod(c.file, c.mode); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"latest", r.ID, r.ID[:len(r.ID)-1]} {
			want := c.want || id == r.ID
			_, err := Resume(t.Context(), db, id, &run.Options{})
			if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "iotax run --resume="+r.ID) {
				t.Errorf("%s with mode %o, %s: %v", filepath.Base(c.file), c.mode, id, err)
			}
		}
	}
}
