package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"iotax"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a manual page for each command into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return &iotax.Error{Op: "write manual", On: args[0], Err: err, Hint: "name a directory that can be made"}
			}
			root := c.Root()
			root.DisableAutoGenTag = true // the date would make builds differ
			if err := writeManual(root, args[0]); err != nil {
				return &iotax.Error{Op: "write manual", On: args[0], Err: err}
			}
			return nil
		},
	}
}

// writeManual writes the manual pages of c and its commands. The page of the root command contains all help topics, the
// other pages only the exit status.
func writeManual(c *cobra.Command, dir string) error {
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			if err := writeManual(s, dir); err != nil {
				return err
			}
		}
	}
	var page bytes.Buffer
	if err := doc.GenMan(c, &doc.GenManHeader{Section: "1", Source: "iotax", Manual: "iotax"}, &page); err != nil {
		return err
	}
	for _, t := range topics {
		if c.HasParent() && t.name != "exit-status" {
			continue
		}
		fmt.Fprintf(&page, ".SH %s\n", strings.ToUpper(t.title))
		for _, e := range t.entries {
			fmt.Fprintf(&page, ".TP\n\\fB%s\\fP\n%s\n", roff.Replace(e[0]), roff.Replace(e[1]))
		}
	}
	return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"), page.Bytes(), 0o644)
}

// roff escapes the characters that have a special meaning in manual pages.
var roff = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `~`, `\(ti`)
