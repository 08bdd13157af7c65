package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// loopMount makes an ext4 in a file, in its first partition when asked to, and mounts it by a loop device. It
// returns the mount point and the name of the device.
func loopMount(t *testing.T, partition bool) (dir, device string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to set up a loop device")
	}
	base := t.TempDir()
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "mnt")
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(64 << 20); err != nil {
		t.Fatal(err)
	}
	if partition { // a PC partition table: one Linux partition from sector 2048, of 131072-2048 sectors
		table := make([]byte, 512)
		copy(table[446:], []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0x00, 0x08, 0, 0, 0x00, 0xf8, 0x01, 0})
		table[510], table[511] = 0x55, 0xaa
		if _, err := f.WriteAt(table, 0); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	loop, err := exec.Command("losetup", "-fP", "--show", image).CombinedOutput()
	if err != nil {
		t.Skipf("needs loop devices: %s", loop)
	}
	device = strings.TrimSpace(string(loop))
	t.Cleanup(func() { exec.Command("losetup", "-d", strings.TrimSpace(string(loop))).Run() })
	if partition {
		device += "p1"
		if _, err := os.Stat(device); err != nil {
			t.Skip("needs partitions of loop devices: ", err)
		}
	}
	run("mkfs.ext4", "-q", device)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run("mount", "-o", "noatime", device, dir)
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir, filepath.Base(device)
}
