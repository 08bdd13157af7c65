package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"iotax/guest"
)

// programs are what the tests find in their PATH.
var programs = map[string]func(){"iotax": main}

func TestMain(m *testing.M) {
	if guest.IsInit() { // the test binary is what these tests put into their guests
		guest.Main()
		return
	}
	if strings.HasPrefix(filepath.Base(os.Args[0]), "iotax-") { // as iotax calls itself where it was brought to another machine
		main()
		return
	}
	testscript.Main(m, programs)
}

// setup gives every script a home of its own but the kernel cache of the machine: fetching and
// unpacking it for each would take minutes.
func setup(e *testscript.Env) error {
	e.Setenv("HOME", e.WorkDir+"/home")
	e.Setenv("XDG_STATE_HOME", e.WorkDir+"/state")
	e.Setenv("XDG_CACHE_HOME", cacheHome())
	e.Setenv("NO_COLOR", "1")
	return nil
}

func cacheHome() string {
	return strings.TrimSuffix(cacheDir(), "/iotax")
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: setup, Cmds: map[string]func(*testscript.TestScript, bool, []string){
		"leftovers": leftovers,
	}})
}

// leftovers fails when iotax left a directory behind in any of its arguments.
func leftovers(ts *testscript.TestScript, neg bool, args []string) {
	for _, dir := range args {
		entries, err := os.ReadDir(ts.MkAbs(dir))
		ts.Check(err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "iotax-") {
				ts.Fatalf("%s/%s was left behind", dir, e.Name())
			}
		}
	}
}

var (
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")
	fileBlock    = regexp.MustCompile("(?s)```(?:yaml|ini|text)\n[#;] (\\S+\\.\\w+)\n(.*?)```")
)

// TestReadme runs every `$ iotax …` line of the documents: each must succeed, or exit as the comment
// at its end says ("# exit 2"). Files that they name are blocks of the same document, whose first line is a
// comment with the name.
func TestReadme(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"README.md", "docs/coming-from-fio.md", "docs/reports.md"} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		var script strings.Builder
		n := 0
		for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
			for _, line := range strings.Split(block[1], "\n") {
				cmd, ok := strings.CutPrefix(line, "$ iotax ")
				if !ok {
					continue
				}
				n++
				neg := ""
				if i := strings.Index(cmd, "  # exit "); i >= 0 {
					cmd, neg = cmd[:i], "! "
				}
				script.WriteString(neg + "exec iotax " + cmd + "\n")
			}
		}
		if n == 0 {
			t.Errorf("%s has no `$ iotax` line", name)
		}
		for _, f := range fileBlock.FindAllStringSubmatch(string(text), -1) {
			script.WriteString("-- " + f[1] + " --\n" + f[2])
		}
		short := strings.ToLower(strings.TrimSuffix(filepath.Base(name), ".md"))
		if err := os.WriteFile(filepath.Join(dir, short+".txtar"), []byte(script.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{Dir: dir, Setup: setup})
}

// A plan that is wrong is the user's mistake, as wrong words are: exit status 2 says that nothing was measured.
func TestWrongPlanIsAMistake(t *testing.T) {
	for text, want := range map[string]int{
		"targets: {a: {dri: /tmp}}\nworkloads: {x: {fio: {rw: read}}}\n": exitUsage,
		"targets: {a: {dir: /tmp}}\nworkloads: {x: {fio: {rw: read}}}\n": exitOK,
	} {
		file := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Main(t.Context(), []string{"plan", file}, strings.NewReader(""), io.Discard, io.Discard); got != want {
			t.Errorf("%q: exit status %d, want %d", text, got, want)
		}
	}
}
