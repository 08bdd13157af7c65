package report

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"iotax"
	"iotax/stat"
)

// findings returns the findings about a cell and its target, each with an item for a note.
func (b *builder) findings(c Cell) iter.Seq2[iotax.Finding, Item] {
	return func(yield func(iotax.Finding, Item) bool) {
		for _, f := range b.Run.Findings {
			if f.Subject == iotax.AboutCell(c.Target, c.Workload) && !yield(f, Item{Cells: []Cell{c}}) {
				return
			}
		}
		for _, f := range b.Target(c.Target).Findings {
			if f.Subject.Concerns(c.Target, c.Workload) && !yield(f, Item{Cells: []Cell{{c.Target, f.Subject.Workload}}}) {
				return
			}
		}
		for _, t := range b.byCell[c] {
			for _, f := range t.Findings {
				if !yield(f, Item{Cells: []Cell{c}, Trials: 1}) {
					return
				}
			}
		}
	}
}

// general adds notes for the findings of the run. It skips findings about cells that have rows, because b.row adds the
// notes of these rows.
func (b *builder) general(findings []iotax.Finding) {
	for _, f := range findings {
		if f.Subject.Kind == iotax.SubjectCell && slices.ContainsFunc(b.Sections, func(s Section) bool {
			return s.Workload == f.Subject.Workload && s.Row(f.Subject.Target) != nil
		}) {
			continue
		}
		i := slices.IndexFunc(b.General, func(n Note) bool { return noteKey{n.Rule, n.Hint, n.Severity} == noteKey{f.Rule, f.Hint, f.Severity} })
		if i < 0 {
			i = len(b.General)
			b.General = append(b.General, Note{Finding: f})
		}
		if n := &b.General[i]; !slices.ContainsFunc(n.Items, func(it Item) bool { return it.Evidence == f.Evidence }) {
			n.Items = append(n.Items, Item{Evidence: f.Evidence})
		}
	}
}

// note attaches a finding to the row r. Findings with the same rule, hint and severity share a note.
func (b *builder) note(r *Row, f iotax.Finding, it Item) {
	key := noteKey{f.Rule, f.Hint, f.Severity}
	n := b.notes[key]
	if n == nil {
		n = &Note{Finding: f}
		b.notes[key], b.refs[n] = n, map[*Row]bool{}
		b.found = append(b.found, n)
	}
	b.refs[n][r] = true
	if it.Evidence = f.Evidence; it.Lead != "" {
		it.Evidence = it.Lead + " " + it.Detail
	}
	n.raw = append(n.raw, rawItem{it, r})
}

// A rawItem is an item before equal items are merged.
type rawItem struct {
	Item
	row *Row
}

// number merges the items of each note and numbers the notes in the order of the rows. Notes about all rows go to
// Common, without a number.
func (b *builder) number() {
	first := map[*Note]bool{}
	rows := 0
	for range b.Rows() {
		rows++
	}
	for _, n := range b.found {
		// Notes about invalid results stay with their rows, because they explain a missing verdict.
		if rows > 1 && len(b.refs[n]) == rows && n.Severity != iotax.Invalid {
			first[n] = true
			n.gather()
			if len(n.Items) == 1 {
				n.Items[0].All = true
			}
			b.Common = append(b.Common, *n)
		}
	}
	for _, r := range b.Rows() {
		for _, n := range b.found {
			if !b.Concerns(n, r) || first[n] && n.Number == 0 {
				continue
			}
			if !first[n] {
				first[n] = true
				n.Number = len(b.Notes) + 1
				n.gather()
				b.Notes = append(b.Notes, *n)
			}
			r.Notes = append(r.Notes, n.Number)
		}
		slices.Sort(r.Notes)
	}
}

// gather merges the raw items into Items, and releases them.
func (n *Note) gather() {
	raws := n.raw
	n.raw = nil
	type key struct {
		shape string
		cell  Cell
	}
	counted := map[key]*Row{}     // the row whose trials count; other rows of the cell have the same findings
	shapes := map[string]string{} // caches the results of `shape`, because many trials share the same evidence
	shaped := func(evidence string) string {
		s, ok := shapes[evidence]
		if !ok {
			s = shape(evidence)
			shapes[evidence] = s
		}
		return s
	}
	for _, raw := range raws {
		cell, form := raw.Cells[0], shaped(raw.Evidence)
		i := slices.IndexFunc(n.Items, func(it Item) bool {
			return it.Evidence == raw.Evidence || slices.Contains(it.Cells, cell) && shaped(it.Evidence) == form
		})
		if i < 0 {
			n.Items = append(n.Items, Item{Evidence: raw.Evidence, Lead: raw.Lead, Detail: raw.Detail})
			i = len(n.Items) - 1
		}
		it := &n.Items[i]
		it.Varies = it.Varies || it.Evidence != raw.Evidence
		if !slices.Contains(it.Cells, cell) {
			it.Cells = append(it.Cells, cell)
		}
		k := key{form, cell}
		if counted[k] == nil {
			counted[k] = raw.row
		}
		if counted[k] == raw.row {
			it.Trials += raw.Trials
		}
	}
}

// scales replaces units that have prefixes with their base units.
var scales = strings.NewReplacer("KiB", "B", "MiB", "B", "GiB", "B", "TiB", "B", "ms", "s", "µs", "s")

// shape returns evidence without its numbers and unit prefixes. Evidence that differs only in its numbers has the same
// shape.
func shape(evidence string) string {
	return scales.Replace(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, evidence))
}

// Findings returns the notes of a row as findings. A finding is about the row's own cell if the note has evidence about
// it, and otherwise about the row's reference.
func (r *Report) Findings(workload string, row *Row) []iotax.Finding {
	fs := []iotax.Finding{}
	notes := slices.Clone(r.Common)
	for _, k := range row.Notes {
		notes = append(notes, r.Notes[k-1])
	}
	for _, n := range notes {
		f, ok := n.FindingAbout(row.Target, workload)
		if !ok {
			f, ok = n.FindingAbout(row.Against, workload)
		}
		if ok {
			fs = append(fs, f)
		}
	}
	return fs
}

// FindingAbout returns the note as a finding about a cell, or about the cell's target if the evidence covers all its
// workloads. ok is false if the note has no evidence about the cell.
func (n Note) FindingAbout(target, workload string) (f iotax.Finding, ok bool) {
	i := slices.IndexFunc(n.Items, func(it Item) bool { return it.About(target, workload) })
	if i < 0 {
		return f, false
	}
	f = n.Finding
	f.Subject, f.Evidence, f.File, f.Line, f.Column = iotax.AboutCell(target, workload), n.Items[i].Evidence, "", 0, 0
	if slices.Contains(n.Items[i].Cells, Cell{Target: target}) {
		f.Subject = iotax.AboutTarget(target)
	}
	return f, true
}

// About reports whether the item concerns the cell, or its target as a whole.
func (it Item) About(target, workload string) bool {
	return slices.ContainsFunc(it.Cells, func(c Cell) bool {
		return c.Target == target && (c.Workload == "" || c.Workload == workload)
	})
}

// Conclusive reports whether a verdict decides which target is better, or that the difference is within the margin.
func Conclusive(v stat.Verdict) bool {
	return v == stat.Worse || v == stat.Better || v == stat.Equivalent || v == stat.BelowMargin
}

// Unsure reports whether more trials could lead to a verdict.
func Unsure(v stat.Verdict) bool { return v == stat.Inconclusive || v == stat.TooFew }

// ShownItems limits the number of a note's items that compact formats show (see Note.Sentences).
const ShownItems = 3

// alike merges items if only the numbers in their evidence differ. It does not merge items with a Lead or without
// Cells.
func alike(items []Item) []Item {
	var out []Item
	for _, it := range items {
		i := -1
		if it.Lead == "" && len(it.Cells) > 0 {
			i = slices.IndexFunc(out, func(o Item) bool { return o.Lead == "" && len(o.Cells) > 0 && shape(o.Evidence) == shape(it.Evidence) })
		}
		if i < 0 {
			it.Cells = slices.Clone(it.Cells)
			out = append(out, it)
			continue
		}
		o := &out[i]
		o.Trials, o.Varies = o.Trials+it.Trials, true
		for _, c := range it.Cells {
			if !slices.Contains(o.Cells, c) {
				o.Cells = append(o.Cells, c)
			}
		}
	}
	return out
}

// Sentences returns the items of a note as sentences. Items with the same lead share a sentence. If limit is not 0,
// Sentences merges similar items and returns at most limit+1 sentences. The last sentence may be the number of omitted
// items.
func (n Note) Sentences(limit int) []string {
	var out []string
	if limit > 0 {
		n.Items = alike(n.Items)
	}
	told := map[string]bool{}
	for _, it := range n.Items {
		if it.Lead == "" {
			s := it.Evidence
			if where := it.where(limit); where != "" {
				s += " (" + where + ")"
			}
			out = append(out, s)
			continue
		}
		if told[it.Lead] {
			continue
		}
		told[it.Lead] = true
		var group []Item
		workloads := map[string]bool{}
		for _, o := range n.Items {
			if o.Lead == it.Lead {
				group = append(group, o)
				for _, c := range o.Cells {
					workloads[c.Workload] = true
				}
			}
		}
		var parts []string
		for _, o := range group {
			var names []string
			for _, c := range o.Cells {
				if len(workloads) == 1 {
					c.Workload = ""
				}
				names = append(names, c.String())
			}
			parts = append(parts, strings.Join(names, " and ")+" "+o.Detail)
		}
		s := it.Lead + ": "
		if len(workloads) == 1 && it.Cells[0].Workload != "" {
			s = it.Cells[0].Workload + ": " + it.Lead + ": "
		}
		if len(parts) == 1 && len(it.Cells) == 1 {
			out = append(out, it.Cells[0].String()+": "+it.Lead+" "+it.Detail)
		} else if len(parts) == 1 {
			out = append(out, it.Lead+" "+it.Detail+" ("+it.where(limit)+")")
		} else {
			out = append(out, s+strings.Join(parts, ", "))
		}
	}
	if limit > 0 && len(out) > limit+1 {
		out = append(out[:limit], fmt.Sprintf("and %d more like it", len(out)-limit))
	}
	return out
}

// String returns the name of the cell, for example "guest disk / 4k random read".
func (c Cell) String() string {
	if c.Workload == "" {
		return c.Target
	}
	return c.Target + " / " + c.Workload
}

// where lists the cells of an item, with the number of its trials. If limit is not 0 and there are more than limit+1
// cells, it lists the first `limit` cells and the number of the remaining ones.
func (it Item) where(limit int) string {
	var names []string
	cells := it.Cells
	if it.All {
		cells, names = nil, []string{"all cells"}
	}
	for i, c := range cells {
		if limit > 0 && i == limit && len(it.Cells) > limit+1 {
			names = append(names, fmt.Sprintf("and %d more", len(it.Cells)-i))
			break
		}
		names = append(names, c.String())
	}
	s := strings.Join(names, ", ")
	if it.Trials > 1 {
		s = fmt.Sprintf("%d trials of %s", it.Trials, s)
	}
	if it.Varies {
		s += ", figures vary"
	}
	return s
}
