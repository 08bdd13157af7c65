package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/internal/plan"
)

// ShareSpec is `share: {…}`: a directory of the host that a guest mounts.
type ShareSpec struct {
	Type     string    `yaml:"type" doc:"how it is shared" enum:"virtiofs,9p"`
	Binary   string    `yaml:"binary" doc:"virtiofs only: virtiofsd to start, a program or a path; empty means the installed one"`
	Cache    string    `yaml:"cache" doc:"virtiofs: cache mode of virtiofsd: none, metadata (virtiofsd in Rust), auto (default) or always; 9p: mount option cache: none (default), loose, fscache or mmap" enum:"none,metadata,auto,always,loose,fscache,mmap"`
	DAX      bool      `yaml:"dax" doc:"virtiofs only: map the host's page cache into the guest; QEMU and the guest's kernel must support it"`
	MSize    plan.Size `yaml:"msize" doc:"9p only: largest message (default 500KiB)"`
	Security string    `yaml:"security" doc:"9p only: security model, which decides how owners and modes are stored (default mapped-xattr)" enum:"mapped-xattr,mapped-file,passthrough,none"`

	ThreadPoolSize    int      `yaml:"thread_pool_size" doc:"virtiofs only: worker threads of virtiofsd; 0 does the work in the threads of the queues"`
	Writeback         bool     `yaml:"writeback" doc:"virtiofs only: let the guest keep written data in its page cache"`
	AllowDirectIO     bool     `yaml:"allow_direct_io" doc:"virtiofs only: direct I/O of the guest is direct I/O on the host"`
	InodeFileHandles  string   `yaml:"inode_file_handles" doc:"virtiofs only, virtiofsd in Rust: file handles in place of open files, which need args: [--modcaps=+dac_read_search]" enum:"never,prefer,mandatory"`
	ReaddirPlus       string   `yaml:"readdirplus" doc:"virtiofs only: list directories with attributes; empty is the default of virtiofsd" enum:"on,off"`
	AnnounceSubmounts string   `yaml:"announce_submounts" doc:"virtiofs only: mounts below the directory are mounts in the guest; empty is the default of virtiofsd" enum:"on,off"`
	Args              []string `yaml:"args" doc:"virtiofs only: arguments to add to virtiofsd's command line"`

	OfTarget string `yaml:"of" doc:"target of the host that holds the directory; empty means the baseline"`
}

func (s *ShareSpec) Traits() plan.Traits {
	can := plan.Traits{Of: &s.OfTarget, Choices: s.choices(), Elsewhere: s.elsewhere()}
	if s.Type == "virtiofs" {
		can.Tools = []string{cmp.Or(s.Binary, "virtiofsd")}
	}
	if plan.IsPath(s.Binary) {
		can.HostFiles = []*string{&s.Binary}
	}
	return can
}

// SetScalar sets only the type, as in `share: 9p`.
func (s *ShareSpec) SetScalar(v string) error { s.Type = v; return nil }

// Validate returns an error for invalid values and for options of the other type. It sets the defaults that depend on
// the type.
func (s *ShareSpec) Validate() error {
	switch s.Type {
	case "virtiofs":
		if s.Cache == "" {
			s.Cache = "auto"
		}
		foreign := func(field string, set bool) error {
			if !set {
				return nil
			}
			return &plan.FieldError{Field: field, Msg: "virtiofs has none", Hint: "leave it out, or use type: 9p"}
		}
		var threads error
		if s.ThreadPoolSize < 0 {
			threads = &plan.FieldError{Field: "thread_pool_size", Msg: fmt.Sprintf("%d is negative", s.ThreadPoolSize), Hint: "as in 64"}
		}
		return errors.Join(oneOf("cache", s.Cache, "none", "metadata", "auto", "always"), threads, foreign("msize", s.MSize != 0), foreign("security", s.Security != ""))
	case "9p":
		if s.Cache == "" {
			s.Cache = "none"
		}
		if s.Security == "" {
			s.Security = "mapped-xattr"
		}
		if s.MSize == 0 {
			// The kernel's default (8 KiB; 128 KiB since Linux 5.15) loses most of the bandwidth. The virtio transport
			// carries at most 125 pages.
			s.MSize = 512000
		}
		var size error
		if s.Binary != "" {
			return &plan.FieldError{Field: "binary", Msg: "9p has no daemon: QEMU serves it", Hint: "leave it out, or name a QEMU with binary: of the machine"}
		}
		set := slices.Sorted(maps.Keys(s.options()))
		if s.DAX {
			set = append(set, "dax")
		}
		if len(s.Args) > 0 {
			set = append(set, "args")
		}
		if len(set) > 0 {
			return &plan.FieldError{Field: strings.ReplaceAll(set[0], "-", "_"), Msg: "9p has none", Hint: "leave it out, or use type: virtiofs"}
		}
		if s.MSize < 4096 {
			size = &plan.FieldError{Field: "msize", Msg: fmt.Sprintf("%d bytes are too few", int64(s.MSize)), Hint: "use 4096 or more; 500KiB is a good size"}
		}
		return errors.Join(oneOf("cache", s.Cache, "none", "loose", "fscache", "mmap"), size,
			oneOf("security", s.Security, "mapped-xattr", "mapped-file", "passthrough", "none"))
	}
	return nil
}

// options returns the options of virtiofsd that are set, by the names that package qemu uses.
func (s *ShareSpec) options() map[string]string {
	all := map[string]string{
		"thread-pool-size": number(s.ThreadPoolSize), "writeback": onIf(s.Writeback), "allow-direct-io": onIf(s.AllowDirectIO),
		"inode-file-handles": s.InodeFileHandles, "readdirplus": s.ReaddirPlus, "announce-submounts": s.AnnounceSubmounts,
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

type share struct {
	life
	spec ShareSpec
	tag  string
	path string // shared directory on the host
}

func prepareShare(ctx context.Context, sp *ShareSpec, e Env) (_ iotax.Volume, err error) {
	s := &share{life: life{env: e}, spec: *sp, tag: "iotax-" + e.ID}
	if s.path, err = serveDir("make share", e, sp.OfTarget, &s.made); err != nil {
		return nil, errors.Join(err, s.made.run(ctx))
	}
	return s, nil
}

// window is the size of the DAX window in bytes. No upstream release of QEMU supports DAX for virtiofs, but some
// vendors' versions do.
const window = 4 << 30

func (s *share) Caps() iotax.VolumeCaps {
	d := &iotax.Share{Path: s.path, Type: s.spec.Type, Security: s.spec.Security}
	if s.spec.Type == "virtiofs" {
		d.Cache, d.Binary, d.Options, d.Args = s.spec.Cache, s.spec.Binary, s.spec.options(), s.spec.Args
	}
	if s.spec.DAX {
		d.Window = window
	}
	return iotax.VolumeCaps{Devices: []iotax.Device{{ID: s.tag, Share: d}}, Findings: s.findings}
}

// options returns the mount options of the guest.
func (s *share) options() string {
	if s.spec.DAX {
		return "dax=always"
	}
	if s.spec.Type != "9p" {
		return ""
	}
	o := "trans=virtio,version=9p2000.L,msize=" + strconv.FormatInt(int64(s.spec.MSize), 10)
	if s.spec.Cache != "none" {
		o += ",cache=" + s.spec.Cache // none is the kernel's default, and older kernels refuse cache=none
	}
	return o
}

func (s *share) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	point := "/mnt/" + s.tag
	if err := s.mount(ctx, m, mounting{Type: s.spec.Type, Source: s.tag, Point: point, Options: s.options()}); err != nil {
		var x *iotax.Error
		if errors.As(err, &x) && x.Hint == "" {
			x.Hint = "check that the guest was started with the share, and that its daemon lives"
		}
		return none, err
	}
	p, err := s.dirOn(ctx, m, point)
	if err != nil {
		var x *iotax.Error
		if errors.As(err, &x) && s.spec.Security == "mapped-xattr" && strings.Contains(err.Error(), "not supported") {
			x.Hint = "the host's file system keeps no extended attributes of users: use security: mapped-file"
		}
		return none, err
	}
	p.Backing = s.path
	p.Durability = iotax.Weakest(p.Durability, s.env.Of.Durability)
	maps.Copy(p.Facts, map[string]string{"of": s.spec.OfTarget, iotax.FactShareType: s.spec.Type, "share.cache": s.spec.Cache})
	if s.spec.Type == "9p" {
		p.Facts["share.security"] = s.spec.Security
		p.Facts["share.msize"] = seenMSize(p.Facts[iotax.FactFilesystemOptions], strconv.FormatInt(int64(s.spec.MSize), 10))
	}
	for name, value := range s.spec.options() {
		p.Facts["share."+name] = value
	}
	// QEMU's 9p server, and virtiofsd without allow_direct_io, do not use O_DIRECT on the host. The host's page cache
	// may therefore serve direct reads of the guest.
	if !s.spec.AllowDirectIO {
		p.Facts[iotax.FactHostDirect] = "no"
	}
	return p, nil
}

// seenMSize returns the actual msize in the mount options, or `asked` if they contain none. The transport lowers a
// value that is too large.
func seenMSize(options, asked string) string {
	for _, o := range strings.Split(options, ",") {
		if v, ok := strings.CutPrefix(o, "msize="); ok {
			return v
		}
	}
	return asked
}
