package machine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/machine"
	"iotax/machine/machinetest"
	"iotax/plan"
)

// The kind that CONTRIBUTING.md walks through; TestContributing keeps the two alike.

// [kind]

// Nice is the spec of kind nice: this host, with other programs served first.
type Nice struct {
	Level int `yaml:"level" doc:"niceness, from 0 to 19"`
}

// Validate finds what no type can tell. The plan points at the field it names.
func (s *Nice) Validate() error {
	if s.Level < 0 || s.Level > 19 {
		return &plan.FieldError{Field: "level", Msg: fmt.Sprintf("%d is not a niceness", s.Level), Mend: "0 to 19"}
	}
	return nil
}

var niceKind = machine.Kind{
	Kind: plan.Kind{Name: "nice", Doc: "this host, with other programs served first",
		New: func() any { return &Nice{Level: 10} }}, // the default
	Open: func(_ context.Context, spec any, o machine.Options) (iotax.Machine, error) {
		return &niceMachine{machine.Local(), o.Name, spec.(*Nice).Level}, nil
	},
}

// A niceMachine is all of this host but Run.
type niceMachine struct {
	iotax.Machine
	name  string
	level int
}

func (m *niceMachine) String() string { return m.name }

// Run puts nice(1) before the command. It leaves the struct it was given as it is, callers use it
// again, and an error names the command that the caller knows.
func (m *niceMachine) Run(ctx context.Context, cmd *iotax.Cmd) error {
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
		m, err := niceKind.Open(t.Context(), &Nice{Level: 10}, machine.Options{Name: "nice"})
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
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][2]string{{"[kind]", "[test]"}, {"[test]", "[end]"}} {
		_, code, _ := strings.Cut(string(src), "\n// "+part[0]+"\n\n")
		code, _, found := strings.Cut(code, "\n// "+part[1]+"\n")
		// The walk-through stands inside package machine, the example beside it.
		code = strings.ReplaceAll(code, "machine.", "")
		if !found || !strings.Contains(string(text), "```go\n"+code+"```") {
			t.Errorf("CONTRIBUTING.md does not show this:\n%s", code)
		}
	}
}
