// Package tool opens virtual machines through command-line tools that manage them: Lima, Tart and WSL.
package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"iotax"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/host"
	"iotax/internal/machine/internal/far"
	"iotax/internal/plan"
)

// A tool is a program on this host that manages virtual machines: limactl, tart or wsl.exe.
type tool struct {
	program string
	hint    string // hint for the error if the program is missing
	env     []string
}

// programFile returns the Traits.HostFiles for program: the pointer if the program is a path, otherwise nil.
func programFile(program *string) []*string {
	if !plan.IsPath(*program) {
		return nil
	}
	return []*string{program}
}

const (
	toolQuick = time.Minute      // for a call that lists, configures or stops machines, or prints a version
	toolSlow  = 10 * time.Minute // for a call that may start a machine, waits for one, or removes one
	toolFetch = time.Hour        // for a call that may download an image
)

func (t tool) run(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	var out iotax.Capture
	err := host.Local().Run(ctx, &iotax.Cmd{Args: append([]string{t.program}, args...), Env: t.env, Stdout: &out})
	if err == nil {
		return strings.TrimSpace(out.String()), nil
	}
	e := &iotax.Error{Op: t.program + " " + args[0], Err: err}
	if ctx.Err() != nil {
		e.Err = context.Cause(ctx)
	}
	return "", e
}

// look returns the version of the tool, or an error if the tool is missing. Without arguments for the version, it
// returns "".
func (t tool) look(ctx context.Context, name string, version ...string) (string, error) {
	if _, err := exec.LookPath(t.program); err != nil {
		return "", &iotax.Error{Op: "open machine", On: name, Err: err, Hint: t.hint}
	}
	if len(version) == 0 {
		return "", nil
	}
	return t.run(ctx, toolQuick, version...)
}

// into opens the machine in which the tool runs commands. prefix contains the tool's arguments before the command.
// When a command fails, the machine calls `lost`, which returns the reason if the machine no longer runs, else nil.
func (t tool) into(ctx context.Context, name string, log func(string, ...any), lost func(context.Context) error, prefix ...string) (*remote.Machine, error) {
	through := remote.Through(host.Local(), slices.Concat([]string{t.program}, prefix, []string{"sh", "-c", far.Script}), lost)
	run := func(ctx context.Context, args []string, s remote.Streams) (int, error) {
		// Send args over standard input, because the tools change some command lines.
		s.In = io.MultiReader(strings.NewReader(far.Exec(args)), s.In)
		return through(ctx, nil, s)
	}
	m := remote.New(&remote.Exec{Name: name, Run: run}, "")
	if err := m.Begin(ctx, log); err != nil {
		return nil, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// stillCtx returns a context for cleaning up. If ctx has ended, the new context is independent of it and has its own
// deadline.
func stillCtx(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), toolQuick)
}
