package guest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"iotax"
)

// A Kit is what guests on another host of this architecture are started from where that host lacks it: a kernel with the modules
// that guests load, a root disk, or both. Its sum names what it holds.
type Kit struct {
	Sum   string // SHA-256 of its archive, in hexadecimal digits
	Size  int64  // bytes of its files
	files []kitFile
}

type kitFile struct {
	name, path string
	size       int64
}

// rootFile is the root disk in a kit.
const rootFile = "root.ext4"

// NewKit makes a kit of a kernel and of the root disk in a file; either may be left out, as nil or "".
func NewKit(ctx context.Context, kernel *Kernel, root string) (*Kit, error) {
	k := &Kit{}
	add := func(name, path string) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		k.files = append(k.files, kitFile{name, path, st.Size()})
		k.Size += st.Size()
		return nil
	}
	err := func() error {
		if root != "" {
			if err := add(rootFile, root); err != nil {
				return err
			}
		}
		if kernel == nil {
			return nil
		}
		tree, err := openModules(kernel.Modules)
		if err != nil {
			return err
		}
		list, _, err := tree.closure(slices.Concat(needed, bootModules, lazyModules))
		if err != nil {
			return err
		}
		lib := "lib/modules/" + kernel.Release
		err = errors.Join(add("boot/vmlinuz-"+kernel.Release, kernel.Source), add(lib+"/modules.builtin", filepath.Join(kernel.Modules, "modules.builtin")))
		for _, m := range list {
			file := tree.path[m.name]
			err = errors.Join(err, add(path.Join(lib, path.Dir(filepath.ToSlash(m.path)), filepath.Base(file)), file))
		}
		return err
	}()
	if err == nil {
		k.Sum, err = k.sum(ctx)
	}
	if err != nil {
		return nil, &iotax.Error{Op: "pack a guest for another host", Err: err}
	}
	return k, nil
}

func (k *Kit) sum(ctx context.Context) (string, error) {
	h := sha256.New()
	err := k.archive(ctx, h)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// archive writes the files as a tar archive that depends on their names and bytes alone.
func (k *Kit) archive(ctx context.Context, w io.Writer) error {
	slices.SortFunc(k.files, func(a, b kitFile) int { return cmp.Compare(a.name, b.name) })
	t := tar.NewWriter(w)
	for _, file := range k.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.name, Size: file.size, Mode: 0o600, Format: tar.FormatPAX}); err != nil {
			return err
		}
		f, err := os.Open(file.path)
		if err != nil {
			return err
		}
		_, err = io.Copy(t, f)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", file.path, err)
		}
	}
	return t.Close()
}

// Send writes the kit as TakeKit reads it.
func (k *Kit) Send(ctx context.Context, w io.Writer) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	return errors.Join(k.archive(ctx, z), z.Close())
}

// kitDir is where a kit is kept in the cache.
func kitDir(cacheDir, sum string) string { return filepath.Join(cacheDir, "guest", "kit-"+sum[:16]) }

// Of the kits that were not used for a day, keptKits stay at most. All that a run uses are sent before its first trial: none of
// them may go for another.
const (
	keptKits = 2
	kitDay   = 24 * time.Hour
)

// A Taken kit is one that lies in this host's cache.
type Taken struct {
	Kernel string // the kernel's file, with its modules where OpenKernel looks for them; "" if the kit has none
	Root   string // the root disk; "" if the kit has none
}

// OpenKit finds the kit of a sum in cacheDir. With verify, one whose bytes are no longer those of its sum is removed. The error of
// a kit that is not there is fs.ErrNotExist.
func OpenKit(ctx context.Context, cacheDir, sum string, verify bool) (*Taken, error) {
	if len(sum) != 2*sha256.Size || strings.Trim(sum, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("%q is no sum of a kit", sum)
	}
	dir := kitDir(cacheDir, sum)
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	if verify {
		is, err := sumOf(ctx, dir)
		if err != nil {
			return nil, err
		}
		if is != sum {
			return nil, errors.Join(fs.ErrNotExist, os.RemoveAll(dir))
		}
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now) // prune goes by last use
	t := &Taken{}
	if root := filepath.Join(dir, rootFile); exists(root) {
		t.Root = root
	}
	if kernels, _ := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*")); len(kernels) == 1 {
		t.Kernel = kernels[0]
	}
	return t, nil
}

// sumOf is the sum of the kit in a directory.
func sumOf(ctx context.Context, dir string) (string, error) {
	k := &Kit{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		k.files = append(k.files, kitFile{filepath.ToSlash(name), path, st.Size()})
		return err
	})
	if err != nil {
		return "", err
	}
	return k.sum(ctx)
}

// TakeKit keeps what Send wrote in cacheDir. What does not add up to sum is refused, and nothing of it stays.
func TakeKit(ctx context.Context, cacheDir, sum string, r io.Reader) (err error) {
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "take what guests are started from into", On: cacheDir, Err: err, Hint: hint}
	}
	if _, err := OpenKit(ctx, cacheDir, sum, true); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	const room = "make room there, or name a directory with more in XDG_CACHE_HOME"
	parent := filepath.Dir(kitDir(cacheDir, sum))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fail(err, room)
	}
	tmp, err := os.MkdirTemp(parent, ".kit-")
	if err != nil {
		return fail(err, room)
	}
	defer os.RemoveAll(tmp)
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fail(err, "")
	}
	defer z.Close()
	if err := unpackKit(ctx, tmp, z); err != nil {
		return fail(err, room)
	}
	is, err := sumOf(ctx, tmp)
	if err != nil {
		return fail(err, "")
	}
	if is != sum {
		return fail(fmt.Errorf("its SHA-256 is %.16s… where %.16s… was sent", is, sum), "try again; if it happens again, look for what damages data on the way there or on its disk")
	}
	if err := os.Rename(tmp, kitDir(cacheDir, sum)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail(err, "")
	}
	prune(parent, "kit-*", keptKits, kitDay)
	return nil
}

func unpackKit(ctx context.Context, dir string, r io.Reader) error {
	root, err := os.OpenRoot(dir) // nothing that the names say leads out of it
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) {
			return fmt.Errorf("it holds %q", h.Name)
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
			return err
		}
		if err := writeSparse(root, h.Name, t, h.Size); err != nil {
			return err
		}
	}
}

// writeSparse writes r to a new file in root with holes for blocks of zeros, of which a root disk is half.
func writeSparse(root *os.Root, name string, r io.Reader, size int64) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); at < size; {
		n, err := io.ReadFull(r, block[:min(int64(len(block)), size-at)])
		if err != nil {
			return err
		}
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := f.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	return f.Truncate(size)
}
