package guest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
)

// A Kernel is what a guest boots, with the modules that belong to it.
type Kernel struct {
	Release string // as uname -r says it
	Source  string // the file it came from: /boot/vmlinuz-…
	Image   string // what QEMU loads: an uncompressed ELF where that can be had, else Source
	Modules string // its module tree: …/lib/modules/RELEASE
}

// Log is told what takes long. It may be nil.
type Log func(format string, args ...any)

func (l Log) printf(format string, args ...any) {
	if l != nil {
		l(format, args...)
	}
}

// needed are the modules without which a kernel is no use here; the cloud kernels of the
// distributions lack 9p.
var needed = []string{"virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "ext4", "9p", "9pnet_virtio", "virtiofs"}

// HaveKernel returns the kernel of a file of this host's, with its modules beside it, or with no file the one that FindKernel
// finds; where there is none, it fetches one.
func HaveKernel(ctx context.Context, cacheDir, file string, log Log) (*Kernel, error) {
	if file != "" {
		k, err := OpenKernel(cacheDir, file, "")
		if err != nil {
			return nil, &iotax.Error{Op: "open the kernel for guests", Err: err,
				Hint: "the micro-guest needs a kernel with its modules: …/boot/vmlinuz-RELEASE beside …/lib/modules/RELEASE"}
		}
		return k, nil
	}
	k, err := FindKernel(ctx, cacheDir, log)
	if err == nil {
		return k, nil
	}
	k, ferr := FetchKernel(ctx, cacheDir, log)
	if ferr == nil {
		return k, nil
	}
	var missing, failed *iotax.Error
	if !errors.As(err, &missing) || !errors.As(ferr, &failed) {
		return nil, errors.Join(err, ferr)
	}
	bare := *failed
	bare.Hint = ""
	return nil, &iotax.Error{Op: missing.Op, Err: fmt.Errorf("%w; and none could be had: %w", missing.Err, &bare), Hint: failed.Hint} // fetching one is no hint any more
}

// FindKernel returns the kernel to boot guests with: the one this host runs, if it can be read and
// has the modules that guests need, else the newest such one in /boot, else the newest that
// FetchKernel left in cacheDir. The error of a host without one is an *iotax.Error.
func FindKernel(ctx context.Context, cacheDir string, log Log) (*Kernel, error) {
	var running string
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		running = strings.TrimSpace(string(b))
	}
	var why []string
	try := func(vmlinuz, modules string) *Kernel {
		k, err := OpenKernel(cacheDir, vmlinuz, modules)
		if err != nil {
			why = append(why, err.Error())
			return nil
		}
		return k
	}
	if runtime.GOOS == "linux" {
		host := kernelsIn("/")
		slices.SortStableFunc(host, func(a, b [2]string) int {
			switch own := "vmlinuz-" + running; {
			case filepath.Base(a[0]) == own:
				return -1
			case filepath.Base(b[0]) == own:
				return 1
			}
			return 0
		})
		for _, c := range host {
			if k := try(c[0], c[1]); k != nil {
				return k, nil
			}
		}
		trees, _ := filepath.Glob(filepath.Join(cacheDir, "kernel", "*"))
		var cached [][2]string
		for _, t := range trees {
			cached = append(cached, kernelsIn(t)...)
		}
		newestFirst(cached)
		for _, c := range cached {
			if k := try(c[0], c[1]); k != nil {
				return k, nil
			}
		}
	}
	err := errors.New("no kernel in /boot that this user can read and that has the modules guests need")
	if len(why) > 0 {
		err = fmt.Errorf("%w (%s)", err, why[0])
	}
	return nil, &iotax.Error{Op: "find a kernel for guests", Err: err,
		Hint: "`iotax kernel --fetch` fetches one with apt-get, and so does a run that boots a guest; elsewhere name one: {qemu: {kernel: /path/to/vmlinuz}}"}
}

// kernelsIn lists the kernels of a root directory with their module trees, newest first.
func kernelsIn(root string) [][2]string {
	var found [][2]string
	names, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	for _, n := range names {
		release := strings.TrimPrefix(filepath.Base(n), "vmlinuz-")
		for _, lib := range []string{"lib/modules", "usr/lib/modules"} {
			if dir := filepath.Join(root, lib, release); exists(dir) {
				found = append(found, [2]string{n, dir})
				break
			}
		}
	}
	newestFirst(found)
	return found
}

func newestFirst(list [][2]string) {
	slices.SortStableFunc(list, func(a, b [2]string) int {
		return compareRelease(filepath.Base(b[0]), filepath.Base(a[0]))
	})
}

var numbers = regexp.MustCompile(`\d+`)

// compareRelease orders releases by their numbers: 6.1.0-9 before 6.1.0-56.
func compareRelease(a, b string) int {
	x, y := numbers.FindAllString(a, -1), numbers.FindAllString(b, -1)
	for i := 0; i < len(x) && i < len(y); i++ {
		p, perr := strconv.ParseUint(x[i], 10, 64)
		q, qerr := strconv.ParseUint(y[i], 10, 64)
		if c := cmp.Compare(p, q); perr == nil && qerr == nil && c != 0 {
			return c
		}
	}
	return len(x) - len(y)
}

// OpenKernel makes a kernel file of this host ready to boot: it checks that the modules guests need
// are there, and unpacks the ELF kernel inside into cacheDir. An empty modules looks for the tree
// beside the file (../lib/modules/RELEASE), then in /lib/modules.
func OpenKernel(cacheDir, vmlinuz, modules string) (*Kernel, error) {
	st, err := os.Stat(vmlinuz)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(vmlinuz)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 64<<10)
	n, _ := io.ReadFull(f, head)
	release, headErr := bzRelease(head[:n])
	if headErr != nil {
		release = strings.TrimPrefix(filepath.Base(vmlinuz), "vmlinuz-")
	}
	if modules == "" {
		root := filepath.Dir(filepath.Dir(vmlinuz))
		for _, d := range []string{filepath.Join(root, "lib/modules"), filepath.Join(root, "usr/lib/modules"), "/lib/modules", "/usr/lib/modules"} {
			if exists(filepath.Join(d, release)) {
				modules = filepath.Join(d, release)
				break
			}
		}
		if modules == "" {
			return nil, fmt.Errorf("%s: no modules of release %s beside it or in /lib/modules", vmlinuz, release)
		}
	}
	k := &Kernel{Release: release, Source: vmlinuz, Image: vmlinuz, Modules: modules}
	tree, err := openModules(modules)
	if err != nil {
		return nil, err
	}
	for _, m := range needed {
		if !tree.has(m) {
			return nil, fmt.Errorf("%s has no module %s", modules, m)
		}
	}
	if headErr != nil {
		return k, nil // not x86, or an ELF already: QEMU loads it as it is
	}
	out := filepath.Join(cacheDir, "kernel", fmt.Sprintf("vmlinux-%s-%d-%x", release, st.Size(), st.ModTime().UnixNano()))
	if exists(out) {
		k.Image = out
		return k, nil
	}
	if exists(out + ".no-pvh") {
		return k, nil
	}
	image, err := os.ReadFile(vmlinuz)
	if err != nil {
		return nil, err
	}
	elfImage, err := extractVmlinux(image)
	if errors.Is(err, errNoPVH) {
		return k, writeFile(out+".no-pvh", strings.NewReader(""), 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vmlinuz, err)
	}
	program, size, err := loaded(bytes.NewReader(elfImage)) // QEMU reads the whole file
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vmlinuz, err)
	}
	if err := writeFile(out, io.NewSectionReader(program, 0, int64(size)), 0o644); err != nil {
		return nil, err
	}
	k.Image = out
	return k, nil
}

// FetchKernel downloads the distribution's generic kernel package and unpacks what guests need of
// it into cacheDir. It installs nothing and needs no privileges. Package managers other than
// apt are not supported, and are an *iotax.Error.
func FetchKernel(ctx context.Context, cacheDir string, log Log) (*Kernel, error) {
	fail := func(err error, hint string) (*Kernel, error) {
		return nil, &iotax.Error{Op: "fetch a kernel for guests", Err: err, Hint: hint}
	}
	const own = "install a generic kernel, or name one: {qemu: {kernel: /path/to/vmlinuz}}"
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fail(err, own)
		}
	}
	dir := filepath.Join(cacheDir, "kernel")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err, "")
	}
	tmp, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return fail(err, "")
	}
	defer os.RemoveAll(tmp)
	apt := newApt(tmp)

	release, err := apt.kernelRelease(ctx)
	if err != nil {
		// A fresh machine may have no package lists; they are fetched into the cache, as the
		// system's own need root.
		log.printf("fetching package lists")
		if uerr := apt.update(ctx); uerr != nil {
			return fail(errors.Join(err, uerr), own)
		}
		if release, err = apt.kernelRelease(ctx); err != nil {
			return fail(err, own)
		}
	}
	root := filepath.Join(dir, release+keepEdition)
	vmlinuz, tree := filepath.Join(root, "boot", "vmlinuz-"+release), filepath.Join(root, "lib/modules", release)
	if exists(vmlinuz) {
		k, err := OpenKernel(cacheDir, vmlinuz, tree)
		if err != nil {
			return fail(err, "remove "+root)
		}
		return k, nil
	}
	log.printf("fetching kernel package linux-image-%s into %s (nothing is installed)", release, dir)
	names := []string{"linux-image-" + release}
	for _, optional := range []string{"linux-modules-" + release, "linux-modules-extra-" + release} {
		if apt.known(ctx, optional) {
			names = append(names, optional)
		}
	}
	if err := apt.download(ctx, names); err != nil {
		// Old lists name packages that are no longer there; but then the release may be another.
		return fail(err, "refresh the package lists: `apt-get update`")
	}
	debs, _ := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if len(debs) != len(names) {
		return fail(fmt.Errorf("apt-get download left %d of %d packages", len(debs), len(names)), own)
	}
	unpacked := filepath.Join(tmp, "root")
	for _, d := range debs {
		if err := unpackDeb(ctx, d, unpacked); err != nil {
			return fail(err, "")
		}
	}
	if err := os.Rename(unpacked, root); err != nil && !exists(vmlinuz) {
		return fail(err, "")
	}
	k, err := OpenKernel(cacheDir, vmlinuz, tree)
	if err != nil {
		return fail(err, own)
	}
	return k, nil
}

// fetchTime bounds one step of fetching a kernel: some 100 MB from a slow mirror.
const fetchTime = 30 * time.Minute

// apt runs apt's tools. Everything they write goes to dir.
type apt struct {
	dir  string
	opts []string
}

func newApt(dir string) *apt { return &apt{dir: dir} }

func (a *apt) run(ctx context.Context, tool string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, append(slices.Clone(a.opts), args...)...)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stderr iotax.Capture
	cmd.Stderr = &stderr
	out, err := iotax.ExecOutput(cmd)
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, lastLines(stderr.String(), 5))
	}
	return string(out), nil
}

func (a *apt) update(ctx context.Context) error {
	lists := filepath.Join(a.dir, "lists")
	cache := filepath.Join(a.dir, "cache")
	for _, d := range []string{filepath.Join(lists, "partial"), filepath.Join(cache, "archives", "partial")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	a.opts = []string{"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + cache}
	_, err := a.run(ctx, "apt-get", "-q", "update")
	return err
}

// metaPackages depend on the newest generic kernel: Debian's, then Ubuntu's.
func metaPackages() []string {
	return []string{"linux-image-" + runtime.GOARCH, "linux-image-generic"}
}

func (a *apt) kernelRelease(ctx context.Context) (string, error) {
	var last error
	for _, meta := range metaPackages() {
		out, err := a.run(ctx, "apt-cache", "depends", meta)
		if err != nil {
			last = err
			continue
		}
		if r := imageRelease(out); r != "" {
			return r, nil
		}
		last = fmt.Errorf("%s depends on no kernel", meta)
	}
	return "", last
}

var imageDep = regexp.MustCompile(`(?m)^\s*\|?Depends: linux-image-(\d\S*)$`)

// imageRelease finds the kernel in what apt-cache says a meta package depends on.
func imageRelease(depends string) string {
	if m := imageDep.FindStringSubmatch(depends); m != nil {
		return m[1]
	}
	return ""
}

func (a *apt) known(ctx context.Context, name string) bool {
	out, err := a.run(ctx, "apt-cache", "policy", name)
	return err == nil && strings.Contains(out, "Candidate:") && !strings.Contains(out, "Candidate: (none)")
}

func (a *apt) download(ctx context.Context, names []string) error {
	_, err := a.run(ctx, "apt-get", append([]string{"-q", "download"}, names...)...)
	return err
}

// keepEdition ends the name of the directory of a fetched kernel. It changes with keep: a kernel that an older iotax unpacked may
// lack modules.
const keepEdition = "-2"

// keep says which files of a kernel package a guest may want. The rest is three quarters of it.
func keep(name string) bool {
	if strings.HasPrefix(name, "boot/vmlinuz-") {
		return true
	}
	_, below, ok := strings.Cut(name, "lib/modules/")
	if !ok {
		return false
	}
	_, below, _ = strings.Cut(below, "/") // the release
	if strings.HasPrefix(below, "modules.builtin") {
		return true
	}
	for _, dir := range []string{"arch/", "block/", "crypto/", "fs/", "lib/", "net/9p/", "net/core/", "net/dns_resolver/", "net/sunrpc/", "net/vmw_vsock/",
		"drivers/block/", "drivers/cdrom/", "drivers/char/hw_random/", "drivers/char/virtio_console", "drivers/firmware/", "drivers/md/",
		"drivers/net/net_failover", "drivers/net/virtio_net", "drivers/nvdimm/", "drivers/nvme/", "drivers/scsi/", "drivers/virtio/"} {
		if strings.HasPrefix(below, "kernel/"+dir) {
			return true
		}
	}
	return false
}

// unpackDeb unpacks what keep keeps of a package below root.
func unpackDeb(ctx context.Context, deb, root string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var stderr iotax.Capture
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_, _ = io.Copy(io.Discard, out)
		if werr := cmd.Wait(); werr != nil && err == nil {
			err = fmt.Errorf("%s: %w: %s", cmd, werr, lastLines(stderr.String(), 5))
		}
	}()
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", deb, err)
		}
		name := strings.TrimPrefix(filepath.Clean("/"+h.Name), "/")
		if h.Typeflag != tar.TypeReg || !keep(name) {
			continue
		}
		name = strings.TrimPrefix(name, "usr/") // where the distribution has merged /usr
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := writeFile(path, r, 0o644); err != nil {
			return err
		}
		if err := os.Chtimes(path, h.ModTime, h.ModTime); err != nil {
			return err
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// writeFile writes r to path under a temporary name first, so that a half file never has the name.
func writeFile(path string, r io.Reader, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return iotax.WriteWhole(path, mode, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
