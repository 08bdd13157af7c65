package main

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

// Help fits a terminal of 80 columns, and what is wrong with the number of words is said in words.
func TestHelpFits(t *testing.T) {
	told := func(args ...string) string {
		var b strings.Builder
		Main(t.Context(), args, nil, &b, &b)
		return b.String()
	}
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for line := range strings.Lines(told(append(strings.Fields(c.CommandPath())[1:], "--help")...)) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each((&app{}).root())
	for want, args := range map[string][]string{
		"compare takes 2 arguments, not 1\n  hint: iotax compare A B":        {"compare", "a"},
		"rm takes at least 1 argument, not 0\n  hint: iotax rm RUN…":         {"rm"},
		"report takes at most 1 argument, not 2\n  hint: iotax report [RUN]": {"report", "a", "b"},
	} {
		if got := told(args...); !strings.Contains(got, want) {
			t.Errorf("%v: %s", args, got)
		}
	}
}

func TestHanging(t *testing.T) {
	for columns, want := range map[int]string{0: "ok  one two three four-five", 24: "ok  one two three\n    four-five", 80: "ok  one two three four-five"} {
		if got := hanging("ok  ", "one two three four-five", columns); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", columns, got, want)
		}
	}
}
