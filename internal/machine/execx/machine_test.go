//go:build unix

package execx

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"testing"

	"iotax"
	"iotax/internal/testenv/machinetest"
)

// here is an Exec to this host. As that of a container it lets a program go on when it is told to stop.
func here(ctx context.Context, args []string, s Streams) (int, error) {
	c := exec.Command(args[0], args[1:]...)
	c.Stdout, c.Stderr = s.Out, s.Err
	in, err := c.StdinPipe() // Wait does not wait for what is copied into it
	if err != nil {
		return 0, err
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return 0, err
	}
	go func() {
		io.Copy(in, s.In)
		in.Close()
	}()
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case err = <-done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if w := exit.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + int(w.Signal()), nil
	}
	return exit.ExitCode(), nil
}

func TestHere(t *testing.T) {
	t.Parallel()
	machinetest.Run(t, func(*testing.T) iotax.Machine { return New("here", here) })
}

func TestToldHere(t *testing.T) {
	t.Parallel()
	machinetest.Run(t, func(*testing.T) iotax.Machine { return New("here", Told(here)) })
}
