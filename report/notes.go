package report

import (
	"slices"
	"strings"

	"iotax"
	"iotax/stat"
)

// findings notes what the checks said about a cell and about its target.
func (b *builder) findings(r *Row, s *Section, trials []*Trial, target iotax.TargetInfo) {
	for _, f := range target.Findings {
		b.note(r, f, Item{Cells: []Cell{{Target: r.Target}}})
	}
	for _, t := range trials {
		for _, f := range t.Findings {
			b.note(r, f, Item{Cells: []Cell{{r.Target, s.Workload}}, Trials: 1})
		}
	}
}

// general puts what was found of the run as a whole into notes: the same rule about several workloads is one.
func (b *builder) general(findings []iotax.Finding) {
	for _, f := range findings {
		i := slices.IndexFunc(b.General, func(n Note) bool { return noteKey{n.Rule, n.Mend, n.Severity} == noteKey{f.Rule, f.Mend, f.Severity} })
		if i < 0 {
			i = len(b.General)
			b.General = append(b.General, Note{Rule: f.Rule, Severity: f.Severity, Mend: f.Mend})
		}
		if n := &b.General[i]; !slices.ContainsFunc(n.Items, func(it Item) bool { return it.Evidence == f.Evidence }) {
			n.Items = append(n.Items, Item{Evidence: f.Evidence})
		}
	}
}

// note attaches a finding to r. Findings of one rule, severity and mend share a note; in it, equal
// evidence shares an item. A row's sections repeat what its cell said, so an item counts a cell's
// trials once.
func (b *builder) note(r *Row, f iotax.Finding, it Item) {
	key := noteKey{f.Rule, f.Mend, f.Severity}
	n := b.notes[key]
	if n == nil {
		n = &Note{Rule: f.Rule, Severity: f.Severity, Mend: f.Mend}
		b.notes[key] = n
		b.order = append(b.order, n)
	}
	b.refer(n, r)
	if it.Evidence = f.Evidence; it.Lead != "" {
		it.Evidence = it.Lead + " " + it.Detail
	}
	n.raw = append(n.raw, rawItem{it, r})
}

func (b *builder) refer(n *Note, r *Row) {
	if b.refs == nil {
		b.refs = map[*Note]map[*Row]bool{}
	}
	if b.refs[n] == nil {
		b.refs[n] = map[*Row]bool{}
	}
	b.refs[n][r] = true
}

// blame makes r refer to what condemned the baseline.
func (b *builder) blame(base, r *Row) {
	for _, n := range b.order {
		if n.Severity == iotax.Invalid && b.refs[n][base] {
			b.refer(n, r)
		}
	}
}

// condemned reports whether a check said that the row's number must not be quoted.
func (b *builder) condemned(r *Row) bool {
	for _, n := range b.order {
		if n.Severity == iotax.Invalid && n.Rule != "too-many-void" && b.refs[n][r] {
			return true
		}
	}
	return false
}

// rawItem is an item before equal ones are put together.
type rawItem struct {
	Item
	row *Row
}

// number gives notes their numbers in the order in which a reader of the rows meets them, and puts
// their items together.
func (b *builder) number() {
	first := map[*Note]bool{}
	rows := 0
	for i := range b.Sections {
		rows += len(b.Sections[i].Rows)
	}
	for _, n := range b.order {
		// Errors stay with their rows: they are why a row has no verdict.
		if rows > 1 && len(b.refs[n]) == rows && n.Severity != iotax.Invalid {
			first[n] = true
			n.gather()
			if len(n.Items) == 1 {
				n.Items[0].All = true
			}
			b.Common = append(b.Common, *n)
		}
	}
	for i := range b.Sections {
		for j := range b.Sections[i].Rows {
			r := &b.Sections[i].Rows[j]
			for _, n := range b.order {
				if !b.refs[n][r] || first[n] && n.Number == 0 {
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
	for _, notes := range [][]Note{b.Notes, b.Common} {
		for i := range notes {
			notes[i].raw = nil
		}
	}
}

func (n *Note) gather() {
	type key struct {
		shape string
		cell  Cell
	}
	counted := map[key]*Row{}     // the row whose trials were counted for that evidence and cell
	shapes := map[string]string{} // by evidence: thousands of trials say the same
	shaped := func(evidence string) string {
		s, ok := shapes[evidence]
		if !ok {
			s = shape(evidence)
			shapes[evidence] = s
		}
		return s
	}
	for _, raw := range n.raw {
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

// scales are the prefixes of units that figures have.
var scales = strings.NewReplacer("KiB", "B", "MiB", "B", "GiB", "B", "TiB", "B", "ms", "s", "µs", "s")

// shape is evidence without its figures and what they are scaled by: "the device read # %".
func shape(evidence string) string {
	return scales.Replace(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, evidence))
}

// Count returns how many trials the note stems from.
func (n Note) Count() int {
	sum := 0
	for _, it := range n.Items {
		sum += it.Trials
	}
	return sum
}

// Findings returns the notes of a row as findings, evidence of its own cell first.
func (r *Report) findings(s Section, row Row) []iotax.Finding {
	fs := []iotax.Finding{}
	notes := slices.Clone(r.Common)
	for _, k := range row.Notes {
		notes = append(notes, r.Notes[k-1])
	}
	for _, n := range notes {
		f := iotax.Finding{Rule: n.Rule, Severity: n.Severity, Mend: n.Mend}
		for _, it := range n.Items {
			if it.about(row.Target, s.Workload) {
				f.Evidence = it.Evidence
				break
			}
		}
		if f.Evidence == "" && len(n.Items) > 0 { // the baseline's
			f.Evidence = n.Items[0].Evidence
		}
		fs = append(fs, f)
	}
	return fs
}

func (it Item) about(target, workload string) bool {
	return slices.ContainsFunc(it.Cells, func(c Cell) bool {
		return c.Target == target && (c.Workload == "" || c.Workload == workload)
	})
}

// conclusive reports whether a verdict says which of the two is better, or that neither is.
func conclusive(v stat.Verdict) bool {
	return v == stat.Worse || v == stat.Better || v == stat.Equivalent || v == stat.BelowMargin
}
