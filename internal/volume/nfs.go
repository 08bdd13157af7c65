package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/plan"
)

// NFSSpec is `nfs: {…}`: an export that the kernel of the machine mounts. The export is a directory of this host,
// served by a user-space NFS server on the loopback interface, or belongs to an existing server.
type NFSSpec struct {
	Version  string `yaml:"version" doc:"NFS version" enum:"4.0,4.1,4.2"`
	Options  string `yaml:"options" doc:"mount options to add, as in rsize=65536,nconnect=4"`
	Binary   string `yaml:"binary" doc:"ganesha.nfsd to start, a program or a path; empty means the installed one"`
	Port     int    `yaml:"port" doc:"port of the server; 0 picks a free one of 127.0.0.1, and means 2049 with server:"`
	OfTarget string `yaml:"of" doc:"target of the host that holds the directory; empty means the baseline"`
	Server   string `yaml:"server" doc:"export of an existing server to mount, as in nas:/export/bench, in place of a directory of this host; iotax works only in a new iotax-… directory there"`
}

func (s *NFSSpec) Traits() plan.Traits {
	if s.Server != "" {
		return plan.Traits{Choices: s.choices(), Elsewhere: s.elsewhere()}
	}
	can := plan.Traits{Tools: []string{s.program()}, Of: &s.OfTarget, Choices: s.choices(), Elsewhere: s.elsewhere()}
	if plan.IsPath(s.Binary) {
		can.HostFiles = []*string{&s.Binary}
	}
	return can
}

// program returns the name or path of the server to start.
func (s *NFSSpec) program() string { return cmp.Or(s.Binary, "ganesha.nfsd") }

// SetScalar sets only the version, or the export and its port, as in `nfs: 4.1`, `nfs: nas:/export` or
// `nfs://nas:2050/export`.
func (s *NFSSpec) SetScalar(v string) error {
	u, isURL := strings.CutPrefix(v, "nfs://")
	switch {
	case isURL:
		host, path, _ := strings.Cut(u, "/")
		if name, port, err := net.SplitHostPort(host); err == nil {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 {
				return fmt.Errorf("%q is not a port", port)
			}
			host, s.Port = name, int(n)
			if strings.Contains(name, ":") {
				host = "[" + name + "]"
			}
		}
		s.Server = host + ":/" + path
	case strings.Contains(v, ":"):
		s.Server = v
	default:
		s.Version = v
	}
	return nil
}

// host returns the host of an existing server, without the brackets of an IPv6 address, and its export.
func (s *NFSSpec) host() (host, export string) {
	host, export, _ = strings.Cut(s.Server, ":/")
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), path.Clean("/" + export)
}

// oursNFS lists the mount options that iotax sets itself.
var oursNFS = []string{"vers", "nfsvers", "minorversion", "port", "addr", "clientaddr", "proto"}

// Validate returns an error for invalid values, for mount options that iotax sets itself, and for keys that cannot be
// combined with `server:`.
func (s *NFSSpec) Validate() error {
	var errs []error
	for o := range strings.SplitSeq(s.Options, ",") {
		switch key, _, _ := strings.Cut(o, "="); {
		case slices.Contains(oursNFS, key):
			errs = append(errs, &plan.FieldError{Field: "options", Msg: "iotax sets " + key + " itself", Hint: "leave it out; version: sets the version of NFS"})
		case key == "ro":
			errs = append(errs, &plan.FieldError{Field: "options", Msg: "iotax writes its test files there, so that ro cannot be used", Hint: "leave it out"})
		}
	}
	if strings.ContainsAny(s.Options, " \t\n\\") {
		errs = append(errs, &plan.FieldError{Field: "options", Msg: "blanks and backslashes have no place in mount options", Hint: "separate them by commas"})
	}
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, &plan.FieldError{Field: "port", Msg: fmt.Sprintf("%d is not a port", s.Port), Hint: "use 1024 to 65535, or leave it out"})
	}
	if s.Server != "" && !exportName.MatchString(s.Server) {
		errs = append(errs, &plan.FieldError{Field: "server", Msg: fmt.Sprintf("%q is not SERVER:/PATH", s.Server), Hint: "as in nas:/export/bench"})
	}
	if s.Server != "" && s.Binary != "" {
		errs = append(errs, &plan.FieldError{Field: "binary", Msg: "an existing server is not started", Hint: "leave binary: or server: out"})
	}
	if s.Server != "" && s.OfTarget != "" {
		errs = append(errs, &plan.FieldError{Field: "of", Msg: "an existing server has directories of its own", Hint: "leave of: or server: out"})
	}
	return errors.Join(errs...)
}

// options returns the mount options. By default, I/O fails with ETIMEDOUT if the server does not answer for 90 s. With
// the option "hard", the default of mount(8), every process that uses the mount would hang.
func (s *NFSSpec) options(host, client string, port int) string {
	proto := "tcp"
	if strings.Contains(host, ":") {
		proto = "tcp6"
	}
	o := fmt.Sprintf("vers=%s,proto=%s,port=%d,addr=%s,clientaddr=%s", s.Version, proto, port, host, client)
	if !slices.ContainsFunc(strings.Split(s.Options, ","), func(o string) bool { return o == "hard" || o == "soft" || o == "softerr" }) {
		o += ",softerr,timeo=300,retrans=2"
	}
	if s.Options != "" {
		o += "," + s.Options
	}
	return o
}

// ganeshaConf is the configuration of NFS-Ganesha: NFSv4 on the loopback interface and one export. Its verbs are the
// port, the recovery directory, the exported directory, and whether clients need a privileged port. It disables the grace
// period, because no client has locks of an earlier server to reclaim.
const ganeshaConf = `NFS_CORE_PARAM { NFS_Port = %d; Bind_addr = 127.0.0.1; Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }
NFSV4 { Graceless = true; Minor_Versions = 0,1,2; RecoveryBackend = fs; RecoveryRoot = "%s"; Only_Numeric_Owners = true; }
NFS_KRB5 { Active_krb5 = false; }
EXPORT { Export_Id = 1; Path = "%s"; Pseudo = /iotax; Access_Type = RW; Squash = No_Root_Squash; PrivilegedPort = %t; SecType = sys; Protocols = 4; Transports = TCP; FSAL { Name = VFS; } }
LOG { Default_Log_Level = EVENT; }
`

// nfsExport is the pseudo path of the export in ganeshaConf.
const nfsExport = "/iotax"

type nfs struct {
	life
	spec    NFSSpec
	path    string // the directory on the host
	port    int
	program agent.Binary
}

// prepareNFS makes the directory and starts the server, unless the spec names an existing server.
func prepareNFS(ctx context.Context, sp *NFSSpec, e Env) (_ iotax.Volume, err error) {
	n := &nfs{life: life{env: e}, spec: *sp}
	if sp.Server != "" {
		return n, nil
	}
	if e.here && slices.Contains(strings.Split(sp.Options, ","), "noresvport") {
		return nil, &iotax.Error{Op: "serve by NFS", On: "this host", Err: errors.New("the server on the loopback interface accepts only privileged ports, because other users could mount its export, and noresvport uses another port"),
			Hint: "leave noresvport out of options:"}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.made.run(ctx))
		}
	}()
	if n.path, err = serveDir("serve by NFS", e, sp.OfTarget, &n.made); err != nil {
		return nil, err
	}
	if err := n.serve(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// serveDir makes a volume's directory on the target `of`, and pushes its removal to made.
func serveDir(op string, e Env, of string, made *undo) (string, error) {
	dir, err := serveFrom(op, e, of)
	if err != nil {
		return "", err
	}
	path := dir + "/share-" + e.ID
	return path, newHostDir(made, op, path, 0o700)
}

// workDir makes a directory for configuration, logs and sockets. The directory is on the measured target only if the
// run has no work directory.
func workDir(e Env, what string, made *undo) (string, error) {
	dir := e.scratch(what)
	return dir, newHostDir(made, "make", dir, 0o700)
}

// scratch returns a new path in the work directory, or on the measured target. The path has a random suffix, because a
// calibration within a run has the same work directory and the same IDs.
func (e Env) scratch(what string) string {
	return filepath.ToSlash(filepath.Join(cmp.Or(e.WorkDir, e.Of.Path), what+"-"+e.ID+"-"+randomHex(3)))
}

// serve starts the server and waits until it accepts requests.
func (n *nfs) serve(ctx context.Context) error {
	e := n.env
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "serve by NFS", On: n.path, Err: err, Hint: hint}
	}
	asking, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	program, err := agent.Identify(asking, n.spec.program(), "-v")
	switch {
	case errors.Is(err, exec.ErrNotFound) && n.spec.Binary == "":
		return fail(errors.New("this host has no ganesha.nfsd"), "install it: apt install nfs-ganesha nfs-ganesha-vfs")
	case os.Geteuid() != 0:
		return fail(errors.New("the server needs root"), "run as root, or share by virtio-fs, 9p or sshfs")
	case err != nil:
		return fail(err, "binary: must be a ganesha.nfsd of this host that can be started")
	}
	n.program = program
	if strings.ContainsAny(n.path, "\"\\\n;#") {
		return fail(errors.New("ganesha.nfsd does not accept this path"), "use another directory")
	}
	dir, err := workDir(e, "nfs", &n.made)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		if n.port = n.spec.Port; n.port == 0 {
			if n.port, err = freePort(); err != nil {
				return fail(err, "")
			}
		}
		err = n.serveAt(ctx, dir)
		var taken *portTaken
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &taken):
			return fail(err, "")
		case n.spec.Port != 0:
			return fail(err, "leave port: out, or name one that nothing listens on")
		case try == 4: // other processes took the free port each time
			return fail(err, "")
		}
	}
}

// portTaken reports that the server cannot listen on its port, usually because another process does.
type portTaken struct {
	port int
	err  error
}

func (e *portTaken) Error() string { return fmt.Sprintf("port %d is taken: %v", e.port, e.err) }

// freePort returns a free port of the loopback interface.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// serving is the time limit for the start of the server. It allows for a busy host.
const serving = time.Minute

func (n *nfs) serveAt(ctx context.Context, dir string) error {
	e := n.env
	conf := fmt.Sprintf(ganeshaConf, n.port, dir, n.path, n.env.here)
	if err := errors.Join(os.RemoveAll(dir+"/log"), os.WriteFile(dir+"/conf", []byte(conf), 0o600)); err != nil {
		return err
	}
	// Check the port here, because the server takes seconds to report that a port is in use.
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)))
	if err != nil {
		return &portTaken{n.port, err}
	}
	l.Close()
	s, err := startServer(ctx, e.Host, dir+"/pid", nil, n.program.Path, "-F", "-f", dir+"/conf", "-L", dir+"/log", "-p", dir+"/lock")
	if err != nil {
		return n.refused(dir, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, serving, fmt.Errorf("it did not serve within %v", serving))
	defer cancel()
	for {
		if log, err := os.ReadFile(dir + "/log"); err == nil && strings.Contains(string(log), "NFS SERVER INITIALIZED") {
			break
		}
		select {
		case <-s.done:
			return n.refused(dir, s.ended())
		case <-ctx.Done():
			return errors.Join(n.refused(dir, context.Cause(ctx)), s.stop(context.WithoutCancel(ctx)))
		case <-time.After(10 * time.Millisecond):
		}
	}
	n.server = s
	n.made.push(s.stop)
	return nil
}

// grave matches the severe lines of the server's log. They contain the reason why the server ended.
var grave = regexp.MustCompile(`:(CRIT|MAJ|FATAL) :`)

// refused adds the last severe lines of the server's log to err. It returns a *portTaken if the server could not use
// its port.
func (n *nfs) refused(dir string, err error) error {
	log, _ := os.ReadFile(dir + "/log") // the log may not exist yet
	var lines []string
	for line := range strings.Lines(string(log)) {
		if grave.MatchString(line) && !strings.Contains(line, "DBUS") {
			lines = append(lines, strings.TrimSpace(line[max(0, strings.LastIndex(line, "nfs-ganesha-")):]))
		}
	}
	out := strings.Join(lines[max(0, len(lines)-4):], "\n")
	if out != "" {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	if strings.Contains(out, "ddress already in use") || strings.Contains(out, "annot bind") {
		return &portTaken{n.port, err}
	}
	return err
}

func (n *nfs) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	if n.spec.Server != "" {
		return n.attachExisting(ctx, m)
	}
	var none iotax.Place
	host, client := "127.0.0.1", "127.0.0.1"
	if !iotax.IsLocal(m) {
		address := m.Caps().HostAddress
		if address == "" {
			return none, &iotax.Error{Op: "mount nfs", On: fmt.Sprintf("%s on %v", n.path, m), Err: errors.New("this host's loopback interface cannot be reached from there"),
				Hint: "mount a file system there yourself, and name it with dir:"}
		}
		// The address of the client does not matter: an NFS 4.0 server needs it only for delegations. This server
		// grants none, and could not reach a client behind QEMU's user network.
		host, client = address, "0.0.0.0"
	}
	point, _, err := n.mountPoint(ctx, m)
	if err != nil {
		return none, err
	}
	source := host + ":" + nfsExport
	if err := n.mount(ctx, m, mounting{Type: "nfs4", Source: source, Point: point, Options: n.spec.options(host, client, n.port)}); err != nil {
		var x *iotax.Error
		if errors.As(err, &x) && x.Hint == "" && !n.server.alive() {
			x.Err, x.Hint = errors.Join(x.Err, n.server.ended()), "look at what ended the server"
		}
		return none, err
	}
	n.attached.push(func(ctx context.Context) error {
		if !n.server.alive() {
			// Every access to the mount would wait for the dead server. If this unmount fails, the next step may
			// unmount lazily.
			_, _ = on(ctx, quick, forceUnmount.AsRoot, m, point)
		}
		return nil
	})
	p, err := n.dirOn(ctx, m, point)
	if err != nil {
		return none, err
	}
	p.Backing = n.path
	p.Durability = iotax.Weakest(p.Durability, n.env.Of.Durability)
	maps.Copy(p.Facts, map[string]string{
		"of": n.spec.OfTarget, iotax.FactShareType: "nfs", "nfs.server": "NFS-Ganesha " + n.version(), "nfs.port": strconv.Itoa(n.port),
		"nfs.config": strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(ganeshaConf, n.port, "…", n.path, n.env.here)), "\n", " "),
		// The server uses its host's page cache, whatever the client requests.
		iotax.FactHostDirect: "no",
	})
	n.program.Facts("nfs", p.Facts)
	return p, nil
}

// version returns the version of the server, as in "V4.3".
func (n *nfs) version() string {
	return strings.TrimSpace(n.program.Version[strings.LastIndexByte(n.program.Version, '=')+1:])
}

// A line contains the IP addresses of both ends of a connection to a server.
type line struct{ Server, Client string }

// reach connects to an address (host:port), closes the connection, and returns the addresses of both ends.
var reach = agent.New("volume.reach", func(ctx context.Context, address string) (line, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return line{}, err
	}
	defer c.Close()
	server, _, err := net.SplitHostPort(c.RemoteAddr().String())
	client, _, lerr := net.SplitHostPort(c.LocalAddr().String())
	return line{server, client}, errors.Join(err, lerr)
})

const nfsPort = 2049

func (n *nfs) attachExisting(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	host, export := n.spec.host()
	port := cmp.Or(n.spec.Port, nfsPort)
	fail := func(err error, hint string) (iotax.Place, error) {
		return iotax.Place{}, &iotax.Error{Op: "mount nfs", On: fmt.Sprintf("%s on %v", n.spec.Server, m), Err: err, Hint: hint}
	}
	// Connect first: without mount.nfs, mount(8) needs IP addresses, and reports an unreachable server only after
	// minutes.
	ends, err := on(ctx, quick, reach.On, m, net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fail(withOutput(err), "check the name of the server, its port (port:), and that its firewall accepts "+m.String())
	}
	name := host
	if strings.Contains(host, ":") {
		name = "[" + host + "]"
	}
	point, _, err := n.mountPoint(ctx, m)
	if err != nil {
		return iotax.Place{}, err
	}
	if err := n.mount(ctx, m, mounting{Type: "nfs4", Source: name + ":" + export, Point: point, Options: n.spec.options(ends.Server, ends.Client, port), KeepOwner: true}); err != nil {
		cause := err
		var x *iotax.Error
		if errors.As(err, &x) {
			cause = withOutput(x.Err)
		}
		switch {
		case says(err, "no such file"), says(err, "not exist"):
			return fail(cause, "check the path of the export. Paths of NFS 4 begin at the root of the server: try "+name+":/")
		case says(err, "denied"), says(err, "not permitted"):
			return fail(cause, "let the server export it to "+ends.Client)
		}
		return iotax.Place{}, err
	}
	p, err := n.dirIn(ctx, m, &dir{want: point, need: n.env.Need, users: true, network: true})
	switch {
	case says(err, "read-only"):
		return fail(errors.New("the export is read-only"), "let the server export it with rw, or name another export")
	case says(err, "permission denied"):
		if e := (*iotax.Error)(nil); errors.As(err, &e) {
			err = e.WithoutHint()
		}
		return fail(withOutput(err), "root of the client may not write there: name a directory of the export that all may write, or export it with no_root_squash")
	case err != nil:
		return iotax.Place{}, err
	}
	p.Backing = "" // the files are on the server, not on this host
	maps.Copy(p.Facts, map[string]string{iotax.FactShareType: "nfs", "nfs.server": n.spec.Server, "nfs.port": strconv.Itoa(port)})
	return p, nil
}
