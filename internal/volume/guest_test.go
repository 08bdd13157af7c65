package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine"
	"iotax/internal/machine/vm"
	"iotax/internal/plan"
	"iotax/internal/testenv/guesttest"
	"iotax/internal/testenv/long"
)

// hostDir makes a directory target on this host for the volumes of guests. It is in /var/tmp and not in the temporary
// directory, which may be in memory and refuse O_DIRECT.
func hostDir(t *testing.T) iotax.Place {
	t.Helper()
	v, err := prepare(t, "dir", &DirSpec{Path: "/var/tmp"}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Detach(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p, err := v.Attach(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func bootGuest(t *testing.T, devices []iotax.Device, change ...func(*vm.Spec)) iotax.Machine {
	t.Helper()
	for _, k := range machine.Kinds() {
		if k.Name != "qemu" {
			continue
		}
		spec := k.New().(*vm.Spec)
		spec.Accel, spec.Memory = "tcg", 512<<20
		for _, f := range change {
			f(spec)
		}
		m, err := k.Open(t.Context(), spec, machine.Options{Name: "guest", Devices: devices,
			CacheDir: guesttest.CacheDir(t), Init: guesttest.Init(t), WorkDir: t.TempDir(), Log: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := m.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return m
	}
	t.Fatal("there is no kind qemu")
	return nil
}

func diskSpec(change func(*DiskSpec)) *DiskSpec {
	s := newSpec("disk").(*DiskSpec)
	s.OfTarget = "host disk"
	change(s)
	return s
}

func shareSpec(change func(*ShareSpec)) *ShareSpec {
	s := newSpec("share").(*ShareSpec)
	s.OfTarget = "host disk"
	change(s)
	return s
}

// TestGuest does I/O with fio on disks of every bus, format and cache mode, and on both types of shares, in one guest.
func TestGuest(t *testing.T) {
	long.Test(t)
	const need = 16 << 20
	of := hostDir(t)
	cases := []struct {
		name       string
		kind       string
		spec       plan.Spec
		durability iotax.Durability
		facts      map[string]string
	}{
		{"virtio-blk raw", "disk", diskSpec(func(s *DiskSpec) {}), iotax.Durable,
			map[string]string{"filesystem": "ext4", "disk.bus": "virtio-blk", "disk.cache": "none", "queue.write_cache": "write back", "of": "host disk"}},
		{"virtio-scsi native iothread", "disk", diskSpec(func(s *DiskSpec) { s.Bus, s.AIO, s.IOThread = "virtio-scsi", "native", true }), iotax.Durable,
			map[string]string{"disk.bus": "virtio-scsi", "disk.aio": "native", "disk.iothread": "true", "device.model": "QEMU QEMU HARDDISK"}},
		{"nvme io_uring writeback", "disk", diskSpec(func(s *DiskSpec) { s.Bus, s.AIO, s.Cache = "nvme", "io_uring", "writeback" }), iotax.Durable,
			map[string]string{"disk.bus": "nvme", "device.model": "QEMU NVMe Ctrl"}},
		{"qcow2 unsafe", "disk", diskSpec(func(s *DiskSpec) { s.Format, s.Cache = "qcow2", "unsafe" }), iotax.FlushIgnored,
			map[string]string{"disk.format": "qcow2", "disk.cache": "unsafe"}},
		{"qcow2 metadata directsync", "disk", diskSpec(func(s *DiskSpec) { s.Format, s.Cache, s.Preallocation = "qcow2", "directsync", "metadata" }), iotax.Durable,
			map[string]string{"queue.write_cache": "write through"}},
		{"root", "disk", diskSpec(func(s *DiskSpec) { s.Filesystem = "root" }), iotax.Durable, map[string]string{"filesystem": "ext4", "filesystem.mount": "/"}},
		{"hot", "disk", diskSpec(func(s *DiskSpec) { s.Hot = true }), iotax.Durable, map[string]string{"filesystem": "ext4", "disk.bus": "virtio-blk"}},
		{"bare, writethrough", "disk", diskSpec(func(s *DiskSpec) { s.Filesystem, s.Cache = "none", "writethrough" }), iotax.Durable,
			map[string]string{"disk.size": strconv.Itoa(need)}},
		{"virtiofs", "share", shareSpec(func(s *ShareSpec) {}), iotax.Durable,
			map[string]string{"filesystem": "virtiofs", "share.type": "virtiofs", "share.cache": "auto", "host.direct": "no"}},
		{"9p", "share", shareSpec(func(s *ShareSpec) { s.Type = "9p" }), iotax.Durable,
			map[string]string{"filesystem": "9p", "share.type": "9p", "share.msize": "512000", "share.security": "mapped-xattr"}},
		{"9p small loose", "share", shareSpec(func(s *ShareSpec) { s.Type, s.MSize, s.Cache, s.Security = "9p", 8192, "loose", "mapped-file" }), iotax.Durable,
			map[string]string{"share.msize": "8192", "share.cache": "loose"}},
	}
	var volumes []iotax.Volume
	var devices []iotax.Device
	for i, c := range cases {
		v, err := prepare(t, c.kind, c.spec, Env{Of: of, ID: fmt.Sprintf("t%d", i), Need: need})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		defer func() {
			if err := v.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		volumes = append(volumes, v)
		devices = append(devices, v.Caps().Devices...)
	}
	m := bootGuest(t, devices)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			p, err := volumes[i].Attach(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("attached in %v: %s %v", time.Since(begun).Round(time.Millisecond), p.Path, p.Facts)
			if p.Durability != c.durability || p.ReadOnly || !strings.HasPrefix(p.Backing, of.Path+"/") {
				t.Errorf("place %+v", p)
			}
			for k, v := range c.facts {
				if p.Facts[k] != v {
					t.Errorf("fact %s is %q, want %q", k, p.Facts[k], v)
				}
			}
			if p.Kind == iotax.PlaceDevice && !strings.HasPrefix(p.Path, "/dev/") {
				t.Errorf("place %+v", p)
			}
			checkIO(t, m, p)
			if err := volumes[i].Detach(t.Context()); err != nil {
				t.Errorf("Detach: %v", err)
			}
			if f := volumes[i].Caps().Findings(); len(f) > 0 {
				t.Errorf("findings %v", f)
			}
			out, err := iotax.Output(t.Context(), m, "sh", "-c", "cat /proc/mounts; ls -d /mnt/*")
			if strings.Contains(string(out), "/mnt/iotax-t"+strconv.Itoa(i)+" ") {
				t.Errorf("still mounted (%v): %s", err, out)
			}
		})
	}
	t.Run("what is not there", func(t *testing.T) { lacks(t, of, m) })
}

// checkIO writes, reads and verifies data with fio, and checks that p.Backing exists.
func checkIO(t *testing.T, m iotax.Machine, p iotax.Place) {
	t.Helper()
	file := p.Path
	if p.Kind == iotax.PlaceDir {
		file += "/test"
	}
	args := []string{"fio", "--name=x", "--filename=" + file, "--size=4m", "--rw=randrw", "--bs=16k", "--verify=crc32c", "--ioengine=psync",
		"--end_fsync=1", "--output-format=json", "--number_ios=200"}
	out, err := iotax.Output(t.Context(), m, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r struct {
		Jobs []struct {
			Error       int
			Read, Write struct {
				TotalIOs int `json:"total_ios"`
			}
		}
	}
	if i := strings.IndexByte(string(out), '{'); i < 0 || json.Unmarshal(out[i:], &r) != nil || len(r.Jobs) != 1 {
		t.Fatalf("fio said %s", out)
	}
	if j := r.Jobs[0]; j.Error != 0 || j.Read.TotalIOs == 0 || j.Write.TotalIOs == 0 {
		t.Errorf("fio did %+v", j)
	}
	if _, err := os.Stat(p.Backing); err != nil {
		t.Error(err)
	}
}

// lacks checks the error for a device that the guest does not have.
func lacks(t *testing.T, of iotax.Place, m iotax.Machine) {
	defer func(d time.Duration) { appear = d }(appear)
	appear = 200 * time.Millisecond
	for _, c := range []struct {
		kind        string
		spec        plan.Spec
		cause, hint string
	}{
		{"disk", diskSpec(func(*DiskSpec) {}), "the guest sees: ", "virtio_blk"},
		{"share", shareSpec(func(*ShareSpec) {}), "", "daemon"},
		{"share", shareSpec(func(s *ShareSpec) { s.Type = "9p" }), "", "daemon"},
	} {
		v, err := prepare(t, c.kind, c.spec, Env{Of: of, ID: "absent"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Attach(t.Context(), m)
		wantError(t, err, c.cause, c.hint)
		if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
}
