package task

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// A Head keeps the first Limit bytes of a stream and counts the rest.
type Head struct {
	bytes.Buffer
	Limit int
	More  int64
}

func (h *Head) Write(p []byte) (int, error) {
	n := min(len(p), h.Limit-h.Len())
	h.Buffer.Write(p[:n])
	h.More += int64(len(p) - n)
	return len(p), nil
}

// ReadFrom uses Write, because the ReadFrom of the embedded buffer ignores the limit.
func (h *Head) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{h}, r) }

// An EmptyDir describes a command that InEmptyDir runs in a new directory. InEmptyDir then removes the directory.
type EmptyDir struct {
	Text  string   // command of the user, for the machine's shell
	Env   []string // of the command
	Label string   // of the run
}

var (
	// InEmptyDir runs a command in an empty directory. On Linux, if no directory can be created, as in a container with
	// a read-only root, the command runs in a directory in which it cannot create files.
	InEmptyDir = agent.New("in empty directory", inEmptyDir)
	// Installed reports whether a program can be found. A relative path is relative to Program.Dir.
	Installed = quick("installed", func(p Program) (bool, error) {
		name := p.Name
		if strings.ContainsRune(name, '/') && !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		return find(name) != "", nil
	})
	// Random writes a file of random bytes and flushes it to the disk.
	Random = agent.New("write random file", random)
	// Sync flushes the machine's file systems to its disks.
	Sync = quick("sync", func(nothing) (nothing, error) { syncDisks(); return nothing{}, nil })
	// AwaitFile returns once a file exists.
	AwaitFile = agent.New("await file", func(ctx context.Context, path string) (nothing, error) {
		for {
			if _, err := os.Lstat(path); err == nil {
				return nothing{}, nil
			}
			select {
			case <-ctx.Done():
				return nothing{}, context.Cause(ctx)
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	// MountAndList mounts a file system and lists its root. It returns how long both took together.
	MountAndList = agent.New("mount and list", func(ctx context.Context, m Mount) (took time.Duration, err error) {
		if err = os.MkdirAll(m.At, 0o755); err != nil {
			return 0, err
		}
		begun := time.Now()
		if _, err = agent.Exec(ctx, append(append([]string{"mount"}, m.Args...), m.At)...); err == nil {
			_, err = os.ReadDir(m.At)
		}
		return time.Since(begun), err
	})
)

// A Program names a program. A relative path in Name is relative to Dir.
type Program struct{ Name, Dir string }

// A Mount describes a mount: the arguments for mount(8), and the mount point.
type Mount struct {
	Args []string
	At   string
}

func inEmptyDir(ctx context.Context, e EmptyDir) (_ nothing, err error) {
	dir, err := tempDir(ctx, Temp{Prefix: "iotax-", Label: e.Label})
	if err == nil {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if dir = "/proc/self/fdinfo"; runtime.GOOS != "linux" {
		return nothing{}, err
	}
	return nothing{}, agent.Here(ctx).Run(ctx, &iotax.Cmd{Args: agent.Shell(runtime.GOOS, e.Text), Env: e.Env, Dir: dir})
}

// A RandomFile describes a file of Data random bytes, followed by a hole up to Size if that is larger.
type RandomFile struct {
	Path       string
	Data, Size int64
}

func random(ctx context.Context, r RandomFile) (_ nothing, err error) {
	f, err := os.OpenFile(r.Path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nothing{}, err
	}
	for left := r.Data; left > 0 && err == nil; {
		var n int64
		n, err = io.CopyN(f, rand.Reader, min(left, 1<<20))
		left -= n
		err = cmp.Or(err, context.Cause(ctx))
	}
	if err == nil && r.Size > r.Data {
		err = f.Truncate(r.Size)
	}
	return nothing{}, errors.Join(err, f.Sync(), f.Close())
}

// A FioRun describes a fio command that writes logs.
type FioRun struct {
	Args, Env []string
	Dir       string // working directory; "" is the temporary directory of the logs
	Label     string // label of the iotax run (see Temp)
	Step      int    // averaging interval of the logs, ms
	Report    int    // interval between reports, s; 0 prints only the final report
	Limit     int    // limit for the output and the logs together, bytes
	Messages  int    // limit for standard error, bytes
}

// A FioOutput holds the output of a fio process.
type FioOutput struct {
	Stdout, Stderr []byte
	Logs           map[string][]byte // by file name, without the directory
	Exit           *iotax.ExitError  // nil if fio succeeded
	Over           bool              // the output and the logs exceed the limit
}

// Fio runs fio once. fio keeps its logs in memory and writes them to a temporary directory when it exits, so they do
// not disturb the I/O.
var Fio = agent.New("run fio", runFio)

func runFio(ctx context.Context, f FioRun) (out FioOutput, err error) {
	dir, err := tempDir(ctx, Temp{Prefix: "iotax-log-", Label: f.Label})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logs := filepath.Join(dir, "s")
	stdout, stderr := iotax.Capture{Limit: f.Limit}, Head{Limit: f.Messages}
	args := append(f.Args, "--aux-path="+dir, "--write_bw_log="+logs, "--write_iops_log="+logs, fmt.Sprintf("--log_avg_msec=%d", f.Step))
	if f.Report > 0 {
		args = append(args, fmt.Sprintf("--status-interval=%d", f.Report))
	}
	err = agent.Here(ctx).Run(ctx, &iotax.Cmd{Args: args, Env: f.Env, Dir: cmp.Or(f.Dir, dir), Stdout: &stdout, Stderr: &stderr})
	out.Stdout, out.Stderr, out.Over = stdout.Bytes(), stderr.Bytes(), stdout.Err() != nil
	if out.Over || errors.As(err, &out.Exit) {
		err = nil
	}
	if err != nil || out.Over {
		return out, err
	}
	out.Logs = map[string][]byte{}
	files, err := fs.Glob(os.DirFS(dir), "s_*.log")
	left := int64(f.Limit - len(out.Stdout))
	for _, file := range files {
		text, err := iotax.ReadFile(filepath.Join(dir, file), left)
		if out.Over = errors.As(err, new(*iotax.LimitError)); err != nil && !out.Over {
			return out, err
		}
		if out.Over {
			break
		}
		left -= int64(len(text))
		out.Logs[file] = text
	}
	return out, err
}
