package plan_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"iotax/internal/plan/schema"
)

// A part is an object in the JSON Schema of plans. It keeps the order of the keys.
type part yaml.MapSlice

func (s part) get(key string) any {
	for _, e := range s {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

func (s part) sub(key string) part {
	m, _ := s.get(key).(yaml.MapSlice)
	return part(m)
}

func (s part) text(key string) string {
	if v := s.get(key); v != nil {
		return strings.ReplaceAll(fmt.Sprint(v), "|", `\|`)
	}
	return ""
}

// alternatives returns the parts in anyOf, or the part itself.
func (s part) alternatives() []part {
	list, _ := s.get("anyOf").([]any)
	if len(list) == 0 {
		return []part{s}
	}
	var out []part
	for _, a := range list {
		if m, ok := a.(yaml.MapSlice); ok {
			out = append(out, part(m).alternatives()...)
		}
	}
	return out
}

// values describes the values of a key. It uses only the first alternative.
func (s part) values() string {
	for _, a := range s.alternatives() {
		pattern := a.text("pattern")
		switch {
		case a.get("enum") != nil:
			var words []string
			for _, w := range a.get("enum").([]any) {
				if w != nil && w != "" {
					words = append(words, fmt.Sprintf("`%v`", w))
				}
			}
			return strings.Join(words, " ")
		case strings.Contains(pattern, "KMGT"):
			return "size"
		case strings.Contains(pattern, "ms"):
			return "time"
		case strings.HasSuffix(pattern, "%$"):
			return "percent"
		}
		switch a.text("type") {
		case "boolean":
			return "true, false"
		case "integer", "number":
			return "number"
		case "object":
			return "keys"
		default:
			return "text"
		}
	}
	return ""
}

// keyRows writes the table rows for an object's keys. It writes nested keys with dots.
func keyRows(b *strings.Builder, s part, prefix string) {
	for _, a := range s.alternatives() {
		for _, e := range a.sub("properties") {
			key := part(e.Value.(yaml.MapSlice))
			if key.get("$ref") != nil { // an option of fio
				continue
			}
			name := prefix + fmt.Sprint(e.Key)
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, key.values(), key.text("default"), key.text("description"))
			keyRows(b, key, name+".")
		}
	}
}

// keysPage generates the text of docs/reference/plan-keys.md from the schema.
func keysPage(t *testing.T) string {
	text, err := schema.Of(realKinds())
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &root, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	all := part(root)
	const head = "| key | values | default | meaning |\n|---|---|---|---|\n"
	var b strings.Builder
	b.WriteString("# Keys of plan files\n\nEvery key of every kind. The grammar is on [another page](plan.md). " +
		"A list of values where one is expected is an [axis](plan.md#axes).\n`iotax schema` prints the same as a JSON Schema. " +
		"`go test ./internal/plan -run TestKeysPage -update` makes this page.\n\n## The file\n\n" + head)
	for _, e := range all.sub("properties") {
		fmt.Fprintf(&b, "| `%v` | | | %s |\n", e.Key, part(e.Value.(yaml.MapSlice)).text("description"))
	}
	b.WriteString("\n## measure\n\n" + head)
	keyRows(&b, all.sub("properties").sub("measure"), "")
	for _, section := range []string{"machine", "target", "workload"} {
		title := strings.ToUpper(section[:1]) + section[1:] + "s"
		fmt.Fprintf(&b, "\n## %s\n\nKeys of every %s, next to the one of its kind:\n\n%s", title, section, head)
		entry := all.sub("$defs").sub(section)
		var kinds []string
		for _, e := range entry.sub("properties") {
			if key := part(e.Value.(yaml.MapSlice)); key.get("$ref") == nil {
				fmt.Fprintf(&b, "| `%v` | | | %s |\n", e.Key, key.text("description"))
			} else if e.Key != "fake" { // the kind fake exists only for tests
				kinds = append(kinds, fmt.Sprint(e.Key))
			}
		}
		for _, kind := range kinds {
			spec := all.sub("$defs").sub(section + "." + kind)
			doc := ""
			for _, a := range append(spec.alternatives(), spec) {
				if doc == "" {
					doc = a.text("description")
				}
			}
			if doc == "" {
				doc = entry.sub("properties").sub(kind).text("description")
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s.\n", kind, strings.ToUpper(doc[:1])+doc[1:])
			var rows strings.Builder
			keyRows(&rows, spec, "")
			if rows.Len() > 0 {
				b.WriteString("\n" + head + rows.String())
			}
			if kind == "fio" {
				b.WriteString("\nEvery option of fio is a key too, by fio's own name.\n")
			}
		}
	}
	return b.String()
}

// docs/reference/plan-keys.md matches the kinds.
func TestKeysPage(t *testing.T) {
	const file = "../../docs/reference/plan-keys.md"
	text := keysPage(t)
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != text {
		t.Errorf("docs/reference/plan-keys.md differs from the kinds; run go test ./internal/plan -run TestKeysPage -update (%v)", err)
	}
}
