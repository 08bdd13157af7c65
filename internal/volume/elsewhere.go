package volume

import (
	"fmt"
	"strings"

	"iotax/internal/plan"
)

// The `elsewhere` methods return a spec's options in the syntax of other programs, for the output of iotax tune.
// They leave out options that those programs do not support.

// elsewhere returns libvirt's XML elements for the disk. If options of the image are set, it adds the qemu-img command
// that makes the image.
func (s *DiskSpec) elsewhere() (all []plan.Snippet) {
	driver := fmt.Sprintf("<driver name='qemu' type='%s' cache='%s' io='%s'", s.Format, s.Cache, s.AIO)
	queues := ""
	for _, o := range s.options() {
		name := map[string]string{"discard": "discard", "detect_zeroes": "detect_zeroes", "num_queues": "queues", "queue_size": "queue_size"}[o.key]
		switch {
		case name == "" || o.value == "":
		case o.part == ofDevice:
			queues += fmt.Sprintf(" %s='%s'", name, o.value)
		default:
			driver += fmt.Sprintf(" %s='%s'", name, o.value)
		}
	}
	thread := ""
	if s.IOThread {
		thread = " iothread='1'"
	}
	switch s.Bus {
	case "virtio-scsi": // the controller has the queues and the thread
		queues = strings.ReplaceAll(queues, "queue_size=", "virtqueue_size=")
		if queues+thread != "" {
			all = append(all, plan.Snippet{For: "libvirt", Text: "<controller type='scsi' model='virtio-scsi'><driver" + queues + thread + "/></controller>"})
		}
	case "virtio-blk":
		driver += queues + thread
	}
	if s.IOThread {
		all = append(all, plan.Snippet{For: "libvirt", Text: "<iothreads>1</iothreads>"})
	}
	all = append(all, plan.Snippet{For: "libvirt", Text: driver + "/>"})
	if options := s.of(ofImage); len(options) > 0 {
		all = append(all, plan.Snippet{For: "image", Text: "qemu-img create -f qcow2 -o " + strings.Join(options, ",") + " IMAGE SIZE"})
	}
	return all
}

// elsewhere returns libvirt's XML elements for a virtiofs share, or Lima's settings for a 9p share. It leaves out
// virtiofsd's cache modes auto and metadata, because libvirt supports only none and always.
func (s *ShareSpec) elsewhere() []plan.Snippet {
	if s.Type == "9p" {
		return []plan.Snippet{{For: "Lima", Text: fmt.Sprintf("mountType: 9p, and for each of mounts: 9p: {securityModel: %s, cache: %s, msize: %v}", s.Security, s.Cache, s.MSize)}}
	}
	binary := ""
	if s.Cache == "none" || s.Cache == "always" {
		binary += "<cache mode='" + s.Cache + "'/>"
	}
	if s.ThreadPoolSize > 0 {
		binary += fmt.Sprintf("<thread_pool size='%d'/>", s.ThreadPoolSize)
	}
	text := "<driver type='virtiofs'/>"
	if binary != "" {
		text += "<binary>" + binary + "</binary>"
	}
	all := []plan.Snippet{{For: "libvirt", Text: text}}
	if s.Writeback || s.AllowDirectIO || s.ReaddirPlus == "off" || s.InodeFileHandles != "" {
		all = append(all, plan.Snippet{For: "libvirt", Text: "<binary path='SCRIPT'> for the other options of virtiofsd: a script that adds them"})
	}
	return all
}

// elsewhere returns the mount options for a StorageClass, and a line for fstab.
func (s *NFSSpec) elsewhere() []plan.Snippet {
	options := append([]string{"nfsvers=" + s.Version}, strings.FieldsFunc(s.Options, func(r rune) bool { return r == ',' })...)
	server := s.Server
	if server == "" {
		server = "SERVER:/EXPORT"
	}
	return []plan.Snippet{
		{For: "StorageClass", Text: "mountOptions: [" + strings.Join(options, ", ") + "]"},
		{For: "fstab", Text: server + " /mnt nfs " + strings.Join(options, ",") + " 0 0"},
	}
}

// elsewhere returns the storageClassName line of a PersistentVolumeClaim, or nil if the spec has no class.
func (s *ClaimSpec) elsewhere() []plan.Snippet {
	if s.Class == "" {
		return nil
	}
	return []plan.Snippet{{For: "PersistentVolumeClaim", Text: "storageClassName: " + s.Class}}
}

// choices returns the values that iotax tune tries for keys whose values the plan does not list. It leaves out values
// that weaken durability, and values that exclude each other.
func (s *DiskSpec) choices() []plan.Choice {
	all := []plan.Choice{{Key: "aio", Values: []string{"threads", "io_uring"}}}
	if s.AIO != "native" { // native needs a cache mode with O_DIRECT
		all = append(all, plan.Choice{Key: "cache", Values: []string{"none", "writeback"}})
	}
	if s.Bus != "nvme" && !s.Hot && s.IOThreadVQMapping == 0 {
		all = append(all, plan.Choice{Key: "iothread", Values: []string{"false", "true"}}, plan.Choice{Key: "queue_size", Values: []string{"0", "1024"}})
	}
	return all
}

func (s *ShareSpec) choices() []plan.Choice {
	if s.Type == "9p" {
		return []plan.Choice{{Key: "cache", Values: []string{"none", "mmap"}}, {Key: "msize", Values: []string{"512kB", "128KiB"}}, {Key: "security", Values: []string{"mapped-xattr", "none"}}}
	}
	return []plan.Choice{{Key: "cache", Values: []string{"auto", "always", "none"}}, {Key: "thread_pool_size", Values: []string{"0", "64"}},
		{Key: "writeback", Values: []string{"false", "true"}}, {Key: "allow_direct_io", Values: []string{"false", "true"}}}
}

func (s *NFSSpec) choices() []plan.Choice {
	return []plan.Choice{{Key: "version", Values: []string{"4.2", "4.1"}}, {Key: "options", Values: []string{"rsize=65536,wsize=65536", "nconnect=4"}}}
}
