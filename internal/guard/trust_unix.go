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
// root would then follow the replacement. It trusts the user who called sudo and that user's private group, because
// that user can become root anyway.
func Distrust(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	caller := -1
	if id, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil {
		caller = id
	}
	for ; ; dir = parent(dir) {
		info, err := os.Lstat(cmp.Or(dir, "/"))
		if err != nil {
			return err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: its owner is not known", dir)
		}
		uid, gid, why := int(owner.Uid), int(owner.Gid), ""
		switch mode := info.Mode(); {
		case !info.IsDir():
			why = "it is not a directory"
		case mode&os.ModeSticky != 0: // only the owner of an entry can rename or remove it
		case mode&0o002 != 0:
			why = "other users may write to it"
		case mode&0o020 != 0 && (gid != uid || uid != caller):
			why = "its group may write to it"
		}
		if uid != 0 && uid != caller {
			why = fmt.Sprintf("user %d owns it", uid)
		}
		if why != "" {
			return fmt.Errorf("%s: %s", cmp.Or(dir, "/"), why)
		}
		if dir == "" || dir == "/" {
			return nil
		}
	}
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
		switch {
		case errors.Is(err, syscall.EINVAL): // not a symbolic link
			return nil
		case err != nil:
			return err
		case !strings.HasPrefix(to, "/"):
			to = parent(path) + "/" + to
		}
		path = to
	}
}
