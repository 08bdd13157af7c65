package leftover

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"iotax"
)

// A Noted is what a run has written down in its working directory before it made it: a thing that cannot bear a label.
type Noted struct {
	Name  string
	File  string // the note
	Label Label  // of the directory
}

// noteName begins the names of notes. What is noted goes before the directory does; see removeDir.
const noteName = "made-"

// Note writes down in the working directory of a run that a thing of a kind is about to be made. forget is called when it is no
// more. Without a directory nothing is written.
func Note(dir, kind, name string) (forget func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	file := filepath.Join(dir, noteName+kind+"-"+name)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
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

// Notes lists what runs have noted as a kind in their directories on this host. Those of other users do not count: whoever
// can write to a directory for temporary files could have anything removed.
func Notes(ctx context.Context, p Place, kind string) (notes []Noted, err error) {
	found, err := marked(ctx, p)
	for dir, line := range found {
		l, ok := ParseLabel(line)
		if !ok || !own(dir) {
			continue
		}
		prefix := filepath.Join(dir, noteName+kind+"-")
		files, gerr := filepath.Glob(prefix + "iotax-*")
		if gerr != nil {
			continue // a directory with a name like a pattern is none of iotax's making
		}
		for _, f := range files {
			notes = append(notes, Noted{Name: strings.TrimPrefix(f, prefix), File: f, Label: l})
		}
	}
	return notes, err
}
