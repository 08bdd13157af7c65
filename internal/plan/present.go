package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Beside says which published figures a run of the plan is to be held against. The maps are from names
// of the plan to what the publication calls the same thing; Values are of single figures, each as
// "TARGET / WORKLOAD / METRIC".
type Beside struct {
	Published string
	Targets   map[string]string
	Workloads map[string]string
	Metrics   map[string]string
	Values    map[string]string
}

// layers reads `layers: [device, filesystem, guest]`, or a list of such chains.
func (b *builder) layers(n *node) [][]string {
	const hint = "write the names of targets from the device up, as in layers: [disk, file system, guest]"
	if n == nil || n.kind == nullNode {
		return nil
	}
	if n.kind != listNode {
		b.fail(n, hint, "layers takes a list of targets, not %s", n.what())
		return nil
	}
	chains := []*node{n}
	if slices.ContainsFunc(n.items, func(i *node) bool { return i.kind == listNode }) {
		chains = n.items
	}
	var out [][]string
	for _, c := range chains {
		if c.kind != listNode {
			b.fail(c, "make every chain a list, as in layers: [[disk, guest], [disk, share]]", "this is a chain of one target, %s", c.what())
			continue
		}
		var chain []string
		whole := true
		for _, item := range c.items {
			if item.kind != scalarNode {
				b.fail(item, hint, "layers takes names of targets, not %s", item.what())
				whole = false
				continue
			}
			e, ok := b.target(item, "layers")
			if !ok {
				whole = false
				continue
			}
			if slices.Contains(chain, e.name) {
				b.fail(item, "name every layer once", "%s is twice in a chain", quote(e.name))
				whole = false
			}
			chain = append(chain, e.name)
		}
		switch {
		case !whole:
		case len(chain) < 2:
			b.fail(c, hint, "a chain of layers has at least two targets")
		default:
			out = append(out, chain)
		}
	}
	return out
}

// oneOf reads a word that must be among known, unless nobody says what is known.
func (b *builder) oneOf(e pair, known []string) string {
	if e.val.kind == nullNode || !b.word(e) {
		return ""
	}
	if len(known) > 0 && !slices.Contains(known, e.val.text) {
		b.fail(e.val, didYouMean(e.val.text, known), "there is no %s %s", e.key.text, quote(e.val.text))
	}
	return e.val.text
}

var besideKeys = []string{"published", "targets", "workloads", "metrics", "values"}

// beside reads `beside: lima-mounts`, or a mapping that also says what is called what.
func (b *builder) beside(at pair) *Beside {
	out := &Beside{}
	switch at.val.kind {
	case nullNode:
		return nil
	case scalarNode:
		out.Published = b.oneOf(at, b.kinds.Published)
		return out
	case listNode:
		b.fail(at.val, "write beside: and the name of a data set", "beside takes one data set, not a list")
		return nil
	}
	for _, e := range at.val.entries {
		var to *map[string]string
		known := func(*node) {}
		switch e.key.text {
		case "published":
			out.Published = b.oneOf(e, b.kinds.Published)
			continue
		case "targets":
			to, known = &out.Targets, func(k *node) { b.target(k, "beside") }
		case "workloads":
			to, known = &out.Workloads, b.knownWorkload
		case "metrics":
			to = &out.Metrics
		case "values":
			to, known = &out.Values, b.knownFigure
		default:
			b.fail(e.key, didYouMean(e.key.text, besideKeys), "unknown key %s of beside", quote(e.key.text))
			continue
		}
		if e.val.kind == nullNode {
			continue
		}
		before := len(b.errs)
		b.strings(reflect.ValueOf(to).Elem(), field{name: e.key.text}, e.val)
		if len(b.errs) == before {
			for _, name := range e.val.entries {
				known(name.key)
				if e.key.text == "values" {
					b.figure(name.val)
				}
			}
		}
	}
	if _, there := at.val.get("published"); !there {
		b.fail(at.key, "add published: and its name"+orList(b.kinds.Published), "beside names no data set")
	}
	return out
}

func orList(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", one of " + strings.Join(names, ", ")
}

func (b *builder) knownWorkload(n *node) {
	var names []string
	for _, e := range b.works {
		names = append(names, e.name)
	}
	if !slices.Contains(names, n.text) {
		b.fail(n, didYouMean(n.text, names), "beside: there is no workload %s", quote(n.text))
	}
}

// figure splits a figure's name into target, workload and metric.
func (b *builder) figure(n *node) (parts []string, ok bool) {
	if parts = strings.Split(n.text, " / "); len(parts) != 3 {
		b.fail(n, `write "TARGET / WORKLOAD / METRIC"`, "beside: %s is no figure", quote(n.text))
	}
	return parts, len(parts) == 3
}

func (b *builder) knownFigure(n *node) {
	parts, ok := b.figure(n)
	if !ok {
		return
	}
	at := *n
	at.text = parts[0]
	b.target(&at, "beside")
	at.text = parts[1]
	b.knownWorkload(&at)
}

// names checks the form of `against:`: a name or a list of names.
func (b *builder) names(e pair) bool {
	items := []*node{e.val}
	if e.val.kind == listNode {
		items = e.val.items
	}
	for _, n := range items {
		if n.kind != scalarNode {
			b.fail(orKey(n, e.key), "write "+e.key.text+": and the name of a target, or a list of names", "%s takes names of targets, not %s", e.key.text, n.what())
			return false
		}
	}
	return true
}

// against resolves what targets are held against.
func (b *builder) against(baseline string) {
	for _, e := range b.targets {
		if e.held == nil {
			continue
		}
		items := []*node{e.held}
		if e.held.kind == listNode {
			items = e.held.items
		}
		if e.name == baseline {
			b.fail(e.held, "leave it out", "%s is the baseline: it is held against nothing", quote(e.name))
			continue
		}
		for _, n := range items {
			to, ok := b.target(n, "against")
			switch {
			case !ok:
			case to == e:
				b.fail(n, "name another target", "%s is held against itself", quote(e.name))
			case slices.Contains(e.against, to.name):
				b.fail(n, "name it once", "%s is held against %s twice", quote(e.name), quote(to.name))
			default:
				e.against = append(e.against, to.name)
			}
		}
	}
}

// present writes what a plan asks of the report.
func (w *writer) present(p *Plan) {
	if len(p.Layers) > 0 {
		w.open(0, "layers")
		for _, chain := range p.Layers {
			w.b.WriteString("  - " + flow(chain) + "\n")
		}
	}
	if p.Layout != "" {
		w.line(0, "layout", p.Layout)
	}
	if p.Beside == nil {
		return
	}
	w.open(0, "beside")
	w.line(1, "published", p.Beside.Published)
	for _, m := range []struct {
		key   string
		names map[string]string
	}{{"targets", p.Beside.Targets}, {"workloads", p.Beside.Workloads}, {"metrics", p.Beside.Metrics}, {"values", p.Beside.Values}} {
		if len(m.names) > 0 {
			w.open(1, m.key)
			w.strings(2, m.names)
		}
	}
}

// flow is a list of words on one line.
func flow(words []string) string {
	var items []string
	for _, s := range words {
		items = append(items, quoted(s))
	}
	return fmt.Sprintf("[%s]", strings.Join(items, ", "))
}
