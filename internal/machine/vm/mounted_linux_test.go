package vm

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The end of a guest does not remove the files of a file system that is mounted in the guest's directory.
func TestMountedInWorkDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	for name, end := range map[string]func(dir string) error{
		"guest":   func(dir string) error { return (&booting{dir: dir, sockets: dir}).end(t.Context()) },
		"console": func(dir string) error { return (&consoleGuest{dirs: []string{dir}}).Close(t.Context()) },
	} {
		dir := t.TempDir()
		at, file := dir+"/mounted", dir+"/mounted/file"
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Error(err)
		}
		err := end(dir)
		if _, lost := os.Stat(file); err == nil || lost != nil {
			t.Errorf("%s: %v, %v", name, err, lost)
		}
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
		if err := end(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: the directory is left: %v", name, err)
		}
	}
}
