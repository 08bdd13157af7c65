//go:build unix

package probe

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// deviceNumber returns the number of the block device to which path leads, such as "8:1", or "" if path does not lead to
// one.
func deviceNumber(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return ""
	}
	return fmt.Sprintf("%d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
}

// uname returns system, release, machine and node, one per line, as uname(1) prints them.
func uname() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	s := ""
	for _, field := range [][]byte{u.Sysname[:], u.Release[:], u.Machine[:], u.Nodename[:]} {
		s += unix.ByteSliceToString(field) + "\n"
	}
	return s
}
