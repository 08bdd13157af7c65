package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/u-root/u-root/pkg/ldd"

	"iotax"
	"iotax/internal/agent"
)

// programs lists the tools that iotax copies from this host to a guest. The tools before the first empty name are
// mandatory. busybox, if the host has it, replaces missing optional tools other than fio.
var programs = strings.Split("sh cat cp mv rm mkdir ls chmod ln mount umount mke2fs mkfs.ext4 "+
	" fio busybox rmdir touch chown stat df du dd sync sleep date env echo true false test [ head tail tee tr sort uniq wc cut seq truncate"+
	" uname id readlink realpath basename dirname mktemp nproc od sha256sum md5sum timeout nohup printf base64 expr cmp diff"+
	" pwd cksum mkfifo mknod tac shuf numfmt split comm paste fold nl install link unlink tty stty chgrp"+
	" ps pgrep kill setsid sed grep awk find xargs tar gzip xz zstd which hexdump"+
	" mountpoint findmnt lsblk blkid blockdev losetup fallocate flock dmesg fstrim fsfreeze taskset ionice chrt nice unshare nsenter chroot"+
	" e2fsck tune2fs mkfs.xfs mkfs.btrfs ip ss nbd-client mount.nfs sshfs fusermount3 hostname free lscpu", " ")

// plugins lists patterns for libraries that programs load at run time, which ldd does not list.
var plugins = []string{"/usr/lib/fio/*.so", "/usr/lib/*/fio/*.so", "/usr/lib64/fio/*.so", "/usr/local/lib/fio/*.so"}

// A toolFile is a file in a guest, with its paths on the host and in the guest.
type toolFile struct {
	Host  string    `json:"host"`
	Guest string    `json:"guest"`
	Link  string    `json:"link,omitempty"` // the target, if the file is a symbolic link
	Size  int64     `json:"size"`
	Time  time.Time `json:"time"`
}

// toolsVersion is the version of the layout of the disk. Increase it when the layout changes.
const toolsVersion = 1

// Tools returns the path of a disk image in cacheDir: an ext4 file system with this host's fio, shell and file tools
// and their libraries. Attach it read-only with the serial number ToolsSerial. Tools makes the disk again when a
// program or library of the host has changed. It needs mke2fs but no privileges.
func Tools(ctx context.Context, cacheDir string) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &iotax.Error{Op: "build the guest's tools disk", Err: err, Hint: hint}
	}
	found, missing := lookPrograms()
	if len(missing) > 0 {
		return fail(fmt.Errorf("this host has no %s", strings.Join(missing, ", ")), "install them: apt install coreutils mount e2fsprogs")
	}
	dir := filepath.Join(cacheDir, "guest")
	// The name of the disk contains a hash of the programs. fresh compares the libraries with the list that was written
	// with the disk, because listing them again takes 0.5 s.
	h := sha256.New()
	fmt.Fprintln(h, toolsVersion)
	for _, f := range found {
		fmt.Fprintln(h, f.Guest, f.Host, f.Size, f.Time.UnixNano())
	}
	base := filepath.Join(dir, fmt.Sprintf("tools-%x", h.Sum(nil)[:8]))
	image, list := base+".ext4", base+".json"
	if fresh(list) && exists(image) {
		now := time.Now() // prune keeps the newest
		_, _ = os.Chtimes(image, now, now), os.Chtimes(list, now, now)
		return image, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err, "")
	}
	tmp, err := os.MkdirTemp(dir, ".tools-")
	if err != nil {
		return fail(err, "")
	}
	defer os.RemoveAll(tmp)
	files, err := withLibraries(found)
	if err != nil {
		return fail(err, "")
	}
	if err := os.MkdirAll(filepath.Join(tmp, "root", "usr", "bin"), 0o755); err != nil {
		return fail(err, "")
	}
	total, err := stage(ctx, filepath.Join(tmp, "root"), files)
	if err != nil {
		return fail(err, "")
	}
	disk := filepath.Join(tmp, "disk")
	// A read-only file system needs no journal and no free space.
	blocks := total/4096 + total/4096/16 + 1024
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if _, err := agent.Exec(ctx, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-L", ToolsSerial,
		"-O", "^has_journal,^resize_inode", "-E", "root_owner=0:0", "-N", fmt.Sprint(len(files)+256),
		"-d", filepath.Join(tmp, "root"), disk, fmt.Sprint(blocks)); err != nil {
		return fail(err, "")
	}
	if err := os.Chmod(disk, 0o644); err != nil {
		return fail(err, "")
	}
	js, err := json.Marshal(files)
	if err != nil {
		return fail(err, "")
	}
	if err := os.Rename(disk, image); err != nil {
		return fail(err, "")
	}
	if err := writeFile(list, bytes.NewReader(js), 0o644); err != nil {
		return fail(err, "")
	}
	prune(dir, "tools-*.ext4", 2, 0)
	prune(dir, "tools-*.json", 2, 0)
	return image, nil
}

// RootDisk returns the path of a disk image of `size` bytes in cacheDir: a copy of the tools disk with a journal and
// free space. A guest with Boot.OnDisk uses a copy of the image as its root. RootDisk needs tune2fs and resize2fs but no
// privileges.
func RootDisk(ctx context.Context, cacheDir, tools string, size int64) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &iotax.Error{Op: "make the guest's root disk", Err: err, Hint: hint}
	}
	src, err := os.Open(tools)
	if err != nil {
		return fail(err, "")
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return fail(err, "")
	}
	const room = 16 << 20 // for the journal
	if size < st.Size()+room {
		return fail(fmt.Errorf("the programs take %d MiB, and the disk has %d MiB", (st.Size()+room)>>20, size>>20), "a larger size:")
	}
	list, err := os.ReadFile(strings.TrimSuffix(tools, ".ext4") + ".json") // the list exists only if this host made the disk
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err, "")
	}
	dir, key := filepath.Join(cacheDir, "guest"), sha256.Sum256(fmt.Appendf(list, "%s %d", tools, size))
	path := filepath.Join(dir, fmt.Sprintf("root-%x.ext4", key[:8]))
	if exists(path) {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // prune reads this as the time of the last use
		return path, nil
	}
	tmp := filepath.Join(dir, fmt.Sprintf(".%s-%d", filepath.Base(path), os.Getpid()))
	defer os.Remove(tmp)
	if err := writeFile(tmp, src, 0o600); err != nil {
		return fail(err, "")
	}
	if err := os.Truncate(tmp, size); err != nil {
		return fail(err, "")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for _, args := range [][]string{{"resize2fs", "-f", tmp}, {"tune2fs", "-O", "has_journal", tmp}} {
		if _, err := agent.Exec(ctx, args...); err != nil {
			return fail(err, "install e2fsprogs if it is missing")
		}
	}
	if err := os.Rename(tmp, path); err != nil {
		return fail(err, "")
	}
	prune(dir, "root-*.ext4", 2, 0)
	return path, nil
}

// lookPrograms finds the programs on this host. If several names lead to the same file, the later ones become links to
// the first. `missing` contains the mandatory programs that the host lacks.
func lookPrograms() (found []toolFile, missing []string) {
	byFile := map[string]string{}
	optional := false
	have := map[string]bool{}
	for _, name := range programs {
		if name == "" {
			optional = true
			continue
		}
		path, _ := agent.Tool(name) // "" if it is missing
		if real, err := filepath.EvalSymlinks(path); err == nil && path != "" {
			path = real
		}
		st, err := os.Stat(path)
		if path == "" || err != nil || !isELF(path) {
			if !optional {
				missing = append(missing, name)
			}
			continue
		}
		f := toolFile{Host: path, Guest: "/usr/bin/" + name, Size: st.Size(), Time: st.ModTime()}
		if first, ok := byFile[path]; ok {
			f.Link = first
		} else {
			byFile[path] = name
		}
		have[name] = true
		found = append(found, f)
	}
	if have["busybox"] {
		for _, name := range programs {
			if name != "" && !have[name] && name != "fio" {
				found = append(found, toolFile{Host: "busybox", Guest: "/usr/bin/" + name, Link: "busybox"})
			}
		}
	}
	return found, missing
}

func isELF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, 4)
	_, err = io.ReadFull(f, b)
	return err == nil && string(b) == "\x7fELF"
}

// withLibraries adds the libraries that the programs need, at the paths where the loader searches for them, and
// mke2fs.conf.
func withLibraries(found []toolFile) ([]toolFile, error) {
	var names []string
	for _, f := range found {
		if f.Link == "" {
			names = append(names, f.Host)
		}
	}
	for _, p := range plugins {
		m, _ := filepath.Glob(p)
		names = append(names, m...)
	}
	// glibc loads libgcc_s at run time when a thread ends, so ldd does not list it.
	for _, p := range []string{"/lib/*/libgcc_s.so.1", "/usr/lib/*/libgcc_s.so.1", "/lib64/libgcc_s.so.1", "/usr/lib/libgcc_s.so.1"} {
		if m, _ := filepath.Glob(p); len(m) > 0 {
			names = append(names, m[0])
			break
		}
	}
	all, err := ldd.List(names...)
	if err != nil {
		return nil, fmt.Errorf("find libraries: %w", err)
	}
	files := slices.Clone(found)
	seen := map[string]bool{}
	for _, f := range files {
		if f.Link == "" {
			seen[f.Host] = true
		}
	}
	for _, path := range append(all, names...) {
		if seen[path] {
			continue
		}
		seen[path] = true
		st, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files = append(files, toolFile{Host: path, Guest: merged(path), Size: st.Size(), Time: st.ModTime()})
	}
	if st, err := os.Stat("/etc/mke2fs.conf"); err == nil {
		files = append(files, toolFile{Host: "/etc/mke2fs.conf", Guest: "/etc/mke2fs.conf", Size: st.Size(), Time: st.ModTime()})
	}
	return files, nil
}

// merged returns the equivalent of path on a system where /lib, /bin and /sbin are links into /usr, as in the guest.
func merged(path string) string {
	for _, d := range []string{"/lib/", "/lib64/", "/lib32/", "/bin/", "/sbin/"} {
		if strings.HasPrefix(path, d) {
			return "/usr" + path
		}
	}
	return path
}

// stage copies files, and creates links, at their places below root. It returns the space that they need, in bytes.
func stage(ctx context.Context, root string, files []toolFile) (int64, error) {
	var total int64
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		dst := filepath.Join(root, f.Guest)
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return 0, err
		}
		total += 8192
		if f.Link != "" {
			if err := os.Symlink(f.Link, dst); err != nil && !errors.Is(err, os.ErrExist) {
				return 0, err
			}
			continue
		}
		if exists(dst) {
			continue // already copied: in the guest, /lib and /usr/lib are the same directory
		}
		src, err := os.Open(f.Host)
		if err != nil {
			return 0, err
		}
		err = writeFile(dst, src, 0o755)
		src.Close()
		if err != nil {
			return 0, err
		}
		total += (f.Size + 4095) &^ 4095
	}
	return total, nil
}

// fresh reports whether the files on the list are unchanged.
func fresh(list string) bool {
	b, err := os.ReadFile(list)
	if err != nil {
		return false
	}
	var files []toolFile
	if json.Unmarshal(b, &files) != nil || len(files) == 0 {
		return false
	}
	for _, f := range files {
		if f.Link != "" {
			continue
		}
		st, err := os.Stat(f.Host)
		if err != nil || st.Size() != f.Size || !st.ModTime().Equal(f.Time) {
			return false
		}
	}
	return true
}
