//go:build unix

package generate

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// again repeats a call that a signal interrupted (EINTR), as happens on some user-space file systems. The functions
// below, except flushDir, do not use package os, because it makes additional calls, such as a stat before a rename.
func again(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR { // the calls return a plain syscall.Errno
			return err
		}
	}
}

func stat(path string) error {
	var st syscall.Stat_t
	return again(func() error { return syscall.Stat(path, &st) })
}

func open(path string, flags int) (fd int, err error) {
	err = again(func() error { fd, err = syscall.Open(path, flags|syscall.O_CLOEXEC, 0o644); return err })
	return fd, err
}

// lstat reports whether a path is a directory, and returns its size.
func lstat(path string) (dir bool, size int64, err error) {
	var st syscall.Stat_t
	err = again(func() error { return syscall.Lstat(path, &st) })
	return st.Mode&syscall.S_IFMT == syscall.S_IFDIR, st.Size, err
}

// create makes a new file. It fails if the file exists.
func create(path string, content []byte) error {
	fd, err := open(path, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY)
	if err != nil {
		return err
	}
	if len(content) > 0 {
		var n int
		if err = again(func() error { n, err = syscall.Write(fd, content); return err }); err == nil && n < len(content) {
			err = io.ErrShortWrite
		}
	}
	return errors.Join(err, syscall.Close(fd))
}

// read reads up to len(buf) bytes from the start of a file, and returns the part of buf that it filled.
func read(path string, buf []byte) ([]byte, error) {
	fd, err := open(path, syscall.O_RDONLY)
	if err != nil {
		return nil, err
	}
	var n int
	err = again(func() error { n, err = syscall.Read(fd, buf); return err })
	return buf[:max(0, n)], errors.Join(err, syscall.Close(fd))
}

// list returns the names in a directory, and the number of system calls that read them into buf.
func list(path string, buf []byte) (names []string, asked int, err error) {
	fd, err := open(path, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil, 0, err
	}
	for {
		var n int
		err = again(func() error { n, err = syscall.ReadDirent(fd, buf); return err })
		asked++
		if n <= 0 || err != nil {
			return names, asked, errors.Join(err, syscall.Close(fd))
		}
		for left := buf[:n]; len(left) > 0; {
			var used int
			if used, _, names = syscall.ParseDirent(left, -1, names); used <= 0 {
				return names, asked, errors.Join(io.ErrUnexpectedEOF, syscall.Close(fd))
			}
			left = left[used:]
		}
	}
}

func rename(from, to string) error { return again(func() error { return syscall.Rename(from, to) }) }
func chmod(path string) error      { return again(func() error { return syscall.Chmod(path, 0o600) }) }
func symlink(to, path string) error {
	return again(func() error { return syscall.Symlink(to, path) })
}
func unlink(path string) error { return again(func() error { return syscall.Unlink(path) }) }
func mkdir(path string) error  { return again(func() error { return syscall.Mkdir(path, 0o755) }) }
func rmdir(path string) error  { return again(func() error { return syscall.Rmdir(path) }) }

// dataSync is the open flag that makes every write to a file durable.
const dataSync = syscall.O_DSYNC

// fsync asks the system to make a file durable. On macOS, the data may remain in the drive's cache.
func fsync(f *os.File) error { return again(func() error { return syscall.Fsync(int(f.Fd())) }) }

// flushDir makes the names in a directory durable.
func flushDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
