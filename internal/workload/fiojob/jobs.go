package fiojob

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"iotax"
	"iotax/fio"
	"iotax/internal/plan"
	"iotax/internal/rules"
)

// The jobs of a workload can come from a job file or a command line instead of plan keys. Without `jointly`, each job
// becomes a separate workload, so that iotax compares the targets for each job.

// Split turns each job in a job file or a command line into a workload. With `jointly`, it turns each group of jobs that
// run at the same time into one workload. The parts do not need the job file: each contains its jobs as a command line,
// so a resolved plan is complete.
func (f *Fio) Split(dir string) ([]plan.Part, error) {
	if f.File == "" && f.Command == "" {
		return []plan.Part{{Spec: f}}, nil
	}
	src, err := f.read(dir)
	if err != nil {
		return nil, err
	}
	var parts []plan.Part
	reported := map[string]bool{}
	for i := 0; i < len(src.jobs); {
		end := i + 1
		for f.Jointly && end < len(src.jobs) && src.jobs[end].Group == src.jobs[i].Group {
			end++
		}
		var jobs []fio.JobSpec
		for _, j := range src.jobs[i:end] {
			if f.Jointly && j.WaitFor() != "" {
				return nil, &plan.FieldError{Field: f.field(), Msg: fmt.Sprintf("%s waits for %s (wait_for), so the jobs that run together change during the run", j.Name, j.WaitFor()), Hint: "write stonewall in place of wait_for, or leave out jointly"}
			}
			jobs = append(jobs, alone(j))
		}
		s := *f
		s.File, s.Section, s.Command = "", "", fio.CommandLine(jobs)
		s.settings = slices.Clone(f.settings)
		s.source = &source{file: src.file, jobs: src.jobs[i:end], ignored: src.ignored, reported: reported}
		p := plan.Part{Spec: &s, Name: strings.Join(src.labels[i:end], "+")}
		if e := s.outOfBounds(); e != nil {
			e.Field, e.Msg = f.field(), p.Name+": "+e.Field+": "+e.Msg
			return nil, e
		}
		if i == 0 && !f.Jointly {
			s.source.together = src.together
		}
		if end-i < len(src.jobs) {
			p.Label = plan.Option{Key: src.word, Value: p.Name}
		}
		parts = append(parts, p)
		i = end
	}
	return parts, nil
}

// alone returns a job without the options that order it relative to other jobs.
func alone(j fio.JobSpec) fio.JobSpec {
	j.Settings = slices.DeleteFunc(slices.Clone(j.Settings), func(s fio.Setting) bool { return slices.Contains(order, fio.Canonical(s.Key)) })
	j.Group = 0
	return j
}

// A source is a parsed job file or command line.
type source struct {
	file     string // path of the job file; "" for a command line
	jobs     []fio.JobSpec
	labels   []string
	word     string   // name of a job in messages: section or job
	ignored  []string // parts of the command line for fio itself or the shell, which iotax ignores
	together []string // groups of jobs that fio would have run at the same time

	reported map[string]bool // options that a finding has reported for any job of the source; "" means all of `ignored`
}

// foreign lists options of fio itself that prevent it from running the job on this machine.
var foreign = []string{"client", "server", "daemonize", "remote-config", "profile", "inflate-log", "cpuclock-test", "crctest", "memcpytest",
	"merge-blktrace-only", "help", "version", "cmdhelp", "enghelp", "showcmd", "parse-only", "trigger", "trigger-remote"}

// read parses the job file or the command. Its errors are *plan.FieldError.
func (f *Fio) read(dir string) (*source, error) {
	src := &source{word: "section"}
	file, sections := f.File, []string(nil)
	var inherited []*fio.Section
	if f.Command != "" {
		c, err := fio.ParseCommand(f.Command)
		if err != nil {
			return nil, commandError(f.Command, err)
		}
		fail := func(at fio.Setting, hint, format string, args ...any) error {
			return commandError(f.Command, &fio.JobError{Line: at.Line, Column: at.Column, Msg: fmt.Sprintf(format, args...), Hint: hint})
		}
		for _, o := range c.Options {
			switch {
			case slices.Contains(foreign, o.Key):
				return nil, fail(o, "leave it out", "with %s fio would not run the job here", o)
			case o.Key == "section":
				sections = append(sections, o.Value)
			case o.Key != "readonly":
				src.ignored = append(src.ignored, o.String())
			}
		}
		if len(c.Wrapper) > 0 && c.Wrapper[0] != "sudo" && c.Wrapper[0] != "time" {
			src.ignored = append(src.ignored, strings.Join(c.Wrapper, " "))
		}
		src.ignored = append(src.ignored, c.Ignored...)
		switch {
		case len(c.Files) == 0:
			src.word, src.jobs = "job", c.Jobs()
		case len(c.Files) > 1 || !slices.ContainsFunc(c.Sections, func(s *fio.Section) bool { return !s.Global() }):
			if len(c.Files) > 1 {
				return nil, fail(fio.Setting{Line: 1}, "make a workload of each", "the command has several job files: %s", strings.Join(c.Files, ", "))
			}
			file, inherited = c.Files[0], c.Sections
		default:
			return nil, fail(fio.Setting{Line: 1}, "make a workload of each", "the command has a --name and the job file %s", c.Files[0])
		}
	}
	if file != "" {
		if err := src.readFile(dir, file, inherited, sections); err != nil {
			var fe *plan.FieldError
			if errors.As(err, &fe) && f.Command != "" {
				fe.Field = "command"
			}
			return nil, err
		}
	}
	src.labels = fio.Labels(src.jobs)
	if len(src.jobs) == 0 {
		what := "it"
		if src.file != "" {
			what = src.file
		}
		return nil, &plan.FieldError{Field: f.field(), Msg: what + " has no job besides [global]", Hint: "add a section with a name, as in [randread]"}
	}
	if f.Section != "" {
		i := slices.Index(src.labels, f.Section)
		if i < 0 {
			e := &plan.FieldError{Field: "section", Msg: fmt.Sprintf("there is no section %q; there is %s", f.Section, strings.Join(src.labels, ", ")), Hint: "section: " + src.labels[0]}
			if n := plan.Nearest(f.Section, src.labels); n != "" {
				e.Hint = "section: " + n
			}
			return nil, e
		}
		src.jobs, src.labels = src.jobs[i:i+1], src.labels[i:i+1]
	}
	if err := refusals(src.jobs); err != nil {
		return nil, f.refusal(src, err)
	}
	src.together = together(src.jobs, src.labels)
	return src, nil
}

// refusal converts an error of the function `refusals` to an error of the field that contains the jobs.
func (f *Fio) refusal(src *source, err error) error {
	var je *fio.JobError
	if src.file == "" || !errors.As(err, &je) {
		return commandError(f.Command, err)
	}
	at := *je
	at.Hint, at.Column = "", 0
	return &plan.FieldError{Field: f.field(), Msg: fmt.Sprintf("read job file %s: %v", src.file, &at), Hint: je.Hint}
}

// field returns the key that contains the jobs.
func (f *Fio) field() string {
	if f.Command != "" {
		return "command"
	}
	return "file"
}

func commandError(text string, err error) error {
	fe := &plan.FieldError{Field: "command", Msg: err.Error()}
	var je *fio.JobError
	if errors.As(err, &je) {
		fe.Hint = je.Hint
		if !strings.Contains(strings.TrimSpace(text), "\n") {
			fe.Msg, fe.Column = je.Msg, je.Column // the caret shows the position
		}
	}
	return fe
}

// readFile reads a job file. A relative path is relative to dir. The jobs of the file inherit the options of
// `inherited`, which precede the file on a command line. With `sections`, readFile keeps only the jobs with these
// names.
func (src *source) readFile(dir, name string, inherited []*fio.Section, sections []string) error {
	src.file = name
	if !filepath.IsAbs(name) && dir != "" {
		src.file = filepath.Join(dir, name)
	}
	fail := func(err error, hint string) error {
		return &plan.FieldError{Field: "file", Msg: fmt.Sprintf("read job file %s: %s", src.file, strings.ReplaceAll(err.Error(), "\n", "; ")), Hint: hint}
	}
	file, err := fio.ReadJob(filepath.ToSlash(src.file), func(name string) ([]byte, error) {
		text, err := iotax.ReadFile(filepath.FromSlash(name), fio.MaxJob)
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // fail adds the path
		}
		return text, err
	})
	var je *fio.JobError
	switch {
	case errors.Is(err, os.ErrNotExist) && file == nil:
		return fail(os.ErrNotExist, "the path counts from the folder of the plan, or of the command")
	case errors.As(err, &je):
		// fail adds the path of the job file, so remove the path from the message.
		return fail(errors.New(strings.ReplaceAll(err.Error(), filepath.ToSlash(src.file)+", ", "")), je.Hint)
	case err != nil:
		return fail(err, "")
	}
	file.Sections = append(slices.Clone(inherited), file.Sections...)
	src.jobs = file.Jobs(sections...)
	if len(src.jobs) == 0 && len(sections) > 0 {
		return fail(fmt.Errorf("it has no section %s", strings.Join(sections, ", ")), "it has "+strings.Join(file.Names(), ", "))
	}
	return nil
}

// together lists the groups of jobs that fio would have run at the same time. It leaves out jobs that wait for another
// job by name.
func together(jobs []fio.JobSpec, labels []string) (out []string) {
	groups := map[int][]string{}
	for i, j := range jobs {
		if j.WaitFor() == "" {
			groups[j.Group] = append(groups[j.Group], labels[i])
		}
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if len(groups[g]) > 1 {
			out = append(out, strings.Join(groups[g], ", "))
		}
	}
	return out
}

// findings reports what iotax does differently from the job file or the command.
func (j *fioJob) findings() []iotax.Finding {
	src := j.spec.source
	if src == nil {
		return nil
	}
	var out []iotax.Finding
	where := "the command"
	if src.file != "" {
		where = path.Base(filepath.ToSlash(src.file))
	}
	for _, g := range src.together {
		f := rules.JobsRunAlone.Found(iotax.AboutRun(), "%s: without a stonewall between them, fio would run %s at the same time; here each is a workload of its own, and runs alone", where, g)
		f.File = src.file
		out = append(out, f)
	}
	var words []string
	for _, s := range j.overridden {
		word := strings.TrimPrefix(s.String(), "--")
		if src.reported[word] {
			continue // a finding has reported it for another job
		}
		src.reported[word] = true
		if key, ok := strings.CutPrefix(decided[fio.Canonical(s.Key)], "measure: {"); ok {
			key, _, _ = strings.Cut(key, ":")
			word += " (see measure." + key + ")"
		}
		words = append(words, word)
	}
	if !src.reported[""] {
		words = append(words, src.ignored...)
		src.reported[""] = true
	}
	if len(words) > 0 {
		f := rules.SetByIotax.Found(iotax.AboutRun(), "%s: iotax decides these itself: %s", where, strings.Join(words, ", "))
		f.File = src.file
		if len(j.overridden) > 0 && j.overridden[0].File == "" {
			f.Line, f.Column = j.overridden[0].Line, j.overridden[0].Column
		}
		out = append(out, f)
	}
	return out
}

// unrecognized matches fio's message about an unknown option, and captures the option.
var unrecognized = regexp.MustCompile(`unrecognized option '--?([^'=]+)`)

// refused explains why a target's fio rejects the job, based on fio's message.
func (j *fioJob) refused(st *fioState, message string) (hint string, err error) {
	m := unrecognized.FindStringSubmatch(message)
	if m == nil {
		return "correct the option", fmt.Errorf("%s: %s", st.tool.Version, message)
	}
	name := m[1]
	where := ""
	all := slices.Clone(j.settings)
	for _, p := range j.beside {
		all = append(all, p.settings...)
	}
	for _, s := range all {
		if s.Key == name && s.Line > 0 {
			where = (&fio.JobError{File: cmp.Or(s.File, j.spec.source.file), Line: s.Line}).Error()
		}
	}
	o, known := fio.LookupOption(name)
	switch {
	case known && o.NewerThan(st.tool.Version):
		err, hint = fmt.Errorf("the option %s came with fio %s; here is %s", name, o.Since, st.tool.Version), "remove it, or install fio "+o.Since+" or later there"
	case known && o.Engine != "" && o.Engine != st.engine:
		err, hint = fmt.Errorf("the option %s is one of the engine %s; the job runs with %s", name, o.Engine, st.engine), "remove it, or write ioengine: "+o.Engine
	default:
		err, hint = fmt.Errorf("%s was built without the option %s", st.tool.Version, name), "remove it, or use another build of fio there"
	}
	if where != "" {
		err = fmt.Errorf("%s%w", where, err)
	}
	return hint, err
}
