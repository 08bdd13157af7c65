package guard

import (
	"strings"
	"testing"
)

// sdx returns the facts of an unused device.
func sdx() Facts {
	return Facts{Path: "/dev/sdx", Number: "8:240", Size: 1 << 20, Nodes: []Node{{Self, "8:240", "sdx", ""}}, Own: 7}
}

func TestJudge(t *testing.T) {
	loop := []Backing{{"loop0", "254:1:17", "/a b"}}
	for _, c := range []struct {
		name string
		set  func(*Facts)
		want string // all reasons; "" means none
	}{
		{"nothing", func(f *Facts) {}, ""},
		{"read-only", func(f *Facts) { f.ReadOnly = true }, "it is read-only"},
		{"held", func(f *Facts) { f.Exclusive = true }, HeldText},
		{"LVM", func(f *Facts) { f.Nodes = append(f.Nodes, Node{Holder, "253:0", "dm-0", "vg-root"}) }, "it is a part of /dev/dm-0 (vg-root)"},
		{"RAID", func(f *Facts) { f.Nodes = append(f.Nodes, Node{Holder, "9:127", "md127", "RAID raid1"}) }, "it is a part of /dev/md127 (RAID raid1)"},
		{"a logical volume", func(f *Facts) { f.Nodes = append(f.Nodes, Node{Slave, "8:16", "sdb", ""}) }, "it is made of /dev/sdb, which may hold others' data"},
		{"a name with a slash", func(f *Facts) { f.Nodes = append(f.Nodes, Node{Holder, "104:0", "cciss!c0d0", ""}) }, "it is a part of /dev/cciss/c0d0"},

		{"mounted, by number", func(f *Facts) { f.Mounts = []Mount{{"8:240", "/dev/other", "/m"}} }, "it is mounted on /m"},
		{"mounted, by name: btrfs has numbers of its own", func(f *Facts) { f.Mounts = []Mount{{"0:40", "/dev//sdx", "/m"}} }, "it is mounted on /m"},
		{"mounted, by the name of the device mapper", func(f *Facts) {
			f.Nodes[0].Kind = "vg-data"
			f.Mounts = []Mount{{"0:40", "/dev/mapper/vg-data", "/m"}}
		}, "it is mounted on /m"},
		{"a partition is mounted", func(f *Facts) {
			f.Nodes = append(f.Nodes, Node{Partition, "8:241", "sdx1", ""})
			f.Mounts = []Mount{{"8:241", "/dev/sdx1", "/m"}}
		}, "its partition /dev/sdx1 is mounted on /m"},
		{"the whole disk is mounted", func(f *Facts) {
			f.Nodes = append(f.Nodes, Node{Whole, "8:0", "sda", ""})
			f.Mounts = []Mount{{"8:0", "/dev/sda", "/m"}}
		}, "the disk it is a part of, /dev/sda is mounted on /m"},
		{"its file is mounted: the kernel mounts erofs from a file", func(f *Facts) {
			f.Files = loop
			f.Mounts = []Mount{{"0:40", "/a b", "/m"}}
		}, "its file /a b is mounted on /m"},
		{"another is mounted", func(f *Facts) { f.Mounts = []Mount{{"8:1", "/dev/sda1", "/"}} }, ""},

		{"swap, by number", func(f *Facts) { f.Swaps = []Backing{{"", "b8:240", "/dev/by-name"}} }, "it is in use as swap"},
		{"swap, by name", func(f *Facts) { f.Swaps = []Backing{{"", "", "/dev/sdx"}} }, "it is in use as swap"},
		{"its file is swap", func(f *Facts) { f.Files, f.Swaps = loop, []Backing{{"", "254:1:17", "/link"}} }, "its file /a b is in use as swap"},
		{"another file is swap", func(f *Facts) { f.Files, f.Swaps = loop, []Backing{{"", "254:1:18", "/a b"}} }, ""},
		{"a file of unknown identity is swap", func(f *Facts) { f.Files, f.Swaps = loop, []Backing{{"", "", "/a b"}} }, "its file /a b is in use as swap"},
		{"btrfs", func(f *Facts) { f.Btrfs = []string{"sda", "sdx"} }, "it belongs to a mounted btrfs"},
		{"exported", func(f *Facts) { f.Exports = []Backing{{"", "b8:240", "/node"}} }, "it is exported by this kernel as /node (NVMe-oF, LIO)"},
		{"its file is exported", func(f *Facts) { f.Files, f.Exports = loop, []Backing{{"", "254:1:17", "/hard"}} },
			"its file /a b is exported by this kernel as /hard (NVMe-oF, LIO)"},

		{"its file has two loop devices", func(f *Facts) { f.Files, f.Loops = loop, append([]Backing{{"loop3", "254:1:17", "/a2"}}, loop...) }, "its file /a b is behind /dev/loop3 too"},
		{"two loop devices of unknown identity", func(f *Facts) {
			f.Files, f.Loops = []Backing{{"loop0", "", "/a"}}, []Backing{{"loop0", "", "/a"}, {"loop3", "", "/a"}}
		}, "its file /a is behind /dev/loop3 too"},
		{"another file has a loop device", func(f *Facts) { f.Files, f.Loops = loop, []Backing{loop[0], {"loop3", "254:1:18", "/c"}} }, ""},

		{"open", func(f *Facts) { f.Open = []Open{{9, "b8:240"}, {9, "b8:240"}} }, "/dev/sdx is open in process 9"},
		{"a holder is open", func(f *Facts) {
			f.Nodes = append(f.Nodes, Node{Partition, "8:241", "sdx1", ""})
			f.Open = []Open{{9, "b8:241"}}
		}, "/dev/sdx1 is open in process 9"},
		{"its file is open", func(f *Facts) { f.Files, f.Open = loop, []Open{{9, "254:1:17"}} }, "its file /a b is open in process 9"},
		{"open in this process", func(f *Facts) { f.Open = []Open{{7, "b8:240"}} }, ""},
		{"the disk that it is a part of is open", func(f *Facts) {
			f.Nodes = append(f.Nodes, Node{Whole, "8:0", "sda", ""})
			f.Open = []Open{{9, "b8:0"}}
		}, ""},

		{"signatures", func(f *Facts) { f.Signs = []string{"ext4", "LVM2_member", "ext4"} }, "it carries a signature of ext4; it carries a signature of LVM2_member"},
		{"traces", func(f *Facts) {
			f.Traces = []Trace{{512, "GPT header"}, {8193 << 10, "XFS superblock"}, {9000 << 10, "XFS superblock"}}
		}, "GPT header at 512 bytes; XFS superblock at 8193 KiB and 1 more"},
	} {
		f := sdx()
		c.set(&f)
		if got := strings.Join(f.Judge().Reasons(), "; "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}
