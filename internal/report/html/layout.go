package html

import (
	"slices"
	"strings"

	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/internal/report/table"
)

// layoutView is a table of a classic layout.
type layoutView struct {
	Title string
	Head  []layoutCell
	Rows  [][]layoutCell
}

type layoutCell struct{ Text, Class string }

func layoutViews(r *report.Report) []layoutView {
	var out []layoutView
	for _, t := range table.Layout(r) {
		v := layoutView{Title: format.Clean(t.Title)}
		class := make([]string, len(t.Head))
		for k, head := range t.Head {
			if slices.Contains(t.Right, k) {
				class[k] = "right"
			}
			v.Head = append(v.Head, layoutCell{format.Clean(head), class[k]})
			if slices.Contains(t.Wraps, k) {
				class[k] = strings.TrimSpace(class[k] + " long")
			}
		}
		name := "" // of the rows below it: where rows are sorted or filtered, each needs its own
		for _, row := range t.Rows {
			var cells []layoutCell
			for k, text := range row {
				c := layoutCell{format.Unbroken(format.Clean(text)), class[k]}
				if k == 0 && t.Grouped {
					if c.Text == "" || c.Text == name {
						c.Class = "long again"
						c.Text = name
					}
					name = c.Text
				}
				cells = append(cells, c)
			}
			v.Rows = append(v.Rows, cells)
		}
		out = append(out, v)
	}
	return out
}
