package ssh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kevinburke/ssh_config"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknown "golang.org/x/crypto/ssh/knownhosts"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/machine/internal/proc"
	"iotax/internal/machine/sshx"
)

// An sshConfig answers what the ssh configuration says about a host: the values of a keyword in
// their order, nil when it says nothing.
type sshConfig func(host, key string) ([]string, error)

// readSSHConfig reads the configuration that ssh would read; file replaces it.
func readSSHConfig(ctx context.Context, file string) (sshConfig, error) {
	files := []string{homePath("~/.ssh/config"), "/etc/ssh/ssh_config"}
	switch file {
	case "":
	case "none":
		files = nil
	default:
		files = []string{homePath(file)}
	}
	var parsed []*ssh_config.Config
	for _, f := range files {
		src, err := iotax.ReadFile(f, iotax.MaxOutput)
		if errors.Is(err, os.ErrNotExist) && file == "" {
			continue
		}
		if err != nil {
			return nil, &iotax.Error{Op: "read ssh configuration", On: f, Err: errors.New(proc.Reason(err)), Hint: "name an existing file, or leave config out"}
		}
		c, err := ssh_config.Decode(bytes.NewReader(src))
		if err != nil {
			// The parser does not know every Match; ssh itself does, and says what it makes of it.
			if bin, lerr := exec.LookPath("ssh"); lerr == nil {
				return effective(ctx, bin, file), nil
			}
			return nil, &iotax.Error{Op: "read ssh configuration", On: f, Err: err,
				Hint: "correct it, or install the ssh client, which is then asked, or set config: none"}
		}
		parsed = append(parsed, c)
	}
	return func(host, key string) ([]string, error) {
		var all []string
		for _, c := range parsed {
			vs, err := c.GetAll(host, key)
			if err != nil {
				return nil, &iotax.Error{Op: "read ssh configuration", On: "for " + host, Err: err}
			}
			all = append(all, vs...)
		}
		return all, nil
	}, nil
}

// askTime is how long ssh -G may take: a Match may run a command.
const askTime = 30 * time.Second

// effective asks ssh for the settings of a host (ssh -G).
func effective(ctx context.Context, bin, file string) sshConfig {
	cache := map[string]map[string][]string{}
	return func(name, key string) ([]string, error) {
		if cache[name] == nil {
			args := []string{"-G"}
			if file != "" {
				args = append(args, "-F", homePath(file))
			}
			ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("no answer within %v", askTime))
			defer cancel()
			out, err := iotax.Output(ctx, host.Local(), append(append([]string{bin}, args...), "--", name)...)
			if err != nil {
				return nil, &iotax.Error{Op: "read ssh configuration", On: "for " + name, Err: err, Hint: "correct it until this works: " + iotax.QuoteAll(append(append([]string{"ssh"}, args...), name))}
			}
			m := map[string][]string{}
			for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
				k, v, _ := strings.Cut(s.Text(), " ")
				m[k] = append(m[k], v)
			}
			cache[name] = m
		}
		return cache[name][strings.ToLower(key)], nil
	}
}

// resolve fills in what the spec, the configuration and OpenSSH's defaults say, in this order.
func (h *hop) resolve(s *Spec, cfg sshConfig) error {
	var failed error
	all := func(key string) []string {
		vs, err := cfg(h.alias, key)
		if err != nil && failed == nil {
			failed = err
		}
		for i, v := range vs {
			vs[i] = unquote(v)
		}
		return vs
	}
	first := func(key string) string {
		if vs := all(key); len(vs) > 0 {
			return vs[0]
		}
		return ""
	}
	bad := func(key, val string) error {
		return &iotax.Error{Op: "read ssh configuration", On: "for " + h.alias, Err: fmt.Errorf("%s %q is not understood", key, val)}
	}

	if name := first("HostName"); name != "" {
		h.host = strings.NewReplacer("%h", h.host, "%%", "%").Replace(name)
	}
	for _, u := range []string{s.User, first("User"), currentUser()} {
		if h.user == "" {
			h.user = u
		}
	}
	if h.port == 0 {
		h.port = s.Port
	}
	if p := first("Port"); p != "" && h.port == 0 {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return bad("Port", p)
		}
		h.port = int(n)
	}
	if h.port == 0 {
		h.port = 22
	}

	h.timeout = time.Duration(s.ConnectTimeout)
	if t := first("ConnectTimeout"); t != "" && t != "none" && h.timeout == 0 {
		d, err := seconds(t)
		if err != nil {
			return bad("ConnectTimeout", t)
		}
		h.timeout = d
	}
	if h.timeout <= 0 {
		h.timeout = 10 * time.Second
	}

	// To OpenSSH an interval of 0, its default, is never to ask, and a count of 0 never to give up. Here either is a minute: a
	// measurement must not wait for a dead host, and a busy host answers late while it takes in fio (80 MiB).
	h.alive = []sshx.Option{sshx.KeepAlive(5*time.Second, time.Minute)}
	if s := first("ServerAliveInterval"); s != "" {
		every, err := seconds(s)
		if err != nil {
			return bad("ServerAliveInterval", s)
		}
		count := uint64(3)
		if c := first("ServerAliveCountMax"); c != "" {
			if count, err = strconv.ParseUint(c, 10, 31); err != nil {
				return bad("ServerAliveCountMax", c)
			}
		}
		if every > 0 && count > 0 {
			count = min(count, uint64(math.MaxInt64/every))
			h.alive = []sshx.Option{sshx.KeepAlive(every, time.Duration(count)*every)}
		}
	}

	// A jump in the spec outranks the configuration's command, "none" switches either off.
	jump := s.Jump
	if jump == "" {
		jump = first("ProxyJump")
	}
	if jump == "" {
		if c := first("ProxyCommand"); c != "none" {
			h.command = h.expand(c)
		}
	} else if jump != "none" {
		for j := range strings.SplitSeq(jump, ",") {
			h.jumps = append(h.jumps, strings.TrimSpace(j))
		}
	}

	h.only = first("IdentitiesOnly") == "yes"
	h.agent = os.Getenv("SSH_AUTH_SOCK")
	switch a := first("IdentityAgent"); {
	case a == "", a == "SSH_AUTH_SOCK":
	case strings.HasPrefix(a, "$"):
		h.agent = os.Getenv(strings.Trim(a, "${}"))
	default:
		h.agent = homePath(h.expand(a))
	}
	if s.Identity != "" {
		h.identities, h.explicit = []string{homePath(s.Identity)}, 1
	}
	files := all("IdentityFile")
	if len(files) == 0 {
		files = []string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"}
	}
	for _, f := range files {
		if f != "none" {
			h.identities = append(h.identities, homePath(h.expand(f)))
		}
	}

	if h.keyAlias = first("HostKeyAlias"); h.keyAlias == "none" {
		h.keyAlias = ""
	}
	h.userHosts = h.fileList(first("UserKnownHostsFile"), "~/.ssh/known_hosts ~/.ssh/known_hosts2")
	h.globalHosts = h.fileList(first("GlobalKnownHostsFile"), "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
	if s.KnownHosts != "" {
		h.userHosts, h.globalHosts = []string{homePath(s.KnownHosts)}, nil
	}
	switch v := strings.ToLower(first("StrictHostKeyChecking")); v {
	case "", "ask", "yes", "true":
		h.strict = "yes" // nobody is there to be asked
	case "accept-new":
		h.strict = "accept-new"
	case "no", "off", "false":
		h.strict = "no"
	default:
		return bad("StrictHostKeyChecking", v)
	}
	if s.AcceptNew && h.strict == "yes" {
		h.strict = "accept-new"
	}
	return failed
}

// timeUnits are those of ssh_config(5), TIME FORMATS in sshd_config(5), in lower case.
var timeUnits = map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

// seconds reads a time of ssh_config(5): whole numbers, each of seconds or of the unit behind it, as in 90, 1h30m and 2W.
func seconds(s string) (time.Duration, error) {
	if s == "" {
		return 0, errors.New("no time")
	}
	var sum time.Duration
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, err
		}
		name := rest[digits:min(digits+1, len(rest))]
		unit, ok := timeUnits[strings.ToLower(name)]
		if !ok {
			return 0, fmt.Errorf("%q is no unit of time", name)
		}
		if n > int64((math.MaxInt64-sum)/unit) {
			return 0, errors.New("too long")
		}
		sum += time.Duration(n) * unit
		rest = rest[digits+len(name):]
	}
	return sum, nil
}

func (h *hop) fileList(s, otherwise string) []string {
	if s == "" {
		s = otherwise
	}
	var files []string
	for _, f := range strings.Fields(s) {
		if f != "none" {
			files = append(files, homePath(h.expand(unquote(f))))
		}
	}
	return files
}

// expand fills in the tokens of ssh_config(5) that make sense before a connection.
func (h *hop) expand(s string) string {
	local, _ := os.Hostname()
	return strings.NewReplacer("%%", "%", "%h", h.host, "%p", strconv.Itoa(h.port), "%r", h.user, "%n", h.alias,
		"%d", homePath("~"), "%u", currentUser(), "%l", local, "%L", strings.SplitN(local, ".", 2)[0]).Replace(s)
}

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' && !strings.Contains(s[1:len(s)-1], `"`) {
		return s[1 : len(s)-1]
	}
	return s
}

func homePath(p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, p[1:])
		}
	}
	return p
}

func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username[strings.LastIndexByte(u.Username, '\\')+1:]
	}
	return os.Getenv("USER")
}

// password returns what the environment or the file says, "" when there is none. Neither it nor a
// part of it is ever in an error.
func password(file string) (string, error) {
	if file == "" {
		return os.Getenv(passwordEnv), nil
	}
	src, err := iotax.ReadFile(homePath(file), iotax.MaxOutput)
	if err != nil {
		return "", &iotax.Error{Op: "read password file", On: file, Err: errors.New(proc.Reason(err)), Hint: "put the password on its first line, readable by you alone"}
	}
	line, _, _ := strings.Cut(string(src), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", &iotax.Error{Op: "read password file", On: file, Err: errors.New("its first line is empty"), Hint: "put the password there"}
	}
	return line, nil
}

// wanted is the first key that known_hosts has instead.
func wanted(err error) *xknown.KnownKey {
	var e *xknown.KeyError
	if errors.As(err, &e) && len(e.Want) > 0 {
		return &e.Want[0]
	}
	return nil
}

// remember appends the key to the user's file of known hosts.
func (h *hop) remember(name string, key ssh.PublicKey) error {
	if len(h.userHosts) == 0 {
		return nil // the configuration says that none are kept
	}
	file := h.userHosts[0]
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	line := knownhosts.Line([]string{name}, key) + "\n"
	if old, err := iotax.ReadFile(file, iotax.MaxOutput); err == nil && len(old) > 0 && old[len(old)-1] != '\n' {
		line = "\n" + line
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
