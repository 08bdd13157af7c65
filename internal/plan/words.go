package plan

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"iotax/internal/plan/syntax"
)

// DefaultWorkloads is used if the command line names no workload.
var DefaultWorkloads = []string{"randread-4k", "randwrite-4k", "seqread-1m"}

// Default queue depths of workload words.
const (
	RandomDepth     = 32
	SequentialDepth = 8
)

// urls maps URL schemes of targets to volume kinds.
var urls = map[string]string{"nbd": "nbd", "http": "bucket", "https": "bucket", "nfs": "nfs"}

// instead maps schemes of other programs' URLs to hints. Such URLs do not contain the endpoint of a bucket.
var instead = map[string]string{
	"s3": "write the endpoint and the bucket: https://HOST/BUCKET, for AWS https://s3.REGION.amazonaws.com/BUCKET; and a workload for buckets: -w object",
}

// FromWords builds a plan from command-line words. The first target is the baseline. If `workloads` is empty, it uses
// DefaultWorkloads. m is the result of Defaults, possibly changed by flags.
//
//	dir:/var/tmp   /var/tmp   ./here           a directory of this host
//	device:/dev/vdb                            a block device of this host, read-only unless --destroy names it
//	qemu:virtio-blk,cache=none,memory=2GiB     a disk of a guest; words with equal machine keys share a guest
//	qemu:virtiofs,cache=auto                   a directory of this host, shared with a guest
//	https://HOST/BUCKET   nbd://HOST:PORT/NAME a bucket, an NBD export
//	nfs://HOST[:PORT]/PATH                     an NFS export, mounted on this host
//	ssh://[user@]host[:port]/path[?key=value]  a directory of another host
//	docker://debian:12/work[?key=value]        a directory in a running container, or in a new one from an image
//	docker:bind,image=debian:12                a bind mount, volume or tmpfs of a container created for the run
//	k8s://pod/NAMESPACE/NAME[/path]            a directory in a running pod
//	k8s://storageclass/fast[?key=value]        a volume of that storage class, in a pod created for the run
//	k8s:tmpfs,node=n1   k8s:claim=fast         a volume of a new pod; words with equal pod keys share a pod
//
// Workload words are (rand|seq)(read|write|rw)-BS with the suffixes -qdN, -jN and -SIZE: randread-4k,
// seqwrite-1m-qd4, randrw-8k-qd16-j4-2GiB. -openN is an open loop at N % of the capacity of the slowest
// target. -rateN is an open loop at N I/Os per second. A word may also be a fio command line, the path of a
// job file that ends in .fio, or another workload kind and its value: command:make.
func FromWords(targets, workloads []string, m Measure, k Kinds) (*Plan, error) {
	c := &syntax.Collector{}
	b := newBuilder(c, k)
	p := &Plan{Measure: m, Name: wordsName(targets)}
	if len(workloads) == 0 {
		workloads = DefaultWorkloads
	}
	if len(targets) == 0 {
		c.Add(&Error{Msg: "no target is given", Hint: "name one, as in dir:/var/tmp; the first is the baseline"})
	}
	w := words{builder: b, guests: map[string]string{}, machines: &syntax.Node{Kind: syntax.MappingNode}, targets: &syntax.Node{Kind: syntax.MappingNode}, works: &syntax.Node{Kind: syntax.MappingNode}}
	for i, t := range targets {
		if n, ok := w.begin("target", i, t, len(targets)); ok {
			w.target(n)
		}
	}
	for i, t := range workloads {
		if IsCommand(t) {
			t = strings.ReplaceAll(t, "\\\n", "  ") // join continued lines
		}
		if n, ok := w.begin("workload", i, t, len(workloads)); ok {
			w.workload(n)
		}
	}
	b.addMachines(w.machines)
	b.addTargets(w.targets)
	b.addWorkloads(w.works)
	if len(b.targets)*len(b.works) > maxCells {
		c.Add(&Error{Msg: fmt.Sprintf("%d targets × %d workloads are more than %d cells", len(b.targets), len(b.works), maxCells), Hint: "name fewer"})
		return nil, c.Err()
	}
	b.checkMeasure(&p.Measure, nil)
	p.Baseline = b.baseline(nil)
	if len(c.Errs) == 0 { // after an error in the first word, the second word would be the baseline
		b.references(p.Baseline)
	}
	b.fill(p)
	// Use the keys in each word as labels, because the targets differ in them.
	for i, e := range b.targets {
		if e.val != nil {
			p.Targets[i].Labels = wordLabels(e, p.Targets[i].Labels)
		}
	}
	if len(c.Errs) > 0 {
		return nil, c.Sorted()
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

// wordLabels returns the keys and values that the user wrote in the word of e, together with the labels in `spread`, or
// nil if there are none.
func wordLabels(e *entry, spread map[string]string) map[string]string {
	out := map[string]string{}
	add := func(n *syntax.Node) {
		for _, p := range n.Entries {
			if p.Key.Col != p.Val.Col && p.Val.Kind != syntax.ListNode { // written by the user: a generated key has the same place as its value
				out[p.Key.Text] = p.Val.Text
			}
		}
	}
	add(e.val)
	if e.where != nil && e.where.val != nil {
		add(e.where.val)
	}
	if maps.Copy(out, spread); len(out) == 0 {
		return nil
	}
	return out
}

// words builds the nodes of a plan file from the words of a command line.
type words struct {
	*builder
	guests                   map[string]string // canonical spec → machine name
	machines, targets, works *syntax.Node
	begun                    int
}

const maxWord = 4096 // bytes; PATH_MAX of Linux

// begin creates the node of a word. If the word is empty, too long or not UTF-8, or contains a password or a control
// character, begin reports an error and returns false.
func (w *words) begin(what string, i int, text string, of int) (*syntax.Node, bool) {
	w.begun++
	src := &syntax.Source{Word: what, Index: w.begun, Lines: []string{syntax.Masked(text)}}
	if of > 1 {
		src.Word = fmt.Sprintf("%s %d", what, i+1)
	}
	n := &syntax.Node{Kind: syntax.ScalarNode, Src: src, Line: 1, Col: 1, Width: utf8.RuneCountInString(text), Text: text}
	if text == "" {
		n.Width = 1
		w.Fail(n, "", "an empty word")
		return nil, false
	}
	if len(text) > maxWord {
		w.Fail(n, "", "the word is longer than %d bytes", maxWord)
		return nil, false
	}
	if at := syntax.Password.FindStringSubmatchIndex(text); at != nil {
		// Reject the password without displaying or saving it: reports use the word as the target's name.
		n.Col, n.Width = utf8.RuneCountInString(text[:at[2]])+1, 1
		w.Fail(n, "use a key, an agent or a file for it", "a password does not belong in a target")
		return nil, false
	}
	col := 0
	for k := 0; k < len(text); {
		r, size := utf8.DecodeRuneInString(text[k:])
		col++
		if r < ' ' || r == 0x7f || r == utf8.RuneError && size == 1 {
			bad := *n
			bad.Col, bad.Width = col, 1
			w.Fail(&bad, "take it out", "a control character, or a byte that is not UTF-8")
			return nil, false
		}
		k += size
	}
	return n, true
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

func (w *words) target(n *syntax.Node) {
	text := n.Text
	if strings.HasPrefix(text, "/") || text == "." || text == ".." || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") {
		w.onHost(n, "dir", n)
		return
	}
	m := scheme.FindStringSubmatch(text)
	if m == nil {
		w.unknown(n, text)
		return
	}
	name, rest := m[1], n.Sub(len(m[0]), len(text))
	head := n.Sub(0, len(m[1]))
	_, isVolume := w.volume(name)
	asMachine, isMachine := kindNamed(w.kinds.Machines, name)
	switch {
	case isMachine && asMachine.New().Traits().Encloses:
		w.Fail(head, "write a plan with on: at the machine; iotax plan --yaml prints one to start from", "a %s is on another machine", name)
	case urls[name] != "" && strings.HasPrefix(rest.Text, "//"):
		w.onHost(n, urls[name], n)
	case instead[name] != "" && strings.HasPrefix(rest.Text, "//"):
		w.Fail(head, instead[name], "%s:// is not a kind of target", name)
	case isVolume && onHost(w.kinds, name):
		if rest.Text == "" {
			w.Fail(head, "write "+name+":/path", "%s: needs a path", name)
			return
		}
		w.onHost(n, name, rest)
	case name == "ssh" && isMachine:
		w.ssh(n)
	case isMachine && name == "k8s" && strings.HasPrefix(rest.Text, "//"):
		w.pod(n)
	case isMachine && strings.HasPrefix(rest.Text, "//"):
		w.container(n, name)
	case isMachine && name != Host:
		w.guest(n, name, rest)
	case isVolume:
		k, _ := w.volume(name)
		w.Fail(head, fmt.Sprintf("write it as a part of a machine, as in %s:…", strings.Join(k.On, " or ")), "a %s cannot be on this host", name)
	default:
		w.unknown(head, name)
	}
}

// onHost reports whether a volume of this kind can be on this host.
func onHost(k Kinds, name string) bool {
	v, _ := kindNamed(k.Volumes, name)
	return v.On == nil || slices.Contains(v.On, Host)
}

// Forms returns the prefixes of target words.
func Forms(k Kinds) []string {
	var out []string
	for _, v := range k.Volumes {
		if _, ok := v.New().(Scalar); ok && onHost(k, v.Name) {
			out = append(out, v.Name+":")
		}
	}
	for _, m := range k.Machines {
		switch {
		case m.Name == Host || m.Name == "fake" || m.New().Traits().Encloses:
		case m.Name == "ssh":
			out = append(out, "ssh://")
		default:
			out = append(out, m.Name+":")
		}
	}
	return out
}

func (w *words) unknown(n *syntax.Node, name string) {
	var names []string
	for _, k := range append(slices.Clone(w.kinds.Volumes), w.kinds.Machines...) {
		if k.Name != Host {
			names = append(names, k.Name)
		}
	}
	hint := "a target begins with " + syntax.List(Forms(w.kinds)) + " or is a path that begins with / or ./"
	if name == Host {
		hint = "write dir:/path for a directory of this host"
	} else if name == n.Text && strings.Contains(name, "/") {
		hint = "a path begins with / or ./"
	} else if near := syntax.Nearest(name, append(names, slices.Sorted(maps.Keys(urls))...)); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	w.Fail(n, hint, "%s is not a kind of target", syntax.Quote(name))
}

// add adds a target. Its name is the word without create=true. Equal words become separate targets (an A/A pair).
func (w *words) add(n *syntax.Node, entries ...syntax.Pair) {
	word := strings.Replace(n.Text, ",create=true", "", 1)
	name := word
	for i := 2; ; i++ {
		if _, there := w.targets.Get(name); !there {
			break
		}
		name = fmt.Sprintf("%s #%d", word, i)
	}
	w.targets.Entries = append(w.targets.Entries, syntax.Pair{Key: n.Made(name), Val: syntax.Mapping(n, entries...)})
}

func (w *words) onHost(n *syntax.Node, kind string, value *syntax.Node) {
	vol, ok := w.volume(kind)
	if !ok {
		w.unknown(n, kind)
		return
	}
	if parts := value.Split(","); kind == "dir" && len(parts) > 1 {
		host, _ := kindNamed(w.kinds.Machines, Host)
		onVolume, _ := w.pairs(parts[1:], vol, host)
		value = syntax.Mapping(value, append([]syntax.Pair{{Key: parts[0].Made("path"), Val: parts[0]}}, onVolume...)...)
	}
	w.add(n, syntax.Pair{Key: n.Made(kind), Val: value})
}
