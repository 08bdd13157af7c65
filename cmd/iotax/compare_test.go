package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestWorkflow runs two steps of docs/how-to/ci.md: Tools, with one and with both of the tools installed, and Compare,
// with two runs of which the second is worse.
func TestWorkflow(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n# .github/workflows/io.yml\n")
	text, _, found := strings.Cut(rest, "\n```")
	var flow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string } `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(text), &flow); err != nil || !found {
		t.Fatalf("the workflow is no YAML: %v", err)
	}
	steps := map[string]string{}
	for _, s := range flow.Jobs["io"].Steps {
		steps[s.Name] = s.Run
	}
	script, tools := steps["Compare"], steps["Tools"]
	if script == "" || tools == "" {
		t.Fatal("the workflow has no step Compare, or no step Tools")
	}
	dir := t.TempDir()
	files, err := txtar.ParseFile("testdata/script/compare.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files.Files {
		if name := map[string]string{"a.json": "base.json", "b.json": "head.json"}[f.Name]; name != "" {
			if err := os.WriteFile(filepath.Join(dir, name), f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	self, err := os.Executable() // if called as iotax, the test binary acts as iotax
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "iotax")); err != nil {
		t.Skip(err)
	}
	look := exec.Command("sh", "-e", "-c", tools)
	look.Env = []string{"PATH=" + dir}
	if out, err := look.CombinedOutput(); err == nil || !strings.Contains(string(out), "iotax") {
		t.Errorf("the step Tools finds iotax and no fio: %v, %s", err, out)
	}
	if err := os.Symlink(self, filepath.Join(dir, "fio")); err != nil {
		t.Fatal(err)
	}
	look = exec.Command("sh", "-e", "-c", tools)
	look.Env = []string{"PATH=" + dir}
	if out, err := look.CombinedOutput(); err != nil {
		t.Errorf("the step Tools finds iotax and fio: %v, %s", err, out)
	}
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitGate {
		t.Fatalf("the step ended with %v, want status %d:\n%s", err, exitGate, out)
	}
	summary, err := os.ReadFile(filepath.Join(dir, "summary"))
	if err != nil || !strings.Contains(string(summary), "**worse**") {
		t.Errorf("the summary does not say what is worse: %v\n%s", err, summary)
	}
}
