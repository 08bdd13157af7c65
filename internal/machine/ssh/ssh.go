// Package ssh is a host over SSH as OpenSSH would reach it: its configuration, keys, known hosts, jumps.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"iotax"
	far "iotax/internal/machine/agent"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/sshx"
	"iotax/internal/plan"
)

// Spec is that of kind ssh. What it leaves out comes from the user's ssh configuration, and then
// from OpenSSH's defaults.
type Spec struct {
	Host           string        `yaml:"host" doc:"name or address, or an alias of the ssh configuration; user@host:port is understood"`
	User           string        `yaml:"user" doc:"login name"`
	Port           int           `yaml:"port" doc:"port of the server"`
	Identity       string        `yaml:"identity" doc:"private key file, tried before others"`
	Config         string        `yaml:"config" doc:"ssh configuration to read instead of ~/.ssh/config and the system's; \"none\" reads nothing"`
	Jump           string        `yaml:"jump" doc:"hosts to go through, as in ssh -J: [user@]host[:port],…"`
	KnownHosts     string        `yaml:"known_hosts" doc:"file of known host keys"`
	AcceptNew      bool          `yaml:"accept_new" doc:"remember the key of a host that is not known yet instead of refusing it"`
	ConnectTimeout plan.Duration `yaml:"connect_timeout" doc:"how long connecting may take, for each host on the way"`
	Agent          string        `yaml:"agent" doc:"iotax over there, which runs the commands where the login has no POSIX shell (Windows): a name in its PATH, or a path without spaces"`
	PasswordFile   string        `yaml:"password_file" doc:"file whose first line is the password; the environment variable IOTAX_SSH_PASSWORD is the other way"`
}

// passwordEnv is where a password may stand. There is no way to write one into a plan or a command
// line, where other users and reports would see it.
const passwordEnv = "IOTAX_SSH_PASSWORD"

func (s *Spec) Traits() plan.Traits {
	files := []*string{&s.Identity, &s.KnownHosts, &s.PasswordFile}
	if s.Config != "none" {
		files = append(files, &s.Config)
	}
	return plan.Traits{Stays: true, HostFiles: files}
}

// Validate finds what is wrong without looking at the network.
func (s *Spec) Validate() error {
	host, _, port, err := splitHost(s.Host)
	switch {
	case s.Host == "":
		return &plan.FieldError{Field: "host", Msg: "is missing", Hint: "name the host, as you would for ssh"}
	case err != nil:
		return &plan.FieldError{Field: "host", Msg: err.Error(), Hint: "write host, user@host or user@host:port"}
	case strings.HasPrefix(host, "-"):
		return &plan.FieldError{Field: "host", Msg: fmt.Sprintf("%q is no host name", s.Host), Hint: "a host name does not start with '-'"}
	case s.Port < 0 || s.Port > 65535:
		return &plan.FieldError{Field: "port", Msg: fmt.Sprintf("%d is no port", s.Port), Hint: "a port is a number from 1 to 65535"}
	case s.Port != 0 && port != 0 && s.Port != port:
		return &plan.FieldError{Field: "port", Msg: fmt.Sprintf("is %d here and %d in host", s.Port, port), Hint: "write it once"}
	case strings.ContainsAny(s.Agent, " \t\n\"'`;&|<>()$^%*?") || strings.HasPrefix(s.Agent, "-"):
		return &plan.FieldError{Field: "agent", Msg: fmt.Sprintf("%q is not one plain word", s.Agent), Hint: "agent: iotax, or C:/tools/iotax.exe"}
	case s.ConnectTimeout < 0:
		return &plan.FieldError{Field: "connect_timeout", Msg: "must not be negative"}
	}
	if s.Jump != "" && s.Jump != "none" {
		for hop := range strings.SplitSeq(s.Jump, ",") {
			if host, _, _, err := splitHost(hop); err != nil || host == "" {
				return &plan.FieldError{Field: "jump", Msg: fmt.Sprintf("%q is no host", hop), Hint: "write [user@]host[:port], more of them with commas between"}
			}
		}
	}
	return nil
}

// splitHost takes [user@]host[:port] apart; an IPv6 address with a port stands in brackets. A
// leading ssh:// is allowed.
func splitHost(s string) (host, user string, port int, err error) {
	s = strings.TrimSpace(strings.TrimPrefix(s, "ssh://"))
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, s = s[:i], s[i+1:]
	}
	host = s
	if h, p, e := net.SplitHostPort(s); e == nil {
		n, e := strconv.ParseUint(p, 10, 16)
		if e != nil || n == 0 {
			return "", "", 0, fmt.Errorf("%q is no port", p)
		}
		host, port = h, int(n)
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" {
		return "", "", 0, errors.New("there is no host name")
	}
	if strings.ContainsAny(host, " \t\n/") {
		return "", "", 0, fmt.Errorf("%q is no host name", host)
	}
	return host, user, port, nil
}

// Kind is kind ssh.
var Kind = kind.Of("ssh", "a host over SSH, as your ssh configuration knows it", Spec{}, Open).WithoutDevices()

// A remote is a host over SSH, with the connections through which it is reached.
type remote struct {
	*sshx.Lasting
	way  func() *way     // of the connection that was made last; each goes its own
	ways *sync.WaitGroup // that are open
}

// A shellless is a host without a POSIX shell: it is reached as others, and its commands are run by an iotax there.
type shellless struct {
	*remote
	by *far.Machine
}

// Run runs cmd by the agent.
func (s *shellless) Run(ctx context.Context, cmd *iotax.Cmd) error { return s.by.Run(ctx, cmd) }

// Caps are those of the host, with the agent there and its facts.
func (s *shellless) Caps() iotax.MachineCaps {
	c, by := s.remote.Caps(), s.by.Caps()
	c.Agent = by.Agent
	maps.Copy(c.Facts, by.Facts)
	return c
}

// Close closes the connection and then those under it.
func (r *remote) Close(ctx context.Context) error {
	err := r.Lasting.Close(ctx)
	r.ways.Wait()
	return err
}

// Caps are those of the connection, with the address of the host, what answered there, and over which hosts it is reached.
func (r *remote) Caps() iotax.MachineCaps {
	c, hops := r.Lasting.Caps(), r.way().hops
	c.Address = hops[len(hops)-1].host
	c.Facts = map[string]string{"ssh.server": string(r.SSH().ServerVersion())}
	if len(hops) > 1 {
		var via []string
		for _, h := range hops[:len(hops)-1] {
			via = append(via, h.address())
		}
		c.Facts["ssh.jump"] = strings.Join(via, ",")
	}
	return c
}

// Open connects to the host that s describes.
func Open(ctx context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
	cfg, err := readSSHConfig(ctx, s.Config)
	if err != nil {
		return nil, err
	}
	name := "ssh://" + strings.TrimPrefix(strings.TrimSpace(s.Host), "ssh://")
	var last atomic.Pointer[way]
	var ways sync.WaitGroup
	dial := func(ctx context.Context) (*sshx.Client, error) {
		w := &way{spec: s, cfg: cfg, log: o.Logf}
		conn, err := w.open(ctx)
		if err != nil {
			w.close()
			return nil, err
		}
		last.Store(w)
		ways.Go(func() { // what is under a connection goes with it
			_ = conn.Wait()
			w.close()
		})
		return sshx.New(conn, name, append(slices.Clone(w.hops[len(w.hops)-1].alive), sshx.Watched())...), nil
	}
	first, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	over := &remote{sshx.NewLasting(first, dial), last.Load, &ways}
	var m iotax.Machine = over
	if s.Agent != "" {
		m = &shellless{over, far.New(over.Lasting, s.Agent)}
	}

	if err := over.greet(ctx, m); err != nil {
		over.Close(ctx)
		return nil, err
	}
	return m, nil
}

var greetTime = 30 * time.Second // for the first command, at least: a login may load modules or mount a home

// greet runs one command, so that a login that runs none is known before anything is measured. There is nothing to end on
// the host yet: when the time is over, or the host prints without end, it closes the connection.
func (r *remote) greet(ctx context.Context, m iotax.Machine) error {
	const word = "iotax is here"
	const hint = "make its start-up files (.bashrc, .zshenv) print nothing when the shell is not interactive"
	fail := func(err error, hint string) error {
		return &iotax.Error{Op: "open machine", On: m.String(), Err: err, Hint: hint}
	}
	hops := r.way().hops
	limit := max(greetTime, hops[len(hops)-1].timeout)
	late := fmt.Errorf("it did not run a command within %v", limit)
	limited, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	stop := context.AfterFunc(limited, func() { r.Lasting.Close(context.WithoutCancel(ctx)) })
	defer stop()
	out := iotax.Capture{Limit: 64 << 10}
	c := iotax.Command("echo", word)
	c.Stdout = writer(func(p []byte) (int, error) {
		n, err := out.Write(p)
		if err != nil {
			cancel()
		}
		return n, err
	})
	err := m.Run(context.WithoutCancel(ctx), c)
	switch rest := strings.Replace(out.String(), word+"\n", "", 1); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case out.Err() != nil, err == nil && rest != "" || err == nil && out.String() == "":
		return fail(fmt.Errorf("the login shell prints on its own: %.200q", rest), hint)
	case err != nil && context.Cause(limited) == late:
		return fail(late, "log in by hand, and look at the login shell's start-up files and at a forced command; or raise connect_timeout")
	}
	return err
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A way is the chain of connections to a host; the last hop is the host.
type way struct {
	spec *Spec
	cfg  sshConfig
	log  func(string, ...any)

	hops    []*hop
	closers []io.Closer
}

func (w *way) close() {
	for _, c := range slices.Backward(w.closers) {
		c.Close()
	}
	w.closers = nil
}

// maxHops bounds a chain of jumps, so that a configuration that leads in a circle ends.
const maxHops = 8

// open connects to every hop in turn.
func (w *way) open(ctx context.Context) (*ssh.Client, error) {
	last, err := w.hop(w.spec.Host, true)
	if err != nil {
		return nil, err
	}
	if w.hops, err = w.through(last, nil); err != nil {
		return nil, err
	}
	var conn *ssh.Client
	for _, h := range w.hops {
		if conn, err = w.dial(ctx, h, conn); err != nil {
			return nil, err
		}
		w.closers = append(w.closers, conn)
	}
	return conn, nil
}

// through returns the hops to last, and last. Of a list of jumps only the first is itself reached
// as its configuration says, for the others are reached through the one before: that is how ssh -J
// does it.
func (w *way) through(last *hop, seen []string) ([]*hop, error) {
	seen = append(seen, last.alias)
	if len(seen) > maxHops {
		return nil, &iotax.Error{Op: "connect to", On: w.spec.Host, Err: fmt.Errorf("its jumps do not end: %s", strings.Join(seen, " <- ")),
			Hint: "look at ProxyJump in the ssh configuration"}
	}
	var hops []*hop
	for i, word := range last.jumps {
		h, err := w.hop(word, false)
		if err != nil {
			return nil, err
		}
		if h.alias == last.alias && h.port == last.port && h.user == last.user {
			continue // "Host *" with ProxyJump means everyone but the jump host itself
		}
		if i > 0 {
			h.jumps, h.command = nil, ""
			hops = append(hops, h)
			continue
		}
		before, err := w.through(h, seen)
		if err != nil {
			return nil, err
		}
		hops = append(hops, before...)
	}
	return append(hops, last), nil
}

// dial connects to one host, through conn when there is one.
func (w *way) dial(ctx context.Context, h *hop, conn *ssh.Client) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout, fmt.Errorf("no answer within %v", h.timeout))
	defer cancel()

	var raw net.Conn
	var err error
	switch {
	case conn != nil:
		raw, err = conn.DialContext(ctx, "tcp", h.address())
	case h.command != "":
		raw, err = proxyCommand(h.command)
	default:
		raw, err = new(net.Dialer).DialContext(ctx, "tcp", h.address())
	}
	if err != nil {
		return nil, h.unreachable(ctx, err, conn != nil)
	}
	known, err := h.knownHosts()
	if err != nil {
		raw.Close()
		return nil, err
	}
	auth := h.auth()
	defer auth.close()
	var keyErr error
	config := &ssh.ClientConfig{
		User: h.user,
		Auth: auth.methods,
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			keyErr = h.checkKey(known, remote, key, w.log)
			return keyErr
		},
		HostKeyAlgorithms: keyOrder(known.HostKeyAlgorithms(h.knownAs())),
	}
	// The deadline covers the handshake, for which there is no context.
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c, chans, reqs, err := ssh.NewClientConn(raw, h.address(), config)
	if !stop() && err == nil {
		c.Close()
		err = context.Cause(ctx)
	}
	if err == nil {
		return ssh.NewClient(c, chans, reqs), nil
	}
	raw.Close()
	switch {
	case keyErr != nil:
		return nil, keyErr
	case ctx.Err() != nil:
		return nil, h.unreachable(ctx, err, conn != nil)
	case auth.withheld, strings.Contains(err.Error(), "unable to authenticate"), strings.Contains(err.Error(), "Too many authentication failures"):
		return nil, auth.refused(err)
	}
	e := &iotax.Error{Op: "connect to", On: h.address(), Err: err}
	if p, ok := raw.(*commandConn); ok {
		if said := p.said(); said != "" {
			e.Err = fmt.Errorf("%w; ProxyCommand said: %s", err, said)
		}
		e.Hint = "try the ProxyCommand by hand: " + h.command
	} else {
		e.Hint = "make sure that an SSH server listens there: " + h.sshLine()
	}
	return nil, e
}

// keyOrder puts the kinds of key that the host is known by first, so that a host with several keys
// shows the known one. The others follow, so that a host whose key is of another kind now is seen
// as changed, and not as one that speaks no common algorithm.
func keyOrder(known []string) []string {
	if len(known) == 0 {
		return nil
	}
	order := slices.Clone(known)
	for _, a := range ssh.SupportedAlgorithms().HostKeys {
		if !slices.Contains(order, a) {
			order = append(order, a)
		}
	}
	return order
}

// A hop is one host on the way, with every setting resolved.
type hop struct {
	alias      string // as the user wrote it
	host, user string
	port       int
	keyAlias   string // name to look the host key up by, when not by host and port
	jumps      []string
	command    string // ProxyCommand
	timeout    time.Duration
	alive      []sshx.Option // how a sign of life is asked for, where that is not as usual

	identities []string // key files; the first explicit ones are those of the spec
	explicit   int
	only       bool   // no keys of the agent but these
	agent      string // socket, or "none"
	password   string

	userHosts, globalHosts []string
	strict                 string // yes, accept-new, no
	impostor               bool   // the last time it showed another key than the known one
}

// hop resolves the settings of one host.
func (w *way) hop(word string, last bool) (*hop, error) {
	host, user, port, err := splitHost(word)
	if err != nil {
		return nil, &iotax.Error{Op: "connect to", On: word, Err: err, Hint: "write [user@]host[:port]"}
	}
	h := &hop{alias: host, host: host, user: user, port: port}
	spec := &Spec{AcceptNew: w.spec.AcceptNew, KnownHosts: w.spec.KnownHosts, ConnectTimeout: w.spec.ConnectTimeout}
	if last {
		spec = w.spec
	}
	if err := h.resolve(spec, w.cfg); err != nil {
		return nil, err
	}
	if last {
		if h.password, err = password(spec.PasswordFile); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *hop) address() string { return net.JoinHostPort(h.host, strconv.Itoa(h.port)) }

// knownAs is what the host is called in known_hosts.
func (h *hop) knownAs() string {
	if h.keyAlias != "" {
		return net.JoinHostPort(h.keyAlias, "22")
	}
	return h.address()
}

// sshLine is the line with which a user sees the same host.
func (h *hop) sshLine() string {
	args := []string{"ssh"}
	if h.port != 22 {
		args = append(args, "-p", strconv.Itoa(h.port))
	}
	return iotax.QuoteAll(append(args, h.user+"@"+h.alias, "true"))
}

func (h *hop) unreachable(ctx context.Context, err error, jumped bool) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		if errors.Is(err, context.Canceled) {
			return err
		}
	}
	e := &iotax.Error{Op: "connect to", On: h.address(), Err: err}
	var dns *net.DNSError
	var open *ssh.OpenChannelError
	switch {
	case errors.As(err, &dns):
		e.Err = errors.New("no such host")
		e.Hint = "check the host's name, or give it a HostName in the ssh configuration"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Hint = "start the SSH server there, or check the port"
	case errors.As(err, &open) && open.Reason == ssh.Prohibited:
		e.Hint = "the jump host must allow TCP forwarding (AllowTcpForwarding in its sshd_config)"
	case jumped:
		e.Hint = "check that the jump host reaches it"
	default:
		e.Hint = "check the network and the address: " + h.sshLine()
	}
	return e
}

// knownHosts reads those of the files that exist.
func (h *hop) knownHosts() (*knownhosts.HostKeyDB, error) {
	var files []string
	for _, f := range slices.Concat(h.userHosts, h.globalHosts) {
		if _, err := os.Stat(f); err == nil {
			files = append(files, f)
		}
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, &iotax.Error{Op: "read known hosts", On: strings.Join(files, ", "), Err: err, Hint: "correct or remove the line"}
	}
	return db, nil
}

// checkKey decides whether the host is the one it should be.
func (h *hop) checkKey(db *knownhosts.HostKeyDB, remote net.Addr, key ssh.PublicKey, log func(string, ...any)) error {
	if _, _, err := net.SplitHostPort(remote.String()); err != nil {
		remote = &net.TCPAddr{IP: net.IPv4zero, Port: h.port} // through a command or a jump there is no address
	}
	err := db.HostKeyCallback()(h.knownAs(), remote, key)
	h.impostor = knownhosts.IsHostKeyChanged(err)
	if err == nil {
		return nil
	}
	e := &iotax.Error{Op: "verify host", On: h.address()}
	name := knownhosts.Normalize(h.knownAs())
	print := fmt.Sprintf("%s %s", key.Type(), ssh.FingerprintSHA256(key))
	switch {
	case h.impostor:
		if h.strict == "no" {
			log("%s shows another host key (%s) than the one known; StrictHostKeyChecking is off", h.address(), print)
			return nil
		}
		at := ""
		if w := wanted(err); w != nil {
			at = fmt.Sprintf(" at %s:%d", w.Filename, w.Line)
		}
		e.Err = fmt.Errorf("its host key has changed: it shows %s, and another is known%s; someone may be in between", print, at)
		e.Hint = "if the host was set up anew, forget the old key: ssh-keygen -R " + iotax.Quote(name)
		if w := wanted(err); w != nil {
			e.Hint += " -f " + iotax.Quote(w.Filename)
		}
	case !knownhosts.IsHostUnknown(err):
		e.Err = err // revoked, or a certificate that does not hold
		e.Hint = "look at the host's key and at known_hosts"
	case h.strict == "yes":
		e.Err = fmt.Errorf("its host key is not known: %s", print)
		e.Hint = "connect once by hand and compare the key (" + h.sshLine() + "), or set accept_new: true"
	default:
		if err := h.remember(name, key); err != nil {
			e.Err = fmt.Errorf("its host key cannot be remembered: %w", err)
			e.Hint = "make the file of known hosts writable, or connect once by hand: " + h.sshLine()
			break
		}
		log("%s is new; its host key %s is remembered", h.address(), print)
		return nil
	}
	return e
}
