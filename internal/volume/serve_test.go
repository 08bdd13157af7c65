package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/machine/fake"
	"iotax/internal/plan"
)

// unix is a guest in words: it knows the scripts of this package, keeps what they would have changed,
// and loses the answer of one of them.
type unix struct {
	done   []string // what happened, in order
	mounts []string
	dirs   []string
	n      int
	failAt int
	before bool // the command is lost before it takes effect
}

var errLost = errors.New("connection lost")

func (u *unix) String() string              { return "guest" }
func (u *unix) Close(context.Context) error { return nil }
func (u *unix) Caps() iotax.MachineCaps     { return iotax.MachineCaps{} }

func (u *unix) Run(ctx context.Context, c *iotax.Cmd) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	u.n++
	if u.n == u.failAt && u.before {
		return errLost
	}
	args := c.Args[4:] // sh -c SCRIPT sh …
	script := strings.TrimPrefix(c.Args[2], leftover.Prologue)
	if script == asRoot {
		script, args = strings.TrimPrefix(args[0], leftover.Prologue), args[2:]
	}
	out := ""
	gone := func(s string) func(string) bool { return func(x string) bool { return x == s } }
	switch script {
	case findDisk:
		out = "vda 4096"
	case makeExt4:
		u.done = append(u.done, "mkfs "+args[0])
	case doMount:
		u.done = append(u.done, "mount "+args[2])
		u.mounts = append(u.mounts, args[2])
	case unmount:
		if slices.Contains(u.mounts, args[0]) {
			u.done = append(u.done, "umount "+args[0])
		}
		u.mounts = slices.DeleteFunc(u.mounts, gone(args[0]))
	case surveyDir:
		out = "real " + args[0] + "\nspace 1000000 1000000\nmounts\n1 0 254:0 / " + args[0] + " rw - ext4 /dev/vda rw\n"
	case makeDir:
		u.done = append(u.done, "mkdir")
		u.dirs = append(u.dirs, args[0]+"/"+args[1])
	case removeDir:
		if slices.Contains(u.dirs, args[0]) {
			u.done = append(u.done, "rm")
		}
		u.dirs = slices.DeleteFunc(u.dirs, gone(args[0]))
	default:
		if len(args) > 2 { // a script that looks has one or two
			return fmt.Errorf("unknown script %q", script)
		}
	}
	if u.n == u.failAt {
		return errLost
	}
	if c.Stdout != nil {
		fmt.Fprint(c.Stdout, out)
	}
	return nil
}

// Whichever command is lost, before or after it took effect, Detach leaves nothing, in the order in
// which it must go.
func TestHalfAttached(t *testing.T) {
	for _, c := range []struct {
		kind string
		spec func() plan.Spec
	}{
		{"disk", newDiskSpec}, {"share", newShareSpec},
	} {
		of := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir(), Durability: iotax.Durable}
		for _, before := range []bool{true, false} {
			for at := 0; ; at++ {
				v, err := prepare(t, c.kind, c.spec(), Env{Of: of, Need: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				u := &unix{failAt: at, before: before}
				_, err = v.Attach(t.Context(), u)
				last := at > u.n
				u.failAt = 0
				if at == 0 && err != nil {
					t.Fatalf("%s: %v", c.kind, err)
				}
				var x *iotax.Error
				if err != nil && (!errors.Is(err, errLost) && !strings.Contains(err.Error(), errLost.Error()) || !errors.As(err, &x)) {
					t.Errorf("%s, command %d: %v", c.kind, at, err)
				}
				if err := v.Detach(t.Context()); err != nil {
					t.Errorf("%s, command %d: Detach: %v", c.kind, at, err)
				}
				if len(u.mounts)+len(u.dirs) > 0 {
					t.Errorf("%s, command %d (before: %v): left %v %v", c.kind, at, before, u.mounts, u.dirs)
				}
				if done := strings.Join(u.done, " "); at == 0 && !strings.HasSuffix(done, "mount /mnt/iotax-t0 mkdir rm umount /mnt/iotax-t0") {
					t.Errorf("%s: done %s", c.kind, done)
				}
				if err := v.Detach(t.Context()); err != nil {
					t.Error(err)
				}
				if err := v.Close(t.Context()); err != nil {
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

// A guest that is gone is reported, and the host's side goes all the same.
func TestDetachFromDeadGuest(t *testing.T) {
	of := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir()}
	v, err := prepare(t, "share", newShareSpec(), Env{Of: of})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake.Machine{Name: "guest", Under: &unix{}}
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

func TestServedFrom(t *testing.T) {
	dir := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir()}
	full := iotax.Place{Kind: iotax.PlaceDir, Path: tmpfs(t, "size=1m")}
	for _, c := range []struct {
		name, kind  string
		spec        plan.Spec
		env         Env
		cause, hint string
	}{
		{"on a device", "disk", newDiskSpec(), Env{Of: iotax.Place{Kind: iotax.PlaceDevice, Path: "/dev/x"}}, "not a directory", "dir:"},
		{"on nothing", "share", newShareSpec(), Env{}, "not a directory", "dir:"},
		{"read-only", "share", newShareSpec(), Env{Of: iotax.Place{Kind: iotax.PlaceDir, Path: "/x", ReadOnly: true}}, "read-only", "written"},
		{"gone", "share", newShareSpec(), Env{Of: iotax.Place{Kind: iotax.PlaceDir, Path: dir.Path + "/gone"}}, "No such file", ""},
		{"no space", "disk", newDiskSpec(), Env{Of: full}, "not enough space", "smaller"},
		{"too small", "disk", &DiskSpec{Bus: "nvme", Format: "raw", Cache: "none", AIO: "threads", Preallocation: "off", Filesystem: "ext4", Size: 64 << 20},
			Env{Of: dir, Need: 1 << 30}, "less than the 1 GiB", "at least 1.5 GiB"},
		{"no O_DIRECT", "disk", &DiskSpec{Bus: "nvme", Format: "raw", Cache: "none", AIO: "threads", Preallocation: "off", Filesystem: "ext4", Size: 16 << 20},
			Env{Of: full}, "O_DIRECT", "cache: writeback"},
		{"no files", "disk", diskSpec(func(s *DiskSpec) { s.Filesystem = "erofs" }), Env{Of: dir}, "no workload says which files", "randread"},
		{"a wrong id", "disk", newDiskSpec(), Env{Of: dir, ID: "Not/Good"}, "1 to 12", ""},
		{"no such kind", "disc", newDiskSpec(), Env{Of: dir}, "no kind", "device, dir, disk"},
		{"another's spec", "disk", newShareSpec(), Env{Of: dir}, "spec is a *volume.ShareSpec", ""},
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

// An image that is there already belongs to someone else: it is neither used nor removed.
func TestForeignImageStays(t *testing.T) {
	of := iotax.Place{Kind: iotax.PlaceDir, Path: t.TempDir()}
	for _, c := range []struct {
		kind, file string
		spec       plan.Spec
	}{
		{"disk", "disk-t0.raw", newDiskSpec()},
		{"disk", "disk-t0.qcow2", diskSpec(func(s *DiskSpec) { s.Format = "qcow2" })},
		{"disk", "disk-t0.raw", diskSpec(func(s *DiskSpec) { s.Filesystem = "none" })},
		{"share", "share-t0", newShareSpec()},
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

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		spec   plan.Spec
		fields string // of the errors
		hint   string // of the first
	}{
		{diskSpec(func(s *DiskSpec) {}), "", ""},
		{diskSpec(func(s *DiskSpec) { s.AIO = "native" }), "", ""},
		{diskSpec(func(s *DiskSpec) { s.AIO, s.Cache = "native", "writeback" }), "aio", "cache: none or directsync"},
		{diskSpec(func(s *DiskSpec) { s.Bus, s.Format = "ide", "vmdk" }), "bus format", "virtio-blk, virtio-scsi, nvme"},
		{diskSpec(func(s *DiskSpec) { s.Bus, s.IOThread = "nvme", true }), "iothread", "leave iothread out"},
		{diskSpec(func(s *DiskSpec) { s.Preallocation = "metadata" }), "preallocation", "qcow2"},
		{diskSpec(func(s *DiskSpec) { s.Size = 1 }), "size", "16MiB"},
		{shareSpec(func(s *ShareSpec) {}), "", ""},
		{shareSpec(func(s *ShareSpec) { s.Type = "nfs" }), "type", "virtiofs, 9p"},
		{shareSpec(func(s *ShareSpec) { s.Cache = "loose" }), "cache", "none, auto, always"},
		{shareSpec(func(s *ShareSpec) { s.MSize, s.Security = 4096, "none" }), "msize security", "type: 9p"},
		{shareSpec(func(s *ShareSpec) { s.Type, s.Cache = "9p", "auto" }), "cache", "none, loose, fscache, mmap"},
		{shareSpec(func(s *ShareSpec) { s.Type, s.MSize = "9p", 100 }), "msize", "4096 or more"},
		{nfsSpec(func(s *NFSSpec) { s.Options = "hard,nconnect=4" }), "", ""},
		{&SSHFSSpec{Options: "dir_cache=no"}, "", ""},
		{&MemorySpec{Type: "ramfs"}, "", ""},
		{&MemorySpec{Type: "ramfs", Size: 1 << 20}, "size", "leave it out"},
		{&MemorySpec{Type: "ext4"}, "type", "tmpfs, ramfs"},
		{diskSpec(func(s *DiskSpec) { s.Filesystem, s.Format, s.Size = "erofs", "qcow2", 1<<30 }), "format size", "leave format out"},
		{&SSHFSSpec{Options: "dir_cache=no,slave"}, "options", "leave it out"},
		{&SSHFSSpec{Options: "a b"}, "options", "commas"},
		{nfsSpec(func(s *NFSSpec) { s.Version, s.Options, s.Port = "3", "vers=3, ro", 70000 }), "version options options port", "4.0, 4.1, 4.2"},
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

// Every kind makes specs that plan can read: a pointer to a struct whose fields have a key and a doc.
func TestKinds(t *testing.T) {
	var names []string
	for _, k := range PlanKinds() {
		names = append(names, k.Name)
		if k.Name == "own" { // it has no keys
			continue
		}
		can := k.New().Traits()
		if k.Doc == "" {
			t.Errorf("%s has no doc", k.Name)
		}
		if can.Gather != nil {
			if len(k.On) != 1 || k.On[0] != plan.Host { // it says itself where it is done
				t.Errorf("%s on %v", k.Name, k.On)
			}
			continue // it is made of others, which no one word names
		}
		if _, ok := k.New().(plan.Scalar); !ok {
			t.Errorf("%s has no short form", k.Name)
			continue
		}
		if can.Encloses {
			continue // it is on the machine of the target that it refers to
		}
		refers := can.Of != nil
		if want := slices.Contains([]string{"disk", "share", "mount", "nfs", "sshfs"}, k.Name); refers != want || (want || k.Name == "claim") != (len(k.On) > 0) {
			t.Errorf("%s refers: %v, on %v", k.Name, refers, k.On)
		}
	}
	if got := strings.Join(names, " "); got != "dir device disk share mount claim nfs sshfs memory own nbd network inside group neighbours bucket" {
		t.Errorf("kinds %s", got)
	}
}

// What the schema claims of a default is what the code does.
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
		{doc(ClaimSpec{}, "Size"), "is " + bytesText(leastClaim) + " at least"},
	} {
		if !strings.Contains(c.doc, c.want) {
			t.Errorf("the schema has %q, the code has %q", c.doc, c.want)
		}
	}
}
