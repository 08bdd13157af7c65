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

	"github.com/gofrs/flock"

	"iotax"
)

const (
	file = "state.json"
	lock = "lock"
)

// A Dir is the state directory of a search. The caller closes it.
type Dir struct {
	Path    string
	command string
	lock    *flock.Flock
}

// Open creates the directory if it does not exist, and locks it. command is the name of the search in errors. Open
// returns an error if another process has the lock.
func Open(path, command string) (*Dir, error) {
	fail := func(err error, hint string) (*Dir, error) {
		return nil, &iotax.Error{Op: "open state of " + command, On: path, Err: err, Hint: hint}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fail(err, "name a directory that can be written: --state DIR")
	}
	d := &Dir{path, command, flock.New(filepath.Join(path, lock), flock.SetPermissions(0o600))}
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

// Clear removes the contents of the directory, except the lock.
func (d *Dir) Clear() error {
	entries, err := os.ReadDir(d.Path)
	for _, e := range entries {
		if e.Name() != lock {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.Path, e.Name())))
		}
	}
	return err
}

// Remove removes the directory after a completed search. The caller must still call Close.
func (d *Dir) Remove() error { return os.RemoveAll(d.Path) }
