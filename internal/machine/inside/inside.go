// Package inside starts containers on machines: in a guest, on a host over SSH, or on this host. Either an engine
// starts the container, through the command line of Docker, Podman or nerdctl, or the agent makes a set of namespaces.
package inside

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"iotax"
	"iotax/internal/agent"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/internal/made"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
)

// namespaces is the value of Engine for a container without an engine: the agent makes a process tree with its own
// mount, PID, IPC and UTS namespaces. The container has no control group of its own.
const namespaces = "namespaces"

// Spec is the spec of kind container.
type Spec struct {
	Engine string   `yaml:"engine" doc:"command that starts the container there, as in nerdctl, podman, docker or 'sudo nerdctl'; namespaces needs no engine and uses the machine's own files"`
	Image  string   `yaml:"image" doc:"image with a POSIX shell; for namespaces a directory of the machine, or empty for its root"`
	Args   []string `yaml:"args" doc:"arguments to add to the engine's run command, as in [--security-opt, seccomp=unconfined]"`
}

// Kind defines the machine kind container.
var Kind = kind.Of("container", "a container on another machine, around the place of each target, made there by nerdctl, Podman or Docker, or from namespaces",
	Spec{Engine: namespaces}, open).WithoutDevices()

func (s *Spec) Traits() plan.Traits { return plan.Traits{Encloses: true} }

// SetScalar fills the spec from a value such as "podman debian:12".
func (s *Spec) SetScalar(v string) error {
	words := strings.Fields(v)
	if n := len(words); n > 1 {
		s.Image, words = words[n-1], words[:n-1]
	}
	s.Engine = strings.Join(words, " ")
	return nil
}

// Validate returns an error if no container can be made from the spec.
func (s *Spec) Validate() error {
	switch {
	case len(s.words()) == 0:
		return &plan.FieldError{Field: "engine", Msg: "nothing starts the container", Hint: "engine: podman, or namespaces"}
	case s.Engine == namespaces && len(s.Args) > 0:
		return &plan.FieldError{Field: "args", Msg: "there is no engine that takes them, nor a control group that would limit anything", Hint: "leave them out, or name an engine"}
	case s.Engine == namespaces && s.Image != "" && !strings.HasPrefix(s.Image, "/"):
		return &plan.FieldError{Field: "image", Msg: fmt.Sprintf("%q is not a directory", s.Image), Hint: "write its path in full, or name an engine"}
	case s.Engine != namespaces && (s.Image == "" || strings.HasPrefix(s.Image, "-")):
		return &plan.FieldError{Field: "image", Msg: fmt.Sprintf("%q is not an image", s.Image), Hint: "image: one with a POSIX shell, as in debian:12"}
	}
	return nil
}

// named reports whether an engine starts the container.
func (s *Spec) named() bool { return s.Engine != namespaces }

// words returns the command line of the engine, with `more` appended.
func (s *Spec) words(more ...string) []string { return append(strings.Fields(s.Engine), more...) }

// sharesNetwork reports whether the container uses the network of its machine. A container without an engine has no
// network namespace of its own.
func (s *Spec) sharesNetwork() bool {
	if !s.named() {
		return true
	}
	for i, a := range s.Args {
		for _, flag := range []string{"--network", "--net"} {
			if a == flag+"=host" || a == flag && i+1 < len(s.Args) && s.Args[i+1] == "host" {
				return true
			}
		}
	}
	return false
}

const (
	startTime = 10 * time.Minute // the engine may have to pull the image
	endTime   = 10 * time.Second
)

// A container is a machine that exists as long as its agent's session.
type container struct {
	*remote.Machine
	on      iotax.Machine
	network bool // the container uses the network of its machine
	facts   map[string]string
	remove  []string    // the engine's command that removes the container; nil without an engine
	killed  atomic.Bool // the engine's command was killed, so the container may still run
}

// Caps returns the capabilities of the container's machine, except capabilities that do not apply to the container, such
// as Boot. It omits the network capabilities unless the container uses the network of its machine.
func (c *container) Caps() iotax.MachineCaps {
	caps, own := c.on.Caps(), c.Machine.Caps()
	switch {
	case !c.network:
		caps.HostAddress, caps.Address, caps.LinkRate, caps.Forward = "", "", 0, nil
	case caps.Local && caps.Forward == nil: // this host can reach its own ports
		caps.Forward = func(_ context.Context, port int) (string, error) {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
		}
	}
	if c.remove != nil { // the engine made the control group, which may be outside the machine's control group
		caps.DeviceBytes = nil
	}
	caps.Local, caps.Outside, caps.Alone, caps.Agent, caps.Facts = false, c.on, true, own.Agent, c.facts
	// iotax itself removes the files of the target, through c.on. Without an engine, all other files except those in
	// /tmp are stored on c.on, so they remain after the container ends.
	caps.Perishes = c.remove != nil
	caps.Started, caps.Boot, caps.Restart, caps.BootFiles, caps.RunOnConsole = time.Time{}, nil, nil, nil, nil
	caps.Home, caps.HostPath = "", nil
	return caps
}

// open starts a container on o.On. o.Place has the same path in the container as on o.On.
func open(ctx context.Context, s *Spec, o kind.Options) (_ iotax.Machine, err error) {
	const op = "start container"
	m, p := o.On, o.Place
	if m == nil {
		return nil, &iotax.Error{Op: op, On: o.Name, Err: errors.New("it is on no machine"), Hint: "on: the machine that it is started on"}
	}
	on := "on " + m.String()
	if p.Kind != iotax.PlaceDir && p.Kind != iotax.PlaceDevice || strings.ContainsAny(p.Path, ":,\n") {
		return nil, &iotax.Error{Op: op, On: on, Err: fmt.Errorf("a container cannot be given the %s %s", p.Kind, p.Path), Hint: "use a target with a directory or a block device"}
	}
	c := &container{on: m, network: s.sharesNetwork()}
	var words func(program []string) []string // returns the command on m that runs a program in the container
	program, hint := "", ""
	if s.named() {
		words, hint = c.engine(p, s), made.NoShell
		err = c.describe(ctx, s)
	} else {
		words, err = c.namespaces(ctx, p, s)
		program = agent.EnclosedProgram
	}
	if err != nil {
		return nil, err
	}
	run := func(ctx context.Context, args []string, streams remote.Streams) (int, error) {
		code, err := remote.Through(m, words(args), nil)(ctx, nil, streams)
		c.killed.Store(ctx.Err() != nil)
		return code, err
	}
	c.Machine = remote.New(&remote.Exec{Name: m.String() + ", container of " + o.Name, Run: run, Hint: hint, Remove: c.end}, program)
	c.Bound = true
	agent.LinkOf(c.Machine).Patience = startTime
	if err := c.Begin(ctx, o.Log); err != nil {
		var e *iotax.Error
		if errors.As(err, &e) && e.Hint == "" {
			err = &iotax.Error{Op: op, On: on, Err: e.Err, Hint: "try it there by hand: " + iotax.QuoteAll(words([]string{"sh"}))}
		}
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// engine returns a function that adds the engine's command line to a program. The program becomes the first process of
// the container, and the container ends with it.
func (c *container) engine(p iotax.Place, s *Spec) func(program []string) []string {
	name := made.Name()
	c.remove = s.words("rm", "-f", name)
	args := s.words("run", "--rm", "-i", "--name", name)
	if !slices.ContainsFunc(s.Args, func(a string) bool { return strings.HasPrefix(a, "--net") }) {
		args = append(args, "--network", "none")
	}
	if p.Kind == iotax.PlaceDevice {
		args = append(args, "--device", p.Path)
	} else {
		args = append(args, "-v", p.Path+":"+p.Path)
	}
	return func(program []string) []string {
		return slices.Concat(args, s.Args, []string{"--entrypoint", program[0], s.Image}, program[1:])
	}
}

// describe sets the facts of the container, including the version of the engine.
func (c *container) describe(ctx context.Context, s *Spec) error {
	version, err := iotax.Output(ctx, c.on, s.words("--version")...)
	if err != nil {
		return &iotax.Error{Op: "ask engine", On: "on " + c.on.String(), Err: err, Hint: "install it there, or name another: engine: podman"}
	}
	c.facts = map[string]string{"container.engine": strings.Join(s.words(), " "), "container.image": s.Image,
		"container.version": strings.TrimSpace(string(version))}
	if len(s.Args) > 0 {
		c.facts["container.args"] = iotax.QuoteAll(s.Args)
	}
	return nil
}

// namespaces returns a function, as engine does. The function returns the command line that starts the agent in new
// namespaces.
func (c *container) namespaces(ctx context.Context, p iotax.Place, s *Spec) (func([]string) []string, error) {
	c.facts = map[string]string{"container.engine": namespaces, "container.root": cmp.Or(s.Image, "/ of the machine"),
		"container.limits": "none: namespaces have no control group"}
	program, err := agent.Program(ctx, c.on)
	if err != nil {
		return nil, err
	}
	prefix, _, err := agent.Sudo(ctx, c.on) // without root, the error of the namespace command shows the cause
	if err != nil {
		return nil, err
	}
	words := slices.Concat(prefix, agent.Enclose(program, s.Image, p.Path))
	return func([]string) []string { return words }, nil
}

// end removes the container if the engine's command was killed.
func (c *container) end(ctx context.Context) error {
	if c.remove == nil || !c.killed.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if _, err := iotax.Output(ctx, c.on, c.remove...); err != nil && !strings.Contains(strings.ToLower(err.Error()), "no such container") {
		return &iotax.Error{Op: "remove container", On: "on " + c.on.String(), Err: err, Hint: "remove it by hand: " + iotax.QuoteAll(c.remove)}
	}
	return nil
}
