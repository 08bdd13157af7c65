package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"iotax"
)

// changeRoot mounts r's file system, makes its directory the root, and starts its program. The initramfs
// itself cannot be pivoted away: as switch_root does it, the new root is moved over it.
func changeRoot(r *iotax.Root) error {
	const at, next = "/mnt/share", "/mnt/root"
	for _, d := range []string{at, next} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	source, flags := r.Source, uintptr(0)
	if serial, ok := strings.CutPrefix(source, "serial:"); ok {
		dev, err := awaitDisk(serial)
		if err != nil {
			return err
		}
		source, flags = "/dev/"+dev, unix.MS_RDONLY
	}
	mark("mount", "")
	if err := unix.Mount(source, at, r.Type, flags, r.Options); err != nil {
		return fmt.Errorf("mount %s of type %s with %q: %w", source, r.Type, r.Options, err)
	}
	if _, err := os.ReadDir(filepath.Join(at, r.Path)); err != nil { // it has answered once
		return err
	}
	mark("root", "")
	if err := unix.Mount(filepath.Join(at, r.Path), next, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", r.Path, err)
	}
	for _, d := range []string{"/dev", "/proc", "/sys", "/run", "/tmp"} {
		if err := unix.Mount(d, next+d, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", d, err)
		}
	}
	if err := os.Chdir(next); err != nil {
		return err
	}
	if err := errors.Join(unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), os.Chdir("/")); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	mark("pivot", "")
	if len(r.Run) == 0 {
		return nil
	}
	p, err := startProcess(r.Run, nil)
	if err != nil {
		return err
	}
	p.stdin.Close()
	go func() { _, _ = io.Copy(io.Discard, p.stdout) }()
	go func() {
		said, _ := io.ReadAll(io.LimitReader(p.stderr, 4096))
		_, _ = io.Copy(io.Discard, p.stderr)
		fail(fmt.Errorf("%s ended (%v): %s", r.Run[0], <-p.done, strings.TrimSpace(string(said))))
	}()
	return nil
}

// awaitDisk returns the name of the disk with a serial number once the kernel has it.
func awaitDisk(serial string) (string, error) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		for id, name := range disks() {
			if _, s, _ := strings.Cut(id, "-"); s == serial {
				return name, nil
			}
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("there is no disk with the serial number %s", serial)
		}
	}
}
