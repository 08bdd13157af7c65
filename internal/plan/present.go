package plan

import (
	"reflect"
	"slices"
	"strings"
)

// A Reference says which published figures a run of the plan is to be held against. The maps are from names
// of the plan to what the publication calls the same thing; Values are of single figures, each as
// "TARGET / WORKLOAD / METRIC".
type Reference struct {
	Published string            `yaml:"published"`
	Targets   map[string]string `yaml:"targets"`
	Workloads map[string]string `yaml:"workloads"`
	Metrics   map[string]string `yaml:"metrics"`
	Values    map[string]string `yaml:"values"`
}

// SetScalar reads `reference: lima-mounts`.
func (b *Reference) SetScalar(s string) error { b.Published = s; return nil }

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

// reference reads `reference: lima-mounts`, or a mapping that also says what is called what.
func (b *builder) reference(at pair) *Reference {
	out := &Reference{}
	switch at.val.kind {
	case nullNode:
		return nil
	case scalarNode:
		b.oneOf(at, b.kinds.Published)
	case listNode:
		b.fail(at.val, "write reference: and the name of a data set", "reference takes one data set, not a list")
		return nil
	}
	at.val.entries = slices.DeleteFunc(at.val.entries, func(e pair) bool { return e.val.kind == nullNode && e.key.text != "published" })
	b.value(&variant{}, reflect.ValueOf(out).Elem(), field{name: "reference"}, at.key, at.val)
	if at.val.kind == scalarNode {
		return out
	}
	for _, e := range at.val.entries {
		for _, name := range e.val.entries {
			switch e.key.text {
			case "targets":
				b.target(name.key, "reference")
			case "workloads":
				b.knownWorkload(name.key)
			case "values":
				b.knownFigure(name.key)
				if name.val.kind == scalarNode {
					b.figure(name.val)
				}
			}
		}
	}
	if e, there := at.val.get("published"); there {
		b.oneOf(e, b.kinds.Published)
	} else {
		b.fail(at.key, "add published: and its name"+orList(b.kinds.Published), "reference names no data set")
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
	if known := names(b.works); !slices.Contains(known, n.text) {
		b.fail(n, didYouMean(n.text, known), "reference: there is no workload %s", quote(n.text))
	}
}

// figure splits a figure's name into target, workload and metric.
func (b *builder) figure(n *node) (parts []string, ok bool) {
	if parts = strings.Split(n.text, " / "); len(parts) != 3 {
		b.fail(n, `write "TARGET / WORKLOAD / METRIC"`, "reference: %s is no figure", quote(n.text))
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
	b.target(&at, "reference")
	at.text = parts[1]
	b.knownWorkload(&at)
}

// names checks the form of `against:`: a name or a list of names.
func (b *builder) names(e pair) bool {
	for _, n := range e.val.listed() {
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
		if e.name == baseline {
			b.fail(e.held, "leave it out", "%s is the baseline: it is held against nothing", quote(e.name))
			continue
		}
		for _, n := range e.held.listed() {
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

// present adds what a plan asks of the report.
func (p *Plan) present(top *node) {
	layers := &node{kind: listNode}
	for _, chain := range p.Layers {
		layers.items = append(layers.items, wordsNode(chain))
	}
	top.put("layers", layers)
	top.put("layout", wordNode(p.Layout))
	if p.Reference != nil {
		var e encoder // its fields are words: none fails
		top.put("reference", e.fields(reflect.ValueOf(*p.Reference), reflect.ValueOf(Reference{})))
	}
}
