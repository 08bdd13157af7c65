package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"iotax/fio"
	"iotax/internal/kinds"
	"iotax/internal/plan/schema"
	"iotax/internal/rules"
)

// placeholders replaces the placeholders in hints with valid values.
var placeholders = strings.NewReplacer("I/N", "1/2", "RUN", "r1", "ID", "r1", " N", " 1")

// The commands, flags, fio options and plan keys in hints exist.
func TestHintsCanBeFollowed(t *testing.T) {
	planKeys, err := schema.Of(kinds.All())
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	commands, flags, keys := 0, 0, 0
	for _, r := range rules.All() {
		for _, m := range quoted.FindAllStringSubmatch(r.Hint, -1) {
			text := placeholders.Replace(m[1])
			if words := strings.Fields(text); words[0] == "iotax" {
				commands++
				c, args, err := (&app{}).root().Find(words[1:])
				if err != nil || c.Name() != words[1] {
					t.Errorf("%s: %q is not a command", r.ID, text)
				} else if err := c.ParseFlags(args); err != nil {
					t.Errorf("%s: %q: %v", r.ID, text, err)
				}
				continue
			}
			for _, s := range rules.Settings("`" + text + "`") {
				if strings.HasPrefix(s.Name, "--") {
					flags++
					if !takesFlag(text) {
						t.Errorf("%s: no command takes %q", r.ID, text)
					}
					continue
				}
				keys++
				_, option := fio.LookupOption(s.Name)
				if !option && !strings.Contains(string(planKeys), `"`+s.Name+`"`) && !slices.Contains(elsewhere, s.Name) {
					t.Errorf("%s: %q is neither an option of fio nor a key of plans", r.ID, s.Name)
				}
			}
		}
	}
	if commands < 10 || flags < 10 || keys < 20 {
		t.Errorf("only %d commands, %d flags and %d keys in hints", commands, flags, keys)
	}
}

// elsewhere lists words in hints that look like fio options or plan keys, but are other programs or values.
var elsewhere = []string{"iotop", "caffeinate", "writeback"}

// takesFlag reports whether a command of iotax accepts the flags in text.
func takesFlag(text string) bool {
	taken := false
	var try func(c *cobra.Command)
	try = func(c *cobra.Command) {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.AddFlagSet(c.Flags())
		f.AddFlagSet(c.PersistentFlags())
		words := strings.Fields(text)
		if name := strings.TrimPrefix(words[0], "--"); len(words) == 1 && f.Lookup(name) != nil { // only the name of a flag
			taken = true
		}
		taken = taken || f.Parse(words) == nil
		for _, sub := range c.Commands() {
			try(sub)
		}
	}
	try((&app{}).root())
	return taken
}
