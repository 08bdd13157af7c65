// Package guest is the built-in micro-guest: the smallest Linux that can run a workload in a
// virtual machine, made from what this host has.
//
// It has four parts, each a file in the cache directory:
//
//   - a kernel, of this host or unpacked from the distribution's package (Kernel),
//   - an initramfs with this very program as /init and the kernel modules it loads (Initramfs),
//   - a read-only disk with the host's fio, shell and file tools and their libraries (Tools),
//   - nothing else: what one boot needs is on the kernel command line (Boot).
//
// As PID 1 of a guest the program takes the other road: cmd/iotax calls Main if IsInit says so.
//
// What a guest offers to those who use it:
//
//   - the agent on its virtio serial port, which is a socket on the host; commands run as root, in /root.
//   - /dev/disk/by-id/virtio-SERIAL, scsi-SERIAL and nvme-SERIAL for every disk with a serial
//     number, kept up to date when disks come and go.
//   - /run/iotax/boot, the timeline: a line per phase, name and seconds since the kernel started.
//   - modprobe and poweroff.
package guest
