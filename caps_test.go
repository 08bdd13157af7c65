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

// asserted lists the interfaces of this module that product code may use in type assertions, with the reason.
var asserted = map[string]string{
	"bind.Scalar": "the types of a spec's fields are met by reflection",
}

// Optional capabilities are fields of a struct such as MachineCaps. Product code does not detect them with a type
// assertion, because a wrapper would hide the asserted interface.
func TestNoOptionalInterfaces(t *testing.T) {
	interfaces, used := map[string]bool{}, map[string]bool{}
	type parsed struct {
		file *ast.File
		pkg  string
	}
	var product []parsed
	files := token.NewFileSet()
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
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		product = append(product, parsed{file, file.Name.Name})
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				if _, ok := s.Type.(*ast.InterfaceType); ok {
					interfaces[file.Name.Name+"."+s.Name.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range product {
		check := func(asked ast.Expr) {
			name := ""
			switch x := asked.(type) {
			case *ast.InterfaceType:
				if !unwraps(x) {
					t.Errorf("%s: an anonymous interface is asserted", files.Position(x.Pos()))
				}
				return
			case *ast.Ident:
				name = p.pkg + "." + x.Name
			case *ast.SelectorExpr:
				if pkg, ok := x.X.(*ast.Ident); ok {
					name = pkg.Name + "." + x.Sel.Name
				}
			}
			if used[name] = true; interfaces[name] && asserted[name] == "" {
				t.Errorf("%s: the interface %s is asserted: make it a field of a struct of capabilities", files.Position(asked.Pos()), name)
			}
		}
		ast.Inspect(p.file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.TypeAssertExpr:
				check(x.Type) // nil in a type switch
			case *ast.TypeSwitchStmt:
				for _, c := range x.Body.List {
					for _, asked := range c.(*ast.CaseClause).List {
						check(asked)
					}
				}
			}
			return true
		})
	}
	if !interfaces["iotax.Machine"] || !interfaces["bind.Spec"] {
		t.Error("the test sees little")
	}
	for name := range asserted {
		if !used[name] {
			t.Errorf("%s is no longer asserted: remove it from the list", name)
		}
	}
}

// unwraps reports whether Unwrap is the only method of x. A type assertion to such an interface is allowed, because
// package errors does not export the interface of joined errors.
func unwraps(x *ast.InterfaceType) bool {
	return len(x.Methods.List) == 1 && len(x.Methods.List[0].Names) == 1 && x.Methods.List[0].Names[0].Name == "Unwrap"
}
