package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"iotax/internal/testenv/long"
)

// tooFew matches a failed gate that had too few rounds for a verdict.
var tooFew = regexp.MustCompile(`failed: .*(few-trials|nothing could be compared)`)

// TestWorkflowAsPrinted runs the steps and the plan of docs/how-to/ci.md as printed, except the step Comment. The base
// and head branches are identical.
func TestWorkflowAsPrinted(t *testing.T) {
	long.Test(t)
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range fileBlock.FindAllStringSubmatch(string(page), -1) {
		files[f[1]] = f[2]
	}
	var flow struct {
		Jobs map[string]struct {
			Steps []struct {
				Name, Run string
				Directory string `yaml:"working-directory"`
			} `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(files[".github/workflows/io.yml"]), &flow); err != nil || files["bench/io.yaml"] == "" {
		t.Fatalf("the page has no workflow, or no plan: %v, %q", err, slices.Collect(maps.Keys(files)))
	}
	s := newStage(t)
	for _, branch := range []string{"base", "head"} { // where the page's actions/checkout puts them
		s.mkdir(branch + "/bench")
		s.write(branch+"/bench/io.yaml", files["bench/io.yaml"])
		s.write(branch+"/Makefile", "all:\n")
	}
	ran := 0
	for _, step := range flow.Jobs["io"].Steps {
		if step.Run == "" || step.Name == "Comment" { // Comment needs GitHub
			continue
		}
		ran++
		c := exec.CommandContext(t.Context(), "bash", "-e", "-c", step.Run)
		c.Dir = filepath.Join(s.dir, step.Directory)
		c.Env = append(os.Environ(), "GITHUB_STEP_SUMMARY="+s.path("summary"))
		for k, v := range s.env {
			c.Env = append(c.Env, k+"="+v)
		}
		out, err := c.CombinedOutput()
		t.Logf("%s:\n%s", step.Name, out)
		// Other work on this machine may make the two runs differ significantly.
		if gate := step.Name == "Compare" && c.ProcessState != nil && c.ProcessState.ExitCode() == exitGate; err != nil && !gate {
			t.Fatalf("%s: %v", step.Name, err)
		} else if report, _ := os.ReadFile(s.path("io.md")); gate && tooFew.Match(report) {
			t.Errorf("the plan's budget is too small for a verdict:\n%s", report)
		}
	}
	for name, want := range map[string]string{"io.md": "volume", "summary": "volume", "base.json": `"trials"`, "head.json": `"trials"`} {
		if b, err := os.ReadFile(s.path(name)); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s does not hold %q: %v", name, want, err)
		}
	}
	if ran != 4 {
		t.Errorf("%d steps were run, want the tools, two measurements and the comparison", ran)
	}
}
