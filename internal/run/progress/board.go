package progress

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"iotax"
	"iotax/internal/report/format"
	"iotax/internal/run"
	"iotax/internal/terminal"
)

// A board contains the state that a terminal shows while a run measures.
type board struct {
	rows    []*boardRow
	status  string // shown in place of the current trial: "preparing …"
	target  string // of the current trial
	work    string // workload of the current trial
	begun   time.Time
	planned time.Duration // ramp and length of the trial
	left    time.Duration // time from the start of the trial to the end of the run
}

// A boardRow is the state of one workload.
type boardRow struct {
	workload      string
	round, rounds int
	counted       int     // number of valid rounds when the last round ended
	repeated      bool    // the last round was not valid, so it is run again
	half          float64 // half-width of the widest interval; 0 if unknown
	precision     float64
	last          string // target of the last trial
	iops, through string // of the last trial
}

// mostRows limits the workloads shown, so that a small terminal keeps room for permanent lines.
const mostRows = 8

func (b *board) index(workload string) int {
	return slices.IndexFunc(b.rows, func(r *boardRow) bool { return r.workload == workload })
}

func (b *board) row(e run.Event) *boardRow {
	if i := b.index(e.Workload); i >= 0 {
		return b.rows[i]
	}
	r := &boardRow{workload: e.Workload}
	b.rows = append(b.rows, r)
	return r
}

// take updates the board with event e, which happened at time now.
func (b *board) take(e run.Event, now time.Time) {
	switch e.Kind {
	case run.Starting, run.Finished, run.RoundDone:
		r := b.row(e)
		r.round, r.rounds = e.Round, e.Rounds
		r.half, r.precision = e.HalfWidth, e.Precision
		b.status = ""
		if e.Kind == run.Starting {
			b.target, b.work, b.begun, b.left = e.Target, e.Workload, now, e.Left
			b.planned = 0
			if e.Trial != nil {
				b.planned = e.Trial.Ramp + e.Trial.Length
			}
			return
		}
		if e.Kind == run.RoundDone {
			r.repeated, r.counted = e.Round == r.counted, e.Round
			return
		}
		r.last, r.iops, r.through = e.Target, "", ""
		if t := e.Trial; t != nil {
			r.iops, r.through = speeds(t, e.Metric)
		}
	case run.CellsDone:
		b.rows = slices.DeleteFunc(b.rows, func(r *boardRow) bool { return r.workload == e.Workload })
	}
}

// speeds returns the IOPS and bandwidth of a trial, each summed over reads, writes and trims. If the trial failed, was
// discarded or has neither value, `iops` is the outcome of the trial.
func speeds(t *iotax.Trial, metric string) (iops, bandwidth string) {
	if t.Err != "" {
		return "failed", ""
	}
	if t.Discarded != "" {
		return "discarded", ""
	}
	sum := map[string]iotax.Value{}
	for _, v := range t.Values {
		op, what, _ := strings.Cut(v.Name, ".")
		if what != "iops" && what != "bandwidth" || op == "sync" {
			continue
		}
		have, known := sum[what]
		if op == "mixed" && known || have.Name == "mixed."+what {
			continue // use either the mixed value or its parts, not both
		}
		v.Value += have.Value
		sum[what] = v
	}
	if v, ok := sum["iops"]; ok {
		iops = Scaled(v)
	}
	if v, ok := sum["bandwidth"]; ok {
		bandwidth = Scaled(v)
	}
	if iops == "" && bandwidth == "" {
		return outcome(t, metric), ""
	}
	return iops, bandwidth
}

// lines returns the board at time now: if verbose, a line for each unfinished workload and one for the current trial,
// otherwise one line. No line is wider than `width` columns, because a terminal would wrap it. A width below 20 counts
// as 20. The board uses about half of the height at most, because lines that scroll away cannot be overwritten. A
// height of 0 means unknown.
func (b *board) lines(width, height int, now time.Time, verbose bool) []string {
	width = max(20, width)
	var out []string
	if !verbose {
		if s := b.line(now, width); s != "" {
			out = append(out, ansi.Truncate(s, width-1, "…"))
		}
		return out
	}
	rows := b.rows
	more, most := 0, mostRows
	if height > 0 {
		most = min(most, max(1, height/2-3)) // leave room for the status, the number of hidden rows and a permanent line
	}
	if len(rows) > most {
		rows, more = b.around(most), len(rows)-most
	}
	// At 80 columns, 18 columns for the name leave room for the speeds.
	room, bar := max(10, min(18, width/4)), 10
	if width >= 100 {
		room, bar = width/4, 20
	}
	name, iops, through := 0, 0, 0
	for _, r := range rows {
		name = min(room, max(name, ansi.StringWidth(terminal.Clean(r.workload))))
		iops, through = max(iops, ansi.StringWidth(r.iops)), max(through, ansi.StringWidth(r.through))
	}
	for _, r := range rows {
		out = append(out, r.line(width, name, bar, iops, through))
	}
	if more > 0 {
		out = append(out, "  and "+format.Plural(more, "more workload"))
	}
	if s := b.now(now, width); s != "" {
		out = append(out, s)
	}
	for i, l := range out {
		out[i] = ansi.Truncate(l, width-1, "…")
	}
	return out
}

// line returns the whole board in one line: "[=======>   ] round 5/6 · 4k random write on guest 9p · about 1m40s
// left". It shortens the names to fit the width.
func (b *board) line(now time.Time, width int) string {
	i := b.index(b.work)
	if b.status != "" || b.target == "" || i < 0 {
		return terminal.Clean(b.status)
	}
	r := b.rows[i]
	ran := now.Sub(b.begun)
	const cells = 11
	full := min(cells-1, cells*r.round/max(1, r.rounds))
	s := "[" + format.Pad(strings.Repeat("=", full)+">", cells) + "] " + roundOf(min(r.round+1, r.rounds), r.rounds) + " · "
	left := b.remaining(ran)
	if left != "" {
		left = " · " + left
	}
	name := terminal.Clean(b.work) + " on " + terminal.Clean(b.target)
	return s + ansi.Truncate(name, max(10, width-1-ansi.StringWidth(s+left)), "…") + left
}

// remaining returns the time left, such as "about 1m40s left", or "" if it is unknown or below one second.
func (b *board) remaining(ran time.Duration) string {
	if left := (b.left - ran).Round(time.Second); b.left > 0 && left >= time.Second {
		return b.atMost() + terminal.Elapsed(left) + " left"
	}
	return ""
}

// around returns n rows that include the current workload.
func (b *board) around(n int) []*boardRow {
	from := min(max(0, b.index(b.work)-n/2), len(b.rows)-n)
	return b.rows[from : from+n]
}

// line returns the row as text. It leaves out the last parts if they do not fit the width.
func (r *boardRow) line(width, name, bar, iops, through int) string {
	s := format.Pad(ansi.Truncate(terminal.Clean(r.workload), name, "…"), name) + "  " + drawBar(r.round, r.rounds, bar) + fmt.Sprintf("  %*d/%d", len(fmt.Sprint(r.rounds)), r.round, r.rounds)
	parts := []string{format.Pad(r.interval(), 13)}
	if r.last != "" {
		parts = append(parts, format.Pad(r.iops, iops), format.Pad(r.through, through), terminal.Clean(r.last))
	}
	for _, p := range parts {
		if ansi.StringWidth(s)+2+ansi.StringWidth(p) > width-1 {
			break
		}
		s += "  " + p
	}
	return strings.TrimRight(s, " ")
}

// interval returns the half-width of the widest interval and the precision goal: "± 12 % → 5 %".
func (r *boardRow) interval() string {
	switch {
	case !(r.half > 0):
		return ""
	case r.half > 1:
		return "± >100 %"
	case r.precision > 0:
		return "± " + format.Percent(r.half) + " → " + format.Percent(r.precision)
	}
	return "± " + format.Percent(r.half)
}

// eighths are the fill levels of a bar's last cell.
var eighths = []rune(" ▏▎▍▌▋▊▉")

// drawBar returns a bar between two border columns. The share n/most of its `width` columns is filled.
func drawBar(n, most, width int) string {
	return drawShare(float64(n)/float64(max(1, most)), width)
}

func drawShare(x float64, width int) string {
	full := int(math.Round(max(0, min(1, x)) * float64(width) * 8))
	s := strings.Repeat("█", full/8)
	if full%8 > 0 {
		s += string(eighths[full%8])
	}
	return "▕" + format.Pad(s, width) + "▏"
}

// now describes the current trial: "guest virtio-fs · 4k random read  ▕███▌  ▏ 7s of 12s  at most 3m12s left". It
// shortens the names to fit the width.
func (b *board) now(now time.Time, width int) string {
	if b.status != "" || b.target == "" {
		return terminal.Clean(b.status)
	}
	ran := now.Sub(b.begun)
	s, name := "", terminal.Clean(b.target)+" · "+terminal.Clean(b.work)
	if b.planned >= time.Second {
		s += "  " + drawShare(float64(ran)/float64(b.planned), 6) + " " + terminal.Elapsed(ran.Truncate(time.Second)) + " of " + terminal.Elapsed(b.planned)
	}
	if left := b.remaining(ran); left != "" {
		s += "  " + left
	}
	return ansi.Truncate(name, max(10, width-1-ansi.StringWidth(s)), "…") + s
}

// atMost returns "at most " if a workload may be precise enough before its last round, and "about " otherwise.
func (b *board) atMost() string {
	if slices.ContainsFunc(b.rows, func(r *boardRow) bool { return r.precision > 0 }) {
		return "at most "
	}
	return "about "
}
