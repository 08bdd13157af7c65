package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"iotax/internal/plan/bind"
	"iotax/internal/plan/syntax"
)

var (
	preset     = regexp.MustCompile(`^(rand|seq)(read|write|rw)$`)
	depthWord  = regexp.MustCompile(`^qd([0-9]+)$`)
	jobsWord   = regexp.MustCompile(`^j([0-9]+)$`)
	openWord   = regexp.MustCompile(`^open([0-9]*)$`)
	rateWord   = regexp.MustCompile(`^rate([0-9.]+[kM]?)$`)
	presetList = []string{"randread", "randwrite", "randrw", "seqread", "seqwrite", "seqrw"}
)

// command matches fio in a command line.
var command = regexp.MustCompile(`(?:^|[\s/])fio\s`)

// IsCommand reports whether a workload word is a fio command line.
func IsCommand(text string) bool { return command.MatchString(text) }

// fio adds a fio workload from a job file or a command line.
func (w *words) fio(n *syntax.Node, key string) {
	// The jobs get their final names later: see Part.
	w.work(n, n.Made(fmt.Sprintf("fio %d", len(w.works.Entries)+1)), "fio", syntax.Mapping(n, syntax.Pair{Key: n.Made(key), Val: n}))
}

// work adds a workload of a kind.
func (w *words) work(n, name *syntax.Node, kind string, spec *syntax.Node) {
	_, known := kindNamed(w.kinds.Workloads, kind)
	_, there := w.works.Get(name.Text)
	switch {
	case !known:
		w.Fail(n, "", "there is no workload kind %s", kind)
	case there:
		w.Fail(n, "name it once", "the workload %s is given twice", syntax.Quote(name.Text))
	default:
		w.works.Entries = append(w.works.Entries, syntax.Pair{Key: name, Val: syntax.Mapping(n, syntax.Pair{Key: n.Made(kind), Val: spec})})
	}
}

// otherKind reads KIND or KIND:VALUE for kinds other than fio, as in command:make.
func (w *words) otherKind(n *syntax.Node) bool {
	name, value, found := strings.Cut(n.Text, ":")
	k, ok := kindNamed(w.kinds.Workloads, name)
	if !ok || name == "fio" {
		return false
	}
	spec := syntax.Mapping(n)
	if _, scalar := k.New().(Scalar); found && !scalar {
		w.Fail(n.Sub(len(name), len(n.Text)), "write "+name+", or a plan with the keys "+syntax.List(bind.KeysOf(k.New())), "%s takes no value", syntax.Quote(name))
		return true
	} else if found {
		if value == "" {
			w.Fail(n, "write "+name+":VALUE", "%s has no value", syntax.Quote(n.Text))
			return true
		}
		spec = n.Sub(len(name)+1, len(n.Text))
	}
	w.work(n, n, name, spec)
	return true
}

// workload reads a workload word (see FromWords).
func (w *words) workload(n *syntax.Node) {
	const form = "write (rand|seq)(read|write|rw)-BLOCKSIZE, as in randread-4k or seqwrite-1m-qd4"
	if w.otherKind(n) {
		return
	}
	switch {
	case IsCommand(n.Text):
		w.fio(n, "command")
		return
	case strings.HasSuffix(n.Text, ".fio"):
		w.fio(n, "file")
		return
	}
	parts := n.Split("-")
	head := parts[0]
	m := preset.FindStringSubmatch(head.Text)
	if m == nil {
		hint := form
		if near := syntax.Nearest(head.Text, presetList); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		w.Fail(head, hint, "%s is not a workload", syntax.Quote(head.Text))
		return
	}
	if len(parts) < 2 || parts[1].Text == "" {
		w.Fail(n, form, "%s needs a block size", syntax.Quote(n.Text))
		return
	}
	rw := m[2]
	depth := fmt.Sprint(SequentialDepth)
	if m[1] == "rand" {
		rw, depth = "rand"+rw, fmt.Sprint(RandomDepth)
	}
	if _, err := positive(parts[1].Text); err != nil {
		w.Fail(parts[1], cmp.Or(bind.AsFieldError(err).Hint, form), "the block size: %s", bind.AsFieldError(err).Msg)
		return
	}
	options := map[string]*syntax.Node{"iodepth": n.Made(depth)}
	set := func(key string, part *syntax.Node, value string) {
		if old := options[key]; old != nil && key != "iodepth" || old != nil && old.Col != n.Col {
			w.Fail(part, "write it once", "%s is given twice", key)
		}
		options[key] = part.Made(value)
	}
	arrivals := func() { // the rate determines the number of I/Os in flight
		if d := options["iodepth"]; d != nil && d.Col == n.Col {
			delete(options, "iodepth")
		}
	}
	for _, part := range parts[2:] {
		if d := depthWord.FindStringSubmatch(part.Text); d != nil {
			set("iodepth", part, d[1])
		} else if j := jobsWord.FindStringSubmatch(part.Text); j != nil {
			set("numjobs", part, j[1])
		} else if o := openWord.FindStringSubmatch(part.Text); o != nil {
			load := "open"
			if o[1] != "" {
				load = o[1] + "%"
			}
			set("load", part, load)
			arrivals()
		} else if r := rateWord.FindStringSubmatch(part.Text); r != nil {
			set("rate", part, r[1]+"/s")
			arrivals()
		} else if _, err := positive(part.Text); err == nil {
			set("size", part, part.Text)
		} else {
			w.Fail(part, "after the block size write qdN (queue depth), jN (jobs), openN (open loop at N %), rateN (open loop at N/s) or a size, as in randread-4k-qd16-j4-2GiB", "%s: %s", syntax.Quote(part.Text), bind.AsFieldError(err).Msg)
		}
	}
	entries := []syntax.Pair{{Key: head.Made("rw"), Val: head.Made(rw)}, {Key: n.Made("bs"), Val: parts[1]}}
	for _, key := range []string{"load", "rate", "iodepth", "numjobs", "size"} {
		if v := options[key]; v != nil {
			entries = append(entries, syntax.Pair{Key: v.Made(key), Val: v})
		}
	}
	w.work(n, n, "fio", syntax.Mapping(n, entries...))
}

func positive(s string) (Size, error) {
	v, err := syntax.ParseSize(s)
	if err == nil && v == 0 {
		err = &ValueError{Msg: syntax.Quote(s) + " is nothing", Hint: "write a size above 0"}
	}
	return v, err
}
