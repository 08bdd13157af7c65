package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"iotax"
	"iotax/internal/guard"
	"iotax/internal/testenv/long"
)

// script runs a shell script and returns its output.
func script(t *testing.T, text string, args ...string) string {
	t.Helper()
	out, err := exec.Command("sh", append([]string{"-euc", "PATH=$PATH:/usr/sbin:/sbin\n" + text, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v: %s", text, err, out)
	}
	return strings.TrimSpace(string(out))
}

// giveUp attaches the device as a run with --destroy does, and detaches it at the end of the test.
func giveUp(t *testing.T, m iotax.Machine, path string) (iotax.Place, error) {
	t.Helper()
	v, err := prepare(t, "device", &DeviceSpec{Path: path}, Env{Destroy: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Detach(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return v.Attach(t.Context(), m)
}

// guarded lists devices that must never be written. The script `make` prepares the loop device $1 and may use the
// directory $2. The script `undo` reverts `make`. `want` is the expected part of the error.
var guarded = []struct {
	name, make, undo string
	tool             string // program that prepares the device; the test fails without it
	size             int64
	want             string
}{
	{name: "ext4", tool: "mkfs.ext4", make: `mkfs.ext4 -q -F "$1"`, want: "ext4"},
	{name: "xfs", tool: "mkfs.xfs", size: 320 << 20, make: `mkfs.xfs -q -f "$1"`, want: "xfs"},
	{name: "btrfs", tool: "mkfs.btrfs", size: 128 << 20, make: `mkfs.btrfs -q -f "$1"`, want: "btrfs"},
	{name: "LVM", tool: "pvcreate", make: `pvcreate -q --devicesfile "" --config 'devices { scan = "/dev" filter = [ "a|.*|" ] } activation { udev_sync = 0 udev_rules = 0 }' "$1"`, want: "LVM2_member"},
	{name: "LUKS", tool: "cryptsetup", size: 32 << 20, make: `echo secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$1" -`, want: "crypto_LUKS"},
	{name: "swap", tool: "mkswap", make: `mkswap -q "$1"`, want: "swap"},
	{name: "swap in use", tool: "swapon", make: `mkswap -q "$1"; swapon "$1"`, undo: `swapoff "$1"`, want: "is in use as swap"},
	{name: "GPT", tool: "parted", make: `parted -s "$1" mklabel gpt`, want: "gpt"},
	{name: "DOS partition table", tool: "parted", make: `parted -s "$1" mklabel msdos mkpart primary 1MiB 8MiB`, want: "dos"},
	{name: "GPT's copy at the end", tool: "parted", make: `parted -s "$1" mklabel gpt; dd if=/dev/zero of="$1" bs=4096 count=16 conv=fsync 2>/dev/null`, want: "gpt"},
	{name: "mounted", tool: "mkfs.ext4", make: `mkfs.ext4 -q -F "$1"; mkdir "$2/mnt"; mount -o ro "$1" "$2/mnt"`, undo: `umount "$2/mnt"`, want: "is mounted on "},
	{name: "mounted elsewhere", tool: "mkfs.ext4", make: `mkfs.ext4 -q -F "$1"; mkdir "$2/mnt"
unshare -m sh -c 'mount --make-rprivate /; mount -o ro "$1" "$2/mnt"; echo ready >"$2/ready"; exec sleep 60' sh "$1" "$2" >/dev/null 2>&1 & echo $! >"$2/pid"
while [ ! -e "$2/ready" ]; do sleep 0.05; done`, undo: `kill "$(cat "$2/pid")"`, want: "is mounted on "},
	{name: "open in a process", tool: "sleep", make: `sleep 60 3<>"$1" >/dev/null 2>&1 & echo $! >"$2/pid"`, undo: `kill "$(cat "$2/pid")"`, want: "is open in process "},
	{name: "file open in a process", tool: "sleep", make: `f=$(losetup -n -O BACK-FILE "$1"); sleep 60 3<>"$f" >/dev/null 2>&1 & echo $! >"$2/pid"`, undo: `kill "$(cat "$2/pid")"`, want: "is open in process "},
	{name: "open by a node of another name", tool: "sleep", make: `mknod "$2/open" b $(stat -c '0x%t 0x%T' "$1"); sleep 60 3<>"$2/open" >/dev/null 2>&1 & echo $! >"$2/pid"`, undo: `kill "$(cat "$2/pid")"`, want: "is open in process "},
	{name: "file open by a hard link", tool: "sleep", make: `f=$(losetup -n -O BACK-FILE "$1"); ln "$f" "$f-open"; sleep 60 3<>"$f-open" >/dev/null 2>&1 & echo $! >"$2/pid"`, undo: `kill "$(cat "$2/pid")"`, want: "is open in process "},
	{name: "file open in another mount namespace", tool: "unshare", make: `f=$(losetup -n -O BACK-FILE "$1"); mkdir "$2/there"
unshare -m sh -c 'mount --make-rprivate /; mount --bind "${1%/*}" "$2/there"; exec 3<>"$2/there/${1##*/}"; echo ready >"$2/ready"; exec sleep 60' sh "$f" "$2" >/dev/null 2>&1 & echo $! >"$2/pid"
while [ ! -e "$2/ready" ]; do sleep 0.05; done`, undo: `kill "$(cat "$2/pid")"`, want: "is open in process "},
	{name: "file behind another loop device", tool: "losetup", make: `losetup -f --show "$(losetup -n -O BACK-FILE "$1")" >"$2/other"`, undo: `losetup -d "$(cat "$2/other")"`, want: "too"},
	{name: "file of another name behind another loop device", tool: "losetup", make: `f=$(losetup -n -O BACK-FILE "$1"); ln "$f" "$f-too"; losetup -f --show "$f-too" >"$2/other"`, undo: `losetup -d "$(cat "$2/other")"`, want: "too"},
	{name: "file that has lost its name behind another loop device", tool: "losetup", make: `f=$(losetup -n -O BACK-FILE "$1"); ln "$f" "$f-too"; losetup -f --show "$f-too" >"$2/other"; rm "$f-too"`, undo: `losetup -d "$(cat "$2/other")"`, want: "too"},
	{name: "file that has lost its name open in a process", tool: "sleep", make: `f=$(losetup -n -O BACK-FILE "$1"); exec 3<>"$f"; rm "$f"; sleep 60 >/dev/null 2>&1 & echo $! >"$2/pid"`, undo: `kill "$(cat "$2/pid")"`, want: "is open in process "},
	{name: "loop device over a loop device that is mounted", tool: "mkfs.ext4", make: `mkfs.ext4 -q -F "$1"; mkdir "$2/mnt"; mount -o ro "$1" "$2/mnt"; losetup -f --show -o 4MiB "$1" >"$2/other"`,
		undo: `losetup -d "$(cat "$2/other")"; umount "$2/mnt"`, want: "is mounted on "},
	{name: "RAID 1.2", tool: "dd", make: `printf '\374\116\053\251\001\000\000\000' | dd of="$1" bs=1 seek=4096 conv=notrunc,fsync 2>/dev/null`, want: "Linux RAID"},
	{name: "ZFS", tool: "dd", make: `for l in 0 1 2 3; do printf '\014\261\272\000\000\000\000\000' | dd of="$1" bs=1 seek=$((131072 + 4096 * l)) conv=notrunc,fsync 2>/dev/null; done`, want: "ZFS"},
	{name: "Ceph", tool: "dd", make: `printf 'bluestore block device\n00000000-0000-0000-0000-000000000000\n' | dd of="$1" bs=1 conv=notrunc,fsync 2>/dev/null`, want: "ceph"},
	{name: "bcache", tool: "dd", make: `printf '\306\205\163\366\116\032\105\312\202\145\365\177\110\272\155\201' | dd of="$1" bs=1 seek=4120 conv=notrunc,fsync 2>/dev/null`, want: "bcache"},
	{name: "read-only", tool: "blockdev", make: `blockdev --setro "$1"`, undo: `blockdev --setrw "$1"`, want: "it is read-only"},
}

func TestGuard(t *testing.T) {
	long.Test(t)
	for _, c := range guarded {
		t.Run(c.name, func(t *testing.T) {
			if c.size == 0 {
				c.size = 24 << 20
			}
			t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Fatalf("%s is missing: scripts/need test installs it", c.tool)
			}
			dev := loop(t, c.size)
			dir := t.TempDir()
			script(t, c.make, dev, dir)
			if c.undo != "" {
				defer script(t, c.undo, dev, dir)
			}
			want := script(t, `sha256sum <"$1"`, dev)
			through := map[string]string{"itself": dev}
			if o, err := os.ReadFile(dir + "/other"); err == nil && strings.HasPrefix(c.name, "loop device over") {
				through["itself"] = strings.TrimSpace(string(o))
			} else {
				link, node := filepath.Join(dir, "by-id"), filepath.Join(dir, "node")
				script(t, `ln -s "$1" "$2"; mknod "$3" b $(stat -c '0x%t 0x%T' "$1")`, dev, link, node)
				through["a symbolic link"], through["a node of another name"] = link, node
			}
			for how, path := range through {
				_, err := giveUp(t, here, path)
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.want)) || !strings.Contains(err.Error(), "hint: ") {
					t.Errorf("through %s: got %v\nwant a refusal that says %q", how, err, c.want)
				}
			}
			if got := script(t, `sha256sum <"$1"`, dev); got != want {
				t.Error("the device has changed")
			}
		})
	}
}

// A device whose main signature was erased is still refused if it contains other traces of a file system or of LVM. The
// command in the hint erases these traces. Random data is accepted.
func TestGuardTraces(t *testing.T) {
	const lose = `dd if=/dev/zero of="$1" bs=1M count=%s conv=fsync 2>/dev/null`
	for _, c := range []struct {
		name, make, lost string // lost: number of MiB to erase at the start
		size             int64
		want             string
	}{
		{"ext4, blocks of 1 KiB", `mkfs.ext4 -q -F -b 1024 "$1"`, "1", 24 << 20, "ext2/3/4 backup superblock at 8193 KiB"},
		{"ext4 whose first copy is lost too", `mkfs.ext4 -q -F -b 1024 "$1"`, "9", 32 << 20, "ext2/3/4 backup superblock at 24577 KiB"},
		{"ext4, blocks of 2 KiB", `mkfs.ext4 -q -F -b 2048 "$1"`, "1", 48 << 20, "ext2/3/4 backup superblock at 32768 KiB"},
		{"ext4, blocks of 4 KiB", `mkfs.ext4 -q -F -b 4096 "$1"`, "1", 1 << 30, "ext2/3/4 backup superblock at 131072 KiB and 3 more"},
		{"ext4 with bigalloc", `mkfs.ext4 -q -F -b 1024 -O bigalloc -C 4096 "$1"`, "1", 100 << 20, "ext2/3/4 backup superblock at 32768 KiB and 1 more"},
		{"xfs", `mkfs.xfs -q -f "$1"`, "1", 320<<20 + 4096, "XFS superblock at "},
		{"btrfs", `mkfs.btrfs -q -f "$1"`, "1", 128 << 20, "btrfs superblock at 65536 KiB"},
		{"LVM", `pvcreate -q --metadatacopies 2 --devicesfile "" --config 'devices { scan = "/dev" filter = [ "a|.*|" ] } activation { udev_sync = 0 udev_rules = 0 }' "$1"`, "1", 24 << 20, "LVM metadata at "},
		{"a partition whose table is lost", `parted -s "$1" mklabel gpt; truncate -s 20M "$2/part"; mkfs.ext4 -q -F "$2/part"; dd if="$2/part" of="$1" bs=1M seek=1 conv=notrunc,fsync 2>/dev/null; wipefs -qa "$1"`, "0", 24 << 20, "ext2/3/4 superblock at 1025 KiB"},
		{"ext4 that is whole", `mkfs.ext4 -q -F -b 1024 "$1"`, "0", 24 << 20, "it carries a signature of ext4; ext2/3/4 backup superblock at 8193 KiB"},
		{"nothing", `:`, "0", 24 << 20, ""},
		{"what a run has written", `head -c 25165824 /dev/urandom >"$1"; printf XX | dd of="$1" bs=1 seek=1080 conv=notrunc 2>/dev/null`, "0", 24 << 20, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dev := loop(t, c.size)
			script(t, c.make+"\n"+fmt.Sprintf(lose, c.lost), dev, t.TempDir())
			_, err := giveUp(t, here, dev)
			if c.want != "" {
				wantError(t, err, c.want, "remove the signatures yourself: ")
				_, hint, _ := strings.Cut(err.Error(), "remove the signatures yourself: ")
				script(t, hint)
				_, err = giveUp(t, here, dev)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A loop device is in use if its file is a swap file, even if the device shows only a part of the file.
func TestGuardSwapFile(t *testing.T) {
	under, dir := loop(t, 64<<20), t.TempDir()
	file := dir + "/m/a b" // the kernel escapes the blank
	t.Cleanup(func() { script(t, `! mountpoint -q "$1" || umount "$1"`, dir+"/m") })
	script(t, `mkfs.ext4 -q -F "$1"; mkdir "$2/m"; mount "$1" "$2/m"; dd if=/dev/zero of="$3" bs=1M count=24 2>/dev/null; chmod 600 "$3"; mkswap -q "$3"; sync`, under, dir, file)
	dev := script(t, `losetup -f --show -P -o 1MiB "$1"`, file)
	t.Cleanup(func() { script(t, `losetup -d "$1"`, dev) })
	if _, err := giveUp(t, here, dev); err != nil {
		t.Fatalf("the file is not swap yet: %v", err)
	}
	script(t, `parted -s "$1" mklabel gpt mkpart a 1MiB 20MiB; partx -u "$1" 2>/dev/null || partx -a "$1"`, dev)
	t.Cleanup(func() { exec.Command("partx", "-d", dev).Run() })
	part := filepath.Join(t.TempDir(), "part")
	script(t, `mknod "$1" b $(tr : ' ' <"/sys/class/block/${2##*/}p1/dev")`, part, dev)
	script(t, `swapon "$1"`, file)
	defer script(t, `swapoff "$1"`, file)
	for _, path := range []string{dev, part} {
		_, err := giveUp(t, here, path)
		wantError(t, err, "its file "+file+" is in use as swap", "nothing uses")
	}
	over := script(t, `losetup -f --show -o 2MiB --sizelimit 1MiB "$1"`, dev)
	defer script(t, `losetup -d "$1"`, over)
	_, err := giveUp(t, here, over)
	wantError(t, err, "its file "+file+" is in use as swap", "nothing uses")
}

// A pod runs commands on this host in new mount and PID namespaces, in which the directory `hidden` is empty.
type pod struct {
	iotax.Machine
	hidden string
}

func (pod) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (p pod) Run(ctx context.Context, c *iotax.Cmd) error {
	in := *c
	in.Args = append([]string{"unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", `mount -t tmpfs none "$0" && exec "$@"`, p.hidden}, c.Args...)
	return p.Machine.Run(ctx, &in)
}

// In a pod, the guard detects the signature on a loop device of the node. It also detects another loop device with the
// same backing file, although that file is not visible in the pod.
func TestGuardInPod(t *testing.T) {
	dev := loop(t, 24<<20)
	file := script(t, `losetup -n -O BACK-FILE "$1"`, dev)
	p := pod{here, filepath.Dir(file)}
	script(t, `mkfs.ext4 -q -F "$1"`, dev)
	_, err := giveUp(t, p, dev)
	wantError(t, err, "it carries a signature of ext4", "wipefs")
	other := script(t, `blkdiscard -fz "$1" 2>/dev/null; losetup -f --show "$2"`, dev, file)
	detach := sync.OnceFunc(func() { script(t, `losetup -d "$1"`, other) })
	t.Cleanup(detach)
	_, err = giveUp(t, p, dev)
	detach()
	wantError(t, err, "its file "+file+" is behind "+other+" too", "nothing uses")
	if _, err := giveUp(t, p, dev); err != nil {
		t.Error(err)
	}
}

// A loop device is refused while one of its partitions is in use. An empty partition is accepted.
func TestGuardPartitions(t *testing.T) {
	dev := loop(t, 64<<20)
	script(t, `parted -s "$1" mklabel gpt mkpart a 1MiB 20MiB mkpart b 20MiB 60MiB; partx -u "$1" 2>/dev/null || partx -a "$1"`, dev)
	t.Cleanup(func() { exec.Command("partx", "-d", dev).Run() })
	a, b := dev+"p1", dev+"p2"
	for _, p := range []string{a, b} {
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(p); err == nil {
				break
			}
			if time.Now().After(end) {
				// Without udev, the device nodes do not appear.
				script(t, `mknod "$1" b $(tr : ' ' <"/sys/class/block/${1##*/}/dev")`, p)
				t.Cleanup(func() { os.Remove(p) })
			}
		}
	}
	mnt := t.TempDir()
	script(t, `mkfs.ext4 -q -F "$1"; mount "$1" "$2"`, a, mnt)
	defer script(t, `umount "$1"`, mnt)

	_, err := giveUp(t, here, dev)
	wantError(t, err, "its partition "+a+" is mounted on "+mnt, "nothing uses")
	_, err = giveUp(t, here, a)
	wantError(t, err, "it is mounted on "+mnt, "nothing uses")
	p, err := giveUp(t, here, b)
	if err != nil {
		t.Fatal(err)
	}
	if p.ReadOnly || p.Path != b {
		t.Errorf("%+v", p)
	}
}

// A device that --destroy names is opened exclusively until Detach. The guard detects later changes.
func TestGuardHolds(t *testing.T) {
	dev := loop(t, 24<<20)
	link := filepath.Join(t.TempDir(), "by-id")
	script(t, `ln -s "$1" "$2"; head -c 8388608 /dev/urandom >"$1"`, dev, link) // random data is not a signature
	var said []string
	v, err := prepare(t, "device", &DeviceSpec{Path: link}, Env{Destroy: []string{link},
		Note: func(format string, args ...any) { said = append(said, strings.TrimSpace(format)) }})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	if p.ReadOnly || p.Guard == nil || p.Path != dev || len(said) != 1 {
		t.Errorf("%+v, said %q", p, said)
	}
	if !strings.Contains(p.Facts["device.destroyed"], "24 MiB") || !strings.Contains(p.Facts["device.destroyed"], dev) {
		t.Errorf("shown back is %q", p.Facts["device.destroyed"])
	}
	if err := p.Guard(t.Context()); err != nil {
		t.Error(err)
	}
	if err := exec.Command("swapon", dev).Run(); err == nil {
		t.Error("it could be swapped to meanwhile")
	}
	// A second volume of the same run may use the device, too.
	if q, err := giveUp(t, here, dev); err != nil || q.ReadOnly {
		t.Errorf("%+v, %v", q, err)
	}
	image := filepath.Join(t.TempDir(), "ext4")
	script(t, `truncate -s 24M "$2"; mkfs.ext4 -q "$2"; dd if="$2" of="$1" bs=1M count=2 conv=notrunc,fsync 2>/dev/null`, dev, image)
	if err := p.Guard(t.Context()); err == nil || !strings.Contains(err.Error(), "signature") {
		t.Errorf("what was written there meanwhile is not seen: %v", err)
	}
	if err := v.Detach(t.Context()); err != nil {
		t.Error(err)
	}
}

// A device is writable only if --destroy names exactly its path.
func TestNotGivenUp(t *testing.T) {
	dev := loop(t, 8<<20)
	v, err := prepare(t, "device", &DeviceSpec{Path: dev}, Env{Destroy: []string{dev + "0", "/dev/loop", ""}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), here)
	if err != nil || !p.ReadOnly || p.Guard != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// otherSys runs commands on this host with fake devices in /sys/dev/block. The devices represent storage stacks for
// which this kernel may lack modules.
type otherSys struct {
	iotax.Machine
	sys string
}

func (otherSys) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (o otherSys) Run(ctx context.Context, c *iotax.Cmd) error {
	in := *c
	in.Args = append([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /sys/dev/block && exec "$@"`, o.sys}, c.Args...)
	return o.Machine.Run(ctx, &in)
}

// A device is refused if the device or one of its partitions is part of another device, or if it is built on another
// device.
func TestGuardRelations(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to bind a directory over /sys/dev/block")
	}
	dev := loop(t, 24<<20)
	num := script(t, `read -r n <"/sys/block/${1##*/}/dev"; echo "$n"`, dev)
	for _, c := range []struct {
		name string
		make string // runs in a directory of devices; $1 is the device number of the queried device, sdx
		want string
	}{
		{"LVM", `node sdx "$1"; node dm-0 253:0; mkdir dm-0/dm; echo vg-root >dm-0/dm/name; above sdx dm-0`, "it is a part of /dev/dm-0 (vg-root)"},
		{"RAID", `node sdx "$1"; node md127 9:127; mkdir md127/md; echo raid1 >md127/md/level; above sdx md127`, "it is a part of /dev/md127 (RAID raid1)"},
		{"multipath", `node sdx "$1"; node dm-3 253:3; mkdir dm-3/dm; echo mpatha >dm-3/dm/name; above sdx dm-3`, "it is a part of /dev/dm-3 (mpatha)"},
		{"bcache", `node sdx "$1"; node bcache0 252:0; above sdx bcache0`, "it is a part of /dev/bcache0"},
		{"LVM on a partition", `node sdx "$1"; node sdx/sdx2 8:242; echo 2 >sdx/sdx2/partition; node dm-0 253:0; mkdir dm-0/dm; echo vg-home >dm-0/dm/name; above sdx/sdx2 dm-0`,
			"it is a part of /dev/dm-0 (vg-home)"},
		{"LVM on RAID", `node sdx "$1"; node md0 9:0; above sdx md0; node dm-7 253:7; mkdir dm-7/dm; echo vg-deep >dm-7/dm/name; above md0 dm-7`, "it is a part of /dev/dm-7 (vg-deep)"},
		{"a logical volume", `node sdx "$1"; mkdir sdx/dm; echo vg-data >sdx/dm/name; node sdb 8:16; above sdb sdx`, "it is made of /dev/sdb, which may hold others' data"},
		{"one path of a multipath device that LVM uses", `node sdx "$1"; node dm-3 253:3; above sdx dm-3; node sdy 65:0; above sdy dm-3; node dm-4 253:4; above dm-3 dm-4`, "it is a part of /dev/dm-4"},
		{"nobody's", `node sdx "$1"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			devices, sys := t.TempDir(), t.TempDir()
			script(t, `cd "$2"
node() { mkdir -p "$1/holders" "$1/slaves"; echo "$2" >"$1/dev"; echo 49152 >"$1/size"; }
above() { ln -s "$PWD/$2" "$1/holders/${2##*/}"; ln -s "$PWD/$1" "$2/slaves/${1##*/}"; }
`+c.make+`
ln -s "$2/sdx" "$3/$1"`, num, devices, sys)
			_, err := giveUp(t, otherSys{here, sys}, dev)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, c.want, "nothing uses")
		})
	}
}

// halfSeen runs commands on this host after the shell script `hide`, which hides some facts of a device or of the host.
// The script can use $hidden and $seen.
type halfSeen struct {
	iotax.Machine
	hide, hidden, seen string
}

func (halfSeen) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (h halfSeen) Run(ctx context.Context, c *iotax.Cmd) error {
	in := *c
	in.Args = append([]string{"unshare", "--mount", "sh", "-c", `hidden=$1 seen=$2; shift 2; ` + h.hide + ` && exec "$@"`, "sh", h.hidden, h.seen}, c.Args...)
	return h.Machine.Run(ctx, &in)
}

// A loop device is refused if the device under it cannot be inspected.
func TestGuardUnseen(t *testing.T) {
	under := loop(t, 24<<20)
	over := script(t, `losetup -f --show "$1"`, under)
	defer script(t, `losetup -d "$1"`, over)
	for hide, want := range map[string]string{
		`mount --bind /dev/null "$hidden"`: under + ", which lies under",
		`mount -t tmpfs none /sys/dev/block && s=$(readlink -f "/sys/class/block/${seen##*/}") && mount -t tmpfs none /sys/class/block && ln -s "$s" "/sys/class/block/${seen##*/}"`: "what uses " + under,
	} {
		_, err := giveUp(t, halfSeen{here, hide, under, over}, over)
		wantError(t, err, want, "on the machine itself")
	}
}

// If symbolic links lead to a home directory, its real path is also refused.
func TestHomesByLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a root directory of the test's own")
	}
	for path, home := range map[string]bool{
		"/data/home": true, "/home/ann": true, "/data/home/ann": true, // ann has a home directory but no line in /etc/passwd
		"/data/people/bob": true, "/people/bob": true, "/data/carl": true, "/people/carl": true, "/data/carl/iotax": false, "/data/people": false, "/data/daemon": false,
	} {
		v, err := prepare(t, "dir", &DirSpec{Path: path, Create: true}, Env{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Attach(t.Context(), halfSeen{here, `cd "$hidden" && mount -t tmpfs none . && cd "$hidden" &&
for d in bin lib lib64 sbin usr proc dev; do [ ! -d /$d ] || { mkdir $d && mount --rbind /$d $d; }; done && mkdir -p etc data/home/ann data/people/bob data/carl data/daemon &&
ln -s data/home home && ln -s data/people people && ln -s ../carl data/people/carl &&
printf '%s\n' bob:x:1001:1001::/people/bob:/bin/sh carl:x:1002:1002::/people/carl:/bin/sh daemon:x:2:2::/data/daemon:/bin/sh >etc/passwd && set -- chroot . "$@"`, t.TempDir(), ""})
		if home {
			wantError(t, err, "is a home directory", "/iotax")
		} else if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// An overlay with layers on several file systems may change the inode number of a directory. The guard still accepts
// that directory.
func TestDirOnOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount an overlay")
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		script(t, `cd "$1"; for m in m lower upper; do ! mountpoint -q $m || umount $m; done`, dir)
	})
	script(t, `cd "$1"; mkdir lower upper m; mount -t tmpfs none lower; mount -t tmpfs none upper; mkdir upper/upper upper/work`, dir)
	const over = `cd "$1"; mount -t overlay -o xino=off,lowerdir=lower,upperdir=upper/upper,workdir=upper/work none m`
	if out, err := exec.Command("sh", "-euc", over, "sh", dir).CombinedOutput(); err != nil {
		t.Skipf("needs overlayfs: %s", out)
	}
	v, err := prepare(t, "dir", &DirSpec{Path: dir + "/m"}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	which := func() string { return script(t, `stat -c %d:%i -- "$1"`, p.Path) }
	before := which()
	script(t, `umount "$1/m"; mkdir "$1/upper/upper/first"; `+over+`; stat m/first`, dir)
	if after := which(); after == before {
		t.Fatalf("still %s: it was to get another number", after)
	}
	if err := p.Guard(t.Context()); err != nil {
		t.Error(err)
	}
	if err := v.Detach(t.Context()); err != nil {
		t.Error(err)
	}
}

// If iotax may not open the parent directory, it makes nothing there, and Detach has nothing to report.
func TestDirUnreadable(t *testing.T) {
	dir := usersDir(t)
	m := plainUser{Machine: here, cache: dir}
	for _, mode := range []os.FileMode{0o700, 0o711, os.ModeSticky | 0o733, 0o755} {
		parent := filepath.Join(dir, fmt.Sprintf("%o", mode.Perm()))
		if err := errors.Join(os.Mkdir(parent, 0o700), os.Chmod(parent, mode)); err != nil {
			t.Fatal(err)
		}
		v, err := prepare(t, "dir", &DirSpec{Path: parent}, Env{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Attach(t.Context(), m)
		wantError(t, err, "permission denied", "use another directory")
		if err := v.Detach(t.Context()); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", mode, left, err)
		}
	}
}

// A device that the kernel exports to other machines is in use, even if the export's configuration contains another
// path of the device. The test fakes this configuration, because kernels for guests and containers often lack it.
func TestGuardExports(t *testing.T) {
	dev := loop(t, 24<<20)
	dir := t.TempDir()
	file := script(t, `mknod "$2/node" b $(stat -c '0x%t 0x%T' "$1"); f=$(losetup -n -O BACK-FILE "$1"); ln "$f" "$2/file"; truncate -s 1M "$2/else"; echo "$f"`, dev, dir)
	for _, c := range []struct{ attribute, what, want string }{
		{"nvmet/subsystems/nqn.a/namespaces/1/device_path", dir + "/node", "it is exported by this kernel as " + dir + "/node"},
		{"target/core/iblock_0/disk/udev_path", dir + "/node", "it is exported by this kernel as " + dir + "/node"},
		{"target/core/fileio_0/disk/udev_path", dir + "/file", "its file " + file + " is exported by this kernel"},
		{"target/core/fileio_0/disk/udev_path", dir + "/else", ""},
		{"target/core/user_0/disk/udev_path", "", ""},
	} {
		_, err := giveUp(t, halfSeen{here, `mount -t tmpfs none /sys/kernel && mkdir -p "/sys/kernel/config/${seen%/*}" && echo "$hidden" >"/sys/kernel/config/$seen"`, c.what, c.attribute}, dev)
		if c.want != "" {
			wantError(t, err, c.want, "nothing uses")
		} else if err != nil {
			t.Errorf("%s of %q: %v", c.attribute, c.what, err)
		}
	}
}

// If the path leads to another device after Attach, giveUp refuses it.
func TestGuardTurned(t *testing.T) {
	dev, other := loop(t, 24<<20), loop(t, 24<<20)
	node := filepath.Join(t.TempDir(), "node")
	script(t, `mknod "$2" b $(stat -c '0x%t 0x%T' "$1")`, dev, node)
	d := &device{path: node}
	p, err := d.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	script(t, `ln -sf "$1" "$2"`, other, node)
	wantError(t, d.giveUp(t.Context(), here, &p), "it has become another", "start again")
}

// If a tool fails, the device is refused.
func TestGuardToolFails(t *testing.T) {
	dev, bin := loop(t, 24<<20), t.TempDir()
	if err := os.WriteFile(bin+"/wipefs", []byte("#!/bin/sh\n[ $1 = --version ] || { echo sick >&2; exit 1; }\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_, err := giveUp(t, here, dev)
	wantError(t, err, "sick", "wipefs --no-act "+dev)
}

// plainUser runs commands on this host as an unprivileged user. sudo requires a password unless `free` is set.
type plainUser struct {
	iotax.Machine
	cache string
	free  bool
}

func (plainUser) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (p plainUser) Run(ctx context.Context, c *iotax.Cmd) error {
	in := *c
	switch {
	case c.Args[0] != "sudo":
		in.Args = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "XDG_CACHE_HOME=" + p.cache}, c.Args...)
	case !p.free:
		return &iotax.ExitError{Args: c.Args, Code: 1, Stderr: "sudo: a password is required"}
	default:
		in.Args = c.Args[2:] // without sudo -n
	}
	return p.Machine.Run(ctx, &in)
}

// Only root can inspect a device: another user needs sudo without a password.
func TestGuardSudo(t *testing.T) {
	dir := usersDir(t)
	dev := loop(t, 24<<20)
	script(t, `mkfs.ext4 -q -F "$1"`, dev)
	for _, free := range []bool{true, false} {
		m := plainUser{here, dir, free}
		f, err := inspect(t.Context(), m, guard.Query{Path: dev, Read: true})
		_, missing := inspect(t.Context(), m, guard.Query{Path: dev + "-none"})
		if free && err == nil {
			wantError(t, refusal(f), "it carries a signature of ext4", "wipefs")
			wantError(t, missing, "there is no such file", "lsblk")
			continue
		}
		wantError(t, err, "only root sees what uses a device", "run as root")
	}
}
