package text

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"iotax/internal/report/block"
	"iotax/internal/report/format"
)

var inCode = regexp.MustCompile("`[^`]+`")

// withCode is like escapeMarkdown, but keeps commands in backquotes as code.
func withCode(s string) string {
	out := escapeMarkdown(s)
	for _, code := range inCode.FindAllString(format.Clean(s), -1) {
		out = strings.Replace(out, escapeMarkdown(code), code, 1)
	}
	return out
}

// escapeMarkdown escapes markup in a string, including "|", which separates table cells.
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
			b.WriteRune(r) // cannot start a tag, an entity or a quotation
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

// Markdown writes a document as GitHub Flavored Markdown, for an issue or a pull request.
func Markdown(w io.Writer, d block.Document) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n", cmp.Or(escapeMarkdown(d.Title), "iotax"))
	markdownBlocks(&b, d.Blocks)
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownBlocks(b *strings.Builder, all []block.Block) {
	for _, x := range all {
		switch x.(type) {
		case block.Charts, block.Tiles:
			continue
		}
		b.WriteByte('\n')
		switch x := x.(type) {
		case block.Answer:
			fmt.Fprintf(b, "**%s**\n", escapeMarkdown(x.Text))
		case block.Heading:
			fmt.Fprintf(b, "### %s\n", escapeMarkdown(x.Text))
		case block.Banner:
			for i, s := range x.Texts {
				if i > 0 {
					b.WriteString(">\n")
				}
				fmt.Fprintf(b, "> **%s**\n", escapeMarkdown(s))
			}
		case block.Paragraph:
			fmt.Fprintf(b, "%s\n", escapeMarkdown(x.Text))
		case block.List:
			for _, i := range x.Items {
				fmt.Fprintf(b, "- %s\n", escapeMarkdown(i.Text)+references(i.Notes))
			}
		case block.Table:
			markdownTable(b, x)
		case block.Notes:
			for _, n := range x.Items {
				markdownNote(b, n)
			}
		case block.Steps:
			for _, s := range x.Steps {
				fmt.Fprintf(b, "- %s: `%s` (%s)\n", escapeMarkdown(s.Name), strings.ReplaceAll(format.Clean(s.Command), "`", "'"), escapeMarkdown(s.About))
			}
		case block.Fold:
			fmt.Fprintf(b, "<details><summary>%s</summary>\n", escapeMarkdown(x.Summary))
			markdownBlocks(b, x.Blocks)
			b.WriteString("\n</details>\n")
		}
	}
}

func references(notes []int) string {
	if len(notes) == 0 {
		return ""
	}
	return " <sup>" + strings.Trim(fmt.Sprint(notes), "[]") + "</sup>"
}

func markdownNote(b *strings.Builder, n block.Note) {
	mark := "- "
	if n.Number > 0 {
		mark = fmt.Sprintf("%d. ", n.Number)
	}
	b.WriteString(mark)
	if n.Label != "" {
		fmt.Fprintf(b, "**%s** (%s): ", escapeMarkdown(n.Label), escapeMarkdown(n.Level))
	}
	b.WriteString(escapeMarkdown(n.Text))
	if n.Hint != "" {
		b.WriteString(". *Hint:* " + withCode(n.Hint))
	}
	b.WriteByte('\n')
}

// markdownTable writes a table, or several if parts of it have their own header. It omits drawings.
func markdownTable(b *strings.Builder, t block.Table) {
	shown := func(k int) bool { return k == 0 || k != t.Plot }
	line := func(cells []string) {
		var parts []string
		for k, c := range cells {
			if shown(k) {
				parts = append(parts, c)
			}
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(parts, " | "))
	}
	begin := func(head []string) {
		escaped := make([]string, len(head))
		for k, s := range head {
			escaped[k] = escapeMarkdown(s)
		}
		line(escaped)
		for k := range head {
			switch {
			case !shown(k):
			case slices.Contains(t.Right, k):
				b.WriteString("|--:")
			default:
				b.WriteString("|:--")
			}
		}
		b.WriteString("|\n")
	}
	if len(t.Rows) == 0 || t.Rows[0].Head == nil {
		begin(t.Head)
	}
	for i, r := range t.Rows {
		if r.Heading != "" && r.Head != nil {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(b, "### %s\n", escapeMarkdown(r.Heading))
		} else if r.Heading != "" {
			line(append([]string{"**" + escapeMarkdown(r.Heading) + "**"}, make([]string, len(t.Head)-1)...))
		}
		if r.Head != nil {
			if i > 0 || r.Heading != "" {
				b.WriteByte('\n')
			}
			begin(r.Head)
		}
		if r.Cells == nil {
			continue
		}
		cells := make([]string, len(r.Cells))
		for k, c := range r.Cells {
			cells[k] = escapeMarkdown(c.Text)
			if c.Text != "" && (c.Tone == block.Bad || c.Tone == block.Good || c.Tone == block.Unsure) {
				cells[k] = "**" + cells[k] + "**"
			}
			cells[k] = strings.TrimSpace(cells[k] + references(c.Notes))
		}
		line(cells)
	}
}
