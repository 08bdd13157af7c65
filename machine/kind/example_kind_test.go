package kind_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/machine/host"
	"iotax/machine/kind"
	"iotax/machine/machinetest"
	"iotax/plan"
)

// The kind that CONTRIBUTING.md walks through; TestContributing keeps the two alike.

// [kind]

// Spec is that of kind nice: this host, with other programs served first.
type Spec struct {
	Level int `yaml:"level" doc:"niceness, from 0 to 19"`
}

// Validate finds what no type can tell. The plan points at the field it names.
func (s *Spec) Validate() error {
	if s.Level < 0 || s.Level > 19 {
		return &plan.FieldError{Field: "level", Msg: fmt.Sprintf("%d is not a niceness", s.Level), Mend: "0 to 19"}
	}
	return nil
}

// Kind is kind nice; 10 is the default.
var Kind = kind.Of("nice", "this host, with other programs served first", Spec{Level: 10}, open).WithoutDevices()

func open(_ context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
	return &machine{host.Local(), o.Name, s.Level}, nil
}

// A machine is all of this host but Run.
type machine struct {
	iotax.Machine
	name  string
	level int
}

func (m *machine) String() string { return m.name }

// Run puts nice(1) before the command. It leaves the struct it was given as it is, callers use it
// again, and an error names the command that the caller knows.
func (m *machine) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return m.Machine.Run(ctx, cmd) // this host knows how to refuse it
	}
	c := *cmd
	c.Args = append([]string{"nice", "-n", strconv.Itoa(m.level)}, cmd.Args...)
	err := m.Machine.Run(ctx, &c)
	var exit *iotax.ExitError
	if errors.As(err, &exit) {
		exit.Args = cmd.Args
	}
	return err
}

// [test]

func TestNice(t *testing.T) {
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		m, err := Kind.Open(t.Context(), &Spec{Level: 10}, kind.Options{Name: "nice"})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// [end]

func TestContributing(t *testing.T) {
	src, err := os.ReadFile("example_kind_test.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][2]string{{"[kind]", "[test]"}, {"[test]", "[end]"}} {
		_, code, _ := strings.Cut(string(src), "\n// "+part[0]+"\n\n")
		code, _, found := strings.Cut(code, "\n// "+part[1]+"\n")
		if !found || !strings.Contains(string(text), "```go\n"+code+"```") {
			t.Errorf("CONTRIBUTING.md does not show this:\n%s", code)
		}
	}
}
