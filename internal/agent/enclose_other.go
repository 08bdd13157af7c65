//go:build !linux

package agent

import "errors"

func enclose(string, string) (int, error) { return 0, errors.ErrUnsupported }

func enclosed(string, string) (int, error) { return 0, errors.ErrUnsupported }
