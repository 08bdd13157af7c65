package plan

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseRounds(t *testing.T) {
	for s, want := range map[string]Rounds{"6": {6, 6}, "6..30": {6, 30}, " 1 .. 2 ": {1, 2}} {
		if got, err := ParseRounds(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{"": "not a number of rounds", "0": "needs at least 6", "6-30": "6..30", "30..6": "less than", "1..": "not a number", "..": "not a number", "1..99999999": "too many", "-1": "measure nothing"} {
		if got, err := ParseRounds(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, want := range []string{"6", "6..30"} {
		if got, err := ParseRounds(want); err != nil || got.String() != want {
			t.Errorf("%s prints as %s, %v", want, got, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9]{0,9}(\.\.)?[0-9]{0,9}`)).Draw(t, "text")
		if b, err := ParseRounds(s); err == nil && (b.Min < 1 || b.Max < b.Min) {
			t.Fatalf("%q: %v", s, b)
		}
	})
}

// Restarts fix the number of rounds and need at least one round each. If each round has its own start, the number is
// not fixed.
func TestRestarts(t *testing.T) {
	for _, c := range []struct {
		change func(*Measure)
		want   string
	}{
		{func(m *Measure) { m.Restarts = 6 }, ""},
		{func(m *Measure) { m.Restarts, m.Protocol = 5, "fixed:5x10s" }, ""},
		{func(m *Measure) { m.Restarts = 31 }, "restarts: 31 starts are more than the 30 rounds"},
		{func(m *Measure) { m.Restarts = -1 }, "restarts: -1 is out of range"},
		{func(m *Measure) { m.Restarts, m.Rounds = 7, Rounds{6, 6} }, "restarts: 7 starts are more than the 6 rounds"},
		{func(m *Measure) { m.Restarts, m.Drop = 2, DropWorst }, "drop: restarts measure a fixed number of rounds"},
	} {
		m := Defaults()
		c.change(&m)
		err := m.Check()
		if c.want == "" {
			if err != nil || m.Rounds.Min != m.Rounds.Max || m.Starts() != m.Restarts {
				t.Errorf("%+v: %v", m, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	m := Defaults()
	m.Restarts = 30
	if err := m.Check(); err != nil || m.Rounds != Defaults().Rounds || m.Starts() != 30 {
		t.Errorf("a start for each round changes %v, %v", m.Rounds, err)
	}
	m.Restarts = 1
	if err := m.Check(); err != nil || m.Rounds != Defaults().Rounds || m.Starts() != 1 {
		t.Errorf("one start changes %v, %v", m.Rounds, err)
	}
}
