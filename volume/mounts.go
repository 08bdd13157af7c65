package volume

import (
	"strings"

	"iotax"
)

// A mount is one line of /proc/self/mountinfo, see proc_pid_mountinfo(5). The libraries that read it
// (moby/sys/mountinfo, prometheus/procfs) read this host's only, or build on Linux only; these lines
// come from any machine.
type mount struct {
	device  string // "major:minor"
	point   string
	kind    string // file system type
	source  string
	options string // of the mount and of the file system
}

// parseMounts reads the text of a mountinfo; lines that it does not understand are left out.
func parseMounts(text string) []mount {
	var ms []mount
	for _, line := range strings.Split(text, "\n") {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := mount{device: l[2], point: unescape(l[4]), kind: r[0], source: unescape(r[1]), options: l[5]}
		if len(r) > 2 {
			m.options = joinOptions(l[5], r[2])
		}
		ms = append(ms, m)
	}
	return ms
}

// joinOptions merges the options of a mount point with those of its file system, each once. "ro" of
// either side wins over "rw" of the other, because a write has to pass both.
func joinOptions(a, b string) string {
	var out []string
	seen := map[string]bool{}
	for _, o := range strings.Split(a+","+b, ",") {
		if o != "" && o != "rw" && o != "ro" && !seen[o] {
			seen[o] = true
			out = append(out, o)
		}
	}
	mode := "rw"
	if hasOption(a, "ro") || hasOption(b, "ro") {
		mode = "ro"
	}
	return strings.Join(append([]string{mode}, out...), ",")
}

func hasOption(options, name string) bool {
	for _, o := range strings.Split(options, ",") {
		if o == name {
			return true
		}
	}
	return false
}

// unescape undoes the octal escapes that the kernel writes for blanks, newlines and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctal(s[i+1]) && isOctal(s[i+2]) && isOctal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

// mountOf returns the mount that the absolute path lies on: the longest mount point above it, and
// of several on one point the last, which hides the others.
func mountOf(ms []mount, path string) (mount, bool) {
	var best mount
	found := false
	for _, m := range ms {
		if within(path, m.point) && (!found || len(m.point) >= len(best.point)) {
			best, found = m, true
		}
	}
	return best, found
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// durability of an acknowledged flush on a file system.
func (m mount) durability() iotax.Durability {
	switch m.kind {
	case "tmpfs", "ramfs", "rootfs":
		return iotax.Volatile
	}
	for _, o := range []string{
		"nobarrier", "barrier=0", // ext4: no cache flush is sent to the device
		"volatile", // overlay: every form of sync is omitted
	} {
		if hasOption(m.options, o) {
			return iotax.FlushIgnored
		}
	}
	return iotax.Durable
}

// pseudo names the file systems that hold no user's files.
func (m mount) pseudo() bool {
	switch m.kind {
	case "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs",
		"bpf", "pstore", "configfs", "efivarfs", "mqueue", "hugetlbfs", "binfmt_misc", "fusectl", "selinuxfs", "nsfs":
		return true
	}
	return false
}

func (m mount) facts() map[string]string {
	return map[string]string{
		"filesystem":         m.kind,
		"filesystem.source":  m.source,
		"filesystem.mount":   m.point,
		"filesystem.options": m.options,
	}
}
