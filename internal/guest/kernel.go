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
	"iotax/internal/secret"
)

// A Kernel is a kernel for guests with its modules.
type Kernel struct {
	Release string // as in uname -r
	Source  string // the original file: /boot/vmlinuz-…
	Image   string // the file for QEMU: an uncompressed ELF file if possible, otherwise Source
	Modules string // the module tree: …/lib/modules/RELEASE
}

// A Log prints progress of slow steps. It may be nil.
type Log func(format string, args ...any)

func (l Log) printf(format string, args ...any) {
	if l != nil {
		l(format, args...)
	}
}

// needed lists the modules that a kernel must have. The cloud kernels of distributions do not qualify: they lack 9p.
var needed = []string{"virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "ext4", "9p", "9pnet_virtio", "virtiofs"}

// HaveKernel returns the kernel in `file` on this host, with its modules. If file is "", it returns the kernel that
// FindKernel finds, or fetches one if FindKernel finds none.
func HaveKernel(ctx context.Context, cacheDir, file string, log Log) (*Kernel, error) {
	for _, dir := range []string{"guest", "kernel"} {
		prune(filepath.Join(cacheDir, dir), ".*", 0, 24*time.Hour) // temporary files of killed processes
	}
	if file != "" {
		k, err := OpenKernel(cacheDir, file, "")
		if err != nil {
			return nil, &iotax.Error{Op: "open the kernel for guests", Err: err,
				Hint: "the micro-guest needs a kernel with its modules: …/boot/vmlinuz-RELEASE beside …/lib/modules/RELEASE"}
		}
		return k, nil
	}
	k, err := FindKernel(ctx, cacheDir)
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
	return nil, &iotax.Error{Op: missing.Op, Err: fmt.Errorf("%w; and none could be had: %w", missing.Err, failed.WithoutHint()), Hint: failed.Hint} // drop the hint of `missing`: fetching a kernel has just failed
}

// FindKernel returns the running kernel, if it is readable and has the needed modules, else the newest such kernel in
// /boot, else the newest kernel that FetchKernel left in cacheDir. If it finds none, the error is an *iotax.Error.
func FindKernel(ctx context.Context, cacheDir string) (*Kernel, error) {
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
		var cached [][2]string
		for _, t := range glob(filepath.Join(cacheDir, "kernel"), "*") {
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

// kernelsIn returns the kernels in a root directory that have a module tree, each with that tree, newest first.
func kernelsIn(root string) [][2]string {
	var found [][2]string
	for _, n := range glob(filepath.Join(root, "boot"), "vmlinuz-*") {
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

// OpenKernel checks that the modules in `needed` exist for a kernel file of this host, and unpacks the ELF kernel into
// cacheDir if QEMU can boot it. If modules is empty, it searches for the module tree in ../lib/modules and
// ../usr/lib/modules, relative to the file's directory, then in /lib/modules and /usr/lib/modules.
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
	if release != filepath.Base(release) || release == ".." {
		return nil, fmt.Errorf("%s: its release %q is not a file name", vmlinuz, release)
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
		return k, nil // not an x86 kernel, or already an ELF file: QEMU loads it unchanged
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
	program, size, err := loaded(bytes.NewReader(elfImage)) // drop the sections, because QEMU reads the whole file
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vmlinuz, err)
	}
	if err := writeFile(out, io.NewSectionReader(program, 0, int64(size)), 0o644); err != nil {
		return nil, err
	}
	k.Image = out
	return k, nil
}

// FetchKernel downloads the distribution's generic kernel package and unpacks the files that guests need into cacheDir,
// unless cacheDir already contains them. It installs nothing and needs no privileges. It supports only apt. On other
// systems, it returns an *iotax.Error.
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
	tmp, err := os.MkdirTemp(dir, ".fetch-")
	if err != nil {
		return fail(err, "")
	}
	defer os.RemoveAll(tmp)
	apt := newApt(tmp)

	release, err := apt.kernelRelease(ctx)
	if err != nil {
		// A fresh machine may have no package lists. Fetch them into the temporary directory, because updating the
		// system's lists needs root.
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
		// Old lists may name packages that the mirror no longer has.
		return fail(err, "refresh the package lists: `apt-get update`")
	}
	debs := glob(tmp, "*.deb")
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

// fetchTime limits each step of fetching a kernel, which may be about 100 MB from a slow mirror.
const fetchTime = 30 * time.Minute

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
	cmd.Env = append(secret.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
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

// metaPackages returns the packages that depend on the newest generic kernel of Debian and of Ubuntu.
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

// imageRelease returns the kernel release from the output of `apt-cache depends` for a meta package, or "".
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

// keepEdition is the suffix of the directory of a fetched kernel. Increase it when the function `keep` changes, because
// an older iotax may have unpacked fewer modules.
const keepEdition = "-2"

// keep reports whether a guest may need a file of the kernel package.
func keep(name string) bool {
	if strings.HasPrefix(name, "boot/vmlinuz-") {
		return true
	}
	_, below, ok := strings.Cut(name, "lib/modules/")
	if !ok {
		return false
	}
	_, below, _ = strings.Cut(below, "/") // cut off the release
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

// unpackDeb unpacks the regular files of a package into root, except those that `keep` rejects.
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
		name = strings.TrimPrefix(name, "usr/") // for distributions with a merged /usr
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

// writeFile writes r to a temporary file and renames it to path, so that path is never incomplete.
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
