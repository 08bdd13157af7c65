package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/u-root/u-root/pkg/cpio"

	"iotax"
	"iotax/internal/agent"
)

// The guest loads bootModules (without virtio_net and virtio_console if it only runs one command). The initramfs also
// contains lazyModules, which the guest loads only if the command line or the kernel requests them. ext4 needs crc32c,
// but its .modinfo does not list that dependency.
var (
	bootModules = []string{"virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "crc32c_generic", "ext4"}
	lazyModules = []string{"virtio_scsi", "sd_mod", "nvme", "9p", "9pnet_virtio", "fuse", "virtiofs", "virtio_rng",
		"nbd", "loop", "overlay", "xfs", "btrfs", "nfsv4", "nfsv3", "isofs", "squashfs", "erofs"}
)

// Initramfs returns the path of an initramfs, in cacheDir, that boots k with the program `binary` as /init. If binary
// is empty, it uses the embedded agent, or the running program if no agent is embedded. The program must be a static
// Linux binary for this machine's architecture that calls Main when IsInit returns true.
//
// The archive is not compressed, because decompression would take the guest longer than reading the larger file.
func Initramfs(ctx context.Context, cacheDir string, k *Kernel, binary string) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &iotax.Error{Op: "build initramfs", On: binary, Err: err, Hint: hint}
	}
	dir := filepath.Join(cacheDir, "guest")
	if binary == "" {
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			binary, err = agent.Unpack(dir, "linux/"+runtime.GOARCH)
		}
		if err == nil && binary == "" {
			binary, err = os.Executable()
		}
		if err != nil {
			return fail(err, "")
		}
	}
	st, err := os.Stat(binary)
	if err != nil {
		return fail(err, "")
	}
	if err := checkStatic(binary); err != nil {
		return fail(err, "build iotax with CGO_ENABLED=0")
	}
	kst, err := os.Stat(k.Source)
	if err != nil {
		return fail(err, "")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "5|%s|%d|%d|%s|%s|%d|%d", binary, st.Size(), st.ModTime().UnixNano(),
		k.Release, k.Modules, kst.Size(), kst.ModTime().UnixNano()))
	path := filepath.Join(dir, fmt.Sprintf("initramfs-%x.cpio", sum[:8]))
	if exists(path) {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // prune reads this as the time of the last use
		return path, nil
	}
	tree, err := openModules(k.Modules)
	if err != nil {
		return fail(err, "")
	}
	list, _, err := tree.closure(slices.Concat(bootModules, lazyModules))
	if err != nil {
		return fail(err, "")
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	builtin, err := os.ReadFile(filepath.Join(k.Modules, "modules.builtin"))
	if err != nil {
		return fail(err, "")
	}
	init, err := os.Open(binary)
	if err != nil {
		return fail(err, "")
	}
	defer init.Close()
	pr, pw := io.Pipe()
	program, size, err := loaded(init)
	if err != nil {
		return fail(err, "")
	}
	go func() { pw.CloseWithError(writeInitramfs(pw, k.Release, list, builtin, program, size)) }()
	if err := writeFile(path, pr, 0o644); err != nil {
		pr.CloseWithError(err)
		return fail(err, "")
	}
	prune(dir, "initramfs-*.cpio", 4, 0)
	prune(dir, "agent-*", 4, 0)
	return path, nil
}

// loaded returns the program without the data after its segments (symbols, debug information), and the resulting size.
// The guest would hold that data in memory twice while it unpacks the initramfs.
func loaded(f io.ReaderAt) (io.ReaderAt, uint64, error) {
	p, err := elf.NewFile(f)
	if err != nil {
		return nil, 0, err
	}
	var end uint64
	for _, s := range p.Progs {
		end = max(end, s.Off+s.Filesz)
	}
	var h headless
	if p.Class != elf.ELFCLASS64 || end < uint64(len(h.head)) {
		return nil, 0, errors.New("not a program for 64 bits")
	}
	h.all = io.NewSectionReader(f, 0, int64(end))
	if _, err := h.all.ReadAt(h.head[:], 0); err != nil {
		return nil, 0, err
	}
	// Clear e_shoff, e_shnum and e_shstrndx, because the section table is removed.
	clear(h.head[0x28:0x30])
	clear(h.head[0x3c:0x40])
	return &h, end, nil
}

type headless struct {
	head [64]byte
	all  *io.SectionReader
}

func (h *headless) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.all.ReadAt(p, off)
	if off >= 0 && off < int64(len(h.head)) {
		copy(p[:n], h.head[off:])
	}
	return n, err
}

func writeInitramfs(w io.Writer, release string, list []*module, builtin []byte, init io.ReaderAt, size uint64) error {
	out := cpio.NewDedupWriter(cpio.Newc.Writer(w))
	lib := "lib/modules/" + release
	recs := []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.Directory("proc", 0o555), cpio.Directory("sys", 0o555),
		cpio.Directory("run", 0o755), cpio.Directory("tmp", 0o1777), cpio.Directory("mnt", 0o755),
		cpio.Directory("root", 0o700), cpio.Directory("etc", 0o755), cpio.Directory("var", 0o755),
		cpio.Directory("var/tmp", 0o1777), cpio.Directory("sbin", 0o755),
		// Without this device, the kernel starts init without standard output.
		cpio.CharDev("dev/console", 0o600, 5, 1),
		cpio.StaticFile("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", 0o644),
		cpio.StaticFile("etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o644),
		cpio.StaticFile("etc/hosts", "127.0.0.1 localhost guest\n::1 localhost\n"+Gateway+" host\n", 0o644),
		cpio.StaticFile("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", 0o644),
		cpio.StaticFile("etc/resolv.conf", "nameserver "+DNS+"\n", 0o644),
		cpio.StaticFile("etc/hostname", "guest\n", 0o644),
		cpio.Symlink("sbin/modprobe", "/init"), cpio.Symlink("sbin/poweroff", "/init"),
		cpio.Directory("lib", 0o755), cpio.Directory("lib/modules", 0o755), cpio.Directory(lib, 0o755),
		cpio.StaticFile(lib+"/modules.dep", depFile(list), 0o644),
		// The guest must not load modules that the distribution has built into the kernel, such as virtio or ext4.
		cpio.StaticFile(lib+"/modules.builtin", string(builtin), 0o644),
		cpio.StaticFile(lib+"/modules.alias", aliasFile(list), 0o644),
	}
	for _, m := range list {
		recs = append(recs, parents(lib+"/"+m.path)...)
		recs = append(recs, cpio.StaticRecord(m.image, cpio.Info{Name: lib + "/" + m.path, Mode: cpio.S_IFREG | 0o644}))
	}
	recs = append(recs, cpio.Record{ReaderAt: init, Info: cpio.Info{Name: "init", Mode: cpio.S_IFREG | 0o755, FileSize: size}})
	for i := range recs {
		recs[i].Ino = uint64(i + 1) // entries with the same number would be hard links
		if err := out.WriteRecord(recs[i]); err != nil {
			return err
		}
	}
	return cpio.WriteTrailer(out)
}

// parents returns the records of the parent directories of path.
func parents(path string) []cpio.Record {
	var recs []cpio.Record
	for d := filepath.Dir(path); d != "." && d != "/"; d = filepath.Dir(d) {
		recs = append(recs, cpio.Directory(d, 0o755))
	}
	slices.Reverse(recs)
	return recs
}

// checkStatic returns an error unless the program is a static Linux binary for this machine's architecture.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) {
			return errors.New("not a Linux program")
		}
		return err
	}
	defer f.Close()
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if f.Machine != want {
		return fmt.Errorf("a program for %v, where this machine needs %v", f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b := make([]byte, p.Filesz)
			_, _ = p.ReadAt(b, 0)
			return fmt.Errorf("not a static program: it needs %s", bytes.TrimRight(b, "\x00"))
		}
	}
	return nil
}

// prune removes files in dir that match pattern. It keeps the n most recently used files, and all that were used
// within the duration `young`.
func prune(dir, pattern string, n int, young time.Duration) {
	found := glob(dir, pattern)
	used := map[string]time.Time{}
	for _, p := range found {
		if st, err := os.Stat(p); err == nil {
			used[p] = st.ModTime()
		}
	}
	slices.SortFunc(found, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, p := range found[min(n, len(found)):] {
		if time.Since(used[p]) >= young {
			_ = os.RemoveAll(p)
		}
	}
}

// glob returns the paths in dir whose names match pattern. The name of dir is not a pattern.
func glob(dir, pattern string) []string {
	found, _ := fs.Glob(os.DirFS(dir), pattern)
	for i := range found {
		found[i] = filepath.Join(dir, found[i])
	}
	return found
}
