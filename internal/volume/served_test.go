package volume

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/fake"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
)

func nfsSpec(change func(*NFSSpec)) *NFSSpec {
	s := newSpec("nfs").(*NFSSpec)
	s.OfTarget = "host disk"
	change(s)
	return s
}

// needs skips the test if this host lacks a program, or the test does not run as root.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s: scripts/need test installs it", p)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// TestServed mounts volumes in a guest, does I/O on them, and detaches them. Servers on this host provide these
// volumes. The test also kills an NFS and an sshfs server during I/O. The same guest mounts read-only disks and file
// systems in memory.
func TestServed(t *testing.T) {
	long.Test(t)
	needs(t, "ganesha.nfsd", "sshfs", "mksquashfs", "mkfs.erofs")
	of := hostDir(t)
	disks := sealedDisks(t)
	m := bootGuest(t, append(disks[0].Caps().Devices, disks[1].Caps().Devices...))
	for _, d := range disks {
		t.Run(d.(*disk).spec.Filesystem, func(t *testing.T) { readSealed(t, m, d) })
	}
	for _, kind := range []string{"tmpfs", "ramfs"} {
		t.Run(kind, func(t *testing.T) { inMemory(t, m, kind) })
	}
	ganesha := t.TempDir() + "/ganesha.nfsd"
	const script = "#!/bin/sh\nPATH=$PATH:/usr/sbin\nexec ganesha.nfsd \"$@\"\n"
	if err := os.WriteFile(ganesha, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name   string
		kind   string
		spec   plan.Spec
		facts  map[string]string
		option string // expected mount option
		server string // name of the server's process
	}{
		{"nfs", "nfs", nfsSpec(func(s *NFSSpec) { s.Binary = ganesha }), map[string]string{"filesystem": "nfs4", "of": "host disk", "share.type": "nfs", "host.direct": "no",
			"nfs.path": ganesha, "nfs.sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(script)))}, "vers=4.2", "ganesha.nfsd"},
		{"nfs 4.0 small", "nfs", nfsSpec(func(s *NFSSpec) { s.Version, s.Options = "4.0", "rsize=4096,wsize=4096,hard" }), nil, "rsize=4096", "ganesha.nfsd"},
		{"sshfs", "sshfs", &SSHFSSpec{OfTarget: "host disk"}, map[string]string{"filesystem": "fuse.sshfs", "share.type": "sshfs", "sshfs.options": "passive"}, "user_id=0", "sftp-server"},
		{"sshfs with options", "sshfs", &SSHFSSpec{Options: "dir_cache=no,allow_other"}, nil, "allow_other", "sftp-server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			work := t.TempDir()
			v, err := prepare(t, c.kind, c.spec, Env{Of: of, ID: fmt.Sprintf("s%d", i), Need: 16 << 20, WorkDir: work})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close(context.Background())
			p, err := v.Attach(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s %v", p.Path, p.Facts)
			if p.Durability != iotax.Durable || p.ReadOnly || !strings.HasPrefix(p.Backing, of.Path+"/") {
				t.Errorf("place %+v", p)
			}
			for k, want := range c.facts {
				if p.Facts[k] != want {
					t.Errorf("fact %s is %q, want %q", k, p.Facts[k], want)
				}
			}
			if f := p.Facts; c.kind == "nfs" {
				port, config := f["nfs.port"], f["nfs.config"]
				if n, err := strconv.Atoi(port); err != nil || n < 1024 {
					t.Errorf("it is served at port %q", port)
				}
				if v := strings.TrimPrefix(f["nfs.server"], "NFS-Ganesha "); v == f["nfs.server"] || !strings.HasPrefix(v, "V") {
					t.Errorf("it is served by %q", f["nfs.server"])
				}
				for _, want := range []string{"NFS_Port = " + port, `Path = "` + p.Backing + `"`, "Pseudo = /iotax", "Access_Type = RW", "SecType = sys", "Bind_addr = 127.0.0.1"} {
					if !strings.Contains(config, want) {
						t.Errorf("the export's configuration has no %q: %s", want, config)
					}
				}
				if o := f["filesystem.options"]; !strings.Contains(o, "port="+port) || !strings.Contains(o, "proto=tcp") || !strings.Contains(o, "soft") == (c.option == "vers=4.2") {
					t.Errorf("mounted with %s", o)
				}
				if !strings.HasSuffix(f["filesystem.source"], ":/iotax") {
					t.Errorf("mounted from %q", f["filesystem.source"])
				}
			}
			if !strings.Contains(p.Facts["filesystem.options"], c.option) {
				t.Errorf("mounted with %s, without %s", p.Facts["filesystem.options"], c.option)
			}
			pids := v.Caps().Processes()[c.server]
			if len(pids) != 1 {
				t.Fatalf("served by %v", v.Caps().Processes())
			}
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pids[0])); strings.TrimSpace(string(name)) != c.server {
				t.Errorf("process %d is %s", pids[0], name)
			}
			checkIO(t, m, p)
			if err := v.Detach(t.Context()); err != nil {
				t.Errorf("Detach: %v", err)
			}
			if err := v.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
			gone(t, m, work, of.Path, pids[0])
		})
	}
	for _, c := range []struct {
		kind string
		spec plan.Spec
	}{
		{"nfs", nfsSpec(func(s *NFSSpec) { s.Options = "softerr,timeo=10,retrans=1" })},
		{"sshfs", &SSHFSSpec{}},
	} {
		t.Run(c.kind+" server dies", func(t *testing.T) { serverDies(t, m, of, c.kind, c.spec) })
	}
}

// sealedDisks makes a disk for each read-only file system.
func sealedDisks(t *testing.T) (all []iotax.Volume) {
	of := hostDir(t)
	for fs := range sealed {
		s := diskSpec(func(s *DiskSpec) { s.Filesystem = fs })
		v, err := prepare(t, "disk", s, Env{Of: of, ID: "ro-" + fs, Files: []iotax.File{{Name: "one.dat", Size: 4 << 20}, {Name: "two.dat", Size: 12345}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if left, _ := os.ReadDir(of.Path); len(left) > 2 { // the marker, and possibly the other disk's image
				t.Errorf("left: %v", left)
			}
		})
		all = append(all, v)
	}
	return all
}

// readSealed checks that the guest can read but not write the disk, and that its files have the requested sizes and
// incompressible data.
func readSealed(t *testing.T, m iotax.Machine, v iotax.Volume) {
	d := v.(*disk)
	p, err := v.Attach(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if !p.ReadOnly || p.Kind != iotax.PlaceDir || p.Facts["filesystem"] != d.spec.Filesystem || p.Backing != d.image {
		t.Errorf("place %+v", p)
	}
	out, err := iotax.Output(t.Context(), m, "sh", "-c", `cd "$1" && stat -c '%n %s' one.dat two.dat && gzip -c one.dat | wc -c && ! touch three 2>&1`, "sh", p.Path)
	f := strings.Fields(string(out))
	if err != nil || len(f) < 5 || strings.Join(f[:4], " ") != "one.dat 4194304 two.dat 12345" {
		t.Fatalf("%v: %s", err, out)
	}
	if n, _ := strconv.Atoi(f[4]); n < 4<<20 {
		t.Errorf("4 MiB shrink to %s bytes", f[4])
	}
	if !strings.Contains(string(out), "Read-only file system") {
		t.Errorf("it can be written: %s", out)
	}
	if err := v.Detach(t.Context()); err != nil {
		t.Error(err)
	}
}

func inMemory(t *testing.T, m iotax.Machine, kind string) {
	v, err := prepare(t, "memory", &MemorySpec{Type: kind}, Env{ID: "smem", Need: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if p.Durability != iotax.Volatile || p.Backing != "" || p.Facts["filesystem"] != kind {
		t.Errorf("place %+v", p)
	}
	out, err := iotax.Output(t.Context(), m, "sh", "-c", `head -c 16777216 /dev/zero >"$1/x" && stat -c %s "$1/x"`, "sh", p.Path)
	if err != nil || strings.TrimSpace(string(out)) != "16777216" {
		t.Errorf("%v: %s", err, out)
	}
	if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if out, _ := iotax.Output(t.Context(), m, "sh", "-c", "grep smem /proc/mounts; ls -d /mnt/iotax-smem"); len(out) > 0 {
		t.Errorf("left there: %s", out)
	}
	v, err = prepare(t, "memory", &MemorySpec{Type: kind}, Env{ID: "smem", Need: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Attach(t.Context(), m)
	wantError(t, err, "not enough memory: it needs 1.125 TiB", "memory: 4GiB")
	if err := v.Detach(t.Context()); err != nil {
		t.Error(err)
	}
}

// gone checks that a volume has left nothing behind.
func gone(t *testing.T, m iotax.Machine, work, of string, pid int) {
	t.Helper()
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
		t.Errorf("process %d still runs", pid)
	}
	for _, dir := range []string{work, of} {
		left, err := os.ReadDir(dir)
		for _, e := range left {
			if e.Name() != marker {
				t.Errorf("left in %s: %s", dir, e.Name())
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	if out, _ := iotax.Output(t.Context(), m, "sh", "-c", "grep /mnt/iotax-s /proc/mounts; ls -d /mnt/iotax-s*"); len(out) > 0 {
		t.Errorf("left there: %s", out)
	}
}

// serverDies kills the server while fio writes. fio must fail, and Detach and Close must remove everything.
func serverDies(t *testing.T, m iotax.Machine, of iotax.Place, kind string, spec plan.Spec) {
	work := t.TempDir()
	v, err := prepare(t, kind, spec, Env{Of: of, ID: "s9", Need: 16 << 20, WorkDir: work})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close(context.Background())
	p, err := v.Attach(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	for _, pids := range v.Caps().Processes() {
		pid = pids[0]
	}
	checkIO(t, m, p)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	begun := time.Now()
	go func() { // wait until fio writes, so that the server ends during I/O and not before fio opens its file
		for !writtenSince(of.Path, begun) && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}()
	// Without allow_file_create=0, fio makes missing directories and continues outside the mount.
	out, err := iotax.Output(ctx, m, "fio", "--allow_file_create=0", "--name=x", "--filename="+p.Path+"/test", "--size=4m", "--rw=randwrite", "--bs=4k", "--ioengine=psync",
		"--time_based", "--runtime=60", "--fsync=8")
	var exit *iotax.ExitError
	if !errors.As(err, &exit) {
		t.Errorf("fio on a dead server: %v\n%s", err, out)
	}
	t.Logf("fio: %v", err)
	if all := v.Caps().Processes(); len(all) > 0 {
		t.Errorf("a dead server is accounted for: %v", all)
	}
	begun = time.Now()
	if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
		t.Error(err)
	}
	t.Logf("taken away in %v", time.Since(begun))
	gone(t, m, work, of.Path, pid)
}

// writtenSince reports whether a file below dir was written after `moment`.
func writtenSince(dir string, moment time.Time) (written bool) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // ignore files that are removed in the meantime
		}
		if st, err := e.Info(); err == nil && st.ModTime().After(moment) {
			written = true
		}
		return nil
	})
	return written
}

func TestNFSRefuses(t *testing.T) {
	needs(t, "ganesha.nfsd")
	of := hostDir(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	work := t.TempDir()
	_, err = prepare(t, "nfs", nfsSpec(func(s *NFSSpec) { s.Port = l.Addr().(*net.TCPAddr).Port }), Env{Of: of, WorkDir: work})
	wantError(t, err, "is taken", "leave port: out")
	_, err = prepare(t, "nfs", nfsSpec(func(s *NFSSpec) { s.Options = "port=1" }), Env{Of: of, WorkDir: work})
	wantError(t, err, "iotax sets port itself", "leave it out")
	local := plan.Target{Name: "a target", On: plan.Host, Kind: "nfs", Spec: nfsSpec(func(s *NFSSpec) { s.Options = "nconnect=2,noresvport" })}
	_, err = Prepare(t.Context(), local, Env{ID: "t0", Host: here, Of: of, WorkDir: work})
	wantError(t, err, "noresvport", "leave noresvport out of options:")

	// A machine that cannot reach this host cannot mount the export.
	v, err := prepare(t, "nfs", nfsSpec(func(*NFSSpec) {}), Env{Of: of, WorkDir: work})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Attach(t.Context(), &fake.Machine{Name: "elsewhere", Under: here})
	wantError(t, err, "cannot be reached", "dir:")
	if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{work, of.Path} {
		if left, _ := os.ReadDir(dir); len(left) > 1 || len(left) == 1 && left[0].Name() != marker {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}

// The short form of `nfs:` is a version or an export.
func TestNFSWords(t *testing.T) {
	for word, want := range map[string]NFSSpec{
		"4.1":                      {Version: "4.1"},
		"nas:/export":              {Server: "nas:/export"},
		"nfs://nas/export":         {Server: "nas:/export"},
		"nfs://nas:2050/export":    {Server: "nas:/export", Port: 2050},
		"nfs://[fd00::1]:2050/a/b": {Server: "[fd00::1]:/a/b", Port: 2050},
		"[fd00::1]:/export":        {Server: "[fd00::1]:/export"},
		"nfs://nas:70000/export":   {},
	} {
		var s NFSSpec
		if err := s.SetScalar(word); s != want || (err != nil) != (want == NFSSpec{}) {
			t.Errorf("%s: %+v, %v", word, s, err)
		}
	}
}

// existingServer starts a server with three exports, as if it were on another machine: /rw, /ro, and /squash, which
// maps root to another user.
func existingServer(t *testing.T) (dir string, port int) {
	dir, work := t.TempDir(), t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf(ganeshaConf, port, work, dir+"/rw", false)
	conf = strings.Replace(conf, "Pseudo = /iotax", "Pseudo = /rw", 1)
	_, export, _ := strings.Cut(conf, "EXPORT {")
	export, _, _ = strings.Cut(export, "\n")
	for i, o := range []string{"ro", "squash"} {
		e := strings.NewReplacer("Export_Id = 1", fmt.Sprintf("Export_Id = %d", i+2), "/rw", "/"+o).Replace(export)
		switch o {
		case "ro":
			e = strings.Replace(e, "Access_Type = RW", "Access_Type = RO", 1)
		case "squash":
			e = strings.Replace(e, "No_Root_Squash", "Root_Squash", 1)
		}
		conf += "EXPORT {" + e + "\n"
	}
	for _, o := range []string{"rw", "ro", "squash"} {
		if err := os.MkdirAll(dir+"/"+o+"/sub", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+o+"/theirs", []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(work+"/conf", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := startServer(t.Context(), here, work+"/pid", nil, "ganesha.nfsd", "-F", "-f", work+"/conf", "-L", work+"/log", "-p", work+"/lock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for {
		log, _ := os.ReadFile(work + "/log")
		if strings.Contains(string(log), "NFS SERVER INITIALIZED") {
			return dir, port
		}
		select {
		case <-s.done:
			t.Fatalf("%v: %s", s.ended(), log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tree lists the paths below dir, with the contents of the files.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all = append(all, path)
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, path+" "+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// iotax mounts the export of an existing server in a guest. It writes only in its own directory and removes that
// directory. It refuses exports that cannot be measured.
func TestExistingNFS(t *testing.T) {
	long.Test(t)
	needs(t, "ganesha.nfsd")
	dir, port := existingServer(t)
	before := tree(t, dir)
	m := bootGuest(t, nil)
	volume := func(server string, change func(*NFSSpec)) iotax.Volume {
		spec := newSpec("nfs").(*NFSSpec)
		spec.Server, spec.Port = server, port
		if change != nil {
			change(spec)
		}
		v, err := prepare(t, "nfs", spec, Env{ID: "s0", Need: 16 << 20, WorkDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	host := m.Caps().HostAddress
	for _, c := range []struct {
		server, below string
		change        func(*NFSSpec)
		options       []string
	}{
		{host + ":/rw", "/rw", nil, []string{"vers=4.2", "softerr"}},
		{"host:/rw/sub/", "/rw/sub", func(s *NFSSpec) { s.Version, s.Options = "4.0", "rsize=65536,nconnect=2,hard" }, []string{"vers=4.0", "rsize=65536", "hard"}},
	} {
		v := volume(c.server, c.change)
		p, err := v.Attach(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %v", p.Path, p.Facts)
		for _, o := range append(c.options, "port="+strconv.Itoa(port), "addr="+host) {
			if !strings.Contains(","+p.Facts["filesystem.options"]+",", ","+o) {
				t.Errorf("mounted with %s, without %s", p.Facts["filesystem.options"], o)
			}
		}
		if p.Facts["filesystem"] != "nfs4" || p.Facts["share.type"] != "nfs" || p.Facts["nfs.server"] != c.server || p.Backing != "" || p.Guard == nil || p.Guard(t.Context()) != nil {
			t.Errorf("place %+v", p)
		}
		p.Backing = dir // directory of the server
		checkIO(t, m, p)
		own, _ := filepath.Glob(dir + c.below + "/iotax-*")
		if len(own) != 1 || filepath.Base(own[0]) != filepath.Base(p.Path) {
			t.Fatalf("on the server: %q, for %s", own, p.Path)
		}
		for _, path := range tree(t, dir) {
			if !strings.HasPrefix(path, own[0]) && !slices.Contains(before, path) {
				t.Errorf("written beside %s: %s", own[0], path)
			}
		}
		if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		server      string
		change      func(*NFSSpec)
		want, hints string
	}{
		{host + ":/ro", nil, "the export is read-only", "with rw"},
		{host + ":/squash", nil, "ermission denied", "no_root_squash"},
		{host + ":/missing", nil, "does not exist", "try 10.0.2.2:/"},
		{host + ":/rw", func(s *NFSSpec) { s.Port = 1 }, "refused", "firewall"},
		{"nowhere.invalid:/rw", nil, "nowhere.invalid", "name of the server"},
	} {
		v := volume(c.server, c.change)
		_, err := v.Attach(t.Context(), m)
		wantError(t, err, c.want, c.hints)
		if err := v.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left, _ := iotax.Output(t.Context(), m, "sh", "-c", "grep nfs4 /proc/mounts; ls -d /mnt/iotax-s*"); len(left) > 0 {
		t.Errorf("left in the guest: %s", left)
	}
	if after := tree(t, dir); !slices.Equal(after, before) {
		t.Errorf("left on the server: %q, there was %q", after, before)
	}
}

// This host mounts NFS if its kernel supports it. Otherwise, an error from Attach has a hint.
func TestNFSOnHost(t *testing.T) {
	needs(t, "ganesha.nfsd")
	work := t.TempDir()
	v, err := prepare(t, "nfs", nfsSpec(func(*NFSSpec) {}), Env{Of: hostDir(t), WorkDir: work})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), here)
	if fs, _ := os.ReadFile("/proc/filesystems"); strings.Contains(string(fs), "\tnfs4\n") {
		if err != nil {
			t.Fatal(err)
		}
		checkIO(t, here, p)
	} else if err != nil {
		wantError(t, err, "nfs4", "boot a kernel with the file system nfs4")
	}
	if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(work); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A machine mounts a directory of this host with sshfs. Detach and Close remove everything.
func TestSSHFS(t *testing.T) {
	needs(t, "sshfs")
	of, work := hostDir(t), t.TempDir()
	v, err := prepare(t, "sshfs", &SSHFSSpec{Options: "dir_cache=no"}, Env{Of: of, Need: 1 << 20, WorkDir: work})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), elsewhere{here})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Path+"/file", []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
	if served, _ := filepath.Glob(p.Backing + "/iotax-*/file"); p.Facts["filesystem"] != "fuse.sshfs" || len(served) != 1 {
		t.Errorf("%+v: %q", p, served)
	}
	if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(work); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if left := atMnt(t); len(left) > 0 {
		t.Errorf("left there: %q", left)
	}
}

// The SFTP server cannot access files outside of the directory, even through a symbolic link.
func TestSSHFSIsConfined(t *testing.T) {
	needs(t, "sshfs")
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := prepare(t, "sshfs", &SSHFSSpec{Options: "dir_cache=no,follow_symlinks"}, Env{Of: hostDir(t), Need: 1 << 20, WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Attach(t.Context(), elsewhere{here})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(outside, p.Backing+"/out"), os.WriteFile(p.Backing+"/in", []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(p.Path)
	if text, err := os.ReadFile(root + "/in"); err != nil || string(text) != "x" {
		t.Errorf("inside: %q, %v", text, err)
	}
	if err := errors.Join(os.Chmod(root+"/in", 0o640), os.Rename(root+"/in", p.Path+"/moved"), os.Truncate(p.Path+"/moved", 0)); err != nil {
		t.Errorf("inside: %v", err)
	}
	if text, err := os.ReadFile(root + "/out"); err == nil {
		t.Errorf("read %q outside", text)
	}
	for name, err := range map[string]error{"write": os.WriteFile(root+"/out", nil, 0o600), "truncate": os.Truncate(root+"/out", 1), "chmod": os.Chmod(root+"/out", 0o644)} {
		if err == nil {
			t.Errorf("%s outside: no error", name)
		}
	}
	if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

// A client on an unprivileged port, such as a program of another user of this host, cannot use an export that this host
// mounts.
func TestNFSNeedsPrivilegedPort(t *testing.T) {
	needs(t, "ganesha.nfsd")
	v, err := Prepare(t.Context(), plan.Target{Name: "export", On: plan.Host, Kind: "nfs", Spec: nfsSpec(func(*NFSSpec) {})}, Env{Host: here, ID: "t0", Of: hostDir(t), WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	server := fmt.Sprintf("127.0.0.1:%d", v.(*nfs).port)
	if got := lookUp(t, server, 0); got == 0 {
		t.Error("the export accepts an unprivileged port")
	}
	const privileged = 600
	if got := lookUp(t, server, privileged); got != 0 {
		t.Errorf("with a privileged port: status %d", got)
	}
	if err := v.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// lookUp sends the NFSv4 operations PUTROOTFH and LOOKUP of the export to a server, as root, and returns the status.
func lookUp(t *testing.T, server string, from int) uint32 {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: from}, Timeout: time.Minute}
	c, err := d.DialContext(t.Context(), "tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const call, version, nfsProgram, compound, authSys, putRoot, lookup = 0, 2, 100003, 1, 1, 24, 15
	var b []byte
	for _, x := range []uint32{1, call, version, nfsProgram, 4, compound, authSys, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, putRoot, lookup, uint32(len("iotax"))} {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	b = append(b, "iotax\x00\x00\x00"...)
	answer := make([]byte, 32)
	_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(b))), b...))
	if _, rerr := io.ReadFull(c, answer); err != nil || rerr != nil {
		t.Fatal(err, rerr)
	}
	return binary.BigEndian.Uint32(answer[28:])
}
