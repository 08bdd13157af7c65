package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"iotax"
)

// dialEngine connects to the engine at engineAddress. local reports whether the address is a Unix socket.
func dialEngine(ctx context.Context, engine string, s *Spec) (_ *link, local bool, err error) {
	where, tls, err := engineAddress(engine, s)
	if err != nil {
		return nil, false, err
	}
	fail := func(err error) (*link, bool, error) {
		shown := redacted(where)
		if shown != where { // errors of the library contain the address with its password
			err = errors.New(strings.ReplaceAll(err.Error(), where, shown))
		}
		return nil, false, &iotax.Error{Op: "connect to " + engine, On: "at " + shown, Err: err, Hint: engineHint(engine, where)}
	}
	l := &link{}
	opts := []client.Opt{client.WithHost(where), client.WithAPIVersionFromEnv()}
	switch {
	case isSSH(where):
		var argv []string
		if l.way, argv, err = behind(ctx, engine, where); err != nil {
			return fail(err)
		}
		opts = []client.Opt{client.WithHost("tcp://engine"), client.WithDialContext(dialer(l.way, argv)), client.WithAPIVersionFromEnv()} // the dialer ignores this address
	case tls != "":
		opts = append(opts, client.WithTLSClientConfig(filepath.Join(tls, "ca.pem"), filepath.Join(tls, "cert.pem"), filepath.Join(tls, "key.pem")))
	case s.Context == "":
		opts = append(opts, client.WithTLSClientConfigFromEnv())
	}
	if l.Client, err = client.New(opts...); err != nil {
		if l.way != nil {
			err = errors.Join(err, l.way.Close(ctx))
		}
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	if _, err = l.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		l.Close()
		return fail(err)
	}
	return l, strings.HasPrefix(where, "unix://"), nil
}

// Version returns the version and the address of the engine that a plan without host and context uses.
func Version(ctx context.Context, engine string) (string, error) {
	api, _, err := dialEngine(ctx, engine, &Spec{})
	if err != nil {
		return "", err
	}
	defer api.Close()
	v, err := api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return "", err
	}
	where, _, err := engineAddress(engine, &Spec{})
	return v.Version + " at " + redacted(where), err
}

// redacted hides the password in an address. If the address is not a URL, redacted hides everything before the last @.
func redacted(where string) string {
	if u, err := url.Parse(where); err == nil {
		return u.Redacted()
	}
	if _, host, ok := strings.Cut(where, "@"); ok {
		return "xxxxx@" + host[strings.LastIndex(host, "@")+1:]
	}
	return where
}

func engineHint(engine, where string) string {
	if file, ok := strings.CutPrefix(where, "unix://"); ok {
		if _, err := os.Stat(file); errors.Is(err, os.ErrPermission) {
			return "this user may not use the socket: join its group, or run as root"
		}
	}
	if isSSH(where) {
		return "log in there by hand, and see that this works: " + engine + " system dial-stdio"
	}
	if engine == "podman" {
		return "start its service: podman system service --time=0 " + where
	}
	return "start Docker, or name its address: DOCKER_HOST, host: or context:"
}

// engineAddress returns the address of the engine: from s, else from the environment, else (only for Docker) from the
// current context, else the usual socket. For a context with TLS keys, it also returns their directory.
func engineAddress(engine string, s *Spec) (where, tls string, err error) {
	if s.Host != "" {
		if _, err := url.Parse(s.Host); err != nil || !strings.Contains(s.Host, "://") {
			return "", "", &iotax.Error{Op: "connect to " + engine, On: s.Host, Err: errors.New("this is not a URL"), Hint: "write unix:///path or tcp://host:port"}
		}
		return s.Host, "", nil
	}
	if engine == "podman" && s.Context != "" {
		return "", "", &iotax.Error{Op: "connect to " + engine, On: s.Context, Err: errors.New("only Docker has contexts"), Hint: "write host: with a URI that podman system connection list prints"}
	}
	if s.Context == "" {
		vars := []string{"DOCKER_HOST"}
		if engine == "podman" {
			vars = []string{"CONTAINER_HOST", "DOCKER_HOST"}
		}
		for _, v := range vars {
			if h := os.Getenv(v); h != "" {
				return h, "", nil
			}
		}
	}
	if engine == "podman" {
		var at []string
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			at = append(at, filepath.Join(dir, "podman/podman.sock"))
		}
		at = append(at, "/run/podman/podman.sock")
		for _, file := range at {
			if _, err := os.Stat(file); err == nil {
				return "unix://" + file, "", nil
			}
		}
		return "unix://" + at[0], "", nil
	}
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, _ := os.UserHomeDir()
		dir = filepath.Join(home, ".docker")
	}
	name := s.Context
	if name == "" {
		name = os.Getenv("DOCKER_CONTEXT")
	}
	if name == "" {
		name = currentContext(dir)
	}
	if name == "" || name == "default" {
		return client.DefaultDockerHost, "", nil
	}
	return dockerContext(dir, name)
}

// currentContext returns the context that `docker context use` selected, or "". dir is Docker's configuration
// directory.
func currentContext(dir string) string {
	var c struct {
		CurrentContext string `json:"currentContext"`
	}
	b, err := iotax.ReadFile(filepath.Join(dir, "config.json"), iotax.MaxOutput)
	if err != nil || json.Unmarshal(b, &c) != nil {
		return ""
	}
	return c.CurrentContext
}

// dockerContext reads a context from Docker's configuration. The directory of a context is the SHA-256 of its name.
func dockerContext(dir, name string) (where, tls string, err error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	fail := func(err error) (string, string, error) {
		return "", "", &iotax.Error{Op: "read docker context", On: name, Err: err, Hint: "`docker context ls` lists the contexts"}
	}
	b, err := iotax.ReadFile(filepath.Join(dir, "contexts/meta", id, "meta.json"), iotax.MaxOutput)
	if err != nil {
		return fail(err)
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(b, &meta); err != nil {
		return fail(err)
	}
	where = meta.Endpoints["docker"].Host
	if where == "" {
		return fail(fmt.Errorf("it names no host"))
	}
	keys := filepath.Join(dir, "contexts/tls", id, "docker")
	if _, err := os.Stat(keys); err == nil {
		tls = keys
	}
	return where, tls, nil
}
