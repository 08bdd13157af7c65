package lint

import (
	"cmp"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"iotax"
	"iotax/fio"
	"iotax/internal/plan"
	"iotax/internal/rules"
)

// JobFile finds mistakes in a job file, which it parses as fio does. name is the file's name in findings. read
// returns the text of that file and of included files.
func JobFile(name string, read func(name string) ([]byte, error), facts Facts) ([]Finding, error) {
	texts := map[string]string{}
	f, err := fio.ReadJob(name, func(n string) ([]byte, error) {
		text, err := read(n)
		texts[n] = string(text)
		return text, err
	})
	if f == nil {
		return nil, err
	}
	t := texted{name: name, lines: map[string][]string{}}
	for n, text := range texts {
		t.lines[n] = strings.Split(text, "\n")
	}
	out, err := t.unreadable(err)
	if err != nil {
		return nil, err
	}
	jobs := t.jobs(f.Jobs())
	for _, j := range jobs {
		j.alone = true
	}
	if slices.ContainsFunc(out, func(f Finding) bool { return strings.HasPrefix(f.Evidence, "include ") }) {
		jobs = nil // the options in the missing file are unknown
	} else if len(jobs) == 0 && len(out) == 0 {
		out = append(out, t.empty(1, "the file has no job: fio runs nothing", "add a section with the name of a job, as in [randread]")...)
	}
	return sorted(append(out, lint(jobs, t.sections(f.Sections), rules.JobFile, facts)...)), nil
}

// empty returns a finding of the rule NotAJob.
func (t *texted) empty(line int, evidence, hint string) []Finding {
	r := &report{rule: rule{Rule: rules.NotAJob}}
	r.hits = []hit{{at: t.at("", line, 0, 0), severity: iotax.Invalid, evidence: evidence, hint: hint}}
	return r.findings(0)
}

// Commands finds mistakes in the fio commands of a command line. name identifies the command line in findings. read
// returns the text of job files that the commands name. If read is nil, the job files are not read.
func Commands(name, text string, read func(name string) ([]byte, error), facts Facts) ([]Finding, error) {
	found, err := commands(name, text, read, facts)
	t := texted{name: name, lines: map[string][]string{name: strings.Split(text, "\n")}, command: true}
	switch {
	case errors.As(err, new(*notScript)):
		return t.unreadable(errors.Unwrap(err))
	case err == nil && found == nil && !command.MatchString(text+" -"):
		return t.empty(1, "the text has no fio command", "begin with fio, as in fio --name=test --rw=randread"), nil
	}
	return found, err
}

// commands works like Commands, but returns no finding for a text without a command. The error is a *notScript if the
// text cannot be parsed as a shell script.
func commands(name, text string, read func(name string) ([]byte, error), facts Facts) ([]Finding, error) {
	t := texted{name: name, lines: map[string][]string{name: strings.Split(text, "\n")}, command: true}
	cs, err := fio.ParseCommands(text)
	var je *fio.JobError
	if cs == nil && errors.As(err, &je) && je == err { // not a joined error, so it is about the whole text
		return nil, &notScript{err}
	}
	out, err := t.unreadable(err)
	if err != nil {
		return nil, err
	}
	for _, c := range cs {
		if read == nil && slices.ContainsFunc(c.Files, func(f string) bool { return strings.HasPrefix(f, "[-") }) {
			continue // a synopsis with optional parts, as in fio --name=a [--numjobs=4 --group_reporting]
		}
		if read == nil && foreign(c) {
			continue
		}
		found, err := t.commandFindings(c, read, facts)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return sorted(out), nil
}

// foreign reports whether a command in a script probably runs another program that is named fio: it has no job, names
// no job file, and at least half of its options are not fio's or belong to one engine.
func foreign(c *fio.Command) bool {
	if slices.ContainsFunc(c.Sections, func(s *fio.Section) bool { return !s.Global() }) || slices.ContainsFunc(c.Files, jobPath) {
		return false
	}
	known, unknown := len(c.Options), 0
	for _, s := range c.Sections {
		for _, set := range s.Settings() {
			o, ok := fio.LookupOption(set.Key)
			if ok && o.Engine == "" || slipped(set.Key, plan.Nearest(set.Key, fio.OptionNames())) {
				known++
			} else {
				unknown++
			}
		}
	}
	return unknown > 0 && unknown >= known
}

// jobPath reports whether an argument of fio may be the path of a job file, and is not a subcommand.
func jobPath(arg string) bool { return strings.ContainsAny(arg, "./$") || arg == "-" }

func (t *texted) commandFindings(c *fio.Command, read func(name string) ([]byte, error), facts Facts) ([]Finding, error) {
	if own := strings.Contains(c.Program, "/") && !strings.HasPrefix(c.Program, "/usr/"); own || c.Preload {
		facts.Version, facts.Options, facts.Engines = "", nil, nil // these describe the fio in PATH
	}
	if c.Remote() || slices.ContainsFunc(c.Options, func(o fio.Setting) bool { return o.Key == "client" }) {
		facts = Facts{} // the machine, container or image that runs fio is unknown
	}
	if strings.HasSuffix(c.Program, ".exe") {
		facts = facts.on("windows")
	}
	if c.Empty() {
		return t.empty(c.Line, "the command has no --name and no job file: fio would run nothing", "add --name=test before the options of the job"), nil
	}
	var out []Finding
	var files []*fio.JobFile
	for _, file := range c.Files {
		if read == nil || open(file) || file == "-" || c.Remote() {
			continue
		}
		f, err := fio.ReadJob(file, func(n string) ([]byte, error) {
			text, err := read(n)
			t.lines[n] = strings.Split(string(text), "\n")
			return text, err
		})
		if f == nil {
			out = append(out, t.empty(c.Line, err.Error(), "give the path from the directory in which the command runs")...)
			continue
		}
		found, err := t.unreadable(err)
		if err != nil {
			return nil, err
		}
		files, out = append(files, f), append(out, found...)
	}
	sections := slices.Clone(c.Sections)
	for _, f := range files {
		for _, s := range f.Sections {
			own := *s
			own.File = f.Name
			sections = append(sections, &own)
		}
	}
	jobs := t.jobs(c.With(files))
	if slices.ContainsFunc(c.Options, func(o fio.Setting) bool { return o.Key == "readonly" }) {
		for _, j := range jobs {
			j.readonly = true
		}
	}
	return append(out, lint(jobs, t.sections(sections), rules.JobFile, facts)...), nil
}

// Result finds mistakes in the options of a result, and numbers that contradict each other. All findings point to line
// `line` of the file `name`, where the result begins.
func Result(name string, line int, res *fio.Result) []Finding {
	var jobs []*job
	for i := range res.Jobs {
		r := &res.Jobs[i]
		// Text and terse results contain only some of the options, and old JSON contains none. In a JSON row that
		// combines several jobs, the options of each job are unknown.
		text := res.Kind == fio.KindText || res.Kind == fio.KindTerse
		j := &job{name: r.Name, set: map[string]setting{}, ran: true, part: text || len(res.Options)+len(r.Options) == 0 || r.Members > 1}
		j.apart = 100 * time.Millisecond
		if res.Kind == fio.KindTerse { // the row may be from a report during the run
			j.apart *= 5
		}
		j.json = res.Kind == fio.KindJSON || res.Kind == fio.KindJSONPlus
		j.head = setting{at: position{file: name, line: line}}
		for _, options := range []map[string]string{res.Options, r.Options} { // the job's own options override the global ones
			for _, k := range slices.Sorted(maps.Keys(options)) {
				v := options[k]
				j.add(setting{key: fio.Canonical(k), value: v, bare: v == "", base: 1024, at: j.head.at})
			}
		}
		if s, ok := j.set["kb_base"]; ok && s.value == "1000" {
			for k, s := range j.set {
				s.base = 1000
				j.set[k] = s
			}
		}
		jobs = append(jobs, j)
	}
	out := lint(jobs, nil, rules.Result, Facts{})
	for _, rule := range checks() {
		if rule.result != nil {
			r := &report{rule: rule}
			for i, j := range jobs {
				rule.result(&res.Jobs[i], j, r)
			}
			out = append(out, r.findings(len(jobs))...)
		}
	}
	return out
}

// texted is a source text that findings point to.
type texted struct {
	name    string
	lines   map[string][]string // by file
	command bool
}

// at returns the position of a token. Column 0 means the first non-blank character, and width 0 the rest of the line.
func (t *texted) at(file string, line, column, width int) position {
	if file == "" {
		file = t.name
	}
	p := position{file: file, line: line, column: column, width: width}
	if lines := t.lines[file]; line > 0 && line <= len(lines) {
		p.source = strings.TrimSuffix(lines[line-1], "\r")
		if p.column == 0 {
			p.column = 1 + len(p.source) - len(strings.TrimLeft(p.source, " \t"))
		}
		if p.width == 0 {
			p.width = utf8.RuneCountInString(strings.TrimSpace(p.source))
		}
		p.width = max(1, min(p.width, utf8.RuneCountInString(p.source)-p.column+1))
	}
	return p
}

// unreadable converts the parse errors in err into findings. It returns any other error.
func (t *texted) unreadable(err error) ([]Finding, error) {
	if err == nil {
		return nil, nil
	}
	all := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		all = many.Unwrap()
	}
	var out []Finding
	for _, e := range all {
		var je *fio.JobError
		if !errors.As(e, &je) {
			return nil, err
		}
		r := &report{rule: rule{Rule: rules.NotAJob}}
		h := hit{at: t.at(je.File, je.Line, je.Column, 0), severity: iotax.Invalid, evidence: je.Msg, hint: cmp.Or(je.Hint, rules.NotAJob.Hint)}
		if je.Accepted {
			h.severity = iotax.Warning
		}
		r.hits = append(r.hits, h)
		out = append(out, r.findings(0)...)
	}
	return out, nil
}

func (t *texted) jobs(specs []fio.JobSpec) []*job {
	names := fio.Labels(specs)
	var out []*job
	for i, spec := range specs {
		j := &job{name: names[i], set: map[string]setting{}, group: spec.Group}
		t.fill(j, spec.Section, spec.Settings)
		if name := spec.Section.Name; !j.has("filename", "read_iolog", "opendir") && device(name) {
			// If the name of a job is the name of a device, fio uses this device as the job's file.
			j.add(setting{key: "filename", value: strings.ReplaceAll(name, ":", `\:`), base: 1024, at: j.head.at})
		}
		out = append(out, j)
	}
	return out
}

// sections returns the sections in order, each with only its own options.
func (t *texted) sections(all []*fio.Section) []*job {
	var out []*job
	inherited := ""
	for _, s := range all {
		command := t.command && s.File == ""
		j := &job{name: s.Name, set: map[string]setting{}, command: command, inherited: inherited}
		t.fill(j, s, s.Settings())
		if e, ok := j.get("ioengine"); ok && s.Global() {
			inherited = fio.EngineName(e.value)
		}
		out = append(out, j)
	}
	return out
}

func (t *texted) fill(j *job, h *fio.Section, settings []fio.Setting) {
	j.head.at = t.at(h.File, h.Header.Number, h.Header.Column, utf8.RuneCountInString(h.Name)+2)
	for _, s := range settings {
		// The width is an estimate, because the source may quote the value. On a command line, it includes the two
		// dashes.
		width := utf8.RuneCountInString(s.Key)
		if !s.Bare {
			width += 1 + utf8.RuneCountInString(s.Value)
		}
		if t.command && s.File == "" {
			width += 2
		}
		j.add(setting{key: fio.Canonical(s.Key), value: s.Value, bare: s.Bare, base: kbBase(s), at: t.at(s.File, s.Line, s.Column, width)})
	}
}

// LooksLikeJob reports whether a text is probably a job file: its first line that is not a comment is a section
// header, not a prompt such as "[root@host ~]#", and the text contains no result.
func LooksLikeJob(text string) bool {
	for line := range strings.Lines(text) {
		s := strings.TrimSpace(line)
		if s == "" || s[0] == ';' || s[0] == '#' {
			continue
		}
		if s[0] != '[' || promptLike.MatchString(s) {
			return false
		}
		return !slices.ContainsFunc(fio.Read([]byte(text), ""), func(p fio.Part) bool { return p.Result != nil })
	}
	return false
}

var promptLike = regexp.MustCompile(`^\[[^\]]*[@~][^\]]*\]\s*[#$%>]|^\[[^\]]*\]\s*[#$%>]\s*(?:.*\s)?\S*fio(?:\s|$)`)

// kbBase returns the multiplier of k in the value of a setting, 1000 or 1024.
func kbBase(s fio.Setting) int {
	if s.KBBase == 1000 {
		return 1000
	}
	return 1024
}
