package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"crypto/sha256"

	"iotax"
	"iotax/internal/object"
)

// What must happen on the target's machine and no tool there does, iotax does itself: it runs there a second time, as
// `iotax agent`, which reads what to do from standard input and answers on standard output. On machines elsewhere the
// program is brought there as fio is.

// AgentCommand is the hidden command that serves a job.
const AgentCommand = "agent"

var self = sync.OnceValues(func() (struct{ path, hash string }, error) {
	var s struct{ path, hash string }
	var err error
	if s.path, err = os.Executable(); err != nil {
		return s, err
	}
	h := sha256.New()
	if err := copyFile(h, s.path); err != nil {
		return s, err
	}
	s.hash = fmt.Sprintf("%x", h.Sum(nil)[:8])
	return s, nil
})

// suits says why programs of this host do not run on m.
func suits(ctx context.Context, m iotax.Machine) error {
	if iotax.IsLocal(m) {
		return nil
	}
	s, err := shared.survey(ctx, m)
	if err != nil {
		return err
	}
	arch := map[string][]string{"amd64": {"x86_64", "amd64"}, "arm64": {"aarch64", "arm64"}}[runtime.GOARCH]
	if runtime.GOOS != s.os || !slices.Contains(arch, s.arch) {
		return &iotax.Error{Op: "bring iotax to", On: m.String(), Err: fmt.Errorf("it runs %s on %s, this host %s on %s", s.os, s.arch, runtime.GOOS, runtime.GOARCH),
			Hint: "start iotax on a Linux host with the architecture of " + m.String() + ", or leave its targets out of this workload (at:)"}
	}
	return nil
}

// agent returns the command line of iotax on m.
func agent(ctx context.Context, m iotax.Machine, env Env) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, &iotax.Error{Op: "bring iotax to", On: m.String(), Err: err, Hint: "give its user a directory that may run programs: XDG_CACHE_HOME there, or /var/tmp"}
	}
	if iotax.IsLocal(m) {
		path, err := os.Executable()
		if err != nil {
			return fail(err)
		}
		return []string{path, AgentCommand}, nil
	}
	me, err := self()
	if err != nil {
		return fail(err)
	}
	if err := suits(ctx, m); err != nil {
		return nil, err
	}
	st, err := os.Stat(me.path)
	if err != nil {
		return fail(err)
	}
	out, err := iotax.Output(ctx, m, "sh", "-c", homeScript, "sh", fmt.Sprint(st.Size()*11/10>>10), "none")
	if err != nil {
		return fail(fmt.Errorf("no directory there holds %d MiB and may run programs", st.Size()>>20))
	}
	first, _, _ := strings.Cut(string(out), "\n")
	_, home, _ := strings.Cut(first, " ")
	path := home + "/iotax-" + me.hash
	if _, err := iotax.Output(ctx, m, "test", "-x", path); err != nil {
		env.logf("copying iotax to %s (%d MiB, once)", m, st.Size()>>20)
		f, err := os.Open(me.path)
		if err != nil {
			return fail(err)
		}
		defer f.Close()
		if err := iotax.Put(ctx, m, f, path+".part", "700"); err != nil {
			return fail(err)
		}
		if _, err := iotax.Output(ctx, m, "mv", "--", path+".part", path); err != nil {
			return fail(err)
		}
	}
	return []string{path, AgentCommand}, nil
}

// ask lets iotax on m do a job, and returns what it answered, whole too.
func ask(ctx context.Context, m iotax.Machine, env Env, kind string, job, result any) (raw []byte, err error) {
	argv, err := agent(ctx, m, env)
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
