//go:build !linux

package lab

import (
	"context"
	"errors"

	"iotax"
)

var errLinux = &iotax.Error{Op: "make lab", Err: errors.New("it needs the network namespaces of Linux"), Hint: "run it on a Linux machine, or name real machines (ssh:) in the plan"}

// Up returns an error: labs need Linux.
func Up(context.Context, Config) (*Lab, error) { return nil, errLinux }

// Down returns an error: labs need Linux.
func Down(context.Context, string) error { return errLinux }

// Look returns an error: labs need Linux.
func Look(*Lab) error { return errLinux }

// Processes returns nil: labs need Linux.
func Processes(*Lab) map[string][]int { return nil }

// Enter returns an error: labs need Linux.
func Enter(Node, []string) ([]string, error) { return nil, errLinux }
