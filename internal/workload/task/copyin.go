package task

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"iotax"
	"iotax/internal/agent"
)

// A CopyIn describes how to copy the volume behind an NBD export into a directory.
type CopyIn struct {
	URL, Dir string
	Tool     string        // nbdcopy or qemu-img
	Lazy     bool          // use the volume through an overlay that keeps the blocks that are read
	Stall    time.Duration // fail after this time without progress
	Env      []string      // environment of the programs
}

// An Arrival holds durations since the start of the copy: First until the first block was read, Local until the whole
// volume was local, and Steady until the whole volume had been read from the local copy.
type Arrival struct{ First, Local, Steady time.Duration }

// Bring copies a volume to a directory, or serves it lazily. It then reads the whole volume from the local copy.
var Bring = agent.New("copy in", func(ctx context.Context, c CopyIn) (Arrival, error) {
	if c.Lazy {
		return c.lazy(ctx)
	}
	return c.eager(ctx)
})

func (c CopyIn) run(ctx context.Context, args ...string) error {
	return agent.Here(ctx).Run(ctx, &iotax.Cmd{Args: args, Env: append(c.Env, "LC_ALL=C"), Dir: c.Dir})
}

// carry runs a program that fills a file, and stops it if the file does not grow for c.Stall. Neither nbdcopy nor QEMU
// has a timeout for a connection that hangs.
func (c CopyIn) carry(ctx context.Context, file string, args ...string) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		last, since := int64(-1), time.Now()
		for t := time.NewTicker(time.Second); ; {
			select {
			case <-inner.Done():
				t.Stop()
				return
			case <-t.C:
			}
			at := int64(-1)
			if st, err := os.Stat(file); err == nil {
				at = allocated(st)
			}
			if at != last {
				last, since = at, time.Now()
			} else if time.Since(since) >= c.Stall {
				cancel(fmt.Errorf("nothing came for %v", c.Stall))
			}
		}
	}()
	return c.run(inner, args...)
}

// eager copies the volume to a file. It then reads one block and the whole file with direct I/O.
func (c CopyIn) eager(ctx context.Context) (a Arrival, err error) {
	file := filepath.Join(c.Dir, "copy.raw")
	args := []string{"nbdcopy", "--flush", "--", c.URL, file}
	if c.Tool != "nbdcopy" {
		args = []string{"qemu-img", "convert", "-q", "-t", "none", "-f", "raw", "-O", "raw", c.URL, file}
	}
	begun := time.Now()
	if err = c.carry(ctx, file, args...); err != nil {
		return a, err
	}
	a.Local = time.Since(begun)
	if err = c.run(ctx, "dd", "if="+file, "of=/dev/null", "bs=4096", "count=1", "iflag=direct"); err != nil {
		return a, err
	}
	a.First = time.Since(begun)
	err = c.run(ctx, "dd", "if="+file, "of=/dev/null", "bs=1048576", "iflag=direct")
	a.Steady = time.Since(begun)
	return a, err
}

// lazy serves the volume through a copy-on-read overlay. It reads one block, the whole volume, and the whole volume
// again.
func (c CopyIn) lazy(ctx context.Context) (a Arrival, err error) {
	overlay, socket, pid := filepath.Join(c.Dir, "overlay.qcow2"), filepath.Join(c.Dir, "s"), filepath.Join(c.Dir, "pid")
	begun := time.Now()
	if err = c.run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", c.URL, overlay); err != nil {
		return a, err
	}
	inner, cancel := context.WithCancelCause(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		err := c.run(inner, "qemu-nbd", "--persistent", "--shared=4", "--pid-file="+pid, "--socket="+socket, "--image-opts",
			"driver=copy-on-read,file.driver=qcow2,file.file.driver=file,file.file.filename="+overlay+",file.file.cache.direct=on")
		if err != nil {
			err = fmt.Errorf("qemu-nbd ended: %w", err)
		}
		cancel(err)
	}()
	defer func() { cancel(nil); <-served }()
	for st, serr := os.Stat(pid); serr != nil || st.Size() == 0; st, serr = os.Stat(pid) { // qemu-nbd writes the file once it listens
		select {
		case <-inner.Done():
			return a, context.Cause(inner)
		case <-time.After(time.Millisecond):
		}
	}
	url := "nbd+unix:///?socket=" + socket
	if err = c.carry(inner, overlay, "qemu-io", "-r", "-f", "raw", "-c", "read -q 0 4k", url); err != nil {
		return a, err
	}
	a.First = time.Since(begun)
	if err = c.carry(inner, overlay, "nbdcopy", "--", url, "null:"); err != nil {
		return a, err
	}
	a.Local = time.Since(begun)
	err = c.run(inner, "nbdcopy", "--", url, "null:")
	a.Steady = time.Since(begun)
	return a, err
}
