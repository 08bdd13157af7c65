package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/object"
)

// What must happen on the target's machine and no tool there does, iotax does itself: it runs there a second time, as
// `iotax agent`, which reads what to do from standard input and answers on standard output. On machines elsewhere the
// package agent brings the program there.

// AgentCommand is the hidden command that serves a job.
const AgentCommand = "agent"

// agentOn returns the command line of iotax on m.
func agentOn(ctx context.Context, m iotax.Machine) ([]string, error) {
	path, err := agent.Program(ctx, m)
	return []string{path, AgentCommand}, err
}

// ask lets iotax on m do a job, and returns what it answered, whole too.
func ask(ctx context.Context, m iotax.Machine, kind string, job, result any) (raw []byte, err error) {
	argv, err := agentOn(ctx, m)
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	var out iotax.Capture
	if err := m.Run(ctx, &iotax.Cmd{Args: append(argv, kind), Stdin: bytes.NewReader(in), Stdout: &out}); err != nil {
		return out.Bytes(), err
	}
	if err := json.Unmarshal(out.Bytes(), result); err != nil {
		return out.Bytes(), fmt.Errorf("iotax on %v answered %.100q: %w", m, out.Bytes(), err)
	}
	return out.Bytes(), nil
}

// ServeAgent does the job of kind that stands on in.
func ServeAgent(ctx context.Context, kind string, in io.Reader, out io.Writer) error {
	switch kind {
	case agentObject:
		return object.Serve(ctx, in, out)
	case agentRelay:
		return relay(ctx, in, out)
	}
	return errors.New("there is no such agent")
}

const agentObject = "object"
