//go:build !unix

package generate

import (
	"errors"
	"io"
	"os"
)

func stat(path string) error {
	_, err := os.Stat(path)
	return err
}

// lstat reports whether a path is a directory, and returns its size.
func lstat(path string) (dir bool, size int64, err error) {
	st, err := os.Lstat(path)
	if err != nil {
		return false, 0, err
	}
	return st.IsDir(), st.Size(), nil
}

// create makes a new file. It fails if the file exists.
func create(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if len(content) > 0 {
		_, err = f.Write(content)
	}
	return errors.Join(err, f.Close())
}

// read reads up to len(buf) bytes from the start of a file, and returns the part of buf that it filled.
func read(path string, buf []byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	n, err := f.Read(buf)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf[:n], errors.Join(err, f.Close())
}

// list returns the names in a directory. `asked` is 1, because the number of system calls is unknown here.
func list(path string, _ []byte) (names []string, asked int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	names, err = f.Readdirnames(-1)
	return names, 1, errors.Join(err, f.Close())
}

func rename(from, to string) error  { return os.Rename(from, to) }
func chmod(path string) error       { return os.Chmod(path, 0o600) }
func symlink(to, path string) error { return os.Symlink(to, path) }
func unlink(path string) error      { return os.Remove(path) }
func mkdir(path string) error       { return os.Mkdir(path, 0o755) }
func rmdir(path string) error       { return os.Remove(path) }

const dataSync = 0 // not available on this system

func fsync(f *os.File) error { return f.Sync() }

func flushDir(string) error { return nil } // not available on this system
