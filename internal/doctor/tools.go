package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"iotax"
	"iotax/fio"
	"iotax/internal/agent"
)

var qemuTools = map[string]string{"apt-get": "qemu-utils", "zypper": "qemu-tools", "brew": "qemu", "": "qemu-img"}

// packages contains, for each tool and package manager, the name of the package that contains the tool, unless it is
// the name of the tool. Several packages are separated by spaces. The key "" applies to all other managers.
var packages = map[string]map[string]string{
	"qemu-system-x86_64":  {"apt-get": "qemu-system-x86", "dnf": "qemu-system-x86-core", "zypper": "qemu-x86", "pacman": "qemu-system-x86", "brew": "qemu"},
	"qemu-system-aarch64": {"apt-get": "qemu-system-arm", "dnf": "qemu-system-aarch64-core", "zypper": "qemu-arm", "brew": "qemu"},
	"mke2fs":              {"": "e2fsprogs"},
	"docker":              {"apt-get": "docker.io", "dnf": "moby-engine"},
	"qemu-img":            qemuTools,
	"qemu-nbd":            qemuTools,
	"qemu-io":             qemuTools,
	"qemu-storage-daemon": qemuTools,
	"nbdcopy":             {"apt-get": "libnbd-bin", "": "libnbd"},
	"nbdinfo":             {"apt-get": "libnbd-bin", "": "libnbd"},
	"ganesha.nfsd":        {"apt-get": "nfs-ganesha nfs-ganesha-vfs", "dnf": "nfs-ganesha nfs-ganesha-vfs", "": "nfs-ganesha"},
	"mksquashfs":          {"": "squashfs-tools"},
	"mkfs.erofs":          {"": "erofs-utils"},
	"ip":                  {"": "iproute2", "dnf": "iproute"},
	"tc":                  {"": "iproute2", "dnf": "iproute-tc"},
	"nsenter":             {"": "util-linux"},
}

// install returns the command that installs the tools with this host's package manager.
func install(tools ...string) string {
	manager, command := "", "install"
	for _, m := range []string{"apt-get", "dnf", "zypper", "pacman", "apk", "brew"} {
		if _, err := exec.LookPath(m); err == nil {
			manager, command = m, m+" install"
			break
		}
	}
	switch manager {
	case "pacman":
		command = "pacman -S"
	case "apk":
		command = "apk add"
	}
	names := map[string]bool{}
	for _, tool := range tools {
		pkg := cmp.Or(packages[tool][manager], packages[tool][""], tool)
		if release, _ := os.ReadFile("/etc/debian_version"); tool == "virtiofsd" && manager == "apt-get" && (strings.HasPrefix(string(release), "12.") || strings.HasPrefix(string(release), "bookworm")) {
			pkg = "qemu-system-common" // contains virtiofsd in Debian 12 and Ubuntu 22.04
		}
		for name := range strings.FieldsSeq(pkg) {
			names[name] = true
		}
	}
	return command + " " + strings.Join(slices.Sorted(maps.Keys(names)), " ")
}

// A Tool is a program that a run starts on this host.
type Tool struct {
	Name string
	Find func(ctx context.Context) error // nil searches PATH and the sbin directories
	Get  string                          // command that installs the tool, if no package contains it
}

// Lacking checks all tools at once. The Check lists the tools that this host lacks, or all tools if it lacks none. Its
// hint contains the commands that install the missing tools.
func Lacking(ctx context.Context, tools []Tool) Check {
	var names, lacks, packed, paths []string
	get := map[string]bool{}
	for _, t := range tools {
		names = append(names, t.Name)
		find := t.Find
		if find == nil {
			find = func(context.Context) error {
				_, err := agent.Tool(t.Name)
				return err
			}
		}
		if find(ctx) == nil {
			continue
		}
		if lacks = append(lacks, t.Name); t.Get != "" {
			get[t.Get] = true
		} else if strings.ContainsAny(t.Name, `/\`) {
			paths = append(paths, t.Name)
		} else {
			packed = append(packed, t.Name)
		}
	}
	if len(lacks) == 0 {
		return Check{Status: OK, Detail: strings.Join(names, ", ")}
	}
	lines := slices.Sorted(maps.Keys(get))
	if len(paths) > 0 {
		lines = append(lines, "name a program that exists")
	}
	if len(packed) > 0 {
		lines = append([]string{install(packed...)}, lines...)
	}
	return Check{Status: Missing, Detail: "this host lacks " + strings.Join(lacks, ", "), Hint: strings.Join(lines, " && ")}
}

// output returns the standard output of a command on this host. ok is false if the command was not found.
func (e *examiner) output(ctx context.Context, args ...string) (out string, ok bool, err error) {
	b, err := iotax.Output(ctx, e.Host, args...)
	exit := (*iotax.ExitError)(nil)
	return string(b), !(errors.As(err, &exit) && exit.Code == 127), err
}

// version checks a tool that prints its version.
func (e *examiner) version(ctx context.Context, tool string, args ...string) Check {
	out, found, err := e.output(ctx, append([]string{tool}, args...)...)
	switch {
	case !found:
		return Check{Status: Missing, Detail: "not found in PATH", Hint: install(tool)}
	case err != nil:
		return failed(ctx, Warn, err, install(tool))
	}
	return Check{Status: OK, Detail: firstLine(out)}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(s)
}

func (e *examiner) fio(ctx context.Context) Check {
	c := e.version(ctx, "fio", "--version")
	if c.Status != OK {
		return c
	}
	version := strings.TrimPrefix(c.Detail, "fio-")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 3 {
		return Check{Status: Warn, Detail: c.Detail + " is too old: latency histograms need 3.0", Hint: install("fio")}
	}
	c.Detail = version
	return c
}

// engineNames returns the fio engines to try: the asynchronous engines, best first, then a synchronous engine.
func engineNames() []string {
	switch runtime.GOOS {
	case "linux":
		return []string{"io_uring", "libaio", "posixaio", "psync"}
	case "windows":
		return []string{"windowsaio", "sync"}
	}
	return []string{"posixaio", "psync"}
}

// engines runs a small job with each engine. An engine that fio was built with may still fail because of the kernel, a
// seccomp filter or a limit.
func (e *examiner) engines(ctx context.Context) Check {
	out, found, err := e.output(ctx, "fio", "--enghelp")
	if !found {
		return Check{} // the fio check reports this
	}
	if err != nil {
		return failed(ctx, Warn, err, "")
	}
	built := strings.Fields(out)
	dir, err := os.MkdirTemp(e.TempDir, "iotax-doctor-")
	if err != nil {
		return failed(ctx, Warn, err, "make "+e.TempDir+" writable")
	}
	defer os.RemoveAll(dir)
	names := engineNames()
	why := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		if !slices.Contains(built, name) {
			why[i] = errors.New("not in this fio")
			continue
		}
		wg.Go(func() { why[i] = e.engine(ctx, name, dir) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return failed(ctx, Warn, ctx.Err(), "")
	}
	var work, broken []string
	for i, name := range names {
		if why[i] == nil {
			work = append(work, name)
		} else {
			broken = append(broken, name+" ("+why[i].Error()+")")
		}
	}
	c := Check{Status: OK, Detail: strings.Join(work, ", ")}
	if len(broken) > 0 {
		c.Detail += "; not: " + strings.Join(broken, ", ")
	}
	switch best := names[0]; {
	case len(work) == 0:
		c.Status, c.Hint = Missing, "run `fio --name=x --ioengine=psync --rw=write --size=64k --filename="+filepath.Join(e.TempDir, "x")+"` and read its error"
	case why[0] != nil:
		c.Status = Warn
		c.Hint = work[0] + " is used instead"
		if best == "io_uring" {
			c.Hint = "allow io_uring (`sysctl kernel.io_uring_disabled=0`, or the container's seccomp profile); until then " + work[0] + " is used"
		}
	}
	return c
}

// engine does 16 I/Os on a 64 KiB file in dir. fio runs in dir with a relative file name, because it treats characters
// such as # and : in a path specially.
func (e *examiner) engine(ctx context.Context, name, dir string) error {
	var out bytes.Buffer
	err := e.Host.Run(ctx, &iotax.Cmd{Args: []string{"fio", "--name=doctor", "--ioengine=" + name, "--filename=" + name, "--rw=randrw", "--bs=4k", "--size=64k", "--output-format=json"}, Dir: dir, Stdout: &out})
	if exit := (*iotax.ExitError)(nil); errors.As(err, &exit) && strings.TrimSpace(exit.Stderr) != "" {
		return errors.New(firstLine(exit.Stderr))
	}
	if err != nil {
		return err
	}
	r, err := fio.Parse(out.Bytes())
	if err != nil {
		return err
	}
	for _, j := range r.Jobs {
		if j.Error != 0 {
			return fmt.Errorf("error %d", j.Error)
		}
	}
	return nil
}

func (e *examiner) qemu(ctx context.Context) Check {
	arch := cmp.Or(map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH], runtime.GOARCH)
	name := "qemu-system-" + arch
	c := e.version(ctx, name, "--version")
	c.Detail = strings.TrimPrefix(c.Detail, "QEMU emulator version ")
	return c
}

func (e *examiner) busybox(ctx context.Context) Check {
	c := e.version(ctx, "busybox")
	c.Detail, _, _ = strings.Cut(c.Detail, " multi-call")
	return c
}

func (e *examiner) mke2fs(ctx context.Context) Check {
	if runtime.GOOS != "linux" {
		return Check{}
	}
	for _, name := range []string{"mke2fs", "/usr/sbin/mke2fs", "/sbin/mke2fs"} { // a user's PATH may lack the sbin directories
		var out bytes.Buffer
		err := e.Host.Run(ctx, &iotax.Cmd{Args: []string{name, "-V"}, Stdout: &out, Stderr: &out})
		if exit := (*iotax.ExitError)(nil); errors.As(err, &exit) && exit.Code == 127 {
			continue
		}
		if err != nil {
			return failed(ctx, Warn, err, "")
		}
		return Check{Status: OK, Detail: strings.TrimPrefix(firstLine(out.String()), "mke2fs ")}
	}
	return Check{Status: Missing, Detail: "not found: guest disks with a file system need it", Hint: install("mke2fs")}
}

func (e *examiner) iperf3(ctx context.Context) Check {
	c := e.version(ctx, "iperf3", "--version")
	c.Detail, _, _ = strings.Cut(strings.TrimPrefix(c.Detail, "iperf "), " (")
	return c
}

// nbd checks qemu-nbd, which exports volumes, and nbdcopy, which copies them.
func (e *examiner) nbd(ctx context.Context) Check {
	c := e.version(ctx, "qemu-nbd", "--version")
	if c.Status != OK {
		return c
	}
	copier := e.version(ctx, "nbdcopy", "--version")
	if copier.Status != OK {
		copier.Detail = "nbdcopy: " + copier.Detail
		return copier
	}
	c.Detail, _, _ = strings.Cut(c.Detail, " (")
	return Check{Status: OK, Detail: c.Detail + ", " + copier.Detail}
}
