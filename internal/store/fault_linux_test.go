package store

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// mount mounts a tmpfs of the given size and returns its path.
func mount(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("needs the right to mount a tmpfs:", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	ctx := context.Background()
	dir := mount(t, "2m")
	s := open(t, filepath.Join(dir, "s.db"))
	if err := s.Create(ctx, exampleRun("r")); err != nil {
		t.Fatal(err)
	}
	var err error
	saved := 0
	for ; saved < 10_000; saved++ {
		if err = s.Append(ctx, exampleTrial("r", saved)); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("10,000 trials fit")
	}
	wantHint(t, err, "disk is full", "free space", dir)
	check := func(s *Store, want int) {
		t.Helper()
		trials, err := s.Trials(ctx, "r")
		if err != nil || len(trials) != want {
			t.Errorf("%d trials, %v; want %d", len(trials), err, want)
		}
		var ok string
		if err := s.db.QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
			t.Errorf("integrity_check: %q, %v", ok, err)
		}
	}
	check(s, saved)
	s.Close()
	s = open(t, filepath.Join(dir, "s.db")) // the file system is still full
	check(s, saved)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(ctx, exampleTrial("r", saved)); err != nil {
		t.Errorf("once there is space again: %v", err)
	}
	check(s, saved+1)
}

// A store on a full or nearly full disk returns an error with the cause, and works once space is available.
func TestFullFromTheStart(t *testing.T) {
	for _, free := range []int{0, 4 << 10, 16 << 10, 48 << 10, 100 << 10} {
		dir := mount(t, "1m")
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		filler := filepath.Join(dir, "filler")
		if err := os.WriteFile(filler, make([]byte, int(st.Bavail)*int(st.Bsize)-free), 0o600); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "s.db")
		s, err := Open(context.Background(), path)
		if err == nil {
			if err = s.Create(context.Background(), exampleRun("r")); err == nil {
				for i := range 100 {
					if err = s.Append(context.Background(), exampleTrial("r", i)); err != nil {
						break
					}
				}
			}
			s.Close()
		}
		if err == nil {
			t.Errorf("%d bytes free: no error", free)
			continue
		}
		wantHint(t, err, "full")
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if err := open(t, path).Create(context.Background(), exampleRun("s")); err != nil {
			t.Errorf("%d bytes free, then space: %v", free, err)
		}
	}
}

func TestReadOnlyDisk(t *testing.T) {
	ctx := context.Background()
	dir := mount(t, "4m")
	path := filepath.Join(dir, "s.db")
	s := open(t, path)
	if err := s.Create(ctx, exampleRun("r")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "new")) // Open tries to create this directory for the default store
	for _, path := range []string{path, filepath.Join(dir, "new.db"), ""} {
		_, err := Open(ctx, path)
		if err == nil {
			t.Errorf("%s was opened", path)
			continue
		}
		wantHint(t, err, "read-only file system", cmp.Or(path, dir), "--store")
	}
}
