package probe

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const mountinfo = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard,errors=remount-ro
30 27 0:27 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=100k
31 27 0:40 /@home /home rw,relatime shared:5 master:2 - btrfs /dev/nvme0n1p2 rw,ssd,subvol=/@home
32 27 0:41 / /mnt/with\040a\040blank\134 rw - 9p host9p rw,trans=virtio
33 27 0:42 / /mnt/merged rw - overlay overlay rw,lowerdir=/l,upperdir=/home/up,workdir=/home/work
34 27 0:43 / /mnt/nfs ro,relatime - nfs4 10.0.0.1:/x rw,vers=4.2
35 33 254:1 /sub /mnt/merged/inner ro - ext4 /dev/vda1 rw
36 27 0:44 / /over rw - tmpfs  rw
37 27 8:1 / /over rw - xfs /dev/sda1 rw
38 27 0:45 / /ctr rw - overlay overlay rw,upperdir=/ctr/diff
garbage
39 27 0:46 / /short - ext4
`

func TestMounts(t *testing.T) {
	ms := ParseMounts(mountinfo)
	if len(ms) != 11 {
		t.Errorf("%d mounts, want 11", len(ms))
	}
	for _, x := range []struct{ path, point, kind string }{
		{"/", "/", "ext4"}, {"/var/tmp", "/", "ext4"}, {"/home", "/home", "btrfs"}, {"/homes", "/", "ext4"},
		{"/mnt/with a blank\\/x", "/mnt/with a blank\\", "9p"}, {"/mnt/merged/x", "/mnt/merged", "overlay"},
		{"/mnt/merged/inner/x", "/mnt/merged/inner", "ext4"}, {"/over/x", "/over", "xfs"}, {"/dev/shm/x", "/dev/shm", "tmpfs"},
	} {
		if m, ok := MountOf(ms, x.path); !ok || m.Point != x.point || m.Type != x.kind {
			t.Errorf("MountOf(%s) = %+v", x.path, m)
		}
	}
	if _, ok := MountOf(ms, "relative"); ok {
		t.Error("a relative path lies on a mount")
	}
	for path, ro := range map[string]bool{"/mnt/nfs": true, "/mnt/merged/inner": true, "/": false} {
		if m, _ := MountOf(ms, path); m.ReadOnly() != ro {
			t.Errorf("%s: read-only %v", path, !ro)
		}
	}
	root, _ := MountOf(ms, "/")
	if want := []string{"rw", "relatime", "discard", "errors=remount-ro"}; !reflect.DeepEqual(root.Options, want) {
		t.Errorf("options %v, want %v", root.Options, want)
	}
	merged, _ := MountOf(ms, "/mnt/merged")
	if m, ok := upper(ms, merged); !ok || m.Type != "btrfs" {
		t.Errorf("upper: %+v, %v", m, ok)
	}
	container, _ := MountOf(ms, "/ctr")
	if m, ok := upper(ms, container); ok {
		t.Errorf("upper of a container: %+v", m)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add(mountinfo)
	f.Add(`1 2 3:4 / \0\07\777 - a - b -` + "\n - \n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, m := range ParseMounts(s) {
			m.Option("upperdir")
			if m.Type == "" && !strings.Contains(s, "-") {
				t.Error("a mount from nothing")
			}
		}
	})
}

func TestDeviceFacts(t *testing.T) {
	for _, x := range []struct {
		device      string
		files, want map[string]string
	}{
		{"nvme0n1p2", map[string]string{"nvme0n1/nvme0n1p2/partition": "2\n", "nvme0n1/nvme0n1p2/size": "2048\n", "nvme0n1/nvme0n1p2/dev": "259:2\n", "nvme0n1/size": "9999\n",
			"nvme0n1/queue/scheduler": "none [mq-deadline] kyber\n", "nvme0n1/queue/rotational": "0\n", "nvme0n1/device/model": "SAMSUNG  MZVL2      \n", "nvme0n1/device/vendor": "0x144d\n"},
			map[string]string{"device.name": "nvme0n1p2", "device.disk": "nvme0n1", "device.size": "1048576",
				"queue.scheduler": "mq-deadline", "queue.rotational": "0", "device.model": "SAMSUNG MZVL2"}},
		{"dm-0", map[string]string{"dm-0/queue/scheduler": "none\n", "dm-0/dm/name": "vg-lv\n", "dm-0/slaves/sda2/dev": "8:2\n", "dm-0/slaves/sdb2/dev": "8:18\n", "dm-0/device/vendor": "ATA\n", "dm-0/device/model": "X\n", "dm-0/dev": "253:0\n"},
			map[string]string{"device.name": "dm-0", "device.disk": "dm-0", "queue.scheduler": "none", "device.mapped": "vg-lv", "device.on": "sda2 sdb2", "device.model": "ATA X"}},
	} {
		fs := system{t.TempDir(), t.TempDir()}
		for file, text := range x.files {
			file = filepath.Join(fs.sys, "devices", file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		class := filepath.Join(fs.sys, "class/block")
		if err := os.MkdirAll(class, 0o700); err != nil {
			t.Fatal(err)
		}
		dirs, _ := filepath.Glob(filepath.Join(fs.sys, "devices/*/dev"))
		parts, _ := filepath.Glob(filepath.Join(fs.sys, "devices/*/*/dev"))
		for _, dev := range append(dirs, parts...) {
			dir := filepath.Dir(dev)
			if err := os.Symlink(dir, filepath.Join(class, filepath.Base(dir))); err != nil {
				t.Fatal(err)
			}
		}
		number := strings.TrimSpace(fs.read(class, x.device, "dev"))
		if got := fs.byNumber(number); number == "" || got != x.device { // without dev/block, which Podman hides
			t.Errorf("%s is %q by its number %q", x.device, got, number)
		}
		facts := map[string]string{}
		fs.device(facts, x.device)
		if !reflect.DeepEqual(facts, x.want) {
			t.Errorf("got %v, want %v", facts, x.want)
		}
	}
}

func TestUnmounted(t *testing.T) {
	const fstab = "# a comment\nUUID=1 / ext4 defaults 0 1\n/dev/vdb /data xfs noauto 0 0\n/dev/vdc /data/with\\040blank/ ext4 defaults\nnone none swap sw 0 0\nshort /x\n"
	for _, x := range []struct{ path, mounted, want string }{
		{"/data/iotax-1", "/", "/data"}, {"/data", "/", "/data"}, {"/data/iotax-1", "/data", ""}, {"/database", "/", ""}, {"/var/tmp", "/", ""},
		{"/data/with blank/x", "/", "/data/with blank"}, {"/data/with blank/x", "/data", "/data/with blank"}, {"/data/x/y", "/data/x", ""},
	} {
		if got := unmounted(fstab, x.path, x.mounted); got != x.want {
			t.Errorf("%s on %s: %q, want %q", x.path, x.mounted, got, x.want)
		}
	}
}
