//go:build linux

package tool

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/machine/ssh"
)

// TestMain lets the test binary replace tools that are not available on this host: under the name of a tool, it accepts
// the command line of that tool. An SSH server on this host acts as the machine.
func TestMain(m *testing.M) {
	s := standin{os.Getenv("STANDIN_DIR"), os.Args[1:]}
	tools := map[string]func() error{"limactl": s.limactl, "tart": s.tart, "wsl.exe": s.wsl, "standin-server": s.serve}
	tool, ok := tools[filepath.Base(os.Args[0])]
	if !ok {
		ssh.Askpass() // for the SSH connection to Tart's machine
		agent.Main(host.Local())
		os.Exit(m.Run())
	}
	if err := tool(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const sshd = "/usr/sbin/sshd"

// A standin is one call of a tool. Each instance (a machine of the tool) has a directory that contains the instance's
// keys. While the instance runs, the directory also contains its pid and port.
type standin struct {
	dir  string
	args []string
}

// flag returns the value of --name=value, and the words that are not flags.
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

// note records the command line of a call for the test.
func (s standin) note(tool string) {
	f, err := os.OpenFile(filepath.Join(s.dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, tool, strings.Join(s.args, " "))
		f.Close()
	}
}

// create makes an instance with its own keys.
func (s standin) create(name string) error {
	if s.exists(name) == nil {
		return fmt.Errorf("instance %q exists already", name)
	}
	err := os.Mkdir(s.at(name, ""), 0o700)
	for _, file := range []string{"host", "key"} {
		if err == nil {
			err = exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.at(name, file)).Run()
		}
	}
	return err
}

// start starts the instance in its own process and waits until it accepts logins.
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
	c.Args[0], c.Stdout, c.Stderr = "standin-server", log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Remove the variables that mark the processes of a command, because the end of the command must not end the
	// instance.
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
			return fmt.Errorf("the server did not start: %v: %s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// serve runs the instance until it is stopped or the test process ends.
func (s standin) serve() error {
	name, ip, port := s.args[0], os.Getenv("STANDIN_IP"), "22"
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if ip == "" {
		ip = "127.0.0.1"
		l, err := net.Listen("tcp", ip+":0")
		if err != nil {
			return err
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		l.Close()
	}
	config := fmt.Sprintf("ListenAddress %s:%s\nHostKey %s\nAuthorizedKeysFile %s\nSetEnv XDG_CACHE_HOME=%s\n", ip, port,
		s.at(name, "host"), s.at(name, "key.pub"), s.at(name, "cache")) +
		"StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nMaxSessions 100\nMaxStartups 100\n"
	err := errors.Join(os.WriteFile(s.at(name, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600),
		os.WriteFile(s.at(name, "config"), []byte(config), 0o600))
	if os.Geteuid() == 0 {
		err = errors.Join(err, os.MkdirAll("/run/sshd", 0o755)) // sshd does not start without this directory
	}
	if err != nil {
		return err
	}
	c := exec.Command(sshd, "-D", "-e", "-f", s.at(name, "config"))
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return err
	}
	defer func() { // also end the connections: each is a child in its own session
		connections, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.Process.Pid))
		c.Process.Kill()
		c.Wait()
		for _, f := range strings.Fields(string(connections)) {
			if pid, err := strconv.Atoi(f); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Dial("tcp", ip+":"+port)
		if err == nil {
			l.Close()
			break
		}
		if time.Now().After(end) {
			return err
		}
	}
	if err := os.WriteFile(s.at(name, "port.new"), []byte(port), 0o600); err != nil {
		return err
	}
	if err := os.Rename(s.at(name, "port.new"), s.at(name, "port")); err != nil {
		return err
	}
	// The instance ends with the test process.
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

// stop ends a running instance and waits until its process has exited.
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

// shell replaces this process with OpenSSH's client. All commands share one connection, as in limactl.
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
		"-o", "ControlPath=" + s.at(name, "cm"), "-o", "ControlPersist=30", self() + "@127.0.0.1", "cd / && exec " + iotax.QuoteAll(args)}, os.Environ())
}

// self returns the name of the user who runs the tests.
func self() string {
	u, err := user.Current()
	if err != nil {
		return "root"
	}
	return u.Username
}

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
		return standin{s.dir, []string{last}}.serve()
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
		var wide strings.Builder // wsl.exe prints UTF-16
		for _, r := range "There is no distribution with the supplied name." {
			wide.WriteRune(r)
			wide.WriteByte(0)
		}
		fmt.Fprintln(os.Stderr, wide.String())
		os.Exit(255)
	}
	return s.shell(s.args[1], s.args[i+1:])
}

// standIn adds the stand-ins to the PATH. The result contains the directory of their instances.
func standIn(t *testing.T) standin {
	t.Helper()
	if _, err := os.Stat(sshd); err != nil {
		t.Skip("needs sshd")
	}
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
	dir, err := os.MkdirTemp("/tmp", "iotax-standin-") // a short path, because the directory contains a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("STANDIN_DIR", dir)
	t.Setenv("LIMA_HOME", dir)
	t.Setenv("TART_HOME", dir)
	t.Setenv("STANDIN_TEST", strconv.Itoa(os.Getpid()))
	return standin{dir: dir}
}

func (s standin) calls(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (s standin) left(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir, "iotax-*"))
	if err != nil || len(all) > 0 {
		t.Errorf("left: %v (%v)", all, err)
	}
}
