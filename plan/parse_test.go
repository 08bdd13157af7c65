package plan

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with the file, which -update writes.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs\n--- got\n%s\n--- want\n%s", file, got, want)
	}
}

// Every file of testdata/errors is wrong, and its .txt is what the user reads.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Parse("plan.yaml", src, testKinds())
			if err == nil {
				y, _ := p.YAML()
				t.Fatalf("no error; the plan is\n%s", y)
			}
			var all Errors
			var one *Error
			if p != nil || !errors.As(err, &all) || !errors.As(err, &one) {
				t.Fatalf("plan %v, error %T", p, err)
			}
			for _, e := range all {
				if e.Pos.File != "plan.yaml" {
					t.Errorf("no file in %+v", e)
				}
				if e.Column > 0 && e.Column > utf8.RuneCountInString(e.Source)+1 {
					t.Errorf("column %d is outside of %q", e.Column, e.Source)
				}
			}
			if i := strings.IndexFunc(err.Error(), func(r rune) bool { return r < ' ' && r != '\n' || r == utf8.RuneError }); i >= 0 {
				t.Errorf("a control character in %q", err.Error()[i:])
			}
			golden(t, strings.TrimSuffix(f, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}
