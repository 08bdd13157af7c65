package input

import (
	"fmt"
	"io"
	"strings"

	"iotax"
	"iotax/internal/plan/syntax"
	"iotax/internal/report/format"
	"iotax/internal/rules"
	"iotax/internal/rules/lint"
	"iotax/internal/terminal"
)

// Text writes the findings for a terminal of width columns. With brief, it omits the reasons.
func (l *Reader) Text(out io.Writer, width int, color, brief bool) error {
	w := &findingWriter{width: width, color: color, brief: brief, explained: map[string]bool{}}
	for _, f := range l.Found {
		w.finding(f)
	}
	w.summary(l.Found)
	_, err := io.WriteString(out, w.String())
	return err
}

// A findingWriter formats findings for reading.
type findingWriter struct {
	strings.Builder
	width     int
	color     bool
	brief     bool            // omit the reasons
	explained map[string]bool // rules whose reason has been printed
}

// Styles that use the 16 basic colors of a terminal.
const (
	bold = "1"
	dim  = "2"
	red  = "1;31"
	warn = "33"
	blue = "36"
)

func (w *findingWriter) style(code, s string) string {
	if !w.color || code == "" || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

var severityStyle = map[iotax.Severity]string{iotax.Invalid: red, iotax.Warning: warn, iotax.Info: blue}

func (w *findingWriter) finding(f lint.Finding) {
	at := terminal.Clean(f.File)
	if f.Line > 0 {
		at += fmt.Sprintf(":%d", f.Line)
		if f.Column > 0 {
			at += fmt.Sprintf(":%d", f.Column)
		}
	}
	if at != "" {
		at = w.style(bold, at) + ": "
	}
	fmt.Fprintf(w, "%s%s: %s\n", at, w.style(severityStyle[f.Severity], string(f.Severity)), w.style(bold, f.Rule))
	if f.Source != "" {
		line, carets := syntax.Excerpt(f.Source, f.Column, f.Width, w.width-6)
		w.WriteString("    " + line + "\n")
		if carets != "" {
			w.WriteString("    " + w.style(severityStyle[f.Severity], carets) + "\n")
		}
	}
	w.para(f.Evidence, "  ", "  ", "")
	if r, ok := rules.Explain(f.Rule); ok && !w.brief && !w.explained[f.Rule] {
		w.explained[f.Rule] = true
		w.para(r.Why, "  why: ", "       ", dim)
	}
	if f.Hint != "" {
		w.para(f.Hint, "  → ", "    ", "")
	}
	w.WriteByte('\n')
}

func (w *findingWriter) para(s, first, rest, style string) {
	indent := first
	for _, l := range format.Wrap(s, w.width-len([]rune(first))) {
		w.WriteString(indent + w.style(style, l) + "\n")
		indent = rest
	}
}

func (w *findingWriter) summary(found []lint.Finding) {
	var parts []string
	worst := ""
	for _, s := range []struct {
		severity iotax.Severity
		name     string
	}{{iotax.Invalid, "error"}, {iotax.Warning, "warning"}, {iotax.Info, "note"}} {
		n := 0
		for _, f := range found {
			if f.Severity == s.severity {
				n++
				if worst == "" {
					worst = f.Rule
				}
			}
		}
		if n > 0 {
			parts = append(parts, format.Plural(n, s.name))
		}
	}
	if len(parts) == 0 {
		w.WriteString("nothing found\n")
		return
	}
	w.para(strings.Join(parts, ", ")+"; more about a rule: iotax lint --explain "+worst, "", "  ", dim)
}

// Page writes a Markdown page for a terminal. It wraps paragraphs and indents code.
func Page(out io.Writer, page string, width int) error {
	var b strings.Builder
	code := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			code = !code
			continue
		}
		switch {
		case code:
			b.WriteString("    " + line + "\n")
		case line == "":
			b.WriteByte('\n')
		default:
			line = strings.TrimPrefix(line, "# ")
			if hint, ok := strings.CutPrefix(line, "*Hint:* "); ok {
				line = "→ " + hint
			}
			b.WriteString(strings.Join(format.Wrap(line, width), "\n") + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
