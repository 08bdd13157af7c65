package container

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DeviceBytes returns what the container's control group has asked block devices for: its processes end
// with each command, the group stays.
func (b *box) DeviceBytes() (read, written uint64, ok bool) {
	if !b.local || b.pid == 0 {
		return 0, 0, false
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", b.pid))
	if err != nil {
		return 0, 0, false
	}
	return deviceBytes(string(groups), "/sys/fs/cgroup")
}

// deviceBytes reads the counters of the control group that groups, in the form of cgroup(7)'s
// /proc/PID/cgroup, names: io.stat of version 2, or the throttling counters of version 1, which count
// with every I/O scheduler.
func deviceBytes(groups, root string) (read, written uint64, ok bool) {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			if r, w, has := ioStat(filepath.Join(root, f[2], "io.stat")); has {
				return r, w, true
			}
		case strings.Contains(","+f[1]+",", ",blkio,"):
			for _, name := range []string{"blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"} {
				if r, w, has := serviceBytes(filepath.Join(root, "blkio", f[2], name)); has {
					return r, w, true
				}
			}
		}
	}
	return 0, 0, false
}

// ioStat reads lines such as "8:0 rbytes=1459200 wbytes=314773504 rios=192 …".
func ioStat(file string) (read, written uint64, ok bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		for w := range strings.FieldsSeq(s.Text()) {
			key, v, _ := strings.Cut(w, "=")
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				continue
			}
			switch key {
			case "rbytes":
				read += n
			case "wbytes":
				written += n
			}
		}
	}
	return read, written, true
}

// serviceBytes reads lines such as "8:0 Read 1459200".
func serviceBytes(file string) (read, written uint64, ok bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) != 3 {
			continue
		}
		n, err := strconv.ParseUint(w[2], 10, 64)
		if err != nil {
			continue
		}
		switch w[1] {
		case "Read":
			read += n
		case "Write":
			written += n
		}
	}
	return read, written, true
}
