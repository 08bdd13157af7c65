package trend

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"iotax"
	"iotax/internal/report/block"
	"iotax/internal/report/document"
	"iotax/internal/report/format"
	"iotax/stat"
)

// foremost lists the suffixes of the metrics whose links are always visible, in addition to the headline metrics. The
// links to all other metrics are folded.
var foremost = []string{".iops", ".bandwidth", ".latency.mean", ".latency.p99", ".duration"}

// Address returns the address of a trend's page on the server.
func Address(o Options) string {
	v := url.Values{"workload": {o.Cell.Workload}, "target": {o.Cell.Target}}
	for key, value := range map[string]string{"name": o.Name, "metric": o.Metric, "by": o.By} {
		if value != "" {
			v.Set(key, value)
		}
	}
	if o.Runs != 0 && o.Runs != Runs {
		v.Set("runs", strconv.Itoa(o.Runs))
	}
	return "/trend?" + v.Encode()
}

const minute = "2006-01-02 15:04"

// Document returns the page of the trend. If served is set, it links to other pages of iotax serve.
func (d *Trend) Document(served bool) block.Document {
	doc := block.Document{Title: d.Cell.Target + ", " + d.Cell.Workload}
	if d.Name != "" {
		doc.About = "runs named " + d.Name
	}
	points := d.Points()
	add := func(b ...block.Block) { doc.Blocks = append(doc.Blocks, b...) }
	quiet := func(text string) block.Paragraph { return block.Paragraph{Text: text, Tone: block.Quiet} }
	add(block.Answer{Text: d.answer()})
	if served {
		add(d.choices()...)
	}

	what := d.Label()
	switch {
	case d.Better == iotax.Neither:
	case d.ByRatio:
		what += "; more is better for the target"
	case d.Better == iotax.Up:
		what += "; more is better"
	case d.Better == iotax.Down:
		what += "; less is better"
	}
	what += ". A dot is a run"
	if d.bounded() {
		what += ", with its 95 % interval"
	}
	what += ", on a logarithmic axis; the lines are the levels between change points."
	if points < len(d.Dots) {
		what += " Hollow dots take no part: see the table."
	}
	add(block.Charts{Charts: []block.Chart{{Name: "trend", Drawing: d.chart(wideTrend), Narrow: d.chart(narrowTrend),
		Caption: what}}},
		block.Heading{Text: "Changes", ID: "changes"})

	changes := block.Table{Head: []string{"since the run of", "change", "p",
		"verdict (± " + format.Percent(d.margin) + ")",
		"what differs from the run before"}, Wraps: []int{4}}
	for _, c := range slices.Backward(d.Changes) {
		before, after := d.Dots[c.Before].Run, d.Dots[c.After].Run
		var differ []string
		for _, x := range c.differences {
			s := x.Key + ": " + x.Step()
			if where := x.Place(2); where != "" {
				s += " (" + where + ")"
			}
			differ = append(differ, s)
		}
		differ = format.Cut(differ, 6, "difference")
		if differ == nil {
			differ = []string{"nothing that the runs recorded"}
		}
		row := block.Words(after.Start.UTC().Format(minute), d.words().Interval(c.Ratio), strconv.FormatFloat(c.P, 'g', 1, 64),
			format.Verdict(c.Verdict, false), strings.Join(differ, "; "))
		row.Cells[3].Tone = document.Tone(c.Verdict)
		if served {
			row.Cells[0].Link = runLink(after)
			row.Cells[4].Link = block.Link{Text: "compare the two", Href: "/compare?" + url.Values{"run": {before.ID, after.ID}}.Encode()}
		}
		changes.Rows = append(changes.Rows, row)
	}
	switch {
	case changes.Rows != nil:
		add(changes)
	case points < 10:
		add(block.Paragraph{Text: "Fewer than ten runs cannot show a change: chance alone makes one as large too often."})
	default:
		add(block.Paragraph{Text: "None."})
	}
	add(quiet("Change points are found by E-divisive, with permutations: without a change, one in a hundred such trends shows one, "+
		"whatever the noise; runs that resemble their neighbours show more. A change lasts for three runs at least. "+
		"The interval ignores that the place of the change is uncertain, so it is a little too narrow."), block.Heading{Text: "Runs", ID: "points"})

	runs := block.Table{Head: []string{"started (UTC)", "name", d.label, "remarks"}, Wraps: []int{1, 3}}
	if d.ByRatio {
		runs.Head[2] = "ratio"
	}
	for _, dot := range slices.Backward(d.Dots) { // newest first, as in all lists
		row := block.Words(dot.Run.Start.UTC().Format(minute), dot.Run.Name, d.text(dot.Value), "")
		if served {
			row.Cells[0].Link = runLink(dot.Run)
		}
		if dot.Unlike != "" {
			row.Cells[2].Tone, row.Cells[3].Text = block.Quiet, "takes no part: "+dot.Unlike
		}
		runs.Rows = append(runs.Rows, row)
	}
	add(runs)
	return doc
}

func runLink(r iotax.Run) block.Link {
	return block.Link{Text: r.ID, Href: "/runs/" + url.PathEscape(r.ID)}
}

// choices returns links to other metrics of the cell, to the value or the ratio, and to the trend of all runs.
func (d *Trend) choices() (out []block.Block) {
	link := func(text string, change func(*Options)) block.Link {
		o := d.Options
		change(&o)
		return block.Link{Text: text, Href: Address(o)}
	}
	var numbers, more, other []block.Link
	for _, f := range d.metrics {
		switch l := link(f.label, func(o *Options) { o.Metric = f.metric }); {
		case f.metric == d.Metric:
		case f.headline || slices.ContainsFunc(foremost, func(end string) bool { return strings.HasSuffix(f.metric, end) }):
			numbers = append(numbers, l)
		default:
			more = append(more, l)
		}
	}
	if d.hasRatio && d.ByRatio {
		other = append(other, link(ByValue, func(o *Options) { o.By = ByValue }))
	} else if d.hasRatio {
		other = append(other, link("ratio to "+d.against, func(o *Options) { o.By = ByRatio }))
	}
	if d.Name != "" {
		other = append(other, link("all runs", func(o *Options) { o.Name = "" }))
	}
	for _, p := range []block.Paragraph{{Text: "Shown: " + d.label + ". Also:", Links: numbers}, {Text: "Instead:", Links: other}} {
		if p.Links != nil {
			p.Tone = block.Quiet
			out = append(out, p)
		}
	}
	if more != nil {
		out = append(out, block.Fold{Summary: format.Plural(len(more), "more number"),
			Blocks: []block.Block{block.Paragraph{Links: more}}})
	}
	return out
}

func (d *Trend) text(i stat.Interval) string {
	if d.ByRatio {
		return format.Ratio(i)
	}
	return format.Value(i, d.Unit)
}

// Points returns the number of dots that are included in the analysis.
func (d *Trend) Points() (n int) {
	for _, dot := range d.Dots {
		if dot.Unlike == "" {
			n++
		}
	}
	return n
}

// Label returns the metric's label, with the reference if the trend shows ratios.
func (d *Trend) Label() string {
	if d.ByRatio {
		return d.label + ", ratio to " + d.against
	}
	return d.label
}

func (d *Trend) answer() string {
	what := format.Clean(format.Subject(d.Cell.Workload, d.label) + " at " + d.Cell.Target)
	if len(d.Changes) == 0 {
		what += ":"
	}
	return what + " " + d.Outcome()
}

// Outcome describes the last change. Without a change, it reports the number of runs, and whether they are too few.
func (d *Trend) Outcome() string {
	if n := d.Points(); len(d.Changes) == 0 {
		rest := ""
		if others := len(d.Dots) - n; others > 0 {
			rest = fmt.Sprintf("; %d more take no part", others)
		}
		if n < 10 {
			return fmt.Sprintf("%d runs, too few to separate a change from chance", n) + rest
		}
		return fmt.Sprintf("no change in %d runs", n) + rest
	}
	c := d.Changes[len(d.Changes)-1]
	word := "changed: "
	switch c.Verdict {
	case stat.Worse:
		word = "got worse: "
	case stat.Better:
		word = "got better: "
	}
	form := "2 January 2006"
	if day(d.Dots[c.Before].Run) == day(d.Dots[c.After].Run) {
		form += ", 15:04"
	}
	return word + d.words().Interval(c.Ratio) + ", since the run of " + d.Dots[c.After].Run.Start.UTC().Format(form)
}

func (d *Trend) words() format.Contrast { return format.ContrastOf(d.Metric, d.Better, d.Unit) }

func day(r iotax.Run) string { return r.Start.UTC().Format(time.DateOnly) }
