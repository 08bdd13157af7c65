package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// serve answers SSH connections until the listener breaks.
func serve(l net.Listener, config *ssh.ServerConfig) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			conn, chans, reqs, err := ssh.NewServerConn(c, config)
			if err != nil {
				c.Close()
				return
			}
			defer conn.Close()
			go ssh.DiscardRequests(reqs) // answers keep-alives
			for ch := range chans {
				if ch.ChannelType() != "session" {
					_ = ch.Reject(ssh.UnknownChannelType, "a guest offers sessions only")
					continue
				}
				channel, requests, err := ch.Accept()
				if err != nil {
					continue
				}
				s := &session{channel: channel}
				go s.handle(requests)
			}
		}()
	}
}

// A session runs one command.
type session struct {
	channel ssh.Channel
	env     []string
	proc    *process
}

func (s *session) handle(requests <-chan *ssh.Request) {
	for r := range requests {
		ok := false
		switch r.Type {
		case "env":
			var v struct{ Name, Value string }
			if ok = ssh.Unmarshal(r.Payload, &v) == nil; ok {
				s.env = append(s.env, v.Name+"="+v.Value)
			}
		case "exec":
			var v struct{ Command string }
			if ssh.Unmarshal(r.Payload, &v) == nil && s.proc == nil {
				ok = s.exec([]string{"sh", "-c", v.Command})
			}
		case "shell":
			if s.proc == nil {
				ok = s.exec([]string{"sh"})
			}
		case "signal":
			var v struct{ Name string }
			if ssh.Unmarshal(r.Payload, &v) == nil && s.proc != nil {
				ok = s.proc.signal(unix.SignalNum("SIG" + v.Name))
			}
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
	}
	// The client has gone or given up.
	if s.proc != nil {
		s.proc.kill()
	}
}

// exec starts argv and sees to its end in the background. It reports whether it started.
func (s *session) exec(argv []string) bool {
	p, err := startProcess(argv, s.env)
	if err != nil {
		fmt.Fprintf(s.channel.Stderr(), "%s: %v\n", argv[0], err)
		return false
	}
	s.proc = p
	go func() {
		_, _ = io.Copy(p.stdin, s.channel)
		p.stdin.Close()
	}()
	go s.wait()
	return true
}

// drain is how long the output of an ended command is waited for when a child of it, which may be a
// daemon, still holds it open.
const drain = time.Second

func (s *session) wait() {
	p := s.proc
	var copies sync.WaitGroup
	copies.Go(func() { copyOut(s.channel, p.stdout) })
	copies.Go(func() { copyOut(s.channel.Stderr(), p.stderr) })
	status := <-p.done
	ended := make(chan struct{})
	go func() { copies.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(drain):
		// Data may still be on its way, if the client reads slowly: the copies end when the pipe
		// is empty.
		now := time.Now()
		_ = p.stdout.SetReadDeadline(now)
		_ = p.stderr.SetReadDeadline(now)
		<-ended
	}
	p.stdout.Close()
	p.stderr.Close()
	p.remove()
	if status.Signaled() {
		_, _ = s.channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name    string
			Core    bool
			Message string
			Lang    string
		}{unix.SignalName(status.Signal())[3:], status.CoreDump(), "", ""}))
	} else {
		_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(status.ExitStatus())}))
	}
	s.channel.Close()
}

// copyOut copies until the end of r, or, once r's deadline has passed, until r is empty.
func copyOut(w io.Writer, r *os.File) {
	_, err := io.Copy(w, r)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		if err != nil { // the client is gone: the command must not block on a full pipe
			_, _ = io.Copy(io.Discard, r)
		}
		return
	}
	raw, err := r.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n := -1
		_ = raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) })
		if n <= 0 {
			return
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return
		}
	}
}

// A process is a child of init with its own session, process group and, where the kernel has them,
// control group.
type process struct {
	pid            int
	cgroup         string
	stdin          *os.File
	stdout, stderr *os.File
	done           chan syscall.WaitStatus
}

// children are the processes somebody waits for. As PID 1 the program inherits orphans too, so one
// place reaps them all: a wait by process id elsewhere would race with it.
var children = struct {
	sync.Mutex
	waiting map[int]*process
	started chan struct{}
}{waiting: map[int]*process{}, started: make(chan struct{}, 1)}

var cgroups atomic.Int64

func startProcess(argv, env []string) (*process, error) {
	path, err := lookPath(argv[0])
	if err != nil {
		return nil, err
	}
	var files [6]*os.File // child's end, our end; of stdin, stdout, stderr
	done := false
	defer func() {
		for i, f := range files {
			if f != nil && (!done || i%2 == 0) {
				f.Close()
			}
		}
	}()
	if files[0], files[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	for i := 2; i < 6; i += 2 {
		if files[i+1], files[i], err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	home := "/root"
	if st, err := os.Stat(home); err != nil || !st.IsDir() {
		home = "/" // a root file system that a user made need not have one
	}
	p := &process{stdin: files[1], stdout: files[3], stderr: files[5], done: make(chan syscall.WaitStatus, 1)}
	attr := &os.ProcAttr{
		Dir: home, Env: mergeEnv(os.Environ(), env),
		Files: []*os.File{files[0], files[2], files[4]},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if dir := fmt.Sprintf("/sys/fs/cgroup/iotax-%d", cgroups.Add(1)); os.Mkdir(dir, 0o755) == nil {
		if f, err := os.Open(dir); err == nil {
			defer f.Close()
			p.cgroup = dir
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(f.Fd())
		}
	}
	children.Lock()
	defer children.Unlock()
	child, err := os.StartProcess(path, argv, attr)
	if err != nil {
		p.remove()
		return nil, err
	}
	done = true
	p.pid = child.Pid
	_ = child.Release()
	children.waiting[p.pid] = p
	select {
	case children.started <- struct{}{}:
	default:
	}
	return p, nil
}

// reap takes the status of every process that ends and hands it to whoever waits for it.
func reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.ECHILD:
			<-children.started
		case err != nil || !status.Exited() && !status.Signaled():
		default:
			children.Lock()
			p := children.waiting[pid]
			delete(children.waiting, pid)
			children.Unlock()
			if p != nil {
				p.done <- status
			}
		}
	}
}

// signal sends sig to the process group, and SIGKILL to everything the command has started.
func (p *process) signal(sig unix.Signal) bool {
	if sig == 0 {
		return false
	}
	if sig == unix.SIGKILL {
		p.kill()
		return true
	}
	children.Lock()
	defer children.Unlock()
	if children.waiting[p.pid] != p {
		return false // the number may be another's by now
	}
	return unix.Kill(-p.pid, sig) == nil
}

// kill ends the command if it still runs, with every child of it: fio's workers leave the process
// group of their parent, but no process leaves its control group.
func (p *process) kill() {
	children.Lock()
	defer children.Unlock()
	if children.waiting[p.pid] != p {
		return
	}
	if p.cgroup != "" && os.WriteFile(filepath.Join(p.cgroup, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	_ = unix.Kill(-p.pid, unix.SIGKILL)
}

// remove removes the control group, unless daemons live on in it.
func (p *process) remove() {
	if p.cgroup != "" {
		_ = unix.Rmdir(p.cgroup)
	}
}

// lookPath is exec.LookPath for init's own PATH, without the package's other doings.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, unix.Access(name, unix.X_OK)
	}
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		p := filepath.Join(d, name)
		if unix.Access(p, unix.X_OK) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, os.ErrNotExist)
}

// mergeEnv lays the entries of over on base.
func mergeEnv(base, over []string) []string {
	env := slices.Clone(base)
	for _, o := range over {
		name := o[:max(0, slices.Index([]byte(o), '='))]
		env = slices.DeleteFunc(env, func(e string) bool { return len(e) > len(name) && e[:len(name)+1] == name+"=" })
		env = append(env, o)
	}
	return env
}
