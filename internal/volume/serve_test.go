package volume

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/fake"
	"iotax/internal/plan"
)

// lossy presents this host as another machine. It loses one call: either the call itself, or its answer.
type lossy struct {
	elsewhere
	n, failAt int
	before    bool
}

var errLost = errors.New("connection lost")

// Caps returns capabilities with an agent link that starts a new session for each call.
func (l *lossy) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{Agent: &agent.Link{Start: l.start}}
}

func (l *lossy) start(ctx context.Context) (*agent.Session, error) {
	switch l.n++; {
	case l.n != l.failAt:
		return agent.InProcess(ctx)
	case l.before:
		return nil, &iotax.Error{Op: "start the agent on", On: l.String(), Err: errLost}
	}
	client, server := net.Pipe()
	go func() { _ = agent.Serve(context.WithoutCancel(ctx), nil, server, noAnswer{server}) }()
	return agent.Meet(client, client, client.Close)
}

// noAnswer closes the connection instead of sending the first yamux frame with data, which is the answer to the call.
type noAnswer struct{ net.Conn }

func (n noAnswer) Write(p []byte) (int, error) {
	if len(p) == 12 && p[0] == 0 && p[1] == 0 && binary.BigEndian.Uint32(p[8:]) > 0 {
		return 0, errors.Join(errLost, n.Close())
	}
	return n.Conn.Write(p)
}

// ownDisk makes this host show a loop device as the disk of a guest.
func ownDisk(t *testing.T) {
	t.Helper()
	name := filepath.Base(loop(t, 64<<20))
	ofKernel(t)
	kernel.block = t.TempDir()
	dir := filepath.Join(kernel.block, name)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/serial", []byte("iotax-t0\n"), 0o600), os.WriteFile(dir+"/size", []byte("131072\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// atMnt returns the mounts and directories of runs in /mnt.
func atMnt(t *testing.T) (all []string) {
	t.Helper()
	mounts, err := hereMounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if strings.HasPrefix(m.Point, "/mnt/iotax-") {
			all = append(all, m.Point)
		}
	}
	made, _ := filepath.Glob("/mnt/iotax-*")
	return append(all, made...)
}

// If any one call is lost, before or after it took effect, Detach removes everything on the machine, and Close removes
// the files on the host.
func TestHalfAttached(t *testing.T) {
	ownDisk(t)
	for _, kind := range []string{"disk", "memory"} {
		of := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir(), Durability: iotax.Durable}
		for _, before := range []bool{true, false} {
			for at := 0; ; at++ {
				v, err := prepare(t, kind, newSpec(kind), Env{Of: of, Need: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				m := &lossy{elsewhere: elsewhere{here}, failAt: at, before: before}
				p, err := v.Attach(t.Context(), m)
				last := at > m.n
				m.failAt = 0
				if (at == 0 || last) && (err != nil || !strings.HasPrefix(p.Path, "/mnt/iotax-")) {
					t.Fatalf("%s: %+v, %v", kind, p, err)
				}
				var x *iotax.Error
				if err != nil && (!strings.Contains(err.Error(), errLost.Error()) && !strings.Contains(err.Error(), "the agent is gone") || !errors.As(err, &x)) {
					t.Errorf("%s, call %d: %v", kind, at, err)
				}
				if err := v.Detach(t.Context()); err != nil {
					t.Errorf("%s, call %d: Detach: %v", kind, at, err)
				}
				if left := atMnt(t); len(left) > 0 {
					t.Fatalf("%s, call %d (before: %v): left %q", kind, at, before, left)
				}
				if err := errors.Join(v.Detach(t.Context()), v.Close(t.Context())); err != nil {
					t.Error(err)
				}
				if left, _ := os.ReadDir(of.Path); len(left) > 0 {
					t.Errorf("left on the host: %v", left)
				}
				if last {
					break
				}
			}
		}
	}
}

// A calibration within a run prepares volumes with the same IDs in the same work directory. Neither volume unmounts the
// other's file system.
func TestSameIDs(t *testing.T) {
	work := t.TempDir()
	var volumes []iotax.Volume
	var places []iotax.Place
	for range 2 {
		v, err := prepare(t, "memory", newSpec("memory"), Env{Need: 1 << 20, WorkDir: work})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(v.Detach(context.Background()), v.Close(context.Background())) })
		p, err := v.Attach(t.Context(), here)
		if err != nil {
			t.Fatal(err)
		}
		volumes, places = append(volumes, v), append(places, p)
	}
	if err := volumes[1].Detach(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(places[0].Path, "x"), nil, 0o600); err != nil {
		t.Errorf("the first volume: %v", err)
	}
}

// If the guest has ended, the error of Detach names the mount and the directory that remain in the guest. Close still
// removes the files on the host.
func TestDetachFromDeadGuest(t *testing.T) {
	ownDisk(t)
	of := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir()}
	v, err := prepare(t, "disk", newSpec("disk"), Env{Of: of, Need: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake.Machine{Name: "guest", Under: here}
	t.Cleanup(func() {
		if _, err := unmountHere(context.Background(), mounting{Source: "/dev/" + filepath.Base(onlyDir(t, kernel.block)), Point: "/mnt/iotax-t0"}); err != nil {
			t.Error(err)
		}
	})
	if _, err := v.Attach(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	f.Die()
	err = v.Detach(t.Context())
	wantError(t, err, "remove /mnt/iotax-t0/iotax-", "by hand")
	if !strings.Contains(err.Error(), "unmount /mnt/iotax-t0") {
		t.Errorf("the mount is not reported: %v", err)
	}
	if err := v.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(of.Path); len(left) > 0 {
		t.Errorf("left on the host: %v", left)
	}
}

// onlyDir returns the name of the only entry of a directory.
func onlyDir(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0].Name()
}

func TestServedFrom(t *testing.T) {
	dir := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir()}
	full := iotax.Place{Kind: iotax.PlaceDir, Path: tmpfs(t, "size=1m")}
	export := func(size int64, existed bool) iotax.Place {
		p := iotax.Place{Kind: iotax.PlaceURL, Path: "nbd://h:1", ReadOnly: existed, Facts: map[string]string{"nbd": "qemu-nbd"}}
		if !existed {
			p.Facts["nbd.size"] = strconv.FormatInt(size, 10)
		}
		return p
	}
	for _, c := range []struct {
		name, kind  string
		spec        plan.Spec
		env         Env
		cause, hint string
	}{
		{"on a device", "disk", newSpec("disk"), Env{Of: iotax.Place{Kind: iotax.PlaceDevice, Path: "/dev/x"}}, "not a directory", "dir:"},
		{"on nothing", "share", newSpec("share"), Env{}, "not a directory", "dir:"},
		{"read-only", "share", newSpec("share"), Env{Of: iotax.Place{Kind: iotax.PlaceDir, Path: "/x", ReadOnly: true}}, "read-only", "written"},
		{"gone", "share", newSpec("share"), Env{Of: iotax.Place{Kind: iotax.PlaceDir, Path: dir.Path + "/gone"}}, "no such file", ""},
		{"no space", "disk", newSpec("disk"), Env{Of: full}, "not enough space", "smaller"},
		{"too small", "disk", &DiskSpec{Bus: "nvme", Format: "raw", Cache: "none", AIO: "threads", Preallocation: "off", Filesystem: "ext4", Size: 64 << 20},
			Env{Of: dir, Need: 1 << 30}, "less than the 1 GiB", "at least 1.5 GiB"},
		{"no O_DIRECT", "disk", &DiskSpec{Bus: "nvme", Format: "raw", Cache: "none", AIO: "threads", Preallocation: "off", Filesystem: "ext4", Size: 16 << 20},
			Env{Of: full}, "O_DIRECT", "cache: writeback"},
		{"an export that exists", "disk", newSpec("disk"), Env{Of: export(64<<20, true)}, "read-only", "nbd: {size"},
		{"preallocation of an export", "disk", diskSpec(func(s *DiskSpec) { s.Preallocation = "off" }), Env{Of: export(1<<30, false)}, "preallocation", "leave preallocation out"},
		{"too small an export", "disk", newSpec("disk"), Env{Of: export(64<<20, false), Need: 1 << 30}, "it has 64 MiB, less than the 1 GiB", "{nbd: {size: 1.5 GiB}}"},
		{"qcow2 on an export", "disk", diskSpec(func(s *DiskSpec) { s.Format = "qcow2" }), Env{Of: export(64<<20, false)}, "raw disk", "format"},
		{"erofs on an export", "disk", diskSpec(func(s *DiskSpec) { s.Filesystem = "erofs" }), Env{Of: export(64<<20, false)}, "not a directory", "dir:"},
		{"no files", "disk", diskSpec(func(s *DiskSpec) { s.Filesystem = "erofs" }), Env{Of: dir}, "no workload names the files", "randread"},
		{"a wrong id", "disk", newSpec("disk"), Env{Of: dir, ID: "Not/Good"}, "1 to 12", ""},
		{"no such kind", "disc", newSpec("disk"), Env{Of: dir}, "no kind", "device, dir, disk"},
		{"another's spec", "disk", newSpec("share"), Env{Of: dir}, "spec is a *volume.ShareSpec", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := prepare(t, c.kind, c.spec, c.env)
			if err == nil {
				t.Cleanup(func() { v.Close(context.Background()) })
			}
			if c.name == "no O_DIRECT" && err == nil {
				t.Skip("needs a kernel whose tmpfs refuses O_DIRECT")
			}
			var x *iotax.Error
			if !errors.As(err, &x) || !strings.Contains(err.Error(), c.cause) || !strings.Contains(x.Hint, c.hint) {
				t.Errorf("got %v\nwant cause %q and hint %q", err, c.cause, c.hint)
			}
			for _, p := range []iotax.Place{dir, full} {
				if left, _ := os.ReadDir(p.Path); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			}
		})
	}
}

// An existing image or shared directory belongs to another run. It is neither used nor removed.
func TestForeignImageStays(t *testing.T) {
	of := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir()}
	for _, c := range []struct {
		kind, file string
		spec       plan.Spec
	}{
		{"disk", "disk-t0.raw", newSpec("disk")},
		{"disk", "disk-t0.qcow2", diskSpec(func(s *DiskSpec) { s.Format = "qcow2" })},
		{"disk", "disk-t0.raw", diskSpec(func(s *DiskSpec) { s.Filesystem = "none" })},
		{"share", "share-t0", newSpec("share")},
	} {
		file := filepath.Join(of.Path, c.file)
		if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := prepare(t, c.kind, c.spec, Env{Of: of, Need: 16 << 20})
		wantError(t, err, "", "another run")
		if b, _ := os.ReadFile(file); string(b) != "precious" {
			t.Errorf("%s is %q", c.file, b)
		}
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
}

func TestDiskSize(t *testing.T) {
	for need, want := range map[int64]int64{0: 1 << 30, 1: 320 << 20, 256 << 20: 576 << 20, 1 << 30: 1536 << 20, 100 << 30: 125<<30 + 256<<20} {
		if got := diskSize(need); got != want {
			t.Errorf("diskSize(%d) is %d, want %d", need, got, want)
		}
	}
}

func bucketSpec(change func(*BucketSpec)) *BucketSpec {
	s := newSpec("bucket").(*BucketSpec)
	change(s)
	return s
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		spec   plan.Spec
		fields string // expected fields of the errors
		hint   string // expected hint of the first error
	}{
		{diskSpec(func(s *DiskSpec) {}), "", ""},
		{diskSpec(func(s *DiskSpec) { s.AIO = "native" }), "", ""},
		{diskSpec(func(s *DiskSpec) { s.AIO, s.Cache = "native", "writeback" }), "aio", "cache: none or directsync"},
		{diskSpec(func(s *DiskSpec) { s.Bus, s.IOThread = "nvme", true }), "iothread", "leave iothread out"},
		{diskSpec(func(s *DiskSpec) { s.Preallocation = "metadata" }), "preallocation", "qcow2"},
		{diskSpec(func(s *DiskSpec) { s.Hot = true }), "", ""},
		{diskSpec(func(s *DiskSpec) { s.Hot, s.Filesystem = true, "root" }), "hot", "leave hot out"},
		{diskSpec(func(s *DiskSpec) { s.Size = 1 }), "size", "16MiB"},
		{diskSpec(func(s *DiskSpec) { s.Discard, s.DetectZeroes, s.NumQueues, s.QueueSize = "unmap", "unmap", 4, 1024 }), "", ""},
		{diskSpec(func(s *DiskSpec) { s.DetectZeroes = "unmap" }), "detect_zeroes", "discard: unmap"},
		{diskSpec(func(s *DiskSpec) { s.Bus, s.QueueSize = "nvme", 64 }), "queue_size", "virtio-blk or virtio-scsi"},
		{diskSpec(func(s *DiskSpec) { s.QueueSize, s.NumQueues = 100, -1 }), "queue_size num_queues", "256"},
		{diskSpec(func(s *DiskSpec) { s.ClusterSize, s.LazyRefcounts = 65536, true }), "cluster_size lazy_refcounts", "format: qcow2"},
		{diskSpec(func(s *DiskSpec) { s.Format, s.ClusterSize, s.ExtendedL2 = "qcow2", 8<<10, true }), "extended_l2", "larger"},
		{diskSpec(func(s *DiskSpec) { s.IOThread, s.IOThreadVQMapping = true, 2 }), "iothread_vq_mapping", "leave"},
		{diskSpec(func(s *DiskSpec) { s.Hot, s.NumQueues = true, 2 }), "hot", "leave hot out"},
		{diskSpec(func(s *DiskSpec) { s.DriveArgs, s.DeviceArgs = "cache.no-flush=on", "write-cache=off" }), "drive_args device_args", "key of the plan"},
		{diskSpec(func(s *DiskSpec) { s.DeviceArgs = "packed" }), "device_args", "packed=on"},
		{diskSpec(func(s *DiskSpec) { s.Filesystem, s.Size = "xfs", 64<<20 }), "size", "300MiB"},
		{shareSpec(func(s *ShareSpec) { s.Type, s.Writeback = "9p", true }), "writeback", "type: virtiofs"},
		{shareSpec(func(s *ShareSpec) { s.Type, s.ThreadPoolSize = "9p", 4 }), "thread_pool_size", "type: virtiofs"},
		{shareSpec(func(s *ShareSpec) { s.ThreadPoolSize = -1 }), "thread_pool_size", "64"},
		{shareSpec(func(s *ShareSpec) {}), "", ""},
		{shareSpec(func(s *ShareSpec) { s.Cache = "loose" }), "cache", "none, metadata, auto, always"},
		{shareSpec(func(s *ShareSpec) { s.MSize, s.Security = 4096, "none" }), "msize security", "type: 9p"},
		{shareSpec(func(s *ShareSpec) { s.Type, s.Cache = "9p", "auto" }), "cache", "none, loose, fscache, mmap"},
		{shareSpec(func(s *ShareSpec) { s.Type, s.MSize = "9p", 100 }), "msize", "4096 or more"},
		{nfsSpec(func(s *NFSSpec) { s.Options = "hard,nconnect=4" }), "", ""},
		{nfsSpec(func(s *NFSSpec) { s.OfTarget, s.Server, s.Options = "", "[fd00::1]:/x", "nconnect=4" }), "", ""},
		{nfsSpec(func(s *NFSSpec) { s.Server, s.Options = "nas", "noatime,ro" }), "options server of", "leave it out"},
		{nfsSpec(func(s *NFSSpec) { s.OfTarget, s.Server, s.Binary = "", "nas:/x", "/opt/ganesha.nfsd" }), "binary", "leave binary: or server: out"},
		{&SSHFSSpec{Options: "dir_cache=no"}, "", ""},
		{diskSpec(func(s *DiskSpec) { s.Filesystem, s.Preallocation = "none", "off" }), "preallocation", "leave preallocation out"},
		{diskSpec(func(s *DiskSpec) { s.Filesystem, s.Preallocation = "squashfs", "full" }), "preallocation", "leave preallocation out"},
		{bucketSpec(func(s *BucketSpec) { s.Style, s.TLS = "path", true }), "", ""},
		{bucketSpec(func(s *BucketSpec) { s.Style, s.CA, s.Credentials = "virtual", "/ca.pem", "/keys" }), "style ca credentials", "path"},
		{bucketSpec(func(s *BucketSpec) {
			s.URL, s.Style, s.CA, s.Credentials = "https://h/b", "virtual", "/ca.pem", "/keys"
		}), "", ""},
		{bucketSpec(func(s *BucketSpec) { s.URL, s.Server = "https://h/b", "minio" }), "url", "leave"},
		{bucketSpec(func(s *BucketSpec) { s.URL, s.Port = "https://h/b", 9000 }), "url", "leave"},
		{&MemorySpec{Type: "ramfs"}, "", ""},
		{&MemorySpec{Type: "ramfs", Size: 1 << 20}, "size", "leave it out"},
		{diskSpec(func(s *DiskSpec) { s.Filesystem, s.Format, s.Size = "erofs", "qcow2", 1<<30 }), "format size", "leave format out"},
		{&SSHFSSpec{Options: "dir_cache=no,slave"}, "options", "leave it out"},
		{&SSHFSSpec{Options: "a b"}, "options", "commas"},
		{nfsSpec(func(s *NFSSpec) { s.Options, s.Port = "vers=3, ro", 70000 }), "options options port", "leave it out"},
	} {
		err := c.spec.Validate()
		var fields []string
		hint := ""
		all := []error{err}
		if j, ok := err.(interface{ Unwrap() []error }); ok {
			all = j.Unwrap()
		}
		for _, e := range all {
			var f *plan.FieldError
			if errors.As(e, &f) {
				if fields = append(fields, f.Field); hint == "" {
					hint = f.Hint
				}
			}
		}
		if strings.Join(fields, " ") != c.fields || !strings.Contains(hint, c.hint) {
			t.Errorf("%+v: %v, fields %v, hint %q", c.spec, err, fields, hint)
		}
	}
	s := shareSpec(func(s *ShareSpec) { s.Type = "9p" })
	if err := s.Validate(); err != nil || s.Cache != "none" || s.MSize != 512000 || s.Security != "mapped-xattr" {
		t.Errorf("defaults of 9p: %+v %v", s, err)
	}
}

// A kind whose spec has keys has a doc. If its targets do not consist of other targets, the kind also has a short form.
func TestKinds(t *testing.T) {
	var names []string
	for _, k := range PlanKinds() {
		names = append(names, k.Name)
		if k.Name == "own" { // the spec has no keys
			continue
		}
		can := k.New().Traits()
		if k.Doc == "" {
			t.Errorf("%s has no doc", k.Name)
		}
		if can.Gather != nil {
			if len(k.On) != 1 || k.On[0] != plan.Host { // its members determine the machines
				t.Errorf("%s on %v", k.Name, k.On)
			}
			continue // it has no short form, because it consists of other targets
		}
		if _, ok := k.New().(plan.Scalar); !ok {
			t.Errorf("%s has no short form", k.Name)
			continue
		}
		refers := can.Of != nil
		if want := slices.Contains([]string{"disk", "share", "mount", "nfs", "sshfs"}, k.Name); refers != want || (want || k.Name == "claim") != (len(k.On) > 0) {
			t.Errorf("%s refers: %v, on %v", k.Name, refers, k.On)
		}
	}
	if got := strings.Join(names, " "); got != "dir device disk share mount claim nfs sshfs memory own nbd network group neighbours bucket" {
		t.Errorf("kinds %s", got)
	}
}

// The defaults and limits in the schema match the code.
func TestClaims(t *testing.T) {
	doc := func(spec any, field string) string {
		f, _ := reflect.TypeOf(spec).FieldByName(field)
		return f.Tag.Get("doc")
	}
	virtiofs, plan9 := &ShareSpec{Type: "virtiofs"}, &ShareSpec{Type: "9p"}
	if err := errors.Join(virtiofs.Validate(), plan9.Validate()); err != nil {
		t.Fatal(err)
	}
	_, msize, _ := strings.Cut(strings.TrimSuffix(doc(ShareSpec{}, "MSize"), ")"), "default ")
	if n, err := plan.ParseSize(msize); err != nil || n != plan9.MSize {
		t.Errorf("the schema has %s as the default msize, the code has %d: %v", msize, plan9.MSize, err)
	}
	for _, c := range []struct{ doc, want string }{
		{doc(ShareSpec{}, "Cache"), virtiofs.Cache + " (default)"},
		{doc(ShareSpec{}, "Cache"), plan9.Cache + " (default)"},
		{doc(ShareSpec{}, "Security"), "default " + plan9.Security},
		{doc(ClaimSpec{}, "Size"), "is at least " + bytesText(leastClaim)},
	} {
		if !strings.Contains(c.doc, c.want) {
			t.Errorf("the schema has %q, the code has %q", c.doc, c.want)
		}
	}
}
