package support

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"iotax"
	"iotax/internal/workload/task"
)

// A Tool is fio or nginx on a machine.
type Tool struct {
	Argv    []string
	Version string
	Pushed  string // directory to which this host's program was copied; "" if the machine has its own
}

var ErrNoFio = errors.New("fio is not installed")

// Provide finds fio on m. If m has no fio and `install` is set, Provide installs it with the package manager. If m
// still has no fio, Provide copies this host's fio with its shared libraries to m, unless m is this host. The copy
// needs neither a network nor root on m.
func Provide(ctx context.Context, m iotax.Machine, s task.Survey, install bool, env Env) (Tool, error) {
	if s.Fio != "" {
		return Tool{Argv: []string{s.Fio}, Version: s.Version}, nil
	}
	if known, ok := env.Shared.tools.Load(Identity(m)); ok {
		return known.(Tool), nil
	}
	var installErr error
	if install {
		env.Logf("installing fio on %s", m)
		if _, installErr = task.InstallFio.On(ctx, m, struct{}{}); installErr == nil {
			again, err := Survey(ctx, m)
			if err != nil {
				return Tool{}, err
			}
			if again.Fio != "" {
				return Tool{Argv: []string{again.Fio}, Version: again.Version}, nil
			}
			installErr = errors.New("the package was installed, and brought no fio")
		}
		if ctx.Err() != nil {
			return Tool{}, installErr
		}
	}
	if iotax.IsLocal(m) {
		return Tool{}, &iotax.Error{Op: "find fio on", On: m.String(), Err: errors.Join(ErrNoFio, installErr), Hint: InstallHint(runtime.GOOS)}
	}
	t, err := push(ctx, m, s, env)
	if err != nil {
		return Tool{}, &iotax.Error{Op: "bring fio to", On: m.String(), Err: errors.Join(err, installErr), Hint: InstallHint(s.OS) + " on " + m.String()}
	}
	env.Shared.tools.Store(Identity(m), t)
	return t, nil
}

func InstallHint(goos string) string {
	switch goos {
	case "darwin":
		return "brew install fio"
	case "windows":
		return "install fio from its releases page and add it to PATH"
	}
	return "apt install fio (dnf, zypper, apk and pacman call the package fio too)"
}

// A bundle is a program of this host, usually fio, with all files that it needs to start.
type bundle struct {
	program string
	files   []bundled
	loader  string // name of the dynamic loader in the bundle; "" for a static program
	hash    string
	size    int64
	arch    elf.Machine
}

type bundled struct {
	name, path string
	size       int64
}

var (
	hostBundle  = sync.OnceValues(func() (*bundle, error) { return MakeBundle("fio") })
	NginxBundle = sync.OnceValues(func() (*bundle, error) { return MakeBundle("nginx") })
)

func MakeBundle(program string) (*bundle, error) {
	exe, err := exec.LookPath(program)
	if sbin := "/usr/sbin/" + program; err != nil {
		if _, serr := os.Stat(sbin); serr == nil { // the PATH of a normal user may not contain /usr/sbin
			exe, err = sbin, nil
		}
	}
	if err != nil && program == "nginx" {
		return nil, errors.New("neither it nor this host has nginx")
	}
	if err != nil {
		return nil, &iotax.Error{Op: "find fio on", On: "host", Err: ErrNoFio, Hint: InstallHint(runtime.GOOS)}
	}
	f, err := elf.Open(exe)
	if err != nil {
		return nil, fmt.Errorf("this host's %s cannot be copied: %s: %w", program, exe, err)
	}
	defer f.Close()
	b := &bundle{program: program, arch: f.Machine}
	add := func(name, path string) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		b.files = append(b.files, bundled{name, path, st.Size()})
		b.size += st.Size()
		return nil
	}
	if err := add(program, exe); err != nil {
		return nil, err
	}
	if interp := interpreter(f); interp != "" {
		b.loader = "ld.so"
		if err := add(b.loader, interp); err != nil {
			return nil, err
		}
		// The loader lists the libraries that it would load.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var stderr iotax.Capture
		list := exec.CommandContext(ctx, interp, "--list", exe)
		list.Stderr = &stderr
		out, err := iotax.ExecOutput(list)
		if err != nil {
			return nil, fmt.Errorf("list the libraries of %s: %w: %s", exe, err, strings.TrimSpace(stderr.String()))
		}
		libs, err := parseLibraries(string(out), interp)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", exe, err)
		}
		for _, lib := range libs {
			if err := add("lib/"+filepath.Base(lib[0]), lib[1]); err != nil {
				return nil, err
			}
		}
	}
	h := sha256.New()
	for _, f := range b.files {
		fmt.Fprintf(h, "%s\x00%d\x00", f.name, f.size)
		if err := CopyFile(h, f.path); err != nil {
			return nil, err
		}
	}
	b.hash = fmt.Sprintf("%x", h.Sum(nil)[:8])
	return b, nil
}

func CopyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err == nil {
				return strings.TrimRight(string(b), "\x00")
			}
		}
	}
	return ""
}

// parseLibraries parses lines such as "libz.so.1 => /lib/libz.so.1 (0x7f…)" into names and paths.
func parseLibraries(list, interp string) ([][2]string, error) {
	var libs [][2]string
	for line := range strings.Lines(list) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue // the vDSO or the loader itself
		}
		if strings.HasPrefix(rest, "not found") {
			return nil, fmt.Errorf("the library %s is missing", name)
		}
		path, _, _ := strings.Cut(rest, " (")
		if path == interp || !filepath.IsAbs(path) {
			continue
		}
		if !slices.Contains(libs, [2]string{name, path}) {
			libs = append(libs, [2]string{name, path})
		}
	}
	return libs, nil
}

// elfArch maps an ELF machine to the values of runtime.GOARCH on which its programs run.
var elfArch = map[elf.Machine][]string{
	elf.EM_X86_64:  {"amd64"},
	elf.EM_AARCH64: {"arm64"},
	elf.EM_386:     {"386", "amd64"},
	elf.EM_ARM:     {"arm"},
	elf.EM_RISCV:   {"riscv64"},
	elf.EM_PPC64:   {"ppc64le", "ppc64"},
	elf.EM_S390:    {"s390x"},
}

// push copies this host's fio to m, unless the same bundle is already there.
func push(ctx context.Context, m iotax.Machine, s task.Survey, env Env) (Tool, error) {
	if runtime.GOOS != "linux" || s.OS != "linux" {
		return Tool{}, fmt.Errorf("it has none, and this host's (%s) can't be used on %s", runtime.GOOS, s.OS)
	}
	b, err := hostBundle()
	if err != nil {
		return Tool{}, err
	}
	return PushBundle(ctx, m, s, env, b, "--version")
}

// PushBundle copies a program of this host to m, unless the same bundle is already there. `version` is the argument
// that makes the program print its version.
func PushBundle(ctx context.Context, m iotax.Machine, s task.Survey, env Env, b *bundle, version string) (Tool, error) {
	if !slices.Contains(elfArch[b.arch], s.Arch) {
		return Tool{}, fmt.Errorf("it has none, and this host's (%s) can't be used on %s", strings.TrimPrefix(b.arch.String(), "EM_"), s.Arch)
	}
	home, err := task.Home.On(ctx, m, task.Tool{Name: b.program + "-" + b.hash, Size: b.size * 11 / 10})
	if err != nil {
		return Tool{}, err
	}
	dir := home.Path
	if !home.Have {
		env.Logf("copying %s to %s (%d MiB, once)", b.program, m, b.size>>20)
		err := SendTar(ctx, m, dir, b.archive)
		if err != nil {
			return Tool{}, fmt.Errorf("copy it to %s: %w", dir, err)
		}
	}
	t := Tool{Argv: []string{dir + "/" + b.program}, Pushed: dir}
	if b.loader != "" {
		t.Argv = []string{dir + "/" + b.loader, "--library-path", dir + "/lib", dir + "/" + b.program}
	}
	var v iotax.Capture // nginx prints its version to standard error
	if err := m.Run(ctx, &iotax.Cmd{Args: append(slices.Clone(t.Argv), version), Stdout: &v, Stderr: &v}); err != nil {
		return Tool{}, fmt.Errorf("the copy in %s does not run: %w", dir, err)
	}
	t.Version = strings.TrimPrefix(strings.TrimSpace(v.String()), "nginx version: ")
	return t, nil
}

// archive writes the bundle to a tar archive.
func (b *bundle) archive(t *tar.Writer) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "lib/", Mode: 0o700}); err != nil {
		return err
	}
	for _, f := range b.files {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: f.size, Mode: 0o700}); err != nil {
			return err
		}
		if err := CopyFile(t, f.path); err != nil {
			return err
		}
	}
	return nil
}

// SendTar creates the directory dir on m from the tar archive that `write` produces.
func SendTar(ctx context.Context, m iotax.Machine, dir string, write func(*tar.Writer) error) error {
	return Send(func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 64<<10) // gzip writes pieces of 240 bytes, each of which would be a message
		z, err := gzip.NewWriterLevel(b, gzip.BestSpeed)
		if err != nil {
			return err
		}
		t := tar.NewWriter(z)
		return errors.Join(write(t), t.Close(), z.Close(), b.Flush())
	}, func(r io.Reader) error {
		_, err := task.Unpack.On(ctx, m, dir, r)
		return err
	})
}

// Send passes the output of `write` to `take`. It returns once both have returned.
func Send(write func(io.Writer) error, take func(io.Reader) error) error {
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.CloseWithError(write(w))
	}()
	err := take(r)
	_ = r.CloseWithError(io.ErrClosedPipe) // ends `write` if `take` returned early
	<-done
	return err
}
