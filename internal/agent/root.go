package agent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/secret"
)

// bySudo is the last argument of an agent that Func.AsRoot starts through sudo.
const bySudo = "by-sudo"

// callerID is the id of the user for whom sudo started this agent, or "" if sudo did not start it.
var callerID string

// Caller returns the id of the user for whom sudo started this agent. ok is false if sudo did not start it.
func Caller() (uid int, ok bool) {
	uid, err := strconv.Atoi(callerID)
	return uid, err == nil
}

var userID = New("user id", func(context.Context, struct{}) (int, error) { return os.Geteuid(), nil })

// Sudo returns the prefix that makes a command run as root on m. The prefix is empty if the user is root, and on
// Windows. ok is false if sudo is missing or asks for a password.
func Sudo(ctx context.Context, m iotax.Machine) (prefix []string, ok bool, err error) {
	uid, err := userID.On(ctx, m, struct{}{})
	if err != nil || uid <= 0 { // on Windows, uid is -1
		return nil, err == nil, err
	}
	prefix = []string{"sudo", "-n"}
	if m.Run(ctx, iotax.Command(append(prefix, "true")...)) != nil {
		return nil, false, ctx.Err()
	}
	return prefix, true, nil
}

// AsRoot runs the function on m as root, or as the current user if sudo is missing or asks for a password.
func (f Func[In, Out]) AsRoot(ctx context.Context, m iotax.Machine, in In) (out Out, err error) {
	prefix, _, err := Sudo(ctx, m)
	if err != nil {
		return out, err
	}
	if len(prefix) == 0 {
		return f.On(ctx, m, in)
	}
	program, err := Program(ctx, m)
	if err != nil {
		return out, err
	}
	as := &sudo{Machine: m, Link: Link{Program: program}, prefix: prefix}
	defer as.Hangup(context.WithoutCancel(ctx))
	return f.On(ctx, as, in)
}

// sudo is a machine whose agent runs as root. Its Run can start only the agent.
type sudo struct {
	iotax.Machine
	Link
	prefix []string
}

// Caps returns the capabilities of the machine, with the link of the root agent.
func (s *sudo) Caps() iotax.MachineCaps {
	c := s.Machine.Caps()
	c.Local, c.Agent = false, &s.Link
	return c
}

func (s *sudo) Run(ctx context.Context, c *iotax.Cmd) error {
	as := *c
	as.Args = slices.Concat(s.prefix, c.Args, []string{bySudo})
	return s.Machine.Run(ctx, &as)
}

// Tool returns the path of a program on this system. It also searches the sbin directories, which a user's PATH may
// lack.
func Tool(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Exec runs a program on this system and returns its standard output. If the program fails, the error contains its
// standard error and wraps its *exec.ExitError.
func Exec(ctx context.Context, args ...string) (string, error) {
	path, err := Tool(args[0])
	if err != nil {
		return "", err
	}
	var errs iotax.Capture
	c := exec.CommandContext(ctx, path, args[1:]...)
	c.Env = append(secret.Environ(), "LC_ALL=C")
	c.Stderr, c.SysProcAttr, c.WaitDelay = &errs, ownGroup(), 5*time.Second // Ctrl-C must not end a program that cleans up
	out, err := iotax.ExecOutput(c)
	if text := strings.TrimSpace(errs.String()); err != nil && text != "" {
		err = &toolError{filepath.Base(path) + ": " + text, err}
	}
	return string(out), err
}

// A toolError is the error of a program that failed.
type toolError struct {
	text  string
	cause error
}

func (e *toolError) Error() string { return e.text }
func (e *toolError) Unwrap() error { return e.cause }
