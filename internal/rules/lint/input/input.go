// Package input reads the arguments of `iotax lint` (suites, files, directories and commands), detects their kind,
// and lints them.
package input

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
	"time"

	"iotax"
	"iotax/fio"
	"iotax/internal/ingest"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/rules"
	"iotax/internal/rules/lint"
	"iotax/internal/suite"
)

// A Reader collects findings about the inputs that it reads.
type Reader struct {
	In      io.Reader // standard input
	Facts   lint.Facts
	Version string // version of iotax
	Found   []lint.Finding
	Files   []string // the files among the inputs and those that they include, for SARIF
	N       int      // number of inputs that could be linted
}

func failed(on string, err error, hint string) error {
	return &iotax.Error{Op: "lint", On: on, Err: err, Hint: hint}
}

// maxLint is the maximum size in bytes of a text to lint.
const maxLint = iotax.MaxOutput

// Lint lints the input that arg names: a suite, a file, a directory, a command, or "-" for standard input.
func (l *Reader) Lint(arg string) error {
	if src, ok := suite.Source(arg); ok {
		return l.text("suite "+arg, string(src))
	}
	if arg == "-" {
		text, err := iotax.ReadAll(l.In, maxLint)
		if err != nil {
			return failed("standard input", err, "")
		}
		return l.text("standard input", string(text))
	}
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		return l.directory(arg)
	}
	text, err := iotax.ReadFile(arg, maxLint)
	switch {
	case err == nil:
		l.Files = append(l.Files, arg)
		return l.text(arg, string(text))
	case strings.Contains(arg, " ") && strings.Contains(arg, "fio"):
		return l.command("command", arg)
	case errors.Is(err, fs.ErrNotExist):
		if near := plan.Nearest(arg, suite.Names()); near != "" {
			return failed(arg, errors.New("the file does not exist"), "did you mean the suite "+near+"?")
		}
		return failed(arg, errors.New("the file does not exist"), "name a file, a suite ("+strings.Join(suite.Names(), ", ")+"), or a command line in quotes: 'fio --name=…'")
	}
	hint := "name files that can be read"
	if errors.As(err, new(*iotax.LimitError)) {
		hint = "name job files, plans and results; iotax import reads longer results"
	}
	return failed(arg, iotax.Cause(err), hint)
}

var (
	planKey    = regexp.MustCompile(`(?m)^["']?(targets|workloads|machines|measure|baseline)["']?[ \t]*:`)
	fioCommand = regexp.MustCompile(`(?m)(^|[\s/])fio(-[0-9.]+)?[ \t]+(\\\r?\n[ \t]*)?[-\w./]`)
)

// text detects the kind of a text and lints it.
func (l *Reader) text(name, text string) error {
	ext := strings.ToLower(filepath.Ext(name))
	script := scripts[ext] || strings.HasPrefix(text, "#!") && lint.Scripted(text) // a script may quote a plan
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
		return failed(name, errors.New("it is a log of fio, which does not contain the job"), "lint the job file or the JSON result of the same run")
	}
	why := errors.New("it is not a job file, fio command line, plan or result of fio")
	if e := parts[0].Err; e != nil {
		why = fmt.Errorf("%w (%v)", why, e)
	}
	return failed(name, why, "a job file begins with [section], a plan has targets: and workloads:")
}

func (l *Reader) job(name, text string) error {
	read := func(n string) ([]byte, error) {
		if n == filepath.ToSlash(name) {
			return []byte(text), nil
		}
		return l.file(n)
	}
	found, err := lint.JobFile(filepath.ToSlash(name), read, l.Facts)
	return l.add(name, found, err)
}

// scripts lists the extensions of files that may contain fio commands among other text.
var scripts = map[string]bool{".sh": true, ".bash": true, ".zsh": true, ".ksh": true, ".md": true, ".markdown": true, ".rst": true}

func (l *Reader) script(name, text string) error {
	if !lint.Scripted(text) {
		return failed(name, errors.New("it contains no fio command and no job file"), "")
	}
	found, err := lint.Script(name, text, l.Facts)
	return l.add(name, found, err)
}

// directory lints the job files, plans and scripts with fio commands below a directory. It does not follow links, and
// skips hidden directories.
func (l *Reader) directory(dir string) error {
	before := l.N
	var errs []error
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && path != dir && strings.HasPrefix(e.Name(), ".") {
			return filepath.SkipDir
		}
		if err == nil && e.Type().IsRegular() {
			err = l.inDirectory(path)
		}
		if at, ok := err.(*fs.PathError); ok {
			err = failed(path, at.Err, "")
		}
		errs = append(errs, err)
		return nil
	})
	if err = errors.Join(append(errs, err)...); err == nil && l.N == before {
		err = failed(dir, errors.New("the directory contains no job file, plan or script with a fio command"), "")
	}
	return err
}

// inDirectory lints a file of a directory if it is a job file, a plan or a script with fio commands.
func (l *Reader) inDirectory(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() > fio.MaxJob { // no job file is that large
		return err
	}
	text, err := iotax.ReadFile(path, fio.MaxJob)
	if err != nil {
		return err
	}
	s, ext := string(text), strings.ToLower(filepath.Ext(path))
	read := l.job
	switch {
	case ext == ".fio" && !lint.LooksLikeJob(s): // a part that another job file includes
		return nil
	case ext == ".fio", lint.JobText(s):
	case (ext == ".yaml" || ext == ".yml") && strings.Contains(s, "\nworkloads:") && strings.Contains("\n"+s, "\ntargets:"):
		read = l.plan
	case (scripts[ext] || strings.HasPrefix(s, "#!")) && lint.Scripted(s):
		read = l.script
	default:
		return nil
	}
	l.Files = append(l.Files, path)
	return read(path, s)
}

func (l *Reader) command(name, text string) error {
	found, err := lint.Commands(name, text, l.file, l.Facts)
	return l.add(name, found, err)
}

// file reads a job file that an input names.
func (l *Reader) file(name string) ([]byte, error) {
	text, err := iotax.ReadFile(filepath.FromSlash(name), fio.MaxJob)
	if err == nil {
		l.Files = append(l.Files, name)
	}
	return text, err
}

func (l *Reader) plan(name, text string) error {
	p, err := plan.Parse(name, []byte(text), kinds.All())
	var wrong plan.Errors
	if errors.As(err, &wrong) {
		return l.add(name, lint.BadPlan(wrong), nil)
	} else if err != nil {
		return err
	}
	return l.add(name, lint.Plan(p, l.Facts), nil)
}

// results lints the numbers in results, and the job options that the results contain.
func (l *Reader) results(name, text string) error {
	var batch ingest.Batch
	if err := batch.Add(ingest.Source{Name: name}, strings.NewReader(text)); err != nil {
		return failed(name, err, "")
	}
	run, trials, rows, err := batch.Run(l.Version, time.Now())
	if err != nil {
		return failed(name, err, "")
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
	errs := []error{l.add(name, found, nil)}
	for _, r := range rows {
		if r.Trial < 0 && r.Reason != "" {
			errs = append(errs, failed(fmt.Sprintf("%s:%d", name, r.Line), errors.New(r.Reason), ""))
		}
	}
	return errors.Join(errs...)
}

func (l *Reader) add(name string, found []lint.Finding, err error) error {
	if err != nil {
		return failed(name, err, "")
	}
	l.N++
	l.Found = append(l.Found, found...)
	return nil
}
