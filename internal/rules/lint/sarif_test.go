package lint

import (
	"encoding/json"
	"strings"
	"testing"

	"iotax"
)

// A SARIF file meets the requirements of code hosts: a version, a driver name, unique rule ids, a message for each
// result, matching indices, and valid levels and lines.
func TestSARIF(t *testing.T) {
	fs := lintText(t, "[a]\nioengine=libaio\niodepth=32\nfilename=nas:/x\nrw=randread\n", here)
	fs = append(fs, Finding{Finding: iotax.Finding{Rule: "of-another", Severity: iotax.Info, Evidence: "x", File: "command", Line: 3}})
	var b strings.Builder
	if err := SARIF(&b, "1.2.3", fs, func(f string) bool { return f != "command" }); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []struct {
			ColumnKind string
			Tool       struct {
				Driver struct {
					Name, Version string
					Rules         []struct {
						ID                                string
						ShortDescription, FullDescription struct{ Text string }
						Help                              struct{ Text, Markdown string }
						DefaultConfiguration              struct{ Level string }
					}
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex *int
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct {
							StartLine, StartColumn, EndColumn int
							Snippet                           struct{ Text string }
						}
					}
				}
			}
		}
	}
	d := json.NewDecoder(strings.NewReader(b.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || !strings.Contains(log.Schema, "sarif-2.1.0") || len(log.Runs) != 1 {
		t.Fatal(b.String())
	}
	run := log.Runs[0]
	levels := map[string]bool{"error": true, "warning": true, "note": true}
	seen := map[string]bool{}
	for _, r := range run.Tool.Driver.Rules {
		if r.ID == "" || seen[r.ID] || r.ShortDescription.Text == "" || r.FullDescription.Text == "" || r.Help.Text == "" || r.Help.Markdown == "" || !levels[r.DefaultConfiguration.Level] {
			t.Errorf("rule %+v", r)
		}
		seen[r.ID] = true
	}
	if run.Tool.Driver.Name != "iotax" || run.Tool.Driver.Version != "1.2.3" || len(run.Results) != len(fs) || len(fs) < 4 {
		t.Errorf("%d results of %d findings: %s", len(run.Results), len(fs), b.String())
	}
	for i, r := range run.Results {
		if r.RuleIndex == nil || run.Tool.Driver.Rules[*r.RuleIndex].ID != r.RuleID || r.RuleID != fs[i].Rule || !levels[r.Level] || r.Message.Text == "" {
			t.Errorf("result %+v", r)
		}
		if fs[i].File == "command" {
			if len(r.Locations) != 0 {
				t.Errorf("a location that is no file: %+v", r.Locations)
			}
			continue
		}
		p := r.Locations[0].PhysicalLocation
		if p.ArtifactLocation.URI != "x.fio" || p.Region.StartLine != fs[i].Line || p.Region.StartColumn != fs[i].Column || p.Region.EndColumn <= p.Region.StartColumn || p.Region.Snippet.Text == "" {
			t.Errorf("location %+v", p)
		}
	}
	b.Reset()
	if err := SARIF(&b, "1", nil, nil); err != nil || !strings.Contains(b.String(), `"results": []`) {
		t.Errorf("no findings: %s, %v", b.String(), err)
	}
	for path, want := range map[string]string{"a b/c.fio": "a%20b/c.fio", "/x/y.fio": "file:///x/y.fio", "./z:1.fio": "./z:1.fio"} {
		if got := artifactURI(path); got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
}
