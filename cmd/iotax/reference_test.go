package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md and docs/reference/environment.md")

const madeBy = "`go test ./cmd/iotax -run TestReferencePages -update`"

// helpOf returns the help of a command as a terminal of 80 columns shows it, apart from the flags that all commands have.
func helpOf(t *testing.T, args ...string) (own, common string) {
	t.Helper()
	var out strings.Builder
	if code := Main(t.Context(), append(args, "--help"), nil, &out, io.Discard); code != exitOK {
		t.Fatalf("%q: exit status %d", args, code)
	}
	own, common, _ = strings.Cut(out.String(), "\n"+groupGlobal+"\n")
	return strings.TrimRight(own, "\n"), common
}

// cliPage is docs/reference/cli.md.
func cliPage(t *testing.T) string {
	var b strings.Builder
	own, _ := helpOf(t)
	_, common := helpOf(t, "version")
	common = strings.TrimRight(strings.ReplaceAll(common, "for version", "for the command"), "\n")
	b.WriteString("# Commands\n\nThe help of every command. " + madeBy + " makes this page.\n")
	fmt.Fprintf(&b, "\n```text\n%s\n```\n\n## Flags of all commands\n\n```text\n%s\n```\n", own, common)
	var list func(c *cobra.Command, path ...string)
	list = func(c *cobra.Command, path ...string) {
		for _, s := range c.Commands() {
			if !s.IsAvailableCommand() || s.Name() == "help" || c.Name() == "completion" {
				continue
			}
			at := append(path[:len(path):len(path)], s.Name())
			own, _ := helpOf(t, at...)
			fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", strings.Join(at, " "), own)
			list(s, at...)
		}
	}
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	list(root)
	return b.String()
}

// environmentPage is docs/reference/environment.md.
func environmentPage() string {
	var b strings.Builder
	b.WriteString("# Exit status, environment and files\n\n`iotax help exit-status`, `environment` and `files` print this page.\n" +
		madeBy + " makes it.\n")
	for _, topic := range topics {
		fmt.Fprintf(&b, "\n## %s\n\n| | |\n|---|---|\n", topic.title)
		for _, e := range topic.entries {
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(e[0], ", ", "`, `"), strings.ReplaceAll(e[1], "|", `\|`))
		}
	}
	return b.String()
}

// The pages on commands, exit status, environment and files are what the program prints.
func TestReferencePages(t *testing.T) {
	for name, text := range map[string]string{"cli": cliPage(t), "environment": environmentPage()} {
		file := "../../docs/reference/" + name + ".md"
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("docs/reference/%s.md differs from the program; run %s (%v)", name, madeBy, err)
		}
	}
}
