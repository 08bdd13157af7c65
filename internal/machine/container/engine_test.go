package container

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"iotax"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/testenv/machinetest"
)

// iotax finds an engine at the address that the engine's own command line uses.
func TestEngineAddress(t *testing.T) {
	config, run := t.TempDir(), t.TempDir()
	write := func(text string, at ...string) {
		t.Helper()
		file := filepath.Join(append([]string{config}, at...)...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	id := func(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name))) }
	for name, meta := range map[string]string{
		"far":    `{"Name":"far","Metadata":{},"Endpoints":{"docker":{"Host":"ssh://far.example","SkipTLSVerify":false}}}`,
		"near":   `{"Name":"near","Endpoints":{"docker":{"Host":"unix:///run/near.sock"}}}`,
		"keys":   `{"Name":"keys","Endpoints":{"docker":{"Host":"tcp://keys.example:2376"}}}`,
		"empty":  `{"Name":"empty","Endpoints":{}}`,
		"broken": `{`,
	} {
		write(meta, "contexts", "meta", id(name), "meta.json")
	}
	write("", "contexts", "tls", id("keys"), "docker", "ca.pem")
	keys := filepath.Join(config, "contexts", "tls", id("keys"), "docker")
	socket := filepath.Join(run, "podman", "podman.sock")
	if err := errors.Join(os.Mkdir(filepath.Dir(socket), 0o700), os.WriteFile(socket, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	type vars = map[string]string
	for _, c := range []struct {
		name, engine, current string // current is the context that `docker context use` selected
		spec                  Spec
		env                   vars
		where, tls, fails     string
	}{
		{name: "nothing is said", engine: "docker", where: client.DefaultDockerHost},
		{name: "chosen context", engine: "docker", current: "far", where: "ssh://far.example"},
		{name: "chosen default", engine: "docker", current: "default", where: client.DefaultDockerHost},
		{name: "DOCKER_CONTEXT before the chosen one", engine: "docker", current: "far", env: vars{"DOCKER_CONTEXT": "near"}, where: "unix:///run/near.sock"},
		{name: "DOCKER_HOST before contexts", engine: "docker", current: "far", env: vars{"DOCKER_HOST": "tcp://d:1", "DOCKER_CONTEXT": "near"}, where: "tcp://d:1"},
		{name: "context: before all of these", engine: "docker", current: "far", spec: Spec{Context: "near"}, env: vars{"DOCKER_HOST": "tcp://d:1", "DOCKER_CONTEXT": "keys"}, where: "unix:///run/near.sock"},
		{name: "context: default", engine: "docker", current: "far", spec: Spec{Context: "default"}, env: vars{"DOCKER_HOST": "tcp://d:1"}, where: client.DefaultDockerHost},
		{name: "host: before all", engine: "docker", current: "far", spec: Spec{Host: "tcp://plan:1"}, env: vars{"DOCKER_HOST": "tcp://d:1"}, where: "tcp://plan:1"},
		{name: "context with keys", engine: "docker", spec: Spec{Context: "keys"}, where: "tcp://keys.example:2376", tls: keys},
		{name: "CONTAINER_HOST is not Docker's", engine: "docker", env: vars{"CONTAINER_HOST": "tcp://p:1"}, where: client.DefaultDockerHost},

		{name: "missing context", engine: "docker", spec: Spec{Context: "nobody's"}, fails: "read docker context nobody's"},
		{name: "missing chosen context", engine: "docker", current: "gone", fails: "read docker context gone"},
		{name: "context without a host", engine: "docker", spec: Spec{Context: "empty"}, fails: "it names no host"},
		{name: "broken context", engine: "docker", spec: Spec{Context: "broken"}, fails: "read docker context broken"},
		{name: "no URL", engine: "docker", spec: Spec{Host: "/run/docker.sock"}, fails: "this is not a URL"},

		{name: "the user's service", engine: "podman", where: "unix://" + socket},
		{name: "contexts are not Podman's", engine: "podman", current: "far", where: "unix://" + socket},
		{name: "DOCKER_HOST of Podman", engine: "podman", env: vars{"DOCKER_HOST": "tcp://d:1"}, where: "tcp://d:1"},
		{name: "CONTAINER_HOST before it", engine: "podman", env: vars{"CONTAINER_HOST": "tcp://p:1", "DOCKER_HOST": "tcp://d:1"}, where: "tcp://p:1"},
		{name: "host: of Podman", engine: "podman", spec: Spec{Host: "unix:///p.sock"}, env: vars{"CONTAINER_HOST": "tcp://p:1"}, where: "unix:///p.sock"},
		{name: "context: of Podman", engine: "podman", spec: Spec{Context: "near"}, fails: "only Docker has contexts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"} {
				t.Setenv(v, c.env[v])
			}
			t.Setenv("DOCKER_CONFIG", config)
			t.Setenv("XDG_RUNTIME_DIR", run)
			write(fmt.Sprintf(`{"auths":{},"currentContext":%q}`, c.current), "config.json")
			where, tls, err := engineAddress(c.engine, &c.spec)
			if c.fails != "" {
				var e *iotax.Error
				if !errors.As(err, &e) || !strings.Contains(err.Error(), c.fails) || e.Hint == "" {
					t.Errorf("got %q, %v, want the error %q with a hint", where, err, c.fails)
				}
				return
			}
			if err != nil || where != c.where || tls != c.tls {
				t.Errorf("got %q, %q, %v, want %q, %q", where, tls, err, c.where, c.tls)
			}
		})
	}
	if name := currentContext(t.TempDir()); name != "" {
		t.Errorf("without a configuration the context is %q", name)
	}
	write("{", "config.json")
	if name := currentContext(config); name != "" {
		t.Errorf("of a broken configuration the context is %q", name)
	}
}

// Validate refuses keys that would have no effect.
func TestSpecs(t *testing.T) {
	for field, s := range map[string]Spec{
		"":             {Container: "db", User: "postgres"},
		"context":      {Image: "x", Host: "tcp://d:1", Context: "far"},
		"pull":         {Container: "db", Pull: "always"},
		"limit_device": {Image: "x", LimitOn: "/dev/sda"},
	} {
		if s.Pull == "" {
			s.Pull = "missing"
		}
		var f *plan.FieldError
		if err := s.Validate(); (field == "") != (err == nil) || err != nil && (!errors.As(err, &f) || f.Field != field) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

func TestCapsKept(t *testing.T) {
	x := remote.New(&remote.Exec{Name: "x"}, "")
	machinetest.Keeps(t, &box{Machine: x}, x)
}

func TestVersion(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	if v, err := Version(t.Context(), "docker"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no daemon: %q, %v", v, err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	answer := `{"Version":"27.1.1","ApiVersion":"1.46"}`
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.46")
		io.WriteString(w, answer)
	})}
	go srv.Serve(l)
	defer srv.Close()
	if v, err := Version(t.Context(), "docker"); err != nil || v != "27.1.1 at unix://"+socket {
		t.Errorf("daemon: %q, %v", v, err)
	}
	answer = "<html>"
	if v, err := Version(t.Context(), "docker"); err == nil {
		t.Errorf("not a daemon: %q", v)
	}
	for _, host := range []string{"tcp://u:secret@127.0.0.1:1", "::"} {
		t.Setenv("DOCKER_HOST", host)
		if v, err := Version(t.Context(), "docker"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %q, %v", host, v, err)
		}
	}
}

// If the answer to the creation of a container is lost, the container may exist, so iotax removes it.
func TestLostCreation(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var made, removed string
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.46")
		switch {
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			made = r.URL.Query().Get("name")
			panic(http.ErrAbortHandler)
		case r.Method == http.MethodDelete:
			removed = path.Base(r.URL.Path)
			w.WriteHeader(http.StatusNoContent)
		default:
			io.WriteString(w, "{}")
		}
	})}
	go srv.Serve(l)
	defer srv.Close()
	if _, err := Docker.Open(t.Context(), &Spec{Image: "x", Pull: "missing", Host: "unix://" + socket}, kind.Options{}); err == nil {
		t.Error("no error")
	}
	if made == "" || removed != made {
		t.Errorf("%q was made, %q removed", made, removed)
	}
}
