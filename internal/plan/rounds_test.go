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
