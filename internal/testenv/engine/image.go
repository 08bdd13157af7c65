//go:build linux

package engine

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Content describes the content of an image, in addition to a static busybox with all its applets.
type Content struct {
	Fio      bool              // this host's fio, with the libraries it needs
	Programs map[string]string // static programs of this host, by path in the image, without a leading slash
	Command  []string          // command of its containers; a shell if empty
}

// WriteImage writes an image with one layer in the format of docker save. Docker, Podman and containerd can load it.
func WriteImage(file, name string, has Content) error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w: scripts/need test", err)
	}
	var layer bytes.Buffer
	w := &rootfs{w: tar.NewWriter(&layer), made: map[string]bool{}}
	for _, d := range []string{"bin", "usr/bin", "sbin", "usr/sbin", "etc", "proc", "sys", "dev", "root", "run", "mnt"} {
		w.dir(d, 0o755)
	}
	w.dir("tmp", 0o1777)
	w.dir("var/tmp", 0o1777)
	w.file("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644)
	w.file("etc/group", []byte("root:x:0:\n"), 0o644)
	w.copy("bin/busybox", busybox)
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return err
	}
	for applet := range strings.FieldsSeq(string(list)) {
		if applet != "busybox" {
			w.link("bin/"+applet, "/bin/busybox")
		}
	}
	if has.Fio {
		if err := w.program("usr/bin/fio"); err != nil {
			return err
		}
	}
	for at, from := range has.Programs {
		w.copy(at, from)
	}
	if err := errors.Join(w.err, w.w.Close()); err != nil {
		return err
	}
	if len(has.Command) == 0 {
		has.Command = []string{"sh"}
	}
	return writeArchive(file, name, layer.Bytes(), has.Command)
}

// writeArchive writes the layer to an archive in the format of docker save.
func writeArchive(file, name string, layer []byte, command []string) (err error) {
	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	diff := sum(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "2026-01-01T00:00:00Z",
		"config": map[string]any{"Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			"Cmd": command, "WorkingDir": "/"},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + diff}},
		"history": []map[string]any{{"created": "2026-01-01T00:00:00Z", "created_by": "iotax"}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": sum(config) + ".json", "RepoTags": []string{name}, "Layers": []string{diff + "/layer.tar"}}})
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	for _, part := range []struct {
		name string
		data []byte
	}{{diff + "/layer.tar", layer}, {sum(config) + ".json", config}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Name: part.name, Size: int64(len(part.data)), Mode: 0o644}); err != nil {
			return err
		}
		if _, err := w.Write(part.data); err != nil {
			return err
		}
	}
	return w.Close()
}

// A rootfs writes the files of a root file system. After an error, it writes nothing more.
type rootfs struct {
	w    *tar.Writer
	made map[string]bool
	err  error
}

func (r *rootfs) put(h *tar.Header, data []byte) {
	if r.err != nil || r.made[h.Name] {
		return
	}
	r.made[h.Name] = true
	if r.err = r.w.WriteHeader(h); r.err == nil {
		_, r.err = r.w.Write(data)
	}
}

func (r *rootfs) dir(name string, mode int64) {
	if up := path.Dir(name); up != "." && !r.made[up+"/"] {
		r.dir(up, 0o755)
	}
	r.put(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

func (r *rootfs) file(name string, data []byte, mode int64) {
	r.dir(path.Dir(name), 0o755)
	r.put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}, data)
}

func (r *rootfs) link(name, to string) {
	r.put(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}, nil)
}

func (r *rootfs) copy(name, from string) {
	b, err := os.ReadFile(from)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	r.file(name, b, 0o755)
}

// program copies a program of this host, its libraries, and the loader's cache of their paths.
func (r *rootfs) program(name string) error {
	from, err := exec.LookPath(path.Base(name))
	if err != nil {
		return err
	}
	r.copy(name, from)
	out, err := exec.Command("ldd", from).Output()
	if err != nil {
		return fmt.Errorf("ldd %s: %w", from, err)
	}
	var dirs []string
	for line := range strings.Lines(string(out)) {
		for f := range strings.FieldsSeq(line) {
			if filepath.IsAbs(f) {
				r.copy(strings.TrimPrefix(f, "/"), f)
				dirs = append(dirs, filepath.Dir(f))
				break
			}
		}
	}
	slices.Sort(dirs)
	r.file("etc/ld.so.conf", []byte(strings.Join(slices.Compact(dirs), "\n")+"\n"), 0o644)
	return r.loaderCache()
}

// loaderCache writes etc/ld.so.cache, as ldconfig generates it on this host.
func (r *rootfs) loaderCache() error {
	f, err := os.CreateTemp("", "iotax-ld-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	ldconfig := "/sbin/ldconfig"
	if out, err := exec.Command(ldconfig, "-C", f.Name()).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", ldconfig, err, out)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	r.file("etc/ld.so.cache", b, 0o644)
	return r.err
}
