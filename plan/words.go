package plan

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// DefaultWorkloads are measured when the command line names none.
var DefaultWorkloads = []string{"randread-4k", "randwrite-4k", "seqread-1m"}

// Queue depths of the workload words that give none: deep enough that the device, not the wait for
// one request, is measured. A large block needs fewer in flight.
const (
	RandomDepth     = 32
	SequentialDepth = 8
)

// planned are the words the design has names for and that no kind serves yet.
var planned = map[string]string{
	"nbd": "NBD exports",
	"s3":  "object stores", "http": "web servers", "https": "web servers",
}

// FromWords makes a plan of command-line words. The first target is the baseline; no workload words
// mean DefaultWorkloads. m is how it is measured, as Defaults gives it or changed by flags.
//
//	dir:/var/tmp   /var/tmp   ./here           a directory of this host
//	device:/dev/vdb                            a block device of this host, read only
//	qemu:virtio-blk,cache=none,memory=2GiB     a disk of a guest; guests with equal keys are one guest
//	qemu:virtiofs,cache=auto                   a folder of this host, shared with a guest
//	ssh://[user@]host[:port]/path[?key=value]  a directory of another host
//	docker://debian:12/work[?key=value]        a directory in a container that runs, or one made of an image
//	docker:bind,image=debian:12                a bind mount, volume or tmpfs of a container made for the run
//	k8s://pod/NAMESPACE/NAME[/path]            a directory in a pod that runs
//	k8s://storageclass/fast[?key=value]        storage of that class, in a pod made for the run
//	k8s:tmpfs,node=n1   k8s:claim=fast         a volume of a pod made for the run; pods with equal keys are one pod
//
// Workload words are (rand|seq)(read|write|rw)-BS with -qdN, -jN and -SIZE behind it: randread-4k,
// seqwrite-1m-qd4, randrw-8k-qd16-j4-2GiB, and -openN for an open loop at N % of
// the slowest target's capacity; or a fio command line, or the path of a job file, which ends
// in .fio; or another kind of workload, with its value if it has one: command:make.
func FromWords(targets, workloads []string, m Measure, k Kinds) (*Plan, error) {
	c := &collector{}
	b := &builder{binder: binder{c}, kinds: k}
	b.byMachine, b.byTarget = map[string][]*entry{}, map[string][]*entry{}
	p := &Plan{Measure: m, Name: wordsName(targets)}
	if len(workloads) == 0 {
		workloads = DefaultWorkloads
	}
	if len(targets) == 0 {
		c.add(&Error{Msg: "no target is given", Mend: "name one, as in dir:/var/tmp; the first is the baseline"})
	}
	w := words{builder: b, guests: map[string]string{}, machines: &node{kind: mappingNode}, targets: &node{kind: mappingNode}, works: &node{kind: mappingNode}}
	for i, t := range targets {
		if n, ok := w.begin("target", i, t, len(targets)); ok {
			w.target(n)
		}
	}
	for i, t := range workloads {
		if IsCommand(t) {
			t = strings.ReplaceAll(t, "\\\n", "  ") // as the shell joins lines
		}
		if n, ok := w.begin("workload", i, t, len(workloads)); ok {
			w.workload(n)
		}
	}
	b.addMachines(w.machines)
	b.addTargets(w.targets)
	b.addWorkloads(w.works)
	b.checkMeasure(&p.Measure, nil)
	p.Baseline = b.baseline(nil)
	if len(c.errs) == 0 { // a wrong first word would make the second the baseline
		b.references(p.Baseline)
	}
	b.fill(p)
	// What was written into the words is what differs between them.
	for i := range p.Targets {
		if e := b.targets[i]; e.val != nil {
			spread := p.Targets[i].Labels
			p.Targets[i].Labels = wordLabels(e)
			for k, v := range spread {
				if p.Targets[i].Labels == nil {
					p.Targets[i].Labels = map[string]string{}
				}
				p.Targets[i].Labels[k] = v
			}
		}
	}
	if len(c.errs) > 0 {
		return nil, c.sorted()
	}
	return p, nil
}

func wordsName(targets []string) string {
	const most = 3
	if len(targets) <= most {
		return strings.Join(targets, " vs ")
	}
	return fmt.Sprintf("%s vs %d more", strings.Join(targets[:most], " vs "), len(targets)-most)
}

func wordLabels(e *entry) map[string]string {
	var out map[string]string
	add := func(n *node) {
		if n == nil {
			return
		}
		for _, p := range n.entries {
			if p.key.col == p.val.col || p.val.kind == listNode { // made up, not written; or spread
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[p.key.text] = p.val.text
		}
	}
	add(e.val)
	if e.where != nil {
		add(e.where.val)
	}
	return out
}

// words turns the words of a command line into the nodes a plan file would have given.
type words struct {
	*builder
	guests                   map[string]string // canonical spec → name of the machine
	machines, targets, works *node
	begun                    int
}

const maxWord = 4096 // bytes; PATH_MAX of Linux

// secret finds the password of a URL.
var secret = regexp.MustCompile(`://[^/?#]*?:([^/?#]*)@`)

// secretKey finds what stands behind a key that is named like a secret.
var secretKey = regexp.MustCompile(`(?i)\w*(?:passw|passphrase|secret|token|_key)\w*['"]?\s*[:=]\s*([^\s,}]+)`)

// mask stands for each character of a secret in the lines of a source, so that what follows stays in its column. It is of a private
// use area of Unicode.
const mask = '\uE5EC'

// masked is a line of a plan without its secrets.
func masked(line string) string {
	for _, re := range []*regexp.Regexp{secret, secretKey} {
		for _, m := range slices.Backward(re.FindAllStringSubmatchIndex(line, -1)) {
			line = line[:m[2]] + strings.Repeat(string(mask), utf8.RuneCountInString(line[m[2]:m[3]])) + line[m[3]:]
		}
	}
	return line
}

// unmasked is a masked line as people may see it, where each secret is as long as any other, and the token at column of width
// characters in that.
func unmasked(line string, column, width int) (text string, at, wide int) {
	if !strings.ContainsRune(line, mask) {
		return line, column, width
	}
	const dots = "......"
	var b strings.Builder
	col, end := 0, column+width
	at, wide = column, width
	run := 0 // characters of the mask until here
	flush := func() {
		if run == 0 {
			return
		}
		less := run - len(dots)
		from := col - run + 1 // column of the first
		switch {
		case column > from+run-1: // behind it
			at -= less
		case column >= from: // in it, or its begin
			at -= column - from
			wide = min(width, len(dots))
			if end > from+run { // and beyond it
				wide = len(dots) + end - (from + run)
			}
		case end > from+run-1: // around it
			wide -= less
		case end > from: // its end
			wide = from - column + len(dots)
		}
		b.WriteString(dots)
		run = 0
	}
	for _, r := range line {
		if r == mask {
			col++
			run++
			continue
		}
		flush()
		col++
		b.WriteRune(r)
	}
	flush()
	return b.String(), at, max(1, wide)
}

// begin makes the node of a whole word.
func (w *words) begin(what string, i int, text string, of int) (*node, bool) {
	w.begun++
	src := &source{word: what, index: w.begun, lines: []string{masked(text)}}
	if of > 1 {
		src.word = fmt.Sprintf("%s %d", what, i+1)
	}
	n := &node{kind: scalarNode, src: src, line: 1, col: 1, width: utf8.RuneCountInString(text), text: text}
	if text == "" {
		n.width = 1
		w.fail(n, "", "an empty word")
		return nil, false
	}
	if len(text) > maxWord {
		w.fail(n, "", "the word is longer than %d bytes", maxWord)
		return nil, false
	}
	if at := secret.FindStringSubmatchIndex(text); at != nil {
		// Neither shown nor kept: the word is a name in every report.
		n.col, n.width = utf8.RuneCountInString(text[:at[2]])+1, 1
		w.fail(n, "use a key, an agent or a file for it", "a password does not belong into a target")
		return nil, false
	}
	col := 0
	for k := 0; k < len(text); {
		r, size := utf8.DecodeRuneInString(text[k:])
		col++
		if r < ' ' || r == 0x7f || r == utf8.RuneError && size == 1 {
			bad := *n
			bad.col, bad.width = col, 1
			w.fail(&bad, "take it out", "a control character, or a byte that is not UTF-8")
			return nil, false
		}
		k += size
	}
	return n, true
}

// sub is the part of the word from byte lo to byte hi.
func (n *node) sub(lo, hi int) *node {
	s := *n
	s.col = n.col + utf8.RuneCountInString(n.text[:lo])
	s.text = n.text[lo:hi]
	s.width = max(1, utf8.RuneCountInString(s.text))
	return &s
}

// made is a value that was not written, with the place of what it was made of.
func (n *node) made(text string) *node {
	s := *n
	s.text = text
	return &s
}

func mapping(like *node, entries ...pair) *node {
	s := *like
	s.kind, s.entries = mappingNode, entries
	return &s
}

func (w *words) volume(name string) (Kind, bool) { return kindNamed(w.kinds.Volumes, name) }

func kindNamed(kinds []Kind, name string) (Kind, bool) {
	for _, k := range kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

var scheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*):`)

func (w *words) target(n *node) {
	text := n.text
	if strings.HasPrefix(text, "/") || text == "." || text == ".." || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") {
		w.onHost(n, "dir", n)
		return
	}
	m := scheme.FindStringSubmatch(text)
	if m == nil {
		w.unknown(n, text)
		return
	}
	name, rest := m[1], n.sub(len(m[0]), len(text))
	head := n.sub(0, len(m[1]))
	_, isVolume := w.volume(name)
	_, isMachine := kindNamed(w.kinds.Machines, name)
	switch {
	case isVolume && onHost(w.kinds, name):
		if rest.text == "" {
			w.fail(head, "write "+name+":/path", "%s: needs a path", name)
			return
		}
		w.onHost(n, name, rest)
	case name == "ssh" && isMachine:
		w.ssh(n)
	case isMachine && name == "k8s" && strings.HasPrefix(rest.text, "//"):
		w.pod(n, rest)
	case isMachine && strings.HasPrefix(rest.text, "//"):
		w.container(n, name, rest)
	case isMachine && name != Host:
		w.guest(n, name, rest)
	case isVolume:
		k, _ := w.volume(name)
		w.fail(head, fmt.Sprintf("write it as a part of a machine, as in %s:…", strings.Join(k.On, " or ")), "a %s cannot stand on this host", name)
	case planned[name] != "":
		w.fail(head, "iotax measures "+w.forms()+" today", "%s are not supported yet", planned[name])
	default:
		w.unknown(head, name)
	}
}

// onHost reports whether a volume of that kind may be on this host.
func onHost(k Kinds, name string) bool {
	v, _ := kindNamed(k.Volumes, name)
	return v.On == nil || slices.Contains(v.On, Host)
}

// forms lists the words there are.
func (w *words) forms() string {
	var out []string
	for _, k := range w.kinds.Volumes {
		if _, ok := k.New().(Scalar); ok && onHost(w.kinds, k.Name) {
			out = append(out, k.Name+":")
		}
	}
	for _, k := range w.kinds.Machines {
		switch k.Name {
		case Host, "fake":
		case "ssh":
			out = append(out, "ssh://")
		default:
			out = append(out, k.Name+":")
		}
	}
	return list(out)
}

func (w *words) unknown(n *node, name string) {
	var names []string
	for _, k := range append(slices.Clone(w.kinds.Volumes), w.kinds.Machines...) {
		if k.Name != Host {
			names = append(names, k.Name)
		}
	}
	mend := "a target begins with " + w.forms() + " or is a path that begins with / or ./"
	if name == Host {
		mend = "write dir:/path for a directory of this host"
	} else if name == n.text && strings.Contains(name, "/") {
		mend = "a path begins with / or ./"
	} else if near := Nearest(name, append(names, slices.Sorted(maps.Keys(planned))...)); near != "" {
		mend = fmt.Sprintf("did you mean %q?", near)
	}
	w.fail(n, mend, "%s is no kind of target", quote(name))
}

// add puts a target under its word as name; the same word twice is two targets (an A/A pair).
func (w *words) add(n *node, entries ...pair) {
	name := n.text
	for i := 2; ; i++ {
		if _, there := w.targets.get(name); !there {
			break
		}
		name = fmt.Sprintf("%s #%d", n.text, i)
	}
	w.targets.entries = append(w.targets.entries, pair{n.made(name), mapping(n, entries...)})
}

func (w *words) onHost(n *node, kind string, value *node) {
	if _, ok := w.volume(kind); !ok {
		w.unknown(n, kind)
		return
	}
	w.add(n, pair{n.made(kind), value})
}

// layered finds what the first part of a guest's word means: the bus of a disk or the type of a
// share.
var layered = []struct {
	volume, key string
}{{"disk", "bus"}, {"share", "type"}, {"mount", "type"}}

// guest reads KIND:WHAT,key=value,…: WHAT says which volume, and the keys are the volume's or the
// machine's.
func (w *words) guest(n *node, kind string, rest *node) {
	parts := rest.split(",")
	what := parts[0]
	var choices []string
	var vol Kind
	var first pair
	for _, l := range layered {
		k, ok := w.volume(l.volume)
		if !ok || k.On != nil && !slices.Contains(k.On, kind) {
			continue
		}
		list, _ := fields(elem(k.New()))
		f, ok := findField(list, l.key)
		if !ok {
			continue
		}
		choices = append(choices, named(f.enum)...)
		if slices.Contains(f.enum, what.text) && what.text != "" {
			vol, first = k, pair{what.made(l.key), what}
		}
	}
	// A volume by its own name, as in fake:dir=/tmp, or bare with its defaults, as in qemu:disk.
	if name, value, found := strings.Cut(what.text, "="); vol.New == nil {
		if k, ok := w.volume(name); ok && (k.On == nil || slices.Contains(k.On, kind)) {
			vol = k
			if found {
				first = pair{what.made(name), what.sub(len(name)+1, len(name)+1+len(value))}
			}
		}
		for _, k := range w.kinds.Volumes {
			if k.On == nil || slices.Contains(k.On, kind) {
				choices = append(choices, k.Name)
			}
		}
	}
	if vol.New == nil {
		mend := didYouMean(what.text, choices)
		if what.text == "" {
			w.fail(n, mend, "%s: needs to know which volume", kind)
			return
		}
		w.fail(what, mend, "%s is no volume of %s", quote(what.text), kind)
		return
	}
	m, _ := kindNamed(w.kinds.Machines, kind)
	onVolume, onMachine := w.pairs(parts[1:], vol, m)
	value := mapping(what, onVolume...)
	if first.key != nil {
		if first.key.text == vol.Name { // the volume's own word
			if len(onVolume) == 0 {
				value = first.val
			} else if list, _ := fields(elem(vol.New())); len(list) > 0 {
				value.entries = append([]pair{{first.key.made(list[0].name), first.val}}, value.entries...)
			}
		} else {
			value.entries = append([]pair{first}, value.entries...)
		}
	}
	called := "guest"
	if kind == "k8s" {
		called = "pod"
	}
	w.add(n, pair{n.made("on"), n.made(w.machine(n, m, called, mapping(what, onMachine...)))}, pair{n.made(vol.Name), value})
}

func (n *node) split(sep string) (out []*node) {
	lo := 0
	for {
		i := strings.Index(n.text[lo:], sep)
		if i < 0 {
			return append(out, n.sub(lo, len(n.text)))
		}
		out = append(out, n.sub(lo, lo+i))
		lo += i + len(sep)
	}
}

// pairs sorts key=value words by who has such a key, the volume first.
func (w *words) pairs(parts []*node, vol, m Kind) (onVolume, onMachine []pair) {
	volKeys, machineKeys := keysOf(vol.New()), keysOf(m.New())
	seen := map[string]bool{}
	for _, part := range parts {
		if part.text == "" {
			w.fail(part, "write key=value", "an empty word behind a separator")
			continue
		}
		key, value, found := strings.Cut(part.text, "=")
		k := part.sub(0, len(key))
		known := slices.Contains(volKeys, key) || slices.Contains(machineKeys, key)
		switch {
		case !known:
			all := append(slices.Clone(volKeys), machineKeys...)
			w.fail(k, didYouMean(key, all), "unknown key %s of %s or %s", quote(key), vol.Name, m.Name)
			continue
		case seen[key]:
			w.fail(k, "write it once", "the key %s stands twice", quote(key))
			continue
		}
		seen[key] = true
		v := part.sub(min(len(key)+1, len(part.text)), len(part.text))
		if !found {
			// A bare word switches something on.
			if list, _ := fields(elem(vol.New())); !isBool(list, key) {
				if list, _ := fields(elem(m.New())); !isBool(list, key) {
					w.fail(k, "write "+key+"=VALUE", "the key %s has no value", quote(key))
					continue
				}
			}
			v = part.made("true")
			v.col++ // it counts as written
		} else if value == "" {
			w.fail(part, "write "+key+"=VALUE", "the key %s has no value", quote(key))
			continue
		}
		p := pair{k, v}
		if slices.Contains(volKeys, key) {
			onVolume = append(onVolume, p)
		} else {
			onMachine = append(onMachine, p)
		}
	}
	return onVolume, onMachine
}

func isBool(list []field, key string) bool {
	f, ok := findField(list, key)
	return ok && f.typ.Kind().String() == "bool"
}

// machine declares the machine of a word, or finds the one declared with an equal spec.
func (w *words) machine(n *node, k Kind, name string, spec *node) string {
	probe := binder{&collector{}}
	v := variant{spec: k.New()}
	probe.spec(&v, k, n, spec)
	id := k.Name + "\n"
	if len(probe.errs) > 0 {
		// It is declared as it is, and its errors are told then.
		id += n.text
	} else if y, err := specYAML(k, v.spec); err == nil {
		id += y
	}
	if g, ok := w.guests[id]; ok {
		return g
	}
	if spec.kind == mappingNode && (name == "guest" || name == "pod") {
		for _, e := range spec.entries {
			name += " " + e.key.text + "=" + e.val.text
		}
	}
	base := name
	for i := 2; ; i++ {
		if _, there := w.machines.get(name); !there {
			break
		}
		name = fmt.Sprintf("%s #%d", base, i)
	}
	w.guests[id] = name
	w.machines.entries = append(w.machines.entries, pair{n.made(name), mapping(n, pair{n.made(k.Name), spec})})
	return name
}

// ssh reads ssh://[user@]host[:port]/path[?key=value&…].
func (w *words) ssh(n *node) {
	const form = "write ssh://[user@]host[:port]/path"
	text := n.text
	if !strings.HasPrefix(text, "ssh://") {
		w.fail(n, form, "an ssh target is a URL")
		return
	}
	start := len("ssh://")
	end := start + strings.IndexAny(text[start:]+"/", "/?")
	host := n.sub(start, end)
	query := len(text)
	if i := strings.IndexByte(text[end:], '?'); i >= 0 {
		query = end + i
	}
	path := n.sub(end, query)
	u, err := url.Parse(text[:query])
	switch {
	case err != nil:
		w.fail(host, form, "this is no URL: %v", cause(err))
		return
	case u.Hostname() == "":
		w.fail(n, form, "the URL names no host")
		return
	case strings.HasPrefix(u.Hostname(), "-"):
		w.fail(host, form, "a host name does not begin with -")
		return
	case path.text == "":
		w.fail(host, form+"; ~ is not expanded", "the URL names no directory")
		return
	}
	m, _ := kindNamed(w.kinds.Machines, "ssh")
	dir, ok := w.volume("dir")
	if !ok {
		w.unknown(n, "ssh")
		return
	}
	var onVolume, onMachine []pair
	if query < len(text) {
		onVolume, onMachine = w.pairs(n.sub(query+1, len(text)).split("&"), dir, m)
	}
	spec := mapping(host, onMachine...)
	list, _ := fields(elem(m.New()))
	add := func(key, value string) {
		if _, ok := findField(list, key); ok && value != "" {
			spec.entries = append([]pair{{host.made(key), host.made(value)}}, spec.entries...)
		}
	}
	add("port", u.Port())
	add("user", u.User.Username())
	add("host", u.Hostname())
	value := path.made(u.Path)
	if len(onVolume) > 0 {
		value = mapping(path, append([]pair{{path.made("path"), path.made(u.Path)}}, onVolume...)...)
	}
	name := w.machine(n, m, "ssh://"+host.text, spec)
	w.add(n, pair{n.made("on"), n.made(name)}, pair{n.made("dir"), value})
}

// container reads docker://NAME/path[?key=value&…], where NAME is a container that runs or an image.
func (w *words) container(n *node, kind string, rest *node) {
	form := "write " + kind + "://IMAGE-or-container/path"
	m, _ := kindNamed(w.kinds.Machines, kind)
	list, _ := fields(elem(m.New()))
	dir, isDir := w.volume("dir")
	if _, ok := findField(list, "ref"); !ok || !isDir {
		w.fail(n, "", "%s is not written as a URL", kind)
		return
	}
	text := rest.text[len("//"):]
	end := strings.IndexAny(text+"/", "/?")
	query := len(text)
	if i := strings.IndexByte(text, '?'); i >= 0 {
		query = i
	}
	ref, path := rest.sub(2, 2+end), rest.sub(2+min(end, query), 2+query)
	if path.text == "" {
		w.fail(n, form, "the URL names no directory")
		return
	}
	var onVolume, onMachine []pair
	if query < len(text) {
		onVolume, onMachine = w.pairs(rest.sub(2+query+1, len(rest.text)).split("&"), dir, m)
	}
	called := kind + "://" + ref.text
	if ref.text != "" {
		onMachine = append([]pair{{ref.made("ref"), ref}}, onMachine...)
	}
	value := path
	if len(onVolume) > 0 {
		value = mapping(path, append([]pair{{path.made("path"), path}}, onVolume...)...)
	}
	for _, p := range onMachine {
		if p.key.text == "image" || p.key.text == "container" {
			called = kind + "://" + p.val.text
		}
	}
	name := w.machine(n, m, called, mapping(n, onMachine...))
	w.add(n, pair{n.made("on"), n.made(name)}, pair{n.made("dir"), value})
}

// pod reads k8s://pod/NAMESPACE/NAME[/path] and k8s://storageclass/CLASS, each with ?key=value&…
func (w *words) pod(n *node, rest *node) {
	const form = "write k8s://pod/NAMESPACE/NAME/path or k8s://storageclass/CLASS"
	m, _ := kindNamed(w.kinds.Machines, "k8s")
	text := rest.text[len("//"):]
	query := len(text)
	if i := strings.IndexByte(text, '?'); i >= 0 {
		query = i
	}
	parts := rest.sub(2, 2+query).split("/")
	volume := map[string]string{"pod": "dir", "storageclass": "claim"}[parts[0].text]
	vol, ok := w.volume(volume)
	if !ok {
		w.fail(parts[0], form, "%s is nothing of a cluster that can be measured", quote(parts[0].text))
		return
	}
	var onVolume, onMachine []pair
	if query < len(text) {
		onVolume, onMachine = w.pairs(rest.sub(2+query+1, len(rest.text)).split("&"), vol, m)
	}
	if volume == "claim" {
		if len(parts) != 2 || parts[1].text == "" {
			w.fail(n, form, "the URL names no storage class")
			return
		}
		value := mapping(parts[1], append([]pair{{parts[1].made("class"), parts[1]}}, onVolume...)...)
		w.add(n, pair{n.made("on"), n.made(w.machine(n, m, "pod", mapping(n, onMachine...)))}, pair{n.made("claim"), value})
		return
	}
	if len(parts) < 3 || parts[1].text == "" || parts[2].text == "" {
		w.fail(n, form, "the URL names no pod")
		return
	}
	name := parts[1].text + "/" + parts[2].text
	path := parts[2].made("/tmp")
	if len(parts) > 3 {
		at := 2 + len("pod/") + len(name)
		path = rest.sub(at, 2+query)
	}
	onMachine = append([]pair{{parts[1].made("pod"), parts[1].made(name)}}, onMachine...)
	value := path
	if len(onVolume) > 0 {
		value = mapping(path, append([]pair{{path.made("path"), path}}, onVolume...)...)
	}
	w.add(n, pair{n.made("on"), n.made(w.machine(n, m, "k8s://pod/"+name, mapping(n, onMachine...)))}, pair{n.made("dir"), value})
}

func cause(err error) error {
	if e, ok := err.(*url.Error); ok {
		return e.Err
	}
	return err
}

var (
	preset     = regexp.MustCompile(`^(rand|seq)(read|write|rw)$`)
	depthWord  = regexp.MustCompile(`^qd([0-9]+)$`)
	jobsWord   = regexp.MustCompile(`^j([0-9]+)$`)
	openWord   = regexp.MustCompile(`^open([0-9]*)$`)
	presetList = []string{"randread", "randwrite", "randrw", "seqread", "seqwrite", "seqrw"}
)

// command finds fio among the words of a command line.
var command = regexp.MustCompile(`(?:^|[\s/])fio\s`)

// IsCommand reports whether a workload word is a fio command line.
func IsCommand(text string) bool { return command.MatchString(text) }

// fio adds a workload of fio that is written elsewhere: in a file, or as a command line.
func (w *words) fio(n *node, key string) {
	if _, ok := kindNamed(w.kinds.Workloads, "fio"); !ok {
		w.fail(n, "", "there is no workload kind fio")
		return
	}
	// The name comes with the jobs: see Part.
	name := n.made(fmt.Sprintf("fio %d", len(w.works.entries)+1))
	w.works.entries = append(w.works.entries, pair{name, mapping(n, pair{n.made("fio"), mapping(n, pair{n.made(key), n})})})
}

// otherKind reads KIND or KIND:VALUE of a kind of workload that is not fio, as in command:make.
func (w *words) otherKind(n *node) bool {
	name, value, found := strings.Cut(n.text, ":")
	k, ok := kindNamed(w.kinds.Workloads, name)
	if !ok || name == "fio" {
		return false
	}
	if _, there := w.works.get(n.text); there {
		w.fail(n, "name it once", "the workload %s is given twice", quote(n.text))
		return true
	}
	spec := mapping(n)
	if _, scalar := k.New().(Scalar); found && !scalar {
		w.fail(n.sub(len(name), len(n.text)), "write "+name+", or a plan with the keys "+list(keysOf(k.New())), "%s takes no value", quote(name))
		return true
	} else if found {
		if value == "" {
			w.fail(n, "write "+name+":VALUE", "%s has no value", quote(n.text))
			return true
		}
		spec = n.sub(len(name)+1, len(n.text))
	}
	w.works.entries = append(w.works.entries, pair{n, mapping(n, pair{n.made(name), spec})})
	return true
}

// workload reads (rand|seq)(read|write|rw)-BS[-qdN][-jN][-SIZE].
func (w *words) workload(n *node) {
	const form = "write (rand|seq)(read|write|rw)-BLOCKSIZE, as in randread-4k or seqwrite-1m-qd4"
	if w.otherKind(n) {
		return
	}
	switch {
	case IsCommand(n.text):
		w.fio(n, "command")
		return
	case strings.HasSuffix(n.text, ".fio"):
		w.fio(n, "file")
		return
	}
	parts := n.split("-")
	head := parts[0]
	m := preset.FindStringSubmatch(head.text)
	if m == nil {
		mend := form
		if near := Nearest(head.text, presetList); near != "" {
			mend = fmt.Sprintf("did you mean %q?", near)
		}
		w.fail(head, mend, "%s is no workload", quote(head.text))
		return
	}
	if len(parts) < 2 || parts[1].text == "" {
		w.fail(n, form, "%s needs a block size", quote(n.text))
		return
	}
	rw := m[2]
	depth := fmt.Sprint(SequentialDepth)
	if m[1] == "rand" {
		rw, depth = "rand"+rw, fmt.Sprint(RandomDepth)
	}
	if _, err := positive(parts[1].text); err != nil {
		w.fail(parts[1], mendOf(err, form), "the block size: %s", msgOf(err))
		return
	}
	options := map[string]*node{"iodepth": n.made(depth)}
	set := func(key string, part *node, value string) {
		if old := options[key]; old != nil && key != "iodepth" || old != nil && old.col != n.col {
			w.fail(part, "write it once", "%s is given twice", key)
		}
		options[key] = part.made(value)
	}
	for _, part := range parts[2:] {
		if d := depthWord.FindStringSubmatch(part.text); d != nil {
			set("iodepth", part, d[1])
		} else if j := jobsWord.FindStringSubmatch(part.text); j != nil {
			set("numjobs", part, j[1])
		} else if o := openWord.FindStringSubmatch(part.text); o != nil {
			load := "open"
			if o[1] != "" {
				load = o[1] + "%"
			}
			set("load", part, load)
			if d := options["iodepth"]; d != nil && d.col == n.col {
				delete(options, "iodepth") // the arrivals decide how many are in flight
			}
		} else if _, err := positive(part.text); err == nil {
			set("size", part, part.text)
		} else {
			w.fail(part, "behind the block size stand qdN (queue depth), jN (jobs), openN (open loop at N %) or a size, as in randread-4k-qd16-j4-2GiB", "%s: %s", quote(part.text), msgOf(err))
		}
	}
	entries := []pair{{head.made("rw"), head.made(rw)}, {n.made("bs"), parts[1]}}
	for _, key := range []string{"load", "iodepth", "numjobs", "size"} {
		if v := options[key]; v != nil {
			entries = append(entries, pair{v.made(key), v})
		}
	}
	if _, ok := kindNamed(w.kinds.Workloads, "fio"); !ok {
		w.fail(n, "", "there is no workload kind fio")
		return
	}
	if _, there := w.works.get(n.text); there {
		w.fail(n, "name it once", "the workload %s is given twice", quote(n.text))
		return
	}
	w.works.entries = append(w.works.entries, pair{n, mapping(n, pair{n.made("fio"), mapping(n, entries...)})})
}

func positive(s string) (Size, error) {
	v, err := ParseSize(s)
	if err == nil && v == 0 {
		err = &ValueError{Msg: quote(s) + " is nothing", Mend: "write a size above 0"}
	}
	return v, err
}

func msgOf(err error) string {
	if e, ok := err.(*ValueError); ok {
		return e.Msg
	}
	return err.Error()
}

func mendOf(err error, other string) string {
	if e, ok := err.(*ValueError); ok && e.Mend != "" {
		return e.Mend
	}
	return other
}
