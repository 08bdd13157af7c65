package guest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/u-root/u-root/pkg/kmodule"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"iotax"
	"iotax/internal/agent"
)

// init locks the main goroutine of PID 1 to the main thread. Main depends on this.
func init() {
	if os.Getpid() == 1 {
		runtime.LockOSThread()
	}
}

// IsInit reports whether this process belongs to a micro-guest: it is the guest's PID 1, modprobe or poweroff. The
// program must then call Main and nothing else.
func IsInit() bool {
	switch {
	case os.Getpid() == 1:
	case os.Args[0] == "/sbin/modprobe", os.Args[0] == "modprobe", os.Args[0] == "poweroff", os.Args[0] == "/sbin/poweroff":
	default:
		return false
	}
	b, err := os.ReadFile("/proc/cmdline")
	if errors.Is(err, os.ErrNotExist) && os.Getpid() == 1 && os.Getenv("IOTAX_GUEST") == "1" {
		if unix.Mount("proc", "/proc", "proc", 0, "") == nil {
			b, err = os.ReadFile("/proc/cmdline")
		}
	}
	is := err == nil && isMarked(string(b))
	if !is {
		runtime.UnlockOSThread()
	}
	return is
}

// Main runs the program in a guest. It never returns. Its agent runs commands on m, the local machine.
//
// PID 1 must reap orphans, but not the children that other goroutines wait for. Orphans become children of the main
// thread. The main thread therefore must not start processes, and reaps only its own children.
func Main(m iotax.Machine) {
	switch filepath.Base(os.Args[0]) {
	case "modprobe":
		os.Exit(modprobe(os.Args[1:]))
	case "poweroff":
		if err := unix.Kill(1, unix.SIGUSR2); err != nil {
			fmt.Fprintln(os.Stderr, "poweroff:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	defer func() {
		if r := recover(); r != nil {
			fail(fmt.Errorf("panic: %v", r))
		}
	}()
	power, ended := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(power, unix.SIGUSR2, unix.SIGPWR, unix.SIGTERM, unix.SIGINT)
	signal.Notify(ended, unix.SIGCHLD)
	if err := start(m); err != nil {
		fail(err)
	}
	for {
		select {
		case <-power:
			off()
		case <-ended:
		}
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, nil, unix.WNOHANG|unix.WNOTHREAD, nil)
		}
	}
}

func fail(err error) {
	mark("failed", err.Error())
	off()
}

func off() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	for { // PID 1 must not return
		time.Sleep(time.Hour)
	}
}

var marks struct {
	sync.Mutex
	text bytes.Buffer
}

// mark reports on the console that the guest has reached a phase, and records the phase for /run/iotax/boot.
func mark(name, detail string) {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	m := Mark{Name: name, At: time.Duration(ts.Nano()), Detail: detail}
	marks.Lock()
	defer marks.Unlock()
	// Use a single write, so that kernel messages cannot split the line.
	_, _ = os.Stdout.WriteString(m.String() + "\n")
	fmt.Fprintf(&marks.text, "%s %.3f\n", name, m.At.Seconds())
}

// start boots the guest and starts its agent. If the kernel command line contains a command, start runs only that
// command and powers off.
func start(m iotax.Machine) error {
	mark("init", "")
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	boot, err := parseBoot(string(cmdline))
	if err != nil {
		return err
	}
	if err := mounts(); err != nil {
		return err
	}
	for k, v := range map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh",
	} {
		_ = os.Setenv(k, v)
	}
	_ = os.Unsetenv("IOTAX_GUEST")
	_ = unix.Sethostname([]byte(cmp.Or(boot.Name, "guest")))
	limits()

	probe, err := kmodule.NewProber(kmodule.ProbeOpts{})
	if err != nil {
		return err
	}
	load := func(names ...string) error {
		for _, n := range names {
			if err := probe.Probe(n, ""); err != nil {
				return fmt.Errorf("module %s: %w", n, err)
			}
		}
		return nil
	}
	var port *os.File
	var g errgroup.Group
	g.Go(func() error {
		_ = load("crc32c_generic") // newer kernels have it built in
		return load("ext4")
	})
	if err := load("virtio_pci"); err != nil {
		return err
	}
	g.Go(func() error {
		if err := load("virtio_blk"); err != nil {
			return err
		}
		return load(boot.Modules...)
	})
	alone := len(os.Args) > 1 // the command after -- on the kernel command line
	if !alone {
		g.Go(func() error {
			if err := load("virtio_net"); err != nil {
				return err
			}
			if err := network(); err != nil {
				return fmt.Errorf("network: %w", err)
			}
			mark("network", "")
			return nil
		})
		g.Go(func() (err error) {
			if err = load("virtio_console"); err == nil {
				port, err = agentPort()
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	go watchDisks()
	if !boot.NoTools {
		if err := mountTools(boot.OnDisk); err != nil {
			return fmt.Errorf("tools disk: %w", err)
		}
	}
	linkDisks()
	if alone {
		mark("ready", "")
		return runAlone(os.Args[1:])
	}
	if boot.Root != nil {
		if err := changeRoot(boot.Root); err != nil {
			return fmt.Errorf("root file system: %w", err)
		}
	}
	if err := os.Chdir("/root"); err != nil { // a user's root file system may lack /root
		_ = os.Chdir("/")
	}
	mark("ready", "")
	marks.Lock()
	err = os.WriteFile("/run/iotax/boot", marks.text.Bytes(), 0o644)
	marks.Unlock()
	if err != nil {
		return err
	}
	go func() {
		err := agent.Serve(context.Background(), m, port, port)
		fail(cmp.Or(err, errors.New("the host closed the connection")))
	}()
	return nil
}

// agentPort waits up to 10 s for the agent's serial port and opens it.
func agentPort() (*os.File, error) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, file := range names {
			if name, _ := os.ReadFile(file); strings.TrimSpace(string(name)) == AgentPort {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_RDWR, 0)
			}
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("serial port %s did not appear within 10 s", AgentPort)
		}
	}
}

// runAlone runs a command on the console, prints its exit status as a mark, and powers off.
func runAlone(args []string) error {
	c := exec.Command(args[0], args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	code := 0
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return err
		}
		code = exit.ExitCode()
	}
	mark("exit", strconv.Itoa(code))
	off()
	return nil
}

// mounts mounts the usual file systems of Linux and makes the usual links. IsInit has already mounted /proc.
func mounts() error {
	for _, m := range []struct{ fs, dir, opts string }{
		{"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"devpts", "/dev/pts", "mode=620,ptmxmode=666"}, {"tmpfs", "/dev/shm", "mode=1777"},
		{"tmpfs", "/run", "mode=755"}, {"tmpfs", "/tmp", "mode=1777"}, {"cgroup2", "/sys/fs/cgroup", ""},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil && m.fs != "cgroup2" {
			return err
		}
		if err := unix.Mount(m.fs, m.dir, m.fs, unix.MS_NOSUID, m.opts); err != nil && !errors.Is(err, unix.EBUSY) {
			if m.fs == "cgroup2" {
				continue // only containers need cgroup2
			}
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := os.MkdirAll("/run/iotax/tools", 0o755); err != nil {
		return err
	}
	for link, to := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2", "/etc/mtab": "/proc/self/mounts", "/var/run": "/run"} {
		_ = os.Symlink(to, link)
	}
	return nil
}

// limits raises resource limits that load generators may reach.
func limits() {
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	_ = os.WriteFile("/proc/sys/fs/aio-max-nr", []byte("1048576"), 0o644)
}

// network configures the network card with the address that QEMU's user network expects. DHCP would take a second.
func network() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return err
	}
	var eth netlink.Link
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if eth, err = netlink.LinkByName("eth0"); err == nil {
			break
		}
		if time.Now().After(end) {
			return err
		}
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(Address), Mask: net.CIDRMask(prefix, 32)}}
	if err := netlink.AddrAdd(eth, addr); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(eth); err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.ParseIP(Gateway)})
}

// mountTools mounts the tools disk. If asRoot is true, it makes the disk the root file system. Otherwise it links the
// files on the disk into the root.
func mountTools(asRoot bool) error {
	dev, err := awaitDisk(ToolsSerial)
	if err != nil {
		return err
	}
	if asRoot {
		return pivot("/dev/" + dev)
	}
	const at = "/run/iotax/tools"
	if err := unix.Mount("/dev/"+dev, at, "ext4", unix.MS_RDONLY|unix.MS_NOATIME, "noload"); err != nil {
		return err
	}
	for _, dir := range []string{"", "etc"} {
		linkAll(filepath.Join(at, dir), filepath.Join(at, dir), "/"+dir)
	}
	linkTools(at, at, "/")
	return nil
}

// linkTools makes links in root to the programs and libraries in tree. `seen` is the path of tree after the root has
// changed. /lib and /sbin are not links themselves, because they also contain the modules and modprobe.
func linkTools(tree, seen, root string) {
	for link, to := range map[string]string{"bin": "usr/bin", "lib64": "usr/lib64", "lib32": "usr/lib32"} {
		_ = os.Symlink(to, filepath.Join(root, link))
	}
	for _, dir := range []string{"lib", "sbin"} {
		linkAll(filepath.Join(tree, "usr", dir), filepath.Join(seen, "usr", dir), filepath.Join(root, dir))
	}
}

// linkAll makes links in the directory `in` to the entries of dir, except "lost+found" and "etc". `seen` is the path of
// dir after the root has changed.
func linkAll(dir, seen, in string) {
	entries, _ := os.ReadDir(dir) // ReadDir fails if the tools disk lacks dir
	for _, e := range entries {
		if e.Name() != "lost+found" && e.Name() != "etc" {
			_ = os.Symlink(filepath.Join(seen, e.Name()), filepath.Join(in, e.Name()))
		}
	}
}

// modprobe loads modules by name or alias. The kernel calls it as `modprobe -q -- fs-9p`.
func modprobe(args []string) int {
	probe, err := kmodule.NewProber(kmodule.ProbeOpts{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "modprobe:", err)
		return 1
	}
	var u unix.Utsname
	_ = unix.Uname(&u)
	aliases, _ := os.ReadFile("/lib/modules/" + unix.ByteSliceToString(u.Release[:]) + "/modules.alias")
	code, quiet := 0, false
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			quiet = quiet || a == "-q"
			continue
		}
		names := []string{a}
		for _, l := range strings.Split(string(aliases), "\n") {
			if f := strings.Fields(l); len(f) == 3 && f[1] == a {
				names = append(names, f[2])
			}
		}
		var errs []error
		ok := false
		for _, n := range names {
			if err := probe.Probe(n, ""); err == nil {
				ok = true
			} else {
				errs = append(errs, err)
			}
		}
		if !ok {
			code = 1
			if !quiet {
				fmt.Fprintln(os.Stderr, "modprobe:", errors.Join(errs...))
			}
		}
	}
	return code
}

// disks returns the names of the virtio, NVMe and SCSI disks whose serial numbers have no blanks or slashes. The keys
// are "bus-serial".
func disks() map[string]string {
	found := map[string]string{}
	names, _ := filepath.Glob("/sys/block/*")
	for _, dir := range names {
		name := filepath.Base(dir)
		read := func(file string) string {
			b, _ := os.ReadFile(filepath.Join(dir, file))
			return strings.TrimSpace(strings.Trim(string(b), "\x00"))
		}
		var serial, bus string
		switch {
		case strings.HasPrefix(name, "vd"):
			bus, serial = "virtio", read("serial")
		case strings.HasPrefix(name, "nvme"):
			bus, serial = "nvme", read("device/serial")
		case strings.HasPrefix(name, "sd"):
			// Vital product data page 0x80 has a header of four bytes before the serial number.
			if b, err := os.ReadFile(filepath.Join(dir, "device/vpd_pg80")); err == nil && len(b) > 4 {
				bus, serial = "scsi", strings.TrimSpace(strings.Trim(string(b[4:]), "\x00"))
			}
		}
		if serial != "" && !strings.ContainsAny(serial, "/ ") {
			found[bus+"-"+serial] = name
		}
	}
	return found
}

// linkDisks updates the links in /dev/disk/by-id to match the present disks.
func linkDisks() {
	const dir = "/dev/disk/by-id"
	if os.MkdirAll(dir, 0o755) != nil {
		return
	}
	now := disks()
	old, _ := os.ReadDir(dir)
	for _, e := range old {
		link := filepath.Join(dir, e.Name())
		to, _ := os.Readlink(link)
		if name, ok := now[e.Name()]; ok && to == "../../"+name {
			delete(now, e.Name())
			continue
		}
		_ = os.Remove(link)
	}
	for id, name := range now {
		_ = os.Symlink("../../"+name, filepath.Join(dir, id))
	}
}

// watchDisks calls linkDisks when the kernel reports that a disk was added or removed.
func watchDisks() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		return
	}
	linkDisks() // for disks that were added before the socket was bound
	buf := make([]byte, 16<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		if err != nil || bytes.Contains(buf[:n], []byte("SUBSYSTEM=block")) {
			linkDisks()
		}
	}
}
