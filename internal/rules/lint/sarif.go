package lint

import (
	"cmp"
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"iotax"
	"iotax/internal/rules"
)

var sarifLevels = map[iotax.Severity]string{iotax.Invalid: "error", iotax.Warning: "warning", iotax.Info: "note"}

// SARIF writes findings as SARIF 2.1.0 (OASIS), for code hosts. version is the version of iotax. A finding has a
// location only if isFile returns true for its File. SARIF does not use a library, because the Go libraries also write
// fields without a value.
func SARIF(w io.Writer, version string, findings []Finding, isFile func(string) bool) error {
	type object = map[string]any
	text := func(s string) object { return object{"text": s} }
	found, results := []object{}, []object{}
	index := map[string]int{} // index of each rule in found
	for _, f := range findings {
		if _, there := index[f.Rule]; !there {
			index[f.Rule] = len(found)
			r, ok := rules.Explain(f.Rule)
			if !ok {
				r = rules.Rule{ID: f.Rule, Severity: f.Severity, Title: f.Rule}
			}
			why := cmp.Or(r.Why, r.Title)
			found = append(found, object{"id": r.ID, "shortDescription": text(r.Title), "fullDescription": text(why),
				"help": object{"text": why + "\n\nHint: " + r.Hint, "markdown": r.Page()}, "defaultConfiguration": object{"level": sarifLevels[r.Severity]}})
		}
		message := f.Evidence
		if f.Hint != "" {
			message += "\nHint: " + f.Hint
		}
		result := object{"ruleId": f.Rule, "ruleIndex": index[f.Rule], "level": sarifLevels[f.Severity], "message": text(message)}
		if isFile(f.File) {
			location := object{"artifactLocation": object{"uri": artifactURI(f.File)}}
			if f.Line > 0 {
				region := object{"startLine": f.Line, "snippet": text(f.Source)}
				if f.Column > 0 {
					region["startColumn"] = f.Column
				}
				if f.Column > 0 && f.Width > 0 {
					region["endColumn"] = f.Column + f.Width
				}
				location["region"] = region
			}
			result["locations"] = []object{{"physicalLocation": location}}
		}
		results = append(results, result)
	}
	driver := object{"name": "iotax", "version": version, "rules": found}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}}})
}

// artifactURI returns a file path as a URI reference. A relative path stays relative, so that a code host resolves it
// against the repository root.
func artifactURI(path string) string {
	path = filepath.ToSlash(filepath.Clean(path))
	u := url.URL{Path: path}
	if strings.HasPrefix(path, "/") {
		u.Scheme = "file"
	}
	return u.String()
}
