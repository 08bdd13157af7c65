package rules

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Facts are settings of the cell that a finding is about, by their names in hints: flags ("--trial") and keys of plans and jobs
// ("ioengine"). A flag without a value is "yes".
type Facts map[string]string

// A Setting is a flag or a key that a hint names between backticks, with the value that it recommends.
type Setting struct{ Name, Value string }

var (
	quoted  = regexp.MustCompile("`([^`]+)`")
	flagged = regexp.MustCompile(`^(--[a-z-]+)(?:[ =](\S+))?`)
	keyed   = regexp.MustCompile(`^([a-z_]+)(?:: ?(\S+))?$`)
)

// Settings are those of a part of a hint. Commands are not among them.
func Settings(part string) (out []Setting) {
	for _, m := range quoted.FindAllStringSubmatch(part, -1) {
		for _, form := range []*regexp.Regexp{flagged, keyed} {
			if s := form.FindStringSubmatch(m[1]); s != nil {
				out = append(out, Setting{s[1], s[2]})
				break
			}
		}
	}
	return out
}

// Given is r without those parts of its hint that name a setting which the facts follow.
func (r Rule) Given(f Facts) Rule {
	r.Hint = f.Unfollowed(r.Hint)
	return r
}

// Unfollowed is a hint without its parts that name a setting which the facts follow.
func (f Facts) Unfollowed(hint string) string {
	return Rule{Hint: hint}.parts(func(part string) bool {
		for _, s := range Settings(part) {
			if have, known := f[s.Name]; known && follows(have, s.Value) {
				return false
			}
		}
		return true
	}).Hint
}

// follows reports whether a setting is what a hint asks for: as many, as long, or the same.
func follows(have, want string) bool {
	if _, most, ok := strings.Cut(want, ".."); ok {
		want = most
	}
	if x, err := strconv.Atoi(want); err == nil {
		y, err := strconv.Atoi(have)
		return err == nil && (y >= x && x > 0 || y == x)
	}
	if x, err := time.ParseDuration(want); err == nil {
		y, err := time.ParseDuration(have)
		return err == nil && y >= x
	}
	return have == want || want == "" && have == "yes"
}
