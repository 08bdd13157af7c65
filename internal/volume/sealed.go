package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"iotax"
	"iotax/internal/agent"
)

// sealed maps each read-only file system to the tool that makes its image on the host.
//
// The arguments of mksquashfs exclude files of more than 8 MiB from compression. mksquashfs would spend most of its time
// on these files, and their data is incompressible, except in copies of an iotax.File.Tree.
var sealed = map[string]struct {
	tool, pkg string
	args      func(files, image string) []string
}{
	"squashfs": {"mksquashfs", "squashfs-tools", func(files, image string) []string {
		return []string{"mksquashfs", files, image, "-noappend", "-no-progress", "-quiet", "-all-root", "-no-xattrs", "-action", "uncompressed@filesize(>8M)"}
	}},
	"erofs": {"mkfs.erofs", "erofs-utils", func(files, image string) []string {
		return []string{"mkfs.erofs", "--quiet", "--all-root", image, files}
	}},
}

// fillFiles writes the files of a read-only file system into dir. A file with a Tree is a copy of that tree. The other
// files contain incompressible data.
func fillFiles(ctx context.Context, dir string, files []iotax.File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if f.Tree != "" {
			if _, err := agent.Exec(ctx, "cp", "-a", "--", f.Tree, path); err != nil {
				return err
			}
			continue
		}
		to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if err := errors.Join(to.Chmod(0o644), fill(ctx, to, noise(), f.Size), to.Close()); err != nil {
			return err
		}
	}
	return nil
}

// seal makes the image from the directory `files`, removes that directory, and returns the image's size. The size is a
// multiple of 4 KiB, because the image is used as a disk.
func (d *disk) seal(ctx context.Context, files string) (size int64, err error) {
	if _, err := agent.Exec(ctx, sealed[d.spec.Filesystem].args(files, d.image)...); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(d.image, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size = (info.Size() + 4095) / 4096 * 4096
	return size, errors.Join(f.Chmod(0o600), f.Truncate(size), os.RemoveAll(files), f.Sync())
}

func prepareSealed(ctx context.Context, s *DiskSpec, e Env) (_ iotax.Volume, err error) {
	dir, err := serveFrom("make disk", e, s.OfTarget)
	if err != nil {
		return nil, err
	}
	d := &disk{life: life{env: e}, spec: *s, id: "iotax-" + e.ID}
	d.image = dir + "/disk-" + e.ID + "." + s.Filesystem
	fs := sealed[s.Filesystem]
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "make " + s.Filesystem, On: d.image, Err: err, Hint: hint}
	}
	if len(e.Files) == 0 {
		return nil, fail(errors.New("no workload names the files that it reads, and the file system is read-only"), "use workloads that only read, as in {fio: {rw: randread, …}}")
	}
	if _, err := agent.Tool(fs.tool); err != nil {
		return nil, fail(errors.New("this host has no "+fs.tool), "install it: apt install "+fs.pkg)
	}
	total := int64(0)
	files := dir + "/files-" + e.ID
	for _, f := range e.Files {
		if strings.ContainsAny(f.Name, "/\n") || f.Name == "" {
			return nil, fail(fmt.Errorf("a file cannot be called %q", f.Name), "")
		}
		total += f.Size
	}
	if err := hasSpace(ctx, "make "+s.Filesystem, e, dir, 2*total); err != nil { // space for the files and the image
		return nil, err
	}
	if _, err := os.Lstat(d.image); err == nil {
		return nil, failed("make "+s.Filesystem, d.image, os.ErrExist)
	}
	if err := newHostDir(&d.made, "make "+s.Filesystem, files, 0o755); err != nil {
		return nil, err
	}
	removeLater(&d.made, d.image)
	ctx, cancel := context.WithTimeout(ctx, writing(2*total))
	defer cancel()
	if err = fillFiles(ctx, files, e.Files); err == nil {
		d.size, err = d.seal(ctx, files)
	}
	if err != nil {
		err = failed("make "+s.Filesystem, d.image, err)
	} else {
		err = d.tryDirect()
	}
	if err != nil {
		return nil, errors.Join(err, d.made.run(ctx))
	}
	return d, nil
}

func (d *disk) attachSealed(ctx context.Context, m iotax.Machine, dev string) (iotax.Place, error) {
	point := "/mnt/" + d.id
	if err := d.mount(ctx, m, mounting{Type: d.spec.Filesystem, Source: dev, Point: point, Options: "ro", KeepOwner: true}); err != nil {
		return iotax.Place{}, err
	}
	return iotax.Place{Kind: iotax.PlaceDir, Path: point, ReadOnly: true, Durability: iotax.Durable, Facts: facts(ctx, m, point)}, nil
}
