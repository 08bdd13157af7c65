package store

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"iotax"
)

// ExportVersion is the version of the exports. Within a version, fields and columns may only be added.
const ExportVersion = 1

// WriteJSON writes a run and its trials as one JSON object:
//
//	{"version": 1, "run": {…, "plan": "…"}, "trials": [{…, "values": [{"name": "read.iops", …}]}]}
//
// Durations are in nanoseconds. A missing number is null. Each trial is on a line of its own.
func WriteJSON(w io.Writer, run *iotax.Run, trials iter.Seq2[*iotax.Trial, error]) error {
	b := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if _, err := b.WriteString(`{"version":` + strconv.Itoa(ExportVersion) + `,"run":`); err != nil {
		return err
	}
	if err := enc.Encode(struct {
		*iotax.Run
		Plan string `json:"plan"`
	}{run, string(run.Plan)}); err != nil {
		return err
	}
	b.WriteString(`,"trials":[`) // a bufio.Writer keeps its first error for Flush
	first := true
	for t, err := range trials {
		if err != nil {
			b.Flush()
			return err
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteByte('\n')
		if err := enc.Encode(t); err != nil {
			return err
		}
	}
	b.WriteString("]}\n")
	return b.Flush()
}

// Columns is the header that WriteCSV writes. Within a version, columns may only be added at the end.
var Columns = []string{"run", "name", "target", "workload", "round", "seq", "seed", "cold", "start", "took_s",
	"metric", "value", "unit", "better", "labels", "err", "discarded", "emulated", "start_index", "invalid"}

// WriteCSV writes the header Columns and one line for each value (tidy data). A trial without values gets one line, so
// that failures are visible. Values are in base units. Labels have the form "name=value" and are joined by ";". Text
// that a spreadsheet would treat as a formula is prefixed with an apostrophe, and control characters are escaped (see
// Printable).
func WriteCSV(w io.Writer, run *iotax.Run, trials iter.Seq2[*iotax.Trial, error]) error {
	c := csv.NewWriter(w)
	if err := c.Write(Columns); err != nil {
		return err
	}
	for t, err := range trials {
		if err != nil {
			c.Flush()
			return err
		}
		start := ""
		if !t.Start.IsZero() {
			start = t.Start.UTC().Format("2006-01-02T15:04:05.000Z")
		}
		line := []string{plain(t.Run), plain(run.Name), plain(t.Target), plain(t.Workload), strconv.Itoa(t.Round), strconv.Itoa(t.Seq),
			formatSeed(t.Seed), strconv.FormatBool(t.Cold), start, formatFloat(t.Took.Seconds()),
			"", "", "", "", plain(joinLabels(t.Labels)), plain(t.Err), plain(t.Discarded), strconv.FormatBool(inEmulated(run, t)), strconv.Itoa(t.StartIndex), plain(invalidBy(run, t))}
		if len(t.Values) == 0 {
			if err := c.Write(line); err != nil {
				return err
			}
		}
		for _, v := range t.Values {
			line[10], line[11], line[12], line[13] = plain(v.Name), formatFloat(v.Value), plain(v.Unit), plain(string(v.Better))
			if err := c.Write(line); err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}

func inEmulated(run *iotax.Run, t *iotax.Trial) bool {
	return slices.ContainsFunc(run.Targets, func(x iotax.TargetInfo) bool { return x.Name == t.Target && x.Emulated() })
}

// invalidBy returns the rule of the first finding that makes a trial, its cell or its target invalid, or "".
func invalidBy(run *iotax.Run, t *iotax.Trial) string {
	all := slices.Clone(t.Findings)
	for _, f := range run.Findings {
		if f.Subject == iotax.AboutCell(t.Target, t.Workload) {
			all = append(all, f)
		}
	}
	for _, x := range run.Targets {
		for _, f := range x.Findings {
			if x.Name == t.Target && f.Subject.Concerns(t.Target, t.Workload) {
				all = append(all, f)
			}
		}
	}
	if i := slices.IndexFunc(all, func(f iotax.Finding) bool { return f.Severity == iotax.Invalid }); i >= 0 {
		return all[i].Rule
	}
	return ""
}

// plain escapes text that starts like a formula (OWASP, "CSV Injection"): spreadsheets run formulas, and a plan may
// come from an untrusted source. It also escapes control characters, which could affect terminals.
func plain(s string) string {
	s = Printable(s)
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) || strings.HasPrefix(s, "＝") || strings.HasPrefix(s, "＋") || strings.HasPrefix(s, "－") || strings.HasPrefix(s, "＠") {
		return "'" + s
	}
	return s
}

// Printable returns s with control characters escaped, except line breaks and tabs.
func Printable(s string) string {
	order := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }
	if strings.IndexFunc(s, order) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if order(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// formatFloat returns the shortest text that reads back as v, or "" if v is not finite.
func formatFloat(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func joinLabels(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ";")
}
