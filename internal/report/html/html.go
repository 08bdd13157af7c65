// Package html renders documents as self-contained pages.
package html

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"iotax/internal/report/block"
	"iotax/internal/report/chart"
	"iotax/internal/report/format"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var ownCSS string

// PageCSS is the style sheet of a page.
var PageCSS = chart.CSS() + ownCSS

// PageJS sorts and filters tables and saves charts. The page shows all its contents without the script.
//
//go:embed page.js
var PageJS string

// PagePolicy is the content security policy of a page. It allows the page's own script and forbids network requests.
var PagePolicy = func() string {
	sum := sha256.Sum256([]byte(PageJS))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// A Frame contains HTML that a server adds at the end of a page's head and at the start of its body.
type Frame struct{ Head, Top template.HTML }

// Write writes the document as a self-contained page.
func Write(w io.Writer, d block.Document, f Frame) error {
	p := &page{t: template.Must(pageTemplate.Clone()), names: map[string]int{}}
	p.t.Funcs(template.FuncMap{"blocks": p.blocks})
	body, err := p.blocks(d.Blocks)
	if err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	title := cmp.Or(format.Clean(d.Title), "iotax")
	about := strings.TrimSuffix(title+", "+format.Clean(d.About), ", ")
	var b bytes.Buffer
	if err := p.t.ExecuteTemplate(&b, "page", map[string]any{"CSS": template.CSS(PageCSS), "Script": template.JS(PageJS),
		"Policy": PagePolicy,
		"Title":  title, "About": d.About, "Picture": about, "Source": d.Source, "Frame": f, "Body": body, "Parts": p.parts}); err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

var pageTemplate = template.Must(template.New("").Funcs(template.FuncMap{
	"text": text, "tone": tone, "svg": chart.SVG,
	"sentences": func(s string) []string { return strings.SplitAfterN(s, ". ", 2) },
	"blocks":    (*page)(nil).blocks, // replaced for each page
}).Parse(pageHTML))

// text escapes a sentence and formats text between backquotes as code. It keeps numbers and their units together.
func text(s string) template.HTML {
	parts := strings.Split(format.Unbroken(format.Clean(s)), "`")
	var b strings.Builder
	for i, part := range parts {
		switch e := template.HTMLEscapeString(part); {
		case i%2 == 0:
			b.WriteString(e)
		case i == len(parts)-1: // an unclosed backquote
			b.WriteString("`" + e)
		default:
			b.WriteString("<code>" + e + "</code>")
		}
	}
	return template.HTML(b.String()) // all parts are escaped
}

func tone(t block.Tone) string {
	return map[block.Tone]string{block.Strong: "strong", block.Quiet: "soft", block.Good: "better", block.Bad: "worse",
		block.Unsure: "unsure"}[t]
}

// page holds the state of Write.
type page struct {
	t       *template.Template
	parts   []part // entries of the table of contents
	names   map[string]int
	heading string // text of the latest heading
}

// A part is a heading with its id.
type part struct{ ID, Text string }

// blocks renders blocks in order, each with the template that has the name of its type.
func (p *page) blocks(all []block.Block) (template.HTML, error) {
	var b bytes.Buffer
	for _, x := range all {
		name, data := strings.TrimPrefix(fmt.Sprintf("%T", x), "block."), any(x)
		switch x := x.(type) {
		case block.Heading:
			p.heading = x.Text
			if x.ID == "" {
				x.ID = fmt.Sprintf("part%d", len(p.parts)+1)
			}
			if x.Sub {
				id := strings.ReplaceAll(format.Fold(x.Text), " ", "-")
				x.ID = strings.ReplaceAll(p.unique(id), " ", "-")
			} else {
				p.parts = append(p.parts, part{x.ID, x.Text})
			}
			data = x
		case block.List:
			shown := len(x.Items)
			if x.Shown > 0 && shown > x.Shown+1 {
				shown = x.Shown
			}
			data = [2][]block.Item{x.Items[:shown], x.Items[shown:]}
		case block.Table:
			data = p.tables(x)
		}
		if err := p.t.ExecuteTemplate(&b, name, data); err != nil {
			return "", err
		}
	}
	return template.HTML(b.String()), nil // templates escape their data
}

// unique returns the name, with a number if an earlier table or subheading of the page has the same name.
func (p *page) unique(name string) string {
	p.names[name]++
	if n := p.names[name]; n > 1 {
		return fmt.Sprintf("%s %d", name, n)
	}
	return name
}

// A tableView is a table, or a part of a table with its own header.
type tableView struct {
	Name, Heading string
	Head          []cellView
	Rows          []rowView
}

type rowView struct {
	Name  string
	Cells []cellView
}

type cellView struct {
	block.Cell
	Class string
}

// tables splits a table at rows with their own header. It omits columns without text and notes, such as those that
// contain only drawings.
func (p *page) tables(t block.Table) (out []tableView) {
	worded := make([]bool, len(t.Head))
	for k := range worded {
		worded[k] = t.Worded(k)
	}
	class := func(k int) (words string) {
		if slices.Contains(t.Right, k) {
			words = "right"
		}
		if slices.Contains(t.Wraps, k) {
			words += " long"
		}
		return strings.TrimSpace(words)
	}
	headed := slices.ContainsFunc(t.Rows, func(r block.Row) bool { return r.Heading != "" && r.Head == nil })
	begin := func(heading string, head []string) {
		v := tableView{Heading: heading}
		if headed {
			v.Head = append(v.Head, cellView{})
		}
		for k, s := range head {
			if worded[k] {
				v.Head = append(v.Head, cellView{block.Cell{Text: s}, class(k)})
			}
		}
		v.Name = p.unique(strings.TrimSuffix(p.heading+", "+heading, ", "))
		out = append(out, v)
	}
	group := ""
	for i, r := range t.Rows {
		if r.Head != nil {
			begin(r.Heading, r.Head)
		} else if i == 0 {
			begin("", t.Head)
		}
		if r.Cells == nil {
			continue
		}
		row := rowView{Name: r.Cells[0].Text}
		// Each row repeats the name of its group, because sorting or filtering may separate it from the group's first
		// row.
		named := func(name string) {
			view := cellView{block.Cell{Text: name}, "long"}
			if name == "" || name == group {
				view.Text, view.Class = group, "long soft"
			}
			group = view.Text
			row.Cells = append(row.Cells, view)
		}
		if headed {
			named(r.Heading)
		}
		for k, c := range r.Cells {
			switch {
			case k < len(worded) && !worded[k]:
			case k == 0 && t.Grouped:
				named(c.Text)
			default:
				row.Cells = append(row.Cells, cellView{c, strings.TrimSpace(class(k) + " " + tone(c.Tone))})
			}
		}
		out[len(out)-1].Rows = append(out[len(out)-1].Rows, row)
	}
	return out
}
