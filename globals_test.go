package iotax_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// globalState lists the package variables that functions may change, with the reason.
var globalState = map[string]string{
	"cmd/iotax.undoing":              "whether a signal ends the process at once",
	"internal/agent.callerID":        "set once, when the program starts",
	"internal/agent.functions":       "filled before main begins",
	"internal/agent.host":            "set once, when the program starts",
	"internal/machine/node.borrowed": "labs of this host, with the number of their users",
	"internal/machine/vm.pinned":     "guests to which this process leaves CPUs",
	"internal/volume.holds":          "devices of this host, which a process can open exclusively only once",
}

// Functions assign only to the package variables in globalState, because two runs in one process would share any other
// variable.
func TestNoGlobalState(t *testing.T) {
	files := token.NewFileSet()
	packages := map[string][]*ast.File{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata" || d.Name() == "bin" || path == filepath.Join("internal", "testenv")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		packages[filepath.ToSlash(filepath.Dir(path))] = append(packages[filepath.ToSlash(filepath.Dir(path))], f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for dir, parsed := range packages {
		for name, at := range changed(parsed) {
			seen = append(seen, dir+"."+name)
			if globalState[dir+"."+name] == "" {
				t.Errorf("%s: a function changes the variable %s of the package %s: two runs in one process would share it", files.Position(at), name, dir)
			}
		}
	}
	for name := range globalState {
		if !slices.Contains(seen, name) {
			t.Errorf("no function changes %s any more: remove it from globalState", name)
		}
	}
}

// changed returns the package variables that functions assign to, directly or through a field, an element or a pointer.
// The values are the positions of assignments.
func changed(parsed []*ast.File) map[string]token.Pos {
	globals := map[string]*ast.ValueSpec{}
	for _, f := range parsed {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, s := range g.Specs {
					for _, name := range s.(*ast.ValueSpec).Names {
						globals[name.Name] = s.(*ast.ValueSpec)
					}
				}
			}
		}
	}
	out := map[string]token.Pos{}
	assigned := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.SelectorExpr:
				e = x.X
			case *ast.IndexExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			case *ast.Ident:
				// The parser resolves names within a file. A name from another file has no object.
				spec := globals[x.Name]
				if spec != nil && (x.Obj == nil || x.Obj.Decl == spec) {
					out[x.Name] = x.Pos()
				}
				return
			default:
				return
			}
		}
	}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						assigned(e)
					}
				}
			case *ast.IncDecStmt:
				assigned(n.X)
			}
			return true
		})
	}
	return out
}
