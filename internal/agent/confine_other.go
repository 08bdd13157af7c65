//go:build !linux

package agent

import "errors"

func landlock() int { return 0 }

func confine(string, []string) error { return errors.ErrUnsupported }
