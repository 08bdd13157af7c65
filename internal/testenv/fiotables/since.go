package main

import (
	"cmp"
	"log"
	"maps"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A form describes how fio reads the value of an option.
type form struct {
	Kind                     string
	Time, Seconds, Pow2, Any bool     `json:",omitempty"`
	Length                   int      `json:",omitempty"`
	Values                   []string `json:",omitempty"`
}

var (
	optionStart = regexp.MustCompile(`(?m)^(?:\t| {8})\{\n`)
	kindOf      = regexp.MustCompile(`\.type\s*=\s*FIO_OPT_(\w+)`)
	nameOf      = regexp.MustCompile(`\.name\s*=\s*(?:\(char \*\) )?"([^"]+)"`)
	valueOf     = regexp.MustCompile(`\.ival\s*=\s*"([^"]+)"`)
	lengthOf    = regexp.MustCompile(`\.maxlen\s*=\s*(\w+)`)
)

// lengths maps constants of fio's source, which limit lists and strings, to their values.
var lengths = map[string]int{"PATH_MAX": 4096, "FIO_IO_U_LIST_MAX_LEN": 20}

// readForms adds the forms of the options in a file of fio's source. If forms already contains an option, readForms
// only adds the new values.
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
			f = &form{Kind: kind[1], Time: has("is_time") || kind[1] == "STR_VAL_TIME", Seconds: has("is_seconds"), Pow2: has("pow2"), Any: has("cb")}
			if m := lengthOf.FindStringSubmatch(text); m != nil {
				n, err := strconv.Atoi(m[1])
				if f.Length = cmp.Or(lengths[m[1]], n); f.Length == 0 {
					log.Fatalf("%s: length %s: %v", key, m[1], err)
				}
			}
			forms[key] = f
		}
		for _, m := range valueOf.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(f.Values, m[1]) {
				f.Values = append(f.Values, m[1])
			}
		}
	}
}

// types maps fio's option types to the names that fio's help uses for them.
var types = map[string]string{
	"STR": "string", "STR_ULL": "string", "STR_MULTI": "string with possible k/m/g postfix", "STR_VAL": "string", "STR_VAL_TIME": "string with time postfix",
	"STR_STORE": "string", "RANGE": "one to three ranges", "INT": "integer value", "ULL": "integer value", "BOOL": "boolean value",
	"FLOAT_LIST": "list of floating point values separated by ':'", "STR_SET": "empty or boolean value",
}

// block matches an option: a name and a type within the same braces.
var block = regexp.MustCompile(`\.name\s*=\s*"([^"]+)",([^{}]*?)\.type\s*=\s*FIO_OPT_(\w+)([^{}]*)`)
var aliased = regexp.MustCompile(`\.alias\s*=\s*"([^"]+)"`)

// base is the oldest version in which `versions` looks for forms, and for options that the installed build lacks.
const base = "3.33"

// versions reads options.c and engines/*.c of each release tag of fio 2 and 3 in a clone of fio's repository. `have`
// contains the options of the installed fio. The result has no Options.
func versions(repo string, have []option) tables {
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
				o := option{Name: m[1], Type: types[m[3]], Engine: engine}
				if a := aliased.FindStringSubmatch(m[2] + m[4]); a != nil {
					o.Alias = a[1]
				}
				for _, name := range []string{o.Name, o.Alias} {
					if _, seen := since[name]; !seen && name != "" {
						since[name] = v
						if i == 0 {
							since[name] = "" // the option may be older
						}
					}
				}
				if _, seen := late[o.Name]; !seen && compare(v, base) >= 0 && m[3] != "UNSUPPORTED" {
					late[o.Name] = o
				}
			}
		}
	}
	t := tables{Fio: versions[len(versions)-1], Since: since, Forms: forms, Engines: engines}
	maps.DeleteFunc(since, func(_, v string) bool { return v == "" })
	delete(engines, "engine_name") // from the example engine
	for _, name := range slices.Sorted(maps.Keys(late)) {
		if !slices.ContainsFunc(have, func(o option) bool { return o.Name == name }) {
			t.Elsewhere = append(t.Elsewhere, late[name])
		}
	}
	for _, f := range forms {
		f.Any = f.Any && len(f.Values) == 0
	}
	return t
}

// compare compares versions number by number.
func compare(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		m, _ := strconv.Atoi(x)
		n, _ := strconv.Atoi(y)
		return m - n
	})
}
