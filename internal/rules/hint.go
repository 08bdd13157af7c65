package rules

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Facts maps the names in hints to the current settings. A name is a flag ("--trial") or a key of a plan or job
// ("ioengine"). A flag that takes no argument maps to "yes".
type Facts map[string]string

// A Setting is a flag or a key in backticks in a hint, with the recommended value.
type Setting struct{ Name, Value string }

var (
	quoted  = regexp.MustCompile("`([^`]+)`")
	flagged = regexp.MustCompile(`^(--[a-z-]+)(?:[ =](\S+))?`)
	keyed   = regexp.MustCompile(`^([a-z_]+)(?:(?:: ?|=)(\S+))?$`)
)

// Settings returns the settings that a part of a hint recommends. It skips commands in backticks.
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

// Given returns r without the parts of its hint that the current settings f already satisfy.
func (r Rule) Given(f Facts) Rule {
	r.Hint = f.Unfollowed(r.Hint)
	return r
}

// Unfollowed returns a hint without the parts that the current settings f already satisfy. If a part recommends several
// settings, one of them is enough.
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

// follows reports whether a setting has the recommended value or, for numbers and durations, a larger value. Of a
// recommended range (12..60), only the upper end counts. If the recommended number is 0, larger numbers do not count.
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
