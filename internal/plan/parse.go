package plan

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Host is the name of the machine that iotax runs on. It need not be declared.
const Host = "host"

// Parse reads a plan file. file is its name in errors. Every error is reported, as Errors, in the
// order of the text.
func Parse(file string, src []byte, k Kinds) (*Plan, error) {
	c := &collector{}
	root := read(file, src, c)
	if root == nil {
		return nil, c.err()
	}
	if root.kind != mappingNode {
		c.fail(root, "begin with targets: and workloads:", "a plan is a mapping, not %s", root.what())
		return nil, c.err()
	}
	b := newBuilder(c, k)
	p := b.plan(root, Defaults())
	p.File = file
	if p.Name == "" {
		base := filepath.Base(file)
		p.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if len(c.errs) > 0 {
		return nil, c.sorted()
	}
	return p, nil
}

// builder turns nodes into a plan.
type builder struct {
	binder
	kinds    Kinds
	machines []*entry
	targets  []*entry
	works    []*entry
	// byMachine has the expanded entries behind each name that was written.
	byMachine map[string][]*entry
	byTarget  map[string][]*entry
}

func newBuilder(c *collector, k Kinds) *builder {
	return &builder{binder: binder{c}, kinds: k, byMachine: map[string][]*entry{}, byTarget: map[string][]*entry{}}
}

// An entry is one expanded machine, target or workload.
type entry struct {
	parts
	name string
	key  *node // of the written name
	variant
	places  []string // the targets that at: means
	where   *entry   // the machine of a target
	against []string
	aside   bool    // of a workload: only done beside others
	labels  []label // axis values, the machine's first
}

// place is where a key of the spec is written, else the kind.
func (e *entry) place(key string) *node {
	if at := e.at(e.val, key); at != nil {
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

func (e *entry) origin() origin { return origin{key: e.key, val: e.val, subst: e.subst} }

var (
	sectionKeys = []string{"machines", "targets", "workloads", "measure"}
	topKeys     = append([]string{"name", "baseline", "layers", "layout", "reference"}, sectionKeys...)
)

func (b *builder) plan(root *node, m Measure) *Plan {
	p := &Plan{Measure: m}
	given := map[string]pair{}
	section := map[string]*node{}
	for _, e := range root.entries {
		key := e.key.text
		switch {
		case strings.HasPrefix(key, "x-"): // a place for anchors, as in Compose files
		case !slices.Contains(topKeys, key):
			b.fail(e.key, didYouMean(key, topKeys), "unknown key %s of a plan", quote(key))
			if near := Nearest(key, topKeys); section[near] == nil {
				section[near] = &node{kind: mappingNode} // and so not missing
			}
		case !slices.Contains(sectionKeys, key):
			given[key] = e
		case e.val.kind == mappingNode:
			section[key] = e.val
		case e.val.kind != nullNode:
			b.fail(e.val, "write "+key+": and its entries indented below", "%s takes a mapping, not %s", key, e.val.what())
			section[key] = &node{kind: mappingNode} // it is there, so it is not said to be missing
		}
	}
	if e, ok := given["name"]; ok && b.word(e) {
		p.Name = e.val.text
		b.checkName(e.val, "a plan")
	}
	var baseline *node
	if e, ok := given["baseline"]; ok && b.word(e) {
		baseline = e.val
	}
	b.addMachines(section["machines"])
	b.addTargets(section["targets"])
	b.addWorkloads(section["workloads"])
	before := len(b.errs)
	p.measured = section["measure"]
	if n := section["measure"]; n != nil {
		b.measure(&p.Measure, n)
	}
	if len(b.errs) == before {
		b.checkMeasure(&p.Measure, section["measure"])
	}
	missing := func(key, hint string) {
		if n := section[key]; n == nil || n.src != nil && len(n.entries) == 0 {
			b.fail(b.top(root, key), hint, "the plan has no %s", key)
		}
	}
	missing("targets", "add targets: {disk: {dir: /var/tmp}}")
	missing("workloads", "add workloads: {4k random read: {fio: {rw: randread, bs: 4k}}}")

	if n := len(b.targets) * len(b.works); n > maxCells {
		b.fail(section["workloads"], "split the plan", "%d targets × %d workloads are more than %d cells", len(b.targets), len(b.works), maxCells)
		return p
	}
	p.Baseline = b.baseline(baseline)
	b.references(p.Baseline)
	b.servers()
	b.at()
	b.gather()
	b.against(p.Baseline)
	if e, ok := given["layers"]; ok && len(b.byTarget) > 0 {
		p.Layers = b.layers(e.val)
	}
	if e, ok := given["layout"]; ok {
		p.Layout = b.oneOf(e, b.kinds.Layouts)
	}
	if e, ok := given["reference"]; ok {
		p.Reference = b.reference(e)
	}
	b.fill(p)
	return p
}

// top is where a missing section would stand.
func (b *builder) top(root *node, key string) *node {
	if e, ok := root.get(key); ok {
		return e.key
	}
	return &node{src: root.src, line: root.line, col: root.col, width: root.width}
}

// word checks that the value of e is one word.
func (b *builder) word(e pair) bool {
	if e.val.kind != scalarNode {
		b.fail(orKey(e.val, e.key), "write "+e.key.text+": and a word", "%s takes a word, not %s", e.key.text, e.val.what())
		return false
	}
	return true
}

const maxName = 200 // characters; names are table headings

// checkName refuses names that could not be shown or said on a command line.
func (b *builder) checkName(n *node, what string) bool {
	switch {
	case strings.TrimSpace(n.text) == "":
		b.fail(n, "give it a name", "%s has an empty name", what)
	case strings.TrimSpace(n.text) != n.text:
		b.fail(n, "remove the space", "the name %s begins or ends with a space", quote(n.text))
	case strings.ContainsFunc(n.text, func(r rune) bool { return !unicode.IsPrint(r) }):
		b.fail(n, "use printable characters", "the name %s has a character that cannot be shown", quote(n.text))
	case len([]rune(n.text)) > maxName:
		b.fail(n, fmt.Sprintf("use at most %d", maxName), "the name of %s has more than %d characters", what, maxName)
	default:
		return true
	}
	return false
}

// parts are what an entry of machines, targets or workloads is made of.
type parts struct {
	kind    Kind
	kindKey *node
	val     *node
	on      *node
	done    *node // of at:
	held    *node // of against:
	section string
	own     map[string]string // labels
}

// split finds the one kind in an entry.
func (b *builder) split(what string, kinds []Kind, name pair) (parts, bool) {
	extra := map[string][]string{"machine": {"labels"}, "target": {"on", "against", "labels"}, "workload": {"at", "section", "labels"}}[what]
	var kindNames []string
	for _, k := range kinds {
		kindNames = append(kindNames, k.Name)
	}
	names := append(slices.Clone(kindNames), extra...)

	out := parts{}
	if !b.checkName(name.key, "a "+what) {
		return out, false
	}
	if name.val.kind != mappingNode {
		b.fail(orKey(name.val, name.key), "write {KIND: …} with one of "+list(kindNames), "a %s takes a mapping, not %s", what, name.val.what())
		return out, false
	}
	ok := true
	for _, e := range name.val.entries {
		key := e.key.text
		if slices.Contains(extra, key) {
			ok = b.extra(&out, e) && ok
			continue
		}
		i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == key })
		if i < 0 {
			hint := didYouMean(key, names)
			if Nearest(key, names) == "" {
				// A key of the kind at the wrong level is the commonest slip.
				for _, k := range kinds {
					if slices.Contains(keysOf(k.New()), key) {
						hint = fmt.Sprintf("%s is a key of %s: write %s: {%s: …}", key, k.Name, k.Name, key)
						break
					}
				}
			}
			b.fail(e.key, hint, "unknown key %s of a %s", quote(key), what)
			ok = false
			continue
		}
		if out.kindKey != nil {
			b.fail(e.key, fmt.Sprintf("make two %ss of it", what), "a %s has one kind; this one has %s and %s", what, out.kind.Name, key)
			ok = false
			continue
		}
		out.kind, out.kindKey, out.val = kinds[i], e.key, e.val
	}
	if ok && out.kindKey == nil {
		b.fail(name.key, "add one of "+strings.Join(kindNames, ", "), "the %s %s has no kind", what, quote(name.key.text))
		ok = false
	}
	return out, ok && out.kindKey != nil
}

// extra reads a key of an entry that is not its kind.
func (b *builder) extra(p *parts, e pair) bool {
	switch e.key.text {
	case "on":
		p.on = e.val
		if e.val.kind == nullNode || e.val.kind == mappingNode {
			b.fail(orKey(e.val, e.key), "write on: and the name of a machine", "on takes the name of a machine, not %s", e.val.what())
			return false
		}
		return true
	case "against":
		p.held = e.val
		return b.names(e)
	case "at":
		p.done = e.val
		return b.names(e)
	case "section":
		p.section = e.val.text
		return b.word(e) && b.checkName(e.val, "a section")
	}
	before := len(b.errs)
	if e.val.kind != nullNode {
		b.strings(reflect.ValueOf(&p.own).Elem(), field{name: "labels"}, e.val)
	}
	return len(b.errs) == before
}

// variants expands one written entry.
func (b *builder) variants(p parts, name *node, room int) []*entry {
	var out []*entry
	for _, v := range b.bind(p.kind, p.kindKey, p.val, room) {
		out = append(out, &entry{parts: p, name: name.text, key: name, variant: v, labels: v.labels})
	}
	return out
}

// suffix is what the axes add to a name.
func suffix(labels []label) string {
	var b strings.Builder
	for _, l := range labels {
		b.WriteString(" " + l.String())
	}
	return b.String()
}

// labelled joins the axis values with the labels that were written.
func (b *builder) labelled(e *entry) map[string]string {
	out := maps.Clone(e.own)
	for _, l := range e.labels {
		if out == nil {
			out = map[string]string{}
		}
		if old, there := out[l.key]; there && old != l.value {
			b.fail(e.key, "rename it", "the label %s of %s is already made by its list", quote(l.key), quote(e.key.text))
		}
		out[l.key] = l.value
	}
	return out
}

func (b *builder) room(have []*entry, key *node, what string) (int, bool) {
	if len(have) >= maxEntries {
		b.fail(key, "split the plan", "more than %d %ss", maxEntries, what)
		return 0, false
	}
	return maxEntries - len(have), true
}

// unique says when an expanded name is taken.
func (b *builder) unique(taken map[string]bool, e *entry, what string) {
	if taken[e.name] {
		b.fail(e.key, "rename one", "there are two %ss named %s", what, quote(e.name))
	}
	taken[e.name] = true
}

func (b *builder) addMachines(section *node) {
	taken := map[string]bool{}
	if section != nil {
		for _, name := range section.entries {
			room, ok := b.room(b.machines, name.key, "machine")
			if !ok {
				return
			}
			p, ok := b.split("machine", b.kinds.Machines, name)
			if !ok {
				b.byMachine[name.key.text] = nil // known, though wrong
				continue
			}
			if name.key.text == Host && p.kind.Name != Host {
				b.fail(name.key, "give it another name", "the machine %q is always this host", Host)
			}
			b.byMachine[name.key.text] = nil
			for _, e := range b.variants(p, name.key, room) {
				e.name += suffix(e.labels)
				b.unique(taken, e, "machine")
				b.machines = append(b.machines, e)
				b.byMachine[name.key.text] = append(b.byMachine[name.key.text], e)
			}
		}
	}
	if _, there := b.byMachine[Host]; there {
		return
	}
	if i := slices.IndexFunc(b.kinds.Machines, func(k Kind) bool { return k.Name == Host }); i >= 0 {
		k := b.kinds.Machines[i]
		b.byMachine[Host] = []*entry{{name: Host, parts: parts{kind: k}, variant: variant{spec: k.New()}}}
	}
}

// A place is one machine that a target is on, as it was asked for.
type place struct {
	*entry
	asked  *node   // nil when nothing was written
	labels []label // of the machine's axes, unless the one variant was named
}

func (p place) text() string {
	if p.asked == nil {
		return p.name
	}
	return p.asked.text
}

// on resolves the machines of a target; false when one is unknown (said) or wrong (said there).
func (b *builder) on(p parts) (found []place, listed, ok bool) {
	switch {
	case p.on == nil:
		for _, m := range b.byMachine[Host] {
			found = append(found, place{entry: m})
		}
		return found, false, true
	case p.on.kind == listNode:
		listed = true
		if _, ok := b.expand([]axis{{"on", p.on}}, maxEntries); !ok {
			return nil, true, false
		}
	}
	ok = true
	for _, n := range p.on.listed() {
		if n.kind != scalarNode {
			b.fail(n, "write the name of a machine", "on takes the name of a machine, not %s", n.what())
			ok = false
			continue
		}
		machines, known := b.byMachine[n.text]
		for _, m := range machines {
			found = append(found, place{m, n, m.labels})
		}
		if !known {
			// A variant can be named too: "guest memory=1GiB".
			if i := slices.IndexFunc(b.machines, func(e *entry) bool { return e.name == n.text }); i >= 0 {
				machines, known = b.machines[i:i+1], true
				found = append(found, place{entry: machines[0], asked: n})
			}
		}
		if !known {
			all := slices.Sorted(maps.Keys(b.byMachine))
			hint := didYouMean(n.text, all)
			if Nearest(n.text, all) == "" {
				hint = fmt.Sprintf("declare it under machines:, or use one of %s", list(all))
			}
			b.fail(n, hint, "there is no machine %s", quote(n.text))
			ok = false
			continue
		}
		ok = ok && len(machines) > 0
	}
	return found, listed, ok
}

func (b *builder) addTargets(section *node) {
	if section == nil {
		return
	}
	taken := map[string]bool{}
	for _, name := range section.entries {
		room, ok := b.room(b.targets, name.key, "target")
		if !ok {
			return
		}
		written := name.key.text
		b.byTarget[written] = nil
		p, ok := b.split("target", b.kinds.Volumes, name)
		if !ok {
			continue
		}
		machines, listed, found := b.on(p)
		vars := b.variants(p, name.key, room)
		if !found {
			continue
		}
		if len(machines)*len(vars) > room {
			b.fail(name.key, "use fewer values, or split the plan", "more than %d targets", maxEntries)
			return
		}
		for _, m := range machines {
			if p.kind.On != nil && !slices.Contains(p.kind.On, m.kind.Name) {
				at := m.asked
				if at == nil {
					at = p.kindKey
				}
				b.fail(at, "put it on a machine of kind "+strings.Join(p.kind.On, " or "), "%s cannot be on %s, which is of kind %s", p.kind.Name, quote(m.name), m.kind.Name)
			}
			for _, v := range vars {
				e := *v
				e.where = m.entry
				e.labels = nil
				if listed {
					e.labels = append(e.labels, label{"on", m.text()})
				}
				for _, l := range m.labels {
					// The same key on both sides is told apart by the machine's name.
					if slices.ContainsFunc(v.labels, func(x label) bool { return x.key == l.key }) {
						l.key = m.text() + "." + l.key
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

func (b *builder) addWorkloads(section *node) {
	if section == nil {
		return
	}
	taken := map[string]bool{}
	for _, name := range section.entries {
		room, ok := b.room(b.works, name.key, "workload")
		if !ok {
			return
		}
		p, ok := b.split("workload", b.kinds.Workloads, name)
		if !ok {
			continue
		}
		for _, v := range b.variants(p, name.key, room) {
			v.name += suffix(v.labels)
			for _, e := range b.parts(v) {
				if _, ok := b.room(b.works, name.key, "workload"); !ok {
					return
				}
				b.unique(taken, e, "workload")
				b.works = append(b.works, e)
			}
		}
	}
}

// target finds the one target of a name. It says what is wrong, unless the entry itself was wrong.
func (b *builder) target(n *node, what string) (*entry, bool) {
	if i := slices.IndexFunc(b.targets, func(e *entry) bool { return e.name == n.text }); i >= 0 {
		return b.targets[i], true
	}
	group, known := b.byTarget[n.text]
	if len(group) > 1 {
		b.fail(n, fmt.Sprintf("name one of them, as in %q", group[0].name), "%s %s means %d targets", what, quote(n.text), len(group))
		return nil, false
	}
	if len(group) == 1 {
		return group[0], true
	}
	if known {
		return nil, false
	}
	b.fail(n, didYouMean(n.text, names(b.targets)), "%s: there is no target %s", what, quote(n.text))
	return nil, false
}

// baseline finds the baseline, the first target when none is named, and puts it first.
func (b *builder) baseline(n *node) string {
	if n == nil {
		if len(b.targets) == 0 {
			return ""
		}
		n = &node{text: b.first()}
	}
	if len(b.byTarget) == 0 {
		return "" // that there are no targets has been said
	}
	e, ok := b.target(n, "baseline")
	if !ok {
		return ""
	}
	i := slices.Index(b.targets, e)
	b.targets = slices.Insert(slices.Delete(b.targets, i, i+1), 0, e)
	return e.name
}

// references fills in and checks what targets stand on.
func (b *builder) references(baseline string) {
	next := map[string]*entry{} // by target name
	for _, e := range b.targets {
		can := e.spec.Traits()
		if can.Of == nil {
			continue
		}
		at := e.place("of")
		if *can.Of == "" {
			if baseline == "" {
				continue // said
			}
			if e.name == baseline {
				hint := "write `of:` and a target of this host, or let another target be the baseline"
				if at.src.word != "" {
					hint = "put a directory of this host first, as in dir:/var/tmp"
				}
				b.fail(at, hint, "%s is on the baseline, and it is the baseline", quote(e.name))
				continue
			}
			*can.Of = baseline
		}
		ref := *at
		ref.text = *can.Of
		if to, ok := b.target(&ref, "of"); ok {
			*can.Of = to.name
			next[e.name] = to
			if can.Encloses {
				b.enclosed(e, to, at)
			}
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

// enclosed puts e on the machine of the target that its work is done at.
func (b *builder) enclosed(e, to *entry, at *node) {
	can := to.spec.Traits()
	switch {
	case can.Gather != nil || can.Encloses:
		b.fail(at, "name a target with a place of its own", "%s has no place of its own", quote(to.name))
	case e.on != nil && e.where != to.where:
		b.fail(e.on, "leave on: out", "%s is on the machine of %s, which is %s", quote(e.name), quote(to.name), quote(to.where.name))
	default:
		e.where = to.where
	}
}

func (b *builder) cycle(names []string) {
	i := slices.IndexFunc(b.targets, func(e *entry) bool { return e.name == names[0] })
	b.fail(b.targets[i].place("of"), "put one of them on a directory of this host", "the targets depend on each other: %s", strings.Join(names, " → "))
}

// fill writes the entries into the plan.
func (b *builder) fill(p *Plan) {
	used := false
	for _, e := range b.targets {
		used = used || e.where.name == Host
		p.Targets = append(p.Targets, Target{Name: e.name, On: e.where.name, Kind: e.kind.Name, Spec: e.spec, Labels: b.labelled(e), Against: e.against, Pos: e.key.pos(), fresh: e.kind.New(), origin: e.origin()})
	}
	if h := b.byMachine[Host]; used && len(h) == 1 && h[0].key == nil {
		p.Machines = append(p.Machines, Machine{Name: Host, Kind: Host, Spec: h[0].spec, fresh: h[0].kind.New()})
	}
	for _, e := range b.machines {
		p.Machines = append(p.Machines, Machine{Name: e.name, Kind: e.kind.Name, Spec: e.spec, Labels: b.labelled(e), Pos: e.key.pos(), fresh: e.kind.New(), origin: e.origin()})
	}
	for _, e := range b.works {
		p.Workloads = append(p.Workloads, Workload{Name: e.name, Kind: e.kind.Name, Spec: e.spec, Labels: b.labelled(e), At: e.places, Aside: e.aside, Section: e.section, Pos: e.key.pos(), Assumed: e.kind.Assumed, fresh: e.kind.New(), origin: e.origin()})
	}
}
