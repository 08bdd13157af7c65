package workload

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/workload/command"
	"iotax/internal/workload/support"
	"iotax/internal/workload/task"
)

// pythonRoot is the value of `root:` for the root file system that iotax builds.
const pythonRoot = "python"

// rootPort is the port of the program that runs on a root. It can be the same in all guests, because each guest has its
// own network.
const rootPort = 8000

// A rootTree is a root file system that iotax copies to targets. On each target, a second guest boots from the copy.
type rootTree struct {
	from   string // pythonRoot, or a directory of this host
	run    string
	env    support.Env
	known  iotax.File // set by the first call of file
	frozen map[*iotax.Target]bool
}

// file returns the tree: its directory on this host, its size, and its name on targets. It builds the tree if
// necessary.
func (r *rootTree) file() (iotax.File, error) {
	if r.known.Tree != "" {
		return r.known, nil
	}
	dir := r.from
	if dir == pythonRoot {
		if r.env.Python == nil {
			return iotax.File{}, errors.New("no root python can be made here")
		}
		var err error
		if dir, r.run, err = r.env.Python(context.Background()); err != nil {
			return iotax.File{}, err
		}
	}
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		size += 4096 // its inode, and the unused part of its last block
		return err
	})
	if err != nil {
		return iotax.File{}, &iotax.Error{Op: "read root", On: dir, Err: err, Hint: "root: must be a directory of this host that this user can read"}
	}
	sum := sha256.Sum256([]byte(dir))
	r.known = iotax.File{Name: fmt.Sprintf("iotax-root-%x", sum[:4]), Size: size, Tree: dir}
	return r.known, nil
}

// on returns the mount and the command with which a second guest starts from the tree at t's place. It returns an error
// if a second guest cannot mount the place.
func (r *rootTree) on(t *iotax.Target) (*iotax.Root, error) {
	f := t.Place.Facts
	root := &iotax.Root{Type: f["filesystem"], Source: f[iotax.FactFilesystemSource], Options: mountOptions(f), Port: rootPort}
	words, err := command.SplitWords(r.run)
	if err != nil {
		return nil, err
	}
	for _, w := range words {
		root.Run = append(root.Run, strings.ReplaceAll(w, "{port}", strconv.Itoa(rootPort)))
	}
	switch {
	case t.Place.Kind != iotax.PlaceDir:
		return nil, fmt.Errorf("the place is a %s, not a directory", t.Place.Kind)
	case f[iotax.FactDiskSerial] != "":
		root.Source = "serial:" + f[iotax.FactDiskSerial]
	case !slices.Contains(shareTypes, root.Type):
		return nil, fmt.Errorf("the place is on %s, which cannot be mounted by a second guest", root.Type)
	}
	inside, err := filepath.Rel(f[iotax.FactFilesystemMount], path.Join(t.Place.Path, r.known.Name))
	if err != nil {
		return nil, err
	}
	root.Path = filepath.ToSlash(inside)
	return root, nil
}

// bring copies the tree to t's place. A read-only place already contains the tree.
func (r *rootTree) bring(ctx context.Context, t *iotax.Target) error {
	f, err := r.file()
	if err != nil || t.Place.ReadOnly {
		return err
	}
	err = support.RemoveFiles(ctx, t, []string{f.Name})
	if err == nil {
		err = support.SendTar(ctx, t.Machine, path.Join(t.Place.Path, f.Name), func(w *tar.Writer) error { return w.AddFS(os.DirFS(f.Tree)) })
	}
	if err == nil {
		_, err = task.Sync.On(ctx, t.Machine, struct{}{})
	}
	return err
}

// freeze freezes the file system of a disk in a clean state, as if unmounted, because a second guest will mount it.
func (r *rootTree) freeze(ctx context.Context, t *iotax.Target) error {
	if t.Place.Facts[iotax.FactDiskSerial] == "" || t.Place.ReadOnly {
		return nil
	}
	r.frozen[t] = true
	if _, err := iotax.Output(ctx, t.Machine, "fsfreeze", "-f", t.Place.Facts[iotax.FactFilesystemMount]); err != nil {
		return fmt.Errorf("freeze its file system: %w", err)
	}
	return nil
}

// thaw unfreezes the file system if freeze froze it or tried to.
func (r *rootTree) thaw(ctx context.Context, t *iotax.Target) error {
	if !r.frozen[t] {
		return nil
	}
	delete(r.frozen, t)
	_, err := iotax.Output(ctx, t.Machine, "fsfreeze", "-u", t.Place.Facts[iotax.FactFilesystemMount])
	return err
}

func (r *rootTree) remove(ctx context.Context, t *iotax.Target) error {
	if t.Place.ReadOnly || r.known.Name == "" {
		return nil
	}
	return support.RemoveFiles(ctx, t, []string{r.known.Name})
}
