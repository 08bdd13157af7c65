package statsim

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/dustin/go-humanize"

	"iotax/internal/report/format"
)

//go:embed page.tmpl
var pageText string

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"pc": pc, "share": share, "coarse": coarse, "thousands": thousands, "alarms": alarms, "wrap": wrap,
	"prefix": strings.HasPrefix, "suffix": strings.HasSuffix,
	"percent": func(x float64) string { return fmt.Sprintf("%.1f", 100*x) },
	"gate":    func() float64 { return Gate }, "flagGate": func() float64 { return FlagGate },
	"confidence": func() float64 { return 1 - alpha },
}).Parse(pageText))

// A page contains the data for the templates.
type page struct {
	*Result
	Ours, Latency       summary // of iotax's own policy: for rates, and for latency percentiles
	Flagged             []*Row
	Unflagged, Held     string
	Models, Rules, More []string
	LatencyModels       []string
	Percentiles         []string
	LatencyStudies      int
	Texts               []*Model
	Policies            []*Policy
	DefaultLooks        []int
	Timing              Timing

	Preconditioning, Calibration, Jitter float64
}

// A summary contains the rows of one kind. Promised counts the rows for which the method promises a coverage of 95 %,
// and Met counts those of them that reach Gate.
type summary struct {
	Of                string // plural noun for the rows on the page, such as "models"
	Rows, Short       []*Row // all rows, and those for which Row.short returns true
	Promised, Met     int
	Low, Wrong, Equal *Row // of the rows counted in Promised: those with the lowest Lo, the highest FalseDifferent and the highest FalseEqual
}

func (s *summary) add(x *Row) {
	worst := func(to **Row, of func(*Row) float64) {
		if *to == nil || of(x) > of(*to) {
			*to = x
		}
	}
	s.Rows = append(s.Rows, x)
	if x.short() {
		s.Short = append(s.Short, x)
	}
	if !x.Promised {
		return
	}
	s.Promised++
	if x.Met() {
		s.Met++
	}
	worst(&s.Low, func(x *Row) float64 { return -x.Lo })
	worst(&s.Wrong, func(x *Row) float64 { return x.FalseDifferent })
	worst(&s.Equal, func(x *Row) float64 { return x.FalseEqual })
}

func (r *Result) page() *page {
	p := &page{Result: r, DefaultLooks: defaultLooks, Timing: ours, Preconditioning: Preconditioning, Calibration: Calibration, Jitter: 100 * jitter,
		Ours: summary{Of: "models"}, Latency: summary{Of: "pairs of a model and a percentile of latency"}, LatencyStudies: latencyStudies(r.Studies)}
	once := func(to *[]string, name string) {
		if !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	var unflagged, held []string
	for _, x := range r.Rows {
		if x.Quantile > 0 {
			once(&p.LatencyModels, x.Model)
			once(&p.Percentiles, x.Policy)
			p.Latency.add(x)
			continue
		}
		once(&p.Models, x.Model)
		if x.Policy != Ours {
			continue
		}
		p.Ours.add(x)
		if x.Flags != nil {
			p.Flagged = append(p.Flagged, x)
		}
		switch {
		case x.Promised:
		case x.Met():
			held = append(held, x.Model)
		case x.Unflagged():
			unflagged = append(unflagged, x.Model)
		}
	}
	p.Unflagged, p.Held = strings.Join(unflagged, ", "), strings.Join(held, ", ")
	for _, m := range Models() {
		if n := len(p.Texts); n == 0 || p.Texts[n-1].Text != m.Text {
			p.Texts = append(p.Texts, m)
		}
	}
	p.Policies = Policies()
	ran := func(policy string) bool {
		return slices.ContainsFunc(r.Rows, func(x *Row) bool { return x.Policy == policy })
	}
	for _, q := range p.Policies {
		if (q.protocol == nil || q.Name == Ours) && ran(q.Name) {
			p.Rules = append(p.Rules, q.Name)
		}
	}
	if more := []string{"from-12", "all-30", "widened"}; slices.ContainsFunc(more, ran) {
		p.More = more
	}
	return p
}

// Name identifies the row among rows of the same kind.
func (r *Row) Name() string {
	if r.Quantile > 0 {
		return r.Model + ", " + r.Policy
	}
	return r.Model
}

// short reports whether the row has a coverage below 95 % and does not reach Gate, and the method does not promise 95 %
// for it.
func (r *Row) short() bool { return !r.Promised && !r.Met() && r.Coverage < 1-alpha }

// Unflagged reports whether the coverage of the row is too low and the checks flag too few of its studies. Only models
// of M3, M5-one-arm and M7 can be unflagged.
func (r *Row) Unflagged() bool {
	return r.short() && r.Flags != nil && r.Flags.Any < FlagGate &&
		slices.ContainsFunc([]string{"M3", "M5-one-arm", "M7"}, func(f string) bool { return strings.HasPrefix(r.Model, f) })
}

// Look returns the studies that ended after n rounds, or nil if they are fewer than 0.05 % of the studies.
func (r *Row) Look(n int) *Look {
	i := slices.IndexFunc(r.Looks, func(l Look) bool { return l.Rounds == n })
	if i < 0 || r.Looks[i].Share < .0005 {
		return nil
	}
	return &r.Looks[i]
}

func (p *page) print(name string) string {
	var b strings.Builder
	if err := pages.ExecuteTemplate(&b, name, p); err != nil {
		panic(err) // a Builder cannot fail, and the templates are embedded
	}
	return strings.TrimSpace(b.String())
}

func (p *page) M9() string { return p.print("M9") }

// Markdown returns the page docs/dev/evaluation.md.
func (r *Result) Markdown() string { return r.page().print("page") + "\n" }

// Sentences returns the results as sentences.
func (r *Result) Sentences() []string {
	return strings.FieldsFunc(r.page().print("sentences"), func(c rune) bool { return c == '\n' })
}

// Text formats the result for a terminal. It wraps the sentences at `width` columns.
func (r *Result) Text(width int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tPOLICY\tCOVERAGE\t±\tROUNDS\tSECONDS\tFLAGGED")
	for _, x := range r.Rows {
		flagged := ""
		if x.Flags != nil {
			flagged = share(x.Flags.Any)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%.0f\t%s\n", x.Model, x.Policy, coverage(x), coarse(x.HalfWidth), x.Rounds, x.DeviceSeconds, flagged)
	}
	w.Flush() // a Builder cannot fail
	for _, s := range r.Sentences() {
		if !strings.HasPrefix(s, "- ") {
			b.WriteString("\n")
		}
		b.WriteString(wrap(plain.Replace(s), width) + "\n")
	}
	return b.String()
}

// plain removes the asterisks and backquotes of Markdown.
var plain = strings.NewReplacer("*", "", "`", "")

func coverage(x *Row) string {
	return fmt.Sprintf("%.1f %% [%.1f, %.1f]", 100*x.Coverage, 100*x.Lo, 100*x.Hi)
}

// ReplayText formats a replay for a terminal.
func ReplayText(rows []*Replayed) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	seen := ""
	for _, x := range rows {
		if x.Model != seen {
			w.Flush()
			if seen != "" {
				b.WriteString("\n")
			}
			seen = x.Model
			fmt.Fprintf(&b, "%s\n  recorded: %d rounds of %.0f s, ratio %.3f\n", x.Model, x.Recorded, x.Seconds, x.Truth)
			fmt.Fprintln(w, "  POLICY\tCOVERAGE\t±\tREACHED ± 5 %")
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", x.Policy, coverage(&x.Row), coarse(x.HalfWidth), share(x.Reached))
	}
	w.Flush()
	return b.String()
}

func alarms(as []Alarm, from float64) string {
	var out []string
	for _, a := range slices.SortedStableFunc(slices.Values(as), func(a, b Alarm) int { return cmp.Compare(b.Share, a.Share) }) {
		if a.Share >= from {
			out = append(out, fmt.Sprintf("%s %s", a.Rule, share(a.Share)))
		}
	}
	return strings.Join(out, ", ")
}

// pc formats a share in percent with one decimal.
func pc(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// share formats a share in whole percent. Small shares have more digits.
func share(x float64) string {
	switch {
	case x == 0:
		return "0 %"
	case x < .001:
		return "< 0.1 %"
	}
	return coarse(x)
}

func coarse(x float64) string {
	if x >= .0995 {
		return fmt.Sprintf("%.0f %%", 100*x)
	}
	return pc(x)
}

func thousands(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return strings.ReplaceAll(humanize.Comma(int64(math.RoundToEven(x))), ",", "\u202f")
}

// wrap wraps a paragraph. List items have a hanging indent.
func wrap(s string, width int) string {
	text := strings.TrimPrefix(s, "- ")
	mark := s[:len(s)-len(text)]
	return mark + strings.Join(format.Break(text, width-len(mark)), "\n"+strings.Repeat(" ", len(mark)))
}
