package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// deviceBytes finds the counters in both versions of control groups and sums them over all devices.
func TestDeviceBytes(t *testing.T) {
	for name, c := range map[string]struct{ groups, file, text string }{
		"version 2": {"0::/box\n", "box/io.stat", "8:0 rbytes=1000 wbytes=30 rios=192 wios=5\n7:0 rbytes=500 wbytes=12 dbytes=9\n"},
		"version 1": {"4:memory:/x\n3:cpu,blkio:/box\n", "blkio/box/blkio.throttle.io_service_bytes", "8:0 Read 1000\n8:0 Write 42\n7:0 Read 500\n8:0 Total 1042\nTotal 1542\n"},
	} {
		root := t.TempDir()
		path := filepath.Join(root, c.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if read, written, ok := deviceBytes(c.groups, "", root, t.TempDir()); read != 1500 || written != 42 || !ok {
			t.Errorf("%s: %d, %d, %v", name, read, written, ok)
		}
		if err := os.WriteFile(path, []byte("Total 0\n"), 0o600); err != nil { // the kernel may count only disks with a limit
			t.Fatal(err)
		}
		if _, _, ok := deviceBytes(c.groups, "", root, t.TempDir()); ok != (name == "version 2") {
			t.Errorf("%s: no counters: %v", name, ok)
		}
		if _, _, ok := deviceBytes("5:pids:/box\n", "", root, t.TempDir()); ok {
			t.Errorf("%s: counters of a group that has none", name)
		}
	}
}

// I/O on a device mapper or a loop device counts once, although the kernel counts it at the disk below, too.
func TestDeviceBytesOfStackedDevices(t *testing.T) {
	root, sys := t.TempDir(), t.TempDir()
	device := func(path, number string, slaves ...string) {
		t.Helper()
		dir := filepath.Join(sys, "devices", path)
		links := map[string]string{filepath.Join(sys, "dev/block", number): dir, filepath.Join(sys, "class/block", filepath.Base(path)): dir}
		for _, s := range slaves {
			links[filepath.Join(dir, "slaves", filepath.Base(s))] = filepath.Join(sys, "devices", s)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "dev"), []byte(number+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for link, to := range links {
			if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
	}
	device("sda", "8:0")
	device("sda/sda2", "8:2")
	device("sdb", "8:16")
	device("dm-0", "253:0", "sda/sda2")
	device("dm-1", "253:1", "dm-0")
	if err := os.WriteFile(filepath.Join(sys, "devices/sda/sda2/partition"), []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	device("loop0", "7:0")
	device("loop1", "7:1")
	device("sdc", "8:32")
	for path, text := range map[string]string{
		filepath.Join(sys, "devices/loop0/loop/backing_file"): "/data/image\n",
		filepath.Join(sys, "devices/loop1/loop/backing_file"): "/btrfs/image\n",
		filepath.Join(sys, "fs/btrfs/uuid/devices/sda2"):      "",
		filepath.Join(sys, "fs/btrfs/uuid/devices/sdc"):       "",
		filepath.Join(root, "mapped/io.stat"):                 "8:0 rbytes=1000 wbytes=30\n253:0 rbytes=1000 wbytes=30\n253:1 rbytes=1000 wbytes=30\n8:16 rbytes=5 wbytes=7\n",
		filepath.Join(root, "loop/io.stat"):                   "7:0 rbytes=1000 wbytes=30\n8:0 rbytes=900 wbytes=20\n8:16 rbytes=5 wbytes=7\n",
		filepath.Join(root, "btrfs/io.stat"):                  "7:1 rbytes=1000 wbytes=30\n8:0 rbytes=500 wbytes=20\n8:32 rbytes=400 wbytes=20\n8:16 rbytes=5 wbytes=7\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	groups := []string{"mapped", "loop", "btrfs"}
	node := filepath.Join(t.TempDir(), "node")
	if exec.Command("mknod", node, "b", "8", "2").Run() != nil {
		groups = groups[:2] // btrfs has an anonymous number, and only root can make the node of its device
	}
	mounts := "20 1 8:16 / / rw - ext4 /dev/sdb rw\n21 20 8:2 / /data rw - ext4 /dev/sda2 rw\n22 20 0:40 / /btrfs rw - btrfs " + node + " rw\n"
	for _, group := range groups {
		if read, written, ok := deviceBytes("0::/"+group+"\n", mounts, root, sys); read != 1005 || written != 37 || !ok {
			t.Errorf("%s: %d, %d, %v", group, read, written, ok)
		}
	}
}
