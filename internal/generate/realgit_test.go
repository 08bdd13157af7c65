package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In a git hook, environment variables name the hook's repository. The steps must not change it.
func TestRealGitInAHook(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine", ".git")
	for name, value := range map[string]string{"GIT_DIR": mine, "GIT_WORK_TREE": filepath.Dir(mine), "GIT_INDEX_FILE": filepath.Join(mine, "index")} {
		t.Setenv(name, value)
	}
	r := Repository{Dir: filepath.Join(t.TempDir(), "w"), Files: 20, Seed: 3}
	_, err := makeRealRepository(t.Context(), r)
	if err == nil {
		_, err = doRealGit(t.Context(), r)
	}
	if _, lookErr := os.Stat(mine); err != nil || lookErr == nil {
		t.Errorf("git wrote to the repository of the hook, or failed: %v", err)
	}
}

// The steps of the installed git leave two clean work trees. A damaged pack is found.
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
