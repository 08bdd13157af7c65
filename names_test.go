package iotax_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Names in names.go that contain a dot do not appear as literals in other product code. A single word such as
// "duration" may belong to another vocabulary (fio's or a plan's).
func TestNamesAreConstants(t *testing.T) {
	text := func(e ast.Expr) string {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, _ := strconv.Unquote(lit.Value)
			return s
		}
		return ""
	}
	files := token.NewFileSet()
	names, err := parser.ParseFile(files, "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	typed := map[[2]string]string{} // by type and name
	used := map[string]bool{}
	for _, d := range names.Decls {
		for _, s := range d.(*ast.GenDecl).Specs {
			if c, ok := s.(*ast.ValueSpec); ok {
				name := text(c.Values[0])
				kind := c.Type.(*ast.Ident).Name // a fact may have the same name as a value
				if was, twice := typed[[2]string{kind, name}]; name == "" || twice {
					t.Errorf("%s is %q, as %s", c.Names[0].Name, name, was)
				}
				typed[[2]string{kind, name}] = c.Names[0].Name
				constants[name] = c.Names[0].Name
			}
		}
	}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata" || name == "testenv") {
				return filepath.SkipDir
			}
			return nil
		}
		if path == "names.go" || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.Ident:
				used[n.Name] = true
			case *ast.BasicLit:
				if c := constants[text(n)]; c != "" && strings.Contains(text(n), ".") {
					t.Errorf("%v: write iotax.%s in place of %s", files.Position(n.Pos()), c, n.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range typed {
		if !used[c] {
			t.Errorf("nothing uses %s (%q)", c, name[1])
		}
	}
}
