package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// Words of workloads.

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
	// The name comes with the jobs: see Part.
	w.work(n, n.made(fmt.Sprintf("fio %d", len(w.works.entries)+1)), "fio", mapping(n, pair{n.made(key), n}))
}

// work adds a workload of a kind under its name.
func (w *words) work(n, name *node, kind string, spec *node) {
	_, known := kindNamed(w.kinds.Workloads, kind)
	_, there := w.works.get(name.text)
	switch {
	case !known:
		w.fail(n, "", "there is no workload kind %s", kind)
	case there:
		w.fail(n, "name it once", "the workload %s is given twice", quote(name.text))
	default:
		w.works.entries = append(w.works.entries, pair{name, mapping(n, pair{n.made(kind), spec})})
	}
}

// otherKind reads KIND or KIND:VALUE of a kind of workload that is not fio, as in command:make.
func (w *words) otherKind(n *node) bool {
	name, value, found := strings.Cut(n.text, ":")
	k, ok := kindNamed(w.kinds.Workloads, name)
	if !ok || name == "fio" {
		return false
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
	w.work(n, n, name, spec)
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
		hint := form
		if near := Nearest(head.text, presetList); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		w.fail(head, hint, "%s is no workload", quote(head.text))
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
		w.fail(parts[1], cmp.Or(said(err).Hint, form), "the block size: %s", said(err).Msg)
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
			w.fail(part, "after the block size write qdN (queue depth), jN (jobs), openN (open loop at N %) or a size, as in randread-4k-qd16-j4-2GiB", "%s: %s", quote(part.text), said(err).Msg)
		}
	}
	entries := []pair{{head.made("rw"), head.made(rw)}, {n.made("bs"), parts[1]}}
	for _, key := range []string{"load", "iodepth", "numjobs", "size"} {
		if v := options[key]; v != nil {
			entries = append(entries, pair{v.made(key), v})
		}
	}
	w.work(n, n, "fio", mapping(n, entries...))
}

func positive(s string) (Size, error) {
	v, err := ParseSize(s)
	if err == nil && v == 0 {
		err = &ValueError{Msg: quote(s) + " is nothing", Hint: "write a size above 0"}
	}
	return v, err
}
