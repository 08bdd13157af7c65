package fio

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"iotax"
)

// A JobSpec is a job as fio runs it: a section of a job file, or a --name of a command line, with all inherited
// options.
type JobSpec struct {
	Name    string   // name of the section, unless the option name= overrides it
	Section *Section // the section that defines the job

	// Settings contains the options that take effect: first the options of the global sections before the job, then
	// the job's own options. If an option is set twice, by any of its names, Settings contains only the later
	// setting, at its own position. direct and buffered count as one option. Values are as written: see Expand.
	Settings []Setting

	// Group is the number of the job's group, from 0. Groups run one after another. A stonewall, even an inherited one,
	// begins a new group, except on the first job.
	Group int
}

// A Setting is one option of a job.
type Setting struct {
	Key, Value string
	Bare       bool // without a value, such as "time_based"

	// The place in the source. File is the name of an included file or, in the result of Command.With, of a job file.
	// Otherwise it is "". Line and Column count from 1, and are 0 if the setting does not come from a text.
	File         string
	Line, Column int

	Global bool // inherited from a global section, or from before the first --name

	// KBBase is the base of k in the value: 1000 or 1024, or 0 for 1024 (see ParseSize). fio applies the kb_base in
	// effect where a size is set, so a job's kb_base does not change inherited sizes.
	KBBase int
}

// String returns the setting as a command-line argument of fio.
func (s Setting) String() string {
	if s.Bare {
		return "--" + s.Key
	}
	return "--" + s.Key + "=" + s.Value
}

// Get returns the setting of an option by any of its names, and whether the job sets the option.
func (j *JobSpec) Get(key string) (Setting, bool) {
	key = Canonical(key)
	for _, s := range j.Settings {
		if Canonical(s.Key) == key {
			return s, true
		}
	}
	return Setting{}, false
}

// On reports whether a boolean option is set, either without a value or to a value other than 0.
func (j *JobSpec) On(key string) bool {
	s, ok := j.Get(key)
	return ok && (s.Bare || s.Value != "0")
}

// WaitFor returns the name of the job that must end before this job starts, or "".
func (j *JobSpec) WaitFor() string {
	s, _ := j.Get("wait_for")
	return s.Value
}

// Jobs returns the jobs of the file in order. With names, it returns only the jobs of sections with these names, like
// fio's --section.
func (f *JobFile) Jobs(names ...string) []JobSpec { return jobs(f.Sections, names, true) }

// With returns the jobs of the command and of `files`, the job files that the command names. Options before the first
// --name also apply to the first file. Each later file starts with default options, after the earlier jobs have ended.
func (c *Command) With(files []*JobFile) []JobSpec {
	var out []JobSpec
	sections := slices.Clone(c.Sections)
	for i, f := range files {
		for _, s := range f.Sections {
			own := *s
			own.File = f.Name
			sections = append(sections, &own)
		}
		more := jobs(sections, c.names(), false)
		if i > 0 && len(more) > 0 && len(out) > 0 {
			for k := range more {
				more[k].Group += out[len(out)-1].Group + 1
			}
		}
		out, sections = append(out, more...), nil
	}
	return append(out, jobs(sections, c.names(), false)...)
}

// Job returns the settings of the job with this name, or of the only job if name is "". "name#2" selects the second of
// several jobs with the same name.
func (f *JobFile) Job(name string) ([]Setting, error) {
	j, err := pick(f.Jobs(), name)
	if err != nil {
		return nil, fmt.Errorf("the job file %w", err)
	}
	return j.Settings, nil
}

// Labels returns a unique name for each job: the second job named "a" is "a#2".
func Labels(jobs []JobSpec) []string {
	seen := map[string]int{}
	var out []string
	for _, j := range jobs {
		seen[j.Name]++
		if n := seen[j.Name]; n > 1 {
			out = append(out, j.Name+"#"+strconv.Itoa(n))
		} else {
			out = append(out, j.Name)
		}
	}
	return out
}

// pick returns the job with this label (see Labels), or the only job if label is "".
func pick(jobs []JobSpec, label string) (*JobSpec, error) {
	labels := Labels(jobs)
	switch {
	case len(jobs) == 0:
		return nil, errors.New("has no section besides [global]")
	case label == "" && len(jobs) > 1:
		return nil, fmt.Errorf("has several sections: %s", strings.Join(labels, ", "))
	case label == "":
		return &jobs[0], nil
	}
	i := slices.Index(labels, label)
	if i < 0 {
		return nil, fmt.Errorf("has no section %q; it has %s", label, strings.Join(labels, ", "))
	}
	if slices.Contains(labels, label+"#2") {
		return nil, fmt.Errorf("has several sections named %s: write %s#2 for the second, and give the first a name of its own", label, label)
	}
	return &jobs[i], nil
}

// fio reads the early options of a section before the others, and the late ones after them (.prio in options.c). It
// reads a command line from left to right.
var (
	early = []string{"kb_base", "unit_base", "lockfile", "cpus_allowed_policy"}
	late  = []string{"filename", "filename_format"}
)

func rank(key string) int {
	switch key = Canonical(key); {
	case slices.Contains(early, key):
		return -1
	case slices.Contains(late, key):
		return 1
	}
	return 0
}

// jobs returns the jobs of the sections with their inherited options. If `names` is not empty, it returns only the jobs
// of sections with these names. If `sorted` is set, the options have the order in which fio applies them. Otherwise see
// Section.read.
func jobs(sections []*Section, names []string, sorted bool) []JobSpec {
	var out []JobSpec
	var defaults []Setting
	defaultBase, group := 1024, 0
	for _, sec := range sections {
		global := sec.Global()
		if !global && len(names) > 0 && !slices.Contains(names, sec.Name) {
			continue
		}
		own, base := sec.read(sorted, defaultBase)
		if global {
			defaults, defaultBase = append(defaults, own...), base
			continue
		}
		j := JobSpec{Name: sec.Name, Section: sec, Settings: latest(append(slices.Clone(defaults), own...))}
		if s, ok := j.Get("name"); ok {
			j.Name = s.Value
		}
		if len(out) > 0 && j.On("stonewall") {
			group++
		}
		j.Group = group
		out = append(out, j)
	}
	return out
}

// Settings returns the section's own options in the order in which fio reads them.
func (sec *Section) Settings() []Setting {
	out, _ := sec.read(true, 1024)
	return out
}

// read is like Settings, but sorts the options only if `sorted` is set, or if Command.With set the section's File.
// `base` is the kb_base in effect before the section. read also returns the kb_base in effect after the section.
func (sec *Section) read(sorted bool, base int) ([]Setting, int) {
	own := settings(nil, sec.Lines, sec.File)
	if sorted || sec.File != "" {
		slices.SortStableFunc(own, func(a, b Setting) int { return rank(a.Key) - rank(b.Key) })
	}
	for i := range own {
		own[i].Global = sec.Global()
		if Canonical(own[i].Key) == "kb_base" {
			if n, err := strconv.Atoi(own[i].Value); err == nil && (n == 1000 || n == 1024) {
				base = n
			}
		}
		own[i].KBBase = base
	}
	return own, base
}

// settings appends the options in lines to out. It inserts options of included files at the include line.
func settings(out []Setting, lines []Line, file string) []Setting {
	for _, l := range lines {
		switch {
		case l.Included != nil:
			out = settings(out, l.Included.Head, l.Included.Name)
		case l.Key != "":
			out = append(out, Setting{Key: l.Key, Value: l.Value, Bare: l.Bare, File: file, Line: l.Number, Column: l.Column})
		}
	}
	return out
}

// latest returns the last setting of each option, at its original position. It keeps the positions because the
// meaning of a setting may depend on earlier settings.
func latest(all []Setting) []Setting {
	last := map[string]int{}
	for i, s := range all {
		last[variable(s.Key)] = i
	}
	var out []Setting
	for i, s := range all {
		if last[variable(s.Key)] == i {
			out = append(out, s)
		}
	}
	return out
}

// variable returns the canonical name of an option, or "direct" for buffered, which sets the inverse of direct.
func variable(key string) string {
	if key = Canonical(key); key == "buffered" {
		return "direct"
	}
	return key
}

// Canonical returns the primary name of an option for any of its names. It returns unknown names unchanged.
func Canonical(key string) string {
	if o, ok := LookupOption(key); ok {
		return o.Name
	}
	return key
}

// Args returns the fio arguments that run the jobs, without the program. The first job of each later group has
// --stonewall. In each job, --ioengine precedes all other options, because fio's command line accepts engine options
// only after it. fio does not replace variables on its command line, so call Expand first.
func Args(jobs []JobSpec) []string {
	var args []string
	for i, j := range jobs {
		args = append(args, "--name="+j.Name)
		if engine, ok := j.Get("ioengine"); ok {
			args = append(args, engine.String())
		}
		base := 1024 // fio resets kb_base at each --name
		for _, s := range j.Settings {
			switch Canonical(s.Key) {
			case "name", "ioengine", "kb_base":
				continue // kb_base is written below
			}
			if b := s.KBBase; b != 0 && b != base {
				base = b
				args = append(args, "--kb_base="+strconv.Itoa(b))
			}
			args = append(args, s.String())
		}
		if i > 0 && j.Group > jobs[i-1].Group && !j.On("stonewall") {
			args = append(args, "--stonewall")
		}
	}
	return args
}

// CommandLine returns the jobs as a fio command for a POSIX shell. As for Args, call Expand first.
func CommandLine(jobs []JobSpec) string {
	return iotax.QuoteAll(append([]string{"fio"}, Args(jobs)...))
}
