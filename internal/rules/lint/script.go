package lint

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"iotax/fio"
)

// Script finds mistakes in the fio commands and job files within a shell script or a Markdown document. It does not
// read job files that a command names, because they may not exist yet.
func Script(name, text string, facts Facts) ([]Finding, error) {
	var out []Finding
	if strings.HasPrefix(text, "#!") || shells[strings.TrimPrefix(path.Ext(name), ".")] {
		text = comment.ReplaceAllString(text, "") // fio.ParseCommands takes "# " for the prompt of root
	}
	for _, s := range snippets(text) {
		found, err := s.lint(name, facts)
		if err != nil {
			return nil, err
		}
		out = append(out, moved(found, name, s.after)...)
	}
	return sorted(out), nil
}

// Scripted reports whether Script finds anything to lint in a text.
func Scripted(text string) bool { return len(snippets(text)) > 0 }

// A snippet is a job file or a script in a longer text. after is the number of lines before it. job reports whether
// it is a job file.
type snippet struct {
	text  string
	after int
	job   bool
}

var (
	fence   = regexp.MustCompile("^[ \t>]*(```+|~~~+)[ \t]*([A-Za-z0-9_+-]*)")
	heredoc = regexp.MustCompile(`<<-?[ \t]*['"\\]?([A-Za-z_]\w*)['"]?`)
	command = regexp.MustCompile(`(?m)(?:^|[\s/"'(` + "`" + `])fio(?:-[0-9.]+|:[\w.-]+)?(?:\.exe)?[ \t]+(?:\\\r?\n[ \t]*)?["']?[-\w./$]`)
	bareVar = regexp.MustCompile(`\$([A-Za-z_]\w*|[0-9@*])`)
	// placeholder matches a value that a script probably replaces with sed, as in numjobs=NR_WRITERS.
	placeholder = regexp.MustCompile(`=[ \t]*([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`)
	comment     = regexp.MustCompile(`(?m)^[ \t]*#.*$`)
	output      = regexp.MustCompile("\\$\\(\\(.*\\)\\)|\\$\\([^)]*\\)|`[^`]*`")
	section     = regexp.MustCompile(`(?m)^[ \t]*\[[^\]\n]+\][ \t]*$`)
)

// snippets returns the fenced blocks of Markdown that are job files or contain fio commands. For a text with fio
// commands but without fenced blocks, it returns the whole text. It also returns the job files in the here documents of
// these scripts.
func snippets(text string) []snippet {
	lines := strings.SplitAfter(text, "\n")
	var out []snippet
	fenced := false
	for i := 0; i < len(lines); i++ {
		open := fence.FindStringSubmatch(lines[i])
		if open == nil {
			continue
		}
		fenced = true
		end := i + 1
		for end < len(lines) && !strings.HasPrefix(strings.TrimLeft(lines[end], " \t>"), open[1]) {
			end++
		}
		switch block := strings.Join(lines[i+1:min(end, len(lines))], ""); {
		case isJob(block):
			out = append(out, snippet{text: block, after: i + 1, job: true})
		case command.MatchString(block) && (open[2] == "" || shells[strings.ToLower(open[2])]):
			out = append(out, snippet{text: block, after: i + 1})
			out = append(out, documents(block, i+1)...)
		}
		i = end
	}
	if fenced {
		return out
	}
	if !command.MatchString(text) {
		return nil
	}
	return append([]snippet{{text: text}}, documents(text, 0)...)
}

// shells lists the languages of fenced blocks that may contain shell commands.
var shells = map[string]bool{"sh": true, "bash": true, "shell": true, "console": true, "zsh": true, "text": true, "shell-session": true, "terminal": true}

// documents returns the job files in the here documents of a script. after is the number of lines before the script.
func documents(text string, after int) []snippet {
	var out []snippet
	lines := strings.SplitAfter(text, "\n")
	last := map[string]int{} // last occurrence of each line, to skip a document without an end quickly
	for i, l := range lines {
		last[strings.TrimSpace(l)] = i
	}
	for i := 0; i < len(lines); i++ {
		m := heredoc.FindStringSubmatch(lines[i])
		if m == nil || last[m[1]] <= i {
			continue
		}
		end := i + 1
		for end < len(lines) && strings.TrimSpace(lines[end]) != m[1] {
			end++
		}
		// Rewrite the shell's expansions as ${…}, which the rules treat as unknown values.
		body := bareVar.ReplaceAllString(output.ReplaceAllString(strings.Join(lines[i+1:end], ""), "$${command}"), "$${$1}")
		body = placeholder.ReplaceAllString(body, "=$${$1}")
		if isJob(body) {
			out = append(out, snippet{text: body, after: after + i + 1, job: true})
		}
		i = end
	}
	return out
}

// isJob reports whether a text is a fio job file and not another file with sections.
func isJob(text string) bool {
	if !LooksLikeJob(text) {
		return false
	}
	f, _ := fio.ParseJob(text)
	known, all := 0, 0
	for _, s := range f.Sections {
		for _, set := range s.Settings() {
			all++
			if o, ok := fio.LookupOption(set.Key); ok && o.Engine == "" {
				known++
			}
		}
	}
	return known > 0 && 2*known >= all && section.MatchString(text)
}

// JobText reports whether a text is a fio job file and not another file with sections, such as an INI file.
func JobText(text string) bool { return isJob(text) }

func (s snippet) lint(name string, facts Facts) ([]Finding, error) {
	if s.job {
		f, _ := fio.ParseJob(s.text)
		if len(f.Jobs()) == 0 {
			return nil, nil // a script may append the jobs
		}
		found, err := JobFile(name, func(n string) ([]byte, error) {
			if n != name {
				return nil, fs.ErrNotExist
			}
			return []byte(s.text), nil
		}, facts)
		// Drop findings about missing includes, because the included files are not in this text, and about variables,
		// because the shell may replace them.
		return slices.DeleteFunc(found, func(f Finding) bool {
			return strings.HasPrefix(f.Evidence, "include ") || strings.HasPrefix(f.Evidence, unsetPrefix)
		}), err
	}
	// If the text is not a valid script, for example because it is for another shell, parse each fio command
	// separately.
	found, err := commands(name, s.text, nil, facts)
	if err == nil {
		return found, nil
	}
	if !errors.As(err, new(*notScript)) {
		return nil, err
	}
	lines := strings.SplitAfter(s.text, "\n")
	var out []Finding
	for i := 0; i < len(lines); i++ {
		start := i
		for i+1 < len(lines) && strings.HasSuffix(strings.TrimRight(lines[i], "\r\n"), `\`) {
			i++
		}
		one := strings.Join(lines[start:i+1], "")
		if !command.MatchString(one) {
			continue
		}
		found, err := commands(name, one, nil, facts)
		switch {
		case err == nil:
			out = append(out, moved(found, name, start)...)
		case !errors.As(err, new(*notScript)):
			return nil, err
		}
	}
	return out, nil
}

// moved adds `lines`, the number of lines before a part of a file, to the line numbers of findings about that part.
func moved(found []Finding, file string, lines int) []Finding {
	for i := range found {
		if found[i].File == file && found[i].Line > 0 {
			found[i].Line += lines
		}
	}
	return found
}

// A notScript error reports that a text is not a valid shell script.
type notScript struct{ error }

func (e *notScript) Unwrap() error { return e.error }
