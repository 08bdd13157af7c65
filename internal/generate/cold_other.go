//go:build !linux

package generate

import "errors"

func forgetNames() error { return errors.New("this system has no way to forget names and attributes") }
