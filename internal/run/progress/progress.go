// Package progress shows the events of a run while it measures.
package progress

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/perf/benchunit"

	"iotax"
	"iotax/internal/run"
	"iotax/internal/terminal"
)

// Level sets how much a Progress shows.
type Level int

const (
	Quiet   Level = iota - 1
	Normal        // one line on a terminal, otherwise a line for each finished round
	Verbose       // a line for each workload on a terminal, otherwise a line for each trial
)

// A Progress shows the events of a run: on a terminal as a board that it overwrites, otherwise as lines. Its methods
// may be called concurrently.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
	level Level
	Live  bool                       // out is a terminal
	size  func() (columns, rows int) // of the terminal, which may be resized; 0 rows if unknown
	board board
	shown []string      // lines of the board on the terminal
	stop  chan struct{} // closed to end the goroutine of tick
}

// New returns a Progress that writes to `out`. `live` reports whether `out` is a terminal. `columns` is the width to
// assume if the size of the terminal is unknown.
func New(out io.Writer, level Level, live bool, columns int) *Progress {
	return &Progress{out: out, level: level, Live: live, size: func() (int, int) { return terminal.Size(out, columns) }}
}

// Note shows a message from a machine or a workload ("pushing fio to db1").
func (p *Progress) Note(format string, args ...any) { p.Line(fmt.Sprintf(format, args...)) }

func (p *Progress) Event(e run.Event) {
	p.mu.Lock()
	p.board.take(e, time.Now())
	p.mu.Unlock()
	switch e.Kind {
	case run.Opening:
		p.Line("opening " + strings.TrimSpace(e.Target+e.Text))
	case run.Missing:
		why := terminal.FirstLine(e.Err.Error())
		if e.Workload != "" {
			p.Line(e.Target + " is left out of " + e.Workload + ": " + why)
		} else {
			if op, rest, ok := strings.Cut(why, ": "); ok && op == "open "+e.Target {
				why = rest
			}
			p.Line(e.Target + " could not be opened: " + why)
		}
		if hint := hintOf(e.Err); hint != "" {
			p.Line("  hint: " + hint)
		}
	case run.Preparing:
		if e.Text != "" {
			p.Status(e.Workload + ": " + e.Text)
		} else {
			p.Status("preparing " + e.Target + " for " + e.Workload)
		}
	case run.Starting:
		p.redraw()
	case run.RoundDone:
		p.redraw()
		if !p.Live && p.level == Normal {
			p.Line(p.finishedRound(e))
		}
	case run.Finished:
		switch {
		case !p.Live && p.level == Verbose:
			p.Line(fmt.Sprintf("%s  %s  %s  %s: %s", terminal.Elapsed(e.Elapsed), roundOf(e.Round+1, e.Rounds), e.Workload, e.Target, outcome(e.Trial, e.Metric)))
		case e.Trial.Err != "" || e.Trial.Discarded != "":
			p.Line(e.Trial.Cell() + ": " + outcome(e.Trial, e.Metric))
		default:
			p.redraw()
		}
	case run.CellsDone:
		how := "done"
		if e.Short {
			how = "stopped"
		}
		p.Line(e.Workload + ": " + how + ", " + e.Text)
	case run.CleaningUp:
		p.Status("cleaning up")
	}
}

// finishedRound returns the line for a round that ended: "12s  round 2/6  4k random read  ± 12 %, about 1m10s left".
func (p *Progress) finishedRound(e run.Event) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var how []string
	r := p.board.row(e)
	round := e.Round
	if r.repeated {
		round++
		how = append(how, "does not count")
	}
	if r.half > 0 {
		how = append(how, r.interval())
	}
	if left := e.Left.Round(time.Second); left > 0 {
		how = append(how, p.board.atMost()+terminal.Elapsed(left)+" left")
	}
	s := fmt.Sprintf("%s  %s  %s", terminal.Elapsed(e.Elapsed), roundOf(round, e.Rounds), e.Workload)
	return strings.TrimSpace(s + "  " + strings.Join(how, ", "))
}

// roundOf returns "round 2/6". A workload may need a round more than planned, because trials were discarded.
func roundOf(round, planned int) string {
	return fmt.Sprintf("round %d/%d", round, max(round, planned))
}

// Line prints a permanent line above the board, unless the level is Quiet.
func (p *Progress) Line(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.level == Quiet {
		return
	}
	p.draw(terminal.Clean(s)+"\n", true)
}

// Status shows the current step. Without a terminal it prints a permanent line.
func (p *Progress) Status(s string) {
	if !p.Live {
		p.Line(s)
		return
	}
	p.mu.Lock()
	p.board.status, p.board.target = s, ""
	p.mu.Unlock()
	p.redraw()
}

func (p *Progress) redraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.level == Quiet || !p.Live {
		return
	}
	if p.stop == nil {
		p.stop = make(chan struct{})
		go p.tick(p.stop)
	}
	p.draw("", true)
}

// tick redraws the board every second, to update its clock and to follow a resized terminal.
func (p *Progress) tick(stop chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		p.mu.Lock()
		if p.stop == stop && len(p.shown) > 0 {
			p.draw("", true)
		}
		p.mu.Unlock()
	}
}

// draw clears the board and prints `above`. If `board` is true and the output is a terminal, it prints the board below
// that text. It uses a single write to avoid flicker.
func (p *Progress) draw(above string, board bool) {
	var b strings.Builder
	columns, rows := p.size()
	if len(p.shown) > 0 {
		// Clear line by line from the bottom. If the board starts at the top of the screen, tmux treats "clear to the
		// end" as the end of a screen, and adds that screen to its history every second.
		b.WriteString("\r\x1b[2K")
		b.WriteString(strings.Repeat("\x1b[1A\x1b[2K", height(p.shown, columns)-1))
		p.shown = nil
	}
	b.WriteString(above)
	if board && p.Live {
		p.shown = p.board.lines(columns, rows, time.Now(), p.level == Verbose)
		b.WriteString(strings.Join(p.shown, "\n"))
	}
	if b.Len() > 0 {
		_, _ = io.WriteString(p.out, b.String()) // ignore the error: the terminal may have closed
	}
}

// height returns the number of rows that lines occupy at the given number of columns. A terminal wraps them if it
// became narrower after they were written.
func height(lines []string, columns int) int {
	n := 0
	for _, l := range lines {
		n += max(1, (ansi.StringWidth(l)+columns-1)/max(1, columns))
	}
	return n
}

// End removes the board. The next event begins a new one.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		close(p.stop)
		p.stop = nil
	}
	p.draw("", false)
	p.board = board{}
}

// hintOf returns the hint of the innermost error that has one.
func hintOf(err error) (hint string) {
	for e := (*iotax.Error)(nil); errors.As(err, &e); err = e.Err {
		hint = cmp.Or(e.Hint, hint)
	}
	return terminal.FirstLine(hint)
}

// outcome summarizes a trial: its error, its headline value or how long it took, and whether it was discarded.
func outcome(t *iotax.Trial, metric string) string {
	if t.Err != "" {
		return "failed: " + terminal.FirstLine(t.Err)
	}
	done := "done in " + terminal.Elapsed(t.Took)
	if v, ok := t.Value(metric); ok {
		done = Scaled(v)
	}
	if t.Discarded != "" {
		done += "; discarded, its round is run again: " + terminal.FirstLine(t.Discarded)
	}
	return done
}

// Scaled formats a value with at least three significant digits and a unit prefix.
func Scaled(v iotax.Value) string {
	switch v.Unit {
	case iotax.BytesPerSecond:
		return benchunit.Scale(v.Value, benchunit.Binary) + "B/s"
	case iotax.PerSecond:
		s := benchunit.Scale(v.Value, benchunit.Decimal)
		if strings.HasSuffix(v.Name, ".iops") {
			return s + " IOPS"
		}
		return s + "/s"
	case iotax.Seconds:
		return benchunit.Scale(v.Value, benchunit.Decimal) + "s" // 483.5ms
	}
	return benchunit.Scale(v.Value, benchunit.Decimal) + " " + v.Unit
}
