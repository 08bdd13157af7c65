package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax/internal/testenv/long"
)

// The test puts markers into the sources of secrets. No marker may appear in the output, in a file that is not its
// source, or on a command line that the test did not start.
func TestSecretsStaySecret(t *testing.T) {
	long.Test(t)
	s := newStage(t)
	mark := func(i int) string { return fmt.Sprintf("MARKED-%d-SECRET", i) }
	n := 0
	next := func() string { n++; return mark(n) }
	for _, name := range []string{"IOTAX_SSH_PASSWORD", "IOTAX_SSH_PASSPHRASE", "IOTAX_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"MINIO_ROOT_PASSWORD", "PGPASSWORD", "IOTAX_STORE_PASSWORD"} {
		s.env[name] = next()
	}
	password := s.write("home/password", next()+"\n")
	token, secret := s.path("home/token"), next()
	s.write("home/token", secret+"\n")
	access, key := next(), next()
	keys := s.write("home/keys", "[default]\naws_access_key_id = "+access+"\naws_secret_access_key = "+key+"\n")

	d := s.sshd(os.Getenv("PATH"))
	s.knows(d)

	// Watch the command lines of all processes.
	exe, err := exec.LookPath("iotax")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{} // the command lines that the test itself starts, as a user would
	stop, seen := make(chan struct{}), make(chan map[string]bool)
	go func() {
		found := map[string]bool{}
		for {
			all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, f := range all {
				b, _ := os.ReadFile(f)
				if bytes.Contains(b, []byte("MARKED-")) {
					found[strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " ")] = true
				}
			}
			select {
			case <-stop:
				seen <- found
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()

	var said strings.Builder
	run := func(args ...string) result {
		own[strings.Join(append([]string{exe}, args...), " ")] = true
		r := s.iotax(args...)
		r.args = nil
		fmt.Fprintln(&said, r)
		return r
	}
	s.write("plan.yaml", fmt.Sprintf(`
baseline: host
machines:
  there: {ssh: {host: 127.0.0.1, port: %d, password_file: %s}}
targets:
  host:  {dir: a}
  there: {on: there, dir: %s}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}
measure: {trial: 200ms, ramp: 0s, rounds: 1}
`, d.port, password, s.path("b")))
	run("run", "plan.yaml", "-o", "report.html", "-o", "report.md", "-o", "report.json").works(t, 0)
	run("export", "-o", "report.csv").works(t, 0)
	// Run a command and a hook that print their environment. iotax removes its own secrets from this environment. It
	// passes on secrets for the user's commands, but does not save them.
	s.write("env.yaml", `
targets: {a: {dir: a}, b: {dir: b}}
workloads: {env: {command: {shell: true, run: "env; env >&2", setup: "env"}}, wrong: {command: {shell: true, run: "env >&2; exit 3"}}}
measure: {rounds: 1}
`)
	run("run", "env.yaml", "-o", "env.html", "-o", "env.json").works(t, exitOK)
	run("show", "--raw", "--trial", "1").works(t, 0, "PGPASSWORD=[$PGPASSWORD]")
	s.write("hook.yaml", `
targets: {a: {dir: a}, b: {dir: b}}
workloads: {hook: {command: {run: "true", setup: "env >&2; exit 3"}}}
measure: {rounds: 1}
`)
	run("run", "hook.yaml", "--keep-going").refuses(t, 1, "PGPASSWORD=[$PGPASSWORD]")
	// Log in as an unknown user, so that the SSH client tries all methods of authentication.
	s.write("plan2.yaml", strings.Replace(fmt.Sprintf(`
machines: {there: {ssh: {host: 127.0.0.1, port: %d, user: nobody-here, config: none, known_hosts: KNOWN, password_file: %s}}}
targets: {host: {dir: a}, there: {on: there, dir: /tmp}}
workloads: {read: {fio: {rw: randread, bs: 4k, size: 4MiB}}}
`, d.port, password), "KNOWN", s.path("known"), 1))
	run("run", "plan2.yaml")
	// Pass secrets in the URLs of targets and stores.
	for _, args := range [][]string{
		{"run", "dir:a", "ssh://me:" + next() + "@127.0.0.1:1/tmp"},
		{"plan", "dir:a", "ssh://me:" + next() + "@127.0.0.1:1/tmp"},
		{"run", "dir:a", "s3://key:" + next() + "@127.0.0.1:1/bucket"},
		{"run", "dir:a", "http://me:" + next() + "@127.0.0.1:1/"},
		{"list", "--store", "postgres://me:" + next() + "@127.0.0.1:1/iotax"},
		{"list", "--store", "mysql://me:" + next() + "@127.0.0.1:1/iotax"},
	} {
		if r := run(args...); r.code == 0 && args[0] != "plan" {
			t.Errorf("%q works", args[:2])
		}
	}
	// Take the keys of an object store from the environment and from a file.
	addr := s.s3("bench")
	s.write("bucket.yaml", fmt.Sprintf(`
targets:
  own:         {bucket: {path: %[3]s, program: %[4]q}}
  environment: {bucket: "http://%[1]s/bench"}
  file:        {bucket: {url: "http://%[1]s/bench", credentials: %[2]s}}
workloads: {put: {object: {size: 64KiB, count: 2}}}
measure: {rounds: 1}
`, addr, keys, s.path("a"), s.storeProgram()))
	run("run", "bucket.yaml", "--keep-going", "-o", "bucket.html", "-o", "bucket.json").works(t, 1)
	// Request a page from iotax serve with the right token, a wrong token, and no token.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	l.Close()
	web := s.start(nil, "serve", "--listen", listen, "--token-file", token)
	url := "http://" + listen + "/"
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", listen); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal("iotax serve does not listen")
		}
	}
	for _, bearer := range []string{secret, "wrong", ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+bearer)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if ok := resp.StatusCode == http.StatusOK; err != nil || ok != (bearer == secret) {
			t.Errorf("%s with the token %q: %v", url, bearer, err)
		}
		fmt.Fprintln(&said, resp.Status, resp.Header, string(b))
	}
	web.send(os.Interrupt)
	fmt.Fprintln(&said, web.wait())
	for _, args := range [][]string{{"report"}, {"show"}, {"show", "--plan"}, {"show", "--json"}, {"export"}, {"list"}, {"doctor"}, {"clean"}} {
		run(args...)
	}
	close(stop)
	for cmd := range <-seen {
		if !own[cmd] {
			t.Errorf("a secret is on a command line: %s", cmd)
		}
	}
	leaks := func(where string, text []byte) {
		for i := 1; i <= n; i++ {
			if at := bytes.Index(text, []byte(mark(i)+"\n")); at < 0 {
				at = bytes.Index(text, []byte(mark(i)))
				if at >= 0 {
					t.Errorf("secret %d is in %s: …%q…", i, where, text[max(0, at-80):min(len(text), at+60)])
				}
			} else {
				t.Errorf("secret %d is in %s", i, where)
			}
		}
	}
	leaks("what is printed", []byte(said.String()))
	err = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || slices.Contains([]string{password, token, keys}, path) {
			return err
		}
		b, err := os.ReadFile(path)
		leaks(path, b)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Names in plans are untrusted. Reports and exports escape them, and no control character reaches the terminal.
func TestHostileNames(t *testing.T) {
	s := newStage(t)
	s.write("plan.yaml", `
name: "<img src=x onerror=alert(1)>"
baseline: '=HYPERLINK("http://x","y")'
targets:
  '=HYPERLINK("http://x","y")': {dir: a}
  '<script>alert(1)</script>': {dir: b}
  'a | b `+"`c`"+` [d](http://e) **f**': {dir: b}
workloads:
  '+cmd"|'' /C calc''!A0': {fio: {rw: randread, bs: 4k, size: 4MiB}}
measure: {trial: 100ms, ramp: 0s, rounds: 2}
`)
	r := s.iotax("run", "plan.yaml", "-o", "r.html", "-o", "r.md", "-o", "r.svg", "-o", "r.json").works(t, 0)
	s.iotax("export", "-o", "r.csv").works(t, 0)
	if strings.ContainsAny(r.stdout+r.stderr, "\x1b\x07\u009b") {
		t.Error("control characters on the terminal")
	}
	file := func(name string) string {
		b, err := os.ReadFile(s.path(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, name := range []string{"r.html", "r.svg", "r.md"} {
		text := file(name)
		for _, bad := range []string{"<script>alert", "<img src=x"} {
			if strings.Contains(text, bad) {
				at := strings.Index(text, bad)
				t.Errorf("%s holds %q: %q", name, bad, text[max(0, at-60):min(len(text), at+60)])
			}
		}
	}
	if md := file("r.md"); strings.Contains(md, "[d](http://e)") {
		t.Error("a name is a link in Markdown")
	}
	for line := range strings.Lines(file("r.csv")) {
		for _, bad := range []string{`,=HYPERLINK`, `,"=HYPERLINK`, `,+cmd`, `,"+cmd`} {
			if strings.Contains(line, bad) {
				t.Errorf("a formula in CSV: %s", line)
			}
		}
	}
	// No escape sequence of a plan reaches the terminal.
	s.write("esc.yaml", "targets: {\"a\\u001b]0;x\\u0007\": {dir: a}, b: {dir: b}}\nworkloads: {w: {fio: {size: 4MiB}}}\nmeasure: {trial: 100ms, ramp: 0s, rounds: 1}\n")
	for _, args := range [][]string{{"run", "esc.yaml"}, {"show", "latest"}, {"show", "latest", "--trial", "1"}, {"list"}} {
		if r := s.iotax(args...); strings.ContainsAny(r.stdout+r.stderr, "\x1b\x07\u009b") {
			t.Errorf("%v: control characters on the terminal: %q", args, r.stdout+r.stderr)
		}
	}
}
