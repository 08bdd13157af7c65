package iotax_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// unbounded lists the functions that may start a command without its own deadline, with the reason.
var unbounded = map[string]string{
	"internal/machine/qemu/vm.go:Start":               "the guest: its boot has a deadline, its end is Close",
	"internal/machine/qemu/virtiofsd.go:serve":        "a server: it must answer within a deadline, its end is Stop",
	"internal/guest/init_linux.go:runAlone":           "the guest's one purpose",
	"internal/guest/root_linux.go:changeRoot":         "the program that the guest is booted for",
	"cmd/iotax/lab.go:labExec":                        "the user's own command, on his terminal",
	"internal/rules/lint/input/here.go:Here":          "what cannot be found out is unknown, and not an error",
	"internal/rules/lint/input/here.go:holds":         "what cannot be found out is unknown, and not an error",
	"internal/agent/root.go:Exec":                     "functions of the agent run it, and who calls them has a deadline",
	"internal/generate/realgit.go:*":                  "functions of the agent run it, and a trial or a check has a deadline",
	"internal/machine/ssh/transport.go:Start":         "the connection: its caller ends it, and ssh a dead one",
	"internal/agent/enclose_linux.go:enclose":         "a session: it ends with its standard input",
	"internal/workload/fiojob/clients.go:runTogether": "a trial: the run ends it after measure.overrun",
}

// Functions that start a command on this host set a deadline, limit the captured output, and keep standard error,
// except those in `unbounded`.
func TestCommandsHaveDeadlines(t *testing.T) {
	used := map[string]bool{}
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata" || name == "testenv") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			at, calls := token.NoPos, map[string]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "exec" && (s.Sel.Name == "Command" || s.Sel.Name == "CommandContext") {
						at = n.Pos()
					}
					if s.Sel.Name == "Output" {
						if pkg, ok := s.X.(*ast.Ident); !ok || pkg.Name != "iotax" {
							calls["CombinedOutput"] = true
						}
					}
					calls[s.Sel.Name] = true
				}
				return true
			})
			if at == token.NoPos {
				continue
			}
			seen++
			name := filepath.ToSlash(path) + ":"
			for _, n := range []string{name + f.Name.Name, name + "*"} {
				if unbounded[n] != "" {
					used[n] = true
					name = ""
				}
			}
			if name == "" {
				continue
			}
			if calls["Command"] || !calls["WithTimeout"] && !calls["WithTimeoutCause"] {
				t.Errorf("%s: %s starts a command without a deadline", files.Position(at), f.Name.Name)
			}
			if calls["CombinedOutput"] {
				t.Errorf("%s: %s keeps all that its command prints: call iotax.ExecOutput", files.Position(at), f.Name.Name)
			}
			if !calls["Stderr"] && !calls["ExecOutput"] {
				t.Errorf("%s: %s drops what its command says on standard error", files.Position(at), f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < len(unbounded) {
		t.Errorf("only %d functions start commands", seen)
	}
	for n := range unbounded {
		if !used[n] {
			t.Errorf("%s starts no command any more", n)
		}
	}
}
