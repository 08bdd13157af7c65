package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/internal/far"
	"iotax/internal/secret"
)

// A transport starts programs on a host with the system's ssh. Each program has its own connection, or uses the
// control socket of the user's configuration.
type transport struct {
	spec     *Spec
	log      func(format string, args ...any)
	program  string
	args     []string          // arguments before the host
	host     string            // name or alias, without user and port
	settings map[string]string // from ssh -G; the first value of each keyword
	asks     asks
	env      []string

	running sync.WaitGroup
	mu      sync.Mutex
	server  string
	kills   []func()
	closed  bool
}

// askTime limits ssh -G, which may run a command of a Match block.
const askTime = 30 * time.Second

// newTransport reads the settings of the host. If they lack a timeout for connecting or for detecting a dead link,
// newTransport sets it.
func newTransport(ctx context.Context, s *Spec, log func(string, ...any)) (*transport, error) {
	t := &transport{spec: s, log: log, settings: map[string]string{}}
	t.args, t.host = s.options()
	var err error
	if t.program, err = exec.LookPath("ssh"); err != nil {
		return nil, &iotax.Error{Op: "connect to", On: t.String(), Err: err,
			Hint: "install the OpenSSH client (package openssh-client or openssh)"}
	}
	if t.asks, t.env, err = s.answers(); err != nil {
		return nil, err
	}
	if s.KnownHosts != "" && s.AcceptNew {
		if err := os.MkdirAll(filepath.Dir(homePath(s.KnownHosts)), 0o700); err != nil {
			return nil, &iotax.Error{Op: "make the directory of known hosts", On: s.KnownHosts, Err: err}
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("no answer within %v", askTime))
	defer cancel()
	ask := exec.CommandContext(ctx, t.program, slices.Concat([]string{"-G"}, t.args, []string{"--", t.host})...)
	ask.Env, ask.SysProcAttr, ask.WaitDelay = secret.Environ(), ownSession(), time.Second
	errs := iotax.Capture{Limit: 64 << 10}
	ask.Stderr = &errs
	out, err := iotax.ExecOutput(ask)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, &iotax.Error{Op: "read the ssh configuration", On: "for " + t.host,
			Err:  fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String())),
			Hint: "correct it until this works: " + iotax.QuoteAll(slices.Concat([]string{"ssh", "-G"}, t.args, []string{t.host}))}
	}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, ok := t.settings[key]; !ok {
			t.settings[key] = value
		}
	}
	// iotax takes its error messages from the output of -v, which overrides the user's LogLevel. With ControlMaster=no,
	// ssh may use an existing control socket but does not create one. Otherwise, the user's sessions could use the
	// socket of iotax, and would end when iotax ends.
	t.args = append([]string{"-v", "-T", "-x", "-o", "ClearAllForwardings=yes", "-o", "ControlMaster=no"}, t.args...)
	set := func(option string) { t.args = append(t.args, "-o", option) }
	if t.settings["serveraliveinterval"] == "0" || t.settings["serveralivecountmax"] == "0" {
		set("ServerAliveInterval=5")
		set("ServerAliveCountMax=12") // a busy host answers late while it receives a large file
	}
	if t.settings["connecttimeout"] == "none" {
		set("ConnectTimeout=10")
	}
	if t.settings["remotecommand"] != "" {
		set("RemoteCommand=none")
	}
	switch t.asks {
	case asksNobody:
		set("BatchMode=yes")
	case asksIotax:
		set("NumberOfPasswordPrompts=1")
		t.env = append(t.env, loginVariable+"="+t.settings["user"]+"@"+t.settings["hostname"])
	}
	return t, nil
}

func (t *transport) String() string {
	return "ssh://" + strings.TrimPrefix(strings.TrimSpace(t.spec.Host), "ssh://")
}

// address returns the address of the server, for messages.
func (t *transport) address() string {
	return net.JoinHostPort(t.settings["hostname"], t.settings["port"])
}

// serverVersion returns the version of the server from the latest connection, or "".
func (t *transport) serverVersion() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server
}

// Close ends all ssh processes.
func (t *transport) Close(context.Context) error {
	t.mu.Lock()
	kills := t.kills
	t.kills, t.closed = nil, true
	t.mu.Unlock()
	for _, kill := range kills {
		kill()
	}
	t.running.Wait()
	return nil
}

// plain matches words that a login shell does not interpret. It allows the backslash, which a POSIX shell would
// interpret, for paths on Windows.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:\\+-]+$`)

// Start starts argv on the host. If a shell could interpret one of the words, Start sends them over standard input, so
// that the login shell only starts sh.
func (t *transport) Start(ctx context.Context, argv []string) (*agent.Running, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	command, first := far.Bootstrap, far.Exec(argv)
	if !slices.ContainsFunc(argv, func(a string) bool { return !plain.MatchString(a) }) {
		command, first = strings.Join(argv, " "), ""
	}
	cmd := exec.Command(t.program, slices.Concat(t.args, []string{"--", t.host, command})...)
	cmd.Env = append(secret.Environ(), t.env...)
	cmd.SysProcAttr = ownSession() // Ctrl-C must not end the connection before iotax has cleaned up
	cmd.WaitDelay = 2 * time.Second
	stderr := &report{transport: t}
	cmd.Stderr = stderr
	fail := func(err error) (*agent.Running, error) {
		return nil, &iotax.Error{Op: "start ssh", On: "for " + t.String(), Err: err}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fail(errors.New("the connection was closed"))
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	ended := make(chan struct{})
	kill := sync.OnceFunc(func() {
		if cmd.Process.Signal(syscall.SIGTERM) == nil { // Windows has no such signal
			select {
			case <-ended:
				return
			case <-time.After(2 * time.Second):
			}
		}
		_ = cmd.Process.Kill() // the process may have ended
	})
	t.kills = append(t.kills, kill)
	wait := sync.OnceValue(func() error {
		err := cmd.Wait()
		close(ended)
		return t.failure(argv, stderr, err)
	})
	t.running.Go(func() { <-ended })
	if _, err := in.Write([]byte(first)); err != nil {
		in.Close() // ssh has ended: Wait returns the reason
	}
	return &agent.Running{Stdin: in, Stdout: out, Wait: wait, Kill: kill}, nil
}

// failure returns the error for Wait. Status 255 means that ssh itself failed.
func (t *transport) failure(argv []string, stderr *report, err error) error {
	stderr.mu.Lock()
	defer stderr.mu.Unlock()
	text := secret.Text(strings.Join(stderr.lines, "; "))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case stderr.signal:
		return errors.New("a signal ended it there")
	case errors.As(err, &exit) && far.Signal(exit.ExitCode()) != "":
		return fmt.Errorf("signal %s ended it there", far.Signal(exit.ExitCode()))
	case errors.As(err, &exit) && exit.ExitCode() != 255 && exit.ExitCode() >= 0:
		return &iotax.ExitError{Args: argv[:1], Code: exit.ExitCode(), Stderr: text}
	case text == "":
		text = err.Error()
	}
	if stderr.in && !strings.Contains(text, "open failed") {
		return fmt.Errorf("connection lost: %s", text)
	}
	return t.refused(stderr, text)
}

// A report parses the standard error of ssh -v.
type report struct {
	*transport

	mu     sync.Mutex
	rest   []byte
	lines  []string // without debug output
	key    string   // host key of the server
	known  string   // FILE:LINE of the known key that differs
	in     bool     // the login was accepted
	signal bool     // a signal ended the command
}

// maxLines limits the number of kept lines.
const maxLines = 50

var (
	authenticated = regexp.MustCompile(`^Authenticated to (\S+) \(`)
	offending     = regexp.MustCompile(`^Offending .*key in (.*:\d+)$`)
	noise         = regexp.MustCompile(`^(debug[123]: |OpenSSH_|Transferred: |Bytes per second: |Authenticated to |` +
		`Warning: Permanently added |Pseudo-terminal will not|@{10})`)
)

func (r *report) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = append(r.rest, p...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			if len(r.rest) > 64<<10 {
				r.rest = nil
			}
			return len(p), nil
		}
		r.rest = rest
		r.line(strings.TrimSpace(string(line)))
	}
}

func (r *report) line(line string) {
	if _, v, ok := strings.Cut(line, "remote software version "); ok {
		r.transport.mu.Lock()
		r.server = "SSH-2.0-" + v
		r.transport.mu.Unlock()
	}
	if _, v, ok := strings.Cut(line, "debug1: Server host key: "); ok {
		r.key = v
	}
	if m := offending.FindStringSubmatch(line); m != nil {
		r.known = m[1]
	}
	m := authenticated.FindStringSubmatch(line)
	if m != nil && m[1] == r.settings["hostname"] || strings.HasPrefix(line, "debug1: mux_client_request_session") {
		r.in = true
	}
	if _, v, ok := strings.Cut(line, "Warning: Permanently added "); ok {
		r.log("ssh added %s", v)
	}
	r.signal = r.signal || strings.Contains(line, "rtype exit-signal")
	if line != "" && !noise.MatchString(line) && len(r.lines) < maxLines {
		r.lines = append(r.lines, line)
	}
}

// hints maps messages of ssh to hints. The first match applies. If a hint ends with ": ", refused appends a command to
// try.
var hints = []struct {
	text, hint  string
	unreachable bool // the failure may be temporary
}{
	{"Too many authentication failures", "name the right key (identity, or IdentityFile with IdentitiesOnly in the ssh configuration)", false},
	{"Could not resolve hostname", "check the host's name, or give it a HostName in the ssh configuration", false},
	{"stdio forwarding failed", "the jump host must reach it, and allow TCP forwarding (AllowTcpForwarding in its sshd_config)", false},
	{"open failed", "the server refuses to open a session; look at MaxSessions in its sshd_config and at its log", false},
	{"Connection refused", "start the SSH server there, or check the port", true},
	{"timed out", "check the network and the address: ", true},
	{"No route to host", "check the network and the address: ", true},
	{"Network is unreachable", "check the network and the address: ", true},
	{"Connection reset", "make sure that an SSH server listens there and lets this host in: ", true},
	{"Connection closed", "make sure that an SSH server listens there and lets this host in: ", true},
}

// refused returns the error for a connection or session that ssh could not establish.
func (t *transport) refused(stderr *report, text string) error {
	e := &iotax.Error{Op: "connect to", On: t.address(), Err: errors.New(text)}
	key := stderr.key
	if key == "" {
		key = "an unknown key"
	}
	byHand := t.byHand()
	switch {
	case strings.Contains(text, "HOST IDENTIFICATION HAS CHANGED"):
		name := t.settings["hostkeyalias"]
		if name == "" {
			if name = t.settings["hostname"]; t.settings["port"] != "22" {
				name = "[" + name + "]:" + t.settings["port"]
			}
		}
		e.Op = "verify host"
		e.Err = fmt.Errorf("its host key has changed: it shows %s, and another is known at %s; another machine may be answering",
			key, stderr.known)
		e.Hint = "if the host was set up anew, forget the old key: ssh-keygen -R " + iotax.Quote(name)
		if i := strings.LastIndexByte(stderr.known, ':'); i > 0 {
			e.Hint += " -f " + iotax.Quote(stderr.known[:i])
		}
		if strings.Contains(text, "Permission denied") {
			e.Err = fmt.Errorf("%w; ssh does not give it a password", e.Err)
		}
		return e
	case strings.Contains(text, "Host key verification failed"):
		e.Op, e.Err = "verify host", fmt.Errorf("its host key is not known: %s", key)
		e.Hint = "connect once by hand and compare the key (" + byHand + "), or set accept_new: true"
		return e
	case strings.Contains(text, "Permission denied (") || strings.Contains(text, "No more authentication methods"):
		e.Op, e.Err = "log in to", fmt.Errorf("the login was refused: %s", text)
		e.Hint = "make this work without a question: " + byHand + " (ssh-add a key that has a passphrase, or put a password into " +
			passwordVariable + " or password_file)"
		if t.asks == asksIotax {
			e.Hint = "check the password and the user name"
		}
		return e
	}
	for _, h := range hints {
		if strings.Contains(text, h.text) {
			if e.Hint = h.hint; strings.HasSuffix(e.Hint, ": ") {
				e.Hint += byHand
			}
			if h.unreachable {
				e.Err = unreachable{e.Err}
			}
			return e
		}
	}
	e.Hint = "look at what this prints: " + byHand
	return e
}

type unreachable struct{ error }

func (unreachable) Is(target error) bool { return target == agent.ErrUnreachable }

// byHand returns the command line with which a user can reach the same host.
func (t *transport) byHand() string {
	args, host := t.spec.options()
	return iotax.QuoteAll(slices.Concat([]string{"ssh"}, args, []string{host, "true"}))
}
