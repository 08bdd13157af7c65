package volume

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// sealed are the file systems that cannot be written: their images are made on the host, with the files
// that the workloads read in them.
//
// The large files hold what does not compress, and squashfs would keep them as they are after having tried,
// which takes most of the time.
var sealed = map[string]struct{ tool, pkg, script string }{
	"squashfs": {"mksquashfs", "squashfs-tools", `mksquashfs "$1" "$2" -no-progress -quiet -all-root -no-xattrs -action 'uncompressed@filesize(>8M)' >/dev/null`},
	"erofs":    {"mkfs.erofs", "erofs-utils", `mkfs.erofs --quiet --all-root "$2" "$1"`},
}

// fillFiles writes the files of a read-only file system into the directory $1: triples of name, size, and the
// directory that is copied. Files are filled with data that does not compress.
const fillFiles = `
umask 022
d=$1; shift
mkdir -- "$d" || exit 41
while [ $# -gt 0 ]; do
	if [ -n "$3" ]; then cp -a -- "$3" "$d/$1"; else head -c "$2" /dev/urandom >"$d/$1"; fi || exit 42
	shift 3
done
`

// prepareSealed makes an image of a read-only file system.
func prepareSealed(ctx context.Context, s *DiskSpec, e Env) (_ iotax.Volume, err error) {
	dir, err := serveFrom("make disk", e, s.OfTarget)
	if err != nil {
		return nil, err
	}
	d := &disk{spec: *s, env: e, id: "iotax-" + e.ID}
	d.image = dir + "/disk-" + e.ID + "." + s.Filesystem
	fs := sealed[s.Filesystem]
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "make " + s.Filesystem, On: d.image, Err: err, Hint: hint}
	}
	if len(e.Files) == 0 {
		return nil, fail(errors.New("no workload says which files it reads, and nothing can be written there later"), "use workloads that only read, as in {fio: {rw: randread, …}}")
	}
	if _, err := sh(ctx, e.Host, quick, `command -v "$1" >/dev/null`, fs.tool); err != nil {
		return nil, fail(errors.New("this host has no "+fs.tool), "install it: apt install "+fs.pkg)
	}
	total := int64(0)
	files := dir + "/files-" + e.ID
	args := []string{files}
	for _, f := range e.Files {
		if strings.ContainsAny(f.Name, "/\n") || f.Name == "" {
			return nil, fail(fmt.Errorf("a file cannot be called %q", f.Name), "")
		}
		args = append(args, f.Name, strconv.FormatInt(f.Size, 10), f.Tree)
		total += f.Size
	}
	out, err := sh(ctx, e.Host, quick, surveyDir, dir)
	if err != nil {
		return nil, fail(said(err), "")
	}
	if err := parseSurvey(out).enough("make "+s.Filesystem, d.image, 2*total); err != nil { // the files, then the image
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.made.run(ctx))
		}
	}()
	if _, err := sh(ctx, e.Host, quick, `[ ! -e "$1" ] && [ ! -e "$2" ] || { echo "it exists" >&2; exit 41; }`, d.image, files); err != nil {
		return nil, fail(said(err), "another run uses this directory, or left the file: remove it")
	}
	d.made.push(func(ctx context.Context) error {
		if _, err := sh(ctx, e.Host, slow, `rm -rf -- "$1" "$2"`, files, d.image); err != nil {
			return &iotax.Error{Op: "remove disk", On: d.image, Err: said(err), Hint: "remove it by hand"}
		}
		return nil
	})
	writing := slow + time.Duration(total/(10<<20))*time.Second // 10 MiB/s at the least
	if _, err := sh(ctx, e.Host, writing, fillFiles, args...); err != nil {
		return nil, fail(said(err), "")
	}
	// A sector more than the file system: the image is a disk, and disks are whole sectors.
	if _, err := sh(ctx, e.Host, writing, `umask 077; `+fs.script+` && truncate -s %4096 -- "$2" && rm -rf -- "$1" && { sync -- "$2" 2>/dev/null || sync; }`, files, d.image); err != nil {
		return nil, fail(said(err), "")
	}
	out, err = sh(ctx, e.Host, quick, `stat -c %s -- "$1" 2>/dev/null || stat -f %z -- "$1"`, d.image)
	if err == nil {
		d.size, err = strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	}
	if err != nil {
		return nil, fail(said(err), "")
	}
	if err := d.tryDirect(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// attachSealed mounts the image in the guest.
func (d *disk) attachSealed(ctx context.Context, m iotax.Machine, dev string) (iotax.Place, error) {
	point := "/mnt/" + d.id
	if err := mountAt(ctx, m, &d.attached, &d.found, point, d.spec.Filesystem, dev, "ro"); err != nil {
		return iotax.Place{}, err
	}
	return iotax.Place{Kind: iotax.PlaceDir, Path: point, ReadOnly: true, Durability: iotax.Durable, Facts: facts(ctx, m, point)}, nil
}
