package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGit(t *testing.T) {
	for _, files := range []int{1, 26, 1200} {
		r := Repository{Dir: filepath.Join(t.TempDir(), "w"), Files: files, Seed: 3}
		if _, err := makeRepository(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		out, err := doGit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		v, sum := values(out), 0.
		for _, s := range GitSteps {
			if v[s[0]+".duration"] <= 0 {
				t.Errorf("%v", v)
			}
			sum += v[s[0]+".duration"]
		}
		if v["duration"] < .999*sum || v["duration"] > 1.001*sum {
			t.Errorf("%v", v)
		}
		var used int64
		err = filepath.Walk(r.Dir, func(_ string, st os.FileInfo, err error) error {
			if err == nil {
				used += st.Size()
			}
			return err
		})
		if err != nil || used > r.Space() {
			t.Errorf("%d bytes, %d announced (%v)", used, r.Space(), err)
		}
	}
}

// If a file is lost, changed or added, a step or the verification at the end reports it.
func TestGitFindsDamage(t *testing.T) {
	r := Repository{Files: 100, Seed: 3}
	for name, c := range map[string]struct {
		harm func() error
		says string
	}{
		"lost":     {func() error { return os.Remove(tracked(r.path("main"), 7)) }, "status"},
		"shorter":  {func() error { return os.Truncate(tracked(r.path("main"), 7), 5) }, "has 5 bytes in place of"},
		"one more": {func() error { return os.WriteFile(tracked(r.path("main"), 7)+"x", nil, 0o600) }, "names are in the work tree"},
		"invented": {func() error { return os.WriteFile(r.path("main", "dir00", ".gitignore"), nil, 0o600) }, "was never created"},
		"no pack":  {func() error { return os.Remove(r.pack("main", 0)) }, "checkout"},
		"a lock":   {func() error { return os.WriteFile(r.path("main", ".git", "refs", "heads", "other.lock"), nil, 0o600) }, "commit"},
		"changed":  {func() error { return os.WriteFile(tracked(r.path("main"), 7), make([]byte, trackedSize), 0o600) }, "does not hold what was written"},
	} {
		t.Run(name, func(t *testing.T) {
			r.Dir = filepath.Join(t.TempDir(), "w")
			if _, err := makeRepository(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if err := c.harm(); err != nil {
				t.Fatal(err)
			}
			if _, err := doGit(t.Context(), r); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
