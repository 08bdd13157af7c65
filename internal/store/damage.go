package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"iotax"
)

// ErrDamaged is wrapped by the error for stored bytes that cannot be decoded.
var ErrDamaged = errors.New("the stored value is damaged")

// A spot is a row: a run, or one of its trials.
type spot struct {
	run   string
	trial any // Seq, or nil; users count from 1
}

// damaged returns the error of a column that cannot be decoded, or nil.
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

// scanned returns the error of a Scan. A column with an unexpected type is damaged.
func (s spot) scanned(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "sql: Scan error") {
		return s.damaged("a column", err)
	}
	return err
}

func (s spot) unmarshal(column string, text []byte, v any) error {
	return s.damaged(column, json.Unmarshal(text, v))
}
