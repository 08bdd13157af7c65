// Package terminal prepares text for people: the width of their terminal, its colours, and nothing in it that a terminal would act on.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Size returns the size of the terminal behind w. If w is not a terminal, columns is fallback and rows is 0.
func Size(w io.Writer, fallback int) (columns, rows int) {
	if f, ok := w.(*os.File); ok {
		if n, rows, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n, rows
		}
	}
	return fallback, 0
}

// Width is the number of columns of Size.
func Width(w io.Writer, fallback int) int {
	columns, _ := Size(w, fallback)
	return columns
}

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Color reports whether w should get colours: a terminal, and NO_COLOR unset.
func Color(w io.Writer) bool {
	return Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Hanging is text after lead, broken at the columns of a terminal and indented below itself; 0 columns does not break it.
func Hanging(lead, text string, columns int) string {
	n := ansi.StringWidth(lead)
	if columns > 0 {
		const unbroken = "\u2011" // a name with hyphens is to be copied
		text = strings.ReplaceAll(ansi.Wordwrap(strings.ReplaceAll(text, "-", unbroken), max(20, columns-n), ""), unbroken, "-")
	}
	return lead + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
}

// Elapsed prints a length of time: tenths of a second below a minute.
func Elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprint(d.Round(100 * time.Millisecond))
	}
	return fmt.Sprint(d.Round(time.Second))
}

// CleanLines replaces control characters, which the output of a target may contain. Ends of lines and tabs stay.
func CleanLines(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, s)
}

var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// Clean is CleanLines for text that stays on one line.
func Clean(s string) string { return CleanLines(oneLine.Replace(s)) }

// FirstLine leaves out the other lines of an error: consoles and hints, which the report has.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
