package fio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A JobFile is a job file, line by line: what is not changed is written back as it was read.
type JobFile struct {
	Head     []Line // before the first section
	Sections []*Section
}

// A Section is a job, or options for the jobs after it when it is named "global".
type Section struct {
	Name   string
	Header Line
	Lines  []Line
}

// A Line is one line of a job file. Key is empty on lines that hold no option.
type Line struct {
	Text   string // as it stands, end of line included
	Number int    // from 1; 0 for lines that were added
	Key    string
	Value  string
	Bare   bool // the option stands without "=value"
}

// A Setting is one option of a job.
type Setting struct {
	Key, Value string
	Bare       bool // without a value: "time_based"
	Line       int  // in the job file; 0 elsewhere
}

// String writes the setting as an argument of fio's command line.
func (s Setting) String() string {
	if s.Bare {
		return "--" + s.Key
	}
	return "--" + s.Key + "=" + s.Value
}

// A JobError says what is wrong with a line of a job file.
type JobError struct {
	Line int
	Msg  string
}

func (e *JobError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

// ParseJob reads a job file. All errors are *JobError; the file is returned as far as it could be
// understood.
func ParseJob(text string) (*JobFile, error) {
	f := &JobFile{}
	var errs []error
	var cur *Section
	n := 0
	for raw := range strings.Lines(text) {
		n++
		line := Line{Text: raw, Number: n}
		s := strings.TrimSpace(raw)
		if s == "" || s[0] == ';' || s[0] == '#' {
			add(f, cur, line)
			continue
		}
		// fio ends a line at the first comment character, wherever it stands.
		if i := strings.IndexAny(s, ";#"); i >= 0 {
			s = strings.TrimSpace(s[:i])
		}
		if s[0] == '[' {
			name, ok := strings.CutSuffix(s[1:], "]")
			if !ok || name == "" {
				errs = append(errs, &JobError{n, fmt.Sprintf("%q is no section header", s)})
				add(f, cur, line)
				continue
			}
			cur = &Section{Name: name, Header: line}
			f.Sections = append(f.Sections, cur)
			continue
		}
		key, value, ok := strings.Cut(s, "=")
		line.Key, line.Value, line.Bare = strings.TrimSpace(key), strings.TrimSpace(value), !ok
		switch {
		case !ok && strings.HasPrefix(s, "include "):
			errs = append(errs, &JobError{n, "include is not supported here: put the included lines into the file"})
			line.Key = ""
		case line.Key == "":
			errs = append(errs, &JobError{n, fmt.Sprintf("%q has no option name", s)})
		case cur == nil:
			errs = append(errs, &JobError{n, fmt.Sprintf("%s stands before the first [section]", line.Key)})
			line.Key = ""
		}
		add(f, cur, line)
	}
	return f, errors.Join(errs...)
}

func add(f *JobFile, cur *Section, line Line) {
	if cur == nil {
		f.Head = append(f.Head, line)
		return
	}
	cur.Lines = append(cur.Lines, line)
}

// String writes the job file.
func (f *JobFile) String() string {
	var b strings.Builder
	for _, l := range f.Head {
		b.WriteString(l.Text)
	}
	for _, s := range f.Sections {
		b.WriteString(s.Header.Text)
		for _, l := range s.Lines {
			b.WriteString(l.Text)
		}
	}
	return b.String()
}

func (s *Section) global() bool { return strings.EqualFold(s.Name, "global") }

// Names lists the jobs of the file in order, without the global sections.
func (f *JobFile) Names() []string {
	var names []string
	for _, s := range f.Sections {
		if !s.global() {
			names = append(names, s.Name)
		}
	}
	return names
}

// Job returns what fio would run as the job of that name: the options of the global sections before
// it, then its own; of an option set twice the later stays. An empty name means the only job.
func (f *JobFile) Job(name string) ([]Setting, error) {
	names := f.Names()
	switch {
	case len(names) == 0:
		return nil, errors.New("the job file has no section besides [global]")
	case name == "" && len(names) > 1:
		return nil, fmt.Errorf("the job file has several sections: %s", strings.Join(names, ", "))
	case name == "":
		name = names[0]
	}
	var all []Setting
	found := false
	for _, s := range f.Sections {
		if !s.global() && s.Name != name {
			continue
		}
		if found && !s.global() {
			return nil, fmt.Errorf("the job file has several sections named %s", name)
		}
		if found {
			break // a global section after the job does not touch it
		}
		found = !s.global()
		for _, l := range s.Lines {
			if l.Key != "" {
				all = append(all, Setting{Key: l.Key, Value: l.Value, Bare: l.Bare, Line: l.Number})
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("the job file has no section %q; it has %s", name, strings.Join(names, ", "))
	}
	return latest(all), nil
}

// latest keeps the last of the settings of each option, aliases being the same option.
func latest(all []Setting) []Setting {
	at := map[string]int{}
	var out []Setting
	for _, s := range all {
		key := Canonical(s.Key)
		if i, ok := at[key]; ok {
			out[i] = s
			continue
		}
		at[key] = len(out)
		out = append(out, s)
	}
	return out
}

// Canonical returns the name of an option for any of its names; what is unknown stays as it is.
func Canonical(key string) string {
	if o, ok := LookupOption(key); ok {
		return o.Name
	}
	return key
}

// Set gives an option of the section a value: in its line if it has one, else in a line after the
// last option.
func (s *Section) Set(key, value string) {
	text := key + "=" + value + "\n"
	last := -1
	for i := range s.Lines {
		l := &s.Lines[i]
		if l.Key == "" {
			continue
		}
		if last = i; Canonical(l.Key) == Canonical(key) {
			*l = Line{Text: text, Number: l.Number, Key: key, Value: value}
			return
		}
	}
	before := &s.Header
	if last >= 0 {
		before = &s.Lines[last]
	}
	if !strings.HasSuffix(before.Text, "\n") {
		before.Text += "\n"
	}
	s.Lines = slices.Insert(s.Lines, last+1, Line{Text: text, Key: key, Value: value})
}

// Expand replaces ${NAME} by the variable NAME, and fio's own $ncpus, $mb_memory and $pagesize by
// the variables of those names. A value in which one of fio's was replaced is arithmetic to fio, so
// it is evaluated if it has an operator.
func Expand(value string, vars func(name string) (string, bool)) (string, error) {
	var b strings.Builder
	own := false
	for rest := value; ; {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		rest = rest[i:]
		name, n := "", 0
		if strings.HasPrefix(rest, "${") {
			end := strings.IndexByte(rest, '}')
			if end < 0 {
				return "", fmt.Errorf("%q has no closing }", value)
			}
			name, n = rest[2:end], end+1
		} else {
			for _, k := range []string{"ncpus", "mb_memory", "pagesize"} {
				if strings.HasPrefix(rest[1:], k) {
					name, n, own = k, len(k)+1, true
					break
				}
			}
		}
		if n == 0 { // $jobnum and the like are for fio itself
			b.WriteByte('$')
			rest = rest[1:]
			continue
		}
		v, ok := vars(name)
		if !ok {
			return "", fmt.Errorf("the variable %s in %q has no value", name, value)
		}
		b.WriteString(v)
		rest = rest[n:]
	}
	out := b.String()
	if own && strings.ContainsAny(out, "+-*/%()") {
		n, err := evaluate(out, 1024)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(n), nil
	}
	return out, nil
}
