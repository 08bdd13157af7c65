package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/plan"
)

// SSHFSSpec is `sshfs: {…}`: a directory of this host that another machine mounts with sshfs over the existing
// connection, like Lima's reverse-sshfs. The SFTP server runs on this host.
type SSHFSSpec struct {
	Options  string `yaml:"options" doc:"sshfs options to add, as in dir_cache=no,max_conns=1"`
	OfTarget string `yaml:"of" doc:"target of the host that holds the directory; empty means the baseline"`
}

// SetScalar sets only the options, as in `sshfs: dir_cache=no`.
func (s *SSHFSSpec) SetScalar(v string) error { s.Options = v; return nil }

func (s *SSHFSSpec) Traits() plan.Traits { return plan.Traits{Of: &s.OfTarget} }

// Validate returns an error for invalid options, and for options that iotax sets itself.
func (s *SSHFSSpec) Validate() error {
	for o := range strings.SplitSeq(s.Options, ",") {
		switch key, _, _ := strings.Cut(o, "="); key {
		case "passive", "slave", "fsname", "directport", "ssh_command", "sftp_server":
			return &plan.FieldError{Field: "options", Msg: "iotax sets " + key + " itself", Hint: "leave it out"}
		}
	}
	if strings.ContainsAny(s.Options, " \t\n\\") {
		return &plan.FieldError{Field: "options", Msg: "blanks and backslashes have no place in mount options", Hint: "separate them by commas"}
	}
	return nil
}

type sshfs struct {
	life
	spec    SSHFSSpec
	path    string // served directory on the host
	program string // path of the SFTP server
}

// sftpServers lists the directories in which distributions install OpenSSH's SFTP server. None of them is in the PATH.
var sftpServers = []string{"/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh", "/usr/libexec", "/usr/lib"}

// prepareSSHFS makes the directory and finds the SFTP server.
func prepareSSHFS(ctx context.Context, sp *SSHFSSpec, e Env) (_ iotax.Volume, err error) {
	s := &sshfs{life: life{env: e}, spec: *sp}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.made.run(ctx))
		}
	}()
	if s.path, err = serveDir("serve by sshfs", e, sp.OfTarget, &s.made); err != nil {
		return nil, err
	}
	if s.program, err = findProgram.On(ctx, e.Host, program{Name: "sftp-server", First: sftpServers}); err == nil && s.program == "" {
		err = &iotax.Error{Op: "serve by sshfs", On: s.path, Err: errors.New("this host has no sftp-server"), Hint: "install it: apt install openssh-sftp-server"}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// readySSHFS checks that sshfs is installed, and prepares its mount point.
var readySSHFS = agent.New("volume.ready sshfs", func(ctx context.Context, x mounting) (none, error) {
	const op = "mount sshfs"
	if _, err := agent.Tool("sshfs"); err != nil {
		return none{}, &iotax.Error{Op: op, On: x.Point, Err: err, Hint: "install sshfs over there: apt install sshfs"}
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		_, _ = agent.Exec(ctx, "modprobe", "-q", "fuse") // if the module is missing, sshfs reports that
	}
	return none{}, x.ready(op)
})

// mountTime limits the time until the mount appears. It allows for an emulated guest on a busy host.
const mountTime = 30 * time.Second

// Attach starts the SFTP server and sshfs, and waits for the mount.
func (s *sshfs) Attach(ctx context.Context, m iotax.Machine) (iotax.Place, error) {
	var none iotax.Place
	point, source, err := s.mountPoint(ctx, m)
	if err != nil {
		return none, err
	}
	fail := func(err error, hint string) (iotax.Place, error) {
		return none, &iotax.Error{Op: "mount sshfs", On: fmt.Sprintf("%s on %v", point, m), Err: err, Hint: hint}
	}
	x := mounting{Type: "sshfs", Source: source, Point: point}
	prefix, _, err := agent.Sudo(ctx, m)
	if err == nil {
		_, err = on(ctx, quick, readySSHFS.AsRoot, m, x)
	}
	if err != nil {
		return none, err
	}
	const truncation = 3 // the version of Landlock that restricts truncation
	serve, err := agent.Confine(truncation, s.path, []string{s.program, "-e", "-l", "ERROR"}, m)
	if err != nil {
		return fail(err, "run iotax on Linux 6.2 or later with Landlock enabled, or mount the directory in a virtual machine of this host")
	}
	// These pipes carry the requests and answers of sshfs.
	asked, ask := io.Pipe()
	answered, answer := io.Pipe()
	started := make(chan int, 1)
	s.server = newServer(ctx, s.env.Host, s.program, func(ctx context.Context) error {
		return s.env.Host.Run(ctx, &iotax.Cmd{Args: serve, Stdin: asked, Stdout: answer,
			Started: func(pid int) { started <- pid }})
	})
	s.attached.push(func(ctx context.Context) error { ask.Close(); return s.server.stop(ctx) })
	select {
	case s.server.pid = <-started:
	case <-s.server.done:
		return fail(s.server.ended(), "")
	case <-ctx.Done():
		return fail(context.Cause(ctx), "")
	}
	go func() { <-s.server.done; answer.Close() }() // sshfs must not wait for a server that has ended

	client := make(chan error, 1)
	mount := iotax.Command(append(prefix, "sshfs", "-f", "-o", join("passive,fsname="+source, s.spec.Options), ":"+s.path, point)...)
	mount.Stdin, mount.Stdout = answered, ask
	run, kill := context.WithCancel(context.WithoutCancel(ctx))
	s.attached.push(func(ctx context.Context) error {
		defer kill()
		select {
		case <-client: //nolint:errcheck // it was unmounted
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
		return nil
	})
	go func() { client <- m.Run(run, mount); close(client); ask.Close(); answered.Close() }()
	s.unmountLater(m, x)
	end := time.Now().Add(mountTime)
	for {
		if mountedAs(ctx, m, x) {
			break
		}
		select {
		case err := <-client:
			hint := ""
			if says(err, "/dev/fuse") {
				hint = "use a kernel with FUSE (CONFIG_FUSE_FS)"
			}
			if err == nil {
				err = errors.New("it ended at once")
			}
			return fail(errors.Join(withOutput(err), s.serverError()), hint)
		case <-ctx.Done():
			return fail(context.Cause(ctx), "")
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fail(fmt.Errorf("nothing is mounted after %v", mountTime), "")
		}
	}
	p, err := s.dirOn(ctx, m, point)
	if err != nil {
		return none, err
	}
	p.Backing = s.path
	p.Durability = iotax.Weakest(p.Durability, s.env.Of.Durability)
	maps.Copy(p.Facts, map[string]string{
		"of": s.spec.OfTarget, iotax.FactShareType: "sshfs", "sshfs.server": s.program, "sshfs.options": join("passive", s.spec.Options),
		"sshfs.transport":    "iotax's connection to the machine; the CPU time of this process is not in cpu.serving",
		iotax.FactHostDirect: "no",
	})
	return p, nil
}

// serverError returns the reason if the server has ended, else nil.
func (s *sshfs) serverError() error {
	if s.server.alive() {
		return nil
	}
	return s.server.ended()
}

// join appends `more` to a comma-separated list of options.
func join(options, more string) string {
	if more == "" {
		return options
	}
	return options + "," + more
}
