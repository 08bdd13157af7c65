package generate

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// status makes as many calls of newfstatat and openat as the installed git: on the files, on the directories of each
// level, and on .gitignore.
func TestStatusIsGits(t *testing.T) {
	const traced = "IOTAX_TRACED"
	r := Repository{Dir: os.Getenv(traced), Files: 600, Seed: 1}
	if r.Dir != "" {
		if err := r.status(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	r.Dir = filepath.Join(t.TempDir(), "w")
	if _, err := makeRepository(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(t.TempDir(), "real")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", real, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range r.folders(real) {
		if err := mkdir(d); err != nil {
			t.Fatal(err)
		}
	}
	for i := range r.Files {
		if err := create(tracked(real, i), make([]byte, trackedSize)); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "all")
	// Make the files older than the index, because git rereads files that are not.
	if out, err := exec.Command("find", real, "-name", "*.go", "-exec", "touch", "-d", "2020-01-01", "{}", "+").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	git("status")
	counts := func(tree string, args ...string) map[string]int {
		t.Helper()
		log := filepath.Join(t.TempDir(), "strace")
		cmd := exec.Command("strace", append([]string{"-f", "-y", "-qq", "-e", "trace=newfstatat,openat", "-o", log}, args...)...)
		cmd.Dir, cmd.Env = tree, append(os.Environ(), traced+"="+r.Dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		got, call := map[string]int{}, regexp.MustCompile(`^\d+ +(\w+)\([^"]*"(?:[^"]*/)?(file\d+\.go|dir\d+|sub\d+|\.gitignore)/?"`)
		for line := range strings.Lines(string(b)) {
			if m := call.FindStringSubmatch(line); m != nil {
				got[m[1]+" "+regexp.MustCompile(`\d+`).ReplaceAllString(m[2], "")]++
			}
		}
		return got
	}
	want := counts(real, "git", "status")
	got := counts(r.Dir, os.Args[0], "-test.run=^TestStatusIsGits$")
	if d := cmp.Diff(want, got); d != "" || want["newfstatat file.go"] != r.Files {
		t.Errorf("calls (-git +status): %s\n%v", d, want)
	}
}
