// Package statefile stores the state of a long search in a directory, so that the search can continue after an
// interrupt. Only one process at a time can use the directory.
package statefile

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"iotax"
)

const (
	file = "state.json"
	lock = "iotax.lock" // also marks the directory as a state directory
)

// A Dir is the state directory of a search. The caller closes it.
type Dir struct {
	Path    string
	command string
	made    []string
	lock    *flock.Flock
}

// Open creates the directory if it does not exist, and locks it. command is the name of the search in errors. made
// lists the files and directories that the search creates there besides its state. Open returns an error if another
// process has the lock, or if the directory contains files but no lock file.
func Open(path, command string, made ...string) (*Dir, error) {
	fail := func(err error, hint string) (*Dir, error) {
		return nil, &iotax.Error{Op: "open state of " + command, On: path, Err: err, Hint: hint}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fail(err, "name a directory that can be written: --state DIR")
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fail(err, "name a directory that can be read: --state DIR")
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lock }) {
		return fail(errors.New("the directory contains files that are not of a search"), "name a new or empty directory: --state DIR")
	}
	d := &Dir{path, command, append(made, file), flock.New(filepath.Join(path, lock), flock.SetPermissions(0o600))}
	if ok, err := d.lock.TryLock(); err != nil {
		return fail(err, "name a directory that can be written: --state DIR")
	} else if !ok {
		return fail(errors.New("another "+command+" works there"), "wait until it ends, or give this one a directory of its own: --state DIR")
	}
	return d, nil
}

// Close releases the lock.
func (d *Dir) Close() error { return d.lock.Close() }

// Read decodes the saved state into `into`. It returns false if no state is saved.
func (d *Dir) Read(into any) (bool, error) {
	path := filepath.Join(d.Path, file)
	text, err := iotax.ReadFile(path, iotax.MaxOutput)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return false, &iotax.Error{Op: "read state", On: path, Err: err, Hint: "start anew: " + d.command + " --reset …"}
	}
	return true, nil
}

// Write saves the state.
func (d *Dir) Write(state any) error {
	text, err := json.MarshalIndent(state, "", "  ")
	if err == nil {
		err = iotax.WriteWhole(filepath.Join(d.Path, file), 0o600, func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
	}
	if err != nil {
		return &iotax.Error{Op: "save state of " + d.command, On: d.Path, Err: err, Hint: "name a directory that can be written: --state DIR"}
	}
	return nil
}

// Clear removes the state and the files that the search created. It leaves the lock and all other files.
func (d *Dir) Clear() (err error) {
	for _, name := range d.made {
		err = errors.Join(err, os.RemoveAll(filepath.Join(d.Path, name)))
	}
	return err
}

// Remove removes the files that Clear removes, the lock, and the directory if it is then empty. The caller must still
// call Close.
func (d *Dir) Remove() error {
	if err := errors.Join(d.Clear(), os.Remove(filepath.Join(d.Path, lock))); err != nil {
		return err
	}
	if entries, err := os.ReadDir(d.Path); err != nil || len(entries) > 0 {
		return err
	}
	return os.Remove(d.Path)
}
