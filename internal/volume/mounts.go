package volume

import (
	"slices"
	"strings"

	"iotax"
	"iotax/internal/probe"
)

// ownDurability returns the durability of path on m's own storage. It is the weakest durability of fs (the zero value
// if unknown), of the operating system `system` (named as in uname), and of m's disk. If fs is on the network, m's disk
// does not matter.
func ownDurability(m iotax.Machine, path string, fs probe.Mount, system string) iotax.Durability {
	d := iotax.Weakest(fs.Durability(), probe.SystemDurability(system))
	if weakens := m.Caps().Weakens; weakens != nil && !networked(fs) {
		d = iotax.Weakest(d, weakens(path, fs.Type))
	}
	return d
}

// deviceDurability returns iotax.Volatile if the facts of a place say that its device stores in memory, else "".
func deviceDurability(facts map[string]string) iotax.Durability {
	if facts[iotax.FactDeviceVolatile] != "" {
		return iotax.Volatile
	}
	return ""
}

// localFUSE lists FUSE file systems whose data is on disks of this machine or its host. Pass-through file systems are
// in the list, although the storage below them is unknown.
var localFUSE = []string{
	"fuse2fs", "ext2", "ext4", "exfat", "exfat-fuse", "ntfs", "ntfs-3g", "lowntfs-3g", "apfs", "apfs-fuse", "zfs", "zfs-fuse", "bcachefs", "dislocker", "ltfs", // on disks
	"fuse-overlayfs", "overlayfs", "mergerfs", "mhddfs", "shfs", "unionfs", "unionfs-fuse", "bindfs", "lxcfs", "catfs", // in other directories
	"gocryptfs", "encfs", "cryfs", "cryfs@cryfs", "securefs", // in other directories, encrypted
	"squashfuse", "snapfuse", "archivemount", "ratarmount", // in files
	"grpcfuse", "osxfs", "vmhgfs-fuse", "virtiofs", // in directories of the host
}

// lastingInodes reports whether a directory keeps its device and inode numbers while it exists. FUSE, network file
// systems and overlays with layers on several file systems may change them.
func lastingInodes(m probe.Mount) bool {
	switch m.Type {
	case "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs":
		return true
	}
	return false
}

// networked reports whether another machine serves the file system. A FUSE file system whose subtype (fuse.SUBTYPE) is
// not in localFUSE counts as networked, because most new FUSE file systems are. FUSE without a subtype (fuse, fuseblk)
// does not count as networked.
func networked(m probe.Mount) bool {
	switch m.Type {
	case "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "afpfs", "webdav", "ceph", "lustre", "glusterfs", "gpfs", "beegfs", "pvfs2", "orangefs", "gfs2", "ocfs2", "davfs", "davfs2", "coda":
		return true
	}
	name, fuse := strings.CutPrefix(m.Type, "fuse.")
	return fuse && !slices.Contains(localFUSE, name)
}

// pseudo reports whether the file system cannot store users' files.
func pseudo(m probe.Mount) bool {
	switch m.Type {
	case "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs",
		"bpf", "pstore", "configfs", "efivarfs", "mqueue", "hugetlbfs", "binfmt_misc", "fusectl", "selinuxfs", "nsfs":
		return true
	}
	return false
}
