package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/rules"
)

// addressFor returns the address at which m reaches the server: `given` from the plan, the loopback address if server
// and m are the same machine, or else the address of the server's machine.
func addressFor(op string, server, m iotax.Machine, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	s, u := server.Caps(), m.Caps()
	known, alike := s.Address != "", u.Address != ""
	switch {
	case server == m || !known && s.Local && u.Local && !alike:
		return "127.0.0.1", nil
	case !known:
		return "", &iotax.Error{Op: op, On: server.String(), Err: fmt.Errorf("its address is not known to %v", m), Hint: "write address: and where it is reached"}
	case s.Local && (!alike || !u.Local):
		return "", &iotax.Error{Op: op, On: server.String(), Err: fmt.Errorf("only nodes of the same lab reach a node of a lab, and %v is not one", m), Hint: "put the target on a node"}
	}
	if s.Address == u.Address {
		return "127.0.0.1", nil
	}
	return s.Address, nil
}

// alone reports whether no other user works on m, as in a container. If so, iotax does not check the owners and
// permissions of directories.
func alone(m iotax.Machine) bool {
	c := m.Caps()
	return c.Alone || c.Local && os.Getenv(iotax.AloneVariable) != ""
}

// homeOf returns the default directory for files on m.
func homeOf(m iotax.Machine) string { return cmp.Or(m.Caps().Home, "/var/tmp") }

// linkFacts adds the server's name to facts. Unless m uses the loopback interface or a Unix socket, it also adds the
// lowest known link rate of the two machines.
func linkFacts(facts map[string]string, server, m iotax.Machine, address string) {
	facts["served.by"] = server.String()
	if address == "127.0.0.1" || address == "" {
		return
	}
	lowest := math.Inf(1)
	for _, x := range []iotax.Machine{server, m} {
		if rate := x.Caps().LinkRate; rate > 0 && rate < lowest {
			lowest = rate
			facts[iotax.FactLineRate] = strconv.FormatFloat(rate, 'f', -1, 64)
		}
	}
}

// somePort returns a random port for a server. It is below 32768, where Linux's ephemeral ports start.
func somePort() int { return 20000 + rand.IntN(12000) }

const portTries = 8

// serveOnPort starts a server on the requested port. If `asked` is 0, it tries up to portTries random ports until one
// is free.
func serveOnPort(asked int, start func(port int) (*server, error)) (s *server, port int, err error) {
	for range portTries {
		if port = asked; port == 0 {
			port = somePort()
		}
		if s, err = start(port); err == nil || asked != 0 || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			return s, port, err
		}
	}
	return nil, 0, err
}

// readyTime is the time limit for the start of a server. It allows for a busy host.
const readyTime = time.Minute

// await calls `ready` until the result is true. It returns an error if the server ends first. If ctx is done or
// readyTime has passed, await stops the server and returns an error.
func (s *server) await(ctx context.Context, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTime, fmt.Errorf("%s did not serve within %v", s.name, readyTime))
	defer cancel()
	for {
		if ready(ctx) {
			return nil
		}
		select {
		case <-s.done:
			return s.ended()
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), s.stop(context.WithoutCancel(ctx)))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A listener is a process that should listen on a TCP port.
type listener struct{ PID, Port int }

// listens reports whether the process listens on the port.
var listens = agent.New("volume.listens", func(_ context.Context, l listener) (bool, error) {
	proc := fmt.Sprintf("/proc/%d/", l.PID)
	tcp, err := os.ReadFile(proc + "net/tcp")
	tcp6, _ := os.ReadFile(proc + "net/tcp6") // the kernel may lack IPv6
	files, _ := filepath.Glob(proc + "fd/*")
	open := regexp.MustCompile(fmt.Sprintf(`:%04X [0-9A-F]+:0000 0A [0-9A-F]+:[0-9A-F]+ [0-9A-F]+:[0-9A-F]+ [0-9A-F]+ +\d+ +\d+ (\d+) `, l.Port))
	for _, socket := range open.FindAllSubmatch(append(tcp, tcp6...), -1) {
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil && to == fmt.Sprintf("socket:[%s]", socket[1]) {
				return true, nil
			}
		}
	}
	return false, err
})

// awaitPort waits until the server listens on the TCP port.
func (s *server) awaitPort(ctx context.Context, port int) error {
	return s.await(ctx, func(ctx context.Context) bool {
		ready, err := on(ctx, quick, listens.On, s.host, listener{s.pid, port})
		return err == nil && ready
	})
}

// death returns a finding if the server has ended by itself. `what` describes the server in the finding.
func (s *server) death(what string) []iotax.Finding {
	if s == nil || s.alive() || s.stopped {
		return nil
	}
	return []iotax.Finding{rules.ServerDied.Found(iotax.Subject{}, "%s on %v: %v", what, s.host, s.ended())}
}
