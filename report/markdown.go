package report

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"iotax/report/format"
)

var inCode = regexp.MustCompile("`[^`]+`")

// withCode is escapeMarkdown for sentences with commands in backticks, which stay code: nothing in there is markup.
func withCode(s string) string {
	out := escapeMarkdown(s)
	for _, code := range inCode.FindAllString(format.Clean(s), -1) {
		out = strings.Replace(out, escapeMarkdown(code), code, 1)
	}
	return out
}

// escapeMarkdown keeps a string of a target from being read as markup, a table's cell border included.
func escapeMarkdown(s string) string {
	var b strings.Builder
	text := []rune(format.Clean(s))
	for i, r := range text {
		next := rune(0)
		if i+1 < len(text) {
			next = text[i+1]
		}
		switch {
		case r == '<' && (next >= '0' && next <= '9' || next == ' '), r == '>' && i > 0, r == '&' && next == ' ':
			b.WriteRune(r) // opens neither a tag nor an entity, and begins no quotation
		case strings.ContainsRune("\\`*_{}[]|~$", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case strings.ContainsRune("<>&@", r):
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Markdown writes the report as GitHub flavoured Markdown, for an issue or a pull request.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	title := escapeMarkdown(r.Run.Name)
	if title == "" {
		title = "iotax"
	}
	fmt.Fprintf(&b, "## %s\n\n", title)
	if r.Layout == "generated" {
		fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(r.generated()))
	}
	fmt.Fprintf(&b, "**%s**\n", escapeMarkdown(r.Answer))
	r.markdownAssessment(&b)
	if !r.markdownTables(&b) {
		r.markdownSections(&b)
	}
	r.markdownWaterfalls(&b)
	for _, c := range r.Curves {
		fmt.Fprintf(&b, "\n### %s\n\n| %s |\n|--:|:--|--:|--:|--:|--:|--:|\n", escapeMarkdown(c.title()), strings.Join(curveHead, " | "))
		for _, row := range c.rows() {
			for i := range row {
				row[i] = escapeMarkdown(row[i])
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	for _, c := range r.Scalings {
		fmt.Fprintf(&b, "\n### %s\n\n", escapeMarkdown(c.title()))
		c.words().markdown(&b)
	}
	r.markdownBeside(&b)
	if about := slices.Concat(r.General, r.Common); len(about) > 0 {
		b.WriteString("\n### About the run\n\n")
		for _, n := range about {
			b.WriteString("- ")
			markdownNote(&b, n)
		}
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n### Notes\n\n")
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "%d. ", n.Number)
			markdownNote(&b, n)
		}
	}
	b.WriteString("\n### How it was measured\n\n")
	if env := r.environmentLine(); env != "" {
		fmt.Fprintf(&b, "%s  \n", escapeMarkdown(env))
	}
	fmt.Fprintf(&b, "%s. %s %s\n", escapeMarkdown(r.protocolLine()), strings.ReplaceAll(escapeMarkdown(r.noiseLine()), "\\`iotax calibrate\\`", "`iotax calibrate`"), escapeMarkdown(r.methodLine()))
	if objects := r.objectsLine(); objects != "" {
		fmt.Fprintf(&b, "%s\n", escapeMarkdown(objects))
	}
	if r.Run.ID != "" {
		fmt.Fprintf(&b, "\n<sub>iotax %s, run %s</sub>\n", escapeMarkdown(r.Run.Version), escapeMarkdown(r.Run.ID))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownSections writes a table for each metric of each workload.
func (r *Report) markdownSections(b io.Writer) {
	last := ""
	for i, s := range r.Sections {
		if s.Workload != last || i == 0 {
			last = s.Workload
			fmt.Fprintf(b, "\n### %s\n", escapeMarkdown((&textWriter{Report: r}).heading(s)))
		}
		fmt.Fprintf(b, "\n| target | %s | ratio | verdict |\n|:--|--:|--:|:--|\n", escapeMarkdown(s.Label))
		for _, row := range s.Rows {
			value, ratio := format.Dash, ""
			if row.Err == "" && row.Value.N > 0 {
				value = format.Value(row.Value, s.Unit)
			}
			switch {
			case row.Baseline:
				ratio = "1 (baseline)"
			case row.Ratio != nil:
				ratio = format.Ratio(row.Ratio.Interval)
			}
			verdict := format.Verdict(row.Verdict, false)
			if verdict != "" {
				verdict = "**" + verdict + "**"
			}
			var refs []string
			for _, n := range row.Notes {
				refs = append(refs, fmt.Sprint(n))
			}
			if len(refs) > 0 {
				verdict = strings.TrimSpace(verdict + " <sup>" + strings.Join(refs, " ") + "</sup>")
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", escapeMarkdown(row.Target), escapeMarkdown(value), escapeMarkdown(ratio), verdict)
		}
	}
}

func markdownNote(b *strings.Builder, n Note) {
	fmt.Fprintf(b, "**%s** (%s)", escapeMarkdown(n.Rule), escapeMarkdown(string(n.Severity)))
	b.WriteString(": " + escapeMarkdown(strings.Join(n.sentences(shownItems), "; ")))
	if n.Mend != "" {
		b.WriteString(". *Mend:* " + withCode(n.Mend))
	}
	b.WriteByte('\n')
}
