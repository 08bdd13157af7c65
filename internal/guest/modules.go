package guest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"iotax"
)

// modules is a kernel's module tree. It reads the module files instead of modules.dep, so that a freshly unpacked
// package works without depmod.
type modules struct {
	dir     string
	path    map[string]string // by name, with "_" in place of "-"
	builtin map[string]bool
}

// modName returns the kernel's name for a module file.
func modName(path string) string {
	n, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(n, "-", "_")
}

// openModules indexes the module tree dir (…/lib/modules/RELEASE).
func openModules(dir string) (*modules, error) {
	m := &modules{dir: dir, path: map[string]string{}, builtin: map[string]bool{}}
	f, err := os.Open(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		m.builtin[modName(s.Text())] = true
	}
	err = filepath.WalkDir(filepath.Join(dir, "kernel"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if strings.Contains(d.Name(), ".ko") && !d.IsDir() {
			m.path[modName(path)] = path
		}
		return nil
	})
	return m, err
}

func (m *modules) has(name string) bool {
	return m.builtin[name] || m.path[name] != ""
}

// A module is a kernel module in a closure.
type module struct {
	name    string
	path    string // relative to the module tree, without a compression suffix
	deps    []string
	aliases []string
	image   []byte
}

// closure returns the named modules and their dependencies, dependencies first, without those that are built into the
// kernel. `missing` contains the names that the module tree lacks.
func (m *modules) closure(names []string) (list []*module, missing []string, err error) {
	done := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		if done[name] || m.builtin[name] {
			return nil
		}
		path := m.path[name]
		if path == "" {
			return fmt.Errorf("module %s: %w", name, fs.ErrNotExist)
		}
		done[name] = true
		image, err := readModule(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		info, err := modInfo(image)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		rel, err := filepath.Rel(m.dir, path)
		if err != nil {
			return err
		}
		mod := &module{name: name, image: image, aliases: info["alias"]}
		base, _, _ := strings.Cut(filepath.Base(rel), ".ko")
		mod.path = filepath.Join(filepath.Dir(rel), base+".ko")
		for _, d := range strings.Split(strings.Join(info["depends"], ","), ",") {
			if d = strings.ReplaceAll(d, "-", "_"); d != "" && !m.builtin[d] {
				if err := visit(d); err != nil {
					return err
				}
				mod.deps = append(mod.deps, d)
			}
		}
		list = append(list, mod)
		return nil
	}
	for _, n := range names {
		if !m.has(n) {
			missing = append(missing, n)
			continue
		}
		if err := visit(n); err != nil {
			return nil, nil, err
		}
	}
	return list, missing, nil
}

// readModule reads a module, and decompresses it according to its suffix.
func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	switch filepath.Ext(path) {
	case ".xz":
		r, err = xz.NewReader(f, 0)
	case ".zst":
		var z *zstd.Decoder
		z, err = zstd.NewReader(f)
		if err == nil {
			defer z.Close()
			r = z
		}
	case ".gz":
		r, err = gzip.NewReader(f)
	}
	if err != nil {
		return nil, err
	}
	return iotax.ReadAll(r, 256<<20)
}

// modInfo parses the .modinfo section of a module.
func modInfo(image []byte) (map[string][]string, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no .modinfo section")
	}
	b, err := s.Data()
	if err != nil {
		return nil, err
	}
	info := map[string][]string{}
	for _, e := range strings.Split(string(b), "\x00") {
		if k, v, ok := strings.Cut(e, "="); ok {
			info[k] = append(info[k], v)
		}
	}
	return info, nil
}

// depFile returns the closure in the format of modules.dep.
func depFile(list []*module) string {
	paths := map[string]string{}
	for _, m := range list {
		paths[m.name] = m.path
	}
	var b strings.Builder
	for _, m := range list {
		b.WriteString(m.path + ":")
		for _, d := range m.deps {
			b.WriteString(" " + paths[d])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func aliasFile(list []*module) string {
	var lines []string
	for _, m := range list {
		for _, a := range m.aliases {
			if !strings.ContainsAny(a, "*?[: ") {
				lines = append(lines, "alias "+a+" "+m.name+"\n")
			}
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}
