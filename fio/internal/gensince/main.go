// Gensince writes in which version of fio each option appeared, as Go source. It reads the release tags
// of a clone of fio's repository: options.c and engines/*.c of each.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type option struct{ name, alias, typ, engine string }

// A form is how fio reads the value of an option.
type form struct {
	kind                     string
	time, seconds, pow2, any bool
	maxlen                   string
	values                   []string
}

var (
	optionStart = regexp.MustCompile(`(?m)^(?:\t| {8})\{\n`)
	kindOf      = regexp.MustCompile(`\.type\s*=\s*FIO_OPT_(\w+)`)
	nameOf      = regexp.MustCompile(`\.name\s*=\s*(?:\(char \*\) )?"([^"]+)"`)
	valueOf     = regexp.MustCompile(`\.ival\s*=\s*"([^"]+)"`)
	lengthOf    = regexp.MustCompile(`\.maxlen\s*=\s*(\w+)`)
)

// lengths are the constants of fio's source that bound lists and strings.
var lengths = map[string]string{"PATH_MAX": "4096", "FIO_IO_U_LIST_MAX_LEN": "20"}

// readForms adds the forms of the options in a file of fio's source. An option that it has already keeps its
// form and gets the values that this file adds.
func readForms(forms map[string]*form, engine, source string) {
	for _, text := range optionStart.Split(source, -1)[1:] {
		text, _, _ = strings.Cut(text, "\n\t},")
		name, kind := nameOf.FindStringSubmatch(text), kindOf.FindStringSubmatch(text)
		if name == nil || kind == nil || kind[1] == "UNSUPPORTED" || kind[1] == "INVALID" {
			continue
		}
		key := name[1]
		if engine != "" {
			key = engine + "/" + key
		}
		has := func(s string) bool { return regexp.MustCompile(`\.` + s + `\s*=`).MatchString(text) }
		f := forms[key]
		if f == nil {
			f = &form{kind: kind[1], time: has("is_time") || kind[1] == "STR_VAL_TIME", seconds: has("is_seconds"), pow2: has("pow2"), any: has("cb")}
			if m := lengthOf.FindStringSubmatch(text); m != nil {
				f.maxlen = m[1]
				if n, ok := lengths[m[1]]; ok {
					f.maxlen = n
				}
			}
			forms[key] = f
		}
		for _, m := range valueOf.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(f.values, m[1]) {
				f.values = append(f.values, m[1])
			}
		}
	}
}

// types are the words that fio's help has for them.
var types = map[string]string{
	"STR": "string", "STR_ULL": "string", "STR_MULTI": "string with possible k/m/g postfix", "STR_VAL": "string", "STR_VAL_TIME": "string with time postfix",
	"STR_STORE": "string", "RANGE": "one to three ranges", "INT": "integer value", "ULL": "integer value", "BOOL": "boolean value",
	"FLOAT_LIST": "list of floating point values separated by ':'", "STR_SET": "empty or boolean value",
}

// An option is a struct whose name and type stand within the same braces.
var block = regexp.MustCompile(`\.name\s*=\s*"([^"]+)",([^{}]*?)\.type\s*=\s*FIO_OPT_(\w+)([^{}]*)`)
var aliased = regexp.MustCompile(`\.alias\s*=\s*"([^"]+)"`)

// The options of other builds than the one in options_gen.go are those of this version and later ones.
const base = "3.33"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: gensince FIO-REPOSITORY FILE")
	}
	repo := os.Args[1]
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).Output()
		if err != nil {
			log.Fatalf("git %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	var versions []string
	for _, tag := range strings.Fields(git("tag", "--list", "fio-[23].*")) {
		versions = append(versions, strings.TrimPrefix(tag, "fio-"))
	}
	slices.SortFunc(versions, compare)
	since, late := map[string]string{}, map[string]option{}
	forms, engines := map[string]*form{}, map[string]string{}
	for i, v := range versions {
		tag := "fio-" + v
		files := []string{"options.c"}
		files = append(files, strings.Fields(git("ls-tree", "--name-only", tag, "engines/"))...)
		for _, file := range files {
			if !strings.HasSuffix(file, ".c") {
				continue
			}
			engine := ""
			if file != "options.c" {
				engine = strings.TrimSuffix(path.Base(file), ".c")
			}
			source := git("show", tag+":"+file)
			if _, tables, ok := strings.Cut(source, "struct ioengine_ops "); ok {
				for _, m := range nameOf.FindAllStringSubmatch(tables, -1) {
					engines[m[1]] = engine
				}
			}
			if compare(v, base) >= 0 {
				readForms(forms, engine, source)
			}
			for _, m := range block.FindAllStringSubmatch(source, -1) {
				o := option{name: m[1], typ: types[m[3]], engine: engine}
				if a := aliased.FindStringSubmatch(m[2] + m[4]); a != nil {
					o.alias = a[1]
				}
				for _, name := range []string{o.name, o.alias} {
					if _, seen := since[name]; !seen && name != "" {
						since[name] = v
						if i == 0 {
							since[name] = "" // it may be older
						}
					}
				}
				if _, seen := late[o.name]; !seen && compare(v, base) >= 0 && m[3] != "UNSUPPORTED" {
					late[o.name] = o
				}
			}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by gensince from fio's tags %s to %s; DO NOT EDIT.\n\npackage fio\n\n", versions[0], versions[len(versions)-1])
	fmt.Fprintf(&b, "// since has the version in which an option appeared, if that was after %s.\nvar since = map[string]string{\n", versions[0])
	for _, name := range slices.Sorted(maps.Keys(since)) {
		if since[name] != "" {
			fmt.Fprintf(&b, "%q: %q,\n", name, since[name])
		}
	}
	here, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[2]), "options_gen.go"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(&b, "}\n\n// elsewhere are options of fio %s and later that the fio behind options_gen.go does not have: other builds and\n// later versions do.\nvar elsewhere = []Option{\n", base)
	for _, name := range slices.Sorted(maps.Keys(late)) {
		o := late[name]
		if bytes.Contains(here, fmt.Appendf(nil, "{Name: %q,", name)) {
			continue
		}
		fmt.Fprintf(&b, "{Name: %q, Alias: %q, Type: %q, Engine: %q},\n", o.name, o.alias, o.typ, o.engine)
	}
	fmt.Fprintf(&b, "}\n\n// optionForms are how fio %s reads the value of each option, and the words that it or a later version takes in some\n// build. Options of an engine are named after the file in engines/ that has them.\nvar optionForms = map[string]form{\n", base)
	for _, key := range slices.Sorted(maps.Keys(forms)) {
		f := forms[key]
		fmt.Fprintf(&b, "%q: {kind: %q", key, f.kind)
		for _, flag := range []struct {
			name string
			on   bool
		}{{"time", f.time}, {"seconds", f.seconds}, {"pow2", f.pow2}, {"any", f.any && len(f.values) == 0}} {
			if flag.on {
				fmt.Fprintf(&b, ", %s: true", flag.name)
			}
		}
		if f.maxlen != "" {
			fmt.Fprintf(&b, ", length: %s", f.maxlen)
		}
		if len(f.values) > 0 {
			fmt.Fprintf(&b, ", values: %#v", f.values)
		}
		fmt.Fprintln(&b, "},")
	}
	fmt.Fprintf(&b, "}\n\n// engines are all engines that a version of fio had, with their files in engines/.\nvar engines = map[string]string{\n")
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		if name != "engine_name" { // of the example
			fmt.Fprintf(&b, "%q: %q,\n", name, engines[name])
		}
	}
	fmt.Fprintln(&b, "}")
	src, err := format.Source(b.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[2], src, 0o666); err != nil {
		log.Fatal(err)
	}
}

// compare orders versions by their numbers.
func compare(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		m, _ := strconv.Atoi(x)
		n, _ := strconv.Atoi(y)
		return m - n
	})
}
