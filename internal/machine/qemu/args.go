// Package qemu starts virtual machines with QEMU: it builds the command line, uses QMP, and manages the processes
// of a guest.
package qemu

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// A Config describes one virtual machine.
type Config struct {
	Binary  string // "" means qemu-system-ARCH for this host's architecture
	Arch    string // amd64, arm64; "" means this host's
	Name    string // shown in process lists; "" means "guest"
	Machine string // "" means q35 or virt
	Accel   string // tcg, kvm, hvf; "" means tcg
	CPU     string // "" means max with tcg, host otherwise
	CPUs    int    // 0 means 1
	Memory  int64  // in bytes, a multiple of 1 MiB
	Nodes   []int  // NUMA nodes for the memory; nil lets the host choose

	Kernel, Initrd string // direct boot; "" boots from the first disk
	Append         string // kernel command line

	Disks  []Disk // in this order; firmware boots from the first
	Shares []Share
	Net    bool // user-mode network

	QMP   string   // path of the control socket
	Port  Port     // for one connection with the guest; if its name is "", the guest has no port
	Extra []string // further arguments, last
}

// A Port is a virtio serial port of the guest. On the host it is a socket.
type Port struct{ Name, Socket string }

// A Disk is a drive with its serial number.
type Disk struct {
	iotax.Disk
	ID      string // serial number; at most 20 bytes
	Overlay string // qcow2 file for writes; QEMU then only reads Path
	Shared  bool   // another guest uses Path, so QEMU does not lock Path
}

// A Share is a shared directory with its mount tag.
type Share struct {
	iotax.Share
	ID     string // mount tag
	Socket string // virtiofs: socket of its daemon
}

func (d Disk) fill() Disk {
	d.Format = cmp.Or(d.Format, "raw")
	d.Bus = cmp.Or(d.Bus, "virtio-blk")
	d.Cache = cmp.Or(d.Cache, "none")
	d.AIO = cmp.Or(d.AIO, "threads")
	return d
}

func (s Share) fill() Share {
	s.Type = cmp.Or(s.Type, "virtiofs")
	s.Cache = cmp.Or(s.Cache, "auto")
	s.Security = cmp.Or(s.Security, "mapped-xattr")
	return s
}

// maxSocket is the maximum length of a socket path in bytes: sun_path has 104 bytes on macOS, with the terminating
// zero, and 108 on Linux.
const maxSocket = 103

// Validate checks the lengths of the socket paths.
func (c Config) Validate() error {
	paths := []string{c.QMP, c.Port.Socket}
	for _, s := range c.Shares {
		paths = append(paths, s.Socket)
	}
	for _, path := range paths {
		if len(path) > maxSocket {
			return fmt.Errorf("socket path %s is longer than %d bytes", path, maxSocket)
		}
	}
	return nil
}

// smp returns the value of -smp. With one emulated CPU, QEMU omits memory barriers. But a vhost-user daemon reads the
// guest's memory from its own process, and without barriers the guest and the daemon may wait for each other forever.
// maxcpus=2 makes QEMU keep the barriers.
func (c *Config) smp(accel string) string {
	n := max(1, c.CPUs)
	if n == 1 && strings.HasPrefix(accel, "tcg") {
		return "1,maxcpus=2"
	}
	return strconv.Itoa(n)
}

// Args returns QEMU's command line without the program. It does not read files. c should pass Validate.
func (c Config) Args() []string {
	arm := c.arch() == "arm64"
	machine := c.Machine
	if machine == "" {
		machine = "q35"
		if arm {
			machine = "virt"
		}
	}
	accel := cmp.Or(c.Accel, "tcg")
	cpu := c.CPU
	if cpu == "" {
		cpu = "host"
		if accel == "tcg" {
			cpu = "max"
		}
	}
	if accel == "tcg" {
		accel = "tcg,thread=multi"
	}
	mem := strconv.FormatInt(c.Memory>>20, 10)
	var shared bool
	for _, s := range c.Shares {
		shared = shared || s.fill().Type == "virtiofs"
	}
	nodes := ""
	for _, n := range c.Nodes {
		nodes += ",host-nodes=" + strconv.Itoa(n)
	}
	if nodes != "" {
		nodes += ",policy=bind"
	}
	if shared || nodes != "" {
		machine += ",memory-backend=mem"
	}
	a := []string{
		"-name", "guest=" + esc(cmp.Or(c.Name, "guest")) + ",debug-threads=on",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", machine, "-accel", accel, "-cpu", cpu,
		"-smp", c.smp(accel), "-m", mem + "M",
	}
	switch {
	case shared: // the daemon accesses the guest's memory directly
		a = append(a, "-object", "memory-backend-memfd,id=mem,size="+mem+"M,share=on"+nodes)
	case nodes != "":
		a = append(a, "-object", "memory-backend-ram,id=mem,size="+mem+"M"+nodes)
	}
	// The console is a pipe to this process, which records the time of each line.
	a = append(a, "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console")
	if c.QMP != "" {
		a = append(a, "-qmp", "unix:"+esc(c.QMP)+",server=on,wait=off")
	}
	if c.Port.Name != "" { // max_ports: port 0 is for consoles, and the default of 31 ports takes time to set up
		a = append(a, "-chardev", "socket,id=port,path="+esc(c.Port.Socket)+",server=on,wait=off",
			"-device", "virtio-serial-pci,max_ports=2", "-device", "virtserialport,chardev=port,name="+esc(c.Port.Name))
	}
	if c.Kernel != "" {
		a = append(a, "-kernel", c.Kernel)
		if c.Initrd != "" {
			a = append(a, "-initrd", c.Initrd)
		}
		if c.Append != "" {
			a = append(a, "-append", c.Append)
		}
	}
	if c.Net {
		a = append(a, "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=")
	}
	slot := 0
	for _, d := range c.Disks {
		if d.Hot {
			slot++ // the root bus does not support hot-plug
			a = append(a, "-device", fmt.Sprintf("pcie-root-port,id=%s,chassis=%d,slot=%d", d.port(), slot, slot))
			continue
		}
		a = append(a, d.args()...)
	}
	for _, s := range c.Shares {
		a = append(a, s.args()...)
	}
	return append(a, c.Extra...)
}

// Check returns an error if QEMU lacks a device property that d needs, or if the virtio-fs daemon lacks an option that
// d needs. An empty binary means the installed QEMU.
func Check(ctx context.Context, binary string, d iotax.Device) error {
	switch {
	case d.Disk != nil:
		disk := Disk{Disk: *d.Disk}.fill()
		var need []string
		for _, p := range disk.Device {
			key, _, _ := strings.Cut(p, "=")
			need = append(need, key)
		}
		if disk.IOThreads > 0 {
			need = append(need, vqMapping)
		}
		return checkProperties(ctx, binary, disk.device(), need, "leave the option out, or name a QEMU that has it with binary:")
	case d.Share != nil && d.Share.Type == "virtiofs":
		var need []string
		if d.Share.Window > 0 {
			need = append(need, "cache-size")
		}
		if err := checkProperties(ctx, binary, fsDevice, need, "leave dax: out, or name a QEMU that has it with binary:"); err != nil {
			return err
		}
		if len(d.Share.Options) > 0 || d.Share.Cache == "metadata" {
			v, err := FindVirtiofsd(ctx, d.Share.Binary)
			if err != nil {
				return err
			}
			return v.refuses(ctx, Share{Share: *d.Share})
		}
	}
	return nil
}

const fsDevice = "vhost-user-fs-pci"

// checkProperties returns an error with the hint if the device lacks one of the properties in this QEMU.
func checkProperties(ctx context.Context, binary, device string, need []string, hint string) error {
	if len(need) == 0 {
		return nil
	}
	path, err := Config{Binary: binary}.Look()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := iotax.ExecOutput(exec.CommandContext(ctx, path, "-device", device+",help"))
	if err != nil {
		return &iotax.Error{Op: "list properties of " + device, On: path, Err: err, Hint: hint}
	}
	for _, property := range need {
		if !strings.Contains(string(out), "\n  "+property+"=") {
			return &iotax.Error{Op: "check options", On: path, Err: fmt.Errorf("its %s has no property %s", device, property), Hint: hint}
		}
	}
	return nil
}

// port returns the id of the PCIe root port for a hot-plugged disk.
func (d Disk) port() string { return "p-" + d.ID }

// driveID returns the id of the drive of a disk.
func driveID(disk string) string { return "d-" + disk }

// drive returns the options of the disk's drive for -drive and drive_add.
func (d Disk) drive() string {
	// An overlay file replaces QEMU's snapshot=on, which would ignore flushes.
	file, format, lock := d.Path, d.Format, ",file.locking=off"
	if d.Overlay != "" {
		file, format, lock = d.Overlay, "qcow2", ",backing.driver="+d.Format+",backing.file.driver=file,backing.file.filename="+esc(d.Path)+",backing.file.locking=off"
	}
	drive := "if=none,id=" + driveID(d.ID) + ",file=" + esc(file) + ",format=" + format + ",cache=" + d.Cache + ",aio=" + d.AIO
	if d.NoFlush {
		drive += ",cache.no-flush=on"
	}
	if d.ReadOnly {
		drive += ",readonly=on"
	}
	if d.IOPS > 0 {
		drive += fmt.Sprintf(",throttling.iops-total=%d", d.IOPS)
	}
	if d.Shared {
		drive += lock
	}
	return strings.Join(append([]string{drive}, d.Drive...), ",")
}

func (d Disk) args() []string {
	d = d.fill()
	a := []string{"-drive", d.drive()}
	iothread := ""
	if d.IOThread {
		a = append(a, "-object", "iothread,id=t-"+d.ID)
		iothread = ",iothread=t-" + d.ID
	}
	more := strings.Join(append([]string{iothread}, d.Device...), ",")
	switch {
	case d.Bus == "virtio-scsi":
		a = append(a, "-device", d.device()+",id=c-"+d.ID+more,
			"-device", "scsi-hd,bus=c-"+d.ID+".0,drive="+driveID(d.ID)+",serial="+d.ID)
	case d.IOThreads > 0:
		for i := range d.IOThreads {
			a = append(a, "-object", fmt.Sprintf("iothread,id=t-%s-%d", d.ID, i))
		}
		a = append(a, "-device", d.mapped())
	default:
		a = append(a, "-device", d.device()+",drive="+driveID(d.ID)+",serial="+d.ID+more)
	}
	return a
}

// device returns the name of the disk's QEMU device. For virtio-scsi, it is the name of the controller.
func (d Disk) device() string {
	switch d.Bus {
	case "virtio-scsi":
		return "virtio-scsi-pci"
	case "nvme":
		return "nvme"
	}
	return "virtio-blk-pci"
}

// vqMapping is the property of virtio-blk that distributes its queues over I/O threads.
const vqMapping = "iothread-vq-mapping"

// mapped returns the value of -device for a disk with IOThreads. QEMU accepts lists only in JSON, where numbers must
// not be strings.
func (d Disk) mapped() string {
	type thread struct {
		IOThread string `json:"iothread"`
	}
	threads := make([]thread, d.IOThreads)
	for i := range threads {
		threads[i].IOThread = fmt.Sprintf("t-%s-%d", d.ID, i)
	}
	props := map[string]any{"driver": d.device(), "drive": driveID(d.ID), "serial": d.ID, vqMapping: threads}
	for _, p := range d.Device {
		key, value, _ := strings.Cut(p, "=")
		props[key] = value
		if n, err := strconv.Atoi(value); err == nil {
			props[key] = n
		}
	}
	text, _ := json.Marshal(props) // cannot fail for values of these types
	return string(text)
}

func (s Share) args() []string {
	s = s.fill()
	if s.Type == "9p" {
		fsdev := "local,id=f-" + s.ID + ",path=" + esc(s.Path) + ",security_model=" + s.Security + ",multidevs=remap"
		if s.ReadOnly {
			fsdev += ",readonly=on"
		}
		return []string{"-fsdev", fsdev, "-device", "virtio-9p-pci,fsdev=f-" + s.ID + ",mount_tag=" + s.ID}
	}
	device := fsDevice + ",chardev=s-" + s.ID + ",tag=" + s.ID + ",queue-size=1024"
	if s.Window > 0 {
		device += fmt.Sprintf(",cache-size=%dM", s.Window>>20)
	}
	return []string{"-chardev", "socket,id=s-" + s.ID + ",path=" + esc(s.Socket), "-device", device}
}

// Line returns the QEMU arguments for the disk as one line, for reports.
func (d Disk) Line() string { return strings.Join(d.args(), " ") }

// Line returns the QEMU arguments for the share as one line, for reports. It shortens the socket's path to the file
// name.
func (s Share) Line() string {
	s.Socket = filepath.Base(s.Socket)
	return strings.Join(s.args(), " ")
}

// Modules returns the kernel modules that a guest needs for c's devices, except those for virtio-blk, the network and
// the port.
func (c Config) Modules() []string {
	var m []string
	for _, d := range c.Disks {
		switch d.fill().Bus {
		case "virtio-scsi":
			m = append(m, "virtio_scsi", "sd_mod")
		case "nvme":
			m = append(m, "nvme")
		}
	}
	for _, s := range c.Shares {
		if s.fill().Type == "9p" {
			m = append(m, "9p", "9pnet_virtio")
		} else {
			m = append(m, "virtiofs")
		}
	}
	slices.Sort(m)
	return slices.Compact(m)
}

// esc escapes a value for QEMU's option syntax, where a comma ends a value.
func esc(s string) string { return strings.ReplaceAll(s, ",", ",,") }
