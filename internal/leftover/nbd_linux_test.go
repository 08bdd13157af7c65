package leftover_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "iotax/internal/leftover"
	"iotax/internal/machine/host"
	"iotax/internal/testenv/machinetest"
)

// Removing a leftover detaches the device that a crashed run attached, unless another process has attached it in the
// meantime. A note is trusted only in a directory that only root can create.
func TestNBDDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to bind a directory over /sys/block")
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin, sys, said := dir+"/bin", dir+"/sys", dir+"/said"
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(bin+"/nbd-client", fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\n[ $2 != /dev/nbd4 ] && rm /sys/block/${2#/dev/}/pid\n", said))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for i, pid := range []string{"77", "99", "77", "77", "77"} {
		write(fmt.Sprintf("%s/nbd%d/pid", sys, i), pid+"\n")
	}
	l := Label{Run: "run-" + filepath.Base(dir), Runner: Self()}
	l.Runner.Start++ // no process has this start time, so the runner counts as dead
	planted := t.TempDir()
	for base, note := range map[string]string{
		"/run/iotax-t0-" + l.Run: "/dev/nbd0 77 " + string(boot),
		"/run/iotax-t1-" + l.Run: "/dev/nbd1 77 " + string(boot), // attached by another process in the meantime
		"/run/iotax-t2-" + l.Run: "/dev/nbd2 77 another-boot\n",
		planted + "/iotax-t3":    "/dev/nbd3 77 " + string(boot),
		"/run/iotax-t4-" + l.Run: "/dev/nbd4 77 " + string(boot), // nbd-client cannot detach it
	} {
		t.Cleanup(func() { os.RemoveAll(base) })
		write(base+"/"+Marker, l.String()+"\n")
		write(base+"/"+NBDFile, note)
	}
	items, err := Find(t.Context(), Place{Machine: machinetest.Kernel{Machine: host.Local(), Sys: sys}, Dirs: []string{"/run", planted}})
	if err != nil {
		t.Fatal(err)
	}
	var devices []string
	for _, i := range items {
		if i.Label.Run != l.Run {
			continue
		}
		if i.Kind == "NBD device" {
			devices = append(devices, i.Name)
		}
		err := i.Remove(t.Context())
		switch _, serr := os.Stat(i.Name); {
		case i.Name == "/dev/nbd4" && err == nil:
			t.Error("a device that is busy was detached")
		case i.Name == "/run/iotax-t4-"+l.Run || i.Name == planted+"/iotax-t3":
			if err == nil || !strings.Contains(err.Error(), "is still attached") || serr != nil {
				t.Errorf("the note of a device that is attached: %v, %v", err, serr)
			}
		case err != nil && i.Name != "/dev/nbd4":
			t.Error(err)
		}
	}
	slices.Sort(devices)
	if b, err := os.ReadFile(said); err != nil || !strings.Contains(string(b), "-d /dev/nbd0\n") || strings.Join(devices, " ") != "/dev/nbd0 /dev/nbd4" {
		t.Errorf("found %q, nbd-client was told %q, %v", devices, b, err)
	}
}
