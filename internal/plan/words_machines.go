package plan

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

// Target words for machines other than this host.

// layered maps volume kinds to the key that the first part of a guest's word sets: the bus of a disk, or the type of a
// share or mount.
var layered = []struct {
	volume, key string
}{{"disk", "bus"}, {"share", "type"}, {"mount", "type"}}

// guest reads KIND:WHAT,key=value,…. WHAT selects the volume. The keys belong to the volume or to the machine.
func (w *words) guest(n *syntax.Node, kind string, rest *syntax.Node) {
	parts := rest.Split(",")
	what := parts[0]
	var choices []string
	var vol Kind
	var first syntax.Pair
	for _, l := range layered {
		k, ok := w.volume(l.volume)
		if !ok || k.On != nil && !slices.Contains(k.On, kind) {
			continue
		}
		list, _ := bind.Fields(bind.Elem(k.New()))
		f, ok := bind.FindField(list, l.key)
		if !ok {
			continue
		}
		choices = append(choices, bind.Named(f.Enum)...)
		if slices.Contains(f.Enum, what.Text) && what.Text != "" {
			vol, first = k, syntax.Pair{Key: what.Made(l.key), Val: what}
		}
	}
	// WHAT may be the name of a volume kind, with a value (fake:dir=/tmp) or with its defaults (qemu:disk).
	if name, value, found := strings.Cut(what.Text, "="); vol.New == nil {
		if k, ok := w.volume(name); ok && (k.On == nil || slices.Contains(k.On, kind)) {
			vol = k
			if found {
				first = syntax.Pair{Key: what.Made(name), Val: what.Sub(len(name)+1, len(name)+1+len(value))}
			}
		}
		for _, k := range w.kinds.Volumes {
			if k.On == nil || slices.Contains(k.On, kind) {
				choices = append(choices, k.Name)
			}
		}
	}
	if vol.New == nil {
		hint := syntax.DidYouMean(what.Text, choices)
		if what.Text == "" {
			w.Fail(n, hint, "%s: needs to know which volume", kind)
			return
		}
		w.Fail(what, hint, "%s is not a volume of %s", syntax.Quote(what.Text), kind)
		return
	}
	m, _ := kindNamed(w.kinds.Machines, kind)
	onVolume, onMachine := w.pairs(parts[1:], vol, m)
	value := syntax.Mapping(what, onVolume...)
	if first.Key != nil {
		if first.Key.Text == vol.Name { // the value in the word belongs to the volume itself
			if len(onVolume) == 0 {
				value = first.Val
			} else if list, _ := bind.Fields(bind.Elem(vol.New())); len(list) > 0 {
				value.Entries = append([]syntax.Pair{{Key: first.Key.Made(list[0].Name), Val: first.Val}}, value.Entries...)
			}
		} else {
			value.Entries = append([]syntax.Pair{first}, value.Entries...)
		}
	}
	called := "guest"
	if kind == "k8s" {
		called = "pod"
	}
	w.add(n, syntax.Pair{Key: n.Made("on"), Val: n.Made(w.machine(n, m, called, syntax.Mapping(what, onMachine...)))}, syntax.Pair{Key: n.Made(vol.Name), Val: value})
}

// pairs assigns the key=value words to the volume, or to the machine if the volume does not have the key.
func (w *words) pairs(parts []*syntax.Node, vol, m Kind) (onVolume, onMachine []syntax.Pair) {
	volKeys, machineKeys := bind.KeysOf(vol.New()), bind.KeysOf(m.New())
	seen := map[string]bool{"path": vol.Name == "dir"} // the word itself contains the path
	for _, part := range parts {
		if part.Text == "" {
			w.Fail(part, "write key=value", "an empty word after a separator")
			continue
		}
		key, value, found := strings.Cut(part.Text, "=")
		k := part.Sub(0, len(key))
		known := slices.Contains(volKeys, key) || slices.Contains(machineKeys, key)
		switch {
		case !known:
			all := append(slices.Clone(volKeys), machineKeys...)
			w.Fail(k, syntax.DidYouMean(key, all), "unknown key %s of %s or %s", syntax.Quote(key), vol.Name, m.Name)
			continue
		case seen[key]:
			w.Fail(k, "write it once", "the key %s is given twice", syntax.Quote(key))
			continue
		}
		seen[key] = true
		v := part.Sub(min(len(key)+1, len(part.Text)), len(part.Text))
		if !found {
			// A boolean key without a value is true. Other keys need a value.
			if list, _ := bind.Fields(bind.Elem(vol.New())); !isBool(list, key) {
				if list, _ := bind.Fields(bind.Elem(m.New())); !isBool(list, key) {
					w.Fail(k, "write "+key+"=VALUE", "the key %s has no value", syntax.Quote(key))
					continue
				}
			}
			v = part.Made("true")
			v.Col++ // so that the value counts as written by the user
		} else if value == "" {
			w.Fail(part, "write "+key+"=VALUE", "the key %s has no value", syntax.Quote(key))
			continue
		}
		p := syntax.Pair{Key: k, Val: v}
		if slices.Contains(volKeys, key) {
			onVolume = append(onVolume, p)
		} else {
			onMachine = append(onMachine, p)
		}
	}
	return onVolume, onMachine
}

func isBool(list []bind.Field, key string) bool {
	f, ok := bind.FindField(list, key)
	return ok && f.Typ.Kind().String() == "bool"
}

// machine declares the machine of a word. It returns the name of the new machine, or of an equal existing one.
func (w *words) machine(n *syntax.Node, k Kind, name string, spec *syntax.Node) string {
	probe := bind.Binder{Collector: &syntax.Collector{}}
	v := bind.Variant{Spec: k.New()}
	probe.Spec(&v, k, n, spec)
	id := k.Name + "\n"
	if len(probe.Errs) > 0 {
		// The errors are reported later, when this machine is bound.
		id += n.Text
	} else if y, err := bind.SpecYAML(k, v.Spec); err == nil {
		id += y
	}
	if g, ok := w.guests[id]; ok {
		return g
	}
	if spec.Kind == syntax.MappingNode && (name == "guest" || name == "pod") {
		for _, e := range spec.Entries {
			name += " " + e.Key.Text + "=" + e.Val.Text
		}
	}
	base := name
	for i := 2; ; i++ {
		if _, there := w.machines.Get(name); !there {
			break
		}
		name = fmt.Sprintf("%s #%d", base, i)
	}
	w.guests[id] = name
	w.machines.Entries = append(w.machines.Entries, syntax.Pair{Key: n.Made(name), Val: syntax.Mapping(n, syntax.Pair{Key: n.Made(k.Name), Val: spec})})
	return name
}

// directory adds a target: a directory on a machine.
func (w *words) directory(n, path *syntax.Node, onVolume []syntax.Pair, machine string) {
	value := path
	if len(onVolume) > 0 {
		value = syntax.Mapping(path, append([]syntax.Pair{{Key: path.Made("path"), Val: path}}, onVolume...)...)
	}
	w.add(n, syntax.Pair{Key: n.Made("on"), Val: n.Made(machine)}, syntax.Pair{Key: n.Made("dir"), Val: value})
}

// ssh reads ssh://[user@]host[:port]/path[?key=value&…].
func (w *words) ssh(n *syntax.Node) {
	const form = "write ssh://[user@]host[:port]/path"
	if !strings.HasPrefix(n.Text, "ssh://") {
		w.Fail(n, form, "an ssh target is a URL")
		return
	}
	body, query := n.Query(len("ssh://"))
	end := strings.IndexByte(body.Text+"/", '/')
	host, path := body.Sub(0, end), body.Sub(end, len(body.Text))
	u, err := url.Parse("ssh://" + body.Text)
	switch {
	case err != nil:
		w.Fail(host, form, "this is not a URL: %v", cause(err))
		return
	case u.Hostname() == "":
		w.Fail(n, form, "the URL names no host")
		return
	case strings.HasPrefix(u.Hostname(), "-"):
		w.Fail(host, form, "a host name does not begin with -")
		return
	case path.Text == "":
		w.Fail(host, form+"; ~ is not expanded", "the URL names no directory")
		return
	}
	m, _ := kindNamed(w.kinds.Machines, "ssh")
	dir, ok := w.volume("dir")
	if !ok {
		w.unknown(n, "ssh")
		return
	}
	onVolume, onMachine := w.pairs(query, dir, m)
	spec := syntax.Mapping(host)
	keys := bind.KeysOf(m.New())
	for _, p := range [][2]string{{"host", u.Hostname()}, {"user", u.User.Username()}, {"port", u.Port()}} {
		if p[1] != "" && slices.Contains(keys, p[0]) {
			spec.Entries = append(spec.Entries, syntax.Pair{Key: host.Made(p[0]), Val: host.Made(p[1])})
		}
	}
	spec.Entries = append(spec.Entries, onMachine...)
	w.directory(n, path.Made(u.Path), onVolume, w.machine(n, m, "ssh://"+host.Text, spec))
}

// container reads docker://NAME/path[?key=value&…]. NAME is a running container or an image.
func (w *words) container(n *syntax.Node, kind string) {
	m, _ := kindNamed(w.kinds.Machines, kind)
	dir, isDir := w.volume("dir")
	if !isDir || !slices.Contains(bind.KeysOf(m.New()), "ref") {
		w.Fail(n, "", "%s is not written as a URL", kind)
		return
	}
	body, query := n.Query(len(kind + "://"))
	end := strings.IndexByte(body.Text+"/", '/')
	ref, path := body.Sub(0, end), body.Sub(end, len(body.Text))
	if path.Text == "" {
		w.Fail(n, "write "+kind+"://IMAGE-or-container/path", "the URL names no directory")
		return
	}
	onVolume, onMachine := w.pairs(query, dir, m)
	if ref.Text != "" {
		onMachine = append([]syntax.Pair{{Key: ref.Made("ref"), Val: ref}}, onMachine...)
	}
	called := kind + "://" + ref.Text
	for _, p := range onMachine {
		if p.Key.Text == "image" || p.Key.Text == "container" {
			called = kind + "://" + p.Val.Text
		}
	}
	w.directory(n, path, onVolume, w.machine(n, m, called, syntax.Mapping(n, onMachine...)))
}

// pod reads k8s://pod/NAMESPACE/NAME[/path][?key=value&…] and k8s://storageclass/CLASS[?key=value&…].
func (w *words) pod(n *syntax.Node) {
	const form = "write k8s://pod/NAMESPACE/NAME/path or k8s://storageclass/CLASS"
	m, _ := kindNamed(w.kinds.Machines, "k8s")
	body, query := n.Query(len("k8s://"))
	parts := body.Split("/")
	volume := map[string]string{"pod": "dir", "storageclass": "claim"}[parts[0].Text]
	vol, ok := w.volume(volume)
	if !ok {
		w.Fail(parts[0], form, "%s is not a kind of Kubernetes target", syntax.Quote(parts[0].Text))
		return
	}
	onVolume, onMachine := w.pairs(query, vol, m)
	if volume == "claim" {
		if len(parts) != 2 || parts[1].Text == "" {
			w.Fail(n, form, "the URL names no storage class")
			return
		}
		value := syntax.Mapping(parts[1], append([]syntax.Pair{{Key: parts[1].Made("class"), Val: parts[1]}}, onVolume...)...)
		w.add(n, syntax.Pair{Key: n.Made("on"), Val: n.Made(w.machine(n, m, "pod", syntax.Mapping(n, onMachine...)))}, syntax.Pair{Key: n.Made("claim"), Val: value})
		return
	}
	if len(parts) < 3 || parts[1].Text == "" || parts[2].Text == "" {
		w.Fail(n, form, "the URL names no pod")
		return
	}
	name := parts[1].Text + "/" + parts[2].Text
	path := parts[2].Made("/tmp")
	if len(parts) > 3 {
		path = body.Sub(len("pod/"+name), len(body.Text))
	}
	onMachine = append([]syntax.Pair{{Key: parts[1].Made("pod"), Val: parts[1].Made(name)}}, onMachine...)
	w.directory(n, path, onVolume, w.machine(n, m, "k8s://pod/"+name, syntax.Mapping(n, onMachine...)))
}

func cause(err error) error {
	if e, ok := err.(*url.Error); ok {
		return e.Err
	}
	return err
}
