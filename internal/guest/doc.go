// Package guest builds and runs the built-in micro-guest: a minimal Linux system that runs a workload in a virtual
// machine. iotax builds the guest mostly from files of this host.
//
// A guest has three parts, usually files in the cache directory:
//
//   - a kernel, taken from this host or unpacked from the distribution's package (Kernel),
//   - an initramfs with the agent as /init and the kernel modules that it loads (Initramfs),
//   - a read-only disk with the host's fio, shell and file tools and their libraries (Tools).
//
// The settings of one boot are on the kernel command line (Boot).
//
// A guest provides:
//
//   - the agent on its virtio serial port; commands run as root, in /root if it exists.
//   - /dev/disk/by-id/virtio-SERIAL, scsi-SERIAL and nvme-SERIAL for every disk with a serial number, updated when
//     disks are added or removed.
//   - /run/iotax/boot, the timeline of the boot: one line per phase, with its name and the seconds since the kernel
//     started.
//   - modprobe and poweroff.
package guest
