// Package shell is a POSIX shell with the file tools that iotax's own scripts ask for, inside of iotax: for machines that
// have neither, which is Windows. Programs that are none of these are run by the machine.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"iotax"
	"iotax/internal/machine/internal/proc"
	"iotax/internal/secret"
)

// Knows reports whether args are something that Run does: `sh -c SCRIPT …`, or one of the tools.
func Knows(args []string) bool {
	return len(args) > 2 && args[0] == "sh" && args[1] == "-c" || len(args) > 0 && (tools[args[0]] != nil || slices.Contains(builtins, args[0]))
}

// builtins are commands of the shell that are also asked for alone.
var builtins = []string{"true", "false", "echo", "printf", "test", "["}

// grace is how long a script that is ended may take for its trap.
const grace = 5 * time.Second

// Run runs cmd; start runs what the shell does not know itself. An error is as that of an iotax.Machine on this host.
func Run(ctx context.Context, cmd *iotax.Cmd, start func(context.Context, *iotax.Cmd) error) error {
	script, name, params := `"$@"`, "sh", cmd.Args
	if cmd.Args[0] == "sh" {
		script, params = cmd.Args[2], cmd.Args[3:]
		if len(params) > 0 {
			name, params = params[0], params[1:]
		}
	}
	op := "run " + proc.Name(cmd)
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(script), name)
	if err != nil {
		return &iotax.ExitError{Args: cmd.Args, Code: 2, Stderr: err.Error()}
	}
	declares(file)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var tail proc.Tail
	out, errs := proc.Gates(cmd, cancel)
	defer out.Shut()
	defer errs.Shut()
	stderr := io.MultiWriter(&tail, errs)

	// A script that is ended leaves by its trap, as one that a signal ends: so it is not the interpreter's
	// context that ends first.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, end) })
	defer stop()
	s := &session{ctx: ctx, start: start}

	stdin, feed, err := os.Pipe()
	if err != nil {
		return &iotax.Error{Op: op, On: "on host", Err: err}
	}
	defer stdin.Close()
	defer feed.Close()                                      // wakes a Feed whose script has gone
	defer context.AfterFunc(ctx, func() { feed.Close() })() // and a script that waits for input
	go proc.Feed(feed, cmd.Stdin, cancel)
	r, err := interp.New(interp.StdIO(stdin, out, stderr), interp.Env(environ(cmd.Env)), interp.Params(slices.Concat([]string{"--"}, params)...),
		interp.CallHandler(s.call), interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return s.exec }))
	if err == nil && cmd.Dir != "" {
		err = interp.Dir(cmd.Dir)(r)
	}
	if err != nil {
		return &iotax.Error{Op: op, On: "in " + cmd.Dir + " on host", Err: err}
	}
	err = r.Run(life, file)
	if cause := context.Cause(ctx); cause != nil {
		var stream *proc.StreamError
		if errors.As(cause, &stream) {
			return &iotax.Error{Op: op, On: "on host", Err: stream}
		}
		return cause
	}
	var status interp.ExitStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return &iotax.ExitError{Args: cmd.Args, Code: int(status), Stderr: tail.String()}
	}
	return &iotax.Error{Op: op, On: "on host", Err: err}
}

// environ is this process's environment and more, with what scripts take for granted.
func environ(more []string) expand.Environ {
	env := secret.Environ()
	def := func(name, value string) {
		if os.Getenv(name) == "" && value != "" {
			env = append(env, name+"="+filepath.ToSlash(value))
		}
	}
	def("TMPDIR", os.TempDir())
	home, _ := os.UserHomeDir()
	def("HOME", home)
	return expand.ListEnviron(append(env, more...)...)
}

// A session is one script under way.
type session struct {
	ctx     context.Context // of its caller
	start   func(context.Context, *iotax.Cmd) error
	leaving atomic.Bool
}

// call replaces what the interpreter lacks, and makes a script that is to end leave by its trap.
func (s *session) call(ctx context.Context, args []string) ([]string, error) {
	if s.ctx.Err() != nil && !slices.Contains([]string{"exit", "rm", "rmdir"}, args[0]) && s.leaving.CompareAndSwap(false, true) {
		return []string{"exit", "143"}, nil
	}
	switch args[0] {
	case "cd":
		if len(args) > 2 && args[1] == "--" {
			return append([]string{"cd"}, args[2:]...), nil
		}
	case "pwd":
		return append([]string{"iotax-pwd"}, args[1:]...), nil // Windows' separators are none in a script
	case "umask":
		return []string{"true"}, nil // what the tools make belongs to the user alone
	case "trap":
		if len(args) > 2 && args[len(args)-1] != "EXIT" {
			return []string{"true"}, nil // signals do not come here
		}
	}
	return args, nil
}

// exec does a tool, or hands a program to the machine.
func (s *session) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	if tool := tools[args[0]]; tool != nil {
		err := tool(&call{ctx: s.ctx, dir: hc.Dir, in: hc.Stdin, out: hc.Stdout, args: args[1:]})
		var status interp.ExitStatus
		if err != nil && !errors.As(err, &status) {
			fmt.Fprintf(hc.Stderr, "%s: %v\n", args[0], plain(err))
			return interp.ExitStatus(1)
		}
		return err
	}
	cmd := &iotax.Cmd{Args: args, Dir: hc.Dir, Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr}
	for name, v := range hc.Env.Each {
		if v.Exported && v.Kind == expand.String {
			cmd.Env = append(cmd.Env, name+"="+v.Str)
		}
	}
	err := s.start(s.ctx, cmd)
	var exit *iotax.ExitError
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return interp.ExitStatus(143)
	case errors.As(err, &exit):
		if exit.Code == 127 {
			fmt.Fprintf(hc.Stderr, "sh: %s: not found\n", args[0])
		}
		return interp.ExitStatus(exit.Code)
	}
	fmt.Fprintf(hc.Stderr, "sh: %v\n", err)
	return interp.ExitStatus(126)
}

// plain says an error as a tool would: with the file, without the system call.
func plain(err error) string {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return filepath.ToSlash(p.Path) + ": " + p.Err.Error()
	case errors.As(err, &l):
		return filepath.ToSlash(l.Old) + ": " + l.Err.Error()
	}
	return err.Error()
}

// system is what uname tells.
func system() map[byte]string {
	host, _ := os.Hostname()
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return map[byte]string{'s': map[string]string{"windows": "Windows", "linux": "Linux", "darwin": "Darwin"}[runtime.GOOS], 'n': host, 'r': release(), 'm': arch}
}
