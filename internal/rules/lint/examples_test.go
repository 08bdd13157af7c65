package lint

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference/fio-examples.md")

// exampleDirs contains the directories of fio's example jobs: Debian's, and the one that scripts/need creates on
// machines without documentation.
var exampleDirs = []string{"/usr/share/doc/fio/examples", "../../../bin/fio-examples"}

const argued = "testdata/fio-examples.tsv"

// An argument explains why a finding is not a false alarm.
type argument struct{ verdict, why string }

// arguments parses testdata/fio-examples.tsv. The line "# sha256 SUM" contains the checksum of the examples. Other
// lines with # are comments. The remaining lines are "file TAB rule TAB verdict TAB why".
func arguments(t *testing.T) (sum string, all map[[2]string]argument) {
	t.Helper()
	text, err := os.ReadFile(argued)
	if err != nil {
		t.Fatal(err)
	}
	all = map[[2]string]argument{}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if s, ok := strings.CutPrefix(line, "# sha256 "); ok {
			sum = s
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 || !slices.Contains([]string{"slip", "true", "meant"}, f[2]) || f[3] == "" {
			t.Fatalf("%s:%d: %q", argued, i+1, line)
		}
		if _, twice := all[[2]string{f[0], f[1]}]; twice {
			t.Errorf("%s:%d: %s %s is argued twice", argued, i+1, f[0], f[1])
		}
		all[[2]string{f[0], f[1]}] = argument{f[2], f[3]}
	}
	return sum, all
}

// TestFioExamples lints every example job of fio. testdata/fio-examples.tsv must explain each finding.
// docs/reference/fio-examples.md is generated from the findings and these explanations.
func TestFioExamples(t *testing.T) {
	var files []string
	for _, dir := range exampleDirs {
		if files, _ = filepath.Glob(dir + "/*.fio"); len(files) > 0 {
			break
		}
	}
	if len(files) == 0 {
		t.Skip("the example jobs of fio are not here: scripts/need test fetches them")
	}
	sum, why := arguments(t)
	h := sha256.New()
	texts := map[string][]byte{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[f] = text
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(f), len(text), text)
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != sum {
		t.Skipf("these are other example jobs than those that were argued about: %s, not %s", got, sum)
	}

	var b strings.Builder
	rows, jobs, clean := 0, 0, 0
	used := map[[2]string]bool{}
	for _, f := range files {
		name := filepath.Base(f)
		fs, err := JobFile(name, func(string) ([]byte, error) { return texts[f], nil }, Facts{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		jobs++
		if len(fs) == 0 {
			clean++
		}
		for _, x := range fs {
			key := [2]string{name, x.Rule}
			a, ok := why[key]
			if !ok {
				t.Errorf("nobody argued about %s:%d: %s: %s", name, x.Line, x.Rule, x.Evidence)
				continue
			}
			used[key] = true
			rows++
			fmt.Fprintf(&b, "| %s:%d | [%s](rules/%s.md) | %s | %s | **%s**: %s |\n", name, x.Line, x.Rule, x.Rule, x.Severity, cell(x.Evidence), a.verdict, cell(a.why))
		}
	}
	for key := range why {
		if !used[key] {
			t.Errorf("%s: %s has no finding of %s any more", argued, key[0], key[1])
		}
	}
	page := fmt.Sprintf(examplesHead, jobs, rows, jobs-clean, clean) + b.String()
	const file = "../../../docs/reference/fio-examples.md"
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != page {
		t.Errorf("%s differs from what is found; run go test ./internal/rules/lint -update (%v)", file, err)
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

const examplesHead = `# fio's own example jobs under lint

What ` + "`iotax lint`" + ` finds in the %d job files that fio ships as examples (Debian's package fio-examples 3.33-3), without facts about the
machine that runs them, and why each of its %d findings is not a false alarm. %d files have findings, %d have none.

- **slip**: the example does not do what its comment describes.
- **true**: the numbers of this job mislead as numbers of the storage.
- **meant**: the job does so on purpose. If you copy it, keep that in mind.

` + "`go test ./internal/rules/lint -update`" + ` makes this page from the findings and from the arguments in
` + "`internal/rules/lint/" + argued + "`" + `.

| file | rule | severity | what was found | argument |
|---|---|---|---|---|
`
