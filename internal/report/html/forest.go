package html

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"iotax/internal/report"
	"iotax/internal/report/format"
	"iotax/stat"
)

// A forestShape is the size of a forest plot, in pixels. Label 0 puts names above their intervals, and their figures there, too.
type forestShape struct {
	ID                         string
	Width, Label               float64
	Row, Head, Margin, TickGap float64
}

var (
	wideForest   = forestShape{ID: "wide", Width: 1040, Label: 250, Row: 28, Head: 40, Margin: 4, TickGap: 44}
	narrowForest = forestShape{ID: "narrow", Width: 358, Label: 0, Row: 28, Head: 42, Margin: 4, TickGap: 40}
)

// A forest is the plot of all ratios on one logarithmic axis.
type forest struct {
	forestShape
	Height, Left, PlotRight, Top, Bottom float64
	One, BandLo, BandHi                  float64
	Worse, Better                        float64 // where the two words end and begin
	RatioX, BoundsX, VerdictX            float64 // the columns of figures, unless Stacked
	Ticks                                []tickView
	Heads                                []forestHead
	Rows                                 []forestRow
	Stacked                              bool
	Title, Desc                          string
}

type forestHead struct {
	Y     float64
	Label string
}

type textLine struct {
	Y    float64
	Text string
}

type forestRow struct {
	Y, X, Lo, Hi         float64
	Full                 string
	Lines                []textLine // of the name
	TextY                float64    // of the figures
	Ratio, Bounds        string
	Verdict, Class       string
	HasInterval, HasMark bool
	Caps                 bool // the interval is wide enough for end marks beside the estimate's
	CutLo, CutHi         bool
	Diamond, Cross       bool
	Points               string // of a diamond or an arrow
}

// A forestGroup is the ratios under one heading.
type forestGroup struct {
	Label string
	Items []forestItem
}

// A forestItem is one ratio, nil where there is none.
type forestItem struct {
	Name    string
	Ratio   *stat.Interval
	Verdict stat.Verdict
}

func forestOf(r *report.Report, shape forestShape) *forest {
	var groups []forestGroup
	for _, s := range r.Sections {
		g := forestGroup{Label: format.Subject(s.Workload, s.Label)}
		for _, row := range s.Rows {
			if row.Baseline || row.Verdict == stat.NoVerdict {
				continue
			}
			it := forestItem{Name: row.Target, Verdict: row.Verdict}
			if row.Ratio != nil {
				it.Ratio = &row.Ratio.Interval
			}
			g.Items = append(g.Items, it)
		}
		if len(g.Items) > 0 {
			groups = append(groups, g)
		}
	}
	lo, hi := r.RatioRange()
	return drawForest(groups, "Ratio of each target to the baseline", r.Margin, lo, hi, shape)
}

// drawForest draws ratios between lo and hi; nil when there is none.
func drawForest(groups []forestGroup, title string, margin, lo, hi float64, shape forestShape) *forest {
	if !slices.ContainsFunc(groups, func(g forestGroup) bool {
		return slices.ContainsFunc(g.Items, func(it forestItem) bool { return it.Ratio != nil })
	}) {
		return nil
	}
	f := &forest{forestShape: shape, Title: title, Stacked: shape.Label == 0, Left: shape.Label + shape.Margin, Top: 46}
	f.columns(groups)
	x := func(v float64) float64 {
		t := (math.Log(v) - math.Log(lo)) / (math.Log(hi) - math.Log(lo))
		return f.Left + math.Min(1, math.Max(0, t))*(f.PlotRight-f.Left)
	}
	f.One, f.BandLo, f.BandHi = x(1), x(1/(1+margin)), x(1+margin)
	// Where the ratio 1 is near an edge, the words stand inside of it, beside each other.
	const word, gap = 58, 8
	f.Better = min(max(f.One, word+gap)+gap, f.Width-word)
	f.Worse = min(max(f.One-gap, word), f.Better-2*gap)
	last := math.Inf(-1)
	for _, t := range format.Ticks(lo, hi) {
		at := x(t)
		// A label must not stick out of the plot.
		if at < 20 || at > shape.Width-20 {
			continue
		}
		if t == 1 || at-last >= f.TickGap && math.Abs(at-f.One) >= f.TickGap {
			f.Ticks = append(f.Ticks, tickView{X: at, Label: strconv.FormatFloat(t, 'g', -1, 64) + "×"})
			last = at
		}
	}
	var said []string
	y := f.Top
	for _, g := range groups {
		y += f.Head
		for i, l := range format.Break(format.Clean(g.Label), int((f.Width-2*f.Margin)/perHeadChar)) {
			if i > 0 {
				y += lineHeight
			}
			f.Heads = append(f.Heads, forestHead{Y: y - 12, Label: l})
		}
		for _, it := range g.Items {
			fr := forestRow{Full: format.Clean(it.Name), Verdict: format.Verdict(it.Verdict, true), Class: verdictClass(it.Verdict)}
			if e := it.Ratio; e != nil && e.Estimate > 0 && !math.IsInf(e.Estimate, 0) {
				fr.HasMark, fr.X = true, x(e.Estimate)
				fr.Ratio, fr.Bounds = format.Split(format.Ratio(*e))
				if format.Finite(*e) && e.Lo > 0 {
					fr.HasInterval, fr.Lo, fr.Hi = true, x(e.Lo), x(e.Hi)
					fr.Caps = fr.Hi-fr.Lo > 16
					fr.CutLo, fr.CutHi = e.Lo < lo, e.Hi > hi
				}
				said = append(said, fmt.Sprintf("%s, %s: %s, %s", g.Label, it.Name, format.Ratio(*e), format.Verdict(it.Verdict, false)))
			}
			y = fr.place(f, y)
			fr.Diamond, fr.Cross = fr.Class == "same", fr.Class == "invalid"
			const d = 6
			fr.Points = fmt.Sprintf("%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f", fr.X-d, fr.Y, fr.X, fr.Y-d, fr.X+d, fr.Y, fr.X, fr.Y+d)
			f.Rows = append(f.Rows, fr)
		}
	}
	f.Bottom = y + 6
	f.Height = f.Bottom + 26
	f.Desc = format.Clean(strings.Join(said, "; "))
	return f
}

// columns makes room for the longest figures beside the plot.
func (f *forest) columns(groups []forestGroup) {
	if f.Stacked {
		f.Left += 4
		f.PlotRight = f.Width - f.Margin - 4
		return
	}
	const beside, between, verdict = 20, 12, 114
	ratio, bounds := 52.0, 108.0 // of 0.710× and [0.699, 0.721], so that most plots are of one size
	for _, g := range groups {
		for _, it := range g.Items {
			if it.Ratio != nil {
				r, b := format.Split(format.Ratio(*it.Ratio))
				ratio, bounds = max(ratio, perHeadChar*float64(ansi.StringWidth(r))), max(bounds, perChar*float64(ansi.StringWidth(b)))
			}
		}
	}
	f.VerdictX = f.Width - f.Margin - verdict
	f.BoundsX = f.VerdictX - between - bounds
	f.RatioX = f.BoundsX - between - ratio
	f.PlotRight = f.RatioX - beside
}

// lineHeight and perChar are those of the plot's 13 px text; the browser's font may be a little
// narrower, never much wider.
const (
	lineHeight  = 16.0
	perChar     = 7.0
	perHeadChar = 8.5 // larger and bold
)

// place breaks the row's name into lines, since names from a matrix differ at their ends, and returns
// where the next row starts.
func (r *forestRow) place(f *forest, y float64) float64 {
	room := f.Label - 12
	if f.Stacked {
		// The first line is shared with ratio and verdict.
		said := ansi.StringWidth(strings.TrimSpace(r.Ratio + " " + r.Verdict))
		room = f.Width - 3*f.Margin - perChar*float64(said+1)
	}
	lines := format.Break(r.Full, int(room/perChar))
	first := y + f.Row/2 + 4.5
	for i, l := range lines {
		r.Lines = append(r.Lines, textLine{first + lineHeight*float64(i), l})
	}
	extra := lineHeight * float64(max(0, len(lines)-1))
	r.TextY = first
	if !f.Stacked {
		r.Y = y + (f.Row+extra)/2
		r.TextY = r.Y + 4.5
		return y + f.Row + extra
	}
	r.Y = first + extra + 14
	if !r.HasMark {
		return y + f.Row + extra
	}
	return y + f.Row + extra + 20
}
