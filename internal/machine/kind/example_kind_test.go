package kind_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/machine/kind"
	"iotax/internal/plan"
	"iotax/internal/testenv/long"
	"iotax/internal/testenv/machinetest"
)

// CONTRIBUTING.md explains this kind step by step. TestContributing checks that the document contains the code of this
// file.

// [kind]

// Spec is the spec of kind nice: this host, with a lower priority than other programs.
type Spec struct {
	Level int `yaml:"level" doc:"niceness, from 0 to 19"`
}

// Traits returns the optional functions of the spec: none here. See plan.Traits.
func (s *Spec) Traits() plan.Traits { return plan.Traits{} }

// Validate checks constraints that the types of the fields do not express. The plan's error message shows the position
// of the field in a FieldError.
func (s *Spec) Validate() error {
	if s.Level < 0 || s.Level > 19 {
		return &plan.FieldError{Field: "level", Msg: fmt.Sprintf("%d is not a niceness", s.Level), Hint: "0 to 19"}
	}
	return nil
}

// Kind is kind nice; 10 is the default.
var Kind = kind.Of("nice", "this host, with other programs served first", Spec{Level: 10}, open).WithoutDevices()

func open(_ context.Context, s *Spec, o kind.Options) (iotax.Machine, error) {
	return &machine{host.Local(), o.Name, s.Level}, nil
}

// A machine is this host with its own Run.
type machine struct {
	iotax.Machine
	name  string
	level int
}

func (m *machine) String() string { return m.name }

// Run puts nice(1) before the command. It does not change *cmd, because callers use it again. An
// error names the command without nice.
func (m *machine) Run(ctx context.Context, cmd *iotax.Cmd) error {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return m.Machine.Run(ctx, cmd) // which returns the error
	}
	c := *cmd
	c.Args = append([]string{"nice", "-n", strconv.Itoa(m.level)}, cmd.Args...)
	err := m.Machine.Run(ctx, &c)
	var exit *iotax.ExitError
	if errors.As(err, &exit) {
		exit.Args = cmd.Args
	}
	return err
}

// [test]

func TestNice(t *testing.T) {
	machinetest.Run(t, func(t *testing.T) iotax.Machine {
		m, err := Kind.Open(t.Context(), &Spec{Level: 10}, kind.Options{Name: "nice"})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// [end]

func TestContributing(t *testing.T) {
	src, err := os.ReadFile("example_kind_test.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][2]string{{"[kind]", "[test]"}, {"[test]", "[end]"}} {
		_, code, _ := strings.Cut(string(src), "\n// "+part[0]+"\n\n")
		code, _, found := strings.Cut(code, "\n// "+part[1]+"\n")
		if !found || !strings.Contains(string(text), "```go\n"+code+"```") {
			t.Errorf("CONTRIBUTING.md does not show this:\n%s", code)
		}
	}
}

// A reader who follows CONTRIBUTING.md gets a kind that passes the tests.
func TestContributingFollowed(t *testing.T) {
	long.Test(t)
	t.Parallel()
	const root = "../../.."
	tree := t.TempDir()
	list := exec.Command("go", "list", "-f", `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}
{{end}}{{range .TestGoFiles}}{{$d}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}
{{end}}{{range .IgnoredGoFiles}}{{$d}}/{{.}}
{{end}}{{range .SFiles}}{{$d}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}
{{end}}`, "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	var docs []string
	err = filepath.WalkDir(filepath.Join(top, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			docs = append(docs, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	docs = append(docs, filepath.Join(top, "README.md"))
	for _, file := range slices.Concat(strings.Fields(string(out)), docs, []string{top + "/go.mod", top + "/go.sum"}) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(top, file)
		if err == nil {
			err = os.MkdirAll(filepath.Join(tree, filepath.Dir(rel)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(tree, rel), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	text, err := os.ReadFile(filepath.Join(top, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	// shown returns the code block of CONTRIBUTING.md that starts with `begin`.
	shown := func(begin string) string {
		for _, fence := range []string{"````", "```"} {
			for _, m := range regexp.MustCompile("(?ms)^"+fence+"(?:go|markdown)\n(.*?)^"+fence+"$").FindAllStringSubmatch(string(text), -1) {
				if strings.HasPrefix(strings.TrimSpace(m[1]), begin) {
					return m[1]
				}
			}
		}
		t.Errorf("CONTRIBUTING.md shows no block that begins %q", begin)
		return ""
	}
	edit := func(file, before, with string) {
		b, err := os.ReadFile(filepath.Join(tree, file))
		if err != nil || strings.Count(string(b), before) != 1 {
			t.Fatalf("%s has %d of %q: %v", file, strings.Count(string(b), before), before, err)
		}
		if err := os.WriteFile(filepath.Join(tree, file), []byte(strings.Replace(string(b), before, with, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write := func(file, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("internal/machine/nice/nice.go", "package nice\n\nimport (\n\t\"context\"\n\t\"errors\"\n\t\"fmt\"\n\t\"strconv\"\n\n\t\"iotax\"\n\t\"iotax/internal/machine/host\"\n\t\"iotax/internal/machine/kind\"\n\t\"iotax/internal/plan\"\n)\n\n"+shown("// Spec is the spec of kind nice"))
	write("internal/machine/nice/nice_test.go", "package nice\n\nimport (\n\t\"testing\"\n\n\t\"iotax\"\n\t\"iotax/internal/machine/kind\"\n\t\"iotax/internal/testenv/machinetest\"\n)\n\n"+shown("func TestNice"))
	write("docs/reference/machines/nice.md", shown("# `nice`"))
	edit("internal/machine/machine.go", "\t\tfake.Kind,\n", "\t\tfake.Kind,\n\t\tnice.Kind,\n")
	edit("internal/machine/machine.go", "\t\"iotax/internal/machine/node\"\n", "\t\"iotax/internal/machine/nice\"\n\t\"iotax/internal/machine/node\"\n")
	edit("imports_test.go", " machine/tool machine/fake\",\n", " machine/tool machine/fake machine/nice\",\n"+shown(`"machine/nice":`))
	edit("docs/reference/machines.md", "| [`node`]", shown("| [`nice`]")+"| [`node`]")
	edit("docs/dev/architecture.md", "| `internal/machine/node/` |", shown("| `internal/machine/nice/`")+"| `internal/machine/node/` |")

	test := exec.Command("go", "test", ".", "./internal/plan", "./internal/machine/nice", "-run", "TestImportsPointOneWay|TestMachinePages|TestRealKinds|TestNothing")
	test.Dir = tree
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
