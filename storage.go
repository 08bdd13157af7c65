package iotax

import "strings"

// Storage returns the file system and the device of the target's place as its machine sees them, such as "ext4 on
// vda", or "" if unknown.
func (t TargetInfo) Storage() string {
	fs, source, device := t.Facts["filesystem"], t.Facts[FactFilesystemSource], t.Facts[FactDeviceName]
	if mapped := t.Facts["device.mapped"]; strings.HasPrefix(device, "dm-") && mapped != "" { // LVM or LUKS: use the name that the user gave
		device = mapped
	}
	if upper := t.Facts["filesystem.upper"]; upper != "" {
		fs += " over " + upper
	}
	switch {
	case fs == "" && device != "":
		return "block device " + device
	case device != "":
		return fs + " on " + device
	case fs == "zfs" && source != "":
		return fs + " on " + source
	case remoteSource(source):
		return fs + " from " + source
	}
	return fs // in memory, or the source is the tag of a hypervisor's share
}

// remoteSource reports whether the source of a mount is a server's directory or a Windows drive: host:/path,
// //host/share, C:\.
func remoteSource(source string) bool {
	return strings.Contains(source, ":") || strings.HasPrefix(source, "//")
}

// Device returns the name of the device that other targets on the machine may share with this target: a disk, the disk
// below a mapped device, a ZFS pool, or a server's directory. It returns "" if unknown.
func (t TargetInfo) Device() string {
	source := t.Facts[FactFilesystemSource]
	switch on := t.Facts["device.on"]; {
	case on != "" && !strings.HasPrefix(on, "/"): // ignore the file of a loop device
		return on
	case t.Facts[FactDeviceDisk] != "":
		return t.Facts[FactDeviceDisk]
	case t.Facts["filesystem"] == "zfs":
		pool, _, _ := strings.Cut(source, "/")
		return pool
	case remoteSource(source):
		return source
	}
	return ""
}
