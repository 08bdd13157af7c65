package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/fio"
	"iotax/internal/ingest"
	"iotax/internal/plan"
	"iotax/internal/report/export"
	"iotax/internal/rules"
	"iotax/internal/rules/lint"
	"iotax/internal/suite"
)

// A linter reads what is to be linted.
type linter struct {
	in    io.Reader
	facts lint.Facts
	found []lint.Finding
	files []string // names that are files, for SARIF
	n     int      // of things read
}

func (a *app) lintCommand() *cobra.Command {
	var explain, system string
	var memory plan.Size
	var elsewhere, rules bool
	var out outlet
	c := &cobra.Command{
		Use:   "lint FILE… | DIRECTORY | SUITE | 'fio --name=…'",
		Short: "Find what makes a comparison wrong in jobs, plans and results",
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
				return usageError{&iotax.Error{Op: "lint", Err: errors.New("no file is given"), Hint: "name a job file, a plan, a result, or a command line in quotes; - is standard input"}}
			}
			l := &linter{in: a.in, facts: lintFacts(c.Context(), elsewhere, memory, system)}
			if at := c.ArgsLenAtDash(); at >= 0 && len(args) > at && isFio(args[at]) {
				args = append(slices.Clone(args[:at]), iotax.QuoteAll(args[at:]))
			}
			var failed []error
			for _, arg := range args {
				if err := l.lint(arg); err != nil {
					failed = append(failed, err)
				}
			}
			if l.n > 0 {
				if _, err := out.write(a, func(w io.Writer, format string) error { return a.printFindings(w, l, format) }); err != nil {
					return err
				}
			}
			if len(failed) > 0 {
				return errors.Join(failed...)
			}
			if slices.ContainsFunc(l.found, func(f lint.Finding) bool { return f.Severity == iotax.Invalid }) {
				return exitCode(exitGate)
			}
			return nil
		},
	}
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

func isFio(word string) bool {
	return regexp.MustCompile(`^fio(-[0-9.]+)?(\.exe)?$`).MatchString(filepath.Base(word))
}

// maxLint is the largest text that is linted.
const maxLint = iotax.MaxOutput

// lint reads one argument.
func (l *linter) lint(arg string) error {
	if src, ok := suite.Source(arg); ok {
		return l.text("suite "+arg, string(src))
	}
	if arg == "-" {
		text, err := iotax.ReadAll(l.in, maxLint)
		if err != nil {
			return &iotax.Error{Op: "lint", On: "standard input", Err: err}
		}
		return l.text("standard input", string(text))
	}
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		return l.directory(arg)
	}
	text, err := iotax.ReadFile(arg, maxLint)
	switch {
	case err == nil:
		l.files = append(l.files, arg)
		return l.text(arg, string(text))
	case strings.Contains(arg, " ") && strings.Contains(arg, "fio"):
		return l.command("command", arg)
	case errors.Is(err, fs.ErrNotExist):
		return &iotax.Error{Op: "lint", On: arg, Err: errors.New("the file does not exist"),
			Hint: "name a file, a suite (" + strings.Join(suite.Names(), ", ") + "), or a command line in quotes: 'fio --name=…'"}
	}
	hint := "name files that can be read"
	if errors.As(err, new(*iotax.LimitError)) {
		hint = "name job files, plans and results; iotax import reads longer results"
	}
	return &iotax.Error{Op: "lint", On: arg, Err: cause(err), Hint: hint}
}

var (
	planKey    = regexp.MustCompile(`(?m)^["']?(targets|workloads|machines|measure|baseline)["']?[ \t]*:`)
	fioCommand = regexp.MustCompile(`(?m)(^|[\s/])fio(-[0-9.]+)?[ \t]+(\\\r?\n[ \t]*)?[-\w./]`)
)

// text finds the kind of a text, and lints it.
func (l *linter) text(name, text string) error {
	ext := strings.ToLower(filepath.Ext(name))
	script := scripts[ext] || strings.HasPrefix(text, "#!") && lint.Scripted(text) // it may quote a plan
	switch {
	case ext == ".yaml" || ext == ".yml" || !script && planKey.MatchString(text) && !lint.LooksLikeJob(text):
		return l.plan(name, text)
	case ext == ".fio" || lint.LooksLikeJob(text) && lint.JobText(text):
		return l.job(name, text)
	case script && lint.Scripted(text):
		return l.script(name, text)
	case lint.LooksLikeJob(text) && !fioCommand.MatchString(text):
		return l.job(name, text)
	}
	parts := fio.Read([]byte(text), name)
	if slices.ContainsFunc(parts, func(p fio.Part) bool { return p.Result != nil }) {
		return l.results(name, text)
	}
	switch {
	case parts[0].Kind == fio.KindJobFile:
		return l.job(name, text)
	case fioCommand.MatchString(text):
		return l.script(name, text)
	case parts[0].Kind == fio.KindLog:
		return &iotax.Error{Op: "lint", On: name, Err: errors.New("it is a log of fio, which does not contain the job"), Hint: "lint the job file or the JSON result of the same run"}
	}
	why := errors.New("it is not a job file, fio command line, plan or result of fio")
	if e := parts[0].Err; e != nil {
		why = fmt.Errorf("%w (%v)", why, e)
	}
	return &iotax.Error{Op: "lint", On: name, Err: why, Hint: "a job file begins with [section], a plan has targets: and workloads:"}
}

func (l *linter) job(name, text string) error {
	read := func(n string) ([]byte, error) {
		if n == filepath.ToSlash(name) {
			return []byte(text), nil
		}
		included, err := iotax.ReadFile(filepath.FromSlash(n), fio.MaxJob)
		if err == nil {
			l.files = append(l.files, n)
		}
		return included, err
	}
	found, err := lint.JobFile(filepath.ToSlash(name), read, l.facts)
	if err != nil {
		return &iotax.Error{Op: "lint job file", On: name, Err: err}
	}
	l.add(found)
	return nil
}

// scripts are the endings of files that hold fio commands between other text.
var scripts = map[string]bool{".sh": true, ".bash": true, ".zsh": true, ".ksh": true, ".md": true, ".markdown": true, ".rst": true}

func (l *linter) script(name, text string) error {
	if !lint.Scripted(text) {
		return &iotax.Error{Op: "lint", On: name, Err: errors.New("it contains no fio command and no job file")}
	}
	found, err := lint.Script(name, text, l.facts)
	if err != nil {
		return &iotax.Error{Op: "lint", On: name, Err: err}
	}
	l.add(found)
	return nil
}

// directory lints the job files, plans and scripts with fio commands below a directory. It follows no links, and looks
// into no directory whose name begins with a dot.
func (l *linter) directory(dir string) error {
	before := l.n
	var failed []error
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && path != dir && strings.HasPrefix(e.Name(), ".") {
			return filepath.SkipDir
		}
		if err == nil && e.Type().IsRegular() {
			err = l.inDirectory(path)
		}
		if at, ok := err.(*fs.PathError); ok {
			err = &iotax.Error{Op: "lint", On: path, Err: at.Err}
		}
		failed = append(failed, err)
		return nil
	})
	if err = errors.Join(append(failed, err)...); err == nil && l.n == before {
		err = &iotax.Error{Op: "lint", On: dir, Err: errors.New("the directory contains no job file, plan or script with a fio command")}
	}
	return err
}

// inDirectory lints a file of a directory if it is a job file, a plan or a script with fio commands.
func (l *linter) inDirectory(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() > fio.MaxJob { // no job file is that long
		return err
	}
	text, err := iotax.ReadFile(path, fio.MaxJob)
	if err != nil {
		return err
	}
	s, ext := string(text), strings.ToLower(filepath.Ext(path))
	read := l.job
	switch {
	case ext == ".fio" && !lint.LooksLikeJob(s): // another job file includes it
		return nil
	case ext == ".fio", lint.JobText(s):
	case (ext == ".yaml" || ext == ".yml") && strings.Contains(s, "\nworkloads:") && strings.Contains("\n"+s, "\ntargets:"):
		read = l.plan
	case (scripts[ext] || strings.HasPrefix(s, "#!")) && lint.Scripted(s):
		read = l.script
	default:
		return nil
	}
	l.files = append(l.files, path)
	return read(path, s)
}

func (l *linter) command(name, text string) error {
	found, err := lint.Commands(name, text, func(file string) ([]byte, error) {
		return iotax.ReadFile(filepath.FromSlash(file), fio.MaxJob)
	}, l.facts)
	if err != nil {
		return &iotax.Error{Op: "lint", On: name, Err: err}
	}
	l.add(found)
	return nil
}

func (l *linter) plan(name, text string) error {
	p, err := plan.Parse(name, []byte(text), kinds())
	var wrong plan.Errors
	switch {
	case errors.As(err, &wrong):
		l.add(lint.BadPlan(wrong))
	case err != nil:
		return err
	default:
		l.add(lint.Plan(p, l.facts))
	}
	return nil
}

// results lints what was measured, and the jobs that it was measured with as far as the results show them.
func (l *linter) results(name, text string) error {
	var batch ingest.Batch
	if err := batch.Add(ingest.Source{Name: name}, strings.NewReader(text)); err != nil {
		return &iotax.Error{Op: "lint", On: name, Err: err}
	}
	run, trials, rows, err := batch.Run(version(), time.Now())
	if err != nil {
		return &iotax.Error{Op: "lint", On: name, Err: err}
	}
	var found []lint.Finding
	add := func(line int, f iotax.Finding) {
		f.File, f.Line, f.Column = name, line, 0
		found = append(found, lint.Finding{Finding: f})
	}
	for _, f := range run.Findings {
		add(0, f)
	}
	for _, t := range trials {
		at := 0
		if i := slices.IndexFunc(rows, func(r ingest.Row) bool { return r.Trial == t.Seq }); i >= 0 {
			at = rows[i].Line
		}
		if t.Err != "" && !slices.ContainsFunc(t.Findings, func(f iotax.Finding) bool { return f.Rule == rules.FioError.ID }) {
			add(at, rules.FioErrors(iotax.AboutTrial(t), errors.New(t.Err), nil)[0])
		}
		if id, why, ok := strings.Cut(t.Discarded, ": "); ok {
			r, _ := rules.Explain(id)
			add(at, r.Found(iotax.AboutTrial(t), "%s", why))
		}
		for _, f := range t.Findings {
			add(at, f)
		}
	}
	l.add(found)
	var failed []error
	for _, r := range rows {
		if r.Trial < 0 && r.Reason != "" {
			failed = append(failed, &iotax.Error{Op: "lint", On: fmt.Sprintf("%s:%d", name, r.Line), Err: errors.New(r.Reason)})
		}
	}
	return errors.Join(failed...)
}

func (l *linter) add(found []lint.Finding) {
	l.n++
	l.found = append(l.found, found...)
}

// ruleNames are all ids, in the order of the docs.
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
		return usageError{&iotax.Error{Op: "explain", On: id, Err: errors.New("this rule does not exist"), Hint: hint}}
	}
	if a.json {
		return writeJSON(a.out, ruleJSON(r))
	}
	return printPage(a.out, r.Page(), width(a.out, 100))
}
