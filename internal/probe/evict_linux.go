package probe

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"iotax"
	"iotax/internal/leftover"
)

func evictHere(ctx context.Context, path string) error {
	fail := func(path string, err error) error {
		return &iotax.Error{Op: "evict from the page cache", On: path, Err: err}
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // a workload has removed it in the meantime
	case err != nil:
		return fail(path, err)
	}
	return filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !d.Type().IsRegular() && d.Type()&fs.ModeDevice == 0, d.Type()&fs.ModeCharDevice != 0:
			return nil
		case d.Name() == leftover.Marker: // stays cached, because the removal of the directory needs it if the disk fails
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fail(path, errors.Unwrap(err))
		}
		defer f.Close()
		// Only clean pages can be dropped. A file system that is never written, such as squashfs, returns EINVAL.
		if err := unix.Fdatasync(int(f.Fd())); err != nil && !errors.Is(err, unix.EINVAL) {
			return fail(path, err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fail(path, err)
		}
		return nil
	})
}
