package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/plan"
	"iotax/internal/report/export"
	"iotax/internal/rules"
	"iotax/internal/rules/lint"
	"iotax/internal/rules/lint/input"
	"iotax/internal/suite"
	"iotax/internal/terminal"
)

func (a *app) lintCommand() *cobra.Command {
	var explain, system string
	var memory plan.Size
	var elsewhere, rules bool
	var out outlet
	c := &cobra.Command{
		Use:   "lint FILE… | DIRECTORY | SUITE | 'fio --name=…'",
		Short: "Find mistakes in jobs, plans and results that spoil a comparison",
		Long: `lint reads fio job files, fio command lines, iotax plans and fio's results, and
reports mistakes: where, why, and a hint. "-" is standard input. Write a command
line in quotes or behind "--"; lint also reads the job files that it names. In
shell scripts and Markdown, lint finds the fio commands and job files, and in a
directory all of these below it.

lint assumes that jobs run on this machine: it reads the machine's memory, its
fio, and the files and devices that the jobs name, and changes nothing. With
--elsewhere it ignores this machine; --memory and --os describe the other one.

The exit status is 3 if a finding is an error.`,
		Example: `  iotax lint test.fio
  iotax lint 'fio --name=a --rw=randread --ioengine=libaio --iodepth=32'
  iotax lint shares.yaml results.json
  iotax lint README.md scripts/
  iotax lint jobs/*.fio -o lint.sarif
  iotax lint --explain libaio-buffered`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(a, c); err != nil {
				return err
			}
			if explain != "" {
				return a.explain(explain)
			}
			if rules {
				return a.listRules()
			}
			if len(args) == 0 {
				return iotax.Usage(&iotax.Error{Op: "lint", Err: errors.New("no file is given"), Hint: "name a job file, a plan, a result, or a command line in quotes; - is standard input"})
			}
			l := &input.Reader{In: a.in, Version: version(), Facts: lintFacts(c.Context(), elsewhere, memory, system)}
			if at := c.ArgsLenAtDash(); at >= 0 && len(args) > at && isFio(args[at]) {
				args = append(slices.Clone(args[:at]), iotax.QuoteAll(args[at:]))
			}
			var failed []error
			for _, arg := range args {
				if err := l.Lint(arg); err != nil {
					failed = append(failed, err)
				}
			}
			if l.N > 0 {
				if _, err := out.write(a, func(w io.Writer, format string) error { return a.printFindings(w, l, format) }); err != nil {
					return err
				}
			}
			if len(failed) > 0 {
				return errors.Join(failed...)
			}
			if slices.ContainsFunc(l.Found, func(f lint.Finding) bool { return f.Severity == iotax.Invalid }) {
				return exitCode(exitGate)
			}
			return nil
		},
	}
	c.ValidArgsFunction = cobra.FixedCompletions(suite.Names(), cobra.ShellCompDirectiveDefault)
	f := c.Flags()
	f.StringVar(&explain, "explain", "", "explain this rule")
	f.BoolVar(&rules, "rules", false, "list all rules, also those that check runs")
	f.BoolVar(&elsewhere, "elsewhere", false, "the jobs run on another machine: ignore this one")
	typedFlag(c, &memory, "memory", "memory of the machine that runs the jobs, as in 64GiB", plan.ParseSize)
	f.StringVar(&system, "os", "", "system of that machine: linux, darwin, windows, freebsd")
	completeBy(c, "explain", cobra.FixedCompletions(ruleNames(), cobra.ShellCompDirectiveNoFileComp))
	complete(c, "os", "linux", "darwin", "windows", "freebsd")
	out.add(c, []string{"txt", "json", "sarif"}, "text")
	return c
}

func (a *app) printFindings(out io.Writer, l *input.Reader, format string) error {
	switch format {
	case "sarif":
		return lint.SARIF(out, version(), l.Found, func(f string) bool { return slices.Contains(l.Files, f) })
	case "json":
		return writeJSON(out, map[string]any{"version": export.Version, "findings": plain(l.Found)})
	}
	return l.Text(out, terminal.Width(out, 100), terminal.Color(out), a.quiet)
}

// plain returns the findings without their source lines. The result is never nil, so that JSON shows an empty list as
// [].
func plain(found []lint.Finding) []iotax.Finding {
	all := []iotax.Finding{}
	for _, f := range found {
		all = append(all, f.Finding)
	}
	return all
}

// lintFacts returns facts about this machine, or about the machine that the flags describe.
func lintFacts(ctx context.Context, elsewhere bool, memory plan.Size, system string) lint.Facts {
	if !elsewhere && memory == 0 && system == "" {
		return input.Here(ctx)
	}
	facts := lint.Facts{Memory: int64(memory), OS: strings.ToLower(system)}
	if facts.OS == "macos" {
		facts.OS = "darwin"
	}
	return facts
}

func isFio(word string) bool {
	return regexp.MustCompile(`^fio(-[0-9.]+)?(\.exe)?$`).MatchString(filepath.Base(word))
}

func ruleNames() []string {
	var names []string
	for _, r := range rules.All() {
		names = append(names, r.ID)
	}
	return names
}

func (a *app) listRules() error {
	if a.json {
		list := []map[string]any{}
		for _, r := range rules.All() {
			list = append(list, ruleJSON(r))
		}
		return writeJSON(a.out, map[string]any{"version": export.Version, "rules": list})
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, r := range rules.All() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.ID, r.Severity, r.Title)
	}
	return w.Flush()
}

func ruleJSON(r rules.Rule) map[string]any {
	return map[string]any{"rule": r.ID, "severity": r.Severity, "title": r.Title, "why": r.Why, "hint": r.Hint, "wrong": r.Bad, "right": r.Good}
}

func (a *app) explain(id string) error {
	r, ok := rules.Explain(id)
	if !ok {
		hint := "iotax lint --rules lists them"
		like := slices.DeleteFunc(ruleNames(), func(n string) bool { return len(id) < 3 || !strings.Contains(n, id) })
		if near := plan.Nearest(id, ruleNames()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		} else if len(like) > 0 {
			hint = "did you mean " + strings.Join(like, " or ") + "?"
		}
		return iotax.Usage(&iotax.Error{Op: "explain", On: id, Err: errors.New("this rule does not exist"), Hint: hint})
	}
	if a.json {
		return writeJSON(a.out, ruleJSON(r))
	}
	return input.Page(a.out, r.Page(), terminal.Width(a.out, 100))
}
