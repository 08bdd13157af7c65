//go:build unix

package probe

import "golang.org/x/sys/unix"

// uname is what uname(1) prints of system, release, machine and node, a line each.
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
