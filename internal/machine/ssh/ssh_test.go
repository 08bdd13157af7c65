//go:build linux

package ssh

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/testenv/machinetest"
	"iotax/internal/testenv/sshtest"
)

// An sshd is a real OpenSSH server on the loopback interface. It runs as the tests' user.
type sshd struct {
	port int
	pid  int
	dir  string
	key  string // file with the private key that may log in
	host ssh.PublicKey

	mu  sync.Mutex
	log bytes.Buffer
}

// newKey writes a new private key to file and returns its public key. An empty passphrase means no encryption.
func newKey(t testing.TB, file, passphrase string) ssh.PublicKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "test")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "test", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(pem.EncodeToMemory(block)))
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer.PublicKey()
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startSSHD starts a server with the lines added to its configuration. At the end of the test, the server and all its
// processes are killed.
func startSSHD(t testing.TB, lines ...string) *sshd {
	t.Helper()
	bin := "/usr/sbin/sshd"
	if _, err := os.Stat(bin); err != nil {
		if bin, err = exec.LookPath("sshd"); err != nil {
			t.Skip("needs sshd")
		}
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd does not start without this directory
			t.Fatal(err)
		}
	}
	s := &sshd{dir: t.TempDir()}
	s.key = filepath.Join(s.dir, "user")
	authorized := filepath.Join(s.dir, "authorized")
	write(t, authorized, string(ssh.MarshalAuthorizedKey(newKey(t, s.key, ""))))
	s.host = newKey(t, filepath.Join(s.dir, "host"), "")
	for try := 0; ; try++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.port = l.Addr().(*net.TCPAddr).Port
		l.Close()
		write(t, filepath.Join(s.dir, "config"), strings.Join(append([]string{
			fmt.Sprintf("ListenAddress 127.0.0.1:%d", s.port), "HostKey " + s.dir + "/host", "AuthorizedKeysFile " + authorized,
			"PidFile none", "UsePAM no", "StrictModes no", "PasswordAuthentication no", "MaxStartups 100", "UseDNS no",
			// With SHLVL=1, bash treats itself as a nested shell and does not read the user's .bashrc, which may be
			// slow or print text.
			"SetEnv SHLVL=1 XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME"),
		}, lines...), "\n")+"\n")
		if s.run(t, bin) {
			return s
		}
		if try == 3 {
			t.Fatalf("sshd does not start: %s", s.logged())
		}
	}
}

func (s *sshd) run(t testing.TB, bin string) bool {
	cmd := exec.Command(bin, "-D", "-e", "-f", s.dir+"/config")
	cmd.Stderr = s
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		for _, p := range descendants(s.pid) {
			syscall.Kill(p, syscall.SIGKILL)
		}
		cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("sshd says: %s", s.logged())
		}
	})
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			return false
		default:
		}
		// Wait for the log line: another process might answer at the port.
		if strings.Contains(s.logged(), "Server listening on 127.0.0.1 port "+strconv.Itoa(s.port)) {
			return true
		}
	}
	return false
}

// Write appends to the server's log.
func (s *sshd) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *sshd) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *sshd) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// known writes a known_hosts file with the key for the server, and returns its path.
func (s *sshd) known(t testing.TB, key ssh.PublicKey) string {
	t.Helper()
	file := filepath.Join(s.dir, "known_hosts")
	write(t, file, knownhosts.Line([]string{s.addr()}, key)+"\n")
	return file
}

// spec returns a spec that reaches the server without the user's ssh configuration.
func (s *sshd) spec(t testing.TB) *Spec {
	t.Helper()
	return &Spec{Host: "127.0.0.1", Port: s.port, Identity: s.key, KnownHosts: s.known(t, s.host), Config: "none"}
}

// config writes an ssh configuration and returns its path. It replaces PORT, KEY and KNOWN in the text. It also hides
// the user's ssh agent from the test.
func (s *sshd) config(t *testing.T, text string) string {
	t.Helper()
	t.Setenv("SSH_AUTH_SOCK", "")
	file := s.dir + "/ssh_config"
	text = strings.NewReplacer("PORT", strconv.Itoa(s.port), "KEY", s.key, "KNOWN", s.known(t, s.host)).Replace(text)
	write(t, file, text)
	return file
}

// descendants returns the descendants of pid, including those in other sessions.
func descendants(pid int) []int {
	up := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		p, _ := strconv.Atoi(strings.Fields(string(b))[0])
		up[p], _ = strconv.Atoi(f[1])
	}
	var all []int
	for p := range up {
		for q := up[p]; q > 1; q = up[q] {
			if q == pid {
				all = append(all, p)
				break
			}
		}
	}
	return all
}

func openSSH(t testing.TB, spec *Spec) (iotax.Machine, error) {
	t.Helper()
	m, err := Kind.Open(context.Background(), spec, kind.Options{Name: "remote", Log: t.Logf})
	if err == nil {
		t.Cleanup(func() {
			if err := m.Close(context.Background()); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	return m, err
}

// works opens the machine and checks that a command runs on it.
func works(t *testing.T, spec *Spec) iotax.Machine {
	t.Helper()
	m, err := openSSH(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := iotax.Output(t.Context(), m, "echo", "hello"); err != nil || string(out) != "hello\n" {
		t.Fatalf("got %q and %v", out, err)
	}
	return m
}

// fails checks that opening the machine fails with an error that contains `says` and a hint that contains `hint`.
func fails(t *testing.T, spec *Spec, says, hint string) {
	t.Helper()
	begin := time.Now()
	_, err := openSSH(t, spec)
	var e *iotax.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want an *iotax.Error", err, err)
	}
	t.Log(err)
	if !strings.Contains(e.Error(), says) {
		t.Errorf("the error does not say %q", says)
	}
	if !strings.Contains(e.Hint, hint) {
		t.Errorf("the hint does not say %q", hint)
	}
	if d := time.Since(begin); d > 45*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestSSH(t *testing.T) {
	t.Parallel()
	servers := map[iotax.Machine]*sshd{}
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		s := startSSHD(t)
		m, err := Kind.Open(t.Context(), s.spec(t), kind.Options{Name: "remote"})
		if err != nil {
			t.Fatal(err)
		}
		servers[m] = s
		return m
	}, machinetest.Options{Lasts: true, Kill: func(m iotax.Machine) error {
		// Kill the server's process for this connection, then its remaining descendants.
		all := descendants(servers[m].pid)
		servers[m].dropSessions()
		for _, p := range all {
			syscall.Kill(p, syscall.SIGKILL)
		}
		return nil
	}})
}

// dropSessions kills the server's processes that handle connections, but not the listener.
func (s *sshd) dropSessions() {
	for _, p := range descendants(s.pid) {
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p)); strings.HasPrefix(string(comm), "sshd") {
			syscall.Kill(p, syscall.SIGKILL)
		}
	}
}

// After a connection has broken, the next command connects again, and ssh verifies the host key again.
func TestSSHAgain(t *testing.T) {
	t.Parallel()
	s := startSSHD(t)
	spec := s.spec(t)
	m := works(t, spec)
	// broke kills the connection while a command runs, and checks that the command fails for this reason.
	broke := func() {
		t.Helper()
		up, out := io.Pipe()
		cmd := iotax.Command("sh", "-c", "echo up; exec sleep 1008")
		cmd.Stdout = out
		done := make(chan error, 1)
		go func() {
			err := m.Run(t.Context(), cmd)
			out.Close()
			done <- err
		}()
		if _, err := io.ReadFull(up, make([]byte, len("up\n"))); err != nil {
			t.Fatal(err, <-done)
		}
		s.dropSessions()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "connection lost") {
			t.Errorf("under a command: %v", err)
		}
	}
	broke()
	if out, err := iotax.Output(t.Context(), m, "echo", "again"); err != nil || string(out) != "again\n" {
		t.Errorf("after it: %q, %v", out, err)
	}
	reconnected := m.Caps().Reconnected
	if told := reconnected(); len(told) != 1 || !strings.Contains(told[0], "connection lost: ") || !strings.Contains(told[0], "made again") {
		t.Errorf("told: %q", told)
	}
	if told := reconnected(); len(told) > 0 {
		t.Errorf("told twice: %q", told)
	}
	if f := m.Caps().Facts; !strings.Contains(f["ssh.server"], "OpenSSH") {
		t.Errorf("facts are %v", f)
	}

	write(t, spec.KnownHosts, knownhosts.Line([]string{fmt.Sprintf("[127.0.0.1]:%d", s.port)}, newKey(t, filepath.Join(t.TempDir(), "other"), ""))+"\n")
	broke()
	if err := m.Run(t.Context(), iotax.Command("true")); err == nil || !strings.Contains(err.Error(), "host key has changed") || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("with another host key: %v", err)
	}
}

// A link that fails without closing the connection is detected after ssh's ServerAlive timeout.
func TestSSHDeadLink(t *testing.T) {
	s := startSSHD(t)
	const host = "Host db1\n\tHostName 127.0.0.1\n\tPort PORT\n\tIdentityFile KEY\n\tUserKnownHostsFile KNOWN\n"
	config := s.config(t, host+"\tServerAliveInterval 1\n\tServerAliveCountMax 1\n")
	m := works(t, &Spec{Host: "db1", Config: config})
	frozen := descendants(s.pid)
	signal := func(sig syscall.Signal) {
		for _, p := range frozen {
			syscall.Kill(p, sig)
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	begin := time.Now()
	if err := m.Run(t.Context(), iotax.Command("true")); err == nil || !strings.Contains(err.Error(), "connection lost: Timeout, server 127.0.0.1 not responding") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 15*time.Second { // 65 s with iotax's default settings
		t.Errorf("it took %v", took)
	}
	signal(syscall.SIGCONT)
	s.config(t, host+"\tServerAliveInterval 1d\n\tServerAliveCountMax 0\n")
	works(t, &Spec{Host: "db1", Config: config})
	s.config(t, host+"\tServerAliveInterval often\n")
	fails(t, &Spec{Host: "db1", Config: config}, "invalid time value", "ssh -G -F")
}

func TestSSHFacts(t *testing.T) {
	t.Parallel()
	s := startSSHD(t)
	m := works(t, s.spec(t))
	if m.String() != "ssh://127.0.0.1" {
		t.Errorf("it is called %s", m)
	}
	f := m.Caps().Facts
	if !strings.Contains(f["ssh.server"], "OpenSSH") || f["ssh.jump"] != "" {
		t.Errorf("facts are %v", f)
	}
}

func TestSSHFewSessions(t *testing.T) {
	t.Parallel()
	m := works(t, startSSHDWithSpec(t, "MaxSessions 2"))
	errs := make(chan error)
	for range 6 {
		go func() { errs <- m.Run(t.Context(), iotax.Command("sleep", "0.05")) }()
	}
	for range 6 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := m.Run(ctx, iotax.Command("sleep", "1000")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

// More commands can run at the same time than the SSH server allows sessions per connection. All of them start, and
// none is interrupted.
func TestSSHManyAtOnce(t *testing.T) {
	t.Parallel()
	m := works(t, startSSHDWithSpec(t)) // ten sessions per connection, the default of sshd
	const n = 23
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, n)
	for i := range n {
		go func() {
			errs <- m.Run(ctx, iotax.Command("sh", "-c", `: >"$1/$2"; exec sleep 1009`, "sh", dir, strconv.Itoa(i)))
		}()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		begun, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(begun) == n {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d commands have begun", len(begun), n)
		}
	}
	if err := m.Run(t.Context(), iotax.Command("true")); err != nil {
		t.Error(err)
	}
	if len(errs) > 0 {
		t.Errorf("a command ended: %v", <-errs)
	}
	cancel()
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func startSSHDWithSpec(t *testing.T, lines ...string) *Spec {
	s := startSSHD(t, lines...)
	return s.spec(t)
}

func TestSSHNoSessions(t *testing.T) {
	t.Parallel()
	fails(t, startSSHDWithSpec(t, "MaxSessions 0"), "open failed", "MaxSessions")
}

func TestSSHForcedCommand(t *testing.T) {
	t.Parallel()
	fails(t, startSSHDWithSpec(t, "ForceCommand echo go away >&2; exit 1"), "go away", "must be allowed to run commands")
}

// Open fails if the login shell prints without end or never runs a command. A cancelled Open returns soon. Open accepts
// a login that takes longer than ConnectTimeout.
func TestSSHEndlessLogin(t *testing.T) {
	spec := func(shell string) *Spec {
		srv := &sshtest.Server{Shell: []string{"sh", "-c", shell}}
		addr, key := srv.Start(t)
		known := filepath.Join(t.TempDir(), "known")
		write(t, known, knownhosts.Line([]string{addr}, key)+"\n")
		return &Spec{Host: "test@" + addr, Config: "none", KnownHosts: known, ConnectTimeout: plan.Duration(time.Second)}
	}
	if _, err := openSSH(t, spec(`sleep 1.3; exec sh -c "$0"`)); err != nil {
		t.Errorf("a slow login: %v", err)
	}
	for shell, says := range map[string]string{"exec yes": `the login shell prints on its own: "y"`, "exec sleep 1000": "it did not answer within 1s"} {
		begin := time.Now()
		if _, err := open(t.Context(), spec(shell), kind.Options{Name: "remote"}, time.Second); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", shell, err)
		}
		if d := time.Since(begin); d > 8*time.Second {
			t.Errorf("%s: it took %v", shell, d)
		}
	}
	slow := spec("exec sleep 1000")
	slow.ConnectTimeout = plan.Duration(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	begin := time.Now()
	_, err := Kind.Open(ctx, slow, kind.Options{Name: "remote"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled opening ended with %v", err)
	}
	if d := time.Since(begin); d > 4*time.Second {
		t.Errorf("a cancelled opening took %v", d)
	}
}

// TestSSHBusybox runs the brief machine test suite on a host that has only busybox. Like Dropbear, the server accepts
// one session per connection, and runs the commands in its own process group.
func TestSSHBusybox(t *testing.T) {
	dir := sshtest.BusyboxPath(t)
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		srv := &sshtest.Server{Shell: []string{dir + "/sh", "-c"}, Env: []string{"PATH=" + dir, "HOME=" + t.TempDir()}, SameGroup: true, MaxSessions: 1}
		addr, key := srv.Start(t)
		known := filepath.Join(t.TempDir(), "known")
		write(t, known, knownhosts.Line([]string{addr}, key)+"\n")
		m, err := Kind.Open(t.Context(), &Spec{Host: "test@" + addr, Config: "none", KnownHosts: known}, kind.Options{Name: "remote"})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, machinetest.Options{Brief: true})
}

func TestSSHNoisyLogin(t *testing.T) {
	t.Parallel()
	fails(t, startSSHDWithSpec(t, `ForceCommand echo welcome; eval "$SSH_ORIGINAL_COMMAND"`), "welcome", "start-up files")
}

func TestSSHHostKeys(t *testing.T) {
	t.Parallel()
	s := startSSHD(t)
	spec := s.spec(t)
	other := newKey(t, s.dir+"/other", "")

	spec.KnownHosts = s.known(t, other)
	fails(t, spec, "its host key has changed", "ssh-keygen -R '[127.0.0.1]:"+strconv.Itoa(s.port)+"' -f "+spec.KnownHosts)
	spec.AcceptNew = true // a changed key is not a new key
	fails(t, spec, "its host key has changed", "ssh-keygen -R")

	// The hint must work: run its command.
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("needs ssh-keygen")
	}
	if out, err := exec.Command("ssh-keygen", "-R", fmt.Sprintf("[127.0.0.1]:%d", s.port), "-f", spec.KnownHosts).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	spec.AcceptNew = false
	fails(t, spec, "its host key is not known: ssh-ed25519 "+ssh.FingerprintSHA256(s.host), "accept_new: true")
	spec.AcceptNew = true
	works(t, spec)
	spec.AcceptNew = false // the key was remembered
	works(t, spec)

	// Neither the file nor its directory exists.
	spec.KnownHosts = s.dir + "/new/known"
	fails(t, spec, "is not known", "accept_new")
	spec.AcceptNew = true
	works(t, spec)
	if b, err := os.ReadFile(spec.KnownHosts); err != nil || bytes.Count(b, []byte("\n")) != 1 {
		t.Errorf("%q was remembered (%v), want one line", b, err)
	}

}

// TestSSHSeveralHostKeys connects to a server with two types of host keys. known_hosts contains only the key of the
// type that ssh would not request first. Then it connects to a server whose key has changed its type.
func TestSSHSeveralHostKeys(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("needs ssh-keygen")
	}
	file := t.TempDir() + "/rsa"
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	src, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	rsa, _, _, _, err := ssh.ParseAuthorizedKey(src)
	if err != nil {
		t.Fatal(err)
	}
	s := startSSHD(t, "HostKey "+file)
	spec := s.spec(t)
	spec.KnownHosts = s.known(t, rsa)
	works(t, spec)

	s = startSSHD(t)
	spec = s.spec(t)
	spec.KnownHosts = s.known(t, rsa)
	fails(t, spec, "its host key has changed", "ssh-keygen -R")
}

func TestSSHConfig(t *testing.T) {
	s := startSSHD(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	config := s.config(t, `
# a comment
Host db1 db2
	HostName 127.0.0.1
	Port PORT
	User `+me.Username+`
	IdentityFile "KEY"
	IdentitiesOnly yes
	UserKnownHostsFile KNOWN
	ConnectTimeout 5

Host strict
	HostName 127.0.0.1
	Port PORT
	IdentityFile KEY
	UserKnownHostsFile /dev/null
	GlobalKnownHostsFile /dev/null

Host careless
	HostName 127.0.0.1
	Port PORT
	IdentityFile KEY
	UserKnownHostsFile /dev/null
	StrictHostKeyChecking no
`)
	m := works(t, &Spec{Host: "db2", Config: config})
	if m.String() != "ssh://db2" {
		t.Errorf("it is called %s, want it by its alias", m)
	}
	works(t, &Spec{Host: "ssh://" + me.Username + "@db1", Config: config})
	works(t, &Spec{Host: "careless", Config: config})
	fails(t, &Spec{Host: "strict", Config: config}, "is not known", "accept_new")
	fails(t, &Spec{Host: "db1", Config: s.dir + "/missing"}, "missing", "ssh -G")
	wrong := s.dir + "/wrong"
	write(t, wrong, "Host *\n\tPort many\n")
	fails(t, &Spec{Host: "db1", Config: wrong}, "many", "ssh -G -F")
	fails(t, &Spec{Host: "db1", User: "nobody-of-iotax", Config: config}, "the login was refused", "ssh -F")
	fails(t, &Spec{Host: "db1", Port: 1, Config: config}, "refused", "")
}

// TestSSHConfigMatch uses a Match block, which only ssh itself can evaluate.
func TestSSHConfigMatch(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("needs ssh")
	}
	s := startSSHD(t)
	config := s.config(t, `
Match originalhost db1 exec "true"
	HostName 127.0.0.1
	Port PORT
	IdentityFile KEY
	UserKnownHostsFile KNOWN
`)
	works(t, &Spec{Host: "db1", Config: config})
	s.config(t, "Match bogus x\n\tPort 1\n")
	fails(t, &Spec{Host: "db1", Config: config}, "bogus", "ssh -G")
}

// The user's own sessions must not share a connection that iotax ends.
func TestSSHIsNotMaster(t *testing.T) {
	s := startSSHD(t)
	config := s.config(t, `
Host *
	HostName 127.0.0.1
	Port PORT
	IdentityFile KEY
	UserKnownHostsFile KNOWN
	ControlMaster auto
	ControlPath `+s.dir+`/master
`)
	works(t, &Spec{Host: "db1", Config: config})
	if _, err := os.Stat(s.dir + "/master"); err == nil {
		t.Error("ssh has made a control socket")
	}
}

func TestSSHJump(t *testing.T) {
	s := startSSHD(t)
	config := s.config(t, `
Host inner
	ProxyJump outer
Host deep
	ProxyJump outer,middle
Host around
	ProxyJump inner
Host lost
	HostName 127.0.0.1
	Port 1
	ProxyJump outer
Host *
	HostName 127.0.0.1
	Port PORT
	IdentityFile KEY
	UserKnownHostsFile KNOWN
`)
	for host, want := range map[string]string{"inner": "outer", "deep": "outer,middle", "around": "inner", "outer": ""} {
		if via := works(t, &Spec{Host: host, Config: config}).Caps().Facts["ssh.jump"]; via != want {
			t.Errorf("%s is reached over %q, want %q", host, via, want)
		}
	}
	if via := works(t, &Spec{Host: "outer", Jump: "a, b", Config: config}).Caps().Facts["ssh.jump"]; via != "a,b" {
		t.Errorf("the spec's jumps lead over %q", via)
	}
	if via := works(t, &Spec{Host: "inner", Jump: "none", Config: config}).Caps().Facts["ssh.jump"]; via != "" {
		t.Errorf("jump: none leads over %q", via)
	}
	fails(t, &Spec{Host: "lost", Config: config}, "127.0.0.1:1", "jump host")

	// Cancelling a command also works through jump hosts.
	m := works(t, &Spec{Host: "deep", Config: config})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := m.Run(ctx, iotax.Command("sleep", "1000")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestSSHProxyCommand(t *testing.T) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("needs ssh")
	}
	s := startSSHD(t)
	config := s.config(t, `
Host inner
	ProxyCommand `+ssh+` -F `+s.dir+`/ssh_config -W %h:%p outer
Host broken
	ProxyCommand sh -c 'echo "no way" >&2; exit 1'
Host *
	HostName 127.0.0.1
	Port PORT
	IdentityFile KEY
	UserKnownHostsFile KNOWN
`)
	works(t, &Spec{Host: "inner", Config: config})
	fails(t, &Spec{Host: "broken", Config: config}, "no way", "SSH server listens")
}

func TestSSHAgent(t *testing.T) {
	bin, err := exec.LookPath("ssh-agent")
	if err != nil {
		t.Skip("needs ssh-agent")
	}
	s := startSSHD(t)
	sock := filepath.Join(t.TempDir(), "agent")
	cmd := exec.Command(bin, "-D", "-a", sock)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var conn net.Conn
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if conn, err = net.Dial("unix", sock); err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
	defer conn.Close()
	t.Setenv("SSH_AUTH_SOCK", sock)
	spec := s.spec(t)
	spec.Identity = ""
	fails(t, spec, "the login was refused", "without a question")

	src, err := os.ReadFile(s.key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(src)
	if err != nil {
		t.Fatal(err)
	}
	keyring := agent.NewClient(conn)
	var public ssh.PublicKey
	{
		signer, err := ssh.NewSignerFromKey(key)
		if err != nil {
			t.Fatal(err)
		}
		public = signer.PublicKey()
	}
	for range 8 { // more keys than a server lets a client try
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := keyring.Add(agent.AddedKey{PrivateKey: &k}); err != nil {
			t.Fatal(err)
		}
	}
	if err := keyring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	fails(t, spec, "Too many authentication failures", "IdentitiesOnly")
	// ssh tries the named key first, even if the file contains only its public key.
	spec.Identity = s.dir + "/named"
	write(t, spec.Identity+".pub", string(ssh.MarshalAuthorizedKey(public)))
	works(t, spec)

	// An encrypted key that is in the ssh agent needs no passphrase.
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("passphrase"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Identity = s.dir + "/encrypted"
	write(t, spec.Identity, string(pem.EncodeToMemory(block)))
	works(t, spec)
	if err := keyring.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	fails(t, spec, "the login was refused", "ssh-add a key that has a passphrase")

	t.Setenv("SSH_AUTH_SOCK", sock+".gone")
	fails(t, spec, "the login was refused", "ssh-add")
}

func TestSSHBadKey(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := startSSHD(t)
	spec := s.spec(t)
	spec.Identity = s.dir + "/missing"
	fails(t, spec, "missing not accessible", "")
	spec.Identity = s.dir + "/config"
	fails(t, spec, "Load key", "")
}

func TestSSHPassword(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	const secret = "open sesame"
	srv := &sshtest.Server{Shell: []string{"sh", "-c"}, Password: secret}
	addr, key := srv.Start(t)
	known := filepath.Join(t.TempDir(), "known")
	write(t, known, knownhosts.Line([]string{addr}, key)+"\n")
	spec := &Spec{Host: "test@" + addr, Config: "none", KnownHosts: known}

	fails(t, spec, "the login was refused", "IOTAX_SSH_PASSWORD")
	t.Setenv("IOTAX_SSH_PASSWORD", secret)
	works(t, spec)
	t.Setenv("IOTAX_SSH_PASSWORD", "wrong "+secret)
	_, err := openSSH(t, spec)
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "check the password") {
		t.Errorf("got %v, want a refusal that does not tell the password", err)
	}
	spec.PasswordFile = filepath.Join(t.TempDir(), "password")
	fails(t, spec, "no such file", "first line")
	write(t, spec.PasswordFile, "\n")
	fails(t, spec, "empty", "")
	write(t, spec.PasswordFile, secret+"\r\nmore\n")
	works(t, spec)
}

// With StrictHostKeyChecking=no, ssh connects to a host whose key differs from the known key. The host must not get the
// password.
func TestSSHPasswordIsNotForImpostors(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	const secret = "open sesame"
	t.Setenv("IOTAX_SSH_PASSWORD", secret)
	srv := &sshtest.Server{Shell: []string{"sh", "-c"}, Password: secret}
	addr, key := srv.Start(t)
	dir := t.TempDir()
	write(t, dir+"/config", "Host *\n  StrictHostKeyChecking no\n")
	write(t, dir+"/known", knownhosts.Line([]string{addr}, key)+"\n")
	spec := &Spec{Host: "test@" + addr, Config: dir + "/config", KnownHosts: dir + "/known"}
	works(t, spec)
	write(t, dir+"/known", knownhosts.Line([]string{addr}, newKey(t, dir+"/other", ""))+"\n")
	fails(t, spec, "does not give it a password", "ssh-keygen -R")
}

func TestSSHUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	spec := func(s Spec) *Spec {
		s.Config = "none"
		return &s
	}
	// The listener accepts connections and sends nothing.
	fails(t, spec(Spec{Host: "127.0.0.1", Port: port, ConnectTimeout: plan.Duration(300 * time.Millisecond)}), "timed out", "check the network")
	fails(t, spec(Spec{Host: "127.0.0.1", Port: 1}), "Connection refused", "start the SSH server")
	fails(t, spec(Spec{Host: "no-such-host.invalid"}), "no-such-host.invalid", "")
	for _, s := range []Spec{{}, {Host: "a b"}, {Host: "-oProxyCommand=x"}, {Host: "a:99999"}, {Host: "a", Port: -1}, {Host: "a:1", Port: 2}, {Host: "u@a", User: "v"}, {Host: "a", Jump: "b,,c"}, {Host: "@"}} {
		var e *plan.FieldError
		if err := s.Validate(); !errors.As(err, &e) {
			t.Errorf("%+v: got %v, want a *plan.FieldError", s, err)
		}
	}
	for _, s := range []Spec{{Host: "a"}, {Host: "u@a"}, {Host: "u@a:22"}, {Host: "[::1]:22"}, {Host: "::1"}, {Host: "ssh://u@a:22"}, {Host: "a", Jump: "none"}, {Host: "a:22", Port: 22}, {Host: "u@a", User: "u"}} {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}

	// Cancelling ends Open during the handshake.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = Kind.Open(ctx, spec(Spec{Host: "127.0.0.1", Port: port}), kind.Options{})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 45*time.Second {
		t.Errorf("got %v after %v", err, time.Since(begin))
	}
}

// BenchmarkSSHTrue measures a command on an open connection.
func BenchmarkSSHTrue(b *testing.B) {
	s := startSSHD(b)
	m, err := openSSH(b, s.spec(b))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := m.Run(b.Context(), iotax.Command("true")); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLocalTrue measures the same command on this host.
func BenchmarkLocalTrue(b *testing.B) {
	for b.Loop() {
		if err := host.Local().Run(b.Context(), iotax.Command("true")); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCapsKept(t *testing.T) {
	t.Parallel()
	m := works(t, startSSHD(t).spec(t)).(*remote)
	machinetest.Keeps(t, m, m.Machine, "Address", "Facts")
}
