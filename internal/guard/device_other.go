//go:build !linux

package guard

import (
	"context"
	"errors"
	"fmt"
	"os"

	"iotax"
)

func unsupported(path string) error {
	return &iotax.Error{Op: opLook, On: path, Err: fmt.Errorf("only Linux shows who uses a block device: %w", errors.ErrUnsupported), Hint: "name a directory"}
}

func inspect(_ context.Context, q Query) (*Facts, error) { return nil, unsupported(q.Path) }

func survey(_ context.Context, q SurveyQuery) (Device, error) { return Device{}, unsupported(q.Path) }

// Hold returns an error, because it needs Linux.
func Hold(path string) (*os.File, error) { return nil, unsupported(path) }
