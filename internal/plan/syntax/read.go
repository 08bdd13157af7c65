package syntax

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFile is the maximum size of a plan file in bytes.
const MaxFile = 1 << 20

// These limits protect against hostile or broken files. The YAML parser is recursive, and Go cannot recover from a
// stack overflow. The parser takes quadratic time in the number of keys, and stores the full key path with every node.
const (
	MaxBytes   = MaxFile
	maxTokens  = 100_000
	MaxDepth   = 16
	MaxKey     = 256     // bytes
	maxNodes   = 200_000 // after aliases are resolved
	maxAnchors = 1000
	maxPaths   = 100 << 20 // bytes of key paths in the parser
)

// Read parses the text of a plan file into nodes. If it finds an error, it adds the error to c and returns nil.
func Read(file string, text []byte, c *Collector) *Node {
	src := &Source{file: file}
	whole := func(hint, format string, args ...any) *Node {
		c.Add(&Error{Pos: Pos{File: file}, Msg: fmt.Sprintf(format, args...), Hint: hint})
		return nil
	}
	if len(text) > MaxBytes {
		return whole("a plan file is text of at most 1 MiB", "the file is %s long", Size(len(text)))
	}
	s := strings.TrimPrefix(string(text), "\ufeff")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	src.Lines = strings.Split(s, "\n")
	if !clean(src, c) {
		return nil
	}

	tokens, err := tokenize(s)
	if err != nil {
		return whole("", "the YAML cannot be read: %v", err)
	}
	for i, line := range src.Lines {
		src.Lines[i] = Masked(line)
	}
	for _, tk := range tokens {
		if tk.Type != token.CommentType && Password.MatchString(tk.Value) {
			c.Fail(at(src, tk), "use a key, an agent, a file or the environment for it", "a password does not belong in a plan, which every report shows")
			return nil
		}
	}
	if !bounded(src, tokens, c) {
		return nil
	}
	f, err := parse(tokens)
	if err != nil {
		syntaxError(src, err, c)
		return nil
	}

	const empty = "the smallest plan:\ntargets:\n  disk: {dir: /var/tmp}\n  memory: {dir: /dev/shm}\nworkloads:\n  4k random read: {fio: {rw: randread, bs: 4k}}"
	var body ast.Node
	docs := 0
	for _, d := range f.Docs {
		switch d.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode:
			continue
		}
		docs++
		if docs == 2 {
			tk := d.Start // nil if the document follows the marker "..."
			if m, ok := d.Body.(*ast.MappingNode); ok && tk == nil && len(m.Values) > 0 {
				tk = m.Values[0].Key.GetToken()
			}
			if tk == nil {
				tk = d.Body.GetToken()
			}
			c.Fail(at(src, tk), "one plan a file: move the second one", "a second document begins")
			return nil
		}
		body = d.Body
	}
	if body == nil {
		c.Add(&Error{Pos: Pos{File: file}, Msg: "the plan is empty", Hint: empty})
		return nil
	}
	r := resolver{src: src, c: c, anchors: anchors(body), open: map[string]bool{}}
	n := r.node(body, 0)
	if n == nil || len(c.Errs) > 0 {
		return nil
	}
	if n.Kind == NullNode || n.Kind == MappingNode && len(n.Entries) == 0 {
		c.Add(&Error{Pos: Pos{File: file}, Msg: "the plan is empty", Hint: empty})
		return nil
	}
	return n
}

// tokenize and parse recover from panics in the YAML package.

func tokenize(s string) (t token.Tokens, err error) {
	defer recovered(&err)
	return lexer.Tokenize(s), nil
}

func parse(t token.Tokens) (f *ast.File, err error) {
	defer recovered(&err)
	return parser.Parse(t, 0, parser.AllowDuplicateMapKey())
}

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%v", r)
	}
}

// clean adds an error to c and returns false if the text contains a control character or is not UTF-8.
func clean(src *Source, c *Collector) bool {
	for i, line := range src.Lines {
		col := 0
		for k := 0; k < len(line); {
			r, size := utf8.DecodeRuneInString(line[k:])
			col++
			n := &Node{Src: src, Line: i + 1, Col: col, Width: 1}
			switch {
			case r == utf8.RuneError && size == 1:
				c.Fail(n, "save the file as UTF-8", "the byte 0x%02x is not UTF-8", line[k])
				return false
			case r < ' ' && r != '\t' || r == 0x7f || r == 0xfeff || r == 0xfffe || r == 0xffff:
				c.Fail(n, "remove it; in a quoted text it can be written as \\x"+fmt.Sprintf("%02X", r), "the control character U+%04X", r)
				return false
			}
			k += size
		}
	}
	return true
}

// bounded adds an error to c and returns false if the text exceeds the limits of the parser.
func bounded(src *Source, tokens token.Tokens, c *Collector) bool {
	if len(tokens) > maxTokens {
		c.Add(&Error{Pos: Pos{File: src.file}, Msg: fmt.Sprintf("the plan has %d words and signs, more than %d", len(tokens), maxTokens), Hint: "split it into several plans"})
		return false
	}
	var columns []int // columns of the open block collections
	flow, run, marks, deepest, longest := 0, 0, 0, 0, 0
	for i, tk := range tokens {
		depth := flow
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if flow > 0 {
				break
			}
			col := tk.Position.Column
			if tk.Type == token.MappingValueType && i > 0 && tokens[i-1].Position.Line == tk.Position.Line {
				col = tokens[i-1].Position.Column
			}
			for len(columns) > 0 && columns[len(columns)-1] >= col {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, col)
		}
		if tk.Type == token.MappingValueType && i > 0 {
			if longest = max(longest, len(tokens[i-1].Value)); longest > MaxKey {
				c.Fail(at(src, tokens[i-1]), "", "this key is longer than %d bytes", MaxKey)
				return false
			}
		}
		// Count runs such as "& & &" and "!!a !!b", because they nest without brackets.
		switch tk.Type {
		case token.AnchorType, token.TagType, token.AliasType:
			run++
			marks++
		case token.StringType:
		default:
			run = 0
		}
		depth += len(columns)
		deepest = max(deepest, depth)
		if depth > MaxDepth || run > MaxDepth {
			c.Fail(at(src, tk), "a plan is at most 6 deep", "nested more than %d deep", MaxDepth)
			return false
		}
		if marks > maxAnchors {
			c.Fail(at(src, tk), "", "more than %d anchors, aliases and tags", maxAnchors)
			return false
		}
	}
	if longest*deepest*len(tokens) > maxPaths {
		c.Add(&Error{Pos: Pos{File: src.file}, Msg: fmt.Sprintf("the plan has %d words and signs, nested %d deep, and keys of up to %d bytes: too much together", len(tokens), deepest, longest), Hint: "use shorter names, or split it into several plans"})
		return false
	}
	return true
}

// at returns a node with the position of a token.
func at(src *Source, tk *token.Token) *Node {
	n := &Node{Src: src, Line: 1, Col: 1, Width: 1}
	if tk == nil || tk.Position == nil {
		return n
	}
	n.Line, n.Col = max(1, tk.Position.Line), max(1, tk.Position.Column)
	line := src.line(n.Line)
	rest := []rune(line)
	rest = rest[min(n.Col-1, len(rest)):]
	switch tk.Type {
	case token.SingleQuoteType, token.DoubleQuoteType:
		// tk.Value is unquoted, and tk.Origin lacks parts of escapes. Only the source text shows where the token ends.
		n.Width = quotedWidth(rest)
	default:
		// A plain scalar may span several lines. Its value joins them.
		first, _, _ := strings.Cut(tk.Value, "\n")
		if o, _, more := strings.Cut(strings.TrimLeft(tk.Origin, " \n\t"), "\n"); more && tk.Type == token.StringType {
			first = strings.TrimRight(o, " \t")
		}
		n.Width = utf8.RuneCountInString(first)
	}
	n.Width = max(1, min(n.Width, len(rest)))
	return n
}

// quotedWidth returns the length of the quoted text at the start of rest. It stops at the end of the line.
func quotedWidth(rest []rune) int {
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '\\' && rest[0] == '"':
			i++
		case rest[i] == rest[0] && rest[0] == '\'' && i+1 < len(rest) && rest[i+1] == '\'':
			i++
		case rest[i] == rest[0]:
			return i + 1
		}
	}
	return len(rest)
}

// syntaxError adds a parser error to c, with a clearer message and a hint where possible.
func syntaxError(src *Source, err error, c *Collector) {
	msg, n := err.Error(), &Node{Src: src, Line: 1, Col: 1, Width: 1}
	var se *yaml.SyntaxError
	if errors.As(err, &se) {
		msg, n = se.Message, at(src, se.Token)
	}
	hint := ""
	line := src.line(n.Line)
	switch {
	case strings.HasPrefix(strings.TrimLeft(line, " "), "\t") || strings.Contains(msg, "tab character") || strings.Contains(msg, "character '\t'"):
		msg, hint = "a tab where YAML takes only spaces", "indent with spaces"
		if i := strings.IndexByte(line, '\t'); i >= 0 {
			n.Col, n.Width = utf8.RuneCountInString(line[:i])+1, 1
		}
	case strings.Contains(msg, "mapping value is not allowed"):
		msg, hint = "a second \": \" in one value", "quote the text, or check the indentation of this line and the next"
	case strings.Contains(msg, "reserved character"), strings.Contains(msg, "unexpected directive value"):
		msg, hint = "a plain text cannot begin with this character", "quote the text"
	case strings.Contains(msg, "end token '}'"), strings.Contains(msg, "',' or '}'"):
		msg, hint = "this mapping is not closed, or a comma is missing", "write it as {a: 1, b: 2}"
	case strings.Contains(msg, "end token ']'"), strings.Contains(msg, "',' or ']'"):
		msg, hint = "this list is not closed, or a comma is missing", "write it as [a, b]"
	case strings.Contains(msg, "end character of"):
		msg, hint = "this quote is not closed", "end the text with the same quote"
	case strings.Contains(msg, "invalid key for this map"):
		msg, hint = "a key must be one text", "write key: value"
	case strings.Contains(msg, "value is not allowed in this context"), strings.Contains(msg, "non-map value is specified"), strings.Contains(msg, "unexpected key name"):
		hint = "check the indentation of this line, and the colon and space after a key"
	}
	c.Fail(n, hint, "bad YAML: %s", msg)
}

// anchors returns the anchors by name. The resolver reports names that are defined twice.
func anchors(body ast.Node) map[string][]*ast.AnchorNode {
	found := anchorVisitor{}
	ast.Walk(found, body)
	return found
}

type anchorVisitor map[string][]*ast.AnchorNode

func (v anchorVisitor) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok {
		if name := tokenText(a.Name); name != "" {
			v[name] = append(v[name], a)
		}
	}
	return v
}

func tokenText(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	return n.GetToken().Value
}

type resolver struct {
	src     *Source
	c       *Collector
	anchors map[string][]*ast.AnchorNode
	open    map[string]bool // anchors that are being resolved
	outer   *Node           // the outermost alias that is being resolved
	count   int
	stopped bool
}

func (r *resolver) stop(n *Node, hint, format string, args ...any) *Node {
	if !r.stopped {
		r.c.Fail(n, hint, format, args...)
	}
	r.stopped = true
	return n
}

func (r *resolver) node(a ast.Node, depth int) *Node {
	if a == nil {
		return &Node{Src: r.src, Line: 1, Col: 1, Width: 1}
	}
	n := at(r.src, a.GetToken())
	if r.stopped {
		return n
	}
	if r.count++; r.count > maxNodes {
		if r.outer != nil {
			n = r.outer
		}
		return r.stop(n, "write out less through aliases", "the plan has more than %d values", maxNodes)
	}
	if depth > 4*MaxDepth {
		return r.stop(n, "a plan is at most 6 deep", "nested more than %d deep", 4*MaxDepth)
	}
	switch a := a.(type) {
	case *ast.NullNode:
		if t := a.GetToken(); t.Type == token.NullType && strings.EqualFold(t.Value, "null") {
			n.Text = t.Value // an option of another tool may take this word: fio has an engine named null
		}
	case *ast.StringNode:
		n.Kind, n.Text = ScalarNode, a.Value
	case *ast.LiteralNode:
		n.Kind = ScalarNode
		if a.Value != nil {
			n.Text = a.Value.Value
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.MergeKeyNode:
		n.Kind, n.Text = ScalarNode, a.GetToken().Value
	case *ast.TagNode:
		// Tags have no effect: the types of the spec determine the value.
		if a.Value == nil {
			return n
		}
		return r.node(a.Value, depth+1)
	case *ast.AnchorNode:
		name := tokenText(a.Name)
		if len(r.anchors[name]) > 1 {
			return r.stop(at(r.src, a.Name.GetToken()), "give each its own name", "the anchor &%s is defined %d times", name, len(r.anchors[name]))
		}
		r.open[name] = true
		defer delete(r.open, name)
		return r.node(a.Value, depth+1)
	case *ast.AliasNode:
		return r.alias(a, depth)
	case *ast.SequenceNode:
		n.Kind = ListNode
		for _, v := range a.Values {
			n.Items = append(n.Items, r.node(v, depth+1))
		}
	case *ast.MappingNode:
		n.Kind = MappingNode
		r.mapping(n, a.Values, depth)
	case *ast.MappingValueNode:
		n.Kind = MappingNode
		r.mapping(n, []*ast.MappingValueNode{a}, depth)
	default:
		r.c.Fail(n, "", "%s has no meaning in a plan", strings.ToLower(a.Type().String()))
	}
	// The token of a block mapping is the colon of its first key. Use the key's place instead.
	if n.Kind == MappingNode && len(n.Entries) > 0 && a.GetToken().Type == token.MappingValueType {
		k := n.Entries[0].Key
		n.Line, n.Col, n.Width = k.Line, k.Col, k.Width
	}
	return n
}

func (r *resolver) alias(a *ast.AliasNode, depth int) *Node {
	name := tokenText(a.Value)
	n := at(r.src, a.Value.GetToken())
	switch found := r.anchors[name]; {
	case len(found) == 0:
		return r.stop(n, DidYouMean(name, slices.Sorted(maps.Keys(r.anchors))), "there is no anchor &%s", name)
	case r.open[name]:
		return r.stop(n, "an anchor cannot contain its own alias", "the alias *%s is inside its own anchor", name)
	case found[0].GetToken().Position.Offset > a.GetToken().Position.Offset:
		return r.stop(n, "move the anchor above its first use", "the anchor &%s is defined below", name)
	default:
		if r.outer == nil {
			r.outer = n
			defer func() { r.outer = nil }()
		}
		return r.node(found[0], depth+1)
	}
}

// mapping fills n. A merge key (<<) only adds keys that the mapping does not set.
func (r *resolver) mapping(n *Node, values []*ast.MappingValueNode, depth int) {
	own := map[string]*Node{}
	index := map[string]int{} // key → index in n.Entries
	merged := map[string]bool{}
	put := func(key, val *Node, merging bool) {
		i, there := index[key.Text]
		switch {
		case !there:
			index[key.Text] = len(n.Entries)
			n.Entries = append(n.Entries, Pair{key, val})
			merged[key.Text] = merging
		case merged[key.Text] && !merging:
			n.Entries[i] = Pair{key, val}
			merged[key.Text] = false
		}
	}
	for _, v := range values {
		if r.stopped {
			return
		}
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			val := r.node(v.Value, depth+1)
			from := []*Node{val}
			if val.Kind == ListNode {
				from = val.Items
			}
			for _, m := range from {
				if m.Kind != MappingNode {
					if !r.stopped {
						r.c.Fail(at(r.src, v.Key.GetToken()), "write <<: *anchor of a mapping", "a merge key takes a mapping, not %s", m.What())
					}
					continue
				}
				for _, e := range m.Entries {
					put(e.Key, e.Val, true)
				}
			}
			continue
		}
		key := r.key(v.Key, depth)
		if key == nil {
			continue
		}
		if first := own[key.Text]; first != nil {
			r.c.Fail(key, "remove one, or make the second a different name", "the key %s is already on line %d", Quote(key.Text), first.Line)
			continue
		}
		own[key.Text] = key
		val := r.node(v.Value, depth+1)
		if val.Kind == NullNode {
			// A missing value has the place of its key.
			val.Line, val.Col, val.Width = key.Line, key.Col, key.Width
		}
		put(key, val, false)
	}
}

func (r *resolver) key(k ast.Node, depth int) *Node {
	if mk, ok := k.(*ast.MappingKeyNode); ok { // an explicit key: "? key"
		if mk.Value == nil {
			r.c.Fail(at(r.src, mk.GetToken()), "", "this key is empty")
			return nil
		}
		k = mk.Value
	}
	n := r.node(k, depth+1)
	if n.Kind != ScalarNode {
		if !r.stopped {
			r.c.Fail(n, "", "a key must be a text, not %s", n.What())
		}
		return nil
	}
	return n
}
