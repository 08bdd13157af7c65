// Package html writes reports and comparisons as pages that stand alone, and the plot of all ratios as a picture.
package html

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax/internal/report"
	"iotax/internal/report/assess"
	"iotax/internal/report/compare"
	"iotax/internal/report/format"
	"iotax/stat"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var PageCSS string

// PageJS sorts and filters tables and saves drawings. The page says all it has to say without it.
//
//go:embed page.js
var PageJS string

// PagePolicy lets the page's own script run and nothing else, and lets nobody be asked for anything.
var PagePolicy = func() string {
	sum := sha256.Sum256([]byte(PageJS))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean": format.Clean,
	"code":  code,
	"f":     func(x float64) string { return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64) },
	"add":   func(a, b float64) float64 { return a + b },
	"neg":   func(a float64) float64 { return -a },
}).Parse(pageHTML))

// code sets what stands between backticks, as rules write it, in the type of code.
func code(s string) template.HTML {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "`")
		inner, after, closed := strings.Cut(rest, "`")
		if !ok || !closed {
			b.WriteString(template.HTMLEscapeString(s))
			return template.HTML(b.String()) // escaped
		}
		b.WriteString(template.HTMLEscapeString(before) + "<code>" + template.HTMLEscapeString(inner) + "</code>")
		s = after
	}
}

// Write writes the report as one self-contained page: no request, light and dark by the reader's
// preference, fit for print and for a phone. Its one script sorts, filters and saves; without it all is there to read.
func Write(w io.Writer, r *report.Report) error { return Page(w, r, Frame{}) }

// A Frame is what a server puts around a report's page.
type Frame struct {
	Head, Top template.HTML                   // at the end of the page's head, and at the start of its body
	Trend     func(compare.CellMetric) string // the address of what a number was over time; nil where there is none
}

// Page writes the report as Write does, in a frame.
func Page(w io.Writer, r *report.Report, f Frame) error {
	var b bytes.Buffer
	v, err := view(r, f)
	if err != nil {
		return err
	}
	if err := pageTemplate.Execute(&b, v); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// headView is what the head of every page has.
type headView struct {
	CSS            template.CSS
	Policy         string // of the page's content: its own script and no other, and no request
	Title, Version string
	Head           template.HTML // what a server adds
}

func newHead(version, title string, more template.HTML) headView {
	title = format.Clean(title)
	if title == "" {
		title = "iotax"
	}
	return headView{CSS: template.CSS(PageCSS), Policy: PagePolicy, Title: title, Version: format.Clean(version), Head: more} // ours, from the binary
}

// pageView is what the template prints: strings and coordinates, nothing to compute.
type pageView struct {
	headView
	Top                           template.HTML
	Answer, Banner, When, Status  string
	Environment, Protocol, Method string
	Objects                       string // "" without objects
	ID, Baseline, Others, Margin  string // Others: what rows are held against instead
	Script                        template.JS
	Tiles                         []tileView
	Assessment, Further, More     []sentenceView
	Folded                        int // on a phone: Further and More
	Overview                      []overviewRow
	Layout                        []layoutView
	Waterfalls                    []chartView
	Beside                        *besideView
	Wide, Narrow                  *forest
	Groups                        []groupView
	Curves                        []curveView
	General                       []noteView
	Notes                         []noteView
	Facts                         []pairView
	Targets                       []targetView
	Boots                         []bootView
	Trials                        []trialView
	Listed                        string // of how many
	Next                          []string
	Counts                        string
}

type pairView struct{ Key, Value string }

type groupView struct {
	ID, Workload, Sub string
	Sections          []sectionView
	Columns           []string // of the secondary table
	Secondary         []secondaryView
	Charts            []chartView // latency, cost
	Times             []chartView // a panel for each target
	Steady            string      // how their shading is to be read
	Serving           []chartView // the memory and CPU of what serves the targets, over time
}

type sectionView struct {
	Label, Direction string
	Rows             []rowView
	Ticks            []tickView
}

type rowView struct {
	Target, Value, Bounds, Ratio, RatioBounds, Verdict, Class, Err, Trials string
	Storage                                                                string // file system and device
	Trend                                                                  string // address
	To                                                                     string // what the ratio is to, where that is not the baseline
	ValueOrder, RatioOrder                                                 string // what a script sorts by
	Baseline, HasValue                                                     bool
	Notes                                                                  []int
	Dots                                                                   []dotView
	Median, Lo, Hi                                                         float64 // per cent of the strip
	HasInterval                                                            bool
}

type dotView struct {
	X, Y  float64
	Class string
	Title string
}

type tickView struct {
	X      float64
	Label  string
	Anchor string
	First  bool
}

type secondaryView struct {
	Label string
	Cells []string
}

type noteView struct {
	Number   int
	Rule     string
	Severity string
	Lines    []string
	More     []string // further lines, folded away
	Hint     string
}

type targetView struct {
	Name, Machine, Place, Storage, Durability, Err string
	Facts                                          []pairView
}

type bootView struct {
	Machine, Total string
	Phases         []phaseView
}

type phaseView struct {
	X, W  float64
	Name  string
	Class string
	At    string
}

type trialView struct {
	Seq, Block                                 int
	Workload, Target, Value, Took, At, Outcome string
	TookOrder                                  string
	Class                                      string
}

func verdictClass(v stat.Verdict) string {
	switch v {
	case stat.Worse:
		return "worse"
	case stat.Better:
		return "better"
	case stat.Equivalent, stat.BelowMargin:
		return "same"
	case stat.Inconclusive, stat.TooFew:
		return "unsure"
	case stat.NoVerdict:
		return "base"
	case stat.NotRanked:
		return "unlike"
	}
	return "invalid"
}

func view(r *report.Report, f Frame) (pageView, error) {
	v := pageView{
		headView: newHead(r.Run.Version, r.Run.Name, f.Head), Top: f.Top, Script: template.JS(PageJS), // ours, from the binary
		Status:      format.Clean(string(r.Run.Status)),
		Environment: strings.NewReplacer(" · ", format.NBSP+"· ", " × ", format.NBSP+"×"+format.NBSP).Replace(format.Unbroken(format.Clean(assess.Environment(r)))), Protocol: format.Unbroken(assess.Protocol(r)), Method: format.Unbroken(assess.Noise(r) + " " + assess.Method(r)), Objects: format.Unbroken(assess.Objects(r)),
		Banner: format.Unbroken(format.Clean(r.Banner())),
		ID:     format.Clean(r.Run.ID), Baseline: format.Clean(r.Baseline), Others: format.Clean(others(r)), Margin: format.Unbroken(format.Percent(r.Margin)),
		Wide: forestOf(r, wideForest), Narrow: forestOf(r, narrowForest), Next: assess.Next(r),
	}
	if !r.Run.Start.IsZero() {
		v.When = r.Run.Start.UTC().Format("2 January 2006, 15:04 UTC")
		if d := r.Run.End.Sub(r.Run.Start); !r.Run.End.IsZero() && d > 0 {
			v.When += ", took " + d.Round(time.Second).String()
		}
	}
	failed, discarded := 0, 0
	for _, t := range r.Trials {
		if t.Err != "" {
			failed++
		}
		if t.Discarded != "" {
			discarded++
		}
	}
	v.Counts = fmt.Sprintf("%s, %d failed, %d discarded", format.Plural(len(r.Trials), "trial"), failed, discarded)

	trials, hues, href := r.Counting(), huesOf(r), map[string]string{}
	timelines, err := r.Timelines(trials)
	if err != nil {
		return v, err
	}
	for i, s := range r.Sections {
		if i == 0 || s.Workload != r.Sections[i-1].Workload {
			g := groupView{ID: fmt.Sprintf("w%d", len(v.Groups)+1), Workload: format.Clean(s.Workload)}
			g.Sub = strings.TrimPrefix(assess.Heading(r, s), s.Workload+" · ")
			g.Columns, g.Secondary = secondaryTable(s)
			g.draw(r, s, trials, timelines[s.Workload], hues)
			href[s.Workload] = "#" + g.ID
			v.Groups = append(v.Groups, g)
		}
		g := &v.Groups[len(v.Groups)-1]
		g.Sections = append(g.Sections, viewSection(r, s, f.Trend))
	}
	for _, c := range r.Curves {
		v.Curves = append(v.Curves, viewCurve(c, hues))
	}
	for _, c := range r.Scalings {
		v.Curves = append(v.Curves, viewScaling(c, hues))
	}
	for _, w := range r.Waterfalls {
		if c := waterfallChart(&w); c.SVG != "" {
			v.Waterfalls = append(v.Waterfalls, c)
		}
	}
	v.Layout = layoutViews(r)
	v.Tiles, v.Overview, v.Beside = tilesOf(r), overview(r, href), viewBeside(r.Beside)
	a := assess.Of(r)
	v.Answer = format.Unbroken(format.Clean(a.Answer()))
	v.said(a.Sentences)
	for _, n := range slices.Concat(r.General, r.Common) {
		v.General = append(v.General, viewNote(n))
	}
	for _, n := range r.Notes {
		v.Notes = append(v.Notes, viewNote(n))
	}
	for _, notes := range [][]noteView{v.General, v.Notes} {
		for i := range notes {
			notes[i].fold()
		}
	}
	v.Facts = sortedPairs(r.Run.Environment)
	viewTargets(r, &v)
	viewTrials(r, &v)
	return v, nil
}

// draw makes the drawings of the workload that s is the first section of.
func (g *groupView) draw(r *report.Report, s report.Section, trials map[report.Cell][]*report.Trial, tl *report.Timeline, hues map[string]int) {
	add := func(c chartView) {
		if c.SVG != "" {
			g.Charts = append(g.Charts, c)
		}
	}
	for _, d := range s.Distributions(r) {
		for _, c := range distributionCharts(d, hues) {
			add(c)
		}
	}
	if c := s.Cost(r, trials); c != nil {
		add(costChart(c, hues))
	}
	if tl == nil {
		return
	}
	for _, cost := range tl.Serving {
		for _, c := range timelineCharts(cost, hues) {
			if c.SVG != "" {
				g.Serving = append(g.Serving, c)
			}
		}
	}
	if len(tl.Cells) > 0 {
		for _, c := range timelineCharts(tl, hues) {
			if c.SVG != "" {
				g.Times = append(g.Times, c)
			}
		}
		g.Steady = fmt.Sprintf("%s second by second, a line for each trial. The shaded band is the mean ± %s: a trial whose five parts stay that close together is in a steady state (SNIA).", format.Capital(format.Clean(tl.Label)), format.Unbroken(format.Percent(stat.SteadyRange/2)))
	}
}

func viewNote(n report.Note) noteView {
	v := noteView{Number: n.Number, Rule: format.Clean(n.Rule), Severity: format.Clean(string(n.Severity)), Hint: format.Clean(n.Hint)}
	for _, s := range n.Sentences(0) {
		v.Lines = append(v.Lines, format.Unbroken(format.Clean(s)))
	}
	return v
}

// linesOfNote is how many lines of a note are read at a glance.
const linesOfNote = 4

func (n *noteView) fold() {
	if len(n.Lines) > linesOfNote+1 {
		n.Lines, n.More = n.Lines[:linesOfNote], n.Lines[linesOfNote:]
	}
}

func sortedPairs(m map[string]string) []pairView {
	var out []pairView
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pairView{format.Clean(k), format.Clean(m[k])})
	}
	return out
}

// What other pages that show results share with the report, so that a number looks the same everywhere.

// CSS is the style of the HTML report: colours for light, dark and print, tables, notes, verdicts.
func CSS() string { return PageCSS }

// VerdictClass is the class of the page's style that colours a verdict.
func VerdictClass(v stat.Verdict) string { return verdictClass(v) }
