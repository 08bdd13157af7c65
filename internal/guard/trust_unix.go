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

// Distrust returns why another user may replace the directory dir, or one above it, if this process is root: root would follow the
// replacement. It trusts the user who called sudo, and that user's private group, who can become root anyhow.
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
		case mode&os.ModeSticky != 0: // only the owners of names in it can change them
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

// parent is the directory of an absolute path, "" of one in /. The kernel follows a link before "..", so nothing is cleaned.
func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// distrustLinks is Distrust of the way to a file, and to the files that it leads to if it is a symbolic link.
func distrustLinks(path string) error {
	for {
		if err := Distrust(parent(path)); err != nil {
			return err
		}
		to, err := os.Readlink(path)
		switch {
		case errors.Is(err, syscall.EINVAL): // it is not a link
			return nil
		case err != nil:
			return err
		case !strings.HasPrefix(to, "/"):
			to = parent(path) + "/" + to
		}
		path = to
	}
}
