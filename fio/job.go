package fio

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"iotax"
)

// A JobFile is a job file, line by line: what is not changed is written back as it was read.
//
// It is read as fio's own parser does (init.c of 3.33, with fio as the judge in the tests): a line
// ends at the first ; or #, wherever it stands, so neither can be part of a value. Where fio takes a slip silently (a
// header without its bracket loses a letter), the reader here says that it is one.
type JobFile struct {
	Name     string // as it was given to ReadJob; "" when only the text is known
	Head     []Line // before the first section; of an included file, everything
	Sections []*Section
}

// A Section is a job, or options for the jobs after it when its name begins with "global".
type Section struct {
	Name   string
	File   string // the job file of a command that it comes from, see Command.With
	Header Line
	Lines  []Line
}

// A Line is one line of a job file, or one word of a command line. Key is empty on lines that hold no
// option.
type Line struct {
	Text     string // as it stands, end of line included
	Number   int    // from 1; 0 for lines that were added
	Column   int    // of the key, in characters from 1
	Key      string
	Value    string
	Bare     bool     // the option stands without "=value"
	Included *JobFile // what `include FILE` put here; only its Head has lines
}

// A JobError says what is wrong with a line of a job file, or of a command line.
type JobError struct {
	File   string // "" when only the text is known
	Line   int    // from 1; 0 when it is about the whole
	Column int    // in characters from 1; 0 when it is about the whole line
	Msg    string
	Hint   string // "" when nothing is known

	Accepted bool // fio reads on, but not what was meant
}

func (e *JobError) Error() string {
	var at []string
	if e.File != "" {
		at = append(at, e.File)
	}
	if e.Line > 0 {
		at = append(at, fmt.Sprintf("line %d", e.Line))
	}
	if e.Column > 0 {
		at = append(at, fmt.Sprintf("character %d", e.Column))
	}
	if len(at) == 0 {
		return e.Msg
	}
	return strings.Join(at, ", ") + ": " + e.Msg
}

// ParseJob reads the text of a job file that includes no other. All errors are *JobError, joined; the
// file is returned as far as it could be understood.
func ParseJob(text string) (*JobFile, error) {
	p := jobParser{}
	f := p.file("", text)
	return f, errors.Join(p.errs...)
}

// ReadJob reads the job file of that name, and those that it includes, through read. The name of an
// included file counts from the folder of the file that includes it. (fio looks into its working
// directory first, which says something else on every machine.) What read returns on failure is
// wrapped; all other errors are *JobError.
func ReadJob(name string, read func(name string) ([]byte, error)) (*JobFile, error) {
	text, err := read(name)
	if err != nil {
		return nil, err
	}
	p := jobParser{read: read, open: []string{path.Clean(name)}}
	f := p.file(name, string(text))
	return f, errors.Join(p.errs...)
}

// MaxJob is how long a job file with all that it includes may be, in bytes.
const MaxJob = 4 << 20

// maxLine is fio's OPT_LEN_MAX: a longer line is read as two.
const maxLine = 4096

// maxIncludes bounds how deep files include each other, and maxIncluded how many there are in all.
const (
	maxIncludes = 20
	maxIncluded = 1000
)

type jobParser struct {
	read func(name string) ([]byte, error)
	open []string // the files that are being read, each included by the one before it
	errs []error

	included int
	size     int // bytes read
}

// nested reports whether an included file is being read.
func (p *jobParser) nested() bool { return len(p.open) > 1 }

func (p *jobParser) file(name, text string) *JobFile {
	f := &JobFile{Name: name}
	var cur *Section
	if p.size += len(text); p.size > MaxJob {
		p.errs = append(p.errs, &JobError{File: name, Msg: "with the files that it includes, " + (&iotax.LimitError{Limit: MaxJob}).Error(), Hint: "split the job file"})
		return f
	}
	n := 0
	for raw := range strings.Lines(text) {
		n++
		line := Line{Text: raw, Number: n}
		fail := func(hint, format string, args ...any) {
			p.errs = append(p.errs, &JobError{File: name, Line: n, Msg: fmt.Sprintf(format, args...), Hint: hint})
		}
		s := option(raw)
		switch {
		case s == "":
		case len(raw) >= maxLine:
			fail("", "the line is longer than %d bytes: fio would read it as two", maxLine-2)
		case strings.IndexByte(s, 0) >= 0:
			fail("", "the line holds a NUL byte, where fio stops reading it")
		case s[0] == '[':
			section, ok := strings.CutSuffix(s[1:], "]")
			switch {
			case !ok && section == "":
				fail("give the job a name, as in [randread]", "the section has no name")
			case !ok:
				fail("write ["+strings.TrimRight(section, " ]")+"]", "%q has no closing bracket: fio drops its last character instead", s)
				p.errs[len(p.errs)-1].(*JobError).Accepted = true
			case section == "":
				fail("give the job a name, as in [randread]", "the section has no name")
			case p.nested():
				fail("put the section into the file that includes this one", "fio takes no section in an included file")
			default:
				line.Column = column(raw)
				cur = &Section{Name: section, Header: line}
				f.Sections = append(f.Sections, cur)
				continue
			}
		case cur == nil && !p.nested():
			fail("begin with [global], or the name of a job in brackets", "%s stands before the first [section]", strings.TrimSpace(strings.SplitN(s, "=", 2)[0]))
		case strings.HasPrefix(s, "include"):
			line.Column = column(raw)
			line.Included = p.include(name, n, s[len("include"):])
		default:
			key, value, ok := strings.Cut(s, "=")
			line.Key, line.Value, line.Bare = trim(key), value, !ok
			line.Column = column(raw)
			if line.Key == "" {
				fail("", "%q has no option name", s)
			}
		}
		if cur == nil {
			f.Head = append(f.Head, line)
		} else {
			cur.Lines = append(cur.Lines, line)
		}
	}
	return f
}

// include reads the file that a line of file names. rest is what follows the word: any one character,
// and the name.
func (p *jobParser) include(file string, n int, rest string) *JobFile {
	fail := func(hint, format string, args ...any) *JobFile {
		p.errs = append(p.errs, &JobError{File: file, Line: n, Msg: fmt.Sprintf(format, args...), Hint: hint})
		return nil
	}
	if rest == "" || trim(rest[1:]) == "" {
		return fail("write include FILE", "include names no file")
	}
	if _, size := utf8.DecodeRuneInString(rest); size > 1 || isBlank(rest[1]) {
		return fail("write include FILE, with one space", "fio takes exactly one character between include and the name")
	}
	name := rest[1:]
	if p.read == nil {
		return fail("put the lines of "+name+" here", "include is not supported here, because the text comes from no file")
	}
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(file), name)
	}
	name = path.Clean(name)
	if i := slices.Index(p.open, name); i >= 0 {
		return fail("remove one of the includes", "the files include each other: %s", strings.Join(append(slices.Clone(p.open[i:]), name), " → "))
	}
	if len(p.open) > maxIncludes {
		return fail("", "more than %d files include each other", maxIncludes)
	}
	if p.included++; p.included > maxIncluded {
		if p.included > maxIncluded+1 {
			return nil // said
		}
		return fail("", "more than %d files are included", maxIncluded)
	}
	text, err := p.read(name)
	if err != nil {
		return fail("the name counts from the folder of the file that includes it", "include %s: %v", name, err)
	}
	p.open = append(p.open, name)
	defer func() { p.open = p.open[:len(p.open)-1] }()
	return p.file(name, string(text))
}

// isBlank is isspace of C's own locale.
func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func trim(s string) string {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	// At the end fio drops control characters too.
	return strings.TrimRightFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// option is what fio reads of a line: without the comment, and blanks at both ends.
func option(line string) string {
	if i := strings.IndexAny(line, ";#"); i >= 0 {
		line = line[:i]
	}
	return trim(line)
}

// column is the character of a line, from 1, at which its option or header begins.
func column(line string) int {
	n := 1
	for _, r := range line {
		if r >= utf8.RuneSelf || !isBlank(byte(r)) {
			break
		}
		n++
	}
	return n
}

// String writes the job file, without what it includes.
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

// Global reports whether the section holds options for the jobs after it. fio looks at the beginning
// of the name only, and at the case: [global2] is such a section, [Global] is a job.
func (s *Section) Global() bool { return strings.HasPrefix(s.Name, "global") }

// Names lists the jobs of the file in order, without the global sections.
func (f *JobFile) Names() []string {
	var names []string
	for _, s := range f.Sections {
		if !s.Global() {
			names = append(names, s.Name)
		}
	}
	return names
}

// Set gives an option of the section a value: in its line if it has one, else in a line after the
// last option.
func (s *Section) Set(key, value string) {
	text := key + "=" + value + "\n"
	last := -1
	for i := range s.Lines {
		l := &s.Lines[i]
		if l.Key == "" && l.Included == nil {
			continue
		}
		if last = i; Canonical(l.Key) == Canonical(key) {
			*l = Line{Text: text, Number: l.Number, Column: 1, Key: key, Value: value}
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
	s.Lines = slices.Insert(s.Lines, last+1, Line{Text: text, Column: 1, Key: key, Value: value})
}
