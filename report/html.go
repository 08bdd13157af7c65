package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"iotax"
	"iotax/stat"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean": clean,
	"f":     func(x float64) string { return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64) },
	"add":   func(a, b float64) float64 { return a + b },
	"neg":   func(a float64) float64 { return -a },
}).Parse(pageHTML))

// HTML writes the report as one self-contained page: no script, no request, light and dark by the
// reader's preference, fit for print and for a phone.
func (r *Report) HTML(w io.Writer) error { return r.Page(w, "", "") }

// Page writes the report as HTML does, with head at the end of the page's head and top at the start of its
// body: what a server puts around it.
func (r *Report) Page(w io.Writer, head, top template.HTML) error {
	var b bytes.Buffer
	v := r.view()
	v.Head, v.Top = head, top
	if err := pageTemplate.Execute(&b, v); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// pageView is what the template prints: strings and coordinates, nothing to compute.
type pageView struct {
	CSS                           template.CSS
	Head, Top                     template.HTML
	Title, Answer, When, Status   string
	Environment, Protocol, Method string
	Version, ID, Baseline, Margin string
	Wide, Narrow                  *forest
	Groups                        []groupView
	Curves                        []curveView
	General                       []noteView
	Notes                         []noteView
	Facts                         []pairView
	Targets                       []targetView
	Boots                         []bootView
	Trials                        []trialView
	Next                          []string
	Counts                        string
}

type pairView struct{ Key, Value string }

type groupView struct {
	ID, Workload, Sub string
	Sections          []sectionView
	Columns           []string // of the secondary table
	Secondary         []secondaryView
}

type sectionView struct {
	Label, Direction string
	Rows             []rowView
	Ticks            []tickView
}

type rowView struct {
	Target, Value, Bounds, Ratio, RatioBounds, Verdict, Class, Err, Trials string
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
	Mend     string
}

type targetView struct {
	Name, Machine, Place, Durability, Err string
	Facts                                 []pairView
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
	case stat.Inconclusive:
		return "unsure"
	case stat.NoVerdict:
		return "base"
	case stat.NotRanked:
		return "unlike"
	}
	return "void"
}

func (r *Report) view() pageView {
	v := pageView{
		CSS:   template.CSS(pageCSS), // ours, from the binary
		Title: clean(r.Run.Name), Answer: clean(r.Answer), Status: clean(string(r.Run.Status)),
		Environment: strings.NewReplacer(" · ", nbsp+"· ", " × ", nbsp+"×"+nbsp).Replace(clean(r.environmentLine())), Protocol: bind(r.protocolLine()), Method: bind(r.noiseLine() + " " + r.methodLine()),
		Version: clean(r.Run.Version), ID: clean(r.Run.ID), Baseline: clean(r.Baseline), Margin: percent(r.Margin),
		Wide: r.forest(wideForest), Narrow: r.forest(narrowForest), Next: r.next(),
	}
	if v.Title == "" {
		v.Title = "iotax"
	}
	if !r.Run.Start.IsZero() {
		v.When = r.Run.Start.UTC().Format("2 January 2006, 15:04 UTC")
		if d := r.Run.End.Sub(r.Run.Start); !r.Run.End.IsZero() && d > 0 {
			v.When += ", took " + d.Round(time.Second).String()
		}
	}
	failed, void := 0, 0
	for _, t := range r.Trials {
		if t.Err != "" {
			failed++
		}
		if t.Void != "" {
			void++
		}
	}
	v.Counts = fmt.Sprintf("%s, %d failed, %d void", plural(len(r.Trials), "trial"), failed, void)

	for i, s := range r.Sections {
		if i == 0 || s.Workload != r.Sections[i-1].Workload {
			g := groupView{ID: fmt.Sprintf("w%d", len(v.Groups)+1), Workload: clean(s.Workload)}
			g.Sub = strings.TrimPrefix((&textWriter{Report: r}).heading(s), s.Workload+" · ")
			g.Columns, g.Secondary = secondaryTable(s)
			v.Groups = append(v.Groups, g)
		}
		g := &v.Groups[len(v.Groups)-1]
		g.Sections = append(g.Sections, r.sectionView(s))
	}
	for _, c := range r.Curves {
		v.Curves = append(v.Curves, c.view())
	}
	for _, n := range slices.Concat(r.General, r.Common) {
		v.General = append(v.General, viewNote(n))
	}
	for _, n := range r.Notes {
		v.Notes = append(v.Notes, viewNote(n))
	}
	v.Facts = sortedPairs(r.Run.Environment)
	r.viewTargets(&v)
	r.viewTrials(&v)
	return v
}

func viewNote(n Note) noteView {
	v := noteView{Number: n.Number, Rule: clean(n.Rule), Severity: clean(string(n.Severity)), Mend: clean(n.Mend)}
	for _, s := range n.sentences(0) {
		v.Lines = append(v.Lines, bind(clean(s)))
	}
	return v
}

func sortedPairs(m map[string]string) []pairView {
	var out []pairView
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pairView{clean(k), clean(m[k])})
	}
	return out
}

func (r *Report) sectionView(s Section) sectionView {
	v := sectionView{Label: s.Label}
	switch s.Better {
	case iotax.Up:
		v.Direction = "more is better"
	case iotax.Down:
		v.Direction = "less is better"
	}
	top := 0.0
	blocks := map[int]bool{}
	for _, row := range s.Rows {
		for _, d := range row.Dots {
			top = math.Max(top, d.Value)
			blocks[d.Block] = true
		}
	}
	order := slices.Sorted(maps.Keys(blocks))
	step := niceStep(top/4, s.Unit)
	top *= 1.04
	x := func(value float64) float64 { return 100 * value / top }
	if top > 0 {
		for k := 0; float64(k)*step <= top; k++ {
			t := tickView{X: x(float64(k) * step), Anchor: "middle", Label: "0", First: k == 0}
			if k == 0 {
				t.Anchor = "start"
			} else {
				sc := scaleOf(s.Unit, float64(k)*step)
				y := float64(k) * step / sc.factor
				t.Label = withUnit(strconv.FormatFloat(math.Round(y*1000)/1000, 'f', -1, 64)+sc.prefix, sc.unit)
			}
			if t.X > 92 {
				t.Anchor = "end"
			}
			v.Ticks = append(v.Ticks, t)
		}
	}
	for _, row := range s.Rows {
		rv := rowView{Target: clean(row.Target), Baseline: row.Baseline, Verdict: verdictWord(row.Verdict, false), Class: verdictClass(row.Verdict),
			Notes: row.Notes, Err: clean(row.Err), HasValue: row.Err == "" && row.Value.N > 0}
		if rv.HasValue {
			full := bounds(row.Value, s.Unit)
			rv.Value, rv.Bounds = splitBounds(full)
		}
		if row.Ratio != nil {
			rv.Ratio, rv.RatioBounds = splitBounds(formatRatio(row.Ratio.Interval))
		}
		rv.Trials = fmt.Sprintf("%s, %d failed, %d in void blocks", plural(row.Ran, "trial"), row.Failed, row.Voided)
		if top > 0 {
			rv.HasInterval = finite(row.Value)
			rv.Median, rv.Lo, rv.Hi = x(row.Value.Estimate), x(row.Value.Lo), x(row.Value.Hi)
			for _, d := range row.Dots {
				i, _ := slices.BinarySearch(order, d.Block)
				dv := dotView{X: x(d.Value), Y: 20, Title: fmt.Sprintf("block %d: %s", d.Block, number(stat.Interval{Estimate: d.Value, Lo: d.Value * .995, Hi: d.Value * 1.005}, s.Unit))}
				if len(order) > 1 {
					dv.Y = 7 + 26*float64(i)/float64(len(order)-1)
				}
				if d.Void {
					dv.Class, dv.Title = "gone", dv.Title+", void"
				} else if d.Tag != stat.Inside {
					dv.Title += ", " + string(d.Tag) + " outlier"
				}
				rv.Dots = append(rv.Dots, dv)
			}
		}
		v.Rows = append(v.Rows, rv)
	}
	return v
}

// splitBounds parts "310 [300, 318] MiB/s" into "310 MiB/s" and "[300, 318]".
func splitBounds(s string) (value, brackets string) {
	i, j := strings.Index(s, " ["), strings.Index(s, "]")
	if i < 0 || j < i {
		return s, ""
	}
	return s[:i] + s[j+1:], s[i+1 : j+1]
}

// niceStep rounds x up to 1, 2 or 5 times a power of ten, or of two where the unit is bytes.
func niceStep(x float64, unit string) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	base := 1.0
	if unit == iotax.Bytes || unit == iotax.BytesPerSecond {
		base = scaleOf(unit, x).factor
	}
	x /= base
	p := math.Pow10(int(math.Floor(math.Log10(x))))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*p >= x*(1-1e-9) {
			return m * p * base
		}
	}
	return 10 * p * base
}

// secondaryTable lists what else a workload's cells measured: a row each, a column for each target.
func secondaryTable(s Section) (columns []string, rows []secondaryView) {
	at := map[string]int{}
	for _, r := range s.Rows {
		if len(r.Secondary) == 0 {
			continue
		}
		for _, f := range r.Secondary {
			i, ok := at[f.Name]
			if !ok {
				i = len(rows)
				at[f.Name] = i
				label := f.Label
				if f.Merged {
					label += ", all trials together"
				}
				rows = append(rows, secondaryView{Label: label})
			}
			cell := bounds(f.Value, f.Unit)
			switch {
			case f.Short:
				cell = fmt.Sprintf("n/a (%s beyond)", plural(f.Beyond, "sample"))
			case f.Merged:
				e := f.Value.Estimate
				f.Value.Lo, f.Value.Hi = e*(1-2*stat.HistogramError), e*(1+2*stat.HistogramError)
				cell = number(f.Value, f.Unit)
			}
			for len(rows[i].Cells) < len(columns) {
				rows[i].Cells = append(rows[i].Cells, dash)
			}
			rows[i].Cells = append(rows[i].Cells, cell)
		}
		columns = append(columns, clean(r.Target))
	}
	for i := range rows {
		for len(rows[i].Cells) < len(columns) {
			rows[i].Cells = append(rows[i].Cells, dash)
		}
	}
	return columns, rows
}

func (r *Report) viewTargets(v *pageView) {
	booted := map[string]bool{}
	for _, t := range r.Run.Targets {
		tv := targetView{Name: clean(t.Name), Machine: clean(t.Machine), Place: clean(t.Place), Durability: clean(string(t.Durability)), Err: clean(t.Err)}
		facts := maps.Clone(t.Facts)
		for k, val := range t.Labels {
			if facts == nil {
				facts = map[string]string{}
			}
			facts["label."+k] = val
		}
		var boot []iotax.Phase
		for k, val := range t.Facts {
			name, ok := strings.CutPrefix(k, "boot.")
			if d, err := time.ParseDuration(val); ok && err == nil && d >= 0 {
				boot = append(boot, iotax.Phase{Name: name, At: d})
				delete(facts, k)
			}
		}
		tv.Facts = sortedPairs(facts)
		v.Targets = append(v.Targets, tv)
		if len(boot) > 1 && !booted[t.Machine] {
			booted[t.Machine] = true
			v.Boots = append(v.Boots, viewBoot(clean(t.Machine), boot))
		}
	}
	longest := 0.0
	for _, b := range v.Boots {
		for _, p := range b.Phases {
			longest = math.Max(longest, p.X+p.W)
		}
	}
	for i := range v.Boots {
		for j := range v.Boots[i].Phases {
			p := &v.Boots[i].Phases[j]
			p.X, p.W = 100*p.X/longest, 100*p.W/longest
		}
	}
}

// viewBoot turns moments into phases: what was reached at At took the time since the one before.
func viewBoot(machine string, boot []iotax.Phase) bootView {
	slices.SortFunc(boot, func(a, b iotax.Phase) int { return int(a.At - b.At) })
	b := bootView{Machine: machine, Total: boot[len(boot)-1].At.Round(time.Millisecond).String()}
	last := time.Duration(0)
	for _, p := range boot {
		if d := p.At - last; d > 0 {
			b.Phases = append(b.Phases, phaseView{X: last.Seconds(), W: d.Seconds(), Name: clean(p.Name), At: p.At.Round(time.Millisecond).String(),
				Class: fmt.Sprintf("p%d", len(b.Phases)%4)})
		}
		last = p.At
	}
	return b
}

func (r *Report) viewTrials(v *pageView) {
	metric := map[string]string{}
	for _, s := range r.Sections {
		if s.First {
			metric[s.Workload] = s.Metric
		}
	}
	for _, t := range r.Trials {
		tv := trialView{Seq: t.Seq, Block: t.Block, Workload: clean(t.Workload), Target: clean(t.Target), Value: dash,
			Took: t.Took.Round(100 * time.Millisecond).String(), Outcome: "counts"}
		if !t.Start.IsZero() {
			tv.At = t.Start.UTC().Format("15:04:05")
		}
		if val, ok := t.Value(metric[t.Workload]); ok {
			tv.Value = number(stat.Interval{Estimate: val.Value, Lo: val.Value * .995, Hi: val.Value * 1.005}, val.Unit)
		}
		var rules []string
		for _, f := range t.Findings {
			if !slices.Contains(rules, clean(f.Rule)) {
				rules = append(rules, clean(f.Rule))
			}
		}
		if len(rules) > 0 {
			tv.Outcome = "counts; " + strings.Join(rules, ", ")
		}
		if t.Void != "" {
			tv.Outcome, tv.Class = "void: "+clean(t.Void), "gone"
		}
		if t.Err != "" {
			tv.Outcome, tv.Class = "failed: "+clean(t.Err), "bad"
		}
		v.Trials = append(v.Trials, tv)
	}
}

// A forestShape is the size of a forest plot, in pixels. Label 0 puts names above their intervals.
type forestShape struct {
	ID                         string
	Width, Label, Right        float64
	Row, Head, Margin, TickGap float64
}

var (
	wideForest   = forestShape{ID: "wide", Width: 1040, Label: 250, Right: 318, Row: 28, Head: 40, Margin: 4, TickGap: 44}
	narrowForest = forestShape{ID: "narrow", Width: 358, Label: 0, Right: 0, Row: 28, Head: 42, Margin: 4, TickGap: 40}
)

// A forest is the plot of all ratios on one logarithmic axis.
type forest struct {
	forestShape
	Height, Left, PlotRight, Top, Bottom float64
	One, BandLo, BandHi                  float64
	Ticks                                []tickView
	Heads                                []forestHead
	Rows                                 []forestRow
	Stacked                              bool
	Desc                                 string
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

func (r *Report) forest(shape forestShape) *forest {
	any := false
	for _, s := range r.Sections {
		for _, row := range s.Rows {
			any = any || row.Ratio != nil
		}
	}
	if !any {
		return nil
	}
	f := &forest{forestShape: shape, Stacked: shape.Label == 0, Left: shape.Label + shape.Margin, PlotRight: shape.Width - shape.Right - shape.Margin, Top: 46}
	if f.Stacked {
		f.Left += 4
		f.PlotRight -= 4
	}
	lo, hi := r.ratioRange()
	x := func(v float64) float64 {
		t := (math.Log(v) - math.Log(lo)) / (math.Log(hi) - math.Log(lo))
		return f.Left + math.Min(1, math.Max(0, t))*(f.PlotRight-f.Left)
	}
	f.One, f.BandLo, f.BandHi = x(1), x(1/(1+r.Margin)), x(1+r.Margin)
	last := math.Inf(-1)
	for _, t := range ticks(lo, hi) {
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
	for _, s := range r.Sections {
		y += f.Head
		f.Heads = append(f.Heads, forestHead{Y: y - 12, Label: clean(subject(s.Workload, s.Label))})
		for _, row := range s.Rows {
			if row.Baseline {
				continue
			}
			fr := forestRow{Full: clean(row.Target), Verdict: verdictWord(row.Verdict, true), Class: verdictClass(row.Verdict)}
			if e := row.Ratio; e != nil && e.Estimate > 0 && !math.IsInf(e.Estimate, 0) {
				fr.HasMark, fr.X = true, x(e.Estimate)
				fr.Ratio, fr.Bounds = splitBounds(formatRatio(e.Interval))
				if finite(e.Interval) && e.Lo > 0 {
					fr.HasInterval, fr.Lo, fr.Hi = true, x(e.Lo), x(e.Hi)
					fr.Caps = fr.Hi-fr.Lo > 16
					fr.CutLo, fr.CutHi = e.Lo < lo, e.Hi > hi
				}
				said = append(said, fmt.Sprintf("%s, %s: %s, %s", subject(s.Workload, s.Label), row.Target, formatRatio(e.Interval), verdictWord(row.Verdict, false)))
			}
			y = fr.place(f, y)
			fr.Diamond, fr.Cross = fr.Class == "same", fr.Class == "void"
			const d = 6
			fr.Points = fmt.Sprintf("%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f", fr.X-d, fr.Y, fr.X, fr.Y-d, fr.X+d, fr.Y, fr.X, fr.Y+d)
			f.Rows = append(f.Rows, fr)
		}
	}
	f.Bottom = y + 6
	f.Height = f.Bottom + 26
	f.Desc = clean(strings.Join(said, "; "))
	return f
}

// lineHeight and perChar are those of the plot's 13 px text; the browser's font may be a little
// narrower, never much wider.
const (
	lineHeight = 16.0
	perChar    = 7.0
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
	lines := wrap(r.Full, int(room/perChar))
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
