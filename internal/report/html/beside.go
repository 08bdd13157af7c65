package html

import (
	"strings"

	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/format"
	"iotax/stat"
)

// sentenceView is one sentence of the assessment with the notes behind it.
type sentenceView struct {
	Text, Kind string
	Notes      []int
}

// said parts all sentences but the first, which is the page's heading, and the sum, which the tiles tell: what has
// room on a phone's first screen, what has beside it on a larger one's, and the rest.
func (v *pageView) said(all []assess.Sentence) {
	var views []sentenceView
	for i, s := range all {
		if i > 0 && s.Kind != assess.SaysSum {
			views = append(views, sentenceView{format.Unbroken(format.Clean(s.Text)), format.Clean(string(s.Kind)), s.Notes})
		}
	}
	large := desk.fits(views, desk.room(v))
	small := min(large, phone.fits(views, phone.room(v)))
	v.Assessment, v.Further, v.More = views[:small], views[small:large], views[large:]
	v.Folded = len(views) - small
}

// besideView is the published figures beside this run's.
type besideView struct {
	Name, Source, Reference, Theirs string
	Rows                            []besideRowView
	Unmatched, Unused, Notes        []string
}

type besideRowView struct {
	Workload, Target, As                 string // As: how the publication calls the two, where that is another name
	Value, TheirValue, Ratio, TheirRatio string
	Bounds, TheirBounds                  string
	Agree, Class                         string
}

func viewBeside(b *report.Beside) *besideView {
	if b == nil {
		return nil
	}
	v := &besideView{Name: format.Clean(b.Name), Source: format.Clean(b.Source), Reference: format.Clean(b.Reference), Theirs: format.Clean(b.Theirs),
		Unmatched: cleaned(b.Unmatched), Unused: cleaned(b.Unused), Notes: cleaned(b.Notes)}
	ratio := func(i *stat.Interval) (string, string) {
		if i == nil {
			return format.Dash, ""
		}
		return format.Split(format.Ratio(*i))
	}
	for _, r := range b.Rows {
		row := besideRowView{Workload: format.Clean(format.Subject(r.Workload, r.Label)), Target: format.Clean(r.Target),
			Value: format.Number(r.Value, r.Unit), TheirValue: format.Number(r.TheirValue, r.Unit), Agree: format.Clean(string(r.Agree))}
		var as []string
		for _, names := range [][2]string{{r.Target, r.TheirTarget}, {r.Workload, r.TheirWorkload}} {
			if format.Fold(names[0]) != format.Fold(names[1]) {
				as = append(as, format.Clean(names[1]))
			}
		}
		row.As = strings.Join(as, ", ")
		row.Ratio, row.Bounds = ratio(r.Ratio)
		row.TheirRatio, row.TheirBounds = ratio(r.TheirRatio)
		if r.Target == b.Reference {
			row.Ratio, row.TheirRatio = "1", "1"
		}
		switch r.Agree {
		case report.Overlap:
			row.Class = "same"
		case report.Above:
			row.Class = "better"
		case report.Below:
			row.Class = "worse"
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

func cleaned(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, format.Clean(s))
	}
	return out
}
