// Package block holds the parts of a document: what a reader is shown and how much it matters, not how it looks.
package block

import (
	"slices"

	"iotax/internal/report/chart"
)

// A Document is a report or a comparison, ready to be shown.
type Document struct {
	Title  string // shown where the document stands alone, as in an issue
	About  string // when it was measured, and how the run ended
	Source string // the program that wrote it, and the run
	Blocks []Block
}

// A Block is one of the types below.
type Block interface{ block() }

// A Tone is what a colour says.
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
	Note string // below it, where there is room
	ID   string // the links to it use; "" has none
	Sub  bool   // of a part of the part before it
}

// A Link is an address with its text. Only pages show links.
type Link struct{ Text, Href string }

// A Banner is a caveat about the whole document.
type Banner struct{ Texts []string }

// A Paragraph is text. A joined one follows the block before it without an empty line.
type Paragraph struct {
	Text   string
	Tone   Tone
	Joined bool
	Links  []Link
}

// A List has an item a line.
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

// Notes are numbered, or have a bullet where the number is 0.
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
	More   []string // the same in full, where Text is cut
	Hint   string
}

// Steps are commands for what comes next.
type Steps struct{ Steps []Step }

// A Step is one command.
type Step struct{ Name, Command, About string }

// A Fold holds what a reader asks for.
type Fold struct {
	Summary, Note string
	Blocks        []Block
}

// Tiles answer the first questions of a reader. Only pages have them.
type Tiles struct{ Tiles []Tile }

// A Tile is one figure. Its link leads to the part about it.
type Tile struct {
	Name, Figure, About string
	Tone                Tone
	Link                string
}

// Charts stand beside each other where there is room. Only pages have them: tables hold the same numbers.
type Charts struct{ Charts []Chart }

// A Chart is a drawing.
type Chart struct {
	Name            string // of the file it is saved to
	Caption         string
	Drawing, Narrow chart.Drawing // Narrow: for a phone, where that is another one
	Small           bool          // one of many
	Key             []Key
	Views           []string // of the drawing, to choose from; nil where there is one
}

// A Key says what the colour of a tone means in a chart.
type Key struct{ Tone, Text string }

// A Table has columns of words, numbers and drawings.
type Table struct {
	Title string // of one that has a heading of its own, which is a block before it
	Head  []string
	Rows  []Row
	Right []int // columns of numbers
	Wraps []int // columns of names, which give way first where there is no room
	Least int   // columns that are never left out; 0 is all of them
	Keys  int   // where the table is too wide: leading columns that each of its parts has; 0 stacks the cells instead
	Ruled bool  // has a line below its head

	Grouped bool   // the first column is the same on several rows: it may be a heading
	Plot    int    // the column of spans; 0 is none
	Ticks   []Tick // of the spans' axis
	Zero    float64
}

// A Row is a row of cells, or a heading of the rows below it, which may have a head of their own.
type Row struct {
	Heading string
	Head    []string
	Cells   []Cell
	Weight  float64 // in a table that is cut, the rows with the largest stay
}

// A Cell is a text, and what is drawn beside it where there is room.
type Cell struct {
	Text  string
	Short string // where there is no room for Text; "" is Text
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

// A Shade tells the parts of a bar apart.
type Shade int

const (
	Full Shade = iota
	Lost
	Gained
)

// A Span is an interval on the axis of its column, which goes from 0 to 1. Beyond that it is cut off.
type Span struct {
	Lo, Mid, Hi float64
	Reference   bool // the row that the others are compared with
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

// Words are cells of text.
func Words(texts ...string) Row {
	cells := make([]Cell, len(texts))
	for i, s := range texts {
		cells[i].Text = s
	}
	return Row{Cells: cells}
}

// Columns is the table with only those columns, in that order.
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

// Filled is the table without those columns of columns in which no cell has a text or a note.
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
