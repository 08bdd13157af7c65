package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// loopMount makes an ext4 file system in a file and mounts it through a loop device. If `partition` is true, the file
// system is in the first partition of the file. loopMount returns the mount point and the name of the device.
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
	f.Close()
	loop, err := exec.Command("losetup", "-fP", "--show", image).CombinedOutput()
	if err != nil {
		t.Skipf("needs loop devices: %s", loop)
	}
	device = strings.TrimSpace(string(loop))
	t.Cleanup(func() { exec.Command("losetup", "-d", strings.TrimSpace(string(loop))).Run() })
	if partition { // added with addpart, because not every kernel can read partition tables
		run("addpart", device, "1", "2048", "100000")
		t.Cleanup(func() { exec.Command("delpart", strings.TrimSpace(string(loop)), "1").Run() })
		device += "p1"
	}
	run("mkfs.ext4", "-q", device)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run("mount", "-o", "noatime", device, dir)
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir, filepath.Base(device)
}
