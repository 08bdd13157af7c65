//go:build linux

// Root is the init of a test's initramfs. Like the initramfs of a distribution, it loads drivers, mounts the root file
// system from the first disk, and executes the init of that file system.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/u-root/u-root/pkg/kmodule"
	"golang.org/x/sys/unix"
)

func main() {
	fmt.Println("root:", run())
	for {
		time.Sleep(time.Hour) // PID 1 must not return
	}
}

func run() error {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "this is the init of a guest")
		os.Exit(2)
	}
	for _, m := range [][2]string{{"proc", "/proc"}, {"devtmpfs", "/dev"}, {"sysfs", "/sys"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	p, err := kmodule.NewProber(kmodule.ProbeOpts{})
	if err != nil {
		return err
	}
	for _, m := range []string{"crc32c_generic", "ext4", "isofs", "virtio_pci", "virtio_blk", "virtio_net"} {
		if err := p.Probe(m, ""); err != nil && m != "crc32c_generic" {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err = unix.Mount("/dev/vda", "/mnt", "ext4", 0, ""); err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("mount root: %w", err)
		}
	}
	for _, d := range []string{"/proc", "/dev", "/sys"} {
		if err := unix.Mount(d, "/mnt"+d, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", d, err)
		}
	}
	if err := unix.Chdir("/mnt"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Exec("/sbin/init", []string{"/sbin/init"}, []string{"PATH=/usr/sbin:/usr/bin"})
}
