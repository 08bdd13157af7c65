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

// pythonRoot is the word for the root that iotax makes.
const pythonRoot = "python"

// rootPort is where the program on a root listens; each guest has a network of its own.
const rootPort = 8000

// A rootTree is a root file system that lies at the places of targets, to be booted onto.
type rootTree struct {
	from   string // pythonRoot, or a directory of this host
	run    string
	env    support.Env
	known  iotax.File // once made
	frozen map[*iotax.Target]bool
}

// file is the tree, made when it is not there yet, under the name that it has at places.
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
		size += 4096 // its inode, and what its last block lacks
		return err
	})
	if err != nil {
		return iotax.File{}, &iotax.Error{Op: "read root", On: dir, Err: err, Hint: "root: must be a directory of this host that this user can read"}
	}
	sum := sha256.Sum256([]byte(dir))
	r.known = iotax.File{Name: fmt.Sprintf("iotax-root-%x", sum[:4]), Size: size, Tree: dir}
	return r.known, nil
}

// on says how a second guest finds the tree that lies at t's place.
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

// bring copies the tree to t's place, unless it was made with it.
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

// freeze makes the file system of a disk stand still, clean as if unmounted: a second guest is to mount it.
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

// thaw lets it go on.
func (r *rootTree) thaw(ctx context.Context, t *iotax.Target) error {
	if !r.frozen[t] {
		return nil
	}
	delete(r.frozen, t)
	_, err := iotax.Output(ctx, t.Machine, "fsfreeze", "-u", t.Place.Facts[iotax.FactFilesystemMount])
	return err
}

// remove removes the tree from t's place.
func (r *rootTree) remove(ctx context.Context, t *iotax.Target) error {
	if t.Place.ReadOnly || r.known.Name == "" {
		return nil
	}
	return support.RemoveFiles(ctx, t, []string{r.known.Name})
}
