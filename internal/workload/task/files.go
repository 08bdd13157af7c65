// Package task has the functions of the agent by which workloads look at a machine, and make and remove files there.
package task

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/shirou/gopsutil/v4/disk"

	"iotax/internal/agent"
)

// Files are files of one directory.
type Files struct {
	Dir   string
	Names []string
}

func (f Files) each(do func(path string) error) error {
	for _, n := range f.Names {
		if err := do(filepath.Join(f.Dir, n)); err != nil {
			return err
		}
	}
	return nil
}

// nothing is the result of a function that has none.
type nothing = struct{}

// quick declares a function that cannot be interrupted where a file system hangs. It then returns, and its goroutine stays.
func quick[In, Out any](name string, do func(In) (Out, error)) agent.Func[In, Out] {
	return agent.New(name, func(ctx context.Context, in In) (out Out, err error) {
		type result struct {
			out Out
			err error
		}
		done := make(chan result, 1)
		go func() {
			out, err := do(in)
			done <- result{out, err}
		}()
		select {
		case r := <-done:
			return r.out, r.err
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	})
}

var (
	// Sizes returns the sizes of those of the files that exist.
	Sizes = quick("file sizes", sizes)
	// Remove removes files and directories, if they exist.
	Remove = quick("remove files", func(f Files) (nothing, error) { return nothing{}, f.each(os.RemoveAll) })
	// Rename takes the ending off the names of files.
	Rename = quick("rename files", func(r Renaming) (nothing, error) {
		return nothing{}, r.each(func(path string) error { return os.Rename(path, path[:len(path)-len(r.Ending)]) })
	})
	// CheckPlace returns what is wrong with a directory, its room, and the sizes of files in it.
	CheckPlace = quick("check place", checkPlace)
	// RoomOf returns the room of a directory.
	RoomOf = quick("room of directory", func(dir string) (Room, error) {
		_, err := os.Stat(dir)
		return roomOf(dir), err
	})
	// Behind returns the room of a file or directory, and the bytes that a file has on the disk. Without either it returns nil.
	Behind = quick("room behind", behind)
)

// A Renaming is of files whose names have the ending.
type Renaming struct {
	Files
	Ending string
}

func sizes(f Files) (map[string]int64, error) {
	found := map[string]int64{}
	for _, n := range f.Names {
		st, err := os.Stat(filepath.Join(f.Dir, n))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return found, err
		case st.Mode().IsRegular():
			found[n] = st.Size()
		}
	}
	return found, nil
}

// A Room is what is known of the file system of a directory.
type Room struct {
	Device     string // by which file systems are told apart; "" if that is unknown
	Size, Free int64  // bytes; Free is -1 if it is unknown
	Allocated  int64  // bytes that the file asked for has on the disk; -1 for a directory
}

func roomOf(dir string) Room {
	r := Room{Device: deviceOf(dir), Free: -1, Allocated: -1}
	if u, err := disk.Usage(dir); err == nil && u.Total > 0 {
		r.Size, r.Free = int64(u.Total), int64(u.Free)
	}
	return r
}

func behind(path string) (*Room, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !st.IsDir() && !st.Mode().IsRegular():
		return nil, nil
	case err != nil:
		return nil, err
	case st.IsDir():
		r := roomOf(path)
		return &r, nil
	}
	r := roomOf(filepath.Dir(path))
	r.Allocated = allocated(st)
	return &r, nil
}

// A Check is of a directory in which files are to be written or read.
type Check struct {
	Files
	Write bool
}

// A Place is what CheckPlace finds.
type Place struct {
	Problem string // one of the problems below, or ""
	Room    Room
	Sizes   map[string]int64 // of files that exist
}

// Problems of a place.
const (
	Missing    = "missing"
	NoDir      = "not a directory"
	Denied     = "denied"
	Unwritable = "unwritable"
)

func checkPlace(c Check) (p Place, err error) {
	st, err := os.Stat(c.Dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		p.Problem = Denied
	case err != nil:
		p.Problem = Missing
	case !st.IsDir():
		p.Problem = NoDir
	}
	if p.Problem != "" {
		return p, nil
	}
	if _, err := os.Lstat(c.Dir + "/."); err != nil {
		p.Problem = Denied
		return p, nil //nolint:nilerr // Problem says it
	}
	if c.Write {
		f, err := os.CreateTemp(c.Dir, "iotax-write.")
		if err != nil {
			p.Problem = Unwritable
			return p, nil //nolint:nilerr // Problem says it
		}
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			return p, err
		}
	}
	p.Room = roomOf(c.Dir)
	p.Sizes, err = sizes(c.Files)
	return p, err
}
