package task

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"iotax/internal/agent"
)

// A Tree summarizes the contents of a directory.
type Tree struct {
	Files, Dirs int    // Dirs includes the directory itself
	Sum         string // SHA-256 of the contents of all files, concatenated in the order of their paths
}

var (
	// ReadTree reads all files of a directory and returns its Tree.
	ReadTree = agent.New("read tree", readTree)
	// Empty creates empty directories. It first removes existing files and directories with these names.
	Empty = quick("empty directories", func(f Files) (nothing, error) {
		return nothing{}, f.each(func(path string) error {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o777)
		})
	})
)

func readTree(ctx context.Context, dir string) (t Tree, err error) {
	var files []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular():
			files = append(files, path)
		case d.IsDir():
			t.Dirs++
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return t, err
	}
	slices.Sort(files)
	h := sha256.New()
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return t, err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return t, err
		}
	}
	t.Files, t.Sum = len(files), fmt.Sprintf("%x", h.Sum(nil))
	return t, nil
}
