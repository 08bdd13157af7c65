package rules

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
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"iotax"
)

var update = flag.Bool("update", false, "write docs/reference/rules.md and docs/reference/rules")

// index returns the text of docs/reference/rules.md.
func index() string {
	var b strings.Builder
	b.WriteString(`# Rules

What iotax checks. A finding is a footnote next to its number in the report, and under ` + "`findings`" + ` in JSON. It has the rule's id, its
severity, its subject (the run, a target, a workload, a cell or a trial), the evidence, and a hint. Each rule has a page, which
` + "`iotax lint --explain RULE`" + ` prints too. A hint leaves out what the job already follows. If the plan has a budget, hints with
` + "`--trial` and `--rounds`" + ` name the ` + "`--budget`" + ` that they need.

` + "`go test ./internal/rules -update`" + ` makes these pages from the registry in ` + "`internal/rules`" + `.

## Before a run

Mistakes in plans, job files and command lines. ` + "`iotax lint`" + ` and every run look for them. *error*: fio would stop, data would be lost, or
nothing would be measured. *info*: a note about something that may be intended.

| rule | severity | what is wrong |
|---|---|---|
`)
	for _, r := range All() {
		if r.In&BeforeRun != 0 {
			fmt.Fprintf(&b, "| [%s](rules/%s.md) | %s | %s |\n", r.ID, r.ID, r.Severity, r.Title)
		}
	}
	b.WriteString(`
## In and after a run

*error*: the number is invalid. It is printed, labelled, and not ranked. A rule that *discards* takes the trial, and so its round, out of
the result, and the round is measured again. Such a rule never reads the ratio of target to baseline.

| rule | severity | looks at | discards | what is wrong |
|---|---|---|---|---|
`)
	for _, r := range All() {
		discards := ""
		if r.Discards {
			discards = "yes"
		}
		if at := map[Where]string{Trial: "a trial", Run: "the run", Work: "the work itself", Report: "the verdict"}[r.In&DuringRun]; at != "" {
			fmt.Fprintf(&b, "| [%s](rules/%s.md) | %s | %s | %s | %s |\n", r.ID, r.ID, r.Severity, at, discards, r.Title)
		}
	}
	return b.String()
}

// pages returns docs/reference/rules.md and the page of every rule, by path below docs/reference.
func pages() map[string]string {
	all := map[string]string{"rules.md": index()}
	for _, r := range All() {
		all["rules/"+r.ID+".md"] = r.Page()
	}
	return all
}

func TestPages(t *testing.T) {
	const docs = "../../docs/reference/"
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
			t.Errorf("docs/reference/%s differs from the rules; run go test ./internal/rules -update (%v)", name, err)
		}
	}
	there, err := os.ReadDir(docs + "rules")
	if err != nil || len(there) != len(all)-1 {
		t.Errorf("docs/reference/rules has %d pages for %d rules; run go test ./internal/rules -update (%v)", len(there), len(all)-1, err)
	}
}

func TestRules(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, r := range All() {
		if !id.MatchString(r.ID) || seen[r.ID] {
			t.Errorf("id %q is not an id, or not the only one", r.ID)
		}
		seen[r.ID] = true
		if r.Severity == "" || r.In == 0 || r.Title == "" || !strings.HasSuffix(r.Why, ".") || r.Hint == "" || strings.HasSuffix(r.Hint, ".") {
			t.Errorf("%s: a field is missing: %+v", r.ID, r)
		}
		if !slices.Contains([]iotax.Severity{iotax.Info, iotax.Warning, iotax.Invalid}, r.Severity) {
			t.Errorf("%s: unknown severity %q", r.ID, r.Severity)
		}
		if during := r.In & DuringRun; during&(during-1) != 0 {
			t.Errorf("%s: docs/reference/rules.md has one column for what a rule looks at during a run", r.ID)
		}
		if got, ok := Explain(r.ID); !ok || !reflect.DeepEqual(got, r) {
			t.Errorf("Explain(%q) = %+v, %v", r.ID, got, ok)
		}
	}
	if _, ok := Explain("no-such-rule"); ok {
		t.Error("Explain found a rule that does not exist")
	}
	if !strings.Contains(LibaioBuffered.Page(), "```ini\n[read]\nioengine=libaio") {
		t.Error(LibaioBuffered.Page())
	}
}

func TestHints(t *testing.T) {
	r := Rule{ID: "x", Severity: iotax.Info, Hint: "resume RUN; use `--warm`; measure again"}
	for _, c := range []struct {
		name, want string
		rule       Rule
	}{
		{"page", "resume RUN; use `--warm`; measure again", r},
		{"fact", "resume r1; use `--warm`; measure again", r.With("RUN", "r1")},
		{"without a part", "resume RUN; measure again", r.Without("--warm", true)},
		{"a part that is not followed", "resume RUN; use `--warm`; measure again", r.Without("--warm", false)},
		{"only some parts", "resume RUN; measure again", r.Only("RUN", "again")},
		{"another hint", "free some space", r.Hinting("free some space")},
	} {
		if got := c.rule.Found(iotax.AboutRun(), "100 %% full").Hint; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got, want := r.FoundError(iotax.AboutTarget("disk"), "100 % full\n  hint: free some"), (iotax.Finding{Rule: "x", Severity: iotax.Info,
		Subject: iotax.Subject{Kind: iotax.SubjectTarget, Target: "disk"}, Evidence: "100 % full", Hint: "free some"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.FoundError(iotax.AboutRun(), "full"); got.Evidence != "full" || got.Hint != r.Hint {
		t.Errorf("%+v", got)
	}
}

// If a cell already has a setting that a hint recommends, the hint omits that part and keeps the others.
func TestHintFollowed(t *testing.T) {
	parts := 0
	for _, r := range All() {
		all := strings.Split(r.Hint, "; ")
		for i, part := range all {
			for _, s := range Settings(part) {
				parts++
				have := s.Value
				if _, most, ok := strings.Cut(s.Value, ".."); ok {
					have = most
				} else if s.Value == "" {
					have = "yes"
				}
				got := r.Given(Facts{s.Name: have}).Found(iotax.AboutRun(), "").Hint
				for k, other := range all {
					named := false
					for _, x := range Settings(other) {
						named = named || x.Name == s.Name && follows(have, x.Value)
					}
					if strings.Contains("; "+got+"; ", "; "+other+"; ") == named || k == i && !named {
						t.Errorf("%s: %s %s is followed, and the hint is %q", r.ID, s.Name, have, got)
					}
				}
				if got := r.Given(Facts{s.Name: "another"}).Hint; got != r.Hint {
					t.Errorf("%s: %s is not followed, and the hint is %q", r.ID, s.Name, got)
				}
			}
		}
	}
	if parts < 40 {
		t.Errorf("only %d settings in hints", parts)
	}
	for _, c := range []struct {
		have, want string
		followed   bool
	}{{"30s", "10s", true}, {"5s", "10s", false}, {"60", "12..60", true}, {"12", "12..60", false}, {"0", "1", false}, {"0", "0", true},
		{"1", "0", false}, {"6", "6", true}, {"none", "none", true}, {"unsafe", "none", false}, {"yes", "", true}, {"x", "", false}} {
		if follows(c.have, c.want) != c.followed {
			t.Errorf("%q follows %q: %v", c.have, c.want, !c.followed)
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, c := range []struct {
		s      iotax.Subject
		target string
		work   string
		want   bool
	}{
		{iotax.AboutRun(), "a", "w", true},
		{iotax.AboutTarget("a"), "a", "w", true},
		{iotax.AboutTarget("a"), "b", "w", false},
		{iotax.AboutWorkload("w"), "b", "w", true},
		{iotax.AboutWorkload("w"), "b", "v", false},
		{iotax.AboutCell("a", "w"), "a", "w", true},
		{iotax.AboutCell("a", "w"), "a", "v", false},
		{iotax.AboutCell("a", "w"), "b", "w", false},
		{iotax.AboutTrial(&iotax.Trial{Target: "a", Workload: "w"}), "b", "w", false},
	} {
		if got := c.s.Concerns(c.target, c.work); got != c.want {
			t.Errorf("%+v concerns %s / %s: %v", c.s, c.target, c.work, got)
		}
	}
}

// finding reports whether a type is iotax.Finding, or a slice or map of findings.
func finding(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		p, ok := e.X.(*ast.Ident)
		return ok && p.Name == "iotax" && e.Sel.Name == "Finding"
	case *ast.ArrayType:
		return finding(e.Elt)
	case *ast.MapType:
		return finding(e.Value)
	}
	return false
}

// built returns the positions at which a file builds a finding itself: by a literal with fields, or by setting the
// field Rule.
func built(fset *token.FileSet, file *ast.File) (at []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			_, one := n.Type.(*ast.SelectorExpr)
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && !one {
					e = kv.Value
				}
				if _, literal := e.(*ast.CompositeLit); finding(n.Type) && (one || literal) {
					at = append(at, fset.Position(e.Pos()).String())
				}
			}
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				if s, ok := l.(*ast.SelectorExpr); ok && s.Sel.Name == "Rule" {
					at = append(at, fset.Position(n.Pos()).String())
				}
			}
		}
		return true
	})
	return at
}

// selected returns the rule of a call such as rules.CacheServed.Without(word, true), or of a chain of such calls.
func selected(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CallExpr:
		return selected(e.Fun)
	case *ast.SelectorExpr:
		if p, ok := e.X.(*ast.Ident); ok && p.Name == "rules" {
			return e.Sel.Name
		}
		return selected(e.X)
	}
	return ""
}

// literal reports whether n compares the rule of a finding with a string literal.
func literal(n ast.Node) bool {
	b, ok := n.(*ast.BinaryExpr)
	if !ok || b.Op != token.EQL && b.Op != token.NEQ {
		return false
	}
	s, field := b.X.(*ast.SelectorExpr)
	_, text := b.Y.(*ast.BasicLit)
	return field && text && s.Sel.Name == "Rule"
}

// Only rules build findings. The words that callers remove from a hint, or replace in it, exist in the hint.
func TestOnlyRulesBuildFindings(t *testing.T) {
	byName := map[string]Rule{}
	for _, r := range All() {
		byName[strings.ReplaceAll(r.ID, "-", "")] = r
	}
	fset := token.NewFileSet()
	files, calls := 0, 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if rel := filepath.ToSlash(path); rel == "../../internal/testenv" || rel == "../../internal/rules" {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		for _, at := range built(fset, file) {
			t.Errorf("%s: this builds a finding: add the rule to internal/rules and call its Found", at)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal(n) {
				t.Errorf("%s: this writes the id of a rule again: compare with rules.NAME.ID", fset.Position(n.Pos()))
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Only" && s.Sel.Name != "Without" && s.Sel.Name != "With" {
				return true
			}
			r, known := byName[strings.ToLower(selected(s.X))]
			word, literal := call.Args[0].(*ast.BasicLit)
			if !known || !literal {
				return true
			}
			calls++
			if text, err := strconv.Unquote(word.Value); err != nil || !strings.Contains(r.Hint, text) {
				t.Errorf("%s: the hint of %s does not contain %s: %s", fset.Position(word.Pos()), r.ID, word.Value, r.Hint)
			}
			return true
		})
		return nil
	})
	if err != nil || files < 300 || calls < 15 {
		t.Errorf("%d files, %d calls that change a hint, %v", files, calls, err)
	}
}

// built detects each way to build a finding.
func TestBuiltFindingsAreSeen(t *testing.T) {
	for code, want := range map[string]int{
		`iotax.Finding{Rule: "x"}`:                                       1,
		`&iotax.Finding{Rule: "x"}`:                                      1,
		`[]iotax.Finding{{Rule: "x"}, {Rule: "y"}}`:                      2,
		`map[string]iotax.Finding{"a": {Rule: "x"}}`:                     1,
		`func() (f iotax.Finding) { f.Rule = "x"; return f }`:            1,
		`iotax.Finding{}`:                                                0,
		`[]iotax.Finding{rules.CacheServed.Found(iotax.AboutRun(), "")}`: 0,
		`[]Alarm{{Rule: "x"}}`:                                           0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\nvar _ = "+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := built(fset, file); len(got) != want {
			t.Errorf("%s: %q, want %d", code, got, want)
		}
	}
}

// Numbers in evidence have three digits and no exponent.
func TestNumbersInEvidence(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Number(1503), "1500"}, {Number(32.04), "32"}, {Number(0.00001234), "0.0000123"}, {Number(999.7), "1000"},
		{Percent(12.345), "1230 %"}, {Percent(0.1254), "12.5 %"}, {Seconds(0.9999), "1000 ms"}, {Seconds(7.25e-6), "7.25 µs"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
