package probe

import (
	"context"
	"os"
	"testing"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
)

// The test binary also acts as iotax's agent on another machine.
func TestMain(m *testing.M) {
	agent.Main(host.Local())
	cache, err := os.MkdirTemp("", "iotax-test-")
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache) // for copies of the agent
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(cache)
	os.Exit(code)
}

// here is this host. there presents this host as a remote machine.
var (
	here  iotax.Machine = host.Local()
	there iotax.Machine = remoteMachine{host.Local()}
)

type remoteMachine struct{ iotax.Machine }

// inProcess is a link whose agent runs in this process.
var inProcess = agent.Link{Start: agent.InProcess}

func (remoteMachine) String() string          { return "there" }
func (remoteMachine) Caps() iotax.MachineCaps { return iotax.MachineCaps{Agent: &inProcess} }

// serving is a guest. The processes in pids serve it.
type serving struct {
	remoteMachine
	pids map[string][]int
}

func (s serving) Caps() iotax.MachineCaps {
	return iotax.MachineCaps{Agent: &inProcess, Processes: func() map[string][]int { return s.pids }}
}

// wordy answers every command with the output `out` and the error `err`.
type wordy struct {
	iotax.Machine
	out string
	err error
}

func (wordy) Caps() iotax.MachineCaps { return iotax.MachineCaps{} }

func (w wordy) Run(_ context.Context, c *iotax.Cmd) error {
	if c.Stdout != nil {
		c.Stdout.Write([]byte(w.out))
	}
	return w.err
}
