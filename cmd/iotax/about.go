package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/plan/schema"
	"iotax/internal/report/export"
	"iotax/internal/suite"
	"iotax/internal/terminal"
)

// program returns the shell command that starts iotax: "iotax" if it is in PATH or the user typed no path, otherwise
// the path that the user typed.
func program() string {
	if _, err := exec.LookPath("iotax"); err == nil || !strings.ContainsRune(os.Args[0], filepath.Separator) {
		return "iotax"
	}
	return iotax.Quote(os.Args[0])
}

// release and builtFrom are the release and the commit that the Makefile passes to the linker. They may be "".
var release, builtFrom string

// commit returns the abbreviated hash of this build's commit, followed by +dirty if files had changed, or "" if it is
// not known.
func commit() string {
	if builtFrom != "" {
		return builtFrom
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
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
	return rev[:min(12, len(rev))] + dirty
}

// version returns the release. If the build is not a release, it returns "devel", followed by the commit if it is
// known.
func version() string {
	switch c := commit(); {
	case release != "":
		return release
	case c != "":
		return "devel-" + c
	}
	return "devel"
}

// about returns the output of `iotax --version` and, without --json, of `iotax version`.
func about() string {
	c := commit()
	if c == "" {
		c = "unknown"
	}
	return fmt.Sprintf("iotax %s (commit %s) %s %s/%s", version(), c, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and its commit",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return writeJSON(a.out, map[string]string{"version": version(), "commit": commit(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			_, err := fmt.Fprintln(a.out, about())
			return err
		},
	}
}

func (a *app) suitesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "suites",
		Short: "List the suites, which are built-in plans: quick, etcd, …",
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
			var lines strings.Builder
			for _, n := range suite.Names() {
				lines.WriteString(terminal.Hanging(fmt.Sprintf("%-13s", n), suite.Doc(n), terminal.Width(a.out, 0)) + "\n")
			}
			_, err := io.WriteString(a.out, lines.String())
			return err
		},
	}
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [DOCUMENT]",
		Short: "Print the JSON Schema of plan files, reports and exports",
		Long: `schema prints the JSON Schema of plan files, for completion and checks in an
editor:

  iotax schema > iotax.schema.json

and as the first line of a plan

  # yaml-language-server: $schema=iotax.schema.json

DOCUMENT is plan, or one that iotax writes: report (iotax report --json),
comparison (iotax compare --json), trend (iotax trend --json) or run (iotax
export).`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: append([]string{"plan"}, export.Schemas...),
		RunE: func(_ *cobra.Command, args []string) error {
			var b []byte
			var err error
			if len(args) == 0 || args[0] == "plan" {
				b, err = schema.Of(kinds.All())
			} else {
				b, err = export.Schema(args[0])
			}
			if err != nil {
				return err
			}
			_, err = a.out.Write(append(b, '\n'))
			return err
		},
	}
}
