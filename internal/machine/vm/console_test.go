package vm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"iotax/internal/plan"
)

func TestConsoleSpec(t *testing.T) {
	good := Console{Command: "--bootchart {command}", Boot: `Booted up in (?<ms>[0-9.]+) ms`, Status: `status ([0-9]+)`}
	for _, c := range []struct {
		change      func(*Spec)
		field, hint string
	}{
		{func(s *Spec) {}, "", ""},
		{func(s *Spec) { s.Memory = 64 << 20 }, "", ""}, // less than the micro-guest needs
		{func(s *Spec) { s.Console.Command = "" }, "console.command", "{command}"},
		{func(s *Spec) { s.Console.Command = "fixed" }, "console.command", "{command}"},
		{func(s *Spec) { s.Kernel = "" }, "console.command", "kernel"},
		{func(s *Spec) { s.Append = "quiet" }, "console.command", "append"},
		{func(s *Spec) { s.Fresh = true }, "console.command", "fresh"},
		{func(s *Spec) { s.Console.Begin = "(" }, "console.begin", "RE2"},
		{func(s *Spec) { s.Console.Boot = "in ([0-9]+)" }, "console.boot", "ms"},
		{func(s *Spec) { s.Console.Status = "status [0-9]+" }, "console.status", "exit status"},
	} {
		s := &Spec{Memory: 1 << 30, CPUs: 1, Accel: "tcg", User: "root", Kernel: "/loader.elf", Console: good}
		c.change(s)
		err := s.Validate()
		var fe *plan.FieldError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field || !strings.Contains(fe.Hint, c.hint)) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// The result is the text between the begin and end lines. The boot line and the status line may be outside.
func TestConsoleReader(t *testing.T) {
	p, err := (Console{Boot: `Booted up in (?<ms>[0-9.]+) ms`, Begin: "^>>>", End: "^<<<", Status: "status ([0-9]+)"}).compile()
	if err != nil {
		t.Fatal(err)
	}
	r := &consoleReader{p: p}
	said := "SeaBIOS\nOSv v0.57\nBooted up in 215.5 ms\n"
	for line := range strings.Lines(said) {
		r.line(time.Time{}, strings.TrimSpace(line))
	}
	if m := r.missing(); !strings.Contains(m, "beginning") {
		t.Errorf("missing: %q", m)
	}
	for line := range strings.Lines(">>>\none\ntwo\n<<<\nthree\nstatus 3\n") {
		r.line(time.Time{}, strings.TrimSpace(line))
	}
	if out, boot := r.read(); string(out) != "one\ntwo\n" || boot != 215500*time.Microsecond || r.status != 3 || r.missing() != "" {
		t.Errorf("%q, booted in %v, status %d, missing %q", out, boot, r.status, r.missing())
	}
}
