package statsim

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The page matches the code: the test recomputes some rows of its tables.
func TestPage(t *testing.T) {
	b, err := os.ReadFile("../../docs/dev/evaluation.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	at := regexp.MustCompile("--studies ([0-9]+) --seed ([0-9]+)").FindStringSubmatch(page)
	if at == nil {
		t.Fatal("the page does not say how it was made")
	}
	studies, _ := strconv.Atoi(at[1])
	seed, _ := strconv.ParseUint(at[2], 10, 64)
	if studies < 10_000 {
		t.Errorf("the page has %d studies a cell", studies)
	}
	r := smoke(t, Options{Studies: studies, Seed: seed, Flagged: 1, Models: []string{"M0 σ=2%", "M6-shared-step", "L0"}, Policies: []string{Ours, "p50"}})
	table := regexp.MustCompile(`(?m)^\| M.*%\]|^\| L.*\]`) // the first percentile column, p50
	for _, row := range table.FindAllString(r.Markdown(), -1) {
		if strings.HasPrefix(row, "| M0 σ=20%") {
			continue
		}
		if !strings.Contains(page, row) {
			t.Errorf("the page lacks %q: make it again with go run ./cmd/iotax-statsim --studies %d --seed %d --out docs/dev/evaluation.md", row, studies, seed)
		}
	}
	for _, m := range Models() {
		if !strings.Contains(page, "| "+m.Name) {
			t.Errorf("the page lacks %s", m.Name)
		}
	}
	if strings.Contains(page, "NaN") {
		t.Error("the page has a NaN")
	}
}
