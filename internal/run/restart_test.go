package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/plan"
)

// restartsPlan returns a plan with six rounds of two workloads, divided into three starts.
func restartsPlan(t *testing.T) *plan.Plan {
	t.Helper()
	p := guestPlan("a", "b")
	p.Measure.Rounds, p.Measure.Restarts = plan.Rounds{Min: 3, Max: 6}, 3
	if err := p.Measure.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// startsOf returns, for each start, the number of trials of each cell.
func startsOf(trials []*iotax.Trial) (out []string) {
	n := map[string]int{}
	for _, t := range trials {
		n[fmt.Sprintf("%d %s", t.StartIndex, t.Cell())]++
	}
	for k, v := range n {
		out = append(out, fmt.Sprintf("%s ×%d", k, v))
	}
	slices.Sort(out)
	return out
}

// Between starts, the run closes everything that it opened, in reverse order, and opens it again. Every target is
// measured in each start.
func TestRestarts(t *testing.T) {
	w := newWorld()
	d := w.deps()
	d.Progress = func(e Event) {
		if e.Kind == Starting || e.Kind == Opening && strings.HasPrefix(e.Text, "start ") {
			w.say("%s %s", e.Kind, e.Text)
		}
		if e.Kind == CellsDone && e.Text != "too few starts for an interval" { // three starts with equal values have no interval
			t.Errorf("%s: %s", e.Workload, e.Text)
		}
	}
	r, err := Run(t.Context(), restartsPlan(t), d, Options{ID: "r"})
	if err != nil || r.Status != iotax.Done {
		t.Fatalf("%v, %s", err, r.Status)
	}
	opened := []string{
		`make t0 of ""`, "attach t0 on host", `make t1 of "/t0"`, `make t2 of "/t0"`, "open guest with t1,t2", "attach t1 on guest", "attach t2 on guest",
		"check a on host", "check a on disk", "check a on share", "check b on host", "check b on disk", "check b on share",
		"prepare a on host", "prepare a on disk", "prepare a on share", "prepare b on host", "prepare b on disk", "prepare b on share",
	}
	measured := slices.Repeat([]string{"starting "}, 2*2*3)
	closed := []string{
		"cleanup b on share", "cleanup b on disk", "cleanup b on host", "cleanup a on share", "cleanup a on disk", "cleanup a on host",
		"detach t2", "detach t1", "close guest", "remove t2", "remove t1", "detach t0", "remove t0",
	}
	want := slices.Concat([]string{"begin"}, opened, measured, []string{"opening start 2 of 3"}, closed, opened, measured, []string{"opening start 3 of 3"}, closed, opened, measured, closed)
	if !slices.Equal(w.log, want) {
		t.Errorf("order of steps:\n got %q\nwant %q", w.log, want)
	}
	if got := startsOf(w.saved); len(got) != 3*6 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, "×2") }) {
		t.Errorf("trials by start: %q", got)
	}
}

// With as many starts as rounds, each round has its own start, and the run ends when its result is precise.
func TestRestartForEachRound(t *testing.T) {
	p := guestPlan("a")
	p.Measure.Rounds, p.Measure.Restarts = plan.Rounds{Min: 6, Max: 30}, 30
	if err := p.Measure.Check(); err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	r, err := Run(t.Context(), p, w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Done || len(r.Findings) > 0 {
		t.Fatalf("%v, %s, %v", err, r.Status, r.Findings)
	}
	if got := startsOf(w.saved); len(got) != 6*3 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, "×1") }) {
		t.Errorf("trials by start: %q", got)
	}
}

// A round with a failed trial is measured again in the same start.
func TestRestartsWithDiscards(t *testing.T) {
	w := newWorld()
	w.value = func(tr *iotax.Trial) (float64, error) {
		if tr.Round == 1 && tr.Target == "disk" && tr.Workload == "a" {
			return 0, errors.New("a fault")
		}
		return 1000, nil
	}
	r, err := Run(t.Context(), restartsPlan(t), w.deps(), Options{ID: "r"})
	if err != nil || r.Status != iotax.Done {
		t.Fatalf("%v, %s", err, r.Status)
	}
	got := startsOf(w.saved)
	if !slices.Contains(got, "1 disk / a ×3") || !slices.Contains(got, "1 disk / b ×2") || !slices.Contains(got, "3 disk / a ×2") || count(w.log, "open guest with t1,t2") != 3 {
		t.Errorf("trials by start: %q", got)
	}
}

// A resumed run continues the interrupted start. If all saved trials belong to a complete start, the resumed run begins
// the next start without opening everything twice.
func TestRestartsResume(t *testing.T) {
	for _, c := range []struct {
		interruptAt, opened int
		first               string // number of the start in which the second process runs its first trial
	}{
		{5, 3, "1"},         // in the middle of the first start
		{2*2*3 + 1, 2, "2"}, // during the first trial of the second start
		{2*2*3 + 8, 2, "2"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld()
		w.onTrial = func(n int) {
			if n == c.interruptAt {
				cancel()
			}
		}
		p := restartsPlan(t)
		first, err := Run(ctx, p, w.deps(), Options{ID: "r", Command: "iotax run x"})
		if first.Status != iotax.Interrupted {
			t.Fatalf("%v, %s", err, first.Status)
		}
		had := len(w.saved)
		w.onTrial, w.log = nil, nil
		again, err := Run(t.Context(), p, w.deps(), Options{Resume: first, Trials: slices.Clone(w.saved)})
		if err != nil || again.Status != iotax.Done {
			t.Fatalf("%v, %s", err, again.Status)
		}
		if c := again.Environment[iotax.FactCommand]; c != "iotax run x" {
			t.Errorf("the command became %q", c)
		}
		if n := count(w.log, "open guest with t1,t2"); n != c.opened {
			t.Errorf("interrupted at trial %d: the resumed run opened the guest %d times, want %d", c.interruptAt, n, c.opened)
		}
		if got := fmt.Sprint(w.saved[had].StartIndex); got != c.first {
			t.Errorf("interrupted at trial %d: resumed in start %s, want %s", c.interruptAt, got, c.first)
		}
		last := 0
		for _, tr := range w.saved {
			if tr.StartIndex < last || tr.StartIndex > 3 {
				t.Errorf("start %d after start %d", tr.StartIndex, last)
			}
			last = tr.StartIndex
		}
	}
}

// A start that cannot be opened ends the run. The run keeps the trials of earlier starts, and no target is
// reported as missing.
func TestRestartFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*world)
		want  string
	}{
		{"guest", func(w *world) { w.openErr["guest"] = errors.New("kernel panic") }, "kernel panic"},
		{"cell", func(w *world) { w.checkErr["disk / b"] = errors.New("no space") }, "no space"},
		{"closing", func(w *world) { w.detachErr = errors.New("busy") }, "busy"},
	} {
		w := newWorld()
		w.onTrial = func(n int) {
			if n == 2*2*3 { // the last trial of the first start
				c.fault(w)
			}
		}
		d := w.deps()
		d.Workload = func(pw plan.Workload) (iotax.Workload, error) {
			return &pilotWorkload{fakeWorkload{w, pw.Name}, nil}, nil
		}
		r, err := Run(t.Context(), restartsPlan(t), d, Options{ID: "r", KeepGoing: true})
		if err == nil || !strings.Contains(err.Error(), "begin: start 2 of 3") && !strings.Contains(err.Error(), "begin start 2 of 3") || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--resume") {
			t.Errorf("%s: error %v", c.name, err)
		}
		if r.Status != iotax.Incomplete || len(w.saved) != 2*2*3 {
			t.Errorf("%s: status %s, %d trials", c.name, r.Status, len(w.saved))
		}
		if r.Workloads[0].Facts["load.rate"] != "5" {
			t.Errorf("%s: the results of the pilots are lost: %+v", c.name, r.Workloads)
		}
		if slices.ContainsFunc(r.Targets, func(x iotax.TargetInfo) bool { return x.Err != "" }) || len(r.Targets) != 3 {
			t.Errorf("%s: targets that were measured count as missing: %+v", c.name, r.Targets)
		}
		if !slices.ContainsFunc(w.record.Findings, func(f iotax.Finding) bool { return f.Rule == "run-failed" && strings.Contains(f.Evidence, c.want) }) {
			t.Errorf("%s: findings %+v", c.name, w.record.Findings)
		}
	}
}

// An interrupt between two starts does not hide what could not be removed.
func TestRestartInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld()
	w.onTrial = func(n int) {
		if n == 2*2*3 { // the last trial of the first start
			w.detachErr = errors.New("busy")
		}
	}
	d := w.deps()
	d.Progress = func(e Event) {
		if e.Kind == Opening && strings.HasPrefix(e.Text, "start ") {
			cancel()
		}
	}
	r, err := Run(ctx, restartsPlan(t), d, Options{ID: "r"})
	if r.Status != iotax.Interrupted || !slices.ContainsFunc(w.record.Findings, func(f iotax.Finding) bool { return f.Rule == "left-behind" && strings.Contains(f.Evidence, "busy") }) {
		t.Errorf("error %v, status %s, findings %+v", err, r.Status, w.record.Findings)
	}
}

// Targets and cells that could not be prepared in the first start are not tried again in the later starts.
func TestRestartsWithoutTheMissing(t *testing.T) {
	w := newWorld()
	w.attachErr["t2"], w.checkErr["disk / b"] = errors.New("no such tag"), errors.New("no space")
	missing := 0
	d := w.deps()
	d.Progress = func(e Event) {
		if e.Kind == Missing {
			missing++
		}
	}
	r, err := Run(t.Context(), restartsPlan(t), d, Options{ID: "r", KeepGoing: true})
	if err != nil || r.Status != iotax.Incomplete || missing != 2 {
		t.Errorf("%v, %s, %d told missing", err, r.Status, missing)
	}
	if n := count(w.log, "check b on disk"); n != 1 {
		t.Errorf("a cell that is missing was checked %d times", n)
	}
	if n := count(w.log, "attach t2 on guest"); n != 1 {
		t.Errorf("a target that is missing was attached %d times", n)
	}
	if got := startsOf(w.saved); !slices.Equal(got, []string{
		"1 disk / a ×2", "1 host / a ×2", "1 host / b ×2", "2 disk / a ×2", "2 host / a ×2", "2 host / b ×2", "3 disk / a ×2", "3 host / a ×2", "3 host / b ×2"}) {
		t.Errorf("%q", got)
	}
}

// A start that would exceed the budget does not begin.
func TestRestartsBudget(t *testing.T) {
	w := newWorld()
	p := restartsPlan(t)
	d := w.deps()
	open := d.Open
	d.Open = func(ctx context.Context, m plan.Machine, on iotax.Machine, devices []iotax.Device) (iotax.Machine, error) {
		w.now = w.now.Add(time.Minute)
		return open(ctx, m, on, devices)
	}
	// A round of both workloads takes 6 trials of 12 s. The budget allows four rounds with two openings, but not a
	// third opening.
	p.Measure.Budget = plan.Duration(2*time.Minute + 4*6*12*time.Second + 50*time.Second)
	r, err := Run(t.Context(), p, d, Options{ID: "r"})
	if err != nil || r.Status != iotax.Incomplete || len(w.saved) != 4*6 || count(w.log, "open guest with t1,t2") != 2 {
		t.Errorf("%v, %s, %d trials, %d openings", err, r.Status, len(w.saved), count(w.log, "open guest with t1,t2"))
	}
}

func TestRestartsAreNotDivided(t *testing.T) {
	if _, err := (Shard{0, 2}).Of(restartsPlan(t)); err == nil || !strings.Contains(err.Error(), "restarts need all rounds in one process") {
		t.Error(err)
	}
}

// The run records the facts of a target that are not the same at all starts, also across a resume.
func TestFactsOfStarts(t *testing.T) {
	var starts []map[string]string
	facts := func(node, port string) map[string]string {
		return map[string]string{"kernel": "6.1", "node": node, "port": port}
	}
	previous := map[string]string(nil)
	for i, c := range []struct {
		now  map[string]string
		want string
	}{
		{facts("0", "1000"), "[]"},
		{facts("0", "1000"), "[]"},
		{facts("0", "1001"), "[map[port:1000] map[port:1000] map[port:1001]]"},
		{facts("1", "1001"), "[map[node:0 port:1000] map[node:0 port:1000] map[node:0 port:1001] map[node:1 port:1001]]"},
		{map[string]string{"kernel": "6.1", "port": "7"}, "[map[node:0 port:1000] map[node:0 port:1000] map[node:0 port:1001] map[node:1 port:1001] map[node: port:7]]"},
	} {
		if starts = addStart(starts, i+1, previous, c.now); fmt.Sprint(starts) != c.want {
			t.Errorf("start %d: %v, want %s", i+1, starts, c.want)
		}
		previous = c.now
	}

	w := newWorld()
	d := w.deps()
	boots := 0
	d.Environment = func(_ context.Context, m iotax.Machine) (map[string]string, error) {
		if m == d.Host {
			return map[string]string{}, nil
		}
		boots++ // of the targets disk and share, in turn
		return map[string]string{"kernel": "6.1", "node": strconv.Itoa(min((boots-1)/2, 1))}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.onTrial = func(n int) {
		if n == 2*2*3+1 { // in the second start
			cancel()
		}
	}
	first, err := Run(ctx, restartsPlan(t), d, Options{ID: "r"})
	if first.Status != iotax.Interrupted {
		t.Fatalf("%v, %s", err, first.Status)
	}
	w.onTrial = nil
	r, err := Run(t.Context(), restartsPlan(t), d, Options{Resume: first, Trials: slices.Clone(w.saved)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[]", "[map[machine.node:0] map[machine.node:1] map[machine.node:1]]", "[map[machine.node:0] map[machine.node:1] map[machine.node:1]]"} {
		if got := fmt.Sprint(r.Targets[i].Starts); got != want {
			t.Errorf("%s: %s, want %s", r.Targets[i].Name, got, want)
		}
	}
}
