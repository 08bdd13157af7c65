package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/plan"
)

// NBDSpec is `nbd: {from: MACHINE}`: a disk image on a machine, exported over NBD and used on the target's; or
// `nbd: URL`, an export that exists and is only read.
type NBDSpec struct {
	From      string    `yaml:"from" doc:"machine that has the image and exports it; the target's own when empty"`
	URL       string    `yaml:"url" doc:"export that exists, as in nbd://10.0.0.1:10809/name or nbd+unix:///?socket=/run/x; it is only read"`
	Path      string    `yaml:"path" doc:"directory on that machine in which the image is made; empty is the machine's own"`
	Network   bool      `yaml:"network" doc:"path is meant to lie on a network file system; without this it is refused there"`
	Create    bool      `yaml:"create" doc:"make path if it does not exist, and remove it at the end"`
	Size      plan.Size `yaml:"size" doc:"size of the image; 0 fits what the workloads put there"`
	Format    string    `yaml:"format" doc:"format of the image" enum:"raw,qcow2"`
	Server    string    `yaml:"server" doc:"program that exports it" enum:"qemu-nbd,nbdkit"`
	Transport string    `yaml:"transport" doc:"how it is reached; auto is a unix socket on the same machine, and tcp between two" enum:"auto,tcp,unix"`
	Cache     string    `yaml:"cache" doc:"use of the serving machine's page cache, and what a flush does; nbdkit has none and writeback" enum:"none,writeback,writethrough,directsync,unsafe"`
	AIO       string    `yaml:"aio" doc:"how qemu-nbd does the I/O" enum:"threads,native,io_uring"`
	Threads   int       `yaml:"threads" doc:"threads of nbdkit; 0 is its default"`
	Attach    string    `yaml:"attach" doc:"engine lets fio speak NBD itself; device attaches a block device of the kernel" enum:"engine,device"`
	Address   string    `yaml:"address" doc:"where the serving machine is reached, when it does not know itself"`
	Port      int       `yaml:"port" doc:"TCP port of the export; 0 takes a free one"`
}

func newNBDSpec() plan.Spec {
	return &NBDSpec{Format: "raw", Server: "qemu-nbd", Transport: "auto", Cache: "none", AIO: "native", Attach: "engine"}
}

// SetScalar fills the spec from `nbd: URL`.
func (s *NBDSpec) SetScalar(v string) error { s.URL = v; return nil }

func (s *NBDSpec) Traits() plan.Traits {
	can := plan.Traits{Directories: []*string{&s.Path}, Served: &plan.Served{Key: "from", Machine: s.From}}
	if s.URL == "" {
		can.Tools = append(can.Tools, s.Server)
		if s.Format == "qcow2" {
			can.Tools = append(can.Tools, "qemu-img")
		}
	}
	return can
}

// Validate refuses what the servers would refuse later.
func (s *NBDSpec) Validate() error {
	errs := []error{
		oneOf("format", s.Format, "raw", "qcow2"),
		oneOf("server", s.Server, "qemu-nbd", "nbdkit"),
		oneOf("transport", s.Transport, "auto", "tcp", "unix"),
		oneOf("cache", s.Cache, "none", "writeback", "writethrough", "directsync", "unsafe"),
		oneOf("aio", s.AIO, "threads", "native", "io_uring"),
		oneOf("attach", s.Attach, "engine", "device"),
		checkAddress(s.Address, s.Port),
	}
	refuse := func(field, msg, hint string) {
		errs = append(errs, &plan.FieldError{Field: field, Msg: msg, Hint: hint})
	}
	if s.URL != "" {
		if s.From != "" || s.Path != "" || s.Size != 0 {
			refuse("url", "an export that exists has no from, path or size", "leave them out, or leave url out")
		}
		if u, err := url.Parse(s.URL); err != nil || !strings.HasPrefix(u.Scheme, "nbd") || u.Host == "" && u.Query().Get("socket") == "" {
			refuse("url", fmt.Sprintf("%q is no address of an export", s.URL), "as in nbd://10.0.0.1:10809/name or nbd+unix:///?socket=/run/x")
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
	} else if s.Threads != 0 {
		refuse("threads", "qemu-nbd has no such option", "leave it out, or use server: nbdkit")
	}
	if s.Threads < 0 || s.Threads > 1024 {
		refuse("threads", fmt.Sprintf("%d is not a number of threads", s.Threads), "1 to 1024, or leave it out")
	}
	return errors.Join(errs...)
}

func prepareNBD(_ context.Context, s *NBDSpec, e Env) (iotax.Volume, error) {
	return &nbd{spec: *s, env: e}, nil
}

// nbd is the export while it exists.
type nbd struct {
	spec   NBDSpec
	env    Env
	server *server
	undo   undo
}

func (n *nbd) Caps() iotax.VolumeCaps {
	return iotax.VolumeCaps{Processes: n.Processes, Findings: n.Findings}
}

// defaultExport is the size of an export for workloads that do not say what they need.
const defaultExport = 1 << 30

// Attach makes the image, exports it, and attaches it on m.
func (n *nbd) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	if n.spec.URL != "" {
		p := iotax.Place{Kind: iotax.PlaceURL, Path: n.spec.URL, ReadOnly: true, Durability: iotax.Durable, Facts: map[string]string{"nbd": "an export that existed"}}
		return n.use(ctx, m, p)
	}
	pkg := map[string]string{"qemu-nbd": "qemu-utils", "nbdkit": "nbdkit"}[n.spec.Server]
	if err := has(ctx, n.env.Server, "export over NBD", n.spec.Server, pkg); err != nil {
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
		return none, &iotax.Error{Op: "export over NBD", On: n.env.Server.String(), Err: fmt.Errorf("a size of %s is less than the %s that the workloads put there", bytesText(size), bytesText(n.env.Need)),
			Hint: "leave size out, or give at least " + bytesText(n.env.Need)}
	}
	inner := guardedDir(n.env.Server, n.spec.Path, size, n.spec.Network, n.spec.Create)
	n.undo.push(inner.Detach)
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
		p.Durability = iotax.FlushIgnored
	}
	if iotax.IsLocal(n.env.Server) {
		p.Backing = image
	}
	return n.use(ctx, m, p)
}

// image makes the image, written in full with data that does not compress: what is read later then comes from the
// disk, and what is written finds its space.
func (n *nbd) image(ctx context.Context, dir string, size int64) (string, error) {
	writing := slow + time.Duration(size/(10<<20))*time.Second
	raw, image := dir+"/disk.raw", dir+"/disk."+n.spec.Format
	script := fillRandom
	if n.spec.Format == "qcow2" {
		script = strings.TrimSpace(script) + ` && qemu-img convert -q -T none -t none -f raw -O qcow2 "$1" "$3" && rm -f -- "$1"`
	}
	if _, err := sh(ctx, n.env.Server, writing, script, raw, strconv.FormatInt(size, 10), image); err != nil {
		e := &iotax.Error{Op: "make image", On: fmt.Sprintf("%s on %v", image, n.env.Server), Err: said(err)}
		if says(err, "no space", "quota") {
			e.Hint = "free some space, or give a smaller size"
		}
		return "", e
	}
	return image, nil
}

// maxSocket is the longest path of a unix socket.
const maxSocket = 107

// export starts the server and returns where m finds it.
func (n *nbd) export(ctx context.Context, m iotax.Machine, dir, image string) (iotax.Place, error) {
	s, op := n.spec, "export over NBD"
	p := iotax.Place{Kind: iotax.PlaceURL, Facts: map[string]string{"nbd": s.Server, "nbd.cache": s.Cache, "nbd.format": s.Format}}
	fail := func(err error, hint string) (iotax.Place, error) {
		return iotax.Place{}, &iotax.Error{Op: op, On: fmt.Sprintf("%s on %v", image, n.env.Server), Err: err, Hint: hint}
	}
	if s.Server == "qemu-nbd" {
		p.Facts["nbd.aio"] = s.AIO
	} else if s.Threads > 0 {
		p.Facts["nbd.threads"] = strconv.Itoa(s.Threads)
	}
	same := n.env.Server == m || iotax.IsLocal(n.env.Server) && iotax.IsLocal(m)
	start := func(port int, where ...string) (*server, error) {
		pid := dir + "/ready"
		var args []string
		if s.Server == "qemu-nbd" {
			args = append([]string{"qemu-nbd", "--persistent", "--shared=8", "--format=" + s.Format, "--cache=" + s.Cache, "--aio=" + s.AIO, "--discard=unmap", "--pid-file=" + pid}, append(where, image)...)
		} else {
			args = append([]string{"nbdkit", "--foreground", "--exit-with-parent", "--pidfile=" + pid}, where...)
			if s.Threads > 0 {
				args = append(args, "--threads="+strconv.Itoa(s.Threads))
			}
			args = append(args, "file", image, "cache="+map[string]string{"none": "none", "writeback": "default"}[s.Cache])
		}
		srv, err := startServer(ctx, n.env.Server, dir+"/pid", args...)
		if err != nil {
			return nil, err
		}
		// Both write this file when they listen.
		return srv, srv.await(ctx, func(ctx context.Context) bool {
			_, err := sh(ctx, n.env.Server, quick, `[ -s "$1" ]`, pid)
			return err == nil
		})
	}
	var err error
	if s.Transport == "unix" || s.Transport == "auto" && n.env.Server == m {
		if !same {
			return fail(fmt.Errorf("a unix socket there cannot be reached from %v", m), "use transport: tcp")
		}
		socket := dir + "/nbd.sock"
		if len(socket) > maxSocket {
			return fail(fmt.Errorf("the path of its socket would have %d characters, %d are the most", len(socket), maxSocket), "use a shorter path:, or transport: tcp")
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
			if s.Address != "" { // how others reach it may not be an address of its own
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
	n.undo.push(n.server.stop)
	return p, nil
}

// connectNBD connects the export $1 (unix|tcp), $2 (socket or host), $3 (port), $4 (export's name) to the first free
// device of the kernel, and prints that. What it is attached by is written into the file $6 of the directory $5. $7 is -R for one that is
// only read: what the kernel or udev makes of a volume that they find on it is not to be written to it.
const connectNBD = `
command -v nbd-client >/dev/null || { echo "nbd-client is not installed" >&2; exit 41; }
[ -e /sys/block/nbd0 ] || modprobe nbd max_part=0 2>/dev/null
[ -e /sys/block/nbd0 ] || { echo "the kernel has no NBD devices" >&2; exit 42; }
for b in /sys/block/nbd*; do
	[ ! -e "$b/pid" ] && [ "$(cat "$b/size")" = 0 ] || continue
	d=/dev/${b##*/}
	if [ "$1" = unix ]; then nbd-client $7 -N "$4" -unix "$2" "$d" >&2 || continue
	else nbd-client $7 -N "$4" "$2" "$3" "$d" >&2 || continue
	fi
	pid= n=0 # nbd-client may return before the kernel tells of it
	until read -r pid <"$b/pid" || [ $n -ge 50 ]; do n=$((n + 1)); sleep 0.1 || { sleep 1; n=$((n + 9)); }; done 2>/dev/null
	{ [ -n "$pid" ] && read -r boot </proc/sys/kernel/random/boot_id && printf '%s %s %s\n' "$d" "$pid" "$boot" >"$5/$6"; } 2>/dev/null
	echo "$d"
	exit 0
done
exit 43
`

// disconnectNBD disconnects the device $1 if it still is what is noted in the directory $2: when its server has gone, the kernel gives
// the device to whoever asks next.
const disconnectNBD = leftover.Guard + `
[ -s "$2/` + leftover.NBDFile + `" ] || { echo "it is not known what it was attached by" >&2; exit 41; }
if attached "$2" && [ "$dev" = "$1" ]; then nbd-client -d "$1" >&2; fi
`

// use lets fio speak to the export at p, or makes a device of it.
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
	args := []string{"tcp", u.Hostname(), u.Port(), strings.TrimPrefix(u.Path, "/")}
	if args[2] == "" {
		args[2] = "10809"
	}
	if socket := u.Query().Get("socket"); socket != "" {
		args[0], args[1] = "unix", socket
	}
	only := "" // somebody's own export is only read
	if n.spec.URL != "" {
		only = "-R"
	}
	note, err := rootDir(ctx, m, "/run", &n.undo)
	if err != nil {
		return iotax.Place{}, err
	}
	out, err := root(ctx, m, quick, connectNBD, append(args, note, leftover.NBDFile, only)...)
	device := strings.TrimSpace(out)
	if err != nil || !strings.HasPrefix(device, "/dev/nbd") {
		e := &iotax.Error{Op: "attach NBD export", On: fmt.Sprintf("%s on %v", p.Path, m), Err: said(err)}
		switch exit(err) {
		case 40:
			e.Hint = "let the user there be root, or give it sudo without a password"
		case 41:
			e.Hint = "apt install nbd-client there, or attach: engine"
		case 42:
			e.Hint = "use attach: engine, which needs no kernel, or a machine whose kernel has the module nbd"
		case 43:
			e.Hint = "see that the export is there and a device is free (nbd-client -c /dev/nbd0), or use attach: engine"
		}
		return iotax.Place{}, e
	}
	n.undo.push(func(ctx context.Context) error {
		if _, err := root(ctx, m, quick, disconnectNBD, device, note); err != nil {
			return &iotax.Error{Op: "detach", On: fmt.Sprintf("%s on %v", device, m), Err: said(err), Hint: "nbd-client -d " + device}
		}
		return nil
	})
	p.Kind, p.Path = iotax.PlaceDevice, device
	return p, nil
}

func (n *nbd) Processes() map[string][]int      { return n.server.Processes() }
func (n *nbd) Findings() []iotax.Finding        { return n.server.death("the export") }
func (n *nbd) Detach(ctx context.Context) error { return n.undo.run(ctx) }
func (n *nbd) Close(ctx context.Context) error  { return n.undo.run(ctx) }
