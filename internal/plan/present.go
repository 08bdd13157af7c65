package plan

import (
	"reflect"
	"slices"
	"strings"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// A Reference selects published figures to show with a run. The maps translate names in the plan to names in the
// publication. In Values, both names have the form "TARGET / WORKLOAD / METRIC".
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
func (b *builder) layers(n *syntax.Node) [][]string {
	const hint = "write the names of targets from the device up, as in layers: [disk, file system, guest]"
	if n == nil || n.Kind == syntax.NullNode {
		return nil
	}
	if n.Kind != syntax.ListNode {
		b.Fail(n, hint, "layers takes a list of targets, not %s", n.What())
		return nil
	}
	chains := []*syntax.Node{n}
	if slices.ContainsFunc(n.Items, func(i *syntax.Node) bool { return i.Kind == syntax.ListNode }) {
		chains = n.Items
	}
	var out [][]string
	for _, c := range chains {
		if c.Kind != syntax.ListNode {
			b.Fail(c, "make every chain a list, as in layers: [[disk, guest], [disk, share]]", "this is a chain of one target, %s", c.What())
			continue
		}
		var chain []string
		whole := true
		for _, item := range c.Items {
			if item.Kind != syntax.ScalarNode {
				b.Fail(item, hint, "layers takes names of targets, not %s", item.What())
				whole = false
				continue
			}
			e, ok := b.target(item, "layers")
			if !ok {
				whole = false
				continue
			}
			if slices.Contains(chain, e.name) {
				b.Fail(item, "name every layer once", "%s is twice in a chain", syntax.Quote(e.name))
				whole = false
			}
			chain = append(chain, e.name)
		}
		switch {
		case !whole:
		case len(chain) < 2:
			b.Fail(c, hint, "a chain of layers has at least two targets")
		default:
			out = append(out, chain)
		}
	}
	return out
}

// oneOf reads a word. The word must be in `known`, unless `known` is empty.
func (b *builder) oneOf(e syntax.Pair, known []string) string {
	if e.Val.Kind == syntax.NullNode || !b.word(e) {
		return ""
	}
	if len(known) > 0 && !slices.Contains(known, e.Val.Text) {
		b.Fail(e.Val, syntax.DidYouMean(e.Val.Text, known), "there is no %s %s", e.Key.Text, syntax.Quote(e.Val.Text))
	}
	return e.Val.Text
}

// reference reads `reference: lima-mounts`, or a mapping that translates names.
func (b *builder) reference(at syntax.Pair) *Reference {
	out := &Reference{}
	switch at.Val.Kind {
	case syntax.NullNode:
		return nil
	case syntax.ScalarNode:
		b.oneOf(at, b.kinds.Published)
	case syntax.ListNode:
		b.Fail(at.Val, "write reference: and the name of a data set", "reference takes one data set, not a list")
		return nil
	}
	at.Val.Entries = slices.DeleteFunc(at.Val.Entries, func(e syntax.Pair) bool { return e.Val.Kind == syntax.NullNode && e.Key.Text != "published" })
	b.Value(&bind.Variant{}, reflect.ValueOf(out).Elem(), bind.Field{Name: "reference"}, at.Key, at.Val)
	if at.Val.Kind == syntax.ScalarNode {
		return out
	}
	for _, e := range at.Val.Entries {
		for _, name := range e.Val.Entries {
			switch e.Key.Text {
			case "targets":
				b.target(name.Key, "reference")
			case "workloads":
				b.knownWorkload(name.Key)
			case "values":
				b.knownFigure(name.Key)
				if name.Val.Kind == syntax.ScalarNode {
					b.figure(name.Val)
				}
			}
		}
	}
	if e, there := at.Val.Get("published"); there {
		b.oneOf(e, b.kinds.Published)
	} else {
		b.Fail(at.Key, "add published: and its name"+orList(b.kinds.Published), "reference names no data set")
	}
	return out
}

func orList(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", one of " + strings.Join(names, ", ")
}

func (b *builder) knownWorkload(n *syntax.Node) {
	if known := names(b.works); !slices.Contains(known, n.Text) {
		b.Fail(n, syntax.DidYouMean(n.Text, known), "reference: there is no workload %s", syntax.Quote(n.Text))
	}
}

// figure splits the name of a figure into target, workload and metric.
func (b *builder) figure(n *syntax.Node) (parts []string, ok bool) {
	if parts = strings.Split(n.Text, " / "); len(parts) != 3 {
		b.Fail(n, `write "TARGET / WORKLOAD / METRIC"`, "reference: %s is not a figure", syntax.Quote(n.Text))
	}
	return parts, len(parts) == 3
}

func (b *builder) knownFigure(n *syntax.Node) {
	parts, ok := b.figure(n)
	if !ok {
		return
	}
	at := *n
	at.Text = parts[0]
	b.target(&at, "reference")
	at.Text = parts[1]
	b.knownWorkload(&at)
}

// names reports whether the value of e is a name or a list of names. Otherwise, it adds an error. `what` is the noun
// for the named objects, such as "target".
func (b *builder) names(e syntax.Pair, what string) bool {
	for _, n := range e.Val.Listed() {
		if n.Kind != syntax.ScalarNode {
			b.Fail(syntax.OrKey(n, e.Key), "write "+e.Key.Text+": and the name of a "+what+", or a list of names", "%s takes names of %ss, not %s", e.Key.Text, what, n.What())
			return false
		}
	}
	return true
}

// against resolves the `against:` of each target.
func (b *builder) against(baseline string) {
	for _, e := range b.targets {
		if e.held == nil {
			continue
		}
		if e.name == baseline {
			b.Fail(e.held, "leave it out", "%s is the baseline, which is compared with nothing", syntax.Quote(e.name))
			continue
		}
		for _, n := range e.held.Listed() {
			to, ok := b.target(n, "against")
			switch {
			case !ok:
			case to == e:
				b.Fail(n, "name another target", "%s is compared with itself", syntax.Quote(e.name))
			case slices.Contains(e.against, to.name):
				b.Fail(n, "name it once", "%s is compared with %s twice", syntax.Quote(e.name), syntax.Quote(to.name))
			default:
				e.against = append(e.against, to.name)
			}
		}
	}
}

// present adds the report settings to the YAML of the plan.
func (p *Plan) present(top *syntax.Node) {
	layers := &syntax.Node{Kind: syntax.ListNode}
	for _, chain := range p.Layers {
		layers.Items = append(layers.Items, syntax.WordsNode(chain))
	}
	top.Put("layers", layers)
	top.Put("layout", syntax.WordNode(p.Layout))
	if p.Reference != nil {
		var e bind.Encoder // cannot fail, because the fields of Reference are strings and maps of strings
		top.Put("reference", e.Fields(reflect.ValueOf(*p.Reference), reflect.ValueOf(Reference{})))
	}
}
