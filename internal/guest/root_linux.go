package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"iotax"
)

// changeRoot mounts r's file system, makes r.Path in it the root, and starts r.Run. pivot_root does not work from an
// initramfs, so changeRoot moves the new root over the old one, like switch_root.
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
	if _, err := os.ReadDir(filepath.Join(at, r.Path)); err != nil { // waits for the first answer of a file server
		return err
	}
	mark("root", "")
	if err := unix.Mount(filepath.Join(at, r.Path), next, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", r.Path, err)
	}
	if err := moveRoot(next); err != nil {
		return err
	}
	mark("pivot", "")
	if len(r.Run) == 0 {
		return nil
	}
	c := exec.Command(r.Run[0], r.Run[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	errs, err := c.StderrPipe()
	if err != nil {
		return err
	}
	started := make(chan error)
	go func() { // not on the main thread; see Main
		err := c.Start()
		started <- err
		if err != nil {
			return
		}
		stderr, _ := io.ReadAll(io.LimitReader(errs, 4096))
		_, _ = io.Copy(io.Discard, errs)
		fail(fmt.Errorf("%s ended (%v): %s", r.Run[0], c.Wait(), strings.TrimSpace(string(stderr))))
	}()
	return <-started
}

// moveRoot makes the mount at `next` the root. It first moves /dev, /proc, /sys, /run and /tmp into the new root. The
// kernel threads share this process's root, so the kernel finds modprobe in the new root.
func moveRoot(next string) error {
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
	return nil
}

// pivot makes the file system on dev the root. The initramfs remains visible at /run/iotax/initramfs, because the guest
// still loads modules from it and runs its init, which is also modprobe.
func pivot(dev string) error {
	const next, boot = "/mnt", "/run/iotax/initramfs"
	if err := unix.Mount(dev, next, "ext4", unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "mnt", "root", "etc", "lib", "sbin", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(next, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(next+"/var/tmp", 0o1777); err != nil {
		return err
	}
	linkTools(next, "/", next)
	for link, to := range map[string]string{"lib/modules": boot + "/lib/modules", "sbin/modprobe": boot + "/init", "sbin/poweroff": boot + "/init", "var/run": "/run", "etc/mtab": "/proc/self/mounts"} {
		_ = os.Symlink(to, filepath.Join(next, link)) // fails if the disk already has a file with this name
	}
	etc, err := os.ReadDir("/etc")
	if err != nil {
		return err
	}
	for _, e := range etc {
		if !e.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile("/etc/" + e.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(next, "etc", e.Name()), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if err := os.MkdirAll(boot, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", boot, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("keep the initramfs: %w", err)
	}
	return moveRoot(next)
}

// awaitDisk waits up to 5 s for the disk with this serial number and returns the disk's name.
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
