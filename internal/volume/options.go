package volume

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/plan"
)

// A diskOption is a key of DiskSpec that becomes an option of QEMU or qemu-img.
type diskOption struct {
	key   string
	value string            // "" leaves out the option
	part  diskPart          // the part of the command line that contains the option
	names map[string]string // option name by bus; "" means any bus; buses that are not in the map lack the option
}

type diskPart int

const (
	ofDrive  diskPart = iota // QEMU's -drive
	ofDevice                 // QEMU's -device of the disk or its controller
	ofImage                  // a qcow2 image that qemu-img makes
)

// options returns the options in the order of the command line.
func (s *DiskSpec) options() []diskOption {
	always := func(name string) map[string]string { return map[string]string{"": name} }
	return []diskOption{
		{"discard", s.Discard, ofDrive, always("discard")},
		{"detect_zeroes", s.DetectZeroes, ofDrive, always("detect-zeroes")},
		{"num_queues", number(s.NumQueues), ofDevice, map[string]string{"virtio-blk": "num-queues", "virtio-scsi": "num_queues", "nvme": "max_ioqpairs"}},
		{"queue_size", number(s.QueueSize), ofDevice, map[string]string{"virtio-blk": "queue-size", "virtio-scsi": "virtqueue_size"}},
		{"cluster_size", number(int(s.ClusterSize)), ofImage, always("cluster_size")},
		{"extended_l2", onIf(s.ExtendedL2), ofImage, always("extended_l2")},
		{"lazy_refcounts", onIf(s.LazyRefcounts), ofImage, always("lazy_refcounts")},
	}
}

// number and onIf format a value. They return "" for an option that is not set.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func onIf(on bool) string {
	if on {
		return "on"
	}
	return ""
}

// of returns the options of one part as properties, as in discard=unmap, followed by the plan's drive_args or
// device_args.
func (s *DiskSpec) of(part diskPart) (all []string) {
	for _, o := range s.options() {
		name := o.names[""] + o.names[s.Bus]
		if o.part == part && o.value != "" && name != "" {
			all = append(all, name+"="+o.value)
		}
	}
	if more := map[diskPart]string{ofDrive: s.DriveArgs, ofDevice: s.DeviceArgs}[part]; more != "" {
		all = append(all, strings.Split(more, ",")...)
	}
	return all
}

// optionFacts returns the options that the plan sets, as facts.
func (s *DiskSpec) optionFacts() map[iotax.FactKey]string {
	facts := map[iotax.FactKey]string{}
	for _, o := range s.options() {
		if o.value != "" {
			facts["disk."+o.key] = o.value
		}
	}
	return facts
}

// oursDrive and oursDevice list the properties that drive_args and device_args must not contain. Some of them determine
// where writes go or what a flush does.
var (
	oursDrive  = []string{"if", "id", "file", "format", "driver", "cache", "aio", "readonly", "read-only", "snapshot", "throttling", "backing", "discard", "detect-zeroes", "node-name"}
	oursDevice = []string{"driver", "id", "drive", "bus", "serial", "iothread", "num-queues", "num_queues", "max_ioqpairs", "queue-size", "virtqueue_size", "config-wce", "write-cache"}
)

// checkOptions calls `refuse` for options that are invalid, that exclude each other, or that the disk does not support.
func (s *DiskSpec) checkOptions(refuse func(field, msg, hint string)) {
	for _, o := range s.options() {
		switch {
		case o.value == "":
		case o.names[""]+o.names[s.Bus] == "":
			refuse(o.key, "QEMU's "+s.Bus+" has none", "leave it out, or use bus: "+strings.Join(slices.Sorted(maps.Keys(o.names)), " or "))
		case o.part == ofImage && s.Format != "qcow2":
			refuse(o.key, "a "+s.Format+" image has none", "leave it out, or use format: qcow2")
		}
	}
	if s.DetectZeroes == "unmap" && s.Discard != "unmap" {
		refuse("detect_zeroes", "unmap needs a disk that passes discards on", "add discard: unmap, or use detect_zeroes: on")
	}
	if n := s.QueueSize; n != 0 && (n < 2 || n > 1024 || n&(n-1) != 0) {
		refuse("queue_size", fmt.Sprintf("%d is not a power of two from 2 to 1024", n), "as in 256")
	}
	if s.NumQueues < 0 || s.NumQueues > 1024 {
		refuse("num_queues", fmt.Sprintf("%d is not a number from 1 to 1024", s.NumQueues), "one for each virtual CPU is QEMU's default")
	}
	if n := int64(s.ClusterSize); n != 0 && (n < 512 || n > 2<<20 || n&(n-1) != 0) {
		refuse("cluster_size", fmt.Sprintf("%d bytes are not a power of two from 512 to 2MiB", n), "as in 64KiB")
	}
	if s.ExtendedL2 && s.ClusterSize != 0 && s.ClusterSize < 16<<10 {
		refuse("extended_l2", "needs clusters of at least 16KiB", "use a larger cluster_size")
	}
	switch n := s.IOThreadVQMapping; {
	case n < 0 || n > 64:
		refuse("iothread_vq_mapping", fmt.Sprintf("%d is not a number from 1 to 64", n), "as in 2")
	case n > 0 && s.Bus != "virtio-blk":
		refuse("iothread_vq_mapping", "only virtio-blk divides its queues between threads", "use bus: virtio-blk")
	case n > 0 && (s.IOThread || s.DeviceArgs != ""):
		refuse("iothread_vq_mapping", "excludes iothread and device_args", "leave the others out")
	}
	if s.Hot && (len(s.of(ofDevice)) > 0 || s.IOThreadVQMapping > 0) {
		refuse("hot", "a disk that is plugged in later has no options of its device", "leave hot out")
	}
	for _, x := range []struct {
		field, text string
		ours        []string
	}{{"drive_args", s.DriveArgs, oursDrive}, {"device_args", s.DeviceArgs, oursDevice}} {
		for word := range strings.SplitSeq(x.text, ",") {
			key, value, _ := strings.Cut(word, "=")
			head, _, _ := strings.Cut(key, ".")
			switch {
			case x.text == "":
			case key == "" || value == "":
				refuse(x.field, fmt.Sprintf("%q is not NAME=VALUE", word), "as in packed=on,event_idx=off")
			case slices.Contains(x.ours, head):
				refuse(x.field, "iotax sets "+key+" itself", "use the key of the plan for it")
			}
		}
	}
	if least := leastSize[s.Filesystem]; s.Size > 0 && s.Size < least {
		refuse("size", fmt.Sprintf("%v is too small for %s", s.Size, s.Filesystem), fmt.Sprintf("%v or more", least))
	}
}

// leastSize contains the smallest size of a disk for each file system that has a minimum size.
var leastSize = map[string]plan.Size{"xfs": 300 << 20, "btrfs": 128 << 20}
