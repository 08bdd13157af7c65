package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/leftover"
	"iotax/internal/plan"
)

// NBDSpec is `nbd: {from: MACHINE}`, a disk image that MACHINE exports over NBD to the target's machine, or `nbd: URL`,
// an existing export, which is only read.
type NBDSpec struct {
	From      string    `yaml:"from" doc:"machine that holds the image and exports it; empty means the target's own"`
	URL       string    `yaml:"url" doc:"existing export, as in nbd://10.0.0.1:10809/name or nbd+unix:///?socket=/run/x; it is only read"`
	Path      string    `yaml:"path" doc:"directory on that machine for the image; empty means /var/tmp, or the directory of a lab's node"`
	Network   bool      `yaml:"network" doc:"allow a path inside a network file system; without this key only its mount point is accepted"`
	Create    bool      `yaml:"create" doc:"make path if it does not exist, and remove it at the end"`
	Size      plan.Size `yaml:"size" doc:"size of the image; 0 fits the data of the workloads"`
	Format    string    `yaml:"format" doc:"format of the image" enum:"raw,qcow2"`
	Server    string    `yaml:"server" doc:"program that exports it" enum:"qemu-nbd,nbdkit"`
	Binary    string    `yaml:"binary" doc:"the server to start, a program or a path of that machine; empty means the installed one"`
	Transport string    `yaml:"transport" doc:"transport to the export; auto is a unix socket on one machine, and tcp between two" enum:"auto,tcp,unix"`
	Cache     string    `yaml:"cache" doc:"use of the serving machine's page cache, and what a flush does; nbdkit supports none and writeback" enum:"none,writeback,writethrough,directsync,unsafe"`
	AIO       string    `yaml:"aio" doc:"how qemu-nbd does the I/O" enum:"threads,native,io_uring"`
	Threads   int       `yaml:"threads" doc:"threads of nbdkit; 0 means its default"`
	Attach    string    `yaml:"attach" doc:"engine: fio's nbd engine connects to the export; device: the kernel attaches it as a block device" enum:"engine,device"`
	Address   string    `yaml:"address" doc:"address of the serving machine, if iotax cannot find it"`
	Port      int       `yaml:"port" doc:"TCP port of the export; 0 picks a free one"`
}

var nbdDefaults = NBDSpec{Format: "raw", Server: "qemu-nbd", Transport: "auto", Cache: "none", AIO: "native", Attach: "engine"}

// SetScalar fills the spec from `nbd: URL`.
func (s *NBDSpec) SetScalar(v string) error { s.URL = v; return nil }

func (s *NBDSpec) Traits() plan.Traits {
	can := plan.Traits{Directories: []*string{&s.Path}, Served: &plan.Served{Key: "from", Machine: s.From}}
	if s.URL == "" {
		can.Tools = append(can.Tools, s.program())
		if s.Format == "qcow2" {
			can.Tools = append(can.Tools, "qemu-img")
		}
	}
	return can
}

// program returns the name or path of the server to start.
func (s *NBDSpec) program() string { return cmp.Or(s.Binary, s.Server) }

// Validate returns an error for invalid values, and for keys that cannot be combined.
func (s *NBDSpec) Validate() error {
	errs := []error{checkAddress(s.Address, s.Port)}
	refuse := func(field, msg, hint string) {
		errs = append(errs, &plan.FieldError{Field: field, Msg: msg, Hint: hint})
	}
	if s.URL != "" {
		only := nbdDefaults
		only.URL, only.Attach = s.URL, s.Attach
		if *s != only {
			refuse("url", "attach is the only other key for an export that exists", "leave the other keys out, or leave url out")
		}
		if u, err := url.Parse(s.URL); err != nil || !strings.HasPrefix(u.Scheme, "nbd") || u.Host == "" && u.Query().Get("socket") == "" {
			refuse("url", fmt.Sprintf("%q is not an address of an export", s.URL), "as in nbd://10.0.0.1:10809/name or nbd+unix:///?socket=/run/x")
		} else if u.User != nil {
			refuse("url", "an address with a user or a password would be stored and shown", "leave it out")
		}
		return errors.Join(errs...)
	}
	if s.Path != "" {
		errs = append(errs, checkPath("directory", s.Path))
	}
	if s.Size < 0 || s.Size > 0 && s.Size < 1<<20 {
		refuse("size", fmt.Sprintf("%d bytes are too few for an export", int64(s.Size)), "use 1MiB or more, or leave it out")
	}
	if s.AIO == "native" && s.Server == "qemu-nbd" && s.Cache != "none" && s.Cache != "directsync" {
		refuse("aio", "native needs O_DIRECT, which cache: "+s.Cache+" does not use", "use cache: none or directsync, or aio: threads or io_uring")
	}
	if s.Server == "nbdkit" {
		if s.Format != "raw" {
			refuse("format", "nbdkit's file plugin exports raw images", "use format: raw, or server: qemu-nbd")
		}
		if s.Cache != "none" && s.Cache != "writeback" {
			refuse("cache", "nbdkit's file plugin does not know "+s.Cache, "use none or writeback, or server: qemu-nbd")
		}
		if s.AIO != nbdDefaults.AIO {
			refuse("aio", "nbdkit has no such option", "leave it out, or use server: qemu-nbd")
		}
	} else if s.Threads != 0 {
		refuse("threads", "qemu-nbd has no such option", "leave it out, or use server: nbdkit")
	}
	if s.Transport == "unix" && (s.Address != "" || s.Port != 0) {
		refuse("transport", "a unix socket has no address and no port", "leave them out, or use transport: tcp")
	}
	if s.Threads < 0 || s.Threads > 1024 {
		refuse("threads", fmt.Sprintf("%d is not a number of threads", s.Threads), "1 to 1024, or leave it out")
	}
	return errors.Join(errs...)
}

func prepareNBD(_ context.Context, s *NBDSpec, e Env) (iotax.Volume, error) {
	return newNBD(s, e), nil
}

func newNBD(s *NBDSpec, e Env) *nbd { return &nbd{life{env: e, serves: "the export"}, *s} }

// An nbd is a volume that is exported over NBD.
type nbd struct {
	life
	spec NBDSpec
}

// defaultExport is the size of an export in bytes if the size of the workloads' data is unknown.
const defaultExport = 1 << 30

// Attach makes and exports the image, unless the spec names an existing export. It returns the place of the export on
// m; see use.
func (n *nbd) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	if n.spec.URL != "" {
		p := iotax.Place{Kind: iotax.PlaceURL, Path: n.spec.URL, ReadOnly: true, Durability: iotax.Durable, Facts: map[string]string{iotax.FactNBD: "an export that existed"}}
		return n.use(ctx, m, p)
	}
	pkg := map[string]string{"qemu-nbd": "qemu-utils", "nbdkit": "nbdkit"}[n.spec.Server]
	if err := has(ctx, n.env.Server, "export over NBD", n.spec.program(), pkg); err != nil {
		return none, err
	}
	size := int64(n.spec.Size)
	if size == 0 {
		size = n.env.Need
	}
	if size == 0 {
		size = defaultExport
	}
	const step = 1 << 20
	size = (size + step - 1) / step * step
	if size < n.env.Need {
		return none, &iotax.Error{Op: "export over NBD", On: n.env.Server.String(), Err: fmt.Errorf("a size of %s is less than the %s that the workloads write", bytesText(size), bytesText(n.env.Need)),
			Hint: "leave size out, or give at least " + bytesText(n.env.Need)}
	}
	inner := guardedDir(n.env.Server, n.spec.Path, size, n.spec.Network, n.spec.Create)
	n.attached.push(inner.Detach)
	in, err := inner.Attach(ctx, n.env.Server)
	if err != nil {
		return none, err
	}
	image, err := n.image(ctx, in.Path, size)
	if err != nil {
		return none, err
	}
	p, err := n.export(ctx, m, in.Path, image)
	if err != nil {
		return none, err
	}
	maps.Copy(p.Facts, in.Facts)
	p.Facts["nbd.size"] = strconv.FormatInt(size, 10)
	p.Durability = in.Durability
	if n.spec.Cache == "unsafe" {
		p.Durability = iotax.Weakest(iotax.FlushIgnored, in.Durability)
	}
	if iotax.IsLocal(n.env.Server) {
		p.Backing = image
	}
	return n.use(ctx, m, p)
}

// image makes the image and fills it with incompressible data, so that later reads reach the disk and later writes
// need no allocation.
func (n *nbd) image(ctx context.Context, dir string, size int64) (string, error) {
	i := image{Path: dir + "/disk." + n.spec.Format, Format: n.spec.Format, Fill: random, Size: size, Convert: []string{"-T", "none", "-t", "none"}}
	_, err := on(ctx, writing(size), makeImage.On, n.env.Server, i)
	return i.Path, err
}

// maxSocket is the maximum length of the path of a Unix socket, in bytes.
const maxSocket = 107

// export starts the server and returns the place of the export for m.
func (n *nbd) export(ctx context.Context, m iotax.Machine, dir, image string) (iotax.Place, error) {
	s, op := n.spec, "export over NBD"
	p := iotax.Place{Kind: iotax.PlaceURL, Facts: map[string]string{iotax.FactNBD: s.Server, "nbd.cache": s.Cache, "nbd.format": s.Format}}
	fail := func(err error, hint string) (iotax.Place, error) {
		return iotax.Place{}, &iotax.Error{Op: op, On: fmt.Sprintf("%s on %v", image, n.env.Server), Err: err, Hint: hint}
	}
	if s.Server == "qemu-nbd" {
		p.Facts[iotax.FactNBDAIO] = s.AIO
	} else if s.Threads > 0 {
		p.Facts["nbd.threads"] = strconv.Itoa(s.Threads)
	}
	binary, err := on(ctx, quick, agent.IdentifyThere.On, n.env.Server, s.program())
	if err != nil {
		return fail(err, "name a server that can be started: binary:")
	}
	binary.Facts("nbd", p.Facts)
	p.Facts["nbd.version"] = binary.Version
	same := n.env.Server == m || iotax.IsLocal(n.env.Server) && iotax.IsLocal(m)
	start := func(port int, where ...string) (*server, error) {
		pid := dir + "/ready"
		var args []string
		if s.Server == "qemu-nbd" {
			args = append([]string{s.program(), "--persistent", "--shared=8", "--format=" + s.Format, "--cache=" + s.Cache, "--aio=" + s.AIO, "--discard=unmap", "--pid-file=" + pid}, append(where, image)...)
		} else {
			args = append([]string{s.program(), "--foreground", "--exit-with-parent", "--pidfile=" + pid}, where...)
			if s.Threads > 0 {
				args = append(args, "--threads="+strconv.Itoa(s.Threads))
			}
			args = append(args, "file", image, "cache="+map[string]string{"none": "none", "writeback": "default"}[s.Cache])
		}
		srv, err := startServer(ctx, n.env.Server, dir+"/pid", nil, args...)
		if err != nil {
			return nil, err
		}
		// Both servers write their PID file once they listen.
		return srv, srv.await(ctx, func(ctx context.Context) bool { return written(ctx, n.env.Server, pid) })
	}
	if s.Transport == "unix" || s.Transport == "auto" && n.env.Server == m {
		if !same {
			return fail(fmt.Errorf("a unix socket there cannot be reached from %v", m), "use transport: tcp")
		}
		socket := dir + "/nbd.sock"
		if len(socket) > maxSocket {
			return fail(fmt.Errorf("the path of its socket has %d characters, more than the limit of %d", len(socket), maxSocket), "use a shorter path:, or transport: tcp")
		}
		flag := "--socket=" + socket
		if s.Server == "nbdkit" {
			flag = "--unix=" + socket
		}
		n.server, err = start(0, flag)
		p.Path, p.Facts["nbd.transport"] = "nbd+unix:///?socket="+url.QueryEscape(socket), "unix"
		linkFacts(p.Facts, n.env.Server, m, "")
	} else {
		var address string
		if address, err = addressFor(op, n.env.Server, m, s.Address); err != nil {
			return iotax.Place{}, err
		}
		var port int
		n.server, port, err = serveOnPort(s.Port, func(port int) (*server, error) {
			flag := "--bind=" + address
			if s.Server == "nbdkit" {
				flag = "--ipaddr=" + address
			}
			if s.Address != "" { // the address in the plan may not belong to an interface of the server
				flag = flag[:strings.IndexByte(flag, '=')+1] + "0.0.0.0"
			}
			return start(port, flag, "--port="+strconv.Itoa(port))
		})
		p.Path, p.Facts["nbd.transport"] = "nbd://"+net.JoinHostPort(address, strconv.Itoa(port)), "tcp"
		linkFacts(p.Facts, n.env.Server, m, address)
	}
	if err != nil {
		hint := ""
		if strings.Contains(err.Error(), "aio") || strings.Contains(err.Error(), "O_DIRECT") {
			hint = "use cache: writeback and aio: threads, or a path on a real disk"
		}
		return fail(err, hint)
	}
	n.attached.push(n.server.stop)
	return p, nil
}

// An nbdDevice is a kernel device that iotax attaches to an export.
type nbdDevice struct {
	Args     []string // arguments of nbd-client: the server and the export
	ReadOnly bool     // neither the kernel nor udev may write to the device
	Note     string   // directory for the record of the attachment
	Path     string
}

// connectNBD attaches the export to a free NBD device, records the attachment in x.Note, and returns the path of the
// device. If it cannot record the attachment, it detaches the device and returns an error.
var connectNBD = agent.New("volume.connect NBD", func(ctx context.Context, x nbdDevice) (string, error) {
	fail := func(err, hint string) (string, error) {
		return "", &iotax.Error{Op: "attach NBD export", On: strings.Join(x.Args, " "), Err: errors.New(err), Hint: hint}
	}
	if _, err := agent.Tool("nbd-client"); err != nil {
		return fail("nbd-client is not installed", "apt install nbd-client there, or attach: engine")
	}
	if _, err := os.Stat("/sys/block/nbd0"); err != nil {
		_, _ = agent.Exec(ctx, "modprobe", "nbd", "max_part=0") // the devices are checked below
	}
	all, _ := filepath.Glob("/sys/block/nbd*")
	if len(all) == 0 {
		return fail("the kernel has no NBD devices", "use attach: engine, which needs no kernel, or a machine whose kernel has the module nbd")
	}
	why := "all devices of the kernel are in use"
	for _, b := range all {
		if _, err := os.Stat(b + "/pid"); err == nil || trimmed(b+"/size") != "0" {
			continue
		}
		device, args := "/dev/"+filepath.Base(b), []string{"nbd-client"}
		if x.ReadOnly {
			args = append(args, "-R")
		}
		if _, err := agent.Exec(ctx, append(append(args, x.Args...), device)...); err != nil {
			why = err.Error()
			continue
		}
		var err error
		for range 50 { // nbd-client may return before the kernel shows the attachment
			if note := leftover.NBDNote(device); note != "" {
				if err = os.WriteFile(x.Note+"/"+leftover.NBDFile, []byte(note), 0o600); err == nil {
					return device, nil
				}
				break
			}
			err = errors.New("the kernel does not show that it is attached")
			time.Sleep(100 * time.Millisecond)
		}
		_, derr := agent.Exec(ctx, "nbd-client", "-d", device) // without a note, nothing would detach it later
		return "", &iotax.Error{Op: "attach NBD export", On: device, Err: errors.Join(err, derr)}
	}
	return fail(why, "see that the export is there and a device is free (nbd-client -c /dev/nbd0), or use attach: engine")
})

// disconnectNBD detaches a device if it is still attached as recorded. Without a record, it returns an error.
var disconnectNBD = agent.New("volume.disconnect NBD", func(ctx context.Context, x nbdDevice) (_ none, err error) {
	if _, serr := os.Stat(x.Note + "/" + leftover.NBDFile); serr != nil {
		err = errors.New("cannot find the process that attached it")
	} else if device, ok := leftover.Attached(x.Note); ok && device == x.Path {
		_, err = agent.Exec(ctx, "nbd-client", "-d", x.Path)
	}
	if err != nil {
		err = &iotax.Error{Op: "detach", On: x.Path, Err: err, Hint: "nbd-client -d " + x.Path}
	}
	return none{}, err
})

// use returns p, the place of an export for fio's nbd engine. With `attach: device`, it attaches the export on m and
// returns the place of the kernel device instead.
func (n *nbd) use(ctx context.Context, m iotax.Machine, p iotax.Place) (iotax.Place, error) {
	p.Facts["nbd.attach"] = n.spec.Attach
	p.Facts["nbd.url"] = p.Path
	if n.spec.Attach == "engine" {
		return p, nil
	}
	u, err := url.Parse(p.Path)
	if err != nil {
		return iotax.Place{}, err
	}
	args := []string{"-N", strings.TrimPrefix(u.Path, "/"), u.Hostname(), cmp.Or(u.Port(), "10809")}
	if socket := u.Query().Get("socket"); socket != "" {
		args = append(args[:2], "-unix", socket)
	}
	note, err := n.rootDir(ctx, m, "/run")
	if err != nil {
		return iotax.Place{}, err
	}
	x := nbdDevice{Args: args, ReadOnly: n.spec.URL != "", Note: note} // an existing export is only read
	device, err := on(ctx, quick, connectNBD.AsRoot, m, x)
	if err != nil {
		return iotax.Place{}, err
	}
	x.Path = device
	n.attached.push(func(ctx context.Context) error {
		_, err := on(ctx, quick, disconnectNBD.AsRoot, m, x)
		return err
	})
	p.Kind, p.Path = iotax.PlaceDevice, device
	return p, nil
}
