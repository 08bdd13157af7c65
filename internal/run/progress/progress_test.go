package progress

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"iotax"
	"iotax/internal/run"
)

func boardTrial(target, workload string, iops float64) *iotax.Trial {
	return &iotax.Trial{Target: target, Workload: workload, Ramp: 2 * time.Second, Length: 10 * time.Second, Values: []iotax.Value{
		{Name: "read.iops", Value: iops, Unit: iotax.PerSecond}, {Name: "read.bandwidth", Value: 4096 * iops, Unit: iotax.BytesPerSecond}}}
}

// exampleBoard returns a board seven seconds into the first trial of the fifth round.
func exampleBoard() (*board, time.Time) {
	b, now := &board{}, time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	for _, w := range []struct {
		name  string
		round int
		half  float64
		iops  float64
	}{{"4k random read", 4, .123, 46600}, {"4k random write with a name that is too long for a table", 3, 0, 988}, {"1M sequential read", 3, 12, 1234567}} {
		t := boardTrial("guest virtio-blk", w.name, w.iops)
		e := run.Event{Kind: run.Finished, Target: t.Target, Workload: w.name, Round: w.round - 1, Rounds: 30, Trial: t, HalfWidth: w.half, Precision: .05}
		b.take(e, now)
		e.Kind, e.Round = run.RoundDone, w.round
		b.take(e, now)
	}
	t := boardTrial("host disk", "4k random read", 0)
	b.take(run.Event{Kind: run.Starting, Target: t.Target, Workload: t.Workload, Round: 4, Rounds: 30, Trial: t, HalfWidth: .123, Precision: .05, Left: 3*time.Minute + 19*time.Second}, now)
	return b, now.Add(7 * time.Second)
}

func TestBoard(t *testing.T) {
	b, now := exampleBoard()
	for width, want := range map[int]string{
		80: `
4k random read      ▕█▍        ▏   4/30  ± 12 % → 5 %   46.60k IOPS  182.0MiB/s
4k random write w…  ▕█         ▏   3/30                 988.0 IOPS   3.859MiB/s
1M sequential read  ▕█         ▏   3/30  ± >100 %       1.235M IOPS  4.709GiB/s
host disk · 4k random read  ▕███▌  ▏ 7s of 12s  at most 3m12s left`,
		120: `
4k random read                  ▕██▋                 ▏   4/30  ± 12 % → 5 %   46.60k IOPS  182.0MiB/s  guest virtio-blk
4k random write with a name t…  ▕██                  ▏   3/30                 988.0 IOPS   3.859MiB/s  guest virtio-blk
1M sequential read              ▕██                  ▏   3/30  ± >100 %       1.235M IOPS  4.709GiB/s  guest virtio-blk
host disk · 4k random read  ▕███▌  ▏ 7s of 12s  at most 3m12s left`,
	} {
		if got := "\n" + strings.Join(b.lines(width, 0, now, true), "\n"); got != want {
			t.Errorf("%d columns:%s\nwant:%s", width, got, want)
		}
	}
	for width := 1; width < 150; width++ {
		for _, l := range append(b.lines(width, 0, now, true), b.lines(width, 0, now, false)...) {
			if w := ansi.StringWidth(l); w >= max(20, width) {
				t.Errorf("%d columns: a line of %d: %q", width, w, l)
			}
		}
	}
}

func TestBoardInOneLine(t *testing.T) {
	b, now := exampleBoard()
	for width, want := range map[int]string{
		80: "[=>         ] round 5/30 · 4k random read on host disk · at most 3m12s left",
		60: "[=>         ] round 5/30 · 4k random … · at most 3m12s left",
	} {
		if got := b.lines(width, 0, now, false); len(got) != 1 || got[0] != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	for i := range 30 { // the arrow moves and stays inside the brackets
		r := b.rows[0]
		r.round, r.rounds = i, 30
		if got := b.lines(80, 0, now, false)[0]; strings.Index(got, "]") != 12 || strings.Count(got, "=") != min(10, 11*i/30) {
			t.Errorf("after %d rounds: %q", i, got)
		}
	}
	b.status = "cleaning up"
	if l := b.lines(80, 0, now, false); len(l) != 1 || l[0] != "cleaning up" {
		t.Errorf("status: %q", l)
	}
}

func TestBoardRows(t *testing.T) {
	b, now := exampleBoard()
	b.take(run.Event{Kind: run.CellsDone, Workload: "1M sequential read"}, now)
	if len(b.rows) != 2 {
		t.Errorf("%d rows", len(b.rows))
	}
	for i := range 20 {
		w := fmt.Sprintf("w%02d", i)
		b.take(run.Event{Kind: run.Starting, Target: "t", Workload: w, Rounds: 6, Trial: boardTrial("t", w, 1)}, now)
	}
	for _, height := range []int{1, 5, 8, 30} {
		if n := len(b.lines(80, height, now, true)); n > max(3, height/2) {
			t.Errorf("%d lines on a terminal of %d rows", n, height)
		}
		if !strings.Contains(strings.Join(b.lines(80, height, now, true), "\n"), "w19") {
			t.Errorf("the workload at hand is not on a terminal of %d rows", height)
		}
	}
	lines := strings.Join(b.lines(80, 0, now, true), "\n")
	if strings.Count(lines, "\n") != mostRows+1 || !strings.Contains(lines, "w19") || !strings.Contains(lines, "and 14 more") {
		t.Errorf("many workloads:\n%s", lines)
	}
	failed := boardTrial("t", "w19", 5)
	failed.Err = "no"
	b.take(run.Event{Kind: run.Finished, Target: "t", Workload: "w19", Rounds: 6, Trial: failed}, now)
	if l := strings.Join(b.lines(80, 0, now, true), "\n"); !strings.Contains(l, "failed") || strings.Contains(l, "5.000 IOPS") {
		t.Errorf("a failed trial:\n%s", l)
	}
	// A mixed workload: reads and writes are summed, and the mixed value is not added to them.
	mixed := &iotax.Trial{Values: []iotax.Value{{Name: "read.iops", Value: 70, Unit: iotax.PerSecond}, {Name: "write.iops", Value: 30, Unit: iotax.PerSecond}, {Name: "mixed.iops", Value: 100, Unit: iotax.PerSecond}}}
	if iops, _ := speeds(mixed, "read.iops"); iops != "100.0 IOPS" {
		t.Errorf("mixed: %s", iops)
	}
	b.status = "cleaning up"
	if l := b.lines(80, 0, now, true); l[len(l)-1] != "cleaning up" {
		t.Errorf("status: %q", l[len(l)-1])
	}
}

// A screen emulates the terminal sequences that a board uses.
type screen struct {
	rows     []string
	row, col int
	t        *testing.T
}

func (s *screen) Write(b []byte) (int, error) {
	in := string(b)
	for in != "" {
		for len(s.rows) <= s.row {
			s.rows = append(s.rows, "")
		}
		var n int
		switch {
		case in[0] == '\n':
			s.row, s.col, in = s.row+1, 0, in[1:]
		case in[0] == '\r':
			s.col, in = 0, in[1:]
		case strings.HasPrefix(in, "\x1b[2K"):
			s.rows[s.row], in = "", in[4:]
			for len(s.rows)-1 > s.row && s.rows[len(s.rows)-1] == "" {
				s.rows = s.rows[:len(s.rows)-1]
			}
		case strings.HasPrefix(in, "\x1b["):
			if _, err := fmt.Sscanf(in, "\x1b[%dA", &n); err != nil || n > s.row {
				s.t.Fatalf("the terminal is told %.10q in row %d", in, s.row)
			}
			s.row -= n
			in = in[strings.IndexByte(in, 'A')+1:]
		default:
			r := []rune(in)[0]
			s.rows[s.row] = string(append([]rune(s.rows[s.row])[:s.col], r))
			s.col++
			in = in[len(string(r)):]
		}
	}
	return len(b), nil
}

// Permanent lines are above the board, and the board is removed at the end.
func TestProgressOnTerminal(t *testing.T) {
	s := &screen{t: t}
	p := New(s, Verbose, true, 80)
	p.Event(run.Event{Kind: run.Opening, Target: "host disk"})
	p.Event(run.Event{Kind: run.Preparing, Target: "host disk", Workload: "w"})
	for round := range 3 {
		for _, w := range []string{"w", "v"} {
			for _, target := range []string{"host disk", "guest"} {
				tr := boardTrial(target, w, 1000)
				e := run.Event{Kind: run.Starting, Target: target, Workload: w, Round: round, Rounds: 3, Metric: "read.iops", Trial: tr}
				p.Event(e)
				if e.Kind = run.Finished; round == 1 && target == "guest" && w == "v" {
					tr.Discarded = "the clock"
				}
				p.Event(e)
			}
			p.Event(run.Event{Kind: run.RoundDone, Target: "guest", Workload: w, Round: round + 1, Rounds: 3, Trial: boardTrial("guest", w, 1)})
		}
		p.Note("a message")
	}
	if last := s.rows[len(s.rows)-1]; !strings.HasPrefix(last, "guest · v") || !strings.Contains(strings.Join(s.rows, "\n"), "3/3") {
		t.Errorf("the board does not stand:\n%s", strings.Join(s.rows, "\n"))
	}
	p.Event(run.Event{Kind: run.CellsDone, Workload: "w", Text: "± 1 %"})
	p.Event(run.Event{Kind: run.CleaningUp})
	p.End()
	want := "opening host disk\na message\nguest / v: 1.000k IOPS; discarded, its round is run again: the clock\na message\na message\nw: done, ± 1 %\n"
	if got := strings.Join(s.rows, "\n"); got != want {
		t.Errorf("what stays:\n%s\nwant:\n%s", got, want)
	}
	p.End() // a second call is harmless
}

func TestBoardHeight(t *testing.T) {
	for columns, want := range map[int]int{80: 3, 40: 4, 20: 6} {
		if got := height([]string{strings.Repeat("█", 80), "", "a"}, columns); got != want {
			t.Errorf("%d columns: %d rows, want %d", columns, got, want)
		}
	}
}

func TestProgressElsewhere(t *testing.T) {
	feed := func(p *Progress) {
		tr := boardTrial("host disk", "w", 1000)
		for _, k := range []run.EventKind{run.Starting, run.Finished, run.RoundDone} {
			e := run.Event{Kind: k, Target: "host disk", Workload: "w", Rounds: 6, Metric: "read.iops", Trial: tr, Elapsed: 12 * time.Second,
				Left: 70 * time.Second, HalfWidth: .12}
			if k == run.RoundDone {
				e.Round = 1
			}
			p.Event(e)
		}
		p.Event(run.Event{Kind: run.CellsDone, Workload: "w", Text: "± 1 %"})
		p.End()
	}
	var pipe, quiet bytes.Buffer
	feed(New(&pipe, Normal, false, 80))
	if got := pipe.String(); got != "12s  round 1/6  w  ± 12 %, about 1m10s left\nw: done, ± 1 %\n" {
		t.Errorf("on a pipe: %q", got)
	}
	var again bytes.Buffer
	p := New(&again, Normal, false, 80)
	for _, counted := range []int{0, 1, 1, 2, 3} {
		p.Event(run.Event{Kind: run.RoundDone, Workload: "w", Round: counted, Rounds: 2, Elapsed: 12 * time.Second, Trial: boardTrial("a", "w", 1)})
	}
	if got, want := again.String(), "12s  round 1/2  w  does not count\n12s  round 1/2  w\n12s  round 2/2  w  does not count\n12s  round 2/2  w\n12s  round 3/3  w\n"; got != want {
		t.Errorf("rounds that do not count: %q, want %q", got, want)
	}
	var verbose bytes.Buffer
	feed(New(&verbose, Verbose, false, 80))
	if got := verbose.String(); got != "12s  round 1/6  w  host disk: 1.000k IOPS\nw: done, ± 1 %\n" {
		t.Errorf("verbose on a pipe: %q", got)
	}
	feed(New(&quiet, Quiet, true, 80))
	if quiet.Len() > 0 {
		t.Errorf("quiet: %q", quiet.String())
	}
}

func TestDiscardedTrialIsTold(t *testing.T) {
	var b strings.Builder
	p := New(&b, Normal, false, 80)
	x := &iotax.Trial{Target: "a", Workload: "w", Discarded: "clock-insane: 3 %", Values: []iotax.Value{{Name: "read.iops", Value: 1000, Unit: iotax.PerSecond}}}
	p.Event(run.Event{Kind: run.Finished, Workload: "w", Target: "a", Rounds: 6, Trial: x, Metric: "read.iops"})
	if !strings.Contains(b.String(), "1.000k IOPS; discarded, its round is run again: clock-insane: 3 %") {
		t.Error(b.String())
	}
}
