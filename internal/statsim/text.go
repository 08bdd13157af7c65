package statsim

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Text is the result for a terminal of so many columns.
func (r *Result) Text(width int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tPOLICY\tCOVERAGE\t±\tBLOCKS\tSECONDS\tFLAGGED")
	for _, x := range r.Rows {
		flagged := ""
		if x.Flags != nil {
			flagged = share(x.Flags.Any)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%.0f\t%s\n", x.Model, x.Policy, coverage(x), coarse(x.HalfWidth), x.Blocks, x.DeviceSeconds, flagged)
	}
	w.Flush() // a Builder does not fail
	for _, s := range r.Sentences() {
		if !strings.HasPrefix(s, "- ") {
			b.WriteString("\n")
		}
		b.WriteString(wrap(plain.Replace(s), width) + "\n")
	}
	return b.String()
}

// plain drops the marks of Markdown.
var plain = strings.NewReplacer("*", "", "`", "")

func coverage(x *Row) string {
	return fmt.Sprintf("%.1f %% [%.1f, %.1f]", 100*x.Coverage, 100*x.Lo, 100*x.Hi)
}

// ReplayText is a replay for a terminal.
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
			fmt.Fprintf(&b, "%s\n  recorded: %d blocks of %.0f s, ratio %.3f\n", x.Model, x.Recorded, x.Seconds, x.Truth)
			fmt.Fprintln(w, "  POLICY\tCOVERAGE\t±\tREACHED ± 5 %")
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", x.Policy, coverage(&x.Row), coarse(x.HalfWidth), share(x.Reached))
	}
	w.Flush()
	return b.String()
}
