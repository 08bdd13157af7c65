package report

import (
	"fmt"
	"io"
	"strings"

	"iotax/stat"
)

func (b *Beside) title() string {
	s := "Beside " + b.Name + " · " + b.Source
	if b.Reference != "" {
		s += " · ratios to " + b.Reference
		if fold(b.Theirs) != fold(b.Reference) {
			s += " (" + b.Theirs + ")"
		}
	}
	return s
}

func (b *Beside) table() wordTable {
	g := wordTable{head: []string{"workload", "target", "ratio here", "published", "", "here", "published"}, wraps: []int{0, 1}, least: 4}
	ratio := func(row BesideRow, i *stat.Interval) string {
		switch {
		case i != nil:
			return formatRatio(*i)
		case row.Target == b.Reference:
			return "1"
		}
		return dash
	}
	last := ""
	for _, row := range b.Rows {
		workload := subject(row.Workload, row.Label)
		if workload == last {
			workload = ""
		} else {
			last = workload
		}
		g.rows = append(g.rows, []string{clean(workload), clean(row.Target), ratio(row, row.Ratio), ratio(row, row.TheirRatio),
			string(row.Agree), number(row.Value, row.Unit), number(row.TheirValue, row.Unit)})
	}
	return g
}

// left are the sentences about what stands alone.
func (b *Beside) left() []string {
	out := b.Notes
	if len(b.Unmatched) > 0 {
		out = append(out[:len(out):len(out)], "Not published: "+strings.Join(cut(b.Unmatched, listed, "cell"), ", ")+".")
	}
	if len(b.Unused) > 0 {
		out = append(out[:len(out):len(out)], "Not in this run: "+strings.Join(cut(b.Unused, listed, "published cell"), ", ")+".")
	}
	return out
}

func (t *textWriter) beside() {
	b := t.Beside
	if b == nil {
		return
	}
	t.line("")
	t.para(b.title(), "", "  ", t.pal.accent.Bold(t.color))
	if len(b.Rows) > 0 {
		t.wordTable(b.table())
	}
	for _, s := range b.left() {
		t.para(s, "  ", "  ", t.pal.dim)
	}
}

func (r *Report) markdownBeside(w io.Writer) {
	b := r.Beside
	if b == nil {
		return
	}
	fmt.Fprintf(w, "\n### %s\n\n", escapeMarkdown(b.title()))
	if len(b.Rows) > 0 {
		g := b.table()
		g.right = []int{2, 3, 5, 6}
		g.markdown(w)
		fmt.Fprintln(w)
	}
	for _, s := range b.left() {
		fmt.Fprintf(w, "- %s\n", escapeMarkdown(s))
	}
}

type jsonBeside struct {
	Name      string          `json:"name"`
	Source    string          `json:"source"`
	Reference string          `json:"reference,omitempty"`
	Published string          `json:"published_reference,omitempty"`
	Rows      []jsonBesideRow `json:"rows"`
	Unmatched []string        `json:"unmatched,omitempty"`
	Unused    []string        `json:"unused,omitempty"`
	Notes     []string        `json:"notes,omitempty"`
}

type jsonBesideRow struct {
	Target    string              `json:"target"`
	Workload  string              `json:"workload"`
	Metric    string              `json:"metric"`
	Unit      string              `json:"unit"`
	Value     jsonValue           `json:"value"`
	Ratio     *jsonBounds         `json:"ratio"`
	Published jsonBesidePublished `json:"published"`
	Agree     Agreement           `json:"agree,omitempty"`
}

type jsonBesidePublished struct {
	Target   string      `json:"target"`
	Workload string      `json:"workload"`
	Value    jsonValue   `json:"value"`
	Ratio    *jsonBounds `json:"ratio"`
}

func (r *Report) jsonBeside() *jsonBeside {
	b := r.Beside
	if b == nil {
		return nil
	}
	bounds := func(i *stat.Interval) *jsonBounds {
		if i == nil {
			return nil
		}
		return toBounds(*i)
	}
	out := &jsonBeside{Name: b.Name, Source: b.Source, Reference: b.Reference, Published: b.Theirs, Rows: []jsonBesideRow{}, Unmatched: b.Unmatched, Unused: b.Unused, Notes: b.Notes}
	for _, row := range b.Rows {
		out.Rows = append(out.Rows, jsonBesideRow{row.Target, row.Workload, row.Metric, row.Unit, toJSON(row.Value), bounds(row.Ratio),
			jsonBesidePublished{row.TheirTarget, row.TheirWorkload, toJSON(row.TheirValue), bounds(row.TheirRatio)}, row.Agree})
	}
	return out
}
