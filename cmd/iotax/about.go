package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"iotax/plan"
	"iotax/suite"
)

// release is set by the build of a release.
var release = ""

// version names this build: a release, or the commit it was built from.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	if rev == "" {
		return "devel"
	}
	return "devel-" + rev[:min(12, len(rev))] + dirty
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return writeJSON(a.out, map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			_, err := fmt.Fprintf(a.out, "iotax %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

func (a *app) suitesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "suites",
		Short: "List the plans that ship with iotax",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				type entry struct {
					Name string `json:"name"`
					Doc  string `json:"doc"`
				}
				var all []entry
				for _, n := range suite.Names() {
					all = append(all, entry{n, suite.Doc(n)})
				}
				return writeJSON(a.out, all)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			for _, n := range suite.Names() {
				fmt.Fprintf(w, "%s\t%s\n", n, suite.Doc(n))
			}
			return w.Flush()
		},
	}
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of plan files",
		Long: `schema prints the JSON Schema of plan files, for completion and checks in an editor:

  iotax schema > iotax.schema.json

and as the first line of a plan

  # yaml-language-server: $schema=iotax.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := plan.Schema(kinds())
			if err != nil {
				return err
			}
			_, err = a.out.Write(b)
			return err
		},
	}
}
