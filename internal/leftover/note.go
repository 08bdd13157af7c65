package leftover

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"iotax"
)

// A Noted is a resource that cannot carry a label. The run recorded it in its working directory before creating it.
type Noted struct {
	Name  string
	How   []string // lines that help to find the resource
	File  string   // path of the note
	Label Label    // label of the directory
}

// noteName is the prefix of the file names of notes. removeMarked does not remove a working directory that contains a
// note, so iotax removes the noted resources first.
const noteName = "made-"

// Note records in dir, the working directory of a run, that a resource is about to be created. `how` contains lines
// that help to find the resource. Call forget when the resource no longer exists. If dir is "", Note does nothing.
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

// Forget removes the note. It succeeds if the note no longer exists.
func (n Noted) Forget() error {
	if err := os.Remove(n.File); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Notes lists the notes of one kind on this host. It searches the working directories of runs in dirs and in the
// directory for temporary files.
func Notes(dirs []string, kind string) (notes []Noted, err error) {
	for _, dir := range marked(dirs) {
		l, ok := ParseLabel(dir.Label)
		if !ok {
			continue
		}
		files, _ := fs.Glob(os.DirFS(dir.Name), noteName+kind+"-iotax-*") // the pattern is valid
		for _, name := range files {
			f := filepath.Join(dir.Name, name)
			how, rerr := os.ReadFile(f)
			if os.IsNotExist(rerr) {
				continue // removed in the meantime
			}
			err = errors.Join(err, rerr)
			notes = append(notes, Noted{Name: strings.TrimPrefix(name, noteName+kind+"-"), How: strings.Split(string(how), "\n"), File: f, Label: l})
		}
	}
	return notes, err
}

// Remove removes the working directory of a run on this host. If the directory contains notes, Remove keeps them and the
// marker, because the noted resources still exist. If Busy returns an error other than os.ErrNotExist, Remove removes
// nothing.
func Remove(dir string) error {
	fail := func(err error) error {
		return &iotax.Error{Op: "remove working directory", On: dir, Err: err, Hint: "iotax clean lists what is left"}
	}
	if err := Busy(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // ErrNotExist: /proc or the parent of dir does not exist
		return fail(err)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	noted, errs := false, []error{err}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), noteName) {
			noted = true
		} else if e.Name() != Marker {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err = errors.Join(errs...); err == nil && !noted { // the marker goes last, so that clean finds what an error leaves
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}
