//go:build unix

package guard

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Distrust returns an error if this process is root and another user could replace dir or one of its parents, because
// root would then use the replacement. It trusts the user who called sudo and that user's private group, because that
// user can become root anyway.
func Distrust(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for ; ; dir = parent(dir) {
		info, err := trustOwner(cmp.Or(dir, "/"))
		if err != nil {
			return err
		}
		owner, why := info.Sys().(*syscall.Stat_t), ""
		uid, gid, caller := int(owner.Uid), int(owner.Gid), caller()
		switch mode := info.Mode(); {
		case !info.IsDir():
			why = "it is not a directory"
		case mode&os.ModeSticky != 0: // in a sticky directory, only the owner of an entry can rename or remove it
		case mode&0o002 != 0:
			why = "other users may write to it"
		case mode&0o020 != 0 && (gid != uid || uid != caller):
			why = "its group may write to it"
		}
		if why != "" {
			return fmt.Errorf("%s: %s", cmp.Or(dir, "/"), why)
		}
		if dir == "" || dir == "/" {
			return nil
		}
	}
}

// caller returns the user who called sudo, or −1.
func caller() int {
	if id, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil {
		return id
	}
	return -1
}

// trustOwner returns an error if neither root nor the user who called sudo owns path. It does not follow links.
func trustOwner(path string) (os.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: its owner is not known", path)
	case owner.Uid != 0 && int(owner.Uid) != caller():
		return nil, fmt.Errorf("%s: user %d owns it", path, owner.Uid)
	}
	return info, nil
}

// parent returns the parent of an absolute path, or "" for a path in /. It does not clean the path, because the kernel
// follows links before "..".
func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// distrustLinks calls Distrust for the directory of path. If path is a symbolic link, it does the same for the link's
// target.
func distrustLinks(path string) error {
	for {
		if err := Distrust(parent(path)); err != nil {
			return err
		}
		to, err := os.Readlink(path)
		if errors.Is(err, syscall.EINVAL) { // not a symbolic link
			return nil
		}
		if err == nil && os.Geteuid() == 0 {
			_, err = trustOwner(path) // in a sticky directory, the owner can replace the link
		}
		switch {
		case err != nil:
			return err
		case !strings.HasPrefix(to, "/"):
			to = parent(path) + "/" + to
		}
		path = to
	}
}
