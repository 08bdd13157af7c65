// Command fiotables writes fio/tables.json: the options of the installed fio, and the options of other versions
// and builds, from a clone of fio's repository.
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

type option struct {
	Name                string
	Alias, Type, Engine string   `json:",omitempty"`
	Min, Max            float64  `json:",omitempty"`
	Values              []string `json:",omitempty"`
	Default             string   `json:",omitempty"`
}

// tables is the JSON that package fio reads.
type tables struct {
	Fio       string            // the latest version in fio's repository
	Options   []option          // options of the installed fio
	Elsewhere []option          // options of other builds and later versions
	Since     map[string]string // the version that introduced an option; options of the oldest fio 2 are omitted
	// Forms describes how fio reads the value of each option, in version 3.33 or the first later version that has the
	// option. It lists the values that 3.33 or any later version accepts in some build. The key of an engine's option
	// starts with the name of its file in engines/.
	Forms   map[string]*form
	Engines map[string]string // by engine name: the name of its file in engines/, without .c; from all versions of fio 2 and 3
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: fiotables FIO-REPOSITORY FILE")
	}
	var have []option
	for _, name := range names(fio("--cmdhelp=all")) {
		have = append(have, read(name, "", fio("--cmdhelp="+name)))
	}
	for _, engine := range strings.Fields(fio("--enghelp"))[3:] {
		for _, name := range names(fio("--enghelp=" + engine)) {
			have = append(have, read(name, engine, fio("--enghelp="+engine+","+name)))
		}
	}
	t := versions(os.Args[1], have)
	t.Options = have
	b, err := json.Marshal(t)
	if err != nil {
		log.Fatal(err)
	}
	b = entry.ReplaceAll(b, []byte("$1\n$2")) // one entry per line
	if err := os.WriteFile(os.Args[2], append(bytes.TrimSpace(b), '\n'), 0o666); err != nil {
		log.Fatal(err)
	}
}

// entry matches the end of a table entry and the start of the next.
var entry = regexp.MustCompile(`([}"],|[\[{])(\{"Name"|"[a-z0-9][\w/-]*":[{"])`)

// fio returns the output of the installed fio. Help exits with status 1, so only missing output is an error.
func fio(args ...string) string {
	out, err := exec.Command("fio", args...).Output()
	if len(out) == 0 {
		log.Fatalf("fio %s: no output: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

var listed = regexp.MustCompile(`(?m)^ *([a-z][a-z0-9_-]*) *:`)

func names(help string) []string {
	var out []string
	for _, m := range listed.FindAllStringSubmatch(help, -1) {
		out = append(out, m[1])
	}
	return out
}

func read(name, engine, help string) option {
	field := func(key string) string {
		m := regexp.MustCompile(`(?m)^ *` + key + `: (.*)$`).FindStringSubmatch(help)
		if m == nil {
			return ""
		}
		return strings.TrimSpace(m[1])
	}
	typ, _, _ := strings.Cut(field("type"), " (")
	if strings.HasPrefix(typ, "(") {
		typ = ""
	}
	o := option{Name: name, Alias: field("alias"), Type: typ, Engine: engine}
	if d := field("default"); d != "no default" {
		o.Default = d
	}
	if m := regexp.MustCompile(`range: min=(-?[0-9.]+)(?:, max=(-?[0-9.]+))?`).FindStringSubmatch(help); m != nil {
		o.Min, _ = strconv.ParseFloat(m[1], 64)
		o.Max, _ = strconv.ParseFloat(orZero(m[2]), 64)
	}
	if _, list, ok := strings.Cut(help, "valid values: "); ok {
		for i, l := range strings.Split(list, "\n") {
			rest, more := strings.CutPrefix(strings.TrimLeft(l, " "), ": ")
			if i > 0 && !more {
				break
			}
			if f := strings.Fields(rest); len(f) > 0 {
				o.Values = append(o.Values, f[0])
			}
		}
	}
	return o
}

func orZero(s string) string {
	if s == "" || s == "-1" {
		return "0"
	}
	return s
}
