//go:build linux

package tool

import (
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
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/guest"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/machine/ssh"
	"iotax/internal/machine/vm"
	"iotax/internal/testenv/guesttest"
)

// TestMain lets the test's own program stand in for the tools that this host cannot have: under their
// names it takes their command lines, and behind them boots a micro-guest.
func TestMain(m *testing.M) {
	s := standin{os.Getenv("STANDIN_DIR"), os.Args[1:]}
	tools := map[string]func() error{"limactl": s.limactl, "tart": s.tart, "wsl.exe": s.wsl, "standin-guest": s.guest}
	tool, ok := tools[filepath.Base(os.Args[0])]
	if !ok {
		ssh.Askpass() // of Tart's machine, to which this program is also copied
		agent.Main(host.Local())
		os.Exit(m.Run())
	}
	if err := tool(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// standin is one call of a tool. An instance is a directory: its key, and once it runs its pid and port.
type standin struct {
	dir  string
	args []string
}

// flag returns the value of --name=value, and the words that are no flags.
func (s standin) flag(name string) (value string, words []string) {
	for _, a := range s.args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			value = v
		}
		if !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	return value, words
}

func (s standin) at(name, file string) string { return filepath.Join(s.dir, name, file) }

func (s standin) exists(name string) error {
	if _, err := os.Stat(s.at(name, "key")); err != nil || name == "" {
		return fmt.Errorf("instance %q does not exist", name)
	}
	return nil
}

// note keeps a call, for the test to look at.
func (s standin) note(tool string) {
	f, err := os.OpenFile(filepath.Join(s.dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, tool, strings.Join(s.args, " "))
		f.Close()
	}
}

// create makes an instance with a key of its own.
func (s standin) create(name string) error {
	if s.exists(name) == nil {
		return fmt.Errorf("instance %q exists already", name)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		return err
	}
	return errors.Join(os.Mkdir(s.at(name, ""), 0o700), os.WriteFile(s.at(name, "key"), pem.EncodeToMemory(block), 0o600))
}

// start boots the instance in a process of its own and waits until it can be logged into.
func (s standin) start(name string) error {
	if err := s.exists(name); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(s.at(name, "log"))
	if err != nil {
		return err
	}
	c := exec.Command(self, name)
	c.Args[0], c.Stdout, c.Stderr = "standin-guest", log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// It belongs to the instance and not to the command that starts it.
	c.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "IOTAX_") })
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		if _, err := os.Stat(s.at(name, "port")); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			said, _ := os.ReadFile(s.at(name, "log"))
			return fmt.Errorf("the guest did not start: %v: %s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// guest is the process of a running instance.
func (s standin) guest() (err error) {
	name := s.args[0]
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	pemKey, err := os.ReadFile(s.at(name, "key"))
	if err != nil {
		return err
	}
	signer, err := xssh.ParsePrivateKey(pemKey)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.at(name, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	spec := vm.Kind.New().(*vm.Spec)
	spec.Accel, spec.Memory, spec.Append = "tcg", 256<<20, guest.KeyWord(signer.PublicKey())
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	m, err := vm.Kind.Open(ctx, spec, kind.Options{Name: name, CacheDir: os.Getenv("STANDIN_CACHE"), Init: os.Getenv("STANDIN_INIT"), WorkDir: s.at(name, "")})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err = errors.Join(err, m.Close(ctx))
	}()
	addr, err := m.Caps().Forward(ctx, 22)
	if err != nil {
		return err
	}
	if ip := os.Getenv("STANDIN_IP"); ip != "" {
		if err := relay(ip+":22", addr); err != nil {
			return err
		}
	}
	_, port, _ := net.SplitHostPort(addr)
	if err := os.WriteFile(s.at(name, "port.new"), []byte(port), 0o600); err != nil {
		return err
	}
	if err := os.Rename(s.at(name, "port.new"), s.at(name, "port")); err != nil {
		return err
	}
	// It goes with the test, however that ends.
	test, _ := strconv.Atoi(os.Getenv("STANDIN_TEST"))
	for syscall.Kill(test, 0) == nil {
		select {
		case <-stop:
			return os.Remove(s.at(name, "port"))
		case <-time.After(time.Second):
		}
	}
	return errors.New("the test is gone")
}

// relay gives a port of the guest an address of its own, as a machine on a network has.
func relay(from, to string) error {
	l, err := net.Listen("tcp", from)
	if err != nil {
		return err
	}
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			go func() { io.Copy(a, b); a.Close() }()
			go func() { io.Copy(b, a); b.Close() }()
		}
	}()
	return nil
}

// stop ends a running instance and waits until it is gone.
func (s standin) stop(name string) error {
	b, err := os.ReadFile(s.at(name, "pid"))
	if err != nil {
		return nil // it never ran
	}
	pid, _ := strconv.Atoi(string(b))
	syscall.Kill(pid, syscall.SIGTERM)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(st), ") Z ") {
			return os.Remove(s.at(name, "pid"))
		}
	}
	return errors.New("it does not stop")
}

func (s standin) remove(name string) error {
	if err := s.exists(name); err != nil {
		return err
	}
	return errors.Join(s.stop(name), os.RemoveAll(s.at(name, "")))
}

// shell becomes OpenSSH's client with one connection for all commands, as limactl does.
func (s standin) shell(name string, args []string) error {
	port, err := os.ReadFile(s.at(name, "port"))
	if err != nil {
		return fmt.Errorf("instance %q is stopped, run `limactl start %s` to start the instance", name, name)
	}
	path, err := exec.LookPath("ssh")
	if err != nil {
		return err
	}
	return syscall.Exec(path, []string{"ssh", "-F", "none", "-q", "-T", "-i", s.at(name, "key"), "-p", string(port), "-o", "IdentitiesOnly=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ControlMaster=auto",
		"-o", "ControlPath=" + s.at(name, "cm"), "-o", "ControlPersist=30", "root@127.0.0.1", "cd / && exec " + iotax.QuoteAll(args)}, os.Environ())
}

// list prints the names of all instances.
func (s standin) list() error {
	all, err := filepath.Glob(s.at("*", "key"))
	for _, k := range all {
		fmt.Println(filepath.Base(filepath.Dir(k)))
	}
	return err
}

func (s standin) limactl() error {
	s.dir = os.Getenv("LIMA_HOME")
	s.note("limactl")
	switch s.args[0] {
	case "--version":
		fmt.Println("limactl version 1.2.1")
		return nil
	case "create":
		name, words := s.flag("name")
		if len(words) != 2 || !strings.Contains(words[1], "://") {
			return fmt.Errorf("unknown template in %v", words)
		}
		return s.create(name)
	case "start":
		_, words := s.flag("")
		return s.start(words[1])
	case "list":
		if s.args[1] == "--quiet" {
			return s.list()
		}
		name := s.args[len(s.args)-1]
		if err := s.exists(name); err != nil {
			fmt.Fprintln(os.Stderr, "WARN: No instance matching "+name+" found.")
			return errors.New("unmatched instances")
		}
		if _, err := os.Stat(s.at(name, "port")); err != nil {
			fmt.Println("Stopped")
			return nil
		}
		fmt.Println("Running")
		return nil
	case "shell":
		if s.args[1] != "--workdir" {
			return errors.New("no --workdir")
		}
		return s.shell(s.args[3], s.args[4:])
	case "delete":
		return s.remove(s.args[len(s.args)-1])
	}
	return fmt.Errorf("unknown command %q", s.args[0])
}

func (s standin) tart() error {
	s.dir = os.Getenv("TART_HOME")
	s.note("tart")
	last := s.args[len(s.args)-1]
	switch s.args[0] {
	case "--version":
		fmt.Println("2.28.0")
		return nil
	case "clone":
		return s.create(last)
	case "set":
		return s.exists(s.args[1])
	case "run":
		if err := s.exists(last); err != nil {
			return err
		}
		return standin{s.dir, []string{last}}.guest()
	case "ip":
		for {
			if _, err := os.Stat(s.at(last, "port")); err == nil {
				fmt.Println(os.Getenv("STANDIN_IP"))
				return nil
			}
			time.Sleep(20 * time.Millisecond)
		}
	case "list":
		return s.list()
	case "stop":
		return s.stop(last)
	case "delete":
		return s.remove(last)
	}
	return fmt.Errorf("unknown command %q", s.args[0])
}

func (s standin) wsl() error {
	s.note("wsl.exe")
	i := slices.Index(s.args, "--exec")
	if i < 0 || s.args[0] != "-d" {
		return fmt.Errorf("invalid command line: %v", s.args)
	}
	if s.exists(s.args[1]) != nil {
		var wide strings.Builder // it speaks UTF-16
		for _, r := range "There is no distribution with the supplied name." {
			wide.WriteRune(r)
			wide.WriteByte(0)
		}
		fmt.Fprintln(os.Stderr, wide.String())
		os.Exit(255)
	}
	return s.shell(s.args[1], s.args[i+1:])
}

// standIn puts the stand-ins into the PATH and returns where their instances are kept.
func standIn(t *testing.T) standin {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range []string{"limactl", "tart", "wsl.exe"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("/tmp", "iotax-standin-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("STANDIN_DIR", dir)
	t.Setenv("LIMA_HOME", dir)
	t.Setenv("TART_HOME", dir)
	t.Setenv("STANDIN_TEST", strconv.Itoa(os.Getpid()))
	t.Setenv("STANDIN_CACHE", guesttest.CacheDir(t))
	t.Setenv("STANDIN_INIT", guesttest.Init(t))
	return standin{dir: dir}
}

// calls are the command lines that the stand-ins took.
func (s standin) calls(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// left fails the test when instances are left.
func (s standin) left(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir, "iotax-*"))
	if err != nil || len(all) > 0 {
		t.Errorf("left: %v (%v)", all, err)
	}
}
