package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"iotax"
)

// manCommand writes the manual for packages. Readers have --help.
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
			root.DisableAutoGenTag = true // the same sources give the same pages
			err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "iotax", Manual: "iotax"}, args[0])
			if err != nil {
				return &iotax.Error{Op: "write manual", On: args[0], Err: err}
			}
			return nil
		},
	}
}
