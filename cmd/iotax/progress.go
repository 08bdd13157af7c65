package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/perf/benchunit"

	"iotax"
	"iotax/run"
)

// A progress shows the events of a run: on a terminal one line that is written over, elsewhere one
// line a trial.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	quiet bool
	live  bool
	width int
	shown bool // a live line stands
}

func newProgress(out io.Writer, quiet, live bool, width int) *progress {
	return &progress{out: out, quiet: quiet, live: live, width: width}
}

// note shows a message of a machine or a workload ("pushing fio to db1").
func (p *progress) note(format string, args ...any) { p.line(fmt.Sprintf(format, args...)) }

func (p *progress) event(e run.Event) {
	switch e.Kind {
	case run.Opening:
		p.line("opening " + strings.TrimSpace(e.Target+e.Text))
	case run.Preparing:
		if e.Text != "" {
			p.status(e.Workload + ": " + e.Text)
		} else {
			p.status("preparing " + e.Target + " for " + e.Workload)
		}
	case run.Starting:
		if p.live {
			left := ""
			if e.Left > 0 {
				left = ", " + elapsed(e.Left.Round(time.Second)) + " left"
			}
			p.status(fmt.Sprintf("block %d/%d  %s  %s%s", e.Block+1, e.Blocks, e.Workload, e.Target, left))
		}
	case run.Finished:
		if !p.live {
			t := e.Trial
			p.line(fmt.Sprintf("%s  block %d/%d  %s  %s: %s", elapsed(e.Elapsed), e.Block+1, e.Blocks, e.Workload, e.Target, outcome(t)))
		} else if e.Trial.Err != "" || e.Trial.Void != "" {
			p.line(e.Trial.Cell() + ": " + outcome(e.Trial))
		}
	case run.CellsDone:
		p.line(e.Workload + ": done, " + e.Text)
	case run.CleaningUp:
		p.status("cleaning up")
	}
}

// line prints a line that stays.
func (p *progress) line(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	p.erase()
	fmt.Fprintln(p.out, clean(s))
}

// status prints a line that the next one replaces; without a terminal it stays.
func (p *progress) status(s string) {
	if !p.live {
		p.line(s)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	p.erase()
	r := []rune(clean(s))
	if len(r) >= p.width {
		r = append(r[:max(0, p.width-2)], '…')
	}
	fmt.Fprint(p.out, string(r))
	p.shown = true
}

func (p *progress) erase() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

// outcome is what one trial came to, in a few words.
func outcome(t *iotax.Trial) string {
	if t.Err != "" {
		return "failed: " + firstLine(t.Err)
	}
	done := "done"
	for _, v := range t.Values {
		if strings.HasSuffix(v.Name, ".iops") || strings.HasSuffix(v.Name, ".bandwidth") {
			done = scaled(v)
			break
		}
	}
	if t.Void != "" {
		done += "; void, its block is run again: " + firstLine(t.Void)
	}
	return done
}

// headline is the trial's first headline value of its workload.
func headline(r *iotax.Run, t *iotax.Trial) string {
	switch {
	case t.Err != "":
		return "failed: " + clean(firstLine(t.Err))
	case t.Void != "":
		return "void: " + clean(t.Void)
	}
	for _, w := range r.Workloads {
		if w.Name != t.Workload || len(w.Metrics) == 0 {
			continue
		}
		if v, ok := t.Value(w.Metrics[0]); ok {
			return scaled(v)
		}
	}
	return "-"
}

// firstLine leaves out what follows in an error: consoles, mends. The report has them.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// scaled prints a value with three digits and a unit that people read.
func scaled(v iotax.Value) string {
	switch v.Unit {
	case iotax.BytesPerSecond:
		return benchunit.Scale(v.Value, benchunit.Binary) + "B/s"
	case iotax.PerSecond:
		s := benchunit.Scale(v.Value, benchunit.Decimal)
		if strings.HasSuffix(v.Name, ".iops") {
			return s + " IOPS"
		}
		return s + "/s"
	}
	return benchunit.Scale(v.Value, benchunit.Decimal) + " " + v.Unit
}

// clean keeps what targets say from steering the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
