package guard

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fake returns a system with the given files. A text that starts with "->" makes a symbolic link.
func fake(t *testing.T, files map[string]string) system {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		to, link := strings.CutPrefix(text, "->")
		err := error(nil)
		switch {
		case link && strings.HasPrefix(to, "/sys/"):
			err = os.Symlink(root+to, file)
		case link:
			err = os.Symlink(to, file)
		default:
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return system{proc: root + "/proc", sys: root + "/sys"}
}

// seen returns the files of /proc that facts needs, and the files in more.
func seen(more map[string]string) map[string]string {
	files := map[string]string{
		"proc/self": "->7", "proc/7/fd/3": "->/dev/null", "proc/7/mountinfo": "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n",
		"proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

// loop makes a loop device of the given size. It returns the path, the number and the backing file.
func loop(t *testing.T, size int64) (dev, number, file string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for loop devices")
	}
	file = filepath.Join(t.TempDir(), "image")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).Output()
	if err != nil {
		t.Skipf("needs loop devices: %v", err)
	}
	dev = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", dev).CombinedOutput(); err != nil {
			t.Errorf("losetup -d: %s", out)
		}
	})
	return dev, firstLine("/sys/class/block/" + filepath.Base(dev) + "/dev"), file
}

// Judge reports a device's relations in /sys, and the users of related devices.
func TestRelations(t *testing.T) {
	dev, number, _ := loop(t, 24<<20)
	node := func(files map[string]string, name, number string) {
		files["sys/devices/"+name+"/dev"], files["sys/devices/"+name+"/size"] = number+"\n", "49152\n"
	}
	above := func(files map[string]string, low, high string) {
		files["sys/devices/"+low+"/holders/"+filepath.Base(high)] = "->/sys/devices/" + high
		files["sys/devices/"+high+"/slaves/"+filepath.Base(low)] = "->/sys/devices/" + low
	}
	for _, c := range []struct {
		name string
		make func(files map[string]string)
		want string
	}{
		{"LVM", func(f map[string]string) {
			node(f, "dm-0", "253:0")
			f["sys/devices/dm-0/dm/name"] = "vg-root\n"
			above(f, "sdx", "dm-0")
		}, "it is a part of /dev/dm-0 (vg-root)"},
		{"RAID", func(f map[string]string) {
			node(f, "md127", "9:127")
			f["sys/devices/md127/md/level"] = "raid1\n"
			above(f, "sdx", "md127")
		}, "it is a part of /dev/md127 (RAID raid1)"},
		{"LVM on a partition", func(f map[string]string) {
			node(f, "sdx/sdx2", "8:242")
			f["sys/devices/sdx/sdx2/partition"] = "2\n"
			node(f, "dm-0", "253:0")
			above(f, "sdx/sdx2", "dm-0")
		}, "it is a part of /dev/dm-0"},
		{"LVM on RAID", func(f map[string]string) {
			node(f, "md0", "9:0")
			node(f, "dm-7", "253:7")
			above(f, "sdx", "md0")
			above(f, "md0", "dm-7")
		}, "it is a part of /dev/dm-7"},
		{"a logical volume", func(f map[string]string) {
			node(f, "sdb", "8:16")
			above(f, "sdb", "sdx")
		}, "it is made of /dev/sdb, which may hold others' data"},
		{"swap on a holder", func(f map[string]string) {
			node(f, "dm-0", "253:0")
			above(f, "sdx", "dm-0")
			f["proc/swaps"] += "/dev/dm-0                               partition\t1\t0\t-2\n"
		}, "its holder /dev/dm-0 is in use as swap"},
		{"btrfs", func(f map[string]string) { f["sys/fs/btrfs/1234/devices/sdx/size"] = "1" }, "it belongs to a mounted btrfs"},
		{"exported", func(f map[string]string) {
			f["sys/kernel/config/nvmet/subsystems/nqn/namespaces/1/device_path"] = dev + "\n"
		}, "it is exported by this kernel as " + dev},
		{"mounted in the namespace of a process", func(f map[string]string) {
			f["proc/99/mountinfo"] = "36 35 " + number + " / /their\\040mount rw - ext4 " + dev + " rw\n"
		}, "it is mounted on /their mount"},
		{"open in a process", func(f map[string]string) { f["proc/99/fd/5"] = "->" + dev }, "sdx is open in process 99"},
		{"a member of nothing", func(f map[string]string) {}, ""},
		{"found without /sys/dev/block", func(f map[string]string) {
			delete(f, "sys/dev/block/"+number)
			f["sys/class/block/sdx"] = "->/sys/devices/sdx"
			f["sys/devices/sdx/ro"] = "1\n"
		}, "it is read-only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := seen(map[string]string{"sys/dev/block/" + number: "->/sys/devices/sdx"})
			node(files, "sdx", number)
			c.make(files)
			f, err := fake(t, files).facts(t.Context(), Query{Path: dev})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(f.Judge().Reasons(), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// An incomplete /proc or /sys is an error, because the device would otherwise seem unused.
func TestFactsUnseen(t *testing.T) {
	dev, number, _ := loop(t, 24<<20)
	for _, c := range []struct {
		name string
		hide func(files map[string]string)
		want string
	}{
		{"no open files", func(f map[string]string) { delete(f, "proc/7/fd/3") }, "cannot list the processes that have it open"},
		{"open files are not what they are called", func(f map[string]string) { f["proc/7/fd/3"] = "->/dev/zero" }, "cannot list the processes that have it open"},
		{"those of another PID namespace", func(f map[string]string) { delete(f, "proc/self") }, "cannot list the processes that have it open"},
		{"no mounts", func(f map[string]string) { delete(f, "proc/7/mountinfo") }, "cannot list mounts"},
		{"mounts in another form", func(f map[string]string) { f["proc/7/mountinfo"] = "22 1 254:1 / /\n" }, "cannot list mounts"},
		{"no device in /sys", func(f map[string]string) { delete(f, "sys/dev/block/"+number) }, "/sys/dev/block/" + number + " does not exist"},
		{"no size", func(f map[string]string) { f["sys/devices/sdx/size"] = "x" }, "its size is not known"},
		{"a device below that has no node here", func(f map[string]string) { f["sys/devices/sdx/loop/backing_file"] = "/dev/no-such-disk\n" }, "/dev/no-such-disk, which lies under sdx, cannot be seen from here"},
		{"nothing", func(map[string]string) {}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := seen(map[string]string{"sys/dev/block/" + number: "->/sys/devices/sdx", "sys/devices/sdx/dev": number, "sys/devices/sdx/size": "49152\n"})
			c.hide(files)
			_, err := fake(t, files).facts(t.Context(), Query{Path: dev})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// It is an error if /sys does not show the device below a loop device.
func TestSlaveUnseen(t *testing.T) {
	dev, _, _ := loop(t, 8<<20)
	s := fake(t, map[string]string{"sys/devices/sdx/dev": "8:240", "sys/devices/sdx/loop/backing_file": dev + "\n"})
	w := walk{s, &Facts{}, map[string]bool{}}
	if err := w.visit(Self, s.sys+"/devices/sdx"); err == nil || !strings.Contains(err.Error(), "cannot list what uses "+dev) {
		t.Error(err)
	}
}

// loopBacking identifies the backing file even after it was deleted and replaced.
func TestBackingIdentity(t *testing.T) {
	dev, _, file := loop(t, 8<<20)
	want := identify(file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil { // another file of this name
		t.Fatal(err)
	}
	if b := kernel.loopBacking("/sys/block/"+filepath.Base(dev), file); want == "" || b.ID != want {
		t.Errorf("%+v, want %q", b, want)
	}
}

// swaps unescapes the paths of swap files.
func TestSwaps(t *testing.T) {
	s := fake(t, map[string]string{"proc/swaps": "Filename Type\n/a\\040b\\134c\\040(deleted)    file 1 0 -2\n/dev/vdb partition 1 0 -3\n"})
	all, err := s.swaps()
	if err != nil || len(all) != 2 || all[0].Path != `/a b\c (deleted)` || all[1].Path != "/dev/vdb" {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := (system{proc: t.TempDir()}).swaps(); all != nil || err != nil {
		t.Errorf("a kernel without swap: %+v, %v", all, err)
	}
}

// An exclusive open detects a holder that neither /sys nor the mounts show.
func TestExclusive(t *testing.T) {
	dev, _, _ := loop(t, 8<<20)
	f, err := Hold(dev)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := exclusive(dev, false); !held || err != nil {
		t.Errorf("held by this process: %v, %v", held, err)
	}
	if _, err := Hold(dev); err == nil || err.Error() != HeldText {
		t.Errorf("held twice: %v", err)
	}
	if held, err := exclusive(dev, true); held || err != nil {
		t.Errorf("its own: %v, %v", held, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if held, err := exclusive(dev, false); held || err != nil {
		t.Errorf("free: %v, %v", held, err)
	}
}

// Inspect fails for users other than root.
func TestInspectNeedsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		if _, err := inspect(t.Context(), Query{Path: "/dev/null"}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v", err)
		}
		return
	}
	if os.Getenv("GUARD_AS") == "" {
		c := exec.Command("/proc/self/exe", "-test.run=^TestInspectNeedsRoot$", "-test.count=1")
		c.Env = append(os.Environ(), "GUARD_AS=65534", "TMPDIR=/tmp")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := unix.Setresuid(65534, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect(t.Context(), Query{Path: "/dev/null"}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v", err)
	}
}

// The serial number of a SCSI disk does not start with the length in the header of its VPD page.
func TestSerialOfPage(t *testing.T) {
	serial := "0f0e7c66-2a4d-4f35-9d31-6f0f7d9f2a11"
	file := filepath.Join(t.TempDir(), "vpd_pg80")
	if err := os.WriteFile(file, []byte("\x00\x80\x00"+string(rune(len(serial)))+serial), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := printable(file); got != serial {
		t.Errorf("%q, want %q", got, serial)
	}
}
