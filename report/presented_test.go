package report

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden compares what write writes with a file of testdata, or writes it there.
func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
		t.Errorf("differs from %s (go test -update writes it anew):\n%s", path, d)
	}
}

// text is the report at a width, for golden.
func (r *Report) text(width int) func(io.Writer) error {
	return func(w io.Writer) error { return r.Text(w, TextOptions{Width: width}) }
}

func TestGoldenLayers(t *testing.T) {
	r := New(layered())
	for name, write := range map[string]func(io.Writer) error{"layers-60.txt": r.text(60), "layers-80.txt": r.text(80), "layers-100.txt": r.text(100), "layers.md": r.Markdown, "layers.json": r.JSON} {
		t.Run(name, func(t *testing.T) { golden(t, name, write) })
	}
}
