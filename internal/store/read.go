package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"iotax"
)

// ReadJSON reads what WriteJSON wrote: a run, its resolved plan included, and its trials without their
// raw output. It reads any export whose version it knows, and ignores fields that later ones added.
// Trials that belong to no run in the file, or to another one, are an error.
func ReadJSON(r io.Reader) (*iotax.Run, []*iotax.Trial, error) {
	var in struct {
		Version int `json:"version"`
		Run     *struct {
			*iotax.Run
			Plan string `json:"plan"`
		} `json:"run"`
		Trials []*iotax.Trial `json:"trials"`
	}
	d := json.NewDecoder(r)
	if err := d.Decode(&in); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			err = errors.New("the file is empty")
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = errors.New("the file ends in the middle")
		case errors.As(err, &syntax):
			err = fmt.Errorf("byte %d: %w", syntax.Offset, err)
		}
		return nil, nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("something follows the export")
	}
	switch {
	case in.Version == 0 || in.Run == nil || in.Run.Run == nil:
		return nil, nil, errors.New("this is no export of iotax")
	case in.Version > ExportVersion:
		return nil, nil, fmt.Errorf("the export has version %d, and this iotax knows up to %d", in.Version, ExportVersion)
	}
	run := in.Run.Run
	run.Plan = []byte(in.Run.Plan)
	for i, t := range in.Trials {
		if t == nil || t.Run != run.ID {
			return nil, nil, fmt.Errorf("trial %d is not one of run %s", i+1, run.ID)
		}
	}
	return run, in.Trials, nil
}
