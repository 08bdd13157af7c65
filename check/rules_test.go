package check

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/rules.md")

// page is docs/rules.md.
func page() string {
	var b strings.Builder
	b.WriteString(`# Rules

What iotax checks by itself. A finding stands beside the number it is about, as a footnote in the report and under ` + "`findings`" + ` in JSON;
it has the rule's id, its severity, what was seen, and what to do. *error* means that the number must not be quoted: it
is printed, labelled, and not ranked. A rule that *voids* takes the trial, and so its block, out of the result; the block is run again.
Such a rule never looks at the ratio of target to baseline.

This page is made from the list in ` + "`check/rules.go`" + ` by ` + "`go test ./check -update`" + `.

| rule | severity | looks at | voids | what is wrong |
|---|---|---|---|---|
`)
	scopes := map[Scope]string{OfTrial: "a trial", OfRun: "the run", OfRunning: "the work itself", OfReport: "the verdict"}
	for _, r := range Rules() {
		voids := ""
		if r.Void {
			voids = "yes"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s |\n", r.ID, r.ID, r.Severity, scopes[r.Scope], voids, r.Title)
	}
	for _, r := range Rules() {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n%s\n\n*Mend:* %s.\n", r.ID, upper(r.Title), r.Why, r.Mend)
	}
	return b.String()
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func TestPage(t *testing.T) {
	const file = "../docs/rules.md"
	if *update {
		if err := os.WriteFile(file, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page() {
		t.Error("docs/rules.md is not what the rules say; run go test ./check -update")
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
