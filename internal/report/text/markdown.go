package text

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
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
func Markdown(w io.Writer, r *report.Report) error {
	var b strings.Builder
	title := escapeMarkdown(r.Run.Name)
	if title == "" {
		title = "iotax"
	}
	fmt.Fprintf(&b, "## %s\n\n", title)
	if r.Layout == "generated" {
		fmt.Fprintf(&b, "%s\n\n", escapeMarkdown(assess.Generated(r)))
	}
	a := assess.Of(r)
	fmt.Fprintf(&b, "**%s**\n", escapeMarkdown(a.Answer()))
	if banner := r.Banner(); banner != "" {
		fmt.Fprintf(&b, "\n> **%s**\n", escapeMarkdown(banner))
	}
	markdownAssessment(&b, a)
	if s := assess.Targets(r); s != "" {
		fmt.Fprintf(&b, "\n%s\n", escapeMarkdown(s))
	}
	if !markdownTables(&b, r) {
		markdownSections(&b, r)
	}
	markdownWaterfalls(&b, r)
	for _, c := range r.Curves {
		tableMarkdown(&b, table.Curve(c))
	}
	for _, c := range r.Scalings {
		tableMarkdown(&b, table.Scaling(c))
	}
	markdownBeside(&b, r)
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
	if env := assess.Environment(r); env != "" {
		fmt.Fprintf(&b, "%s  \n", escapeMarkdown(env))
	}
	fmt.Fprintf(&b, "%s. %s %s\n", escapeMarkdown(assess.Protocol(r)), strings.ReplaceAll(escapeMarkdown(assess.Noise(r)), "\\`iotax calibrate\\`", "`iotax calibrate`"), escapeMarkdown(assess.Method(r)))
	if objects := assess.Objects(r); objects != "" {
		fmt.Fprintf(&b, "%s\n", escapeMarkdown(objects))
	}
	if r.Run.ID != "" {
		fmt.Fprintf(&b, "\n<sub>iotax %s, run %s</sub>\n", escapeMarkdown(r.Run.Version), escapeMarkdown(r.Run.ID))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownSections writes a table for each metric of each workload.
func markdownSections(b io.Writer, r *report.Report) {
	last := ""
	for i, s := range r.Sections {
		if s.Workload != last || i == 0 {
			last = s.Workload
			fmt.Fprintf(b, "\n### %s\n", escapeMarkdown(assess.Heading(r, s)))
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

func markdownNote(b *strings.Builder, n report.Note) {
	fmt.Fprintf(b, "**%s** (%s)", escapeMarkdown(n.Rule), escapeMarkdown(string(n.Severity)))
	b.WriteString(": " + escapeMarkdown(strings.Join(n.Sentences(report.ShownItems), "; ")))
	if n.Hint != "" {
		b.WriteString(". *Hint:* " + withCode(n.Hint))
	}
	b.WriteByte('\n')
}
