// Package task contains the agent functions with which workloads inspect a machine, run commands, and create and remove
// files there.
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

// Files names files of one directory.
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

// nothing is the result type of a function without a result.
type nothing = struct{}

// quick declares a function that a hung file system can block. The call then returns when its context ends, and leaks
// its goroutine.
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
	// Sizes returns the sizes of the named regular files that exist.
	Sizes = quick("file sizes", sizes)
	// Remove removes files and directories, if they exist.
	Remove = quick("remove files", func(f Files) (nothing, error) { return nothing{}, f.each(os.RemoveAll) })
	// Rename removes the ending from the names of files.
	Rename = quick("rename files", func(r Renaming) (nothing, error) {
		return nothing{}, r.each(func(path string) error { return os.Rename(path, path[:len(path)-len(r.Ending)]) })
	})
	// CheckPlace checks whether a directory can be used. Without a problem, it also returns the room of the directory
	// and the sizes of the named files.
	CheckPlace = quick("check place", checkPlace)
	// RoomOf returns the room of a directory.
	RoomOf = quick("room of directory", func(dir string) (Room, error) {
		_, err := os.Stat(dir)
		return roomOf(dir), err
	})
	// Behind returns the room of a file or directory, with the space that a file uses on the disk. It returns nil if
	// the path does not exist, or is neither a regular file nor a directory.
	Behind = quick("room behind", behind)
)

// A Renaming lists files whose names end in Ending.
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

// A Room describes the file system of a directory.
type Room struct {
	Device     string // identifies the file system; "" if unknown
	Size, Free int64  // bytes; Free is -1 if unknown
	Allocated  int64  // space that the file given to Behind uses on the disk, bytes; -1 for a directory
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

// A Check describes a directory whose files will be read or, if Write is set, written.
type Check struct {
	Files
	Write bool
}

// A Place is the result of CheckPlace.
type Place struct {
	Problem string // one of the problems below, or ""
	Room    Room
	Sizes   map[string]int64 // of the regular files that exist
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
		return p, nil //nolint:nilerr // Problem reports it
	}
	if c.Write {
		f, err := os.CreateTemp(c.Dir, "iotax-write.")
		if err != nil {
			p.Problem = Unwritable
			return p, nil //nolint:nilerr // Problem reports it
		}
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			return p, err
		}
	}
	p.Room = roomOf(c.Dir)
	p.Sizes, err = sizes(c.Files)
	return p, err
}
