package check

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"iotax/internal/lint"
)

var update = flag.Bool("update", false, "write docs/rules.md and docs/rules")

// index is docs/rules.md.
func index() string {
	var b strings.Builder
	b.WriteString(`# Rules

What iotax checks by itself. A finding stands beside the number it is about, as a footnote in the report and under ` + "`findings`" + ` in JSON;
it has the rule's id, its severity, what was seen, and what to do. Each rule has a page, which ` + "`iotax lint --explain RULE`" + ` prints as well. A finding gives the advice of its page, without the parts that the job already follows. Where a plan
has a budget, ` + "`--trial` and `--blocks`" + ` come with the ` + "`--budget`" + ` that they need.

These pages are made from the lists in ` + "`check/rules.go`" + ` and in ` + "`lint/`" + ` by ` + "`go test ./internal/check -update`" + `.

## Before a run

Mistakes in plans, job files and command lines, which ` + "`iotax lint`" + ` and every run look for. *error* means that fio would stop, or that
data would be lost or nothing measured; *info* is a note that may well be meant so.

| rule | severity | what is wrong |
|---|---|---|
`)
	for _, r := range lint.Rules() {
		fmt.Fprintf(&b, "| [%s](rules/%s.md) | %s | %s |\n", r.ID, r.ID, r.Severity, r.Title)
	}
	b.WriteString(`
## In and after a run

*error* means that the number must not be quoted: it is printed, labelled, and not ranked. A rule that *discards* takes the
trial, and so its block, out of the result; the block is run again. Such a rule never looks at the ratio of target to baseline.

| rule | severity | looks at | discards | what is wrong |
|---|---|---|---|---|
`)
	scopes := map[Scope]string{OfTrial: "a trial", OfRun: "the run", OfRunning: "the work itself", OfReport: "the verdict"}
	for _, r := range Rules() {
		discards := ""
		if r.Discarded {
			discards = "yes"
		}
		fmt.Fprintf(&b, "| [%s](rules/%s.md) | %s | %s | %s | %s |\n", r.ID, r.ID, r.Severity, scopes[r.Scope], discards, r.Title)
	}
	return b.String()
}

// pages are docs/rules.md and the page of every rule, by their path below docs.
func pages() map[string]string {
	all := map[string]string{"rules.md": index()}
	for _, r := range Rules() {
		all["rules/"+r.ID+".md"] = lint.Rule{ID: r.ID, Severity: r.Severity, Title: r.Title, Why: r.Why, Hint: r.Hint}.Page()
	}
	for _, r := range lint.Rules() { // a mistake that is seen on both sides of a run has one page
		all["rules/"+r.ID+".md"] = r.Page()
	}
	return all
}

func TestPages(t *testing.T) {
	const docs = "../../docs/"
	all := pages()
	if *update {
		if err := errors.Join(os.RemoveAll(docs+"rules"), os.MkdirAll(docs+"rules", 0o755)); err != nil {
			t.Fatal(err)
		}
		for name, text := range all {
			if err := os.WriteFile(docs+name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range all {
		if got, err := os.ReadFile(docs + name); err != nil || string(got) != text {
			t.Errorf("docs/%s is not what the rules say; run go test ./internal/check -update (%v)", name, err)
		}
	}
	there, err := os.ReadDir(docs + "rules")
	if err != nil || len(there) != len(all)-1 {
		t.Errorf("docs/rules has %d pages for %d rules; run go test ./internal/check -update (%v)", len(there), len(all)-1, err)
	}
}

func TestRules(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, r := range Rules() {
		if !id.MatchString(r.ID) || seen[r.ID] {
			t.Errorf("id %q is no id, or not the only one", r.ID)
		}
		seen[r.ID] = true
		if r.Severity == "" || r.Scope == "" || r.Title == "" || r.Why == "" || r.Hint == "" {
			t.Errorf("%s: something is not said: %+v", r.ID, r)
		}
	}
	if _, ok := Explain("no-such-rule"); ok {
		t.Error("a rule that is not there was explained")
	}
}

// Every rule that looks at results has a planted fault with a clean twin.
func TestEveryRuleIsTested(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range planted {
		tested[c.rule] = true
	}
	for _, c := range plantedRuns {
		tested[c.rule] = true
	}
	for _, r := range Rules() {
		if (r.Scope == OfTrial || r.Scope == OfRun) && !tested[r.ID] {
			t.Errorf("no test plants %s", r.ID)
		}
	}
}

// Every id that the program uses has its page.
func TestEveryIDIsExplained(t *testing.T) {
	literal := regexp.MustCompile(`\bRule:\s*"([^"]+)"`)
	n := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if strings.HasSuffix(filepath.Dir(path), "test") { // what tests share makes ids up
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range literal.FindAllSubmatch(text, -1) {
			n++
			if _, ok := Explain(string(m[1])); !ok {
				t.Errorf("%s uses the id %s: add it to the list in check/rules.go", path, m[1])
			}
		}
		return err
	})
	if err != nil || n < 10 {
		t.Errorf("%d ids found, %v", n, err)
	}
}

// ownHint are rules whose hint comes with the error that the finding is about, for the page cannot have it.
var ownHint = []string{"cell-not-measured", "target-not-opened", "trial-failed", "run-failed", "stopped-early", "engine-common"}

// Every finding gives the advice of its rule's page: all of it, or those of its parts (between semicolons) that apply. What the
// program fills in stands on the page in capital letters, or as an example. A page that advises nothing needs no hint.
func TestHintsAreThePages(t *testing.T) {
	pages := map[string]string{}
	for _, r := range Rules() {
		pages[r.ID] = r.Hint
	}
	for _, r := range lint.Rules() {
		if p, ok := pages[r.ID]; ok && p != r.Hint {
			t.Errorf("%s: %q here and %q in lint", r.ID, p, r.Hint)
		}
	}
	n := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test") {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			fields := map[string]ast.Expr{}
			if lit, ok := node.(*ast.CompositeLit); ok && isFinding(lit.Type) {
				for _, e := range lit.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if name, ok := kv.Key.(*ast.Ident); ok {
							fields[name.Name] = kv.Value
						}
					}
				}
			}
			if _, copied := fields["Hint"].(*ast.SelectorExpr); copied || fields["Rule"] == nil || fields["Evidence"] == nil && fields["Hint"] == nil {
				return true
			}
			id, ok := fields["Rule"].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: the rule of a finding is not written there", fset.Position(node.Pos()))
				return true
			}
			rule := strings.Trim(id.Value, `"`)
			page := pages[rule]
			n++
			hint := "" // a regular expression
			if given := fields["Hint"]; given != nil {
				hint = pattern(given)
			}
			idle := hint == "" && (strings.HasPrefix(page, "nothing") || strings.HasPrefix(page, "see the rule"))
			if !idle && !advises(page, hint) && !slices.Contains(ownHint, rule) {
				t.Errorf("%s: the hint of %s is %q, its page's %q", fset.Position(node.Pos()), rule, hint, page)
			}
			return true
		})
		return nil
	})
	if err != nil || n < 40 {
		t.Errorf("%d findings, %v", n, err)
	}
}

// isFinding reports whether a type, which an element of a list leaves out, may be iotax.Finding.
func isFinding(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return e == nil || ok && s.Sel.Name == "Finding"
}

// pattern is a regular expression for the strings that an expression gives.
func pattern(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return regexp.QuoteMeta(s)
	case *ast.BinaryExpr:
		return pattern(e.X) + pattern(e.Y)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			verbs := regexp.MustCompile(`%(\\.|[0-9])*[a-z]`)
			return strings.ReplaceAll(verbs.ReplaceAllString(strings.ReplaceAll(pattern(e.Args[0]), "%%", "\x00"), ".+"), "\x00", "%")
		}
		if n := len(e.Args); n > 0 { // a function that chooses from its last argument
			return pattern(e.Args[n-1])
		}
	}
	return ".+"
}

// advises reports whether a page's hint consists of the parts of a finding's, and perhaps of others.
func advises(page, hint string) bool {
	parts := strings.Split(page, "; ")
	for _, h := range strings.Split(hint, "; ") {
		i := slices.IndexFunc(parts, func(p string) bool { return h != ".+" && regexp.MustCompile("^"+h+"$").MatchString(p) })
		if i < 0 {
			return false
		}
		parts = parts[i+1:]
	}
	return true
}
