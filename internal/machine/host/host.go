// Package host runs commands on this host. When the context of a command is done, Run ends all processes of the
// command, as far as the system shows them.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"iotax"
	"iotax/internal/machine/internal/proc"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/secret"
)

// Spec is the spec of kind host. It has no fields.
type Spec struct{ plan.Plain }

// Kind defines the machine kind host.
var Kind = kind.Of("host", "this host", Spec{}, func(context.Context, *Spec, kind.Options) (iotax.Machine, error) {
	return Local(), nil
}).WithoutDevices()

// Local returns this host.
func Local() iotax.Machine { return local{} }

type local struct{}

func (local) String() string { return "host" }

func (local) Close(context.Context) error { return nil }

func (local) Caps() iotax.MachineCaps { return iotax.MachineCaps{Local: true} }

// Run passes a Stdin or Stdout that is a file directly to the command, so that a load generator's output does not go
// through this process.
//
// A Stdin that is not a file may still be in a blocked Read when Run returns, if the command ended without reading all
// of it.
func (l local) Run(ctx context.Context, c *iotax.Cmd) error {
	if err := proc.Check(c, l.String()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	if c.Dir != "" {
		st, err := os.Stat(c.Dir)
		if err == nil && !st.IsDir() {
			err = errors.New("not a directory")
		}
		if err != nil {
			return &iotax.Error{Op: "run " + proc.Name(c), On: "in " + c.Dir + " on host", Err: errors.New(proc.Reason(err))}
		}
	}
	path, err := lookPath(c)
	if err != nil {
		return notRun(c, err)
	}
	tag := proc.TagName + "=" + proc.NewTag()
	cmd := &exec.Cmd{Path: path, Args: c.Args, Dir: c.Dir, SysProcAttr: ownGroup()}
	cmd.Env = append(append(secret.Environ(), c.Env...), tag)

	var tail proc.Tail
	out, errs := proc.Gates(c, cancel)
	var ends pipes
	defer ends.close()
	var outputs sync.WaitGroup
	collect := func(w io.Writer) (*os.File, error) {
		r, child, err := ends.pipe()
		if err == nil {
			outputs.Go(func() {
				if _, err := io.Copy(w, r); err != nil {
					r.Close() // the command gets SIGPIPE at its next write
				}
			})
		}
		return child, err
	}
	var feed func()
	fed := make(chan struct{})
	var stdout, stderr, stdin *os.File
	switch f, isFile := c.Stdout.(*os.File); {
	case isFile:
		cmd.Stdout = f
	case c.Stdout != nil:
		if stdout, err = collect(out); err == nil {
			cmd.Stdout = stdout
		}
	}
	if err == nil {
		if stderr, err = collect(io.MultiWriter(&tail, errs)); err == nil {
			cmd.Stderr = stderr
		}
	}
	finished := make(chan struct{})
	switch f, isFile := c.Stdin.(*os.File); {
	case err != nil:
	case isFile:
		cmd.Stdin = f
	case c.Stdin != nil:
		var w *os.File
		if stdin, w, err = ends.pipe(); err == nil {
			cmd.Stdin = stdin
			feed = func() {
				proc.Feed(w, c.Stdin, func(err error) { cancel(err); <-finished })
				close(fed)
			}
		}
	}
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range []*os.File{stdout, stderr, stdin} {
		if f != nil {
			f.Close() // the child has its own copy
		}
	}
	if err != nil {
		ends.close()
		outputs.Wait()
		return notRun(c, err)
	}
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	g := newGroup(cmd, tag)
	defer g.release()
	if feed != nil {
		go feed()
	}
	var result error
	go func() {
		result = cmd.Wait()
		outputs.Wait()
		close(finished)
	}()

	select {
	case <-finished:
	case <-ctx.Done():
		if left := g.end(); left != "" {
			out.Shut()
			errs.Shut()
			return proc.Survivors(c, l.String(), left, context.Cause(ctx))
		}
		select {
		case <-finished:
			return l.ended(c, context.Cause(ctx))
		case <-time.After(time.Second):
			// A process outside the group still has the output open.
			out.Shut()
			errs.Shut()
			return l.ended(c, context.Cause(ctx))
		}
	}
	if feed != nil {
		ends.close() // ends a Feed that writes to an ended command
		select {
		case <-fed:
		case <-time.After(100 * time.Millisecond):
		}
	}
	var stream *proc.StreamError
	if errors.As(context.Cause(ctx), &stream) {
		return l.ended(c, stream)
	}
	var exit *exec.ExitError
	if errors.As(result, &exit) {
		e := &iotax.ExitError{Args: c.Args, Code: exit.ExitCode(), Stderr: tail.String()}
		if n, name := signalled(exit.ProcessState); n > 0 {
			e.Code, e.Signal = 128+n, name
		}
		return e
	}
	if result != nil {
		return &iotax.Error{Op: "run " + proc.Name(c), On: "on host", Err: result}
	}
	return nil
}

// ended returns the error for a command that was stopped because of cause: an iotax.Error with the command's name if
// cause is a StreamError, otherwise cause itself.
func (l local) ended(c *iotax.Cmd, cause error) error {
	var stream *proc.StreamError
	if errors.As(cause, &stream) {
		return &iotax.Error{Op: "run " + proc.Name(c), On: "on host", Err: stream}
	}
	return cause
}

// pipes contains the ends of the pipes of one command. close may be called twice.
type pipes []*os.File

func (p *pipes) pipe() (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err == nil {
		*p = append(*p, r, w)
	}
	return r, w, err
}

func (p *pipes) close() {
	for _, f := range *p {
		f.Close()
	}
}

// lookPath finds the program in the PATH of the command, or in the PATH of this process if the command does not set
// PATH. It ignores relative directories in the PATH of the command.
func lookPath(c *iotax.Cmd) (string, error) {
	name := c.Args[0]
	if strings.ContainsRune(name, filepath.Separator) {
		// A relative name is relative to Dir: the child changes to Dir before it executes the file.
		return name, nil
	}
	for i := len(c.Env) - 1; i >= 0; i-- {
		list, ok := strings.CutPrefix(c.Env[i], "PATH=")
		if !ok {
			continue
		}
		err := error(exec.ErrNotFound)
		for _, dir := range filepath.SplitList(list) {
			if name == "" || !filepath.IsAbs(dir) {
				continue
			}
			p, e := exec.LookPath(filepath.Join(dir, name))
			if e == nil {
				return p, nil
			}
			if errors.Is(e, os.ErrPermission) {
				err = e
			}
		}
		return "", err
	}
	return exec.LookPath(name)
}

// notRun maps a failed start to the exit status of a shell: 127 for a missing program, 126 for a program that cannot be
// executed.
func notRun(c *iotax.Cmd, err error) error {
	e := &iotax.ExitError{Args: c.Args, Code: 126}
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, exec.ErrDot):
		e.Code, e.Stderr = 127, "not found"
	case errors.Is(err, os.ErrNotExist):
		e.Code, e.Stderr = 127, "not found"
		if _, serr := os.Stat(c.Args[0]); serr == nil {
			e.Stderr = "its interpreter is not found"
		}
	case errors.Is(err, os.ErrPermission), notExecutable(err):
		e.Stderr = proc.Reason(err)
	default:
		return &iotax.Error{Op: "run " + proc.Name(c), On: "on host", Err: err}
	}
	return e
}

// describe lists at most eight process ids and counts the others.
func describe(pids []int) string {
	var b bytes.Buffer
	for i, p := range pids {
		if i == 8 {
			fmt.Fprintf(&b, " and %d more", len(pids)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, p)
	}
	if len(pids) == 0 {
		return ""
	}
	return "process " + b.String()
}
