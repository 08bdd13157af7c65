package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"iotax"
)

// putTime limits how long Put may take on another machine, even if the caller's context has no deadline.
const putTime = time.Hour

type newFile struct {
	Path string
	Mode os.FileMode
}

var put = NewTaker("put file", func(_ context.Context, f newFile, from io.Reader) (struct{}, error) {
	return struct{}{}, iotax.WriteWhole(f.Path, f.Mode, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
})

// Put writes r to the file at path on m, completely or not at all.
func Put(ctx context.Context, m iotax.Machine, r io.Reader, path string, mode os.FileMode) error {
	ctx, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	_, err := put.On(ctx, m, newFile{path, mode}, r)
	return err
}

// Shell returns the arguments that run the user's command text in the shell of goos: PowerShell on "windows", otherwise
// sh.
func Shell(goos, text string) []string {
	if goos != "windows" {
		return []string{"sh", "-c", text}
	}
	// By default, PowerShell replaces the exit code of the command with 0 or 1.
	return []string{"powershell.exe", "-NoProfile", "-NonInteractive", "-OutputFormat", "Text", "-Command",
		text + "\nif (-not $?) { if ($LASTEXITCODE) { exit $LASTEXITCODE }; exit 1 }"}
}

// A Kept is a program that Keep runs.
type Kept struct {
	Args, Env []string
	Dir       string
	PIDFile   string // if not "", the program's process id is written to this file
}

var keep = New("keep", func(ctx context.Context, k Kept) (none struct{}, err error) {
	if path, err := Tool(k.Args[0]); err == nil {
		k.Args[0] = path
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var out tail
	c := &iotax.Cmd{Args: k.Args, Env: append(k.Env, "LC_ALL=C"), Dir: k.Dir, Stdout: &out, Stderr: &out}
	if k.PIDFile != "" {
		c.Started = func(pid int) {
			if err := os.WriteFile(k.PIDFile, fmt.Appendln(nil, pid), 0o600); err != nil {
				cancel(err)
			}
		}
	}
	err = Here(ctx).Run(inner, c)
	var exit *iotax.ExitError
	switch {
	case err == nil:
		err = errors.New("exit status 0: " + out.String())
	case errors.As(err, &exit) && exit.Stderr == "":
		exit.Stderr = out.String()
	}
	return none, err
})

// A tail keeps the last 4 KiB that a program prints. It has one writer. Call String only after the writer has finished.
type tail struct{ buf []byte }

func (t *tail) Write(p []byte) (int, error) {
	const limit = 4 << 10
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-limit):]
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.buf)) }

// Keep runs the program k on m and waits for its end. The returned error is never nil and describes how the program
// ended. When ctx is done, Keep ends the program and its children. The program does not outlive this process, even if
// this process is killed: on this host, a separate agent process runs the program, and ends it when this process ends.
func Keep(ctx context.Context, m iotax.Machine, k Kept) (err error) {
	if iotax.IsLocal(m) {
		_, err = keep.Alone(ctx, m, k)
	} else {
		_, err = keep.On(ctx, m, k)
	}
	return err
}
