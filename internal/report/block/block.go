// Package block holds the parts of a document: its contents and their importance, not their appearance.
package block

import (
	"slices"

	"iotax/internal/report/chart"
)

// A Document is a report or a comparison, ready to be shown.
type Document struct {
	Title  string // shown if the document is not part of a page, as in an issue
	About  string // date, duration and status of the run
	Source string // the program that wrote it, and the run
	Blocks []Block
}

// A Block is one of the types below.
type Block interface{ block() }

// A Tone is the meaning of a colour.
type Tone int

const (
	Plain Tone = iota
	Strong
	Quiet
	Good
	Bad
	Unsure
)

// An Answer is the first line.
type Answer struct{ Text string }

// A Heading begins a part.
type Heading struct {
	Text string
	Note string // below it, if there is room
	ID   string // target of links, or ""
	Sub  bool   // a level below the heading before it
}

// A Link is an address with its text. Only pages show links.
type Link struct{ Text, Href string }

// A Banner is a caveat about the whole document.
type Banner struct{ Texts []string }

// A Paragraph is text. A joined paragraph follows the block before it without an empty line.
type Paragraph struct {
	Text   string
	Tone   Tone
	Joined bool
	Links  []Link
}

// A List shows one item per line.
type List struct {
	Items  []Item
	Joined bool
	Shown  int // a page folds the items beyond it, a terminal counts them; 0 shows all
}

// An Item is a sentence with the numbers of its notes.
type Item struct {
	Text  string
	Tone  Tone
	Notes []int
	Links []Link
}

// Notes are numbered. A note with number 0 has a bullet.
type Notes struct {
	Items  []Note
	Joined bool
}

// A Note is a remark on a part of the document.
type Note struct {
	Number int
	Label  string // "cache-served"
	Level  string // "warning"
	Tone   Tone   // of the label
	Text   string
	More   []string // the full text, if Text is cut
	Hint   string
}

// Steps are commands for what comes next.
type Steps struct{ Steps []Step }

// A Step is one command.
type Step struct{ Name, Command, About string }

// A Fold is a part that a page shows on demand.
type Fold struct {
	Summary, Note string
	Blocks        []Block
}

// Tiles are the most important numbers. Only pages have them.
type Tiles struct{ Tiles []Tile }

// A Tile is one number. Its link leads to the part about it.
type Tile struct {
	Name, Figure, About string
	Tone                Tone
	Link                string
}

// Charts are drawn next to each other if there is room. Only pages have them: tables hold the same numbers.
type Charts struct{ Charts []Chart }

// A Chart is a drawing.
type Chart struct {
	Name            string // of the saved file
	Caption         string
	Drawing, Narrow chart.Drawing // Narrow: for a phone, if that is a different drawing
	Small           bool          // one of many
	Key             []Key
	Views           []string // of the drawing, to choose from; nil if it has one view
}

// A Key explains the colour of a tone in a chart.
type Key struct{ Tone, Text string }

// A Table has columns of words, numbers and drawings.
type Table struct {
	Title string // of a table whose heading is the block before it
	Head  []string
	Rows  []Row
	Right []int // columns of numbers
	Wraps []int // columns of names, which wrap first if there is no room
	Least int   // leading columns that are always shown, 0 is all
	Keys  int   // leading columns that are repeated if the table is split; 0 stacks the cells instead
	Ruled bool  // draw a line below the head

	Grouped bool   // several rows have the same first column, which may become a heading
	Plot    int    // the column of spans, or 0
	Ticks   []Tick // of the spans' axis
	Zero    float64
}

// A Row is a row of cells, or a heading of the rows below it, which may have their own head.
type Row struct {
	Heading string
	Head    []string
	Cells   []Cell
	Weight  float64 // of a table that is cut, the heaviest rows stay
}

// A Cell is a text with a drawing.
type Cell struct {
	Text  string
	Short string // used if there is no room for Text; "" is Text
	Tone  Tone
	Notes []int
	Bar   []Part
	Span  *Span
	Link  Link
}

// A Part is a piece of a bar.
type Part struct {
	Share float64 // of the longest bar
	Shade Shade
}

// A Shade distinguishes the parts of a bar.
type Shade int

const (
	Full Shade = iota
	Lost
	Gained
)

// A Span is an interval on the axis of its column, which ranges from 0 to 1. Parts outside are cut off.
type Span struct {
	Lo, Mid, Hi float64
	Reference   bool // the row that others are compared with
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

// Words returns a row of texts.
func Words(texts ...string) Row {
	cells := make([]Cell, len(texts))
	for i, s := range texts {
		cells[i].Text = s
	}
	return Row{Cells: cells}
}

// Columns returns the table with only those columns, in that order.
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

// Filled returns the table without those of the named columns that have neither text nor note.
func (t Table) Filled(columns ...int) Table {
	var keep []int
	for k := range t.Head {
		if !slices.Contains(columns, k) || slices.ContainsFunc(t.Rows, func(r Row) bool {
			return k < len(r.Cells) && (r.Cells[k].Text != "" || r.Cells[k].Notes != nil)
		}) {
			keep = append(keep, k)
		}
	}
	return t.Columns(keep...)
}
