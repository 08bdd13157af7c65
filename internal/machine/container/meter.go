package container

import (
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
			if r, w, has := bytesIn(filepath.Join(root, f[2], "io.stat"), ioStat); has {
				return r, w, true
			}
		case strings.Contains(","+f[1]+",", ",blkio,"):
			for _, name := range []string{"blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"} {
				if r, w, has := bytesIn(filepath.Join(root, "blkio", f[2], name), serviceBytes); has {
					return r, w, true
				}
			}
		}
	}
	return 0, 0, false
}

// bytesIn adds up what pairs finds in the lines of a file: "rbytes" and "Read", "wbytes" and "Write".
func bytesIn(file string, pairs func(line string, each func(key, value string))) (read, written uint64, ok bool) {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		pairs(line, func(key, value string) {
			switch n, _ := strconv.ParseUint(value, 10, 64); key {
			case "rbytes", "Read":
				read += n
			case "wbytes", "Write":
				written += n
			}
		})
	}
	return read, written, err == nil
}

// ioStat takes lines such as "8:0 rbytes=1459200 wbytes=314773504 rios=192 …" apart.
func ioStat(line string, each func(key, value string)) {
	for w := range strings.FieldsSeq(line) {
		key, v, _ := strings.Cut(w, "=")
		each(key, v)
	}
}

// serviceBytes takes lines such as "8:0 Read 1459200" apart.
func serviceBytes(line string, each func(key, value string)) {
	if w := strings.Fields(line); len(w) == 3 {
		each(w[1], w[2])
	}
}
