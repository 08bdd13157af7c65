package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// -o replaces the file that a link points to, and not the link. It keeps the file's mode, and writes into a FIFO or a
// device instead of replacing it.
func TestOutputFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "r.json"), filepath.Join(dir, "link.json"), filepath.Join(dir, "pipe.json")
	err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink("r.json", link), unix.Mkfifo(pipe, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	o := &outlet{formats: []string{"json"}, files: []string{link, pipe}, format: "json"}
	if _, err := o.write(&app{out: io.Discard}, func(w io.Writer, _ string) error { _, err := w.Write([]byte("new")); return err }); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if got, err := os.ReadFile(file); string(got) != "new" {
		t.Errorf("the file has %q, %v", got, err)
	}
	for path, want := range map[string]os.FileMode{link: os.ModeSymlink, pipe: os.ModeNamedPipe} {
		if st, err := os.Lstat(path); err != nil || st.Mode().Type() != want {
			t.Errorf("%s is now %v, %v", path, st.Mode(), err)
		}
	}
	got := make([]byte, 3)
	if _, err := io.ReadFull(reader, got); err != nil || string(got) != "new" {
		t.Errorf("the FIFO has %q, %v", got, err)
	}
}

// A new file of -o has the mode that the umask allows. An error names that file, and not the temporary one.
func TestOutputFileFollowsUmask(t *testing.T) {
	defer unix.Umask(unix.Umask(0o027))
	file := filepath.Join(t.TempDir(), "r.json")
	o := &outlet{formats: []string{"json"}, files: []string{file}, format: "json"}
	if _, err := o.write(&app{out: io.Discard}, func(io.Writer, string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode() != 0o640 {
		t.Errorf("%v, %v", st, err)
	}
	o.files = []string{filepath.Join(t.TempDir(), "removed", "r.json")}
	if _, err := o.write(&app{out: io.Discard}, nil); err == nil || err.Error() != "write "+o.files[0]+": no such file or directory" {
		t.Errorf("the directory was removed: %v", err)
	}
	if left, err := filepath.Glob(filepath.Dir(file) + "/.*iotax*"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
