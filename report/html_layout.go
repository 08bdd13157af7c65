package report

import "slices"

// layoutView is a table of a classic layout.
type layoutView struct {
	Title string
	Head  []string
	Rows  [][]layoutCell
}

type layoutCell struct{ Text, Class string }

func (r *Report) layoutViews() []layoutView {
	var out []layoutView
	for _, t := range r.LayoutTables() {
		v := layoutView{Title: clean(t.Title), Head: cleaned(t.Head)}
		for _, row := range t.Rows {
			var cells []layoutCell
			for k, text := range row {
				c := layoutCell{Text: unbroken(clean(text))}
				switch {
				case slices.Contains(t.Right, k):
					c.Class = "right"
				case slices.Contains(t.Wraps, k):
					c.Class = "long"
				}
				cells = append(cells, c)
			}
			v.Rows = append(v.Rows, cells)
		}
		out = append(out, v)
	}
	return out
}
