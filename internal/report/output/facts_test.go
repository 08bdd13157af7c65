package output

import (
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	xhtml "golang.org/x/net/html"

	"iotax/internal/report"
	"iotax/internal/report/block"
	"iotax/internal/report/document"
	"iotax/internal/report/format"
	"iotax/internal/report/text"
	"iotax/internal/testenv/reporttest"
)

// factsOf returns the texts of blocks: sentences, headings, table cells, notes with their hints, and commands.
func factsOf(all []block.Block) (out []string) {
	for _, b := range all {
		switch b := b.(type) {
		case block.Answer:
			out = append(out, b.Text)
		case block.Heading:
			out = append(out, b.Text)
		case block.Paragraph:
			out = append(out, b.Text)
		case block.Banner:
			out = append(out, b.Texts...)
		case block.List:
			for _, i := range b.Items {
				out = append(out, i.Text)
			}
		case block.Notes:
			for _, n := range b.Items {
				out = append(out, n.Label, n.Text, n.Hint)
			}
		case block.Steps:
			for _, s := range b.Steps {
				out = append(out, s.Name, s.Command, s.About)
			}
		case block.Fold:
			out = append(out, factsOf(b.Blocks)...)
		case block.Table:
			for _, r := range b.Rows {
				parts := strings.Split(r.Heading, " · ")
				for _, c := range r.Cells {
					parts = append(parts, c.Text)
				}
				out = append(out, parts...)
			}
		}
	}
	return out
}

// packed returns a text without spaces and markup, so that wrapped or escaped texts can be found in it.
func packed(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune(format.NBSP+"\u2060\\`*", r) {
			return -1
		}
		return r
	}, format.Clean(html.UnescapeString(s)))
}

var tag = regexp.MustCompile(`</?(details|summary|sup)>`)

// Terminal text, Markdown and the page contain all texts of the document, except that the page omits the step that
// opens the page.
func TestSameFactsInEachFormat(t *testing.T) {
	for name, r := range map[string]*report.Report{"fixture": report.New(reporttest.Fixture()), "quick": report.New(reporttest.Quick()), "layers": report.New(reporttest.Layered()),
		"load": report.New(reporttest.Loaded()), "clients": report.New(reporttest.Clients(.005)), "beside": report.New(reporttest.Mounts()), "detailed": report.New(reporttest.Detailed()),
		"one of many": report.New(reporttest.OneOfMany())} {
		d := document.Of(r)
		var page strings.Builder
		source := output(t, func(w io.Writer) error { return HTML(w, r) })
		reporttest.Elements(t, source, func(n *xhtml.Node) {
			if n.Data == "body" {
				for c := range n.Descendants() {
					if c.Type == xhtml.TextNode && c.Parent.Data != "script" && c.Parent.Data != "title" {
						page.WriteString(c.Data)
					}
				}
			}
		})
		for kind, got := range map[string]string{"terminal": output(t, func(w io.Writer) error { return text.Write(w, d, text.Options{Width: 400}) }),
			"markdown": tag.ReplaceAllString(output(t, func(w io.Writer) error { return text.Markdown(w, d) }), ""), "page": page.String()} {
			got, missing := packed(got), 0
			blocks := d.Blocks
			if kind == "page" {
				blocks = slices.Clone(blocks)
				for i, b := range blocks {
					if steps, ok := b.(block.Steps); ok {
						blocks[i] = block.Steps{Steps: slices.DeleteFunc(slices.Clone(steps.Steps), func(s block.Step) bool { return s.Name == "Open" })}
					}
				}
			}
			facts := factsOf(blocks)
			for _, fact := range facts {
				if !strings.Contains(got, packed(fact)) {
					if missing++; missing < 4 {
						t.Errorf("%s: %s lacks %q", name, kind, fact)
					}
				}
			}
			if len(facts) < 20 {
				t.Errorf("%s: only %d facts", name, len(facts))
			}
		}
	}
}
