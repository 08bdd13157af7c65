package volume

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"

	"iotax"
	"iotax/internal/agent"
)

// An image describes the image file of a disk.
type image struct {
	Path, Format string
	Fill         string // off, metadata, falloc or full, as in DiskSpec.Preallocation; or random
	Size         int64
	Convert      []string // options of qemu-img convert
	Options      []string // options of the format, as in cluster_size=65536
}

// random is the value of image.Fill that fills the image with incompressible data. Later reads then reach the device,
// because no extent is unwritten.
const random = "random"

var makeImage = agent.New("volume.make image", makeImageHere)

func makeImageHere(ctx context.Context, i image) (none, error) {
	err := i.make(ctx)
	if err == nil {
		return none{}, nil
	}
	e := failed("make image", i.Path, err).(*iotax.Error)
	if !errors.Is(err, os.ErrExist) { // otherwise the file belongs to another run
		e.Err = errors.Join(e.Err, i.remove())
	}
	return none{}, e
}

func (i image) remove() error {
	return errors.Join(os.RemoveAll(i.Path), os.RemoveAll(i.raw()))
}

// raw returns the path of the temporary raw image from which a random qcow2 image is converted.
func (i image) raw() string { return i.Path + ".raw" }

func (i image) make(ctx context.Context) error {
	if i.Format != "qcow2" {
		return i.write(ctx, i.Path)
	}
	if _, err := os.Lstat(i.Path); err == nil {
		return &os.PathError{Op: "create", Path: i.Path, Err: os.ErrExist}
	}
	args := []string{"qemu-img", "create", "-q", "-f", "qcow2", "-o", strings.Join(append([]string{"preallocation=" + i.Fill}, i.Options...), ","), i.Path, fmt.Sprint(i.Size)}
	if i.Fill == random {
		if err := i.write(ctx, i.raw()); err != nil {
			return err
		}
		args = append([]string{"qemu-img", "convert", "-q"}, i.Convert...)
		if len(i.Options) > 0 {
			args = append(args, "-o", strings.Join(i.Options, ","))
		}
		args = append(args, "-f", "raw", "-O", "qcow2", i.raw(), i.Path)
	}
	if _, err := agent.Tool(args[0]); err != nil {
		return &iotax.Error{Op: "make image", On: i.Path, Err: err, Hint: "install qemu-img (Debian: qemu-utils)"}
	}
	if _, err := agent.Exec(ctx, args...); err != nil {
		return err
	}
	return errors.Join(os.Chmod(i.Path, 0o600), os.RemoveAll(i.raw()))
}

// write makes a raw image. If Fill is falloc and the file system does not support fallocate (such as NFS 3), it writes
// zeroes.
func (i image) write(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data := io.Reader(zeroes{})
	switch i.Fill {
	case "off":
		return f.Truncate(i.Size)
	case "falloc":
		if err := allocate(f, i.Size); !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.ENOSYS) {
			return err
		}
	case random:
		data = noise()
	}
	return fill(ctx, f, data, i.Size)
}

// noise returns a reader of incompressible data.
func noise() io.Reader {
	var seed [32]byte
	cryptorand.Read(seed[:]) // never fails
	return rand.NewChaCha8(seed)
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// fill writes n bytes of data to f and calls fsync.
func fill(ctx context.Context, f *os.File, data io.Reader, n int64) error {
	buf := make([]byte, 1<<20)
	for n > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := buf[:min(n, int64(len(buf)))]
		if _, err := io.ReadFull(data, part); err != nil {
			return err
		}
		if _, err := f.Write(part); err != nil {
			return err
		}
		n -= int64(len(part))
	}
	return f.Sync()
}

// A newFilesystem describes a file system to make on the device or file Path.
type newFilesystem struct{ Type, Path string }

// mkfs maps file systems to the programs that make them, and to their packages. mkfs.ext4 must initialize the inode
// tables, because lazy initialization would continue during the first trials. On small disks, mkfs.ext4 would choose
// blocks of 1 KiB, so that 4 KiB of a file could straddle two blocks of the host's file system. The options also
// disable discards, so that the image's blocks stay allocated.
var mkfs = map[string]struct {
	args []string
	from string
}{
	"ext4":  {[]string{"mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"}, "e2fsprogs"},
	"xfs":   {[]string{"mkfs.xfs", "-q", "-f", "-K"}, "xfsprogs"},
	"btrfs": {[]string{"mkfs.btrfs", "-q", "-f", "-K"}, "btrfs-progs"},
}

func (n newFilesystem) make(ctx context.Context) error {
	op, how := "make "+n.Type, mkfs[n.Type]
	if err := needRoot(op, n.Path); err != nil {
		return err
	}
	if _, err := agent.Tool(how.args[0]); err != nil {
		return &iotax.Error{Op: op, On: n.Path, Err: err, Hint: "install " + how.from + " (the micro-guest has the programs of its host), or use another filesystem:"}
	}
	if _, err := agent.Exec(ctx, append(how.args[:len(how.args):len(how.args)], n.Path)...); err != nil {
		return &iotax.Error{Op: op, On: n.Path, Err: err}
	}
	return nil
}

var (
	makeFilesystem = agent.New("volume.make file system", func(ctx context.Context, n newFilesystem) (none, error) { return none{}, n.make(ctx) })
	// attachLoop makes an ext4 file system in a file, and attaches a loop device to the file.
	attachLoop = agent.New("volume.attach loop device", func(ctx context.Context, file string) (device string, err error) {
		if err := (newFilesystem{"ext4", file}).make(ctx); err != nil {
			return "", err
		}
		device, err = agent.Exec(ctx, "losetup", "--find", "--show", file)
		return string(bytes.TrimSpace([]byte(device))), err
	})
	// detachLoops detaches all loop devices of the file.
	detachLoops = agent.New("volume.detach loop devices", func(ctx context.Context, file string) (none, error) {
		all, err := agent.Exec(ctx, "losetup", "-n", "-O", "NAME", "-j", file)
		for _, device := range bytes.Fields([]byte(all)) {
			if err == nil {
				_, err = agent.Exec(ctx, "losetup", "-d", string(device))
			}
		}
		return none{}, err
	})
)
