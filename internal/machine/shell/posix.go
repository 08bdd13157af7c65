package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// declares turns the calls of export and readonly into declarations: the parser, which is asked for POSIX, leaves them calls of
// builtins, and the interpreter knows them as declarations alone, as bash has them. Its own POSIX has all of the rest.
func declares(file *syntax.File) {
	syntax.Walk(file, func(n syntax.Node) bool {
		s, ok := n.(*syntax.Stmt)
		if !ok {
			return true
		}
		call, ok := s.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || len(call.Assigns) > 0 {
			return true
		}
		if name := call.Args[0].Lit(); name != "export" && name != "readonly" {
			return true
		}
		d := &syntax.DeclClause{Variant: call.Args[0].Parts[0].(*syntax.Lit)}
		for _, w := range call.Args[1:] {
			d.Args = append(d.Args, assign(w))
		}
		s.Cmd = d
		return true
	})
}

// assign reads NAME=VALUE; a word that is none is the name alone, or an option.
func assign(w *syntax.Word) *syntax.Assign {
	first, ok := w.Parts[0].(*syntax.Lit)
	if !ok {
		return &syntax.Assign{Naked: true, Value: w}
	}
	name, rest, ok := strings.Cut(first.Value, "=")
	if !ok {
		if len(w.Parts) > 1 {
			return &syntax.Assign{Naked: true, Value: w}
		}
		return &syntax.Assign{Naked: true, Name: first}
	}
	value := &syntax.Word{Parts: w.Parts[1:]}
	if rest != "" || len(value.Parts) == 0 {
		value.Parts = append([]syntax.WordPart{&syntax.Lit{ValuePos: first.ValuePos, ValueEnd: first.ValueEnd, Value: rest}}, value.Parts...)
	}
	return &syntax.Assign{Name: &syntax.Lit{ValuePos: first.ValuePos, ValueEnd: first.ValueEnd, Value: name}, Value: value}
}
