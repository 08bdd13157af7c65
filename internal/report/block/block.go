// Package block defines the parts of a document: their contents and importance, but not their appearance.
package block

import (
	"slices"

	"iotax/internal/report/chart"
)

// A Document is a report or a comparison, ready to be rendered.
type Document struct {
	Title  string // shown on a page and in Markdown, but not on a terminal
	About  string // date, duration, status and baseline of the run
	Source string // the program that wrote the document, and the run
	Blocks []Block
}

// A Block is one of the block types below.
type Block interface{ block() }

// A Tone is the meaning that a colour conveys.
type Tone int

const (
	Plain Tone = iota
	Strong
	Quiet
	Good
	Bad
	Unsure
)

// An Answer is the first line of a document.
type Answer struct{ Text string }

// A Heading starts a section.
type Heading struct {
	Text string
	Note string // shown below the heading; only pages show it
	ID   string // anchor for links, or ""
	Sub  bool   // one level below the preceding heading
}

// A Link is a text with an address. Only pages show links.
type Link struct{ Text, Href string }

// A Banner is a warning about the whole document.
type Banner struct{ Texts []string }

// A Paragraph is text. If Joined is set, no empty line separates it from the preceding block.
type Paragraph struct {
	Text   string
	Tone   Tone
	Joined bool
	Links  []Link
}

// A List shows one item per line. Joined means the same as in Paragraph.
type List struct {
	Items  []Item
	Joined bool
	Shown  int // number of items that are always shown; 0 means all; a page folds the others, and a terminal counts them
}

// An Item is a sentence with the numbers of its notes.
type Item struct {
	Text  string
	Tone  Tone
	Notes []int
	Links []Link
}

// Notes is a list of numbered notes. A note with number 0 gets a bullet.
type Notes struct {
	Items  []Note
	Joined bool
}

// A Note is a remark about a part of the document.
type Note struct {
	Number int
	Label  string // for example "cache-served"
	Level  string // for example "warning"
	Tone   Tone   // tone of the label
	Text   string
	More   []string // the full text, if Text is shortened
	Hint   string
}

// Steps lists commands for what to do next.
type Steps struct{ Steps []Step }

// A Step is one command.
type Step struct{ Name, Command, About string }

// A Fold is a part that a page shows only on demand.
type Fold struct {
	Summary, Note string
	Blocks        []Block
}

// Tiles shows the most important numbers. Only pages show it.
type Tiles struct{ Tiles []Tile }

// A Tile is one number. Link leads to the part of the document that explains the number.
type Tile struct {
	Name, Figure, About string
	Tone                Tone
	Link                string
}

// Charts shows charts side by side if there is room. Only pages show it: the tables contain the same numbers.
type Charts struct{ Charts []Chart }

// A Chart is a drawing with a caption.
type Chart struct {
	Name            string // names the saved file: iotax-NAME.svg
	Caption         string
	Drawing, Narrow chart.Drawing // Narrow replaces Drawing on a phone, if it is set
	Small           bool          // one of many small charts
	Key             []Key
	Views           []string // names of the drawing's views; nil if it has only one
}

// A Key explains the meaning of a colour in a chart.
type Key struct{ Tone, Text string }

// A Table has columns of text, numbers and drawings.
type Table struct {
	Title string // text of the heading before the table, which is a block of its own
	Head  []string
	Rows  []Row
	Right []int // columns that are right-aligned, for numbers
	Wraps []int // columns of names, which wrap first if space is short
	Least int   // number of leading columns that are always shown; 0 means all
	Keys  int   // number of leading columns that are repeated if the table is split; 0 stacks the cells instead
	Ruled bool  // draw a line below the header

	Grouped bool   // successive rows may have the same first cell, which may become a heading
	Plot    int    // the column with spans; 0 means none
	Ticks   []Tick // on the axis of the spans
	Zero    float64
}

// A Row is a row of cells. If Heading is set, it is shown above the row. If Head is set, it replaces the header from
// this row on.
type Row struct {
	Heading string
	Head    []string
	Cells   []Cell
	Weight  float64 // if a table is shortened, the rows with the largest weight remain
}

// A Cell is a text, optionally with a drawing.
type Cell struct {
	Text  string
	Short string // used if there is no room for Text; "" means Text is used
	Tone  Tone
	Notes []int
	Bar   []Part
	Span  *Span
	Link  Link
}

// A Part is a segment of a bar.
type Part struct {
	Share float64 // relative to the longest bar
	Shade Shade
}

// A Shade distinguishes the segments of a bar.
type Shade int

const (
	Full Shade = iota
	Lost
	Gained
)

// A Span is an interval on the axis of its column. The axis ranges from 0 to 1. A part of the interval outside this
// range is cut off.
type Span struct {
	Lo, Mid, Hi float64
	Reference   bool // the span is in the row that the other rows are compared with
}

// A Tick is a labelled position on an axis.
type Tick struct {
	At    float64
	Label string
}

func (Answer) block()    {}
func (Heading) block()   {}
func (Banner) block()    {}
func (Paragraph) block() {}
func (List) block()      {}
func (Notes) block()     {}
func (Steps) block()     {}
func (Fold) block()      {}
func (Tiles) block()     {}
func (Charts) block()    {}
func (Table) block()     {}

// Words returns a row of plain text cells.
func Words(texts ...string) Row {
	cells := make([]Cell, len(texts))
	for i, s := range texts {
		cells[i].Text = s
	}
	return Row{Cells: cells}
}

// Columns returns the table with only the given columns, in the given order.
func (t Table) Columns(keep ...int) Table {
	renumbered := func(columns []int) (out []int) {
		for i, k := range keep {
			if slices.Contains(columns, k) {
				out = append(out, i)
			}
		}
		return out
	}
	t.Head, t.Right, t.Wraps = picked(t.Head, keep), renumbered(t.Right), renumbered(t.Wraps)
	t.Least, t.Plot = min(t.Least, len(keep)), max(0, slices.Index(keep, t.Plot))
	t.Rows = slices.Clone(t.Rows)
	for i, r := range t.Rows {
		t.Rows[i].Head, t.Rows[i].Cells = picked(r.Head, keep), picked(r.Cells, keep)
	}
	return t
}

func picked[T any](all []T, keep []int) (out []T) {
	for _, k := range keep {
		if k < len(all) {
			out = append(out, all[k])
		}
	}
	return out
}

// Refers reports whether any cell of the table refers to the note.
func (t Table) Refers(note int) bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool {
		return slices.ContainsFunc(r.Cells, func(c Cell) bool { return slices.Contains(c.Notes, note) })
	})
}

// Worded reports whether any cell of a column has text or notes.
func (t Table) Worded(k int) bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool { return k < len(r.Cells) && (r.Cells[k].Text != "" || r.Cells[k].Notes != nil) })
}

// Filled returns the table without those of the given columns that have neither text nor notes.
func (t Table) Filled(columns ...int) Table {
	var keep []int
	for k := range t.Head {
		if !slices.Contains(columns, k) || t.Worded(k) {
			keep = append(keep, k)
		}
	}
	return t.Columns(keep...)
}
