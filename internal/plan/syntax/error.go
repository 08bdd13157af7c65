package syntax

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"
	"github.com/mattn/go-runewidth"
)

// An Error is an error in a plan, with its place in the user's text.
type Error struct {
	Pos    Pos    // zero if the text is a word of the command line
	Word   string // "target 2", "workload 1": names the word if Pos is zero
	Source string // the line of the file, or the word
	Column int    // first character of the bad token in Source, from 1; 0 if unknown
	Width  int    // length of the bad token in characters
	Msg    string
	Hint   string // "" if there is none

	index int // index of the word
}

// Error returns the position and message, the source line, a caret line, and the hint:
//
//	plan.yaml:9:18: unknown key "iodeph" of fio
//	    random: {fio: {iodeph: 32}}
//	                   ^^^^^^
//	  hint: did you mean "iodepth"?
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Pos.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", printable(e.Pos.File), e.Pos.Line, e.Pos.Column)
	case e.Pos.File != "":
		b.WriteString(printable(e.Pos.File) + ": ")
	case e.Word != "":
		b.WriteString(printable(e.Word) + ": ")
	}
	b.WriteString(printable(e.Msg))
	if e.Column > 0 {
		line, caret := Excerpt(e.Source, e.Column, e.Width, excerptWidth)
		b.WriteString("\n  " + line + "\n  " + caret)
	}
	if e.Hint != "" {
		for i, line := range strings.Split(e.Hint, "\n") {
			if i == 0 {
				b.WriteString("\n  hint: ")
			} else {
				b.WriteString("\n        ")
			}
			b.WriteString(printable(line))
		}
	}
	return b.String()
}

// Errors contains the errors of a plan.
type Errors []*Error

// maxPrinted is the maximum number of errors that Errors.Error prints. A generated plan may have thousands.
const maxPrinted = 20

func (es Errors) Error() string {
	var b strings.Builder
	for i, e := range es {
		if i == maxPrinted {
			fmt.Fprintf(&b, "\nand %d more errors", len(es)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

// Unwrap lets errors.As and errors.Is inspect each error.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// printable escapes characters that move the cursor, ring the bell, or hide or reorder text on a terminal.
func printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		b.WriteString(printableRune(r, s[i:i+n]))
		i += n
	}
	return b.String()
}

func printableRune(r rune, raw string) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case strconv.IsPrint(r):
		return raw
	}
	q := strconv.QuoteRune(r)
	return q[1 : len(q)-1]
}

// Quote formats s like %q, shortened to fit on a line.
func Quote(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return strconv.Quote(s)
}

// excerptWidth is the maximum number of characters of a line that an error shows.
const excerptWidth = 110

// Excerpt returns up to `most` characters of `line` around the token at `column`, and a line of carets that mark the
// token. A `most` below 20 counts as 20. Excerpt escapes unprintable characters. `column` and `width` are in
// characters, `column` from 1.
func Excerpt(line string, column, width, most int) (text, carets string) {
	most = max(20, most)
	// Stop after the part that is shown: the line may be a megabyte long.
	var runes []string
	i, first, n := 0, 0, 0
	if len(line) > most && utf8.RuneCountInString(line) > most {
		first = max(0, column-1-most*6/11)
	}
	for i < len(line) && len(runes) < most {
		r, size := utf8.DecodeRuneInString(line[i:])
		if n >= first {
			raw := line[i : i+size]
			if r == '\t' {
				raw = "\t"
			}
			runes = append(runes, printableRune(r, raw))
		}
		i += size
		n++
	}
	var t, c strings.Builder
	if first > 0 {
		t.WriteString("…")
		c.WriteString(" ")
	}
	at := column - 1 - first
	for k, r := range runes {
		t.WriteString(r)
		w := runewidth.StringWidth(r)
		switch {
		case k < at:
			c.WriteString(strings.Repeat(" ", w))
		case k < at+max(1, width):
			c.WriteString(strings.Repeat("^", w))
		}
	}
	if at >= len(runes) { // the error is at the end of the line
		c.WriteString("^")
	}
	if i < len(line) {
		t.WriteString("…")
	}
	return strings.TrimRight(t.String(), " "), c.String()
}

// Nearest returns the candidate that word probably means, or "". Of equally near candidates it returns the
// first.
func Nearest(word string, candidates []string) string {
	// With long words, `distance` would take too much time. No known key is longer than 64 bytes.
	if word == "" || len(word) > 64 {
		return ""
	}
	best, bestD := "", 0
	fold := strings.ToLower(word)
	limit := (utf8.RuneCountInString(word) + 1) / 3
	for _, c := range candidates {
		d := distance(fold, strings.ToLower(c))
		if d <= limit && (best == "" || d < bestD) {
			best, bestD = c, d
		}
	}
	return best
}

// distance returns the number of wrong, missing and extra letters. It counts one swap of two adjacent letters
// as one error.
func distance(word, meant string) int {
	d := levenshtein.Distance(word, meant, nil)
	if d < 2 {
		return d
	}
	letters := []rune(word)
	for i := range len(letters) - 1 {
		letters[i], letters[i+1] = letters[i+1], letters[i]
		d = min(d, 1+levenshtein.Distance(string(letters), meant, nil))
		letters[i], letters[i+1] = letters[i+1], letters[i]
	}
	return d
}

// DidYouMean returns the hint for an unknown word: the nearest candidate, or all candidates if there are few, or "".
func DidYouMean(word string, candidates []string) string {
	if n := Nearest(word, candidates); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	if len(candidates) == 0 || len(candidates) > 24 {
		return ""
	}
	return "known are " + strings.Join(candidates, ", ")
}

// Pos is a place in a plan file. The zero Pos means the command line.
type Pos struct {
	File         string
	Line, Column int // from 1
}

// List joins the first twelve words for use in a sentence.
func List(words []string) string {
	const most = 12
	if len(words) == 0 {
		return "nothing"
	}
	if len(words) > most {
		return strings.Join(words[:most], ", ") + ", …"
	}
	return strings.Join(words, ", ")
}
