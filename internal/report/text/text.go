// Package text writes documents for a terminal and as Markdown.
package text

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	"iotax/internal/report/block"
	"iotax/internal/report/format"
)

// Options describes the terminal.
type Options struct {
	Width   int    // in columns; 0 means 80, and the minimum is 40
	Program string // replaces "iotax" in suggested commands, if not ""
	Color   bool   // use colours; the caller decides, depending on the terminal and NO_COLOR
}

// A palette styles text, or leaves it unchanged. It uses the 16 base colours, which follow the user's theme.
type palette struct{ bold, dim, good, bad, unsure, accent lipgloss.Style }

func newPalette(color bool) palette {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(termenv.Ascii)
	if color {
		r.SetColorProfile(termenv.ANSI)
	}
	s := r.NewStyle
	return palette{bold: s().Bold(true), dim: s().Faint(true), accent: s().Foreground(lipgloss.Color("6")).Bold(color),
		good: s().Foreground(lipgloss.Color("4")).Bold(true), bad: s().Foreground(lipgloss.Color("1")).Bold(true), unsure: s().Foreground(lipgloss.Color("3"))}
}

func (p palette) of(t block.Tone) lipgloss.Style {
	switch t {
	case block.Strong:
		return p.bold
	case block.Quiet:
		return p.dim
	case block.Good:
		return p.good
	case block.Bad:
		return p.bad
	case block.Unsure:
		return p.unsure
	}
	return lipgloss.NewStyle()
}

// Write writes a document for a terminal.
func Write(w io.Writer, d block.Document, o Options) error {
	if o.Width == 0 {
		o.Width = 80
	}
	t := &writer{width: max(40, o.Width), program: o.Program, pal: newPalette(o.Color)}
	t.blocks(d.Blocks)
	_, err := io.WriteString(w, t.out.String())
	return err
}

type writer struct {
	out     strings.Builder
	width   int
	program string
	pal     palette
}

func (t *writer) line(s string) {
	t.out.WriteString(strings.TrimRight(s, " "))
	t.out.WriteByte('\n')
}

// para wraps and writes s. It prefixes the first line with `first` and the others with `rest`.
func (t *writer) para(s, first, rest string, style lipgloss.Style) {
	width := t.width - ansi.StringWidth(first)
	if ansi.StringWidth(format.Clean(s)) > width {
		width = min(width, t.width-ansi.StringWidth(rest))
	}
	indent := first
	for _, l := range format.Wrap(s, width) {
		t.line(indent + style.Render(l))
		indent = rest
	}
}

func (t *writer) heading(s string) { t.para(s, "", "  ", t.pal.accent) }

// blocks writes blocks separated by empty lines, except before joined blocks and after headings.
func (t *writer) blocks(all []block.Block) {
	joined := t.out.Len() == 0
	for _, b := range all {
		switch b := b.(type) {
		case block.Charts, block.Tiles:
			continue
		case block.Paragraph:
			joined = joined || b.Joined
		case block.List:
			joined = joined || b.Joined
		case block.Notes:
			joined = joined || b.Joined
		}
		if !joined {
			t.line("")
		}
		joined = false
		switch b := b.(type) {
		case block.Answer:
			t.para(b.Text, "", "", t.pal.bold)
		case block.Heading:
			t.heading(b.Text)
			joined = true
		case block.Banner:
			for _, s := range b.Texts {
				t.para(s, "  ! ", "    ", t.pal.bad)
			}
		case block.Paragraph:
			t.para(b.Text, "", "  ", t.pal.of(b.Tone))
		case block.List:
			for k, i := range b.Items {
				if rest := len(b.Items) - k; k == b.Shown && k > 0 && rest > 1 {
					t.para(fmt.Sprintf("and %d more (--format json lists all)", rest), "– ", "  ", t.pal.dim)
					break
				}
				t.para(strings.TrimSpace(i.Text+" "+format.Marks(i.Notes)), "– ", "  ", t.pal.of(i.Tone))
			}
		case block.Table:
			t.table(b)
		case block.Notes:
			t.notes(b.Items)
		case block.Steps:
			t.steps(b.Steps)
		case block.Fold:
			t.heading(b.Summary)
			t.line("")
			t.blocks(b.Blocks)
		}
	}
}

func (t *writer) notes(notes []block.Note) {
	marks := make([]string, len(notes))
	widest := 0
	for i, n := range notes {
		marks[i] = "•"
		if n.Number > 0 {
			marks[i] = format.Mark(n.Number)
		}
		widest = max(widest, ansi.StringWidth(marks[i]))
	}
	indent := strings.Repeat(" ", widest+1)
	for i, n := range notes {
		label, text := format.Clean(n.Label), n.Text
		if label != "" {
			label += ":"
			text = label + " " + text
		}
		first := format.Pad(marks[i], len(indent))
		for k, l := range format.Wrap(text, t.width-len(indent)) {
			if rest, ok := strings.CutPrefix(l, label); ok && k == 0 && label != "" {
				l = t.pal.of(n.Tone).Render(label) + rest
			}
			t.line(first + l)
			first = indent
		}
		if n.Hint != "" {
			t.para(n.Hint, indent+"→ ", indent+"  ", t.pal.dim)
		}
	}
}

func (t *writer) steps(steps []block.Step) {
	name, command := 0, 0
	steps = slices.Clone(steps)
	for i, s := range steps {
		name = max(name, ansi.StringWidth(s.Name))
		if rest, ok := strings.CutPrefix(s.Command, "iotax "); ok && t.program != "" {
			steps[i].Command = t.program + " " + rest
		}
	}
	for _, s := range steps {
		if w := ansi.StringWidth(s.Command); name+2+w+2+ansi.StringWidth(s.About) <= t.width {
			command = max(command, w)
		}
	}
	for _, s := range steps {
		first := format.Pad(s.Name, name) + "  "
		rest := strings.Repeat(" ", name+4)
		if l := format.Pad(s.Command, command) + "  " + s.About; ansi.StringWidth(first+l) <= t.width {
			t.line(t.pal.bold.Render(first) + format.Pad(s.Command, command) + "  " + t.pal.dim.Render(s.About))
			continue
		}
		if l := s.Command + "  " + s.About; ansi.StringWidth(first+l) <= t.width {
			t.line(t.pal.bold.Render(first) + s.Command + "  " + t.pal.dim.Render(s.About))
			continue
		}
		t.para(s.Command, first, rest, lipgloss.NewStyle())
		t.para(s.About, rest, rest, t.pal.dim)
	}
}
