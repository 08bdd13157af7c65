package volume

import (
	"iotax"
	"iotax/probe"
)

// durability is what an acknowledged flush means on a file system.
func durability(m probe.Mount) iotax.Durability {
	switch m.Type {
	case "tmpfs", "ramfs", "rootfs":
		return iotax.Volatile
	}
	barrier, _ := m.Option("barrier")
	_, none := m.Option("nobarrier")
	_, volatile := m.Option("volatile")
	switch {
	case none, barrier == "0": // ext4: no flush is sent to the device
		return iotax.FlushIgnored
	case m.Type == "overlay" && volatile: // every form of sync is left out
		return iotax.FlushIgnored
	}
	return iotax.Durable
}

// networked reports whether a file system is served by another machine.
func networked(m probe.Mount) bool {
	switch m.Type {
	case "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "afpfs", "webdav", "ceph", "lustre", "glusterfs", "gpfs", "beegfs", "pvfs2", "orangefs", "gfs2", "ocfs2",
		"fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.juicefs", "fuse.davfs2", "fuse.gcsfuse", "fuse.goofys", "fuse.mount-s3", "davfs", "davfs2", "coda":
		return true
	}
	return false
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
