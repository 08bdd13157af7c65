//go:build unix

package volume

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/machine/vm"
	"iotax/internal/testenv/long"
)

// Disk options take effect: in the guest, in the image's metadata, or in the image's allocation.
func TestDiskOptions(t *testing.T) {
	long.Test(t)
	const need = 16 << 20
	of := hostDir(t)
	one := func(s *DiskSpec) { s.NumQueues = 1 }
	// $d is the directory of the disk in /sys.
	queues, requests := "ls $d/mq | wc -l", "cat $d/mq/0/nr_tags"
	cases := []struct {
		name string
		spec *DiskSpec
		seen map[string]string // expected output of commands in the guest
		info map[string]any    // expected fields of qemu-img info
	}{
		{"none", diskSpec(func(*DiskSpec) {}), map[string]string{queues: "2", requests: "256"}, nil},
		{"virtio-blk", diskSpec(func(s *DiskSpec) { one(s); s.QueueSize = 64 }), map[string]string{queues: "1", requests: "64"}, nil},
		{"virtio-scsi", diskSpec(func(s *DiskSpec) { one(s); s.Bus, s.QueueSize = "virtio-scsi", 64 }), map[string]string{queues: "1", "cat $d/device/queue_depth": "64"}, nil},
		{"nvme", diskSpec(func(s *DiskSpec) { one(s); s.Bus = "nvme" }), map[string]string{queues: "1"}, nil},
		{"device_args", diskSpec(func(s *DiskSpec) { s.DeviceArgs = "logical_block_size=4096,physical_block_size=4096" }), map[string]string{"cat $d/queue/logical_block_size": "4096"}, nil},
		{"discard", diskSpec(func(s *DiskSpec) { s.Discard, s.DetectZeroes = "unmap", "unmap" }), nil, nil},
		{"qcow2", diskSpec(func(s *DiskSpec) {
			s.Format, s.ClusterSize, s.ExtendedL2, s.LazyRefcounts, s.DriveArgs, s.Preallocation = "qcow2", 128<<10, true, true, "l2-cache-size=1M", "metadata"
		}), nil, map[string]any{"cluster-size": 131072., "extended-l2": true, "lazy-refcounts": true}},
		{"xfs", diskSpec(func(s *DiskSpec) { s.Filesystem = "xfs" }), map[string]string{"grep -c ' xfs ' /proc/mounts": "1"}, nil},
		{"btrfs", diskSpec(func(s *DiskSpec) { s.Filesystem = "btrfs" }), map[string]string{"grep -c ' btrfs ' /proc/mounts": "1"}, nil},
	}
	var volumes []*disk
	var devices []iotax.Device
	for i, c := range cases {
		v, err := prepare(t, "disk", c.spec, Env{Of: of, ID: fmt.Sprintf("o%d", i), Need: need})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		defer func() {
			if err := v.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		volumes, devices = append(volumes, v.(*disk)), append(devices, v.Caps().Devices...)
	}
	m := bootGuest(t, devices, func(s *vm.Spec) { s.CPUs = 2 })
	places := map[string]iotax.Place{}
	for i, c := range cases {
		p, err := volumes[i].Attach(t.Context(), m)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		places[c.name] = p
		checkIO(t, m, p)
		for command, want := range c.seen {
			out, err := iotax.Output(t.Context(), m, "sh", "-c", `d=/sys/block/$(basename $(df "$1" | tail -n 1 | cut -d' ' -f1)); `+command, "sh", p.Path)
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%s: %s prints %q (%v), want %s", c.name, command, got, err, want)
			}
		}
		for _, o := range c.spec.options() {
			if p.Facts["disk."+o.key] != o.value {
				t.Errorf("%s: fact %s is %q, want %q", c.name, o.key, p.Facts["disk."+o.key], o.value)
			}
		}
		if c.info != nil {
			var info map[string]any
			out, err := iotax.Output(t.Context(), here, "qemu-img", "info", "-U", "--output=json", volumes[i].image)
			if err != nil || json.Unmarshal(out, &info) != nil {
				t.Fatalf("%v: %s", err, out)
			}
			format, _ := info["format-specific"].(map[string]any)
			data, _ := format["data"].(map[string]any)
			for key, want := range c.info {
				if info[key] != want && data[key] != want {
					t.Errorf("%s: %s is not %v in %s", c.name, key, want, out)
				}
			}
		}
	}
	// With `discard: unmap`, a discard frees the image's blocks. With `detect_zeroes: unmap`, writing zeroes does not
	// allocate them again.
	taken := func(i int) int64 {
		st, err := os.Stat(volumes[i].image)
		if err != nil {
			t.Fatal(err)
		}
		return blocks(st)
	}
	for i, c := range cases {
		if c.name != "none" && c.name != "discard" {
			continue
		}
		before := taken(i)
		run := func(script string) {
			if out, err := iotax.Output(t.Context(), m, "sh", "-c", script, "sh", places[c.name].Path); err != nil {
				t.Fatalf("%s: %v: %s", script, err, out)
			}
		}
		run(`sync; fstrim "$(df "$1" | tail -n 1 | sed 's/.* //')"; sync`)
		trimmed := taken(i)
		run(`dd if=/dev/zero of="$1/zeroes" bs=1M count=16 conv=fsync 2>&1`)
		zeroed := taken(i)
		t.Logf("%s: %d MiB, after fstrim %d MiB, after 16 MiB of zeroes %d MiB", c.name, before>>20, trimmed>>20, zeroed>>20)
		if freed := before-trimmed > 100<<20; freed != (c.name == "discard") {
			t.Errorf("%s: %d bytes before, %d after fstrim", c.name, before, trimmed)
		}
		if c.name == "discard" && zeroed-trimmed > 4<<20 {
			t.Errorf("16 MiB of zeroes take %d bytes", zeroed-trimmed)
		}
	}
}

// The options of virtiofsd appear on the command line of its process, and the guest can use the share.
func TestShareOptions(t *testing.T) {
	long.Test(t)
	of := hostDir(t)
	want := []string{"--thread-pool-size=2 ", "writeback ", "allow-direct-io ", "no-readdirplus ", "announce-submounts ", "--rlimit-nofile=4096 "}
	v, err := prepare(t, "share", shareSpec(func(s *ShareSpec) {
		s.ThreadPoolSize, s.Writeback, s.AllowDirectIO, s.ReaddirPlus, s.AnnounceSubmounts = 2, true, true, "off", "on"
		s.Args = []string{"--rlimit-nofile=4096"}
		if version, err := exec.Command("virtiofsd", "--version").Output(); err == nil && strings.HasPrefix(string(version), "virtiofsd 1.") { // the Rust implementation
			s.Cache, s.InodeFileHandles, s.Args = "metadata", "mandatory", append(s.Args, "--modcaps=+dac_read_search")
			want = append(want, "--cache metadata ", "--inode-file-handles=mandatory ")
		}
	}), Env{Of: of, ID: "v0", Need: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := v.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	m := bootGuest(t, v.Caps().Devices)
	p, err := v.Attach(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if p.Facts["host.direct"] != "" || p.Facts["share.thread-pool-size"] != "2" {
		t.Errorf("facts %v", p.Facts)
	}
	checkIO(t, m, p)
	var line string
	for _, pid := range m.Caps().Processes()["virtiofsd"] {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		line += strings.NewReplacer("\x00", " ", "allow_direct_io", "allow-direct-io", "no_readdirplus", "no-readdirplus", "announce_submounts", "announce-submounts").Replace(string(text)) // the C daemon's options contain underscores
	}
	for _, w := range want {
		if !strings.Contains(line, w) {
			t.Errorf("no %q in %s", w, line)
		}
	}
}
