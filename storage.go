package iotax

import "strings"

// Storage names the file system and the device of the target's place, as in "ext4 on vda", as its machine sees them. It is "" where they
// are not known.
func (t TargetInfo) Storage() string {
	fs, source, device := t.Facts["filesystem"], t.Facts[FactFilesystemSource], t.Facts[FactDeviceName]
	if mapped := t.Facts["device.mapped"]; strings.HasPrefix(device, "dm-") && mapped != "" { // LVM, LUKS: a name that people gave
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
	return fs // in memory, or a tag of a hypervisor's share as its source
}

// remoteSource reports whether the source of a mount is a server's directory, or a drive of Windows: host:/path, //host/share, C:\.
func remoteSource(source string) bool {
	return strings.Contains(source, ":") || strings.HasPrefix(source, "//")
}

// Device names what the target's place shares with others of its machine: a disk, what a mapped one is made of, a pool of ZFS, a server's
// directory. It is "" where that is not known.
func (t TargetInfo) Device() string {
	source := t.Facts[FactFilesystemSource]
	switch on := t.Facts["device.on"]; {
	case on != "" && !strings.HasPrefix(on, "/"): // the file of a loop device is another matter than its disk
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
