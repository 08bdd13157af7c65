package fake

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/testenv/machinetest"
)

func TestFake(t *testing.T) {
	t.Parallel()
	machinetest.Run(t, func(*testing.T) iotax.Machine { return new(Machine) }, machinetest.Options{
		Kill: func(m iotax.Machine) error {
			m.(*Machine).Die()
			return nil
		},
	})
}

func TestFakeLogAndFaults(t *testing.T) {
	t.Parallel()
	fault := errors.New("scripted")
	var slept []time.Duration
	f := &Machine{
		Name:  "m",
		Delay: time.Hour,
		Sleep: func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil },
		FailAt: func(n int, _ *iotax.Cmd) error {
			if n == 1 {
				return fault
			}
			return nil
		},
		DieAt: func(n int, _ *iotax.Cmd) bool { return n == 2 },
	}
	if out, err := iotax.Output(t.Context(), f, "echo", "it's"); err != nil || string(out) != "it's\n" {
		t.Errorf("first: %q, %v", out, err)
	}
	if err := f.Run(t.Context(), iotax.Command("true")); !errors.Is(err, fault) {
		t.Errorf("second: got %v, want the scripted fault", err)
	}
	for _, name := range []string{"third, under which it dies", "fourth, after death"} {
		err := f.Run(t.Context(), iotax.Command("sleep", "1000"))
		var x *iotax.ExitError
		if err == nil || errors.As(err, &x) || !strings.Contains(err.Error(), "on m: the machine died") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	want := []string{`echo 'it'\''s'`, "true", "sleep 1000", "sleep 1000"}
	if got := f.Log(); !slices.Equal(got, want) {
		t.Errorf("the log is %q, want %q", got, want)
	}
	if want := []time.Duration{time.Hour, time.Hour, time.Hour}; !slices.Equal(slept, want) {
		t.Errorf("slept %v, want %v", slept, want)
	}
	if f.Close(t.Context()) != nil || !f.Closed() {
		t.Error("it does not close")
	}
	if f.Close(t.Context()) == nil {
		t.Error("closing twice goes unnoticed")
	}
}

func TestFakeSpec(t *testing.T) {
	t.Parallel()
	m, err := Kind.Open(t.Context(), &Spec{DieAfter: 1, Delay: plan.Duration(time.Millisecond)}, kind.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context(), iotax.Command("true")); err != nil {
		t.Error(err)
	}
	if err := m.Run(t.Context(), iotax.Command("true")); err == nil {
		t.Error("it lives after its last command")
	}
	if kept := m.(*Machine).Log(); len(kept) > 0 {
		t.Errorf("it keeps a log that nobody asks for, and a run may be long: %q", kept)
	}
	if m.String() != "x" {
		t.Errorf("it is called %s, want x", m)
	}
	for _, s := range []*Spec{{Delay: -1}, {DieAfter: -1}, {FailAfter: -1}} {
		var e *plan.FieldError
		if err := s.Validate(); !errors.As(err, &e) {
			t.Errorf("%+v: got %v, want a *plan.FieldError", s, err)
		}
	}
}

func TestCapsKept(t *testing.T) {
	machinetest.Keeps(t, &Machine{Under: machinetest.Full{}}, machinetest.Full{}, "Local", "Agent")
}
