package plan

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// Host is the name of the machine that iotax runs on. A plan need not declare it.
const Host = "host"

// Parse reads a plan from src, the content of `file`. It returns all errors as Errors, sorted by their position.
func Parse(file string, src []byte, k Kinds) (*Plan, error) {
	c := &syntax.Collector{}
	root := syntax.Read(file, src, c)
	if root == nil {
		return nil, c.Err()
	}
	if root.Kind != syntax.MappingNode {
		c.Fail(root, "begin with targets: and workloads:", "a plan is a mapping, not %s", root.What())
		return nil, c.Err()
	}
	b := newBuilder(c, k)
	p := b.plan(root, Defaults())
	p.File = file
	if p.Name == "" {
		base := filepath.Base(file)
		p.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if len(c.Errs) > 0 {
		return nil, c.Sorted()
	}
	return p, nil
}

const (
	maxEntries = 10_000    // machines, targets or workloads, after axes are expanded
	maxCells   = 1_000_000 // targets × workloads
)

// builder builds a plan from nodes.
type builder struct {
	bind.Binder
	kinds    Kinds
	machines []*entry
	targets  []*entry
	works    []*entry
	// byMachine and byTarget map each written name to its expanded entries.
	byMachine map[string][]*entry
	byTarget  map[string][]*entry
}

func newBuilder(c *syntax.Collector, k Kinds) *builder {
	return &builder{Binder: bind.Binder{Collector: c}, kinds: k, byMachine: map[string][]*entry{}, byTarget: map[string][]*entry{}}
}

// An entry is one expanded machine, target or workload.
type entry struct {
	parts
	name string
	key  *syntax.Node // the name as written
	bind.Variant
	places  []string // target names in `at:`
	metrics []string // metric names in `metrics:`
	where   *entry   // of a target: its machine; of a machine: the machine that contains it
	against []string
	aside   bool         // a workload that only runs as noise for other workloads
	labels  []bind.Label // axis values; those of the machine come first
}

// place returns the node for errors about a key of the spec: its value, or else the kind of the entry.
func (e *entry) place(key string) *syntax.Node {
	if at := e.At(e.val, key); at != nil {
		return at
	}
	return e.kindKey
}

func names(entries []*entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.name)
	}
	return out
}

func (e *entry) origin() origin {
	return origin{key: e.key, val: e.val, subst: e.Subst, axes: e.labels}
}

var (
	sectionKeys = []string{"machines", "targets", "workloads", "measure"}
	topKeys     = append([]string{"name", "baseline", "expect", "layers", "layout", "reference"}, sectionKeys...)
)

func (b *builder) plan(root *syntax.Node, m Measure) *Plan {
	p := &Plan{Measure: m}
	given := map[string]syntax.Pair{}
	section := map[string]*syntax.Node{}
	for _, e := range root.Entries {
		key := e.Key.Text
		switch {
		case strings.HasPrefix(key, "x-"): // for anchors, as in Compose files
		case !slices.Contains(topKeys, key):
			b.Fail(e.Key, syntax.DidYouMean(key, topKeys), "unknown key %s of a plan", syntax.Quote(key))
			if near := syntax.Nearest(key, topKeys); section[near] == nil {
				section[near] = &syntax.Node{Kind: syntax.MappingNode} // so that it is not reported as missing
			}
		case !slices.Contains(sectionKeys, key):
			given[key] = e
		case e.Val.Kind == syntax.MappingNode:
			section[key] = e.Val
		case e.Val.Kind != syntax.NullNode:
			b.Fail(e.Val, "write "+key+": and its entries indented below", "%s takes a mapping, not %s", key, e.Val.What())
			section[key] = &syntax.Node{Kind: syntax.MappingNode} // so that it is not reported as missing
		}
	}
	if e, ok := given["name"]; ok && b.word(e) {
		p.Name = e.Val.Text
		b.checkName(e.Val, "a plan")
	}
	var baseline *syntax.Node
	if e, ok := given["baseline"]; ok && b.word(e) {
		baseline = e.Val
	}
	b.addMachines(section["machines"])
	b.nest()
	b.addTargets(section["targets"])
	b.addWorkloads(section["workloads"])
	before := len(b.Errs)
	p.measured = section["measure"]
	if n := section["measure"]; n != nil {
		b.measure(&p.Measure, n)
	}
	if len(b.Errs) == before {
		b.checkMeasure(&p.Measure, section["measure"])
	}
	missing := func(key, hint string) {
		if n := section[key]; n == nil || n.Src != nil && len(n.Entries) == 0 {
			b.Fail(b.top(root, key), hint, "the plan has no %s", key)
		}
	}
	missing("targets", "add targets: {disk: {dir: /var/tmp}}")
	missing("workloads", "add workloads: {4k random read: {fio: {rw: randread, bs: 4k}}}")

	if n := len(b.targets) * len(b.works); n > maxCells {
		b.Fail(section["workloads"], "split the plan", "%d targets × %d workloads are more than %d cells", len(b.targets), len(b.works), maxCells)
		return p
	}
	p.Baseline = b.baseline(baseline)
	b.references(p.Baseline)
	b.servers()
	b.at()
	b.metrics()
	b.gather()
	b.exports()
	b.against(p.Baseline)
	if e, ok := given["layers"]; ok && len(b.byTarget) > 0 {
		p.Layers = b.layers(e.Val)
	}
	if e, ok := given["layout"]; ok {
		p.Layout = b.oneOf(e, b.kinds.Layouts)
	}
	if e, ok := given["reference"]; ok {
		p.Reference = b.reference(e)
	}
	b.fill(p)
	if len(b.Errs) > 0 {
		return p // after an error, workloads and targets that the expectations name may be missing
	}
	if e, ok := given["expect"]; ok {
		p.expect(b.Collector, syntax.OrKey(e.Val, e.Key), "")
	}
	for i, w := range b.works {
		if w.expect != nil {
			p.expect(b.Collector, w.expect, p.Workloads[i].Name)
		}
	}
	return p
}

// `top` returns the node for the error about a missing section.
func (b *builder) top(root *syntax.Node, key string) *syntax.Node {
	if e, ok := root.Get(key); ok {
		return e.Key
	}
	return &syntax.Node{Src: root.Src, Line: root.Line, Col: root.Col, Width: root.Width}
}

// word reports whether the value of e is a scalar. If not, it adds an error.
func (b *builder) word(e syntax.Pair) bool {
	if e.Val.Kind != syntax.ScalarNode {
		b.Fail(syntax.OrKey(e.Val, e.Key), "write "+e.Key.Text+": and a word", "%s takes a word, not %s", e.Key.Text, e.Val.What())
		return false
	}
	return true
}

// MaxName is the maximum number of characters of a name.
const MaxName = 200

// checkName reports whether the name can be displayed and written on a command line. If not, it adds an error.
func (b *builder) checkName(n *syntax.Node, what string) bool {
	switch {
	case strings.TrimSpace(n.Text) == "":
		b.Fail(n, "give it a name", "%s has an empty name", what)
	case strings.TrimSpace(n.Text) != n.Text:
		b.Fail(n, "remove the space", "the name %s begins or ends with a space", syntax.Quote(n.Text))
	case strings.ContainsFunc(n.Text, func(r rune) bool { return !unicode.IsPrint(r) }):
		b.Fail(n, "use printable characters", "the name %s has a character that cannot be shown", syntax.Quote(n.Text))
	case len([]rune(n.Text)) > MaxName:
		b.Fail(n, fmt.Sprintf("use at most %d", MaxName), "the name of %s has more than %d characters", what, MaxName)
	default:
		return true
	}
	return false
}

// parts contains the keys of an entry of machines, targets or workloads.
type parts struct {
	kind    Kind
	kindKey *syntax.Node
	val     *syntax.Node
	on      *syntax.Node
	done    *syntax.Node // value of `at:`
	expect  *syntax.Node
	held    *syntax.Node // value of `against:`
	asked   *syntax.Node // value of `metrics:`
	section string
	own     map[string]string // labels
	lists   []bind.Axis       // labels with several values
}

// split reads the kind and the other keys of an entry. It returns false if it added an error.
func (b *builder) split(what string, kinds []Kind, name syntax.Pair) (parts, bool) {
	extra := map[string][]string{"machine": {"on", "labels"}, "target": {"on", "against", "labels"}, "workload": {"at", "expect", "metric", "metrics", "section", "labels"}}[what]
	var kindNames []string
	for _, k := range kinds {
		kindNames = append(kindNames, k.Name)
	}
	names := append(slices.Clone(kindNames), extra...)

	out := parts{}
	if !b.checkName(name.Key, "a "+what) {
		return out, false
	}
	if name.Val.Kind != syntax.MappingNode {
		b.Fail(syntax.OrKey(name.Val, name.Key), "write {KIND: …} with one of "+syntax.List(kindNames), "a %s takes a mapping, not %s", what, name.Val.What())
		return out, false
	}
	ok := true
	for _, e := range name.Val.Entries {
		key := e.Key.Text
		if slices.Contains(extra, key) {
			ok = b.extra(&out, e) && ok
			continue
		}
		i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == key })
		if i < 0 {
			hint := syntax.DidYouMean(key, names)
			if syntax.Nearest(key, names) == "" {
				// The most common mistake is a key of the kind at the wrong level.
				for _, k := range kinds {
					if slices.Contains(bind.KeysOf(k.New()), key) {
						hint = fmt.Sprintf("%s is a key of %s: write %s: {%s: …}", key, k.Name, k.Name, key)
						break
					}
				}
			}
			b.Fail(e.Key, hint, "unknown key %s of a %s", syntax.Quote(key), what)
			ok = false
			continue
		}
		if out.kindKey != nil {
			b.Fail(e.Key, fmt.Sprintf("make two %ss of it", what), "a %s has one kind; this one has %s and %s", what, out.kind.Name, key)
			ok = false
			continue
		}
		out.kind, out.kindKey, out.val = kinds[i], e.Key, e.Val
	}
	if ok && out.kindKey == nil {
		b.Fail(name.Key, "add one of "+strings.Join(kindNames, ", "), "the %s %s has no kind", what, syntax.Quote(name.Key.Text))
		ok = false
	}
	return out, ok && out.kindKey != nil
}

// extra reads a key of an entry other than its kind. It returns false if it added an error.
func (b *builder) extra(p *parts, e syntax.Pair) bool {
	switch e.Key.Text {
	case "on":
		p.on = e.Val
		if e.Val.Kind == syntax.NullNode || e.Val.Kind == syntax.MappingNode {
			b.Fail(syntax.OrKey(e.Val, e.Key), "write on: and the name of a machine", "on takes the name of a machine, not %s", e.Val.What())
			return false
		}
		return true
	case "against":
		p.held = e.Val
		return b.names(e, "target")
	case "at":
		p.done = e.Val
		return b.names(e, "target")
	case "metric", "metrics":
		if p.asked != nil {
			b.Fail(e.Key, "write metrics: and a list", "metric and metrics are one key")
			return false
		}
		p.asked = e.Val
		return b.names(e, "metric")
	case "expect":
		p.expect = e.Val
		return true
	case "section":
		p.section = e.Val.Text
		return b.word(e) && b.checkName(e.Val, "a section")
	}
	before := len(b.Errs)
	if e.Val.Kind != syntax.NullNode {
		words := *e.Val
		words.Entries = nil
		for _, l := range e.Val.Entries {
			if l.Val.Kind == syntax.ListNode {
				p.lists = append(p.lists, bind.Axis{Key: l.Key.Text, List: l.Val})
			} else {
				words.Entries = append(words.Entries, l)
			}
		}
		b.Strings(reflect.ValueOf(&p.own).Elem(), bind.Field{Name: "labels"}, &words)
	}
	return len(b.Errs) == before
}

// variants expands a written entry into at most `room` entries.
func (b *builder) variants(p parts, name *syntax.Node, room int) []*entry {
	var out []*entry
	vars := b.Bind(p.kind, p.kindKey, p.val, room)
	labels, ok := b.Expand(p.lists, room/max(1, len(vars)))
	if !ok {
		return nil
	}
	for _, v := range vars {
		for _, values := range labels {
			all := slices.Clip(v.Labels)
			for i, value := range values {
				all = append(all, bind.Label{Key: p.lists[i].Key, Value: bind.ValueText(value)})
			}
			out = append(out, &entry{parts: p, name: name.Text, key: name, Variant: v, labels: all})
		}
	}
	return out
}

// suffix returns the axis values as the last part of a name.
func suffix(labels []bind.Label) string {
	var b strings.Builder
	for _, l := range labels {
		b.WriteString(" " + l.String())
	}
	return b.String()
}

// labelled returns the labels of e: its axis values and the labels in the plan.
func (b *builder) labelled(e *entry) map[string]string {
	out := maps.Clone(e.own)
	for _, l := range e.labels {
		if out == nil {
			out = map[string]string{}
		}
		if old, there := out[l.Key]; there && old != l.Value {
			b.Fail(e.key, "rename it", "the label %s of %s is already made by its list", syntax.Quote(l.Key), syntax.Quote(e.key.Text))
		}
		out[l.Key] = l.Value
	}
	return out
}

// withMachines adds the labels of a target's machines to the labels of the target. Of labels with the same name, that
// of the target takes precedence, and then that of the innermost machine.
func (e *entry) withMachines(labels map[string]string) map[string]string {
	for at := e.where; at != nil; at = at.where {
		of := maps.Clone(at.own)
		for _, l := range at.labels {
			if of == nil {
				of = map[string]string{}
			}
			of[l.Key] = l.Value
		}
		if of != nil {
			maps.Copy(of, labels)
			labels = of
		}
	}
	return labels
}

func (b *builder) room(have []*entry, key *syntax.Node, what string) (int, bool) {
	if len(have) >= maxEntries {
		b.Fail(key, "split the plan", "more than %d %ss", maxEntries, what)
		return 0, false
	}
	return maxEntries - len(have), true
}

// unique reports an error if the expanded name is already taken.
func (b *builder) unique(taken map[string]bool, e *entry, what string) {
	if taken[e.name] {
		b.Fail(e.key, "rename one", "there are two %ss named %s", what, syntax.Quote(e.name))
	}
	taken[e.name] = true
}

func (b *builder) addMachines(section *syntax.Node) {
	taken := map[string]bool{}
	if section != nil {
		for _, name := range section.Entries {
			room, ok := b.room(b.machines, name.Key, "machine")
			if !ok {
				return
			}
			p, ok := b.split("machine", b.kinds.Machines, name)
			if !ok {
				b.byMachine[name.Key.Text] = nil // the name is declared, so references to it are not reported
				continue
			}
			if name.Key.Text == Host && p.kind.Name != Host {
				b.Fail(name.Key, "give it another name", "the machine %q is always this host", Host)
			}
			b.byMachine[name.Key.Text] = nil
			for _, e := range b.variants(p, name.Key, room) {
				e.name += suffix(e.labels)
				b.unique(taken, e, "machine")
				b.machines = append(b.machines, e)
				b.byMachine[name.Key.Text] = append(b.byMachine[name.Key.Text], e)
			}
		}
	}
	if _, there := b.byMachine[Host]; there {
		return
	}
	if i := slices.IndexFunc(b.kinds.Machines, func(k Kind) bool { return k.Name == Host }); i >= 0 {
		k := b.kinds.Machines[i]
		b.byMachine[Host] = []*entry{{name: Host, parts: parts{kind: k}, Variant: bind.Variant{Spec: k.New()}}}
	}
}

// nest resolves the machine that contains each machine, and reports cycles.
func (b *builder) nest() {
	for _, e := range b.machines {
		can := e.Spec.Traits()
		if !can.Encloses && !can.Nests {
			if e.on != nil {
				b.Fail(e.on, "leave on: out; only a container, or a guest without image: and console:, can be on another machine",
					"a machine of kind %s cannot be on another machine", e.kind.Name)
			}
			continue
		}
		found, _, ok := b.on(e.parts)
		switch {
		case !ok || len(found) == 0 || can.Nests && found[0].name == Host:
		case len(found) > 1:
			b.Fail(e.on, fmt.Sprintf("name one of them, as in %q", found[0].name), "on %s means %d machines", syntax.Quote(e.on.Text), len(found))
		case can.Nests && found[0].Spec.Traits().Encloses:
			b.Fail(e.on, "name the machine that the container is on", "%s is a container, and a guest cannot be on a container", syntax.Quote(found[0].name))
		default:
			e.where = found[0].entry
		}
	}
	for _, e := range b.machines {
		var path []*entry
		for at := e; at != nil; at = at.where {
			if path = append(path, at); len(path) > len(b.machines)+1 { // one more, because this host may be undeclared
				b.Fail(e.on, "put one of them on a machine of another kind", "the machines are on each other: %s", strings.Join(names(path[:3]), " on "))
				at.where = nil
				break
			}
		}
	}
}

// outwards returns e and the machines that contain it, innermost first, up to the first one that is not a container.
func (e *entry) outwards() (path []*entry) {
	for at := e; at != nil; at = at.where {
		if path = append(path, at); !at.Spec.Traits().Encloses {
			break
		}
	}
	return path
}

// A place is a machine that a target is on, as named in the plan.
type place struct {
	*entry
	asked  *syntax.Node // the name as written; nil if the plan names no machine
	labels []bind.Label // axes of the machine, unless one variant was named
}

func (p place) text() string {
	if p.asked == nil {
		return p.name
	}
	return p.asked.Text
}

// `on` resolves the `on:` of a target or a machine. The default is this host. `listed` is true if the plan gives a
// list. `ok` is false if an error was reported.
func (b *builder) on(p parts) (found []place, listed, ok bool) {
	switch {
	case p.on == nil:
		for _, m := range b.byMachine[Host] {
			found = append(found, place{entry: m})
		}
		return found, false, true
	case p.on.Kind == syntax.ListNode:
		listed = true
		if _, ok := b.Expand([]bind.Axis{{Key: "on", List: p.on}}, maxEntries); !ok {
			return nil, true, false
		}
	}
	ok = true
	for _, n := range p.on.Listed() {
		if n.Kind != syntax.ScalarNode {
			b.Fail(n, "write the name of a machine", "on takes the name of a machine, not %s", n.What())
			ok = false
			continue
		}
		machines, known := b.byMachine[n.Text]
		for _, m := range machines {
			found = append(found, place{m, n, m.labels})
		}
		if !known {
			// A name may also be the name of a variant: "guest memory=1GiB".
			if i := slices.IndexFunc(b.machines, func(e *entry) bool { return e.name == n.Text }); i >= 0 {
				machines, known = b.machines[i:i+1], true
				found = append(found, place{entry: machines[0], asked: n})
			}
		}
		if !known {
			all := slices.Sorted(maps.Keys(b.byMachine))
			hint := syntax.DidYouMean(n.Text, all)
			if syntax.Nearest(n.Text, all) == "" {
				hint = fmt.Sprintf("declare it under machines:, or use one of %s", syntax.List(all))
			}
			b.Fail(n, hint, "there is no machine %s", syntax.Quote(n.Text))
			ok = false
			continue
		}
		ok = ok && len(machines) > 0
	}
	return found, listed, ok
}

func (b *builder) addTargets(section *syntax.Node) {
	if section == nil {
		return
	}
	taken := map[string]bool{}
	for _, name := range section.Entries {
		room, ok := b.room(b.targets, name.Key, "target")
		if !ok {
			return
		}
		written := name.Key.Text
		b.byTarget[written] = nil
		p, ok := b.split("target", b.kinds.Volumes, name)
		if !ok {
			continue
		}
		machines, listed, found := b.on(p)
		vars := b.variants(p, name.Key, room)
		if !found {
			continue
		}
		if len(machines)*len(vars) > room {
			b.Fail(name.Key, "use fewer values, or split the plan", "more than %d targets", maxEntries)
			return
		}
		for _, m := range machines {
			at := m.asked
			if at == nil {
				at = p.kindKey
			}
			path := m.outwards()
			switch base := path[len(path)-1]; {
			case len(path) > 1 && p.kind.New().Traits().Gather != nil:
				b.Fail(at, "leave on: out, and put the targets that it is made of in containers", "%s is made of other targets", p.kind.Name)
			case p.kind.On != nil && !slices.Contains(p.kind.On, base.kind.Name):
				b.Fail(at, "put it on a machine of kind "+strings.Join(p.kind.On, " or "), "%s cannot be on %s, which is of kind %s",
					p.kind.Name, syntax.Quote(m.name), path[0].kind.Name)
			}
			for _, v := range vars {
				e := *v
				e.where = m.entry
				e.labels = nil
				if listed {
					e.labels = append(e.labels, bind.Label{Key: "on", Value: m.text()})
				}
				for _, l := range m.labels {
					// If the target has the same label, prefix the machine's label with the machine's name.
					if slices.ContainsFunc(v.labels, func(x bind.Label) bool { return x.Key == l.Key }) {
						l.Key = m.text() + "." + l.Key
					}
					e.labels = append(e.labels, l)
				}
				e.labels = append(e.labels, v.labels...)
				e.name = written + suffix(e.labels)
				b.unique(taken, &e, "target")
				b.targets = append(b.targets, &e)
				b.byTarget[written] = append(b.byTarget[written], &e)
			}
		}
	}
}

func (b *builder) addWorkloads(section *syntax.Node) {
	if section == nil {
		return
	}
	taken := map[string]bool{}
	for _, name := range section.Entries {
		room, ok := b.room(b.works, name.Key, "workload")
		if !ok {
			return
		}
		p, ok := b.split("workload", b.kinds.Workloads, name)
		if !ok {
			continue
		}
		for _, v := range b.variants(p, name.Key, room) {
			v.name += suffix(v.labels)
			for _, e := range b.parts(v) {
				if _, ok := b.room(b.works, name.Key, "workload"); !ok {
					return
				}
				b.unique(taken, e, "workload")
				b.works = append(b.works, e)
			}
		}
	}
}

// target returns the target with the name n.Text. It reports an error if the name is unknown or means several targets.
func (b *builder) target(n *syntax.Node, what string) (*entry, bool) {
	if i := slices.IndexFunc(b.targets, func(e *entry) bool { return e.name == n.Text }); i >= 0 {
		return b.targets[i], true
	}
	group, known := b.byTarget[n.Text]
	if len(group) > 1 {
		b.Fail(n, fmt.Sprintf("name one of them, as in %q", group[0].name), "%s %s means %d targets", what, syntax.Quote(n.Text), len(group))
		return nil, false
	}
	if len(group) == 1 {
		return group[0], true
	}
	if known {
		return nil, false
	}
	b.Fail(n, syntax.DidYouMean(n.Text, names(b.targets)), "%s: there is no target %s", what, syntax.Quote(n.Text))
	return nil, false
}

// baseline moves the baseline to the front of b.targets and returns its name. n is the name in the plan. If n is nil,
// baseline uses b.first. It returns "" if there is no such target.
func (b *builder) baseline(n *syntax.Node) string {
	if n == nil {
		if len(b.targets) == 0 {
			return ""
		}
		n = &syntax.Node{Text: b.first()}
	}
	if len(b.byTarget) == 0 {
		return "" // already reported
	}
	e, ok := b.target(n, "baseline")
	if !ok {
		return ""
	}
	i := slices.Index(b.targets, e)
	b.targets = slices.Insert(slices.Delete(b.targets, i, i+1), 0, e)
	return e.name
}

// references resolves the `of:` of each target that is based on another target, and reports cycles. An empty `of:`
// means the baseline.
func (b *builder) references(baseline string) {
	next := map[string]*entry{} // by target name
	for _, e := range b.targets {
		can := e.Spec.Traits()
		if can.Of == nil {
			continue
		}
		at := e.place("of")
		if *can.Of == "" {
			if baseline == "" {
				continue // already reported
			}
			if e.name == baseline {
				hint := "write `of:` and a target of this host, or let another target be the baseline"
				if at.Src.Word != "" {
					hint = "put a directory of this host first, as in dir:/var/tmp"
				}
				b.Fail(at, hint, "%s is on the baseline, and it is the baseline", syntax.Quote(e.name))
				continue
			}
			*can.Of = baseline
		}
		ref := *at
		ref.Text = *can.Of
		if to, ok := b.target(&ref, "of"); ok {
			*can.Of = to.name
			next[e.name] = to
		}
	}
	done := map[string]bool{}
	for _, e := range b.targets {
		var path []string
		for at := e; at != nil && !done[at.name]; at = next[at.name] {
			if i := slices.Index(path, at.name); i >= 0 {
				b.cycle(append(path[i:], at.name))
				break
			}
			path = append(path, at.name)
		}
		for _, n := range path {
			done[n] = true
		}
	}
}

func (b *builder) cycle(names []string) {
	i := slices.IndexFunc(b.targets, func(e *entry) bool { return e.name == names[0] })
	b.Fail(b.targets[i].place("of"), "put one of them on a directory of this host", "the targets depend on each other: %s", strings.Join(names, " → "))
}

// fill copies the entries to the plan. It adds this host if a target is on it and the plan does not declare it.
func (b *builder) fill(p *Plan) {
	used := false
	for _, e := range b.targets {
		path := names(e.where.outwards())
		slices.Reverse(path)
		used = used || path[0] == Host
		p.Targets = append(p.Targets, Target{Name: e.name, On: path[0], In: append([]string(nil), path[1:]...), Kind: e.kind.Name, Spec: e.Spec,
			Labels: e.withMachines(b.labelled(e)), Against: e.against, Pos: e.key.Pos(), fresh: e.kind.New(), origin: e.origin()})
	}
	if h := b.byMachine[Host]; used && len(h) == 1 && h[0].key == nil {
		p.Machines = append(p.Machines, Machine{Name: Host, Kind: Host, Spec: h[0].Spec, fresh: h[0].kind.New()})
	}
	for _, e := range b.machines {
		m := Machine{Name: e.name, Kind: e.kind.Name, Spec: e.Spec, Labels: b.labelled(e), Pos: e.key.Pos(), fresh: e.kind.New(), origin: e.origin()}
		if e.where != nil {
			m.On = e.where.name
		}
		p.Machines = append(p.Machines, m)
	}
	for _, e := range b.works {
		p.Workloads = append(p.Workloads, Workload{Name: e.name, Kind: e.kind.Name, Spec: e.Spec, Labels: b.labelled(e), At: e.places, Metrics: e.metrics, Aside: e.aside, Section: e.section, Pos: e.key.Pos(), Assumed: e.kind.Assumed, fresh: e.kind.New(), origin: e.origin()})
	}
}
