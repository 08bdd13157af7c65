package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"iotax"
	"iotax/internal/store"
)

// Help fits a terminal of 80 columns. An error about the number of arguments shows the usage of the command.
func TestHelpFits(t *testing.T) {
	printed := func(args ...string) string {
		var b strings.Builder
		Main(t.Context(), args, nil, &b, &b)
		return b.String()
	}
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for line := range strings.Lines(printed(append(strings.Fields(c.CommandPath())[1:], "--help")...)) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each((&app{}).root())
	for want, args := range map[string][]string{
		"compare takes 2 arguments, not 1\n  hint: iotax compare A B":        {"compare", "a"},
		"rm takes at least 1 argument, not 0\n  hint: iotax rm RUN…":         {"rm"},
		"report takes at most 1 argument, not 2\n  hint: iotax report [RUN]": {"report", "a", "b"},
	} {
		if got := printed(args...); !strings.Contains(got, want) {
			t.Errorf("%v: %s", args, got)
		}
	}
}

// Every flag of run has a heading, and every command in the help belongs to a group.
func TestHelpIsGrouped(t *testing.T) {
	root := (&app{}).root()
	for _, c := range root.Commands() {
		if c.GroupID == "" && c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			t.Errorf("%s has no group", c.Name())
		}
		if c.Name() != "run" {
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if len(f.Annotations[groupAnnotation]) == 0 && f.Name != "help" && c.InheritedFlags().Lookup(f.Name) == nil {
				t.Errorf("--%s of run has no heading", f.Name)
			}
		})
	}
}

// The shell completes targets, workloads, formats, rules, statuses and runs.
func TestCompletion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	r := &iotax.Run{ID: "r1", Name: "first", Status: iotax.Done, Start: time.Now()}
	db, err := store.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"run", ""}, []string{"quick", "dir:", "qemu:", "ssh://"}},
		{[]string{"run", "/tmp", "q"}, []string{"qemu:"}},
		{[]string{"plan", "/tmp", "-w", "randread-4k,"}, []string{"randread-4k,seqread-1m", "randread-4k,command"}},
		{[]string{"run", "--calibrate", ""}, []string{"auto", "full", "no"}},
		{[]string{"report", "--format", ""}, []string{"text", "md", "html"}},
		{[]string{"report", "--layout", ""}, []string{"plain"}},
		{[]string{"lint", "--explain", ""}, []string{"libaio-buffered", "cache-served"}},
		{[]string{"list", "--status", ""}, []string{"running", "failed"}},
		{[]string{"doctor", ""}, []string{"quick"}},
		{[]string{"report", "--store=" + file, ""}, []string{"latest", "r1"}},
		{[]string{"compare", "--store=" + file, "r1", ""}, []string{"r1"}},
		{[]string{"clean", "--store=" + file, ""}, []string{"r1"}},
		{[]string{"import", "--store=" + file, "--run", ""}, []string{"r1"}},
		{[]string{"calibrate", ""}, []string{"dir:", "qemu:"}},
		{[]string{"calibrate", "-w", ""}, []string{"randread-4k"}},
		{[]string{"lint", ""}, []string{"quick"}},
		{[]string{"export", "--format", ""}, []string{"csv", "parquet"}},
	} {
		var out strings.Builder
		if code := Main(t.Context(), append([]string{"__completeNoDesc"}, c.args...), nil, &out, io.Discard); code != exitOK {
			t.Errorf("%q: exit status %d", c.args, code)
		}
		for _, w := range c.want {
			if !slices.Contains(strings.Split(out.String(), "\n"), w) {
				t.Errorf("%q: no %q in %s", c.args, w, &out)
			}
		}
	}
}

// The manual has pages for iotax and its commands.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	if code := Main(t.Context(), []string{"man", dir}, nil, io.Discard, io.Discard); code != exitOK {
		t.Fatal(code)
	}
	for page, want := range map[string][]string{
		"iotax.1":      {".SH EXIT STATUS", ".SH ENVIRONMENT", ".SH FILES", "IOTAX_STORE", "130"},
		"iotax-run.1":  {".SH EXIT STATUS", "trial"},
		"iotax-demo.1": {"demo"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s has no %q", page, w)
			}
		}
	}
}

// If a hint in `brought` begins with a flag, run has that flag. run has none of the flags that `brought` explains.
func TestBroughtFlags(t *testing.T) {
	flags := (&app{}).runCommand().Flags()
	for name, hint := range brought {
		if flags.Lookup(name) != nil {
			t.Errorf("run has --%s itself", name)
		}
		for _, f := range regexp.MustCompile(`^--([a-z-]+)`).FindAllStringSubmatch(hint, -1) {
			if flags.Lookup(f[1]) == nil && f[1] != "verbose" {
				t.Errorf("--%s: run has no --%s", name, f[1])
			}
		}
	}
}
