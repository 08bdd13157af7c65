package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"iotax/internal/probe"
)

// DeviceBytes returns the bytes that the container transferred to and from block devices. It reads the counters of the
// control group, because the counters of a process are lost when the process ends. ok is false if the counters cannot be
// read.
func (b *box) DeviceBytes() (read, written uint64, ok bool) {
	if !b.local || b.pid == 0 {
		return 0, 0, false
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", b.pid))
	if err != nil {
		return 0, 0, false
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return deviceBytes(string(groups), string(mounts), "/sys/fs/cgroup", "/sys")
}

// deviceBytes reads the counters of a control group below root. groups is the content of /proc/PID/cgroup (cgroups(7)).
// mounts is the content of /proc/self/mountinfo. For version 1, deviceBytes reads the throttling counters, which work
// with every I/O scheduler.
func deviceBytes(groups, mounts, root, sys string) (read, written uint64, ok bool) {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			if r, w, has := bytesIn(filepath.Join(root, f[2], "io.stat"), mounts, sys); has {
				return r, w, true
			}
		case strings.Contains(","+f[1]+",", ",blkio,"):
			for _, name := range []string{"blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"} {
				// The kernel may count only disks with a limit.
				if r, w, has := bytesIn(filepath.Join(root, "blkio", f[2], name), mounts, sys); has && r+w > 0 {
					return r, w, true
				}
			}
		}
	}
	return 0, 0, false
}

// bytesIn sums the counters in lines such as "8:0 rbytes=1459200 wbytes=314773504 rios=192" (io.stat) or "8:0 Read
// 1459200" (version 1). It leaves out the disks below a listed device mapper, RAID or loop device, because they count the
// same I/O.
func bytesIn(file, mounts, sys string) (read, written uint64, ok bool) {
	text, err := os.ReadFile(file)
	skip := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		number, _, _ := strings.Cut(line, " ")
		below, _ := filepath.Glob(filepath.Join(sys, "dev/block", number, "slaves/*"))
		if backing, err := os.ReadFile(filepath.Join(sys, "dev/block", number, "loop/backing_file")); err == nil {
			for _, name := range probe.Storing(probe.ParseMounts(mounts), sys, strings.TrimSuffix(string(backing), "\n")) {
				below = append(below, filepath.Join(sys, "class/block", name))
			}
		}
		for _, b := range below {
			skip[diskNumber(b)] = true
		}
	}
	for line := range strings.Lines(string(text)) {
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '=' || r == '\n' })
		if len(words) > 0 && skip[words[0]] {
			continue
		}
		for i := 1; i+1 < len(words); i += 2 {
			switch n, _ := strconv.ParseUint(words[i+1], 10, 64); words[i] {
			case "rbytes", "Read":
				read += n
			case "wbytes", "Write":
				written += n
			}
		}
	}
	return read, written, err == nil
}

// diskNumber returns the number of a block device, such as "8:0". For a partition, it returns the number of the disk.
// `link` leads to the directory of the device in sysfs.
func diskNumber(link string) string {
	dir, err := filepath.EvalSymlinks(link)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	number, _ := os.ReadFile(filepath.Join(dir, "dev"))
	return strings.TrimSpace(string(number))
}
