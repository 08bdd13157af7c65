package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The steps of the installed git leave two clean work trees, and a lost object is found.
func TestRealGit(t *testing.T) {
	if v, err := gitVersion(t.Context(), struct{}{}); err != nil || !strings.HasPrefix(v, "git version ") {
		t.Fatalf("%q, %v", v, err)
	}
	r := Repository{Dir: filepath.Join(t.TempDir(), "w"), Files: 60, Seed: 3}
	for range 2 {
		if _, err := makeRealRepository(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		out, err := doRealGit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range GitSteps {
			if v := values(out)[s[0]+".duration"]; v <= 0 || v > values(out)["duration"] {
				t.Errorf("%s took %v", s[0], v)
			}
		}
	}
	if _, err := makeRealRepository(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(r.Dir, "main/.git/objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	if err := os.Chmod(packs[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(packs[0], 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := doRealGit(t.Context(), r); err == nil {
		t.Error("a shorter pack is not found")
	}
}
