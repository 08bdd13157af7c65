package run

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/agent"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
)

// A pieceWorkload has no measurement window: it ends by itself.
type pieceWorkload struct {
	fakeWorkload
	took time.Duration
	hang bool
}

func (p *pieceWorkload) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Limit: 50 * time.Millisecond, ColdFiles: func(*iotax.Target) []string { return []string{"/kernel"} }}
}

func (p *pieceWorkload) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	if p.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	p.w.now = p.w.now.Add(p.took)
	return p.fakeWorkload.Run(ctx, t, out)
}

func TestCompleter(t *testing.T) {
	w := newWorld()
	d := w.deps()
	var evicted, there []string // on this host, and on the guest
	d.Evict = func(_ context.Context, m iotax.Machine, path string) (int, error) {
		if m == d.Host {
			evicted = append(evicted, path)
		} else {
			there = append(there, path)
		}
		return 3, nil
	}
	d.Workload = func(pw plan.Workload) (iotax.Workload, error) {
		return &pieceWorkload{fakeWorkload: fakeWorkload{w, pw.Name}, took: time.Minute}, nil
	}
	p := guestPlan("w")
	p.Measure.Budget = plan.Duration(10 * time.Minute) // a round of three trials takes three minutes
	r, err := Run(context.Background(), p, d, Options{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.saved) != 9 || r.Status != iotax.Incomplete {
		t.Errorf("%d trials fit into the budget, status %s", len(w.saved), r.Status)
	}
	for _, tr := range w.saved {
		if tr.Length != 0 || tr.Ramp != 0 || tr.Err != "" {
			t.Errorf("trial of %v after %v: %s", tr.Length, tr.Ramp, tr.Err)
		}
	}
	if len(evicted) < 2 || evicted[0] == "/kernel" || evicted[1] != "/kernel" {
		t.Errorf("evicted %v", evicted)
	}
	if len(there) == 0 {
		t.Error("nothing was evicted on the guest")
	}
	if facts := w.saved[1].Facts; facts[iotax.FactExtents] != "3" {
		t.Errorf("facts of a trial: %v", facts)
	}
}

// The estimate of the time left uses the measured trials of each workload. Before the first trial, it uses the plan and
// the time assumed for the kind of workload.
func TestTimeLeftOfCompleters(t *testing.T) {
	w := newWorld()
	d := w.deps()
	d.Workload = func(pw plan.Workload) (iotax.Workload, error) {
		if pw.Name == "piece" {
			return &pieceWorkload{fakeWorkload: fakeWorkload{w, pw.Name}, took: time.Minute}, nil
		}
		return &fakeWorkload{w, pw.Name}, nil
	}
	var left []time.Duration
	d.Progress = func(e Event) {
		if e.Kind == Starting || e.Kind == RoundDone {
			left = append(left, e.Left)
		}
	}
	p := guestPlan("window", "piece")
	p.Workloads[1].Assumed = 5 * time.Second
	p.Measure.Rounds, p.Measure.Protocol = plan.Rounds{Min: 2, Max: 2}, "fixed:2x1s"
	p.Measure.Trial, p.Measure.Ramp, p.Measure.Budget = plan.Duration(time.Second), 0, 0
	if _, err := Run(context.Background(), p, d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	// The run has two rounds, each with three trials of each workload. The eighth event is the end of the first round
	// of the workload "piece".
	if want := 2*3*time.Second + 2*3*5*time.Second; left[0] != want {
		t.Errorf("before the first trial %v are left, want %v", left[0], want)
	}
	if want := 3*time.Second + 3*time.Minute; left[7] != want {
		t.Errorf("after a round of both %v are left, want %v (%v)", left[7], want, left)
	}
	if last := left[len(left)-1]; last != 0 {
		t.Errorf("%v are left at the end", last)
	}
}

func TestCompleterThatHangs(t *testing.T) {
	w := newWorld()
	d := w.deps()
	d.Workload = func(pw plan.Workload) (iotax.Workload, error) {
		return &pieceWorkload{fakeWorkload: fakeWorkload{w, pw.Name}, hang: true}, nil
	}
	if _, err := Run(context.Background(), guestPlan("w"), d, Options{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	if len(w.saved) == 0 || w.saved[0].Err != "no end within 100ms" && w.saved[0].Err != "no end within 0s" {
		t.Errorf("trials %+v", w.saved)
	}
}

// hangs is a workload that never ends by itself.
type hangs struct{ fakeWorkload }

func (h *hangs) Run(ctx context.Context, _ *iotax.Target, _ *iotax.Trial) error {
	<-ctx.Done()
	return ctx.Err()
}

// A trial that exceeds its planned time by the plan's overrun is cancelled with an error.
func TestOverrun(t *testing.T) {
	w := newWorld()
	trial := &iotax.Trial{Ramp: time.Millisecond, Length: 2 * time.Millisecond}
	runTrial(t.Context(), w.deps(), &hangs{fakeWorkload{w, "w"}}, &iotax.Target{Machine: &fakeMachine{w: w, name: "m"}}, trial, plan.Measure{Overrun: plan.Duration(100 * time.Millisecond)})
	if trial.Err != "no end within 100ms, which is 100ms more than it was to take (measure: overrun)" {
		t.Errorf("got %q", trial.Err)
	}
}

// A preparer is a workload that reports how long its preparation may take.
type preparer struct {
	fakeWorkload
	left time.Duration
}

func (p *preparer) Caps() iotax.WorkloadCaps {
	return iotax.WorkloadCaps{Preparation: 5 * time.Hour}
}

func (p *preparer) Prepare(ctx context.Context, _ *iotax.Target) error {
	until, _ := ctx.Deadline()
	p.left = time.Until(until)
	return nil
}

func TestPreparationHasItsTime(t *testing.T) {
	p := &preparer{fakeWorkload: fakeWorkload{newWorld(), "w"}}
	if err := (&load{w: p}).ready(t.Context(), &iotax.Target{}); err != nil || p.left < 5*time.Hour {
		t.Errorf("%v left, %v", p.left, err)
	}
}

func TestPrepareCommand(t *testing.T) {
	for _, tt := range []struct{ on, want string }{
		{"", "host: host; host: host; guest: host guest; guest: host guest"},
		{"both", "host: host; host: host; guest: host guest; guest: host guest"},
		{"host", "host: host; host: host; guest: host; guest: host"},
		{"target", "host: host; host: host; guest: guest; guest: guest"},
	} {
		w := newWorld()
		host := &scripted{fakeMachine: fakeMachine{w, "host", true}}
		guest := &scripted{fakeMachine: fakeMachine{w: w, name: "guest"}}
		d := w.deps()
		d.Host = host
		var got []string
		for _, m := range []*scripted{host, host, guest, guest} {
			host.ran, guest.ran = nil, nil
			target := &iotax.Target{Name: "t", Machine: m}
			trial := &iotax.Trial{}
			runTrial(context.Background(), d, &fakeWorkload{w, "w"}, target, trial, plan.Measure{Prepare: "sync && true", PrepareOn: tt.on, Overrun: plan.Defaults().Overrun})
			if trial.Err != "" {
				t.Error(trial.Err)
			}
			var on []string
			for _, x := range []*scripted{host, guest} {
				for _, c := range x.ran {
					if c != iotax.QuoteAll([]string{"sh", "-c", "sync && true"}) {
						t.Errorf("ran %s", c)
					}
					on = append(on, x.name)
				}
			}
			got = append(got, m.name+": "+strings.Join(on, " "))
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("prepare_on %q: %s", tt.on, s)
		}
	}
	w := newWorld()
	bad := &scripted{fakeMachine: fakeMachine{w, "host", true}, err: &iotax.ExitError{Args: []string{"sh"}, Code: 3, Stderr: "no purge"}}
	d := w.deps()
	d.Host = bad
	trial := &iotax.Trial{}
	runTrial(context.Background(), d, &fakeWorkload{w, "w"}, &iotax.Target{Machine: bad}, trial, plan.Measure{Prepare: "purge"})
	if w.trials != 0 || !strings.Contains(trial.Err, "no purge") || !strings.Contains(trial.Err, "hint: ") {
		t.Errorf("%d trials after a failed command: %s", w.trials, trial.Err)
	}
}

// The plan's prepare command runs in an empty directory, not in the working directory of iotax.
func TestPrepareCommandInEmptyDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Chdir(t.TempDir())
	if err := os.Mkdir("out", 0o755); err != nil {
		t.Fatal(err)
	}
	d := Deps{Host: host.Local()}
	m := plan.Measure{Prepare: `rm -rf out; [ -z "$(ls)" ] && touch made`}
	if err := prepare(t.Context(), d, &iotax.Target{Machine: d.Host}, m); err != nil {
		t.Error(err)
	}
	m.Prepare = "exit 3"
	if err := prepare(t.Context(), d, &iotax.Target{Machine: d.Host}, m); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a command that fails: %v", err)
	}
	if left, err := filepath.Glob(os.Getenv("TMPDIR") + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat("out"); err != nil {
		t.Error(err)
	}
	m.Prepare = "./drop.sh"
	if err := prepare(t.Context(), d, &iotax.Target{Machine: d.Host}, m); err == nil || !strings.Contains(err.Error(), "it runs in an empty directory: write paths in full") {
		t.Errorf("a relative path: %v", err)
	}
	if _, err := os.Stat("/proc/self/fdinfo"); err != nil {
		return
	}
	// No temporary directory can be created, as in a container with a read-only root.
	made := t.TempDir() + "/made"
	t.Setenv("TMPDIR", "/proc")
	m.Prepare = "touch " + made
	if err := prepare(t.Context(), d, &iotax.Target{Machine: d.Host}, m); err != nil {
		t.Errorf("no directory can be made: %v", err)
	}
	if _, err := os.Stat(made); err != nil {
		t.Error(err)
	}
	m.Prepare = "touch made; rm -rf ./* 2>/dev/null; pwd >&2; exit 3"
	if err := prepare(t.Context(), d, &iotax.Target{Machine: d.Host}, m); err == nil || !strings.Contains(err.Error(), "/fdinfo") {
		t.Errorf("no directory can be made: %v", err)
	}
}

// scripted records the commands that it runs. Its agent runs in this process.
type scripted struct {
	fakeMachine
	link *agent.Link
	ran  []string
	err  error
}

func (s *scripted) Caps() iotax.MachineCaps {
	c := s.fakeMachine.Caps()
	if s.link == nil {
		s.link = &agent.Link{Start: func(ctx context.Context) (*agent.Session, error) {
			here, there := net.Pipe()
			go func() { _ = agent.Serve(context.WithoutCancel(ctx), s, there, there); there.Close() }()
			return agent.Meet(here, here, here.Close)
		}}
	}
	c.Agent = s.link
	return c
}

func (s *scripted) Run(_ context.Context, c *iotax.Cmd) error {
	s.ran = append(s.ran, c.String())
	return s.err
}

func TestGovernorIsUndone(t *testing.T) {
	for _, fault := range []error{nil, errors.New("no right")} {
		w := newWorld()
		d := w.deps()
		d.Governor = func(want string) (func() error, []iotax.Finding, error) {
			w.say("set %s", want)
			return func() error { w.say("restore"); return nil }, []iotax.Finding{{Rule: "no-governor"}}, fault
		}
		p := guestPlan("w")
		p.Measure.Governor = "performance"
		r, err := Run(context.Background(), p, d, Options{ID: "r"})
		if !errors.Is(err, fault) || !has(w.log, "set performance") || !has(w.log, "restore") || r.Findings[0].Rule != "no-governor" {
			t.Errorf("%v, %v, %q", err, r.Findings, w.log)
		}
		if fault != nil && r.Status != iotax.Failed {
			t.Errorf("status %s", r.Status)
		}
	}
}
