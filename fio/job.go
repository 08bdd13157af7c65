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

// A JobFile is a job file, line by line. String returns the lines as they were read.
//
// Parsing follows the rules of fio's parser (init.c of 3.33). A line ends at the first ; or #, so a value cannot
// contain either. Some mistakes that fio silently accepts are errors here, such as a header without its closing
// bracket.
type JobFile struct {
	Name     string // as passed to ReadJob or, for an included file, to its read function; "" if only the text is known
	Head     []Line // lines before the first section; all lines of an included file
	Sections []*Section
}

// A Section is a section of a job file. It defines a job, or options for the jobs after it if its name begins with
// "global".
type Section struct {
	Name   string
	File   string // name of the job file that it comes from, set by Command.With
	Header Line
	Lines  []Line
}

// A Line is a line of a job file, or a word of a command line. Key is "" on lines without an option.
type Line struct {
	Text     string // as written, including the line ending
	Number   int    // from 1; 0 for added lines
	Column   int    // where the option, include or header starts, in characters from 1; 0 on other lines
	Key      string
	Value    string
	Bare     bool     // without "=value"
	Included *JobFile // the file of `include FILE`; only its Head contains lines
}

// A JobError is an error in a line of a job file or of a command line.
type JobError struct {
	File   string // "" if only the text is known
	Line   int    // from 1; 0 for the whole text
	Column int    // in characters from 1; 0 for the whole line
	Msg    string
	Hint   string // "" if there is none

	Accepted bool // fio accepts the line, but probably not with the intended meaning
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

// ParseJob reads the text of a job file without includes. All errors are *JobError, joined. The returned file
// contains everything that could be read.
func ParseJob(text string) (*JobFile, error) {
	p := jobParser{}
	f := p.file("", text)
	return f, errors.Join(p.errs...)
}

// ReadJob reads the job file `name` and the files that it includes, using `read`. The name of an included file is
// relative to the directory of the including file. (fio first searches its working directory, which depends on the
// machine.) If `read` returns an error for `name`, ReadJob returns that error. All other errors are *JobError, joined.
func ReadJob(name string, read func(name string) ([]byte, error)) (*JobFile, error) {
	text, err := read(name)
	if err != nil {
		return nil, err
	}
	p := jobParser{read: read, open: []string{path.Clean(name)}}
	f := p.file(name, string(text))
	return f, errors.Join(p.errs...)
}

// MaxJob is the maximum size in bytes of a job file with its includes, and of a text with command lines.
const MaxJob = 4 << 20

// maxLine is fio's OPT_LEN_MAX. fio splits lines of at least this many bytes, including the line ending.
const maxLine = 4096

// maxIncludes limits the depth of includes. maxIncluded limits the number of included files.
const (
	maxIncludes = 20
	maxIncluded = 1000
)

type jobParser struct {
	read func(name string) ([]byte, error)
	open []string // the open files; each includes the next
	errs []error

	included int
	size     int // bytes read
}

// nested reports whether another file includes the current file.
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
			fail("", "the line has a NUL byte, at which fio stops reading")
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
				fail("put the section into the file that includes this one", "fio does not allow a section in an included file")
			default:
				line.Column = column(raw)
				cur = &Section{Name: section, Header: line}
				f.Sections = append(f.Sections, cur)
				continue
			}
		case cur == nil && !p.nested():
			fail("begin with [global], or the name of a job in brackets", "%s is before the first [section]", strings.TrimSpace(strings.SplitN(s, "=", 2)[0]))
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

// include reads the file that line n names. `rest` is the part of the line after the word "include": one arbitrary
// character, and the name.
func (p *jobParser) include(file string, n int, rest string) *JobFile {
	fail := func(hint, format string, args ...any) *JobFile {
		p.errs = append(p.errs, &JobError{File: file, Line: n, Msg: fmt.Sprintf(format, args...), Hint: hint})
		return nil
	}
	if rest == "" || trim(rest[1:]) == "" {
		return fail("write include FILE", "include names no file")
	}
	if _, size := utf8.DecodeRuneInString(rest); size > 1 || isBlank(rest[1]) {
		return fail("write include FILE, with one space", "fio expects exactly one character between include and the name")
	}
	name := rest[1:]
	if p.read == nil {
		return fail("put the lines of "+name+" here", "include is not supported here: the text does not come from a file")
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
			return nil // already reported
		}
		return fail("", "more than %d files are included", maxIncluded)
	}
	text, err := p.read(name)
	if err != nil {
		return fail("the name is relative to the folder of the file that includes it", "include %s: %v", name, err)
	}
	p.open = append(p.open, name)
	defer func() { p.open = p.open[:len(p.open)-1] }()
	return p.file(name, string(text))
}

// isBlank works like isspace in the C locale.
func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func trim(s string) string {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	// At the end of a line fio also removes control characters.
	return strings.TrimRightFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// option returns the part of a line that fio reads: without the comment and the surrounding blanks.
func option(line string) string {
	if i := strings.IndexAny(line, ";#"); i >= 0 {
		line = line[:i]
	}
	return trim(line)
}

// column returns the position, in characters from 1, at which the option or header of a line starts.
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

// String returns the text of the job file, without the text of included files.
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

// Global reports whether the section contains options for the jobs after it. fio compares the start of the name,
// case-sensitively: [global2] is such a section, but [Global] is a job.
func (s *Section) Global() bool { return strings.HasPrefix(s.Name, "global") }

// Names returns the names of the job sections in file order.
func (f *JobFile) Names() []string {
	var names []string
	for _, s := range f.Sections {
		if !s.Global() {
			names = append(names, s.Name)
		}
	}
	return names
}
