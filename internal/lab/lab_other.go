//go:build !linux

package lab

import (
	"context"
	"errors"

	"iotax"
)

var errLinux = &iotax.Error{Op: "make lab", Err: errors.New("it needs the network namespaces of Linux"), Hint: "run it on a Linux machine, or name real machines (ssh:) in the plan"}

// Up makes the lab.
func Up(context.Context, Config) (*Lab, error) { return nil, errLinux }

// Down removes the lab.
func Down(context.Context, string) error { return errLinux }

// Look finds what is missing of l.
func Look(*Lab) error { return errLinux }

// Processes are the ids of the processes on each node.
func Processes(*Lab) map[string][]int { return nil }

// Enter is the command that runs args on n.
func Enter(Node, []string) ([]string, error) { return nil, errLinux }
