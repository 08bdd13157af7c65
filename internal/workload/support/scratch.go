package support

import (
	"context"
	"errors"
	"fmt"
	"time"

	"iotax"
	"iotax/internal/workload/task"
)

// A Lodging is a directory of its own that a workload wants on a machine, away from the place that is measured.
type Lodging struct {
	In      string // directory of the plan to make it in; "" is where the machine keeps its files
	Need    int64  // bytes that go into it
	Network bool   // In is meant to lie on a network file system
	Create  bool   // In is made if it does not exist
}

// A Scratch is such a directory.
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

// Limited does something with a deadline of its own.
func Limited(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end within %v", limit))
	defer cancel()
	err := do(inner)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		err = context.Cause(inner)
	}
	return err
}

// Bounded runs a command with a deadline of its own, and returns what it printed.
func Bounded(ctx context.Context, m iotax.Machine, limit time.Duration, c *iotax.Cmd) (string, error) {
	var out iotax.Capture
	c.Stdout = &out
	err := Limited(ctx, limit, func(ctx context.Context) error { return m.Run(ctx, c) })
	return out.String(), err
}

// GlanceTime is how long a look at a machine may take which does no work there.
var GlanceTime = 30 * time.Second

// Run runs a command in the directory, with a deadline of its own, and returns how long that took, by this host's clock.
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

// MissingTool finds what is not installed on m.
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

// Longest is what one step of an image or a copy may take: 4 MiB/s, and some minutes.
func Longest(bytes int64) time.Duration {
	return 3*time.Minute + time.Duration(bytes/(4<<20))*time.Second
}
