// Package ssh opens hosts over SSH. It runs the system's ssh, so that the user's configuration, keys, agents, jump
// hosts and known hosts apply.
package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	far "iotax/internal/machine/agent"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
)

// Spec is the spec of kind ssh. Missing values come from the user's ssh configuration, then from OpenSSH's defaults.
type Spec struct {
	Host           string        `yaml:"host" doc:"name, address or alias of the ssh configuration; user@host:port also works"`
	User           string        `yaml:"user" doc:"login name"`
	Port           int           `yaml:"port" doc:"port of the server"`
	Identity       string        `yaml:"identity" doc:"private key file, tried before others"`
	Config         string        `yaml:"config" doc:"ssh configuration file to read instead of ~/.ssh/config and the system's; \"none\" reads no file"`
	Jump           string        `yaml:"jump" doc:"hosts to go through, as in ssh -J: [user@]host[:port],…"`
	KnownHosts     string        `yaml:"known_hosts" doc:"file of known host keys"`
	AcceptNew      bool          `yaml:"accept_new" doc:"accept and remember the key of an unknown host instead of refusing it"`
	ConnectTimeout plan.Duration `yaml:"connect_timeout" doc:"time limit for connecting"`
	Agent          string        `yaml:"agent" doc:"iotax program on that host, for a login without a POSIX shell (Windows): a name in its PATH, or a path without spaces"`
	PasswordFile   string        `yaml:"password_file" doc:"file whose first line is the password; the environment variable IOTAX_SSH_PASSWORD also works"`
}

func (s *Spec) Traits() plan.Traits {
	files := []*string{&s.Identity, &s.KnownHosts, &s.PasswordFile}
	if s.Config != "none" {
		files = append(files, &s.Config)
	}
	return plan.Traits{Stays: true, HostFiles: files}
}

// Validate checks the spec without using the network.
func (s *Spec) Validate() error {
	host, user, port, err := splitHost(s.Host)
	switch {
	case s.Host == "":
		return &plan.FieldError{Field: "host", Msg: "is missing", Hint: "name the host, as you would for ssh"}
	case err != nil:
		return &plan.FieldError{Field: "host", Msg: err.Error(), Hint: "write host, user@host or user@host:port"}
	case strings.HasPrefix(host, "-"):
		return &plan.FieldError{Field: "host", Msg: fmt.Sprintf("%q is not a host name", s.Host), Hint: "a host name does not start with '-'"}
	case s.Port < 0 || s.Port > 65535:
		return &plan.FieldError{Field: "port", Msg: fmt.Sprintf("%d is not a port", s.Port), Hint: "a port is a number from 1 to 65535"}
	case s.Port != 0 && port != 0 && s.Port != port:
		return &plan.FieldError{Field: "port", Msg: fmt.Sprintf("is %d here and %d in host", s.Port, port), Hint: "write it once"}
	case s.User != "" && user != "" && s.User != user:
		return &plan.FieldError{Field: "user", Msg: fmt.Sprintf("is %s here and %s in host", s.User, user), Hint: "write it once"}
	case strings.ContainsAny(s.Agent, " \t\n\"'`;&|<>()$^%*?") || strings.HasPrefix(s.Agent, "-"):
		return &plan.FieldError{Field: "agent", Msg: fmt.Sprintf("%q is not one plain word", s.Agent), Hint: "agent: iotax, or C:/tools/iotax.exe"}
	case s.ConnectTimeout < 0:
		return &plan.FieldError{Field: "connect_timeout", Msg: "must not be negative"}
	}
	if s.Jump != "" && s.Jump != "none" {
		for hop := range strings.SplitSeq(s.Jump, ",") {
			if host, _, _, err := splitHost(hop); err != nil || host == "" {
				return &plan.FieldError{Field: "jump", Msg: fmt.Sprintf("%q is not a host", hop), Hint: "write [user@]host[:port], more of them with commas between"}
			}
		}
	}
	return nil
}

// splitHost splits [user@]host[:port]. An IPv6 address with a port is in brackets. A leading ssh:// is allowed.
func splitHost(s string) (host, user string, port int, err error) {
	s = strings.TrimSpace(strings.TrimPrefix(s, "ssh://"))
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, s = s[:i], s[i+1:]
	}
	host = s
	if h, p, e := net.SplitHostPort(s); e == nil {
		n, e := strconv.ParseUint(p, 10, 16)
		if e != nil || n == 0 {
			return "", "", 0, fmt.Errorf("%q is not a port", p)
		}
		host, port = h, int(n)
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" {
		return "", "", 0, errors.New("there is no host name")
	}
	if strings.ContainsAny(host, " \t\n/") {
		return "", "", 0, fmt.Errorf("%q is not a host name", host)
	}
	return host, user, port, nil
}

// Kind defines the machine kind ssh.
var Kind = kind.Of("ssh", "a host over SSH, with your ssh configuration", Spec{}, Open).WithoutDevices()

// A remote is a host that is reached over SSH.
type remote struct {
	*far.Machine
	to *transport
}

// Caps returns the capabilities of the agent, with the host's address, and facts about the connection.
func (r *remote) Caps() iotax.MachineCaps {
	c := r.Machine.Caps()
	c.Address = r.to.settings["hostname"]
	c.Facts = map[iotax.FactKey]string{}
	facts := map[iotax.FactKey]string{"ssh.server": r.to.serverVersion(), "ssh.jump": r.to.settings["proxyjump"], "ssh.agent": r.to.spec.Agent}
	for key, v := range facts {
		if v != "" {
			c.Facts[key] = v
		}
	}
	if r.to.spec.Agent != "" {
		c.Facts["ssh.agent.system"] = r.System()
	}
	return c
}

// Transport returns a transport that starts programs on the host that s describes.
func Transport(ctx context.Context, s *Spec, log func(format string, args ...any)) (agent.Transport, error) {
	t, err := newTransport(ctx, s, log)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Open connects to the host that s describes. Its time limit for the agent is at least one minute, because a login may
// load modules or mount a home directory.
func Open(ctx context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
	return open(ctx, s, o, max(time.Minute, time.Duration(s.ConnectTimeout)+30*time.Second))
}

// open is like Open, but with the given patience (see agent.Link).
func open(ctx context.Context, s *Spec, o kind.Options, patience time.Duration) (iotax.Machine, error) {
	t, err := newTransport(ctx, s, o.Logf)
	if err != nil {
		return nil, err
	}
	r := &remote{far.New(t, s.Agent), t}
	link := agent.LinkOf(r)
	link.Log, link.Patience = o.Log, patience
	if t.asks == asksUser {
		link.Patience = max(patience, 10*time.Minute) // time to type the password
	}
	if _, err := link.Session(ctx, r); err != nil {
		r.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return r, nil
}

// homePath returns p with ~ replaced by the user's home directory.
func homePath(p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, p[1:])
		}
	}
	return p
}

// options returns the arguments of ssh for the host, as a user would write them, and the host's name.
func (s *Spec) options() (args []string, host string) {
	host, user, port, _ := splitHost(s.Host) // Validate has checked it
	add := func(option, value string) {
		if value != "" {
			args = append(args, option, value)
		}
	}
	set := func(option, value string) { args = append(args, "-o", option+"="+value) }
	if s.Config == "none" {
		add("-F", "none")
	} else {
		add("-F", homePath(s.Config))
	}
	add("-l", cmp.Or(user, s.User))
	if port = cmp.Or(port, s.Port); port != 0 {
		add("-p", strconv.Itoa(port))
	}
	identity := homePath(s.Identity)
	if _, err := os.Stat(identity); err != nil && s.Identity != "" { // the private key may be only in the ssh agent
		if _, err := os.Stat(identity + ".pub"); err == nil {
			identity += ".pub"
		}
	}
	add("-i", identity)
	if s.Jump != "" {
		set("ProxyJump", strings.ReplaceAll(s.Jump, " ", ""))
	}
	if s.KnownHosts != "" {
		set("UserKnownHostsFile", `"`+strings.ReplaceAll(homePath(s.KnownHosts), "%", "%%")+`"`)
		set("GlobalKnownHostsFile", os.DevNull)
	}
	if s.AcceptNew {
		set("StrictHostKeyChecking", "accept-new")
	}
	if s.ConnectTimeout > 0 {
		set("ConnectTimeout", strconv.FormatInt(int64((time.Duration(s.ConnectTimeout)+time.Second-1)/time.Second), 10))
	}
	return args, host
}
