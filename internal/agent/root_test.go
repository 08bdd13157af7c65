//go:build unix

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/agent"
)

var ids = agent.New("test ids", func(context.Context, none) (string, error) {
	caller, called := agent.Caller()
	return fmt.Sprint(os.Geteuid(), " ", caller, " ", called), nil
})

// otherUser runs the commands of far as another user. The field sudo is a shell script that replaces the sudo program.
type otherUser struct {
	*far
	sudo string
}

func (p otherUser) Run(ctx context.Context, c *iotax.Cmd) error {
	as := *c
	if c.Args[0] == "sudo" {
		as.Args = append([]string{"env", "SUDO_UID=65534", "sh", "-c", p.sudo}, c.Args...)
	} else {
		as.Args = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, c.Args...)
	}
	return p.far.Run(ctx, &as)
}

// A sudo that asks for a password counts as missing.
func TestAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be another user")
	}
	for sudo, want := range map[string]string{
		`shift; exec "$@"`:                        "0 65534 true",
		`echo a password is required >&2; exit 1`: "65534 0 false",
		`exit 127`: "65534 0 false",
	} {
		f, cache := newFar(t)
		if err := errors.Join(os.Chmod(cache, 0o777), os.Chmod(filepath.Dir(cache), 0o755)); err != nil {
			t.Fatal(err)
		}
		if got, err := ids.AsRoot(t.Context(), otherUser{f, sudo}, none{}); got != want || err != nil {
			t.Errorf("sudo that does %s: %q, %v", sudo, got, err)
		}
	}
}

// A signal from the terminal, such as Ctrl-C, must not end a program that cleans up.
func TestExecInOwnGroup(t *testing.T) {
	out, err := agent.Exec(t.Context(), "sh", "-c", "echo $$; ps -o pgid= -p $$")
	if f := strings.Fields(out); err != nil || len(f) != 2 || f[0] != f[1] {
		t.Errorf("process and its group: %q, %v", out, err)
	}
}
