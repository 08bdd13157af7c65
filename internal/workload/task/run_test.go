package task_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/workload/task"
)

// fio returns the command line of a stand-in for fio. In its script, $at is the path prefix of the logs.
func fio(script string) []string {
	return []string{"sh", "-c", `for a; do case $a in --write_bw_log=*) at=${a#*=};; esac; done; ` + script, "sh"}
}

func TestFio(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), "[ab]")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	run := func(script string, limit int) (task.FioOutput, error) {
		return task.Fio.On(t.Context(), host.Local(), task.FioRun{Args: fio(script), Label: "run=a runner=b", Step: 500, Limit: limit, Messages: 4})
	}
	out, err := run(`echo log >"${at}_bw.1.log"; pwd; cat .iotax; echo "$*" | grep -o msec=.*; echo messages >&2`, 1000)
	dir, rest, _ := strings.Cut(string(out.Stdout), "\n")
	if err != nil || out.Exit != nil || out.Over || rest != "run=a runner=b\nmsec=500\n" || string(out.Stderr) != "mess" || string(out.Logs["s_bw.1.log"]) != "log\n" {
		t.Errorf("%+v, %v", out, err)
	}
	if !strings.HasPrefix(filepath.Base(dir), "iotax-log-") {
		t.Errorf("it ran in %s", dir)
	}
	if out, err := run(`echo log >"${at}_bw.1.log"; exit 3`, 1000); err != nil || out.Exit == nil || out.Exit.Code != 3 || len(out.Logs) != 1 {
		t.Errorf("fio that fails: %+v, %v", out, err)
	}
	for _, script := range []string{`echo 123456789`, `echo 12345 >"${at}_bw.1.log"; echo 123`} {
		if out, err := run(script, 8); err != nil || !out.Over {
			t.Errorf("too much output: %+v, %v", out, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := task.Fio.On(ctx, host.Local(), task.FioRun{Args: fio("sleep 60"), Limit: 10}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("fio that hangs: %v", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/tool", nil, 0o700), os.WriteFile(dir+"/text", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"sh": true, "no-such-program": false, "./tool": true, "./text": false, dir + "/tool": true, dir: false} {
		if found, err := task.Installed.On(t.Context(), host.Local(), task.Program{Name: name, Dir: dir}); err != nil || found != want {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestRandom(t *testing.T) {
	path := t.TempDir() + "/f"
	if _, err := task.Random.On(t.Context(), host.Local(), task.RandomFile{Path: path, Data: 3<<20 + 5, Size: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 8<<20 || bytes.Equal(text[:1<<20], text[1<<20:2<<20]) || len(bytes.Trim(text[3<<20+5:], "\x00")) > 0 || len(bytes.Trim(text[3<<20:3<<20+5], "\x00")) == 0 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// unpack writes no files outside of the directory, and keeps permissions and links.
func TestUnpack(t *testing.T) {
	pack := func(headers ...tar.Header) *bytes.Buffer {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, h := range headers {
			h.Size = 1
			if h.Typeflag != tar.TypeReg {
				h.Size = 0
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				_, _ = w.Write([]byte("x"))
			}
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	in := t.TempDir()
	dir := in + "/tree"
	_, err := task.Unpack.On(t.Context(), host.Local(), dir, pack(
		tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o555}, tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "bin", Linkname: "/usr/bin"}, tar.Header{Typeflag: tar.TypeReg, Name: "run", Mode: 0o755}))
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"etc": os.ModeDir | 0o555, "etc/passwd": 0o644, "run": 0o755} {
		if st, err := os.Stat(dir + "/" + name); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if to, err := os.Readlink(dir + "/bin"); to != "/usr/bin" {
		t.Error(to, err)
	}
	for what, b := range map[string]*bytes.Buffer{
		"a file outside":   pack(tar.Header{Typeflag: tar.TypeReg, Name: "../out", Mode: 0o600}),
		"a link to it":     pack(tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: ".."}, tar.Header{Typeflag: tar.TypeReg, Name: "l/out", Mode: 0o600}),
		"a device":         pack(tar.Header{Typeflag: tar.TypeChar, Name: "null"}),
		"half the archive": bytes.NewBuffer(pack(tar.Header{Typeflag: tar.TypeReg, Name: "f", Mode: 0o600}).Bytes()[:40]),
	} {
		if _, err := task.Unpack.On(t.Context(), host.Local(), in+"/other", b); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if names, _ := filepath.Glob(in + "/*"); len(names) != 1 {
		t.Errorf("left: %v", names)
	}
}

// programs puts scripts into the PATH in place of programs.
func programs(t *testing.T, scripts map[string]string) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(bin+"/"+name, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

func TestBring(t *testing.T) {
	programs(t, map[string]string{
		"nbdcopy":  `[ "$1" != --flush ] || echo data >"$4"`,
		"qemu-img": `[ "$1" = create ] && echo >"$9"`,
		"qemu-nbd": `for a; do case $a in --pid-file=*) echo $$ >"${a#*=}";; esac; done; echo $$ >served; exec sleep 60`,
		"qemu-io":  "", "dd": "",
	})
	c := task.CopyIn{URL: "nbd://x", Dir: t.TempDir(), Tool: "nbdcopy", Stall: time.Minute}
	a, err := task.Bring.On(t.Context(), host.Local(), c)
	if err != nil || a.Local <= 0 || a.First <= a.Local || a.Steady <= a.First {
		t.Errorf("in one go: %+v, %v", a, err)
	}
	c.Lazy = true
	a, err = task.Bring.On(t.Context(), host.Local(), c)
	if err != nil || a.First <= 0 || a.Local <= a.First || a.Steady <= a.Local {
		t.Errorf("lazily: %+v, %v", a, err)
	}
	if pid, err := os.ReadFile(c.Dir + "/served"); err != nil {
		t.Error(err)
	} else if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid)) + "/fd/0"); err == nil {
		t.Error("the server of the overlay is left")
	}
	programs(t, map[string]string{"nbdcopy": "exec sleep 60", "qemu-nbd": "echo broken >&2; exit 3"})
	if _, err := task.Bring.On(t.Context(), host.Local(), c); err == nil || !strings.Contains(err.Error(), "qemu-nbd ended") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a server that ends: %v", err)
	}
	c.Lazy, c.Stall = false, time.Second
	if _, err := task.Bring.On(t.Context(), host.Local(), c); err == nil || !strings.Contains(err.Error(), "nothing came for 1s") {
		t.Errorf("a copy that stalls: %v", err)
	}
	var exit *iotax.ExitError
	programs(t, map[string]string{"nbdcopy": "echo Connection refused >&2; exit 1"})
	if _, err := task.Bring.On(t.Context(), host.Local(), c); !errors.As(err, &exit) || !strings.Contains(err.Error(), "Connection refused") {
		t.Errorf("a copy that fails: %v", err)
	}
}
