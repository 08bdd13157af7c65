package plan

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Words of targets that are on another machine than this host.

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
		hint := didYouMean(what.text, choices)
		if what.text == "" {
			w.fail(n, hint, "%s: needs to know which volume", kind)
			return
		}
		w.fail(what, hint, "%s is no volume of %s", quote(what.text), kind)
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
	seen := map[string]bool{"path": vol.Name == "dir"} // the word itself has it
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
			w.fail(k, "write it once", "the key %s is given twice", quote(key))
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

// query cuts the word from byte start on into what stands before its ? and the key=value words behind it.
func (n *node) query(start int) (body *node, pairs []*node) {
	i := strings.IndexByte(n.text[start:], '?')
	if i < 0 {
		return n.sub(start, len(n.text)), nil
	}
	return n.sub(start, start+i), n.sub(start+i+1, len(n.text)).split("&")
}

// directory adds a target in a directory of a machine.
func (w *words) directory(n, path *node, onVolume []pair, machine string) {
	value := path
	if len(onVolume) > 0 {
		value = mapping(path, append([]pair{{path.made("path"), path}}, onVolume...)...)
	}
	w.add(n, pair{n.made("on"), n.made(machine)}, pair{n.made("dir"), value})
}

// ssh reads ssh://[user@]host[:port]/path[?key=value&…].
func (w *words) ssh(n *node) {
	const form = "write ssh://[user@]host[:port]/path"
	if !strings.HasPrefix(n.text, "ssh://") {
		w.fail(n, form, "an ssh target is a URL")
		return
	}
	body, query := n.query(len("ssh://"))
	end := strings.IndexByte(body.text+"/", '/')
	host, path := body.sub(0, end), body.sub(end, len(body.text))
	u, err := url.Parse("ssh://" + body.text)
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
	onVolume, onMachine := w.pairs(query, dir, m)
	spec := mapping(host)
	keys := keysOf(m.New())
	for _, p := range [][2]string{{"host", u.Hostname()}, {"user", u.User.Username()}, {"port", u.Port()}} {
		if p[1] != "" && slices.Contains(keys, p[0]) {
			spec.entries = append(spec.entries, pair{host.made(p[0]), host.made(p[1])})
		}
	}
	spec.entries = append(spec.entries, onMachine...)
	w.directory(n, path.made(u.Path), onVolume, w.machine(n, m, "ssh://"+host.text, spec))
}

// container reads docker://NAME/path[?key=value&…], where NAME is a container that runs or an image.
func (w *words) container(n *node, kind string) {
	m, _ := kindNamed(w.kinds.Machines, kind)
	dir, isDir := w.volume("dir")
	if !isDir || !slices.Contains(keysOf(m.New()), "ref") {
		w.fail(n, "", "%s is not written as a URL", kind)
		return
	}
	body, query := n.query(len(kind + "://"))
	end := strings.IndexByte(body.text+"/", '/')
	ref, path := body.sub(0, end), body.sub(end, len(body.text))
	if path.text == "" {
		w.fail(n, "write "+kind+"://IMAGE-or-container/path", "the URL names no directory")
		return
	}
	onVolume, onMachine := w.pairs(query, dir, m)
	if ref.text != "" {
		onMachine = append([]pair{{ref.made("ref"), ref}}, onMachine...)
	}
	called := kind + "://" + ref.text
	for _, p := range onMachine {
		if p.key.text == "image" || p.key.text == "container" {
			called = kind + "://" + p.val.text
		}
	}
	w.directory(n, path, onVolume, w.machine(n, m, called, mapping(n, onMachine...)))
}

// pod reads k8s://pod/NAMESPACE/NAME[/path] and k8s://storageclass/CLASS, each with ?key=value&…
func (w *words) pod(n *node) {
	const form = "write k8s://pod/NAMESPACE/NAME/path or k8s://storageclass/CLASS"
	m, _ := kindNamed(w.kinds.Machines, "k8s")
	body, query := n.query(len("k8s://"))
	parts := body.split("/")
	volume := map[string]string{"pod": "dir", "storageclass": "claim"}[parts[0].text]
	vol, ok := w.volume(volume)
	if !ok {
		w.fail(parts[0], form, "%s is nothing of a cluster that can be measured", quote(parts[0].text))
		return
	}
	onVolume, onMachine := w.pairs(query, vol, m)
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
		path = body.sub(len("pod/"+name), len(body.text))
	}
	onMachine = append([]pair{{parts[1].made("pod"), parts[1].made(name)}}, onMachine...)
	w.directory(n, path, onVolume, w.machine(n, m, "k8s://pod/"+name, mapping(n, onMachine...)))
}

func cause(err error) error {
	if e, ok := err.(*url.Error); ok {
		return e.Err
	}
	return err
}
