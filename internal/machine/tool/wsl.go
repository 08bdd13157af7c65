package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"iotax"
	remote "iotax/internal/machine/agent"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
)

// WSL is the spec of kind wsl: a distribution of the Windows Subsystem for Linux. iotax runs on Windows or inside
// another distribution.
type WSL struct {
	Distribution string `yaml:"distribution" doc:"name of the distribution; empty means the default one"`
	User         string `yaml:"user" doc:"user to run as; empty means the distribution's default"`
	Program      string `yaml:"program" doc:"path of wsl.exe; empty searches the PATH"`
}

// WSLKind defines the machine kind wsl.
var WSLKind = kind.Of("wsl", "a distribution of the Windows Subsystem for Linux (wsl.exe)", WSL{}, openWSL).WithoutDevices()

// SetScalar sets the name of the distribution, as in `wsl: Debian`.
func (s *WSL) SetScalar(v string) error { s.Distribution = v; return nil }

func (s *WSL) Traits() plan.Traits {
	return plan.Traits{Stays: true, HostFiles: programFile(&s.Program)}
}

// Validate returns an error for names that wsl.exe would treat as options, and for names with tabs, line breaks or
// quotation marks.
func (s *WSL) Validate() error {
	for field, v := range map[string]string{"distribution": s.Distribution, "user": s.User} {
		if strings.HasPrefix(v, "-") || strings.ContainsAny(v, "\r\n\t\"") {
			return &plan.FieldError{Field: field, Msg: fmt.Sprintf("%q is not a name", v), Hint: "wsl.exe --list shows the distributions"}
		}
	}
	return nil
}

// prefix returns the arguments before a command. --exec bypasses the distribution's shell.
func (s *WSL) prefix() (a []string) {
	if s.Distribution != "" {
		a = append(a, "-d", s.Distribution)
	}
	if s.User != "" {
		a = append(a, "-u", s.User)
	}
	return append(a, "--cd", "/", "--exec")
}

type wslMachine struct {
	*remote.Machine
	facts map[string]string
}

func (m *wslMachine) Caps() iotax.MachineCaps {
	c := m.Machine.Caps()
	c.Alone, c.Facts = true, m.facts
	return c
}

func openWSL(ctx context.Context, s *WSL, o kind.Options) (iotax.Machine, error) {
	wsl := tool{program: cmp.Or(s.Program, "wsl.exe"), hint: "run iotax on Windows with WSL (wsl --install), or in a distribution that can reach Windows programs"}
	if _, err := wsl.look(ctx, o.Name); err != nil {
		return nil, err
	}
	m := &wslMachine{facts: map[string]string{"wsl.distribution": s.Distribution}}
	out, err := wsl.run(ctx, toolSlow, append(s.prefix(), "uname", "-r")...)
	if err != nil {
		var exit *iotax.ExitError
		if errors.As(err, &exit) && exit.Stderr != "" {
			err = errors.New(narrow(exit.Stderr))
		}
		return nil, &iotax.Error{Op: "open machine", On: cmp.Or(o.Name, "WSL "+s.Distribution), Err: err, Hint: "wsl.exe --list --verbose shows the distributions"}
	}
	m.facts["wsl.kernel"] = strings.TrimSpace(out)
	lost := func(context.Context) error { return nil } // wsl.exe starts a distribution that is not running
	if m.Machine, err = wsl.into(ctx, cmp.Or(o.Name, s.Distribution, "wsl"), o.Log, lost, s.prefix()...); err != nil {
		return nil, err
	}
	return m, nil
}

// narrow removes the NUL bytes from a message of wsl.exe, which is UTF-16 unless WSL_UTF8 is set. Only ASCII characters
// of UTF-16 stay correct.
func narrow(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\x00", "")) }
