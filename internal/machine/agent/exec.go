package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/internal/proc"
)

// Streams are the standard streams of a program. All of them must be set.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// A Run runs a program on a machine with the given streams. It returns the exit status when the program has ended and
// all output is written. An error means that the status is unknown. When ctx is done, Run abandons the streams and
// returns, although the program may continue. Several goroutines may call a Run at the same time.
type Run = func(ctx context.Context, args []string, s Streams) (code int, err error)

// An Exec is a Transport for channels that run a program from start to end, such as `docker exec`.
type Exec struct {
	Name   string
	Run    Run
	Hint   string                      // hint for the error if the program is missing or cannot run on the machine
	Remove func(context.Context) error // removes the resources that iotax made for the machine; may be nil
}

func (e *Exec) String() string { return e.Name }

func (e *Exec) Close(ctx context.Context) error {
	if e.Remove == nil {
		return nil
	}
	return e.Remove(ctx)
}

// Start starts argv. The Running's Kill cancels e.Run; the end of ctx does not.
func (e *Exec) Start(ctx context.Context, argv []string) (*agent.Running, error) {
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	context.AfterFunc(ctx, func() { // unblocks reads and writes of the streams
		_ = stdin.CloseWithError(io.ErrClosedPipe)
		stdout.Close()
	})
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		defer kill()
		var tail proc.Tail
		code, err := e.Run(ctx, argv, Streams{In: stdin, Out: stdout, Err: &tail})
		if failed = err; err == nil && code != 0 {
			failed = &iotax.ExitError{Args: argv, Code: code, Stderr: tail.String()}
		}
		missing := code == 126 || code == 127 || err != nil && strings.Contains(err.Error(), "executable file not found")
		if missing && e.Hint != "" {
			failed = &iotax.Error{Op: "run " + argv[0], On: "on " + e.Name, Err: errors.New(failed.Error()), Hint: e.Hint}
		}
	}()
	return &agent.Running{Stdin: in, Stdout: out, Wait: func() error { <-ended; return failed }, Kill: kill}, nil
}

// Through returns a Run that uses a command of another machine, such as nsenter(1), docker exec or limactl shell.
// prefix is the part of the command line before args. When the command fails, the Run calls `lost`, which returns the
// reason if the target machine has ended, else nil. lost may be nil.
func Through(on iotax.Machine, prefix []string, lost func(context.Context) error) Run {
	return func(ctx context.Context, args []string, s Streams) (int, error) {
		err := on.Run(ctx, &iotax.Cmd{Args: slices.Concat(prefix, args), Stdin: s.In, Stdout: s.Out, Stderr: s.Err})
		var exit *iotax.ExitError
		if !errors.As(err, &exit) {
			return 0, err
		}
		if lost != nil {
			if err := lost(ctx); err != nil {
				return 0, err
			}
		}
		if exit.Signal != "" {
			return 0, fmt.Errorf("%s was ended by signal %s", prefix[0], exit.Signal)
		}
		return exit.Code, nil
	}
}
