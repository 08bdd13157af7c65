package check

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"iotax/lint"
)

var update = flag.Bool("update", false, "write docs/rules.md and docs/rules")

// index is docs/rules.md.
func index() string {
	var b strings.Builder
	b.WriteString(`# Rules

What iotax checks by itself. A finding stands beside the number it is about, as a footnote in the report and under ` + "`findings`" + ` in JSON;
it has the rule's id, its severity, what was seen, and what to do. Each rule has a page, which ` + "`iotax lint --explain RULE`" + ` prints as well.

These pages are made from the lists in ` + "`check/rules.go`" + ` and in ` + "`lint/`" + ` by ` + "`go test ./check -update`" + `.

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

*error* means that the number must not be quoted: it is printed, labelled, and not ranked. A rule that *voids* takes the
trial, and so its block, out of the result; the block is run again. Such a rule never looks at the ratio of target to baseline.

| rule | severity | looks at | voids | what is wrong |
|---|---|---|---|---|
`)
	scopes := map[Scope]string{OfTrial: "a trial", OfRun: "the run", OfRunning: "the work itself", OfReport: "the verdict"}
	for _, r := range Rules() {
		voids := ""
		if r.Void {
			voids = "yes"
		}
		fmt.Fprintf(&b, "| [%s](rules/%s.md) | %s | %s | %s | %s |\n", r.ID, r.ID, r.Severity, scopes[r.Scope], voids, r.Title)
	}
	return b.String()
}

// pages are docs/rules.md and the page of every rule, by their path below docs.
func pages() map[string]string {
	all := map[string]string{"rules.md": index()}
	for _, r := range Rules() {
		all["rules/"+r.ID+".md"] = lint.Rule{ID: r.ID, Severity: r.Severity, Title: r.Title, Why: r.Why, Mend: r.Mend}.Page()
	}
	for _, r := range lint.Rules() { // a mistake that is seen on both sides of a run has one page
		all["rules/"+r.ID+".md"] = r.Page()
	}
	return all
}

func TestPages(t *testing.T) {
	const docs = "../docs/"
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
			t.Errorf("docs/%s is not what the rules say; run go test ./check -update (%v)", name, err)
		}
	}
	there, err := os.ReadDir(docs + "rules")
	if err != nil || len(there) != len(all)-1 {
		t.Errorf("docs/rules has %d pages for %d rules; run go test ./check -update (%v)", len(there), len(all)-1, err)
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
		if r.Severity == "" || r.Scope == "" || r.Title == "" || r.Why == "" || r.Mend == "" {
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
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
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
