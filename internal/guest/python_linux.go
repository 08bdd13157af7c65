package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/u-root/u-root/pkg/ldd"

	"iotax"
	"iotax/internal/agent"
)

//go:embed webapp.py
var webApp []byte

// notNeeded lists the parts of Python's library that a server does not load.
var notNeeded = []string{"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "dist-packages", "site-packages"}

const pythonVersion = 1 // version of the tree's layout, part of the hash in the directory's name

// Python returns a directory in cacheDir with a root file system of this host's Python, its library, a shell if the
// host has busybox, and a small web application. If the host's Python program or the web application changes, Python
// makes a new directory.
func Python(ctx context.Context, cacheDir string) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &iotax.Error{Op: "make a root file system of this host's Python", Err: err, Hint: hint}
	}
	python, err := agent.Tool("/usr/bin/python3") // prefer the distribution's Python to the user's
	if err != nil {
		python, err = agent.Tool("python3")
	}
	if err != nil {
		return fail(err, "install it: apt install python3; or name a directory as root")
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := agent.Exec(limited, python, "-I", "-c",
		`import json, os, sys, sysconfig; print(json.dumps([os.path.realpath(sys.executable), sysconfig.get_paths()["stdlib"], sys.implementation.cache_tag]))`)
	var answer [3]string
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	if err != nil {
		return fail(err, "see whether "+python+" runs")
	}
	binary, lib, tag := answer[0], answer[1], answer[2]
	st, err := os.Stat(binary)
	if err != nil {
		return fail(err, "")
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%d|%s|%d|%d|%s|%s", pythonVersion, binary, st.Size(), st.ModTime().UnixNano(), lib, webApp))
	root := filepath.Join(cacheDir, "guest", fmt.Sprintf("python-%x", key[:8]))
	prune(filepath.Dir(root), ".*", 0, 24*time.Hour) // temporary files of killed processes
	if exists(root) {
		now := time.Now()
		_ = os.Chtimes(root, now, now) // prune reads this as the time of the last use
		return root, nil
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return fail(err, "")
	}
	tmp, err := os.MkdirTemp(filepath.Dir(root), ".python-")
	if err != nil {
		return fail(err, "")
	}
	defer os.RemoveAll(tmp)
	files, err := pythonFiles(binary, lib, tag)
	if err == nil {
		_, err = stage(ctx, tmp, files)
	}
	if err == nil {
		err = pythonRest(tmp, files)
	}
	if err != nil {
		return fail(err, "")
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fail(err, "")
	}
	if err := os.Rename(tmp, root); err != nil && !exists(root) { // another process may have made root first
		return fail(err, "")
	}
	prune(filepath.Dir(root), "python-*", 2, 24*time.Hour)
	return root, nil
}

// pythonFiles returns the files to copy: the interpreter, its library without the parts in notNeeded, busybox as a
// shell if the host has it, and the shared libraries of all of them.
func pythonFiles(binary, lib, tag string) (files []toolFile, err error) {
	programs := []string{binary}
	err = filepath.WalkDir(lib, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if path != lib && (slices.Contains(notNeeded, d.Name()) || strings.HasPrefix(d.Name(), "config-")) {
				return filepath.SkipDir
			}
			return nil
		case filepath.Ext(path) == ".pyc" && !strings.HasSuffix(path, "."+tag+".pyc"):
			return nil // for another version or optimization level
		}
		st, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
			return nil // a dangling link, or not a regular file
		}
		if err != nil {
			return err
		}
		if isELF(path) {
			programs = append(programs, path)
		}
		files = append(files, toolFile{Host: path, Guest: path, Size: st.Size(), Time: st.ModTime()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	files = append(files, toolFile{Host: binary, Guest: binary})
	if binary != "/usr/bin/python3" {
		files = append(files, toolFile{Guest: "/usr/bin/python3", Link: binary})
	}
	if shell, err := agent.Tool("busybox"); err == nil {
		programs = append(programs, shell)
		files = append(files, toolFile{Host: shell, Guest: "/usr/bin/busybox"})
		for _, name := range []string{"sh", "true", "cat", "ls", "uname", "mount"} {
			files = append(files, toolFile{Guest: "/usr/bin/" + name, Link: "busybox"})
		}
	}
	libs, err := ldd.List(programs...)
	if err != nil {
		return nil, fmt.Errorf("find libraries: %w", err)
	}
	for _, l := range libs {
		if !slices.ContainsFunc(files, func(f toolFile) bool { return f.Guest == merged(l) }) {
			files = append(files, toolFile{Host: l, Guest: merged(l)})
		}
	}
	return files, nil
}

// pythonRest adds empty directories, links, configuration files and the web application to the root file system. It
// also restores the modification times, because Python compares the modification time of a module with the time in its
// .pyc file.
func pythonRest(root string, files []toolFile) error {
	for _, d := range []string{"dev", "proc", "sys", "run", "tmp", "root", "etc", "srv", "usr/lib", "usr/lib64", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/nsswitch.conf": "hosts: files\n",
		// The web server looks up the host name of its listen address. These entries make a name server unnecessary.
		"etc/hosts": "127.0.0.1 localhost\n0.0.0.0 guest\n" + Address + " guest\n", "srv/webapp.py": string(webApp),
	} {
		if err := writeFile(filepath.Join(root, name), bytes.NewReader([]byte(text)), 0o644); err != nil {
			return err
		}
	}
	for _, f := range files {
		if f.Link == "" && !f.Time.IsZero() {
			if err := os.Chtimes(filepath.Join(root, f.Guest), f.Time, f.Time); err != nil {
				return err
			}
		}
	}
	return nil
}
