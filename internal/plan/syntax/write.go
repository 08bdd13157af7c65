package syntax

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Leaves adds the values below n to out, with their paths as keys.
func (n *Node) Leaves(path string, out map[string]string) map[string]string {
	for _, e := range n.Entries {
		key := path + plain(e.Key.Text)
		if len(e.Val.Entries) > 0 {
			e.Val.Leaves(key+".", out)
		} else {
			out[key] = e.Val.inline()
		}
	}
	return out
}

func WordNode(s string) *Node { return &Node{Kind: ScalarNode, Text: s} }

func WordsNode(words []string) *Node {
	n := &Node{Kind: ListNode}
	for _, s := range words {
		n.Items = append(n.Items, WordNode(s))
	}
	return n
}

func MapNode(m map[string]string) *Node {
	n := &Node{Kind: MappingNode}
	for k, v := range m {
		n.Entries = append(n.Entries, Pair{WordNode(k), WordNode(v)})
	}
	return n.Sorted()
}

func (n *Node) Sorted() *Node {
	slices.SortFunc(n.Entries, func(a, b Pair) int { return strings.Compare(a.Key.Text, b.Key.Text) })
	return n
}

// Put adds an entry, unless its word or list is empty.
func (n *Node) Put(key string, val *Node) {
	if val.Text != "" || len(val.Items) > 0 || val.Kind == MappingNode {
		n.Entries = append(n.Entries, Pair{WordNode(key), val})
	}
}

// YAML returns the entries of n in block style, indented by depth levels. The encoder of the YAML package is not used:
// it cannot add a comment after a value of an ordered mapping, and its quoting does not match its parser.
func (n *Node) YAML(depth int) string {
	var b strings.Builder
	indent := strings.Repeat("  ", depth)
	for _, e := range n.Entries {
		b.WriteString(indent + plain(e.Key.Text) + ":")
		switch {
		case len(e.Val.Entries) > 0:
			b.WriteString("\n" + e.Val.YAML(depth+1))
		case len(e.Val.Items) > 0 && e.Val.Items[0].Kind == ListNode:
			for _, list := range e.Val.Items {
				b.WriteString("\n" + indent + "  - " + list.inline())
			}
			b.WriteByte('\n')
		case e.Val.Doc != "":
			b.WriteString(" " + e.Val.inline() + " # " + e.Val.Doc + "\n")
		default:
			b.WriteString(" " + e.Val.inline() + "\n")
		}
	}
	return b.String()
}

// inline formats a value without entries on one line.
func (n *Node) inline() string {
	switch n.Kind {
	case ScalarNode:
		return plain(n.Text)
	case ListNode:
		var items []string
		for _, it := range n.Items {
			items = append(items, quoted(it.Text))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return "{}"
}

// plainWord matches words that do not start with an indicator and contain nothing that ends a plain scalar.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9/._][A-Za-z0-9/._+=%@ -]*$`)

// plain quotes s unless s certainly reads back unchanged.
func plain(s string) string {
	lower := strings.ToLower(s)
	other := lower == "null" || s != lower && (lower == "true" || lower == "false") // True could be read as a boolean or as text
	if other || !plainWord.MatchString(s) || strings.HasSuffix(s, " ") || strings.Contains(s, "  ") || strings.HasPrefix(s, "...") {
		return quoted(s)
	}
	return s
}

// quoted returns s in double quotes. Go's escapes are valid in YAML.
func quoted(s string) string { return strconv.Quote(strings.ToValidUTF8(s, "\ufffd")) }
