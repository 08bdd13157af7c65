// Package table sets parts of a report as tables of words, which each format draws in its own way.
package table

// A Table is a table of words.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string // one of a single cell is a heading of those below it
	Right []int      // columns of numbers
	Wraps []int      // columns of names, which give way first where there is no room
	Least int        // columns that are never left out
	Keys  int        // of a table that may be parted: leading columns that each part has

	// Grouped says that the first column is the same on several rows: a terminal shows it as a heading.
	Grouped bool
}
