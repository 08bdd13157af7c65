package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"iotax"
)

// ReadJSON reads a run that WriteJSON exported, with its resolved plan and its trials, but without raw output. It
// accepts all versions up to ExportVersion and ignores unknown fields.
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
		return nil, nil, errors.New("this is not an export of iotax")
	case in.Version > ExportVersion:
		return nil, nil, fmt.Errorf("the export has version %d, and this iotax reads up to %d", in.Version, ExportVersion)
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
