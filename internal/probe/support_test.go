package probe

import (
	"context"

	"iotax"
	"iotax/internal/machine/host"
)

// here is this host; there is a machine that does not know that it is this host too.
var (
	here  iotax.Machine = localMachine{host.Local()}
	there iotax.Machine = remoteMachine{host.Local()}
)

type localMachine struct{ iotax.Machine }

func (localMachine) Local() bool { return true }

type remoteMachine struct{ iotax.Machine }

func (remoteMachine) Local() bool    { return false }
func (remoteMachine) String() string { return "there" }

// serving is a guest that the processes pids serve.
type serving struct {
	remoteMachine
	pids map[string][]int
}

func (s serving) Processes() map[string][]int { return s.pids }

// wordy answers every command with a recorded output.
type wordy struct {
	iotax.Machine
	out string
	err error
}

func (w wordy) Run(_ context.Context, c *iotax.Cmd) error {
	if c.Stdout != nil {
		c.Stdout.Write([]byte(w.out))
	}
	return w.err
}
