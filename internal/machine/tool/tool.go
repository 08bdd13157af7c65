// Package tool is the machines of programs that make virtual machines and run commands in them: Lima, Tart, WSL.
package tool

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"iotax"
	"iotax/internal/machine/execx"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
)

// A tool is a program of this host that makes virtual machines and runs commands in them: limactl, tart,
// wsl.exe.
type tool struct {
	program string
	hint    string // what to do where it is missing
	env     []string
}

// programFile is the program that a plan names, where that is the path of one.
func programFile(program *string) []*string {
	if !plan.IsPath(*program) {
		return nil
	}
	return []*string{program}
}

const (
	toolQuick = time.Minute      // it only tells or ends something
	toolSlow  = 10 * time.Minute // it starts or removes a machine
	toolFetch = time.Hour        // it may download an image
)

// run runs the tool with a deadline and returns what it printed.
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

// look says whether the tool is there, and which version.
func (t tool) look(ctx context.Context, name string, version ...string) (string, error) {
	if _, err := exec.LookPath(t.program); err != nil {
		return "", &iotax.Error{Op: "open machine", On: name, Err: err, Hint: t.hint}
	}
	if len(version) == 0 {
		return "", nil
	}
	return t.run(ctx, toolQuick, version...)
}

// into runs commands through the tool: prefix stands before the command's own words. A tool that answers
// with an exit status of its own when the machine is gone is found out by alive.
func (t tool) into(alive func(context.Context) error, prefix ...string) execx.Exec {
	return func(ctx context.Context, args []string, s execx.Streams) (int, error) {
		// A command that a signal ends has no exit status for such a tool: a shell between gives it one.
		c := iotax.Command(slices.Concat([]string{t.program}, prefix, []string{"sh", "-c", `"$@"; exit $?`, "sh"}, args)...)
		c.Stdin, c.Stdout, c.Stderr = s.In, s.Out, s.Err
		err := host.Local().Run(ctx, c)
		var exit *iotax.ExitError
		switch {
		case err == nil:
			return 0, nil
		case !errors.As(err, &exit):
			return 0, err
		case exit.Signal != "":
			return 0, fmt.Errorf("%s was ended by signal %s", t.program, exit.Signal)
		case alive != nil && (exit.Code == 255 || exit.Code == 1):
			if err := alive(ctx); err != nil {
				return 0, err
			}
		}
		return exit.Code, nil
	}
}

// stillCtx is a context for undoing, with time of its own when ctx has ended.
func stillCtx(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), toolQuick)
}
