package volume

import (
	"slices"
	"strings"

	"iotax"
	"iotax/internal/probe"
)

// ownDurability is the class of path on m's own storage: at most that of its file system (zero where it is not known), of a system
// of that name (of uname), and of what m's disk is.
func ownDurability(m iotax.Machine, path string, fs probe.Mount, system string) iotax.Durability {
	d := iotax.Weakest(fs.Durability(), probe.SystemDurability(system))
	if weakens := m.Caps().Weakens; weakens != nil && !networked(fs) {
		d = iotax.Weakest(d, weakens(path, fs.Type))
	}
	return d
}

// localFUSE are the file systems of FUSE whose data are on this machine's own disks, or on those of the host whose guest it is. What
// lies below such a one that only passes things on is not known.
var localFUSE = []string{
	"fuse2fs", "ext2", "ext4", "exfat", "exfat-fuse", "ntfs", "ntfs-3g", "lowntfs-3g", "apfs", "apfs-fuse", "zfs", "zfs-fuse", "bcachefs", "dislocker", "ltfs", // disks
	"fuse-overlayfs", "overlayfs", "mergerfs", "mhddfs", "shfs", "unionfs", "unionfs-fuse", "bindfs", "lxcfs", "catfs", // other directories
	"gocryptfs", "encfs", "cryfs", "cryfs@cryfs", "securefs", // other directories, encrypted
	"squashfuse", "snapfuse", "archivemount", "ratarmount", // files
	"grpcfuse", "osxfs", "vmhgfs-fuse", "virtiofs", // the host's
}

// lastingInodes reports whether a directory keeps its device and inode as long as it is there; those of FUSE, of networks and of an
// overlay whose layers are on several file systems may be numbered anew.
func lastingInodes(m probe.Mount) bool {
	switch m.Type {
	case "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs":
		return true
	}
	return false
}

// networked reports whether a file system is served by another machine. One of FUSE whose kind (fuse.KIND) is not known as local is:
// new ones for stores elsewhere appear every year. One that names no kind (fuse, fuseblk) is not.
func networked(m probe.Mount) bool {
	switch m.Type {
	case "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "afpfs", "webdav", "ceph", "lustre", "glusterfs", "gpfs", "beegfs", "pvfs2", "orangefs", "gfs2", "ocfs2", "davfs", "davfs2", "coda":
		return true
	}
	name, fuse := strings.CutPrefix(m.Type, "fuse.")
	return fuse && !slices.Contains(localFUSE, name)
}

// pseudo reports whether a file system holds no files of users.
func pseudo(m probe.Mount) bool {
	switch m.Type {
	case "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs",
		"bpf", "pstore", "configfs", "efivarfs", "mqueue", "hugetlbfs", "binfmt_misc", "fusectl", "selinuxfs", "nsfs":
		return true
	}
	return false
}
