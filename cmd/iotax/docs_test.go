package main

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// generatedPages are pages of docs/reference that tests write and that userPages omits.
var generatedPages = []string{"rules.md", "fio-examples.md", "plan-keys.md", "cli.md", "environment.md"}

// userPages returns the pages for users by path. It omits the pages for contributors, recorded reports, the pages about
// rules, and generatedPages.
func userPages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(name string) error {
		text, err := os.ReadFile(filepath.Join("../..", name))
		all[filepath.ToSlash(name)] = string(text)
		return err
	}
	err := add("README.md")
	if err == nil {
		err = filepath.WalkDir("../../docs", func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"dev", "gallery", "rules"}, d.Name()):
				return filepath.SkipDir
			case d.IsDir() || filepath.Ext(name) != ".md" || slices.Contains(generatedPages, d.Name()):
				return nil
			}
			rel, err := filepath.Rel("../..", name)
			if err != nil {
				return err
			}
			return add(rel)
		})
	}
	if err != nil || len(all) < 40 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	return all
}

// shellWords splits a line as a shell does, without expansion, up to a comment or an operator.
func shellWords(line string) (words []string) {
	word, begun, quote := "", false, rune(0)
	end := func() {
		if begun {
			words = append(words, word)
		}
		word, begun = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ':
			end()
		case !begun && strings.ContainsRune("#|&;>", r):
			return words
		default:
			word, begun = word+string(r), true
		}
	}
	end()
	return words
}

var (
	shellBlock  = regexp.MustCompile("(?s)```sh\n(.*?)```")
	inlineLine  = regexp.MustCompile("`(?:sudo )?iotax ([^`]+)`")
	indented    = regexp.MustCompile(`(?m)^    (?:\$ )?(?:sudo )?iotax .*$`)
	anyCode     = regexp.MustCompile("(?s)```.*?```")
	placeholder = regexp.MustCompile(`[A-Z]{2,}|…`)
)

// Documented commands that are only printed, not run by a test, must have valid arguments and plans.
func TestDocumentedCommands(t *testing.T) {
	checked := 0
	for name, text := range userPages(t) {
		dir := t.TempDir()
		for _, f := range fileBlock.FindAllStringSubmatch(text, -1) {
			if filepath.Base(f[1]) != f[1] {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, f[1]), []byte(f[2]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		prose := anyCode.ReplaceAllString(text, "")
		for _, line := range indented.FindAllString(prose, -1) {
			t.Errorf("%s: %q is in no block that is tested: use one of sh, or console if it is to be run", name, line)
		}
		t.Chdir(dir)
		for _, m := range shellBlock.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", " ")) {
				words := shellWords(strings.TrimSpace(line))
				if len(words) > 0 && words[0] == "sudo" {
					words = words[1:]
				}
				if len(words) > 1 && words[0] == "iotax" {
					checked++
					checkCommand(t, name, words[1:], true)
				}
			}
		}
		for _, m := range inlineLine.FindAllStringSubmatch(prose, -1) {
			checked++
			checkCommand(t, name, shellWords(m[1]), !placeholder.MatchString(m[1]))
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were checked", checked)
	}
}

// checkCommand parses the flags of a command. For `run` and `plan` it also builds the plan, unless whole is false, the
// run is resumed, args are only flags, or the plan file does not exist. whole is false if args contain placeholders.
func checkCommand(t *testing.T, page string, args []string, whole bool) {
	t.Helper()
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	c, rest, err := root.Find(args)
	if err != nil || c == root && args[0] != "help" && !strings.HasPrefix(args[0], "-") {
		t.Errorf("%s: iotax %q: no such command (%v)", page, args, err)
		return
	}
	if err := c.ParseFlags(rest); err != nil && (whole || !strings.Contains(err.Error(), "invalid argument")) {
		t.Errorf("%s: iotax %q: %v", page, args, err)
		return
	}
	if !whole || !slices.Contains([]string{"run", "plan", "demo"}, c.Name()) || c.Flags().Changed("resume") || c.Name() == "demo" {
		return
	}
	planned := []string{"plan", "--yaml"}
	flags := (&app{}).planCommand().Flags()
	c.Flags().Visit(func(f *pflag.Flag) {
		switch list, ok := f.Value.(pflag.SliceValue); {
		case flags.Lookup(f.Name) == nil || f.Name == "yaml" || f.Name == "nodes": // --nodes would query a cluster
		case ok:
			for _, v := range list.GetSlice() {
				planned = append(planned, "--"+f.Name+"="+v)
			}
		default:
			planned = append(planned, "--"+f.Name+"="+f.Value.String())
		}
	})
	given := c.Flags().Args()
	at := len(given)
	if n := c.ArgsLenAtDash(); n >= 0 {
		at = n
	}
	if at > 0 && strings.HasSuffix(given[0], ".yaml") {
		if _, err := os.Stat(given[0]); err != nil { // a plan file that the reader writes
			return
		}
	}
	planned = append(planned, given[:at]...)
	if at < len(given) {
		planned = append(append(planned, "--"), given[at:]...)
	}
	var said strings.Builder
	if len(given) > 0 && Main(t.Context(), planned, strings.NewReader(""), io.Discard, &said) != exitOK {
		t.Errorf("%s: iotax %q: %s", page, args, &said)
	}
}

// Every command except version and completion is named on a page.
func TestDocumentsNameCommands(t *testing.T) {
	var text strings.Builder
	for _, page := range slices.Sorted(maps.Values(userPages(t))) {
		text.WriteString(page)
	}
	for _, c := range (&app{}).root().Commands() {
		plain := c.Name() == "version" || c.Name() == "completion"
		if c.IsAvailableCommand() && !plain && !strings.Contains(text.String(), "iotax "+c.Name()) {
			t.Errorf("no page names iotax %s", c.Name())
		}
	}
}
