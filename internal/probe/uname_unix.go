//go:build unix

package probe

import "golang.org/x/sys/unix"

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
