package iotax_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fenced     = regexp.MustCompile("(?ms)^(```+)[^`\n]*\n.*?^```+$")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	inSource   = regexp.MustCompile("(?m)(?:^|[\\s\"'(`=]|\\.\\./)(docs/[\\w-]+(?:[/.][\\w-]+)*)")
)

// pages returns the text of the Markdown pages without code blocks, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := filepath.Glob("*.md")
	if err != nil || len(names) < 3 {
		t.Fatal(names, err)
	}
	err = filepath.WalkDir("docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = fenced.ReplaceAllString(string(text), "")
	}
	return all
}

// anchors returns the anchors of a page's headings, as GitHub generates them.
func anchors(text string) []string {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var out []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

// All relative links lead to existing files and headings. Every page in docs can be reached from docs/README.md.
func TestLinks(t *testing.T) {
	all := pages(t)
	reached := map[string]bool{}
	next := []string{"docs/README.md"}
	leads := map[string][]string{}
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(text, ""), -1) {
			to := m[1] + m[2]
			if strings.Contains(to, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(to, "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.FromSlash(target)); err != nil {
				t.Errorf("%s: %s does not exist", name, to)
				continue
			}
			if page, ok := all[target]; anchor != "" && (!ok || !slices.Contains(anchors(page), anchor)) {
				t.Errorf("%s: %s has no heading %s", name, target, anchor)
			}
			leads[name] = append(leads[name], target)
		}
	}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if !reached[name] {
			reached[name] = true
			next = append(next, leads[name]...)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			t.Errorf("%s cannot be reached from docs/README.md", name)
		}
	}
}

// Source files mention only documentation pages that exist.
func TestSourcesNamePages(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); name != "." && (n == ".git" || n == "bin" || n == "dist" || n == "docs" || n == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".tmpl", ".yaml", ".sh", "", ".md"}, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || len(text) > 1<<20 {
			return err
		}
		for _, m := range inSource.FindAllStringSubmatch(string(text), -1) {
			found++
			page := m[1]
			if strings.HasSuffix(page, "/nice.md") || page == "docs/interop/qmp-spec" { // an example in CONTRIBUTING.md, and a page of QEMU's documentation
				continue
			}
			if matches, err := filepath.Glob(page + "*"); err != nil || len(matches) == 0 {
				t.Errorf("%s names %s, which does not exist", name, page)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 30 {
		t.Errorf("only %d pages are named", found)
	}
}

// Pages for users use plain words. The test skips quoted program output and generated pages.
func TestPlainPages(t *testing.T) {
	quoted := regexp.MustCompile(`[Ss]tand-ins?|"[^"\n]*"|“[^”\n]*”|\[[^\]\n]*\]\([^)]*\)`)
	generated := regexp.MustCompile(`^docs/(dev|gallery)/|^docs/reference/(rules/|rules|fio-examples|plan-keys|cli|environment)`)
	checked := 0
	for name, text := range pages(t) {
		if generated.MatchString(name) || !strings.HasPrefix(name, "docs/") && name != "README.md" {
			continue
		}
		checked++
		for i, line := range strings.Split(quoted.ReplaceAllString(inlineCode.ReplaceAllString(text, ""), ""), "\n") {
			for _, u := range unwanted {
				if word := u.pattern.FindString(strings.ToLower(line)); word != "" {
					t.Errorf("%s: %q: write %s: %s (about line %d)", name, word, u.instead, line, i+1)
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d pages were checked", checked)
	}
}
