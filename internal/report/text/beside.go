package text

import (
	"fmt"
	"io"

	"iotax/internal/report"
	"iotax/internal/report/table"
)

func (t *textWriter) beside() {
	b := t.Beside
	if b == nil {
		return
	}
	t.line("")
	t.para(table.BesideTitle(b), "", "  ", t.pal.accent.Bold(t.color))
	for i, g := range table.Beside(b, true) {
		if i > 0 {
			t.line("")
		}
		t.table(g)
	}
	for _, s := range table.BesideLeft(b) {
		t.para(s, "  ", "  ", t.pal.dim)
	}
}

func markdownBeside(w io.Writer, r *report.Report) {
	b := r.Beside
	if b == nil {
		return
	}
	fmt.Fprintf(w, "\n### %s\n\n", escapeMarkdown(table.BesideTitle(b)))
	for _, g := range table.Beside(b, false) {
		tableMarkdown(w, g)
		fmt.Fprintln(w)
	}
	for _, s := range table.BesideLeft(b) {
		fmt.Fprintf(w, "- %s\n", escapeMarkdown(s))
	}
}
