package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestModules(t *testing.T) {
	for name, m := range map[string]Modules{
		"several": {Files: 1000, Workers: 4, Symlinks: true, Seed: 7},
		"one":     {Files: 1, Workers: 8, Symlinks: true},
		"no link": {Files: 61, Workers: 1},
	} {
		t.Run(name, func(t *testing.T) {
			m.Dir = filepath.Join(t.TempDir(), "w")
			if _, err := makeModules(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			out, err := doModules(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			v := values(out)
			if sum := v["find.duration"] + v["remove.duration"] + v["install.duration"]; sum <= 0 || v["duration"] < .999*sum || v["duration"] > 1.001*sum {
				t.Errorf("%v", v)
			}
			if _, err := os.Stat(filepath.Join(m.Dir, "old")); !os.IsNotExist(err) {
				t.Errorf("what was removed is there (%v)", err)
			}
			var used int64
			err = filepath.Walk(m.Dir, func(_ string, st os.FileInfo, err error) error {
				if err == nil {
					used += st.Size() + 4096
				}
				return err
			})
			if err != nil || 2*used > m.Space() {
				t.Errorf("%d bytes, %d announced (%v)", used, m.Space(), err)
			}
		})
	}
}

// A lost, changed or added file is reported.
func TestModulesFindDamage(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(top string) error
		says string
	}{
		"lost package": {func(top string) error { return os.RemoveAll(filepath.Join(top, "package-00003")) }, "lists 5 names in place of 6"},
		"lost file":    {func(top string) error { return os.Remove(filepath.Join(top, "package-00002", "file-000.js")) }, "bytes in place of"},
		"one more":     {func(top string) error { return os.Mkdir(filepath.Join(top, "package-00002", "more"), 0o700) }, "names are below"},
		"lost link":    {func(top string) error { return os.Remove(filepath.Join(top, ".bin", "package-00002")) }, "names are below"},
	} {
		t.Run(name, func(t *testing.T) {
			m := Modules{Dir: filepath.Join(t.TempDir(), "w"), Files: 150, Workers: 2, Symlinks: true}
			if _, err := makeModules(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if err := c.harm(filepath.Join(m.Dir, "old")); err != nil {
				t.Fatal(err)
			}
			if _, err := doModules(t.Context(), m); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
	m := Modules{Dir: filepath.Join(t.TempDir(), "w"), Files: 40, Workers: 2, Symlinks: true}
	if err := os.Mkdir(m.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	packs := m.packages()
	if _, err := m.install(t.Context(), "new", packs); err != nil {
		t.Fatal(err)
	}
	if err := m.verify(packs); err != nil {
		t.Error(err)
	}
	changed := filepath.Join(m.Dir, "new", packs[1].name, packs[1].files[2].path)
	if err := os.WriteFile(changed, make([]byte, packs[1].files[2].size), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.verify(packs); err == nil || !strings.Contains(err.Error(), "does not hold what was written") {
		t.Error(err)
	}
}
