package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"iotax"
	"iotax/internal/agent"
)

// A program describes a search for the program Name in the directories First, the PATH, and the directories Then, in
// this order. "~" in Then means the home directory.
type program struct {
	Name        string
	First, Then []string
}

// findProgram returns the path of a program, or "" if it is not found.
var findProgram = agent.New("volume.find program", func(_ context.Context, p program) (string, error) {
	for _, dir := range p.First {
		if path, err := exec.LookPath(filepath.Join(dir, p.Name)); err == nil {
			return path, nil
		}
	}
	if path, err := agent.Tool(p.Name); err == nil {
		return path, nil
	}
	home, _ := os.UserHomeDir()
	for _, dir := range p.Then {
		if path, err := exec.LookPath(filepath.Join(strings.Replace(dir, "~", home, 1), p.Name)); err == nil {
			return path, nil
		}
	}
	return "", nil
})

// has returns an error with a hint if a program is missing on m.
func has(ctx context.Context, m iotax.Machine, op, name, pkg string) error {
	path, err := on(ctx, quick, findProgram.On, m, program{Name: name})
	if err == nil && path == "" {
		err = &iotax.Error{Op: op, On: m.String(), Err: errors.New(name + " is not installed there"), Hint: "apt install " + pkg + " on " + m.String()}
	}
	return err
}

// A file contains the size and the text of a file that a server writes.
type file struct {
	Size int64
	Text string // only if the file has at most 4096 bytes
}

// readFile reads the size and text of a file. It returns the zero value if the file does not exist.
var readFile = agent.New("volume.read file", func(_ context.Context, path string) (f file, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	} else if err != nil {
		return f, err
	}
	if f.Size = info.Size(); f.Size > 4096 {
		return f, nil
	}
	text, err := os.ReadFile(path)
	f.Text = string(text)
	return f, err
})

// written reports whether a file of m exists and is not empty.
func written(ctx context.Context, m iotax.Machine, path string) bool {
	f, err := on(ctx, quick, readFile.On, m, path)
	return err == nil && f.Size > 0
}

// makeDirs makes directories. It returns an error if one of them already exists.
var makeDirs = agent.New("volume.make directories", func(_ context.Context, paths []string) (none, error) {
	for _, p := range paths {
		if err := os.Mkdir(p, 0o700); err != nil {
			return none{}, failed("make", p, err)
		}
	}
	return none{}, nil
})

// removeLater pushes the removal of a file or directory that iotax made on this host.
func removeLater(u *undo, path string) {
	u.push(func(context.Context) error {
		if err := os.RemoveAll(path); err != nil {
			return &iotax.Error{Op: "remove", On: path, Err: err, Hint: "remove it by hand"}
		}
		return nil
	})
}

// newHostDir makes a directory with this mode on this host, independently of the umask, and pushes the removal of the
// directory and its contents.
func newHostDir(u *undo, op, path string, mode os.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		return failed(op, path, err)
	}
	removeLater(u, path)
	return os.Chmod(path, mode)
}
