package bisect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"iotax"
)

// Load returns the state that is kept in the directory, or a new one. A state of another bisection is an error.
func Load(dir, good, bad, what string) (*State, error) {
	s := &State{Good: good, Bad: bad, What: what}
	path := filepath.Join(dir, "state.json")
	text, err := iotax.ReadFile(path, iotax.MaxOutput)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var old State
	if err == nil {
		err = json.Unmarshal(text, &old)
	}
	if err != nil {
		return nil, &iotax.Error{Op: "read state", On: path, Err: err, Hint: "start anew: iotax bisect --reset …"}
	}
	if old.Good != good || old.Bad != bad || old.What != what {
		return nil, &iotax.Error{Op: "resume bisection", On: path, Err: fmt.Errorf("it is one of other versions, another build script or another measurement (%s to %s)", old.Good, old.Bad),
			Hint: "give the same arguments to resume it, or start anew with --reset"}
	}
	return &old, nil
}

// Saver is Deps.Save for that directory.
func Saver(dir string) func(*State) error {
	return func(s *State) error {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			var text []byte
			if text, err = json.MarshalIndent(s, "", "  "); err == nil {
				err = iotax.WriteWhole(filepath.Join(dir, "state.json"), 0o600, func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
			}
		}
		if err != nil {
			return &iotax.Error{Op: "save state of bisection", On: dir, Err: err, Hint: "name a directory that can be written: --state DIR"}
		}
		return nil
	}
}
