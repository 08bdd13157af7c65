package plan

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// YAML writes the plan with every default filled in and every axis expanded. It parses back to the
// same plan (File and positions aside).
func (p *Plan) YAML() ([]byte, error) {
	var e encoder
	machines, targets, works := &node{kind: mappingNode}, &node{kind: mappingNode}, &node{kind: mappingNode}
	for _, m := range p.Machines {
		machines.put(m.Name, e.entry(m.Kind, m.Spec, m.fresh, m.Labels, &node{kind: mappingNode}))
	}
	for _, t := range p.Targets {
		n := &node{kind: mappingNode}
		n.put("on", wordNode(t.On))
		n.put("against", wordsNode(t.Against))
		targets.put(t.Name, e.entry(t.Kind, t.Spec, t.fresh, t.Labels, n))
	}
	for _, w := range p.Workloads {
		n := &node{kind: mappingNode}
		n.put("at", wordsNode(w.At))
		n.put("section", wordNode(w.Section))
		works.put(w.Name, e.entry(w.Kind, w.Spec, w.fresh, w.Labels, n))
	}
	top := &node{kind: mappingNode}
	top.put("name", wordNode(p.Name))
	top.put("baseline", wordNode(p.Baseline))
	p.present(top)
	if len(p.Machines) > 0 {
		top.put("machines", machines)
	}
	top.put("targets", targets)
	top.put("workloads", works)
	e.docs = true
	top.put("measure", e.fields(reflect.ValueOf(p.Measure), reflect.ValueOf(Defaults())))
	return []byte(top.yaml(0)), e.err
}

// Job is what the workload does: the kind and the keys of its spec that are not as a fresh one has them.
func (l Workload) Job() (map[string]string, error) {
	var e encoder
	out := e.spec(l.Kind, l.Spec, l.fresh).leaves("", map[string]string{})
	if l.fresh != nil {
		for k, v := range e.spec(l.Kind, l.fresh, l.fresh).leaves("", map[string]string{}) {
			if out[k] == v {
				delete(out, k)
			}
		}
	}
	out["kind"] = l.Kind
	return out, e.err
}

// leaves adds the values below n to out, by their path.
func (n *node) leaves(path string, out map[string]string) map[string]string {
	for _, e := range n.entries {
		key := path + plain(e.key.text)
		if len(e.val.entries) > 0 {
			e.val.leaves(key+".", out)
		} else {
			out[key] = e.val.inline()
		}
	}
	return out
}

// specYAML is the canonical text of one spec: equal specs have equal texts.
func specYAML(k Kind, spec Spec) (string, error) {
	var e encoder
	return e.spec(k.Name, spec, k.New()).yaml(0), e.err
}

func wordNode(s string) *node { return &node{kind: scalarNode, text: s} }

func wordsNode(words []string) *node {
	n := &node{kind: listNode}
	for _, s := range words {
		n.items = append(n.items, wordNode(s))
	}
	return n
}

func mapNode(m map[string]string) *node {
	n := &node{kind: mappingNode}
	for k, v := range m {
		n.entries = append(n.entries, pair{wordNode(k), wordNode(v)})
	}
	return n.sorted()
}

func (n *node) sorted() *node {
	slices.SortFunc(n.entries, func(a, b pair) int { return strings.Compare(a.key.text, b.key.text) })
	return n
}

// put adds an entry, unless its word or list is empty.
func (n *node) put(key string, val *node) {
	if val.text != "" || len(val.items) > 0 || val.kind == mappingNode {
		n.entries = append(n.entries, pair{wordNode(key), val})
	}
}

// yaml writes the entries of n in block style. The encoder of the YAML package is not used: it has no way to put
// a comment behind a value of an ordered mapping, and quotes by other rules than its parser reads.
func (n *node) yaml(depth int) string {
	var b strings.Builder
	indent := strings.Repeat("  ", depth)
	for _, e := range n.entries {
		b.WriteString(indent + plain(e.key.text) + ":")
		switch {
		case len(e.val.entries) > 0:
			b.WriteString("\n" + e.val.yaml(depth+1))
		case len(e.val.items) > 0 && e.val.items[0].kind == listNode:
			for _, list := range e.val.items {
				b.WriteString("\n" + indent + "  - " + list.inline())
			}
			b.WriteByte('\n')
		case e.val.doc != "":
			b.WriteString(" " + e.val.inline() + " # " + e.val.doc + "\n")
		default:
			b.WriteString(" " + e.val.inline() + "\n")
		}
	}
	return b.String()
}

// inline writes a value without entries on one line.
func (n *node) inline() string {
	switch n.kind {
	case scalarNode:
		return plain(n.text)
	case listNode:
		var items []string
		for _, it := range n.items {
			items = append(items, quoted(it.text))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return "{}"
}

// encoder makes nodes of specs.
type encoder struct {
	docs bool // put the doc of each field behind it
	err  error
}

// entry adds labels and the spec to the entry n.
func (e *encoder) entry(kind string, spec, fresh Spec, labels map[string]string, n *node) *node {
	if len(labels) > 0 {
		n.put("labels", mapNode(labels))
	}
	n.put(kind, e.spec(kind, spec, fresh))
	return n
}

func (e *encoder) spec(kind string, spec, fresh Spec) *node {
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		e.err = fmt.Errorf("write plan: the spec of %s is %T, not a pointer to a struct", kind, spec)
		return &node{kind: mappingNode}
	}
	var usual reflect.Value
	if f := reflect.ValueOf(fresh); f.IsValid() && f.Type() == v.Type() {
		usual = f.Elem()
	}
	n := e.fields(v.Elem(), usual)
	for _, o := range optionsOf(spec) {
		n.entries = append(n.entries, pair{wordNode(o.Key), wordNode(o.Value)})
	}
	return n
}

// fields writes a struct. What is empty is left out where it is empty in a fresh struct too, so that
// a plan reads back as it is.
func (e *encoder) fields(v, fresh reflect.Value) *node {
	n := &node{kind: mappingNode}
	list, _ := fields(v.Type())
	for _, f := range list {
		var was reflect.Value
		if fresh.IsValid() {
			was = fresh.FieldByIndex(f.index)
		}
		if val := e.field(f, v.FieldByIndex(f.index), was); val != nil {
			n.entries = append(n.entries, pair{wordNode(f.name), val})
		}
	}
	return n
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return false
}

// field is the node of a value, nil when it is left out.
func (e *encoder) field(f field, v, fresh reflect.Value) *node {
	if v.Kind() == reflect.Pointer {
		v, fresh = v.Elem(), reflect.Value{}
	}
	if !v.IsValid() || isEmpty(v) && fresh.IsValid() && isEmpty(fresh) {
		return nil
	}
	switch {
	case isText(v.Type()):
		n := e.word(f, v)
		if e.docs {
			n.doc = f.doc
		}
		return n
	case v.Kind() == reflect.Slice:
		n := &node{kind: listNode}
		for i := range v.Len() {
			n.items = append(n.items, e.word(f, v.Index(i)))
		}
		return n
	case v.Kind() == reflect.Map:
		n := &node{kind: mappingNode}
		for _, k := range v.MapKeys() {
			n.entries = append(n.entries, pair{wordNode(k.String()), e.word(f, v.MapIndex(k))})
		}
		return n.sorted()
	case v.Kind() == reflect.Struct:
		if n := e.fields(v, fresh); len(n.entries) > 0 {
			return n
		}
	}
	return nil
}

func (e *encoder) word(f field, v reflect.Value) *node {
	s, err := textOf(v)
	if err != nil {
		e.err = fmt.Errorf("write plan: %s: %w", f.name, err)
	}
	return wordNode(s)
}

// Words that are safe as they are: no indicator at the start, nothing that ends a plain text.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9/._][A-Za-z0-9/._+=%@ -]*$`)

// plain writes a text plain where that is surely read back as it is, and quoted elsewhere.
func plain(s string) string {
	lower := strings.ToLower(s)
	other := lower == "null" || s != lower && (lower == "true" || lower == "false") // true is a boolean, or a text that reads the same
	if other || !plainWord.MatchString(s) || strings.HasSuffix(s, " ") || strings.Contains(s, "  ") || strings.HasPrefix(s, "...") {
		return quoted(s)
	}
	return s
}

// quoted is a double-quoted text in printable characters. Go's escapes are YAML's too.
func quoted(s string) string { return strconv.Quote(strings.ToValidUTF8(s, "\ufffd")) }
