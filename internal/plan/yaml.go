package plan

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// YAML writes the plan with every default filled in and every axis expanded. It parses back to the
// same plan (File and positions aside).
func (p *Plan) YAML() ([]byte, error) {
	var w writer
	w.line(0, "name", p.Name)
	if p.Baseline != "" {
		w.line(0, "baseline", p.Baseline)
	}
	w.present(p)
	if len(p.Machines) > 0 {
		w.open(0, "machines")
		for _, m := range p.Machines {
			w.open(1, m.Name)
			w.labels(m.Labels)
			w.spec(2, m.Kind, m.Spec, m.fresh)
		}
	}
	w.open(0, "targets")
	for _, t := range p.Targets {
		w.open(1, t.Name)
		w.line(2, "on", t.On)
		if len(t.Against) > 0 {
			w.indent(2, "against")
			w.b.WriteString(" " + flow(t.Against) + "\n")
		}
		w.labels(t.Labels)
		w.spec(2, t.Kind, t.Spec, t.fresh)
	}
	w.open(0, "workloads")
	for _, l := range p.Workloads {
		w.open(1, l.Name)
		if len(l.At) > 0 {
			w.indent(2, "at")
			w.b.WriteString(" " + flow(l.At) + "\n")
		}
		if l.Section != "" {
			w.line(2, "section", l.Section)
		}
		w.labels(l.Labels)
		w.spec(2, l.Kind, l.Spec, l.fresh)
	}
	w.open(0, "measure")
	w.comments = true
	w.fields(1, reflect.ValueOf(p.Measure), reflect.ValueOf(Defaults()))
	if w.err != nil {
		return nil, w.err
	}
	return []byte(w.b.String()), nil
}

// Job is what the workload does: the kind and the keys of its spec that are not as a fresh one has them.
func (l Workload) Job() (map[string]string, error) {
	var w, usual writer
	w.spec(0, l.Kind, l.Spec, l.fresh)
	if l.fresh != nil {
		usual.spec(0, l.Kind, l.fresh, l.fresh)
	}
	out := leaves(w.b.String())
	for k, v := range leaves(usual.b.String()) {
		if out[k] == v {
			delete(out, k)
		}
	}
	out["kind"] = l.Kind
	return out, errors.Join(w.err, usual.err)
}

// leaves are the values of what writer wrote, by their path below the first key.
func leaves(yaml string) map[string]string {
	out := map[string]string{}
	var path []string
	for line := range strings.Lines(yaml) {
		text := strings.TrimLeft(line, " ")
		depth := (len(line) - len(text)) / 2
		key, value, leaf := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
		path = append(path[:min(depth, len(path))], strings.TrimSuffix(key, ":"))
		if leaf && len(path) > 1 {
			out[strings.Join(path[1:], ".")] = value
		}
	}
	return out
}

// specYAML is the canonical text of one spec: equal specs have equal texts.
func specYAML(k Kind, spec Spec) (string, error) {
	var w writer
	w.spec(0, k.Name, spec, k.New())
	return w.b.String(), w.err
}

// writer writes block style YAML. The encoder of the YAML package is not used: it has no way to put
// a comment behind a value of an ordered mapping, and quotes by other rules than its parser reads.
type writer struct {
	b        strings.Builder
	comments bool
	err      error
}

func (w *writer) indent(depth int, key string) {
	w.b.WriteString(strings.Repeat("  ", depth) + scalar(key) + ":")
}

func (w *writer) open(depth int, key string) {
	w.indent(depth, key)
	w.b.WriteByte('\n')
}

func (w *writer) line(depth int, key, value string) {
	w.indent(depth, key)
	w.b.WriteString(" " + scalar(value) + "\n")
}

func (w *writer) labels(m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.open(2, "labels")
	w.strings(3, m)
}

func (w *writer) strings(depth int, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.line(depth, k, m[k])
	}
}

func (w *writer) spec(depth int, kind string, spec, fresh Spec) {
	v := reflect.ValueOf(spec)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		w.err = fmt.Errorf("write plan: the spec of %s is %T, not a pointer to a struct", kind, spec)
		return
	}
	mark := w.b.Len()
	w.open(depth, kind)
	body := w.b.Len()
	var zero reflect.Value
	if f := reflect.ValueOf(fresh); f.IsValid() && f.Type() == v.Type() {
		zero = f.Elem()
	}
	w.fields(depth+1, v.Elem(), zero)
	for _, o := range optionsOf(spec) {
		w.line(depth+1, o.Key, o.Value)
	}
	if w.b.Len() == body {
		w.truncate(mark)
		w.indent(depth, kind)
		w.b.WriteString(" {}\n")
	}
}

// truncate takes back what was written since the text had n bytes.
func (w *writer) truncate(n int) {
	s := w.b.String()[:n]
	w.b.Reset()
	w.b.WriteString(s)
}

// fields writes a struct. What is empty is left out where it is empty in a fresh struct too, so that
// a plan reads back as it is.
func (w *writer) fields(depth int, v, fresh reflect.Value) {
	list, _ := fields(v.Type())
	for _, f := range list {
		var was reflect.Value
		if fresh.IsValid() {
			was = fresh.FieldByIndex(f.index)
		}
		w.field(depth, f, v.FieldByIndex(f.index), was)
	}
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return false
}

func (w *writer) field(depth int, f field, v, fresh reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v, fresh = v.Elem(), reflect.Value{}
	}
	if isEmpty(v) && fresh.IsValid() && isEmpty(fresh) {
		return
	}
	switch {
	case isText(v.Type()):
		s, err := textOf(v)
		if err != nil {
			w.err = fmt.Errorf("write plan: %s: %w", f.name, err)
			return
		}
		w.indent(depth, f.name)
		w.b.WriteString(" " + scalar(s))
		if w.comments && f.doc != "" {
			w.b.WriteString(" # " + f.doc)
		}
		w.b.WriteByte('\n')
	case v.Kind() == reflect.Slice:
		w.indent(depth, f.name)
		var items []string
		for i := range v.Len() {
			s, err := textOf(v.Index(i))
			if err != nil {
				w.err = fmt.Errorf("write plan: %s: %w", f.name, err)
			}
			items = append(items, quoted(s))
		}
		w.b.WriteString(" [" + strings.Join(items, ", ") + "]\n")
	case v.Kind() == reflect.Map:
		if v.Len() == 0 {
			w.indent(depth, f.name)
			w.b.WriteString(" {}\n")
			return
		}
		w.open(depth, f.name)
		it := map[string]string{}
		for _, k := range v.MapKeys() {
			s, err := textOf(v.MapIndex(k))
			if err != nil {
				w.err = fmt.Errorf("write plan: %s: %w", f.name, err)
			}
			it[k.String()] = s
		}
		w.strings(depth+1, it)
	case v.Kind() == reflect.Struct:
		mark := w.b.Len()
		w.open(depth, f.name)
		body := w.b.Len()
		if w.fields(depth+1, v, fresh); w.b.Len() == body {
			w.truncate(mark) // a key without a value is none
		}
	}
}

// Words that are safe as they are: no indicator at the start, nothing that ends a plain text.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9/._][A-Za-z0-9/._+=%@ -]*$`)

// scalar writes a text plain where that is surely read back as it is, and quoted elsewhere.
func scalar(s string) string {
	if plainWord.MatchString(s) && !strings.HasSuffix(s, " ") && !strings.Contains(s, "  ") {
		switch strings.ToLower(s) {
		case "null", "true", "false", "~":
		default:
			if !strings.HasPrefix(s, "...") {
				return s
			}
		}
		if s == "true" || s == "false" {
			return s // a boolean, or a text that reads the same
		}
	}
	return quoted(s)
}

// quoted is a double-quoted text in printable characters.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
