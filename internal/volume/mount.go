package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/mem"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/rules"
)

// A mounting describes a file system that root mounts at Point. mountHere makes Point, and unmountHere removes it.
type mounting struct {
	Type, Source, Point, Options string

	KeepOwner bool // do not change the owner of the root directory: iotax did not make the file system, or it is read-only
}

var (
	doMount = agent.New("volume.mount", mountHere)
	unmount = agent.New("volume.unmount", unmountHere)
)

// ready makes the mount point. It returns an error if a file system is already mounted there.
func (x mounting) ready(op string) error {
	if err := needRoot(op, x.Point); err != nil {
		return err
	}
	if err := os.MkdirAll(x.Point, 0o755); err != nil {
		return failed(op, x.Point, err)
	}
	on, err := mountOn(x.Point)
	if err != nil {
		return failed(op, x.Point, err)
	}
	if on.Point != "" {
		return &iotax.Error{Op: op, On: x.Point, Err: errors.New("something is mounted on it already"), Hint: "unmount it, or use another machine"}
	}
	return nil
}

func mountHere(ctx context.Context, x mounting) (none, error) {
	op := "mount " + x.Type
	if err := x.ready(op); err != nil {
		return none{}, err
	}
	if x.Type == "9p" {
		_, _ = agent.Exec(ctx, "modprobe", "-q", "9pnet_virtio") // may fail if the driver is built in
	}
	args := []string{"mount", "-t", x.Type}
	if x.Options != "" {
		args = append(args, "-o", x.Options)
	}
	_, err := agent.Exec(ctx, append(args, x.Source, x.Point)...)
	if caller, ok := agent.Caller(); ok && err == nil && !x.KeepOwner {
		err = os.Lchown(x.Point, caller, -1)
	}
	if err == nil {
		return none{}, nil
	}
	e := &iotax.Error{Op: op, On: x.Point, Err: err}
	if says(err, "unknown filesystem") || says(err, "no such device") {
		e.Hint = "boot a kernel with the file system " + x.Type + map[string]string{
			"9p":       " (the cloud kernels of distributions have none; the generic ones do: Debian's linux-image-amd64)",
			"virtiofs": " (CONFIG_VIRTIO_FS)",
		}[x.Type]
	}
	return none{}, e
}

// unmountHere unmounts x and removes the mount point. It does not unmount a mount with another source. While the mount
// is busy, it retries for about 2 s. After another error, or if the mount remains busy, it unmounts lazily and returns
// the reason.
func unmountHere(ctx context.Context, x mounting) (lazily string, err error) {
	for try := 0; ; try++ {
		on, err := mountOn(x.Point)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // ErrNotExist: no /proc, so nothing was mounted
			return "", failed("unmount", x.Point, err)
		}
		if on.Point == "" || on.Source != x.Source {
			break
		}
		if err := needRoot("unmount", x.Point); err != nil {
			return "", err
		}
		_, err = agent.Exec(ctx, "umount", x.Point)
		if err == nil {
			break
		}
		if says(err, "busy") && try < 10 && ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond)
			continue
		}
		if _, lerr := agent.Exec(ctx, "umount", "-l", x.Point); lerr != nil {
			return "", &iotax.Error{Op: "unmount", On: x.Point, Err: err, Hint: "find what still uses it: fuser -vm " + iotax.Quote(x.Point)}
		}
		lazily = err.Error()
		break
	}
	if err := syscall.Rmdir(x.Point); errors.Is(err, syscall.EBUSY) { // another error means that the directory is not empty or does not exist
		return lazily, &iotax.Error{Op: "unmount", On: x.Point, Err: errors.New("something else is mounted there"), Hint: "look at it: findmnt " + iotax.Quote(x.Point)}
	}
	return lazily, nil
}

// rootDir makes a directory in base as root, and pushes its removal.
func (l *life) rootDir(ctx context.Context, m iotax.Machine, base string) (string, error) {
	o := newOwnDir(base)
	o.Root = true
	_, err := l.ownDir(ctx, m, o)
	return o.Path, err
}

// mountPoint returns the mount point and the source name for a file system of the run on m. On this host, the mount
// point is in the run's work directory, if the run has one. Otherwise, the mount point is in a new directory whose
// marker file contains the run's label.
func (l *life) mountPoint(ctx context.Context, m iotax.Machine) (point, source string, err error) {
	source = "iotax-" + l.env.ID
	if iotax.IsLocal(m) && l.env.WorkDir != "" {
		return l.env.scratch("mnt"), source, nil
	}
	dir, err := l.rootDir(ctx, m, "/mnt")
	return dir + "/" + l.env.ID, source, err
}

// unmountLater pushes the unmount of x. A lazy unmount adds a finding.
func (l *life) unmountLater(m iotax.Machine, x mounting) {
	l.attached.push(func(ctx context.Context) error {
		lazily, err := on(ctx, slow, unmount.AsRoot, m, x)
		if lazily != "" {
			l.found = append(l.found, rules.LazyUnmount.With("PATH", iotax.Quote(x.Point)).Found(iotax.Subject{}, "%s on %v could only be unmounted lazily: %s", x.Point, m, lazily))
		}
		return left("unmount", x.Point, m, err)
	})
}

// mount mounts x on m and pushes the unmount.
func (l *life) mount(ctx context.Context, m iotax.Machine, x mounting) error {
	l.unmountLater(m, x)
	_, err := on(ctx, slow, doMount.AsRoot, m, x)
	return err
}

// forceUnmount unmounts a file system whose server has ended. Without force, the unmount would wait for the server.
var forceUnmount = agent.New("volume.force unmount", func(ctx context.Context, point string) (none, error) {
	_, err := agent.Exec(ctx, "umount", "-f", point)
	if err != nil {
		_, err = agent.Exec(ctx, "umount", "-f", "-l", point)
	}
	return none{}, err
})

// readMount returns the mount at a mount point, or the zero value if nothing is mounted there.
var readMount = agent.New("volume.read mount", func(_ context.Context, point string) (mounting, error) {
	m, err := mountOn(point)
	return mounting{Type: m.Type, Source: m.Source, Point: m.Point}, err
})

// mountedAs reports whether x is mounted on m.
func mountedAs(ctx context.Context, m iotax.Machine, x mounting) bool {
	now, err := on(ctx, quick, readMount.On, m, x.Point)
	return err == nil && now.Source == x.Source && strings.HasSuffix(now.Type, x.Type)
}

// freeMemory returns the number of bytes that programs can allocate without swapping.
var freeMemory = agent.New("volume.free memory", func(ctx context.Context, _ none) (int64, error) {
	v, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot read how much memory is free: %w", err)
	}
	return int64(v.Available), nil
})
