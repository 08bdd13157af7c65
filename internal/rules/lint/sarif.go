package lint

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"iotax"
	"iotax/internal/rules"
)

// The part of SARIF 2.1.0 (OASIS) that findings need. Its libraries in Go write every field of the
// format, with placeholders for those that have no value.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
		FullDescription  sarifMessage `json:"fullDescription"`
		Help             sarifHelp    `json:"help"`
		Default          sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifHelp struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int          `json:"startLine"`
		StartColumn int          `json:"startColumn,omitempty"`
		EndColumn   int          `json:"endColumn,omitempty"`
		Snippet     sarifMessage `json:"snippet"`
	}
)

var sarifLevels = map[iotax.Severity]string{iotax.Invalid: "error", iotax.Warning: "warning", iotax.Info: "note"}

// SARIF writes findings as SARIF 2.1.0, for code hosts. isFile reports whether
// the File of a finding is one, for only files have locations. version is that of iotax.
func SARIF(w io.Writer, version string, findings []Finding, isFile func(string) bool) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "iotax", Version: version, Rules: []sarifRule{}}
	for _, f := range findings {
		i := slices.IndexFunc(run.Tool.Driver.Rules, func(r sarifRule) bool { return r.ID == f.Rule })
		if i < 0 {
			i = len(run.Tool.Driver.Rules)
			r, ok := rules.Explain(f.Rule)
			if !ok {
				r = rules.Rule{ID: f.Rule, Severity: f.Severity, Title: f.Rule}
			}
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
				ID: r.ID, ShortDescription: sarifMessage{r.Title}, FullDescription: sarifMessage{orWord(r.Why, r.Title)},
				Help: sarifHelp{orWord(r.Why, r.Title) + "\n\nHint: " + r.Hint, r.Page()}, Default: sarifDefault{sarifLevels[r.Severity]},
			})
		}
		text := f.Evidence
		if f.Hint != "" {
			text += "\nHint: " + f.Hint
		}
		res := sarifResult{RuleID: f.Rule, RuleIndex: i, Level: sarifLevels[f.Severity], Message: sarifMessage{text}}
		if isFile(f.File) {
			p := sarifPhysical{Artifact: sarifArtifact{artifactURI(f.File)}}
			if f.Line > 0 {
				p.Region = &sarifRegion{StartLine: f.Line, StartColumn: f.Column, Snippet: sarifMessage{f.Source}}
				if f.Column > 0 && f.Width > 0 {
					p.Region.EndColumn = f.Column + f.Width
				}
			}
			res.Locations = []sarifLocation{{p}}
		}
		run.Results = append(run.Results, res)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}

// artifactURI is the path of a file as a URI reference: relative paths stay relative, so that they are
// found below the root of a repository.
func artifactURI(path string) string {
	path = filepath.ToSlash(filepath.Clean(path))
	u := url.URL{Path: path}
	if strings.HasPrefix(path, "/") {
		u.Scheme = "file"
	}
	return u.String()
}
