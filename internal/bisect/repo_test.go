package bisect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// history creates a repository with n commits, one a day, and returns the commits from oldest to newest.
func history(t *testing.T, n int) (Repo, []string) {
	t.Helper()
	dir := t.TempDir()
	var script strings.Builder
	for i := range n {
		fmt.Fprintf(&script, "commit refs/heads/master\nmark :%d\ncommitter t <t@example.org> %d +0000\ndata 1\nx\n", i+1, 1735689600+86400*i)
		if i > 0 {
			fmt.Fprintf(&script, "from :%d\n", i)
		}
		text := fmt.Sprint(i)
		fmt.Fprintf(&script, "M 100644 inline number\ndata %d\n%s\n", len(text), text)
	}
	for _, c := range []*exec.Cmd{exec.Command("git", "init", "-q", "-b", "master", dir), exec.Command("git", "-C", dir, "fast-import", "--quiet")} {
		if c.Args[1] == "-C" {
			c.Stdin = strings.NewReader(script.String())
		}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c.Args, err, out)
		}
	}
	repo := Repo{Dir: dir}
	all, err := repo.git(t.Context(), "rev-list", "--reverse", "master")
	if err != nil {
		t.Fatal(err)
	}
	return repo, strings.Fields(all)
}

// In at least 38 of 40 studies, bisect finds a slowdown of 8 % that begins at the 38th of 64 commits, with noise of
// 10 %. In at least 38 of 40 studies without a slowdown, it reports no slow commit. Each study is interrupted once and
// continues from the saved state.
func TestRepository(t *testing.T) {
	repo, commits := history(t, 64)
	random := rand.New(rand.NewPCG(7, 21))
	for _, slowdown := range []float64{0.08, 0} {
		var s score
		for range 40 {
			w := &world{versions: commits, planted: 37, slowdown: slowdown, noise: func() float64 { return 0.1 * random.NormFloat64() }}
			search := w.search()
			search.Left = repo.Left
			measure, stop := search.Measure, errors.New("killed")
			search.Measure = func(ctx context.Context, version, id string, enough func([]float64) string) error {
				n := 0
				err := measure(ctx, version, id, func(d []float64) string {
					if n++; n == 5 && stop != nil && (len(w.saved.Steps) == 3 || slowdown == 0) { // with a slowdown, only in the third step
						return "killed"
					}
					return enough(d)
				})
				if err == nil && n == 5 && stop != nil {
					err, stop = stop, nil
				}
				return err
			}
			if _, err := search.Run(t.Context()); err == nil || err.Error() != "killed" {
				t.Fatalf("not interrupted: %v", err)
			}
			state := w.saved
			next := &Search{Deps: search.Deps, State: &state, Margin: search.Margin, Least: search.Least, Most: search.Most}
			r, err := next.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.add(w, r)
		}
		t.Logf("%2.0f %%: %s", 100*slowdown, s)
		if s.right < 38 {
			t.Errorf("slowdown %v: %s", slowdown, s)
		}
	}
}

// bisect skips versions that cannot be built. It lists those that may be the first slow version as suspects.
func TestSkipped(t *testing.T) {
	for _, c := range []struct {
		broken   []string
		suspects []string
	}{
		{[]string{"v31", "v47"}, nil},
		{[]string{"v36", "v35"}, []string{"v35", "v36"}},
		{[]string{"v37"}, []string{"v37"}},
	} {
		w := &world{versions: versions(), planted: 37, slowdown: 0.5, noise: func() float64 { return 0.01 * rand.NormFloat64() }}
		s := w.search()
		s.Build = func(_ context.Context, version string) error {
			if slices.Contains(c.broken, version) {
				return &BuildError{errors.New("no compiler")}
			}
			return nil
		}
		r, err := s.Run(t.Context())
		slices.Sort(r.Suspects)
		first := "v37"
		if slices.Contains(c.broken, first) {
			first = "v38"
		}
		if err != nil || r.First != first || !slices.Equal(r.Suspects, c.suspects) {
			t.Errorf("without %v: %+v, %v", c.broken, r, err)
		}
	}
}

// A date selects the last commit up to the end of that day.
func TestCommitOfDate(t *testing.T) {
	repo, commits := history(t, 5) // one a day from 2025-01-01
	for revision, want := range map[string]int{"2025-01-03": 2, "HEAD~1": 3, "2030-01-01": 4} {
		if got, err := repo.Commit(t.Context(), revision); err != nil || got != commits[want] {
			t.Errorf("%s: %s, %v, want %s", revision, got, err, commits[want])
		}
	}
	for _, revision := range []string{"2024-12-31", "nothing"} {
		if got, err := repo.Commit(t.Context(), revision); err == nil {
			t.Errorf("%s: %s", revision, got)
		}
	}
}

// A build script runs in a checkout of its commit, and Clear removes everything. The error of a failed build contains
// the last line that the script printed. A missing script is not a BuildError.
func TestBuilder(t *testing.T) {
	repo, commits := history(t, 3)
	dir := t.TempDir()
	b := &Builder{Dir: dir, Script: []string{"sh", "-c", "cp number built && test $IOTAX_VERSION != " + commits[1] + " || { echo first; echo no compiler; exit 3; }"},
		Limit: time.Minute, Log: io.Discard, Checkout: repo.Checkout, Remove: repo.Remove}
	for range 2 {
		if err := b.Build(t.Context(), commits[2]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(b.Of(commits[2]), "built")); err != nil || string(got) != "2" {
		t.Errorf("built %q, %v", got, err)
	}
	var broken *BuildError
	if err := b.Build(t.Context(), commits[1]); !errors.As(err, &broken) || !strings.Contains(err.Error(), "exit status 3: no compiler") {
		t.Errorf("the broken build: %v", err)
	}
	if err := b.Clear(t.Context(), commits[2]); err != nil {
		t.Error(err)
	}
	left, _ := os.ReadDir(dir)
	trees, err := repo.git(t.Context(), "worktree", "list")
	if len(left) > 0 || err != nil || strings.Count(trees, "\n") > 0 {
		t.Errorf("left: %v, %s, %v", left, trees, err)
	}
	b.Script, b.Limit = []string{"sleep", "100"}, time.Millisecond
	if err := b.Build(t.Context(), commits[0]); !errors.As(err, &broken) || !strings.Contains(err.Error(), "no end within 1ms") {
		t.Errorf("a build that hangs: %v", err)
	}
	b.Script = []string{"/no/such/script"}
	if err := b.Build(t.Context(), commits[0]); err == nil || errors.As(err, new(*BuildError)) {
		t.Errorf("a script that is missing is no broken version: %v", err)
	}
}

// No name of a version makes a build remove files outside its own directory.
func TestBuildsStayApart(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "builds")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(parent, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := &Builder{Dir: dir, Script: []string{"sh", "-c", `echo "$IOTAX_VERSION" >built`}, Limit: time.Minute, Log: io.Discard}
	versions := []string{"a/b", "a_b", "a", "a.built", ".", "..", "../.."}
	for _, v := range versions {
		if err := b.Build(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range versions {
		if got, err := os.ReadFile(filepath.Join(b.Of(v), "built")); err != nil || string(got) != v+"\n" {
			t.Errorf("the build of %q has %q, %v", v, got, err)
		}
		if err := b.Clear(t.Context(), v); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
