package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"iotax/report/format"
	"iotax/stat"
)

func (b *Beside) title() string {
	s := "Beside " + b.Name + " · " + b.Source
	if b.Reference != "" {
		s += " · ratios to " + b.Reference
		if format.Fold(b.Theirs) != format.Fold(b.Reference) {
			s += " (" + b.Theirs + ")"
		}
	}
	return s
}

// tables are a table of what has ratios, and one of figures that were published one by one, with nothing to
// hold them against. Grouped by workload they are narrower: a terminal has room for all columns then.
func (b *Beside) tables(grouped bool) []wordTable {
	g := wordTable{head: []string{"workload", "target", "ratio here", "published", "", "here", "published"}, wraps: []int{0, 1}, right: []int{2, 3, 5, 6}, least: 4}
	if grouped {
		g.head, g.wraps, g.right = g.head[1:], []int{0}, []int{1, 2, 4, 5}
	}
	alone := wordTable{head: []string{"workload", "target", "here", "published"}, wraps: []int{0, 1}, right: []int{2, 3}, least: 4}
	ratio := func(row BesideRow, i *stat.Interval) string {
		switch {
		case i != nil:
			return format.Ratio(*i)
		case row.Target == b.Reference:
			return "1"
		}
		return format.Dash
	}
	last := ""
	for _, row := range b.together() {
		workload, target := format.Clean(format.Subject(row.Workload, row.Label)), format.Clean(row.Target)
		here, published := format.Number(row.Value, row.Unit), format.Number(row.TheirValue, row.Unit)
		if row.Ratio == nil && row.TheirRatio == nil && row.Target != b.Reference {
			alone.rows = append(alone.rows, []string{workload, target, here, published})
			continue
		}
		again := workload == last
		last = workload
		cells := []string{target, ratio(row, row.Ratio), ratio(row, row.TheirRatio), string(row.Agree), here, published}
		switch {
		case !grouped && again:
			cells = append([]string{""}, cells...)
		case !grouped:
			cells = append([]string{workload}, cells...)
		case !again:
			g.rows = append(g.rows, []string{workload})
		}
		if grouped {
			cells[0] = "  " + cells[0]
		}
		g.rows = append(g.rows, cells)
	}
	return slices.DeleteFunc([]wordTable{g, alone}, func(g wordTable) bool { return len(g.rows) == 0 })
}

// together are the rows with what is under one heading together, and without deviations: whether they agree says nothing.
func (b *Beside) together() []BesideRow {
	rows := slices.DeleteFunc(slices.Clone(b.Rows), func(r BesideRow) bool { return strings.HasSuffix(r.Metric, ".sd") })
	at := map[[2]string]int{}
	for i, r := range rows {
		if k := [2]string{r.Workload, r.Metric}; at[k] == 0 {
			at[k] = i + 1
		}
	}
	slices.SortStableFunc(rows, func(x, y BesideRow) int {
		return at[[2]string{x.Workload, x.Metric}] - at[[2]string{y.Workload, y.Metric}]
	})
	return rows
}

// left are the sentences about what stands alone.
func (b *Beside) left() []string {
	out := b.Notes
	if len(b.Unmatched) > 0 {
		out = append(out[:len(out):len(out)], "Not published: "+strings.Join(format.Cut(b.Unmatched, format.Listed, "cell"), ", ")+".")
	}
	if len(b.Unused) > 0 {
		out = append(out[:len(out):len(out)], "Not in this run: "+strings.Join(format.Cut(b.Unused, format.Listed, "published cell"), ", ")+".")
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
	for i, g := range b.tables(true) {
		if i > 0 {
			t.line("")
		}
		t.wordTable(g)
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
	for _, g := range b.tables(false) {
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
