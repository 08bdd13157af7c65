package iotax

import "testing"

func TestStorage(t *testing.T) {
	for _, x := range []struct{ fs, source, upper, device, disk, mapped, on, want, shared string }{
		{fs: "ext4", source: "/dev/vda1", device: "vda1", disk: "vda", want: "ext4 on vda1", shared: "vda"},
		{fs: "xfs", source: "/dev/mapper/vg-lv", device: "dm-0", disk: "dm-0", mapped: "vg-lv", on: "sda2 sdb2", want: "xfs on vg-lv", shared: "sda2 sdb2"},
		{fs: "ext4", source: "/dev/md0", device: "md0", disk: "md0", mapped: "raid1", on: "sda1 sdb1", want: "ext4 on md0", shared: "sda1 sdb1"},
		{fs: "ext4", source: "/dev/loop0", device: "loop0", disk: "loop0", on: "/x.img", want: "ext4 on loop0", shared: "loop0"},
		{fs: "btrfs", source: "/dev/nvme0n1p2", device: "nvme0n1p2", disk: "nvme0n1", want: "btrfs on nvme0n1p2", shared: "nvme0n1"},
		{fs: "zfs", source: "tank/data", want: "zfs on tank/data", shared: "tank"},
		{fs: "overlay", source: "overlay", want: "overlay"},
		{fs: "overlay", source: "overlay", upper: "ext4", device: "vda", disk: "vda", want: "overlay over ext4 on vda", shared: "vda"},
		{fs: "tmpfs", source: "tmpfs", want: "tmpfs"},
		{fs: "nfs4", source: "nas:/x", want: "nfs4 from nas:/x", shared: "nas:/x"},
		{fs: "cifs", source: "//nas/x", want: "cifs from //nas/x", shared: "//nas/x"},
		{fs: "fuse.sshfs", source: "me@h:/x", want: "fuse.sshfs from me@h:/x", shared: "me@h:/x"},
		{fs: "9p", source: "t1-ab12", want: "9p"}, {fs: "virtiofs", source: "t1-ab12", want: "virtiofs"}, {fs: "9p", source: `C:\`, want: `9p from C:\`, shared: `C:\`},
		{device: "vdb", disk: "vdb", want: "block device vdb", shared: "vdb"},
		{},
	} {
		info := TargetInfo{Facts: map[string]string{"filesystem": x.fs, "filesystem.source": x.source, "filesystem.upper": x.upper,
			"device.name": x.device, "device.disk": x.disk, "device.mapped": x.mapped, "device.on": x.on}}
		if got, shared := info.Storage(), info.Device(); got != x.want || shared != x.shared {
			t.Errorf("%+v: %q of %q", x, got, shared)
		}
	}
}

func TestDurabilityClasses(t *testing.T) {
	fuse, other := UnknownDurability("fuse"), UnknownDurability("fuse.mergerfs")
	for _, x := range []struct{ a, b, weakest Durability }{
		{Volatile, fuse, Volatile}, {FlushIgnored, fuse, FlushIgnored}, {fuse, DriveCache, fuse}, {fuse, Durable, fuse}, {DriveCache, Durable, DriveCache}, {"", fuse, fuse}, {"", Durable, Durable},
	} {
		if got := [2]Durability{Weakest(x.a, x.b), Weakest(x.b, x.a)}; got != [2]Durability{x.weakest, x.weakest} {
			t.Errorf("Weakest(%q, %q) = %q", x.a, x.b, got)
		}
	}
	for _, x := range []struct {
		a, b Durability
		want string
	}{
		{Durable, Durable, ""}, {Durable, Volatile, "is not"}, {Durable, "", ""}, {fuse, "", ""}, {fuse, Durable, "may not be"}, {fuse, other, "may not be"}, {fuse, fuse, ""},
	} {
		if got := [2]string{x.a.Unlike(x.b), x.b.Unlike(x.a)}; got != [2]string{x.want, x.want} {
			t.Errorf("%q.Unlike(%q) = %q", x.a, x.b, got)
		}
	}
}
