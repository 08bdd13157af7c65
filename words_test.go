package iotax_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unwanted lists words that the project does not use, with their replacements.
var unwanted = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\bmend(s|ed|ing)?\b`), "hint, fix"},
	{regexp.MustCompile(`\b(told|tells?|telling|says?|said|saying)\b`), "report, show, print, record"},
	{regexp.MustCompile(`\b(stands?|stood|standing)\b`), "is on, depends on, means"},
	{regexp.MustCompile(`\brigs?\b`), "setup, test bed, machine"},
	{regexp.MustCompile(`\bbeside\b`), "reference (figures), next to"},
	{regexp.MustCompile(`\b(died|dead) runs?\b|\bruns? (that|which) (have |has )?died\b`), "crashed run"},
	{regexp.MustCompile(`\bvoid(s|ed)?\b`), "discarded"},
	{regexp.MustCompile(`\bkeeps [0-9.%a-z]+ % of\b`), "N× slower than"},
	{regexp.MustCompile(`\bnot to be quoted\b|\bcondemn(s|ed)?\b`), "invalid"},
	{regexp.MustCompile(`\bno loss is sure\b`), "no difference found yet"},
	{regexp.MustCompile(`\bnext to nothing\b`), "too noisy"},
	{regexp.MustCompile(`\b(go|goes|going|went|gone) on\b`), "continue, resume"},
	{regexp.MustCompile(`\bmateriali[sz]e[sd]?\b`), "hydrate, copy in"},
	{regexp.MustCompile(`\b(nobody|somebody|whoever)\b`), "another process, another user, the caller"},
	{regexp.MustCompile(`\b(is|are|was|were) none\b`), "does not exist, is unknown"},
	{regexp.MustCompile(`(%[qvds]|this|which) is no (?:[^l]|l[^o])`), "is not a"}, // %q, %v, %d and %s occur in format strings; "is no longer" is allowed
}

// worded lists the directories whose Go files are checked. If the value is true, comments and strings are checked,
// otherwise only strings.
var worded = map[string]bool{
	"cmd/iotax":         true,
	"internal/plan":     false,
	"internal/report":   true,
	"internal/report/*": true,
}

// Comments, help and messages use plain words. The test skips test files and test data.
func TestPlainWords(t *testing.T) {
	found := 0
	for dir, comments := range worded {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, files, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			check := func(at token.Pos, text string) {
				found++
				for _, u := range unwanted {
					if word := u.pattern.FindString(strings.ToLower(text)); word != "" {
						t.Errorf("%v: %q: write %s: %s", set.Position(at), word, u.instead, strings.Join(strings.Fields(text), " "))
					}
				}
			}
			if comments {
				for _, group := range file.Comments {
					check(group.Pos(), group.Text())
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
					if text, err := strconv.Unquote(s.Value); err == nil && text != "materialise" { // a kind of workload, named after a study
						check(s.Pos(), text)
					}
				}
				return true
			})
		}
	}
	if found < 1000 {
		t.Errorf("only %d texts were checked", found)
	}
}
