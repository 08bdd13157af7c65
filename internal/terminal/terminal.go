// Package terminal prepares text for a terminal: its width, its colours, and the replacement of control characters.
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

// Size returns the size of the terminal behind w. If w is not a terminal, it returns `fallback` columns and 0 rows.
func Size(w io.Writer, fallback int) (columns, rows int) {
	if f, ok := w.(*os.File); ok {
		if n, rows, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n, rows
		}
	}
	return fallback, 0
}

// Width returns the number of columns from Size.
func Width(w io.Writer, fallback int) int {
	columns, _ := Size(w, fallback)
	return columns
}

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Color reports whether w should get colours: it is a terminal, NO_COLOR is empty, and TERM is not "dumb".
func Color(w io.Writer) bool {
	return Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Hanging returns lead followed by text. It wraps text so that lines have at most `columns` columns, but leaves at
// least 20 columns for text. It indents the lines after the first to the start of text. If columns is 0, it does not
// wrap.
func Hanging(lead, text string, columns int) string {
	n := ansi.StringWidth(lead)
	if columns > 0 {
		const unbroken = "\u2011" // keeps a hyphenated name on one line, so that users can copy it
		text = strings.ReplaceAll(ansi.Wordwrap(strings.ReplaceAll(text, "-", unbroken), max(20, columns-n), ""), unbroken, "-")
	}
	return lead + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
}

// Elapsed formats a duration, rounded to tenths of a second below a minute, otherwise to seconds.
func Elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprint(d.Round(100 * time.Millisecond))
	}
	return fmt.Sprint(d.Round(time.Second))
}

// CleanLines replaces control characters, which the output of a target may contain. It keeps newlines and tabs.
func CleanLines(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, s)
}

var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// Clean is like CleanLines, but also replaces newlines and tabs with spaces.
func Clean(s string) string { return CleanLines(oneLine.Replace(s)) }

// FirstLine returns the first line of an error. The other lines contain console output and hints, which the report
// shows.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
