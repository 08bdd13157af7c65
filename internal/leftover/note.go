package leftover

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"iotax"
)

// A Noted is what a run has written down in its working directory before it made it: a thing that cannot bear a label.
type Noted struct {
	Name  string
	How   []string // what the run has written down about its making
	File  string   // the note
	Label Label    // of the directory
}

// noteName begins the names of notes. What is noted goes before the directory does; see removeDir.
const noteName = "made-"

// Note writes down in the working directory of a run that a thing of a kind is about to be made. forget is called when it is no
// more; how are lines that help to find it. Without a directory nothing is written.
func Note(dir, kind, name string, how ...string) (forget func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	file := filepath.Join(dir, noteName+kind+"-"+name)
	if err := os.WriteFile(file, []byte(strings.Join(how, "\n")), 0o600); err != nil {
		return nil, &iotax.Error{Op: "note " + name, On: file, Err: err}
	}
	return Noted{File: file}.Forget, nil
}

// Forget removes the note; that it is gone already is no error.
func (n Noted) Forget() error {
	if err := os.Remove(n.File); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Notes lists what runs have noted as a kind in their directories in dirs on this host.
func Notes(dirs []string, kind string) (notes []Noted, err error) {
	for _, dir := range marked(dirs) {
		l, ok := ParseLabel(dir.Label)
		if !ok {
			continue
		}
		prefix := filepath.Join(dir.Name, noteName+kind+"-")
		files, gerr := filepath.Glob(prefix + "iotax-*")
		if gerr != nil {
			continue // a directory with a name like a pattern is none of iotax's making
		}
		for _, f := range files {
			how, rerr := os.ReadFile(f)
			if os.IsNotExist(rerr) {
				continue // forgotten since
			}
			err = errors.Join(err, rerr)
			notes = append(notes, Noted{Name: strings.TrimPrefix(f, prefix), How: strings.Split(string(how), "\n"), File: f, Label: l})
		}
	}
	return notes, err
}

// Remove removes the working directory of a run on this host. What is noted in it, as it could not be removed, stays noted, and
// nothing at all goes while something is mounted in it.
func Remove(dir string) error {
	fail := func(err error) error {
		return &iotax.Error{Op: "remove working directory", On: dir, Err: err, Hint: "iotax clean lists what is left"}
	}
	if err := Busy(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // there is no /proc, or no directory
		return fail(err)
	}
	notes, err := filepath.Glob(filepath.Join(dir, noteName+"*"))
	if err != nil || len(notes) == 0 {
		if err := os.RemoveAll(dir); err != nil {
			return fail(err)
		}
		return nil
	}
	entries, err := os.ReadDir(dir)
	errs := []error{err}
	for _, e := range entries {
		if e.Name() != Marker && !strings.HasPrefix(e.Name(), noteName) {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fail(err)
	}
	return nil
}
