package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"iotax"
)

// ErrDamaged reports that stored bytes cannot be decoded.
var ErrDamaged = errors.New("the stored value is damaged")

// A spot identifies a row for errors: a run, or one of its trials.
type spot struct {
	run   string
	trial any // the Seq of the trial as an int, or nil for the run; errors print Seq + 1
}

// damaged returns an error that names the column and wraps err, or nil if err is nil.
func (s spot) damaged(column string, err error) error {
	if err == nil {
		return nil
	}
	on := column + " of run " + s.run
	if seq, ok := s.trial.(int); ok {
		on = fmt.Sprintf("%s of trial %d of run %s", column, seq+1, s.run)
	}
	return &iotax.Error{Op: "read", On: on, Err: fmt.Errorf("%w: %w", ErrDamaged, err),
		Hint: "restore the store from a copy, or remove the run: iotax rm " + s.run + "; a disk or a program that writes into the store may be the cause"}
}

// scanned converts an error of Scan. It reports a column with an unexpected type as damaged, and returns other errors
// unchanged.
func (s spot) scanned(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "sql: Scan error") {
		return s.damaged("a column", err)
	}
	return err
}

func (s spot) unmarshal(column string, text []byte, v any) error {
	return s.damaged(column, json.Unmarshal(text, v))
}
