package format

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Plural formats a count: "1 round", "3 rounds".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Enumerate joins words: "a, b and c". Instead of the words beyond `limit`, it prints their number, followed by the
// noun `of` if there is one: "a, b and 2 more cells".
func Enumerate(words []string, limit int, of string) string {
	if n := len(words) - limit; n > 0 {
		more := fmt.Sprintf("%d more", n)
		if of != "" && n > 1 {
			of = strings.TrimSuffix(of, "s") + "s" // it may already be a plural
		}
		words = append(words[:limit:limit], strings.TrimSpace(more+" "+of))
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Listed is the maximum number of items that a sentence lists.
const Listed = 3

// Cut keeps the first `limit` words and counts the others: "a", "b", "2 more cells".
func Cut(words []string, limit int, of string) []string {
	if n := len(words) - limit; n > 0 {
		return append(words[:limit:limit], Plural(n, "more "+of))
	}
	return words
}

// NBSP is the no-break space.
const NBSP = "\u00a0"

// Figures matches numbers together with their units and intervals.
var Figures = regexp.MustCompile(`(± )?\d[\d.]*[kM]?[×x]? ((%|[KMG]iB(/s)?|[mµn]?s\b)( \[[^\]]*\])?|\[[^\]]*\])|± \d[\d.]*`)

// Bind replaces the spaces inside the matches of Figures with NBSP.
func Bind(s string) string {
	return Figures.ReplaceAllStringFunc(s, func(m string) string { return strings.ReplaceAll(m, " ", NBSP) })
}

var fromTo = regexp.MustCompile(`([\d×])–([<>\d])`)

// Unbroken is like Bind, but also keeps browsers from breaking a line after the dash of an interval.
func Unbroken(s string) string {
	return fromTo.ReplaceAllString(Bind(s), "$1\u2060–\u2060$2")
}

// Wrap breaks text into lines of at most `width` columns. It keeps numbers and their units together and removes
// terminal control sequences.
func Wrap(s string, width int) []string {
	lines := Break(Bind(Clean(s)), width)
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, NBSP, " ")
	}
	return lines
}

// Break breaks plain text into lines of at most `width` columns. It breaks at spaces, and inside a word only if the
// word is too long. Unlike ansi.Wrap, it does not break at hyphens, which are frequent in names and flags.
func Break(s string, width int) []string {
	width = max(2, width)
	var lines []string
	line := ""
	for word := range strings.SplitSeq(s, " ") {
		if line != "" && ansi.StringWidth(line)+1+ansi.StringWidth(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for ansi.StringWidth(word) > width {
			head := ansi.Truncate(word, width, "")
			lines = append(lines, head)
			word = word[len(head):]
		}
		line = word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Pad appends spaces to s until it is at least `width` columns wide.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

var superscripts = strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")

// Mark returns the superscript reference to a note: "¹²".
func Mark(n int) string { return superscripts.Replace(strconv.Itoa(n)) }

// Marks returns the superscript references to several notes.
func Marks(notes []int) string {
	var s []string
	for _, n := range notes {
		s = append(s, Mark(n))
	}
	return strings.Join(s, " ")
}
