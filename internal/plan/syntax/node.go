// Package syntax reads the text of plans, either YAML or command-line words, into nodes with their places. It
// also writes nodes as YAML. It contains the errors that point into the text, and the units of values. It
// does not depend on the contents of plans.
package syntax

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Mark is a place in the text of a plan: its position, and the line or command-line word around it. The
// zero Mark means no place.
type Mark struct {
	Pos
	Word          string // "target 2" for a word of the command line
	Source        string // the line, or the word
	Column, Width int    // of the token in Source, in characters; Column from 1
}

func (n *Node) Mark() Mark {
	if n == nil || n.Src == nil {
		return Mark{}
	}
	line, col, width := n.shown()
	return Mark{Pos: n.Pos(), Word: n.Src.Word, Source: line, Column: col, Width: width}
}

// A Source is a text that errors can point into.
type Source struct {
	file  string
	Word  string // "target 2" for a word of the command line
	Index int    // index of the word
	Lines []string
}

func (s *Source) line(n int) string {
	if n < 1 || n > len(s.Lines) {
		return ""
	}
	return s.Lines[n-1]
}

type nodeKind int

const (
	NullNode nodeKind = iota
	ScalarNode
	ListNode
	MappingNode
)

// A Node is a value of a plan with its place. Aliases and merge keys are resolved. Plan files and
// command-line words both become nodes, so that one binder handles both.
type Node struct {
	Kind      nodeKind
	Src       *Source
	Line, Col int // from 1, in characters
	Width     int // width of the token
	Text      string
	Doc       string // comment that YAML writes after the value
	Items     []*Node
	Entries   []Pair
}

type Pair struct {
	Key, Val *Node
}

func (n *Node) Get(key string) (Pair, bool) {
	for _, e := range n.Entries {
		if e.Key.Text == key {
			return e, true
		}
	}
	return Pair{}, false
}

func (n *Node) Pos() Pos {
	if n == nil || n.Src == nil || n.Src.Word != "" {
		return Pos{}
	}
	_, col, _ := n.shown()
	return Pos{File: n.Src.file, Line: n.Line, Column: col}
}

// shown returns the line of n without secrets, and the position of n in that line.
func (n *Node) shown() (line string, column, width int) {
	return unmasked(n.Src.line(n.Line), n.Col, n.Width)
}

// From returns a copy of n whose place is character col of the value, counted from 1. It returns n itself if col is 1
// or beyond the value, or if the source does not contain the value unchanged.
func (n *Node) From(col int) *Node {
	text := []rune(n.Text)
	if col < 2 || col > len(text) || n.Kind != ScalarNode || n.Src == nil {
		return n
	}
	line := []rune(n.Src.line(n.Line))
	for _, quote := range []int{0, 1} {
		at := n.Col - 1 + quote
		if at+len(text) <= len(line) && string(line[at:at+len(text)]) == n.Text {
			s := *n
			s.Col, s.Width = at+col, 1
			return &s
		}
	}
	return n
}

func (n *Node) What() string {
	switch n.Kind {
	case ScalarNode:
		return Quote(n.Text)
	case ListNode:
		return "a list"
	case MappingNode:
		return "a mapping"
	}
	return "nothing"
}

// Collector collects errors. It keeps only one of several equal errors at the same place, because each axis value may
// cause the same error.
type Collector struct {
	Errs Errors
	seen map[string]bool
}

func (c *Collector) Fail(n *Node, hint, format string, args ...any) {
	e := &Error{Msg: fmt.Sprintf(format, args...), Hint: hint}
	if n != nil {
		e.Pos = n.Pos()
		e.Column, e.Width = n.Col, n.Width
		if n.Src != nil {
			e.Source, e.Column, e.Width = n.shown()
			e.Word = n.Src.Word
			e.Pos.File = n.Src.file
			e.index = n.Src.Index
		}
	}
	c.Add(e)
}

func (c *Collector) Add(e *Error) {
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	id := fmt.Sprint(e.Pos, e.Word, e.Column, e.Msg)
	if !c.seen[id] {
		c.seen[id] = true
		c.Errs = append(c.Errs, e)
	}
}

// Sorted sorts the errors by their position in the plan and returns them.
func (c *Collector) Sorted() Errors {
	slices.SortStableFunc(c.Errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Column, b.Column))
	})
	return c.Errs
}

// Err returns the errors, or nil if there are none. It never returns an empty Errors.
func (c *Collector) Err() error {
	if len(c.Errs) == 0 {
		return nil
	}
	return c.Errs
}

// Listed returns the values of a list, or the single value as a list.
func (n *Node) Listed() []*Node {
	if n.Kind == ListNode {
		return n.Items
	}
	return []*Node{n}
}

func OrKey(val, key *Node) *Node {
	if val.Kind == NullNode {
		return key
	}
	return val
}

// Sub returns the bytes n.Text[lo:hi] of the word, with their place.
func (n *Node) Sub(lo, hi int) *Node {
	s := *n
	s.Col = n.Col + utf8.RuneCountInString(n.Text[:lo])
	s.Text = n.Text[lo:hi]
	s.Width = max(1, utf8.RuneCountInString(s.Text))
	return &s
}

// Made returns a generated value with the place of n.
func (n *Node) Made(text string) *Node {
	s := *n
	s.Text = text
	return &s
}

func Mapping(like *Node, entries ...Pair) *Node {
	s := *like
	s.Kind, s.Entries = MappingNode, entries
	return &s
}

func (n *Node) Split(sep string) (out []*Node) {
	lo := 0
	for {
		i := strings.Index(n.Text[lo:], sep)
		if i < 0 {
			return append(out, n.Sub(lo, len(n.Text)))
		}
		out = append(out, n.Sub(lo, lo+i))
		lo += i + len(sep)
	}
}

// Query splits n.Text[start:] at the first "?". It returns the body and the key=value pairs.
func (n *Node) Query(start int) (body *Node, pairs []*Node) {
	i := strings.IndexByte(n.Text[start:], '?')
	if i < 0 {
		return n.Sub(start, len(n.Text)), nil
	}
	return n.Sub(start, start+i), n.Sub(start+i+1, len(n.Text)).Split("&")
}
