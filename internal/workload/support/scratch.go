package support

import (
	"context"
	"errors"
	"fmt"
	"time"

	"iotax"
	"iotax/internal/workload/task"
)

// A Lodging describes a separate directory that a workload needs on a machine, away from the measured place.
type Lodging struct {
	In      string // parent directory from the plan; "" leaves the choice to the machine
	Need    int64  // space that its files need, bytes
	Network bool   // In may be on a network file system
	Create  bool   // create In if it does not exist
}

// A Scratch is a directory made for a Lodging.
type Scratch struct {
	M    iotax.Machine
	Path string
	undo func(context.Context) error
}

func NewScratch(ctx context.Context, env Env, m iotax.Machine, l Lodging) (*Scratch, error) {
	path, undo, err := env.Lodge(ctx, m, l)
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return nil, errors.Join(err, undo(clean))
	}
	return &Scratch{m, path, undo}, nil
}

// Limited calls `do` with a deadline of `limit` from now. If the deadline ends the call, the error names the limit.
func Limited(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end within %v", limit))
	defer cancel()
	err := do(inner)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		err = context.Cause(inner)
	}
	return err
}

// Bounded runs a command with a deadline of `limit` from now, and returns its standard output.
func Bounded(ctx context.Context, m iotax.Machine, limit time.Duration, c *iotax.Cmd) (string, error) {
	var out iotax.Capture
	c.Stdout = &out
	err := Limited(ctx, limit, func(ctx context.Context) error { return m.Run(ctx, c) })
	return out.String(), err
}

// GlanceTime limits a short check of a machine.
var GlanceTime = 30 * time.Second

// Run runs a command in the directory with a deadline of `limit` from now. It returns how long the command took by this
// host's clock.
func (s *Scratch) Run(ctx context.Context, limit time.Duration, env []string, args ...string) (time.Duration, error) {
	begun := time.Now()
	_, err := Bounded(ctx, s.M, limit, &iotax.Cmd{Args: args, Env: append(env, "LC_ALL=C"), Dir: s.Path})
	return time.Since(begun), err
}

func (s *Scratch) Remove(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.undo(ctx)
}

// MissingTool returns an error that names a tool that is not installed on m, or nil. `tools` maps each program to its
// package.
func MissingTool(ctx context.Context, m iotax.Machine, tools map[string]string) error {
	for tool, pkg := range tools {
		path, err := task.Find.On(ctx, m, tool)
		if err != nil {
			return err
		}
		if path == "" {
			return &iotax.Error{Op: "find " + tool + " on", On: m.String(), Err: fmt.Errorf("it is not installed"), Hint: "apt install " + pkg + " on " + m.String()}
		}
	}
	return nil
}

// Longest returns the time limit for one step of an image or a copy: 3 minutes, plus the time for `bytes` at 4 MiB/s.
func Longest(bytes int64) time.Duration {
	return 3*time.Minute + time.Duration(bytes/(4<<20))*time.Second
}
